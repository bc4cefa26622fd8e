"""Prints what each trick costs in the template: its lines, its files, and its meetings.

A line belongs to a trick if a condition around it asks for the trick. A meeting is a condition,
with those around it, that asks for the trick and for another one.
"""

import re

from blocks import Condition, Template, own_template
from torch_tricks.catalogue import own_catalogue


def tricks_asked(condition: Condition, template: Template) -> frozenset[str]:
    """Returns the tricks that a condition asks for, those of computed conditions included."""
    words: set[str] = set()
    for expression, _ in condition:
        for word in re.findall(r"\w+", expression):
            words |= {word, *re.findall(r"\w+", template.computed.get(word, ""))}
    return frozenset(words & own_catalogue().keys())


def main() -> None:
    template = own_template()
    lines = dict.fromkeys(own_catalogue(), 0)
    files: dict[str, set[str]] = {name: set() for name in lines}
    meetings: dict[str, set[tuple[str, Condition]]] = {name: set() for name in lines}
    total, shared = 0, 0
    for source in template.sources:
        for block in source.blocks:
            condition = (*source.condition, *block.condition)
            asked = tricks_asked(condition, template)
            count = block.text.count("\n")
            total += count
            shared += count if not asked else 0
            for name in asked:
                lines[name] += count
                files[name].add(source.path)
                if len(asked) > 1:
                    meetings[name].add((source.path, condition))
    print(f"{'trick':24} {'lines':>6} {'files':>6} {'meetings':>9}")
    for name in sorted(lines, key=lambda name: -lines[name]):
        row = (lines[name], len(files[name]), len(meetings[name]))
        print(f"{name:24} {row[0]:6} {row[1]:6} {row[2]:9}")
    together = set().union(*meetings.values())
    everywhere = len(template.sources)
    print(f"{'in all':24} {total:6} {everywhere:6} {len(together):9}")
    print(f"{shared} lines are in every project")


if __name__ == "__main__":
    main()
