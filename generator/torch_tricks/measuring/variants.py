"""Variants of a project: copies with other tricks."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_tricks.errors import Refusal
from torch_tricks.merging import plan_update, render_base, scratch_for
from torch_tricks.project import Project
from torch_tricks.template import Rendering

PLAIN = "as it is"
TOGETHER = "all together"


@dataclass(frozen=True)
class Variant:
    """A copy of the project with other tricks."""

    name: str
    place: Path
    """Folder of the copies."""
    tricks: tuple[str, ...]

    @property
    def label(self) -> str:
        """The name in the form of a file name."""
        return re.sub(r"\W+", "-", self.name)

    @property
    def directory(self) -> Path:
        """Folder of the copy."""
        return self.place / self.label


def write_variants(
    project: Project, place: Path, wanted: Sequence[str]
) -> list[Variant]:
    """Writes copies of a project: as it is, and with each change of tricks."""
    shutil.rmtree(place, ignore_errors=True)
    variants, changes = [], [[word] for word in wanted]
    if len(wanted) > 1:
        changes.append(list(wanted))
    for words in changes:
        with scratch_for(project) as (scratch, aside):
            project, base = render_base(project, scratch, aside)
            name = TOGETHER
            if len(words) == 1:
                name = f"{'without' if words[0] in base.tricks else 'with'} {words[0]}"
            try:
                answers = changed_answers(base, words)
            except Refusal as error:
                raise Refusal(f"{name}: {error}") from error
            new = project.render(aside, answers)
            plan = plan_update(project, scratch, base.directory, new.directory)
            if plan.needs_a_look:
                trouble = sorted({*plan.conflicts, *plan.kept, *plan.missing})
                raise Refusal(
                    f"{name}, the project would have to be fixed by hand in "
                    f"{', '.join(trouble)}: run torch-tricks add or remove, resolve it and "
                    "commit, and measure that"
                )
            if not variants:
                variants.append(Variant(PLAIN, place, tuple(base.tricks)))
                scratch.write_out(plan.before, variants[0].directory)
            variants.append(Variant(name, place, tuple(new.tricks)))
            scratch.write_out(plan.after, variants[-1].directory)
    return variants


def changed_answers(base: Rendering, names: Sequence[str]) -> dict[str, Any]:
    """Returns the answers with some tricks switched: added, or removed if present."""
    for name in base.questions.find(names):
        if base.questions.tricks[name].choices:
            raise Refusal(
                f"{name} is not measured, as its forms are started in different ways: measure "
                "other tricks in a project with each"
            )
    leave = [name for name in names if name in base.tricks]
    take = [name for name in names if name not in base.tricks]
    return {"preset": "custom"} | base.questions.changed(base.answers, take, leave)


def fields_of(variant: Variant) -> set[str]:
    """Returns the names of the settings of a variant."""
    texts = (p.read_text("utf-8") for p in variant.directory.glob("*/settings.py"))
    return {name for text in texts for name in re.findall(r"(?m)^    (\w+):", text)}


def directions_of(variant: Variant) -> dict[str, str]:
    """Returns the better direction of each metric, `higher` or `lower`, if it is known."""
    known = ("val_loss", "seconds_per_step", "startup_seconds", "seconds_in_all")
    directions = dict.fromkeys((*known, "peak_memory_bytes"), "lower")
    for path in variant.directory.glob("*/task.py"):
        text = path.read_text(encoding="utf-8")
        result = re.search(r'^RESULT = "(\w+)"', text, re.MULTILINE)
        best = re.search(r"^BEST = (max|min)$", text, re.MULTILINE)
        if result and best:
            directions[f"val_{result[1]}"] = {"max": "higher", "min": "lower"}[best[1]]
    return directions
