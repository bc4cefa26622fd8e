"""Options of the loss from the settings of tricks."""

from torch import Tensor, nn

from .errors import UserError


def set_options(criterion: nn.Module, **options: Tensor | float | None) -> None:
    """Sets attributes of the criterion.

    Raises:
        UserError: the criterion has no such attribute.
    """
    for name, value in options.items():
        if hasattr(criterion, name):
            setattr(criterion, name, value)
        elif isinstance(value, Tensor) or value:
            raise UserError(
                f"the Criterion in task.py has no {name}: use {name} in its loss, or "
                "switch the trick off (README, Change it)"
            )
