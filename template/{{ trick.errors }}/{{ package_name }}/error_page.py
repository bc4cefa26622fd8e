"""Gallery of images as a single HTML file, without external files."""

from base64 import b64encode
from collections import Counter
from typing import NamedTuple

from torch import Tensor
from torchvision.io import encode_jpeg

from .page_template import fill

SMALLEST = 192
"""Smallest height of a picture in pixels."""


class Case(NamedTuple):
    """An image on the page, and its texts."""

    pictures: dict[str, Tensor]
    """Pictures by caption, uint8 of shape (3, H, W)."""
    rows: dict[str, str]
    names: set[str]
    """Names for the filter of the page."""
    wrong: bool
    source: str
    """File or index of the image."""


class Section(NamedTuple):
    """A heading, a sentence and the images below it."""

    title: str
    note: str
    cases: list[Case]


def render_page(
    title: str,
    notes: list[str],
    sections: list[Section],
    colours: dict[str, tuple[int, ...]],
) -> str:
    """Returns the HTML of a page.

    Args:
        notes: paragraphs below the title.
        colours: RGB of each name in the legend. Empty: no legend.
    """
    cases = [case for section in sections for case in section.cases]
    counts = Counter(name for case in cases for name in case.names)
    names = sorted(counts)
    return fill(
        "page",
        title=title,
        notes=[fill("note", note=note) for note in notes],
        legend=[fill("colour", colour=rgb, name=name) for name, rgb in colours.items()],
        options=[
            fill("option", number=number, name=name, count=counts[name])
            for number, name in enumerate(names)
        ],
        sections=[render_section(section, names) for section in sections],
    )


def render_section(section: Section, names: list[str]) -> str:
    """Returns the HTML of a section."""
    cards = [render_card(case, names) for case in section.cases]
    return fill("section", title=section.title, note=section.note, cards=cards)


def render_card(case: Case, names: list[str]) -> str:
    """Returns the HTML of an image."""
    said = ", ".join(f"{name} {value}" for name, value in case.rows.items())
    return fill(
        "card",
        numbers=" ".join(str(names.index(name)) for name in sorted(case.names)),
        kind="wrong" if case.wrong else "right",
        pictures=[
            fill("picture", data=as_data(picture), caption=caption, said=said)
            for caption, picture in case.pictures.items()
        ],
        rows=[
            fill("row", kind=name.lower(), name=name, value=value)
            for name, value in case.rows.items()
        ],
        source=case.source,
    )


def as_data(picture: Tensor) -> str:
    """Encodes a picture as a JPEG data URI; small pictures are enlarged."""
    scale = -(-SMALLEST // picture.shape[1])
    larger = picture.repeat_interleave(scale, dim=1).repeat_interleave(scale, dim=2)
    jpeg = encode_jpeg(larger.cpu(), quality=90).numpy().tobytes()
    return f"data:image/jpeg;base64,{b64encode(jpeg).decode()}"
