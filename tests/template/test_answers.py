"""Free text is untrusted: it is refused, or it is in the project exactly as typed."""

import ast
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from parts import at_once
from rendering import render
from torch_tricks.preview import own_version
from write_page import reserved_names

NASTY = [
    '"',
    "'",
    '"""',
    "\\",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "#",
    ": ",
    "]",
    "\U0001f642",
]
text = st.one_of(
    st.text(max_size=90),
    st.lists(st.sampled_from([*NASTY, "a", " ", "\n", "\x85", "\ufeff"])).map("".join),
)
refused_characters = {
    *map(chr, range(0x20)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u2028\u2029\ufffe\uffff",
}


def is_plain(text, longest):
    return (
        len(text) <= longest
        and text == text.strip()
        and not refused_characters & set(text)
    )


@pytest.mark.parametrize("examples", at_once([4, 80], 4))
def test_text_is_refused_or_kept_exactly(examples):
    @settings(max_examples=examples, deadline=None)
    @given(name=text, description=text, author=text)
    @example('"; import os #', 'Say "hi" \\', 'O\'Neil, "Bo" \\n')
    @example("{{ 1/0 }}", "{% for %}", "{# x #}")
    @example("null", "yes", "1e3")
    @example("\U0001f40d", "é", "中文")
    def run(name, description, author):
        answers = {"project_name": name, "description": description, "author": author}
        accepted = name and is_plain(name, 80) and is_plain(author, 80)
        if accepted and description and is_plain(description, 200):
            check_project(answers)
            return
        with TemporaryDirectory() as directory, pytest.raises(ValueError):
            render(Path(directory) / "project", answers)

    run()


def check_project(answers):
    """Renders a project, and looks for the answers where they belong."""
    with TemporaryDirectory() as directory:
        project = render(Path(directory) / "project", answers)
        files = {
            path.name: path.read_text("utf-8")
            for path in project.iterdir()
            if path.is_file()
        }
        for file in project.rglob("*.py"):
            ast.parse(file.read_text(encoding="utf-8"))
        for file in project.rglob("*.yml"):
            yaml.safe_load(file.read_text(encoding="utf-8"))
    metadata = tomllib.loads(files["pyproject.toml"])["project"]
    assert metadata["description"] == answers["description"]
    authors = [{"name": answers["author"]}] if answers["author"] else []
    assert metadata.get("authors", []) == authors
    recorded = yaml.safe_load(files[".copier-answers.yml"])
    assert recorded.items() >= answers.items()
    assert files["README.md"].startswith(f"# {answers['project_name']}\n")


VERSION = own_version()
RESERVED = {"reserved_names": " ".join(reserved_names(VERSION))}


@given(name=text.filter(lambda name: name and is_plain(name, 80)))
def test_every_project_name_gives_a_good_package_name(name):
    answers = {"project_name": name} | RESERVED
    package = VERSION.default("package_name", answers)
    assert package.isidentifier() and len(package) <= 30
    assert VERSION.fault("package_name", answers | {"package_name": package}) == ""


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("Müller Pilze", "muller_pilze"),
        ("Mu\u0308ller", "muller"),
        ("Straße nach Łódź", "strasse_nach_lodz"),
        ("Œuvre, Ørsted & Æbelø", "oeuvre_orsted_aebelo"),
        ("Ñandú ç İzmir ısı", "nandu_c_izmir_isi"),
        ("Þór Guðrún", "thor_gudrun"),
        ("Грибы 2", "project"),
        ("葉 leaf", "leaf"),
        ("a\ue000b \U0001f344", "a_b"),
        (r"\N{LATIN SMALL LETTER A}", "n_latin_small_letter_a"),
        ("Google", "my_google"),
        ("Pandas", "my_pandas"),
        ("Torch", "my_torch"),
        ("class", "my_class"),
        ("3D Scans", "d_scans"),
        ("train", "my_train"),
    ],
)
def test_names_give_names_of_packages(name, package):
    answers = {"project_name": name} | RESERVED
    assert VERSION.default("package_name", answers) == package
