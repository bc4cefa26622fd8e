"""Free text is untrusted: it is refused, or it is in the project exactly as typed."""

import ast
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rendering import render

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


@settings(max_examples=60, deadline=None)
@given(name=text, description=text, author=text)
@example(name='"; import os #', description='Say "hi" \\', author='O\'Neil, "Bo" \\n')
@example(name="{{ 1/0 }}", description="{% for %}", author="{# x #}")
@example(name="null", description="yes", author="1e3")
@example(name="\U0001f40d", description="é", author="中文")
def test_text_is_refused_or_kept_exactly(name, description, author):
    accepted = (
        is_plain(name, 80)
        and name
        and is_plain(description, 200)
        and description
        and is_plain(author, 80)
    )
    answers = {"project_name": name, "description": description, "author": author}
    with TemporaryDirectory() as directory:
        project = Path(directory) / "project"
        try:
            render(project, answers)
        except ValueError as error:
            assert not accepted, error
            assert not project.exists()
            return
        assert accepted
        for file in project.rglob("*.py"):
            ast.parse(file.read_text(encoding="utf-8"))
        for file in project.rglob("*.yml"):
            yaml.safe_load(file.read_text(encoding="utf-8"))
        toml = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
        assert toml["project"]["description"] == description
        authors = [{"name": author}] if author else []
        assert toml["project"].get("authors", []) == authors
        recorded = (project / ".copier-answers.yml").read_text(encoding="utf-8")
        assert yaml.safe_load(recorded).items() >= answers.items()
        assert (
            (project / "README.md")
            .read_text(encoding="utf-8")
            .startswith(f"# {name}\n")
        )


@settings(max_examples=30, deadline=None)
@given(name=text.filter(lambda name: name and is_plain(name, 80)))
@example(name="Torch")
@example(name="class")
@example(name="3D Scans")
@example(name="train")
def test_every_project_name_gives_a_good_package_name(name):
    with TemporaryDirectory() as directory:
        project = Path(directory) / "project"
        render(project, {"project_name": name})
        (init,) = project.glob("*/__init__.py")
        assert init.parent.name.isidentifier()
        assert len(init.parent.name) <= 30


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
    ],
)
def test_accented_letters_become_plain_ones(name, package, tmp_path):
    render(tmp_path / "project", {"project_name": name})
    [init] = (tmp_path / "project").glob("*/__init__.py")
    assert init.parent.name == package
