"""Groups of images for cross-validation, such as the images of a patient."""

import os
import re
from collections.abc import Hashable, Mapping, Sequence

from ..errors import UserError
from ..names import plain
from ..settings import Settings


def find_groups(
    files: Sequence[str], listed: Mapping[str, str], settings: Settings
) -> Sequence[Hashable]:
    """Returns the group of each file, from GROUP_COLUMN or GROUP_PATTERN.

    By default, each file is its own group.

    Args:
        listed: cells of GROUP_COLUMN.
    """
    if settings.group_column is not None:
        if not listed:
            raise UserError("--group-column is a column of a list: pass --data csv")
        return [listed[file] for file in files]
    if settings.group_pattern is None:
        return range(len(files))
    try:
        pattern = re.compile(settings.group_pattern)
    except re.error as error:
        raise UserError(f"cannot use --group-pattern ({error}): fix it") from error
    groups = []
    place = os.path.join(settings.data_dir, "")
    for file in files:
        path = file.removeprefix(place).replace(os.sep, "/")
        match = pattern.search(path)
        group = match and plain(match[1 if pattern.groups else 0] or "")
        if not group:
            raise UserError(f"--group-pattern finds no group in {path}: pass another")
        groups.append(group)
    return groups
