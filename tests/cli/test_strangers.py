"""Projects and templates that a stranger wrote: nothing in them runs, or writes elsewhere.

SECURITY.md promises it. The last tests hold what can evaluate or write in the tool to a list,
so that a new place joins these tests.
"""

import ast
import re
import shutil
from functools import partial
from pathlib import Path

import pytest
import write_page
import yaml
from blocks import UnknownConstruct, files_in, read_template
from commands import commit, copy_questions, git
from parts import few_of
from subsets import ROOT
from torch_tricks import cli
from torch_tricks.catalogue import read_questions
from typer.testing import CliRunner

HEADING = "{{ catalogue[name].title }}"
LOOP = f"{{% for name in chosen %}}\n### {HEADING}\n\n{{% endfor %}}\n"
ANSWERS = "{{ _copier_answers | to_nice_yaml -}}\n"

SHELL = 'lipsum.__globals__["os"].system("touch ran")'
IMPORT = '().__class__.__base__.__subclasses__()[0]("touch ran")'

ENDLESS = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"
DEEP = f"\n{{% if {'not ' * 400}name in chosen %}}\na\n{{% endif %}}\n###"


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def in_loop(expression):
    """A place in the loop through the tricks."""
    text = LOOP.replace(HEADING, f"{{{{ {expression} }}}}")
    return partial(write, name="template/README.md.jinja", text=text)


def anywhere(line):
    """A line outside of the loop."""
    return partial(write, name="template/notes.txt.jinja", text=line)


def at(name, text="#!/bin/sh\ntouch ran\n"):
    """A file that would go somewhere else."""

    def attack(work):
        write(work, f"template/{name}", text)
        (work / "template" / name).chmod(0o755)

    return attack


def in_questions(name, entry, text):
    """An expression in `copier.yml`."""

    def attack(work):
        path = work / "copier.yml"
        raw = read_questions(ROOT)
        raw[name] = {**raw[name], entry: text} if entry else text
        path.write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")

    return attack


def link(name, target):
    def attack(work):
        path = work / "template" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    return attack


def linked_section(work):
    """The loop includes a file from outside the template."""
    section = (
        '{% include "template/{{ trick." ~ name ~ " }}/readme_section.md.jinja" %}'
    )
    write(work, "template/README.md.jinja", LOOP.replace(HEADING, f"\n{section}"))
    link("{{ trick.folders }}/readme_section.md.jinja", "../../../../secret/key")(work)


def smudge(work):
    """A filter of the repository, which a bare one in the project could bring along."""
    write(work, "template/.gitattributes", "* filter=shell\n")
    git(work, "config", "filter.shell.smudge", "touch ../ran; cat")


ATTACKS = {
    "nothing": lambda work: None,
    "shell in the loop": in_loop(SHELL),
    "name and shell in the loop": in_loop(f"name ~ {SHELL}"),
    "classes in the loop": in_loop(f"name and {IMPORT}"),
    "attributes of the catalogue": in_loop("catalogue[name].__class__.__mro__"),
    "a method in the loop": in_loop('name.format("touch ran")'),
    "shell in a place": anywhere(f"{{{{ {SHELL} }}}}\n"),
    "shell in a condition": anywhere(f"{{% if {SHELL} %}}\na\n{{% endif %}}\n"),
    "shell in a tag": anywhere(f"{{% set x = {SHELL} %}}\n"),
    "shell in a path": at(f"{{{{ {SHELL.replace('/', '')} }}}}.txt"),
    "above by a condition": at("{{ trick.folders }}./planted"),
    "above by a name": at("{{ project_name }}/planted"),
    "above by words": at("{{ description }}/planted"),
    "absolute": at("{{ trick.folders }}/{{ author }}/planted"),
    "into git's folder": at("{{ trick.folders }}/.git/hooks/pre-commit"),
    "a link to a folder": link("out", "../../../secret"),
    "a link to a file": link("README.txt.jinja", "../../../secret/key"),
    "a link to a section": linked_section,
    "an include of another file": anywhere('{% include "../../secret/key" %}\n'),
    "tasks": in_questions("_tasks", "", ["touch ran"]),
    "migrations": in_questions("_migrations", "", [{"command": "touch ran"}]),
    "extensions": in_questions("_jinja_extensions", "", ["os.system"]),
    "a validator": in_questions("author", "validator", f"{{{{ {SHELL} }}}}"),
    "a default": in_questions("distributed", "default", f"{{{{ {SHELL} }}}}"),
    "a division by zero": in_questions("author", "validator", "{{ 1 // 0 }}"),
    "no end": in_questions("author", "validator", ENDLESS),
    "a deep condition": anywhere(
        f"{{% if {'not ' * 900}chosen %}}\na\n{{% endif %}}\n"
    ),
    "a deep condition in the loop": anywhere(LOOP.replace("\n###", DEEP)),
    "reserved names": in_questions("reserved_names", "default", f"{{{{ {SHELL} }}}}"),
    "a tag of YAML": lambda work: write(
        work, "copier.yml", 'preset: !!python/object/apply:os.system ["touch ran"]\n'
    ),
    "a filter": smudge,
}

LOOKS = [("list",), ("show", "folders"), ("status",), ("add", "swa")]
CHANGES = [
    ("show", "swa"),
    ("remove", "folders"),
    ("update", "--defaults"),
    ("measure", "swa", "--repeats", "2"),
    ("new", "../fresh", "--template", ".", "--defaults"),
]


@pytest.fixture(autouse=True)
def at_the_hub(tmp_path, monkeypatch):
    """Leaves Copier as it is: what makes it quick for other tests lacks its checks."""
    monkeypatch.setenv("COPIER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def stranger(attack, tmp_path, monkeypatch):
    """A cloned project that is its own template, in a folder that nothing may leave."""
    work = tmp_path / "room" / "project"
    write(work, "template/README.md.jinja", LOOP)
    write(work, "template/{{ _copier_conf.answers_file }}.jinja", ANSWERS)
    copy_questions(work)
    git(work, "init", "--quiet")
    ATTACKS[attack](work)
    commit(work)
    answers = {
        "_src_path": ".",
        "_commit": git(work, "rev-parse", "HEAD").strip(),
        "author": "/nowhere-at-all",
        "description": "../../above",
        "package_name": "leaves",
        "task": "classification",
        "parallel": "none",
        "preset": "custom",
        "tricks": ["folders"],
        "project_name": "..",
    }
    write(work, ".copier-answers.yml", yaml.safe_dump(answers))
    write(work, "README.md", "mine\n")
    commit(work)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "room" / "tmp"))
    (tmp_path / "room" / "tmp").mkdir()
    write(tmp_path, "secret/key", "secret\n")
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(work)
    return work


COMPILED = (
    r"cache(/torch-tricks(/compiled(/[0-9a-f]{64}(/__jinja2_[0-9a-f]{40}\.cache)?)?)?)?"
)
"""Compiled templates in the user's cache, under hashes."""


def around(work):
    """All that lies around a project, less compiled templates, what git keeps and a new project."""
    room = work.parent.parent
    return {
        str(path.relative_to(room)): path.lstat().st_mode
        for path in room.rglob("*")
        if not re.fullmatch(COMPILED, str(path.relative_to(room)))
        and not path.is_relative_to(work)
        and not path.is_relative_to(room / "room/fresh")
    }


def hooks(work):
    folder = work / ".git" / "hooks"
    return {path: path.read_bytes() for path in folder.glob("*")}


@pytest.mark.parametrize(
    "attack", few_of(ATTACKS, [*ATTACKS].index("shell in the loop"))
)
def test_no_command_that_looks_runs_or_leaves_its_folder(stranger, attack):
    check_commands(stranger, attack, LOOKS)


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_command_that_changes_runs_or_leaves_its_folder(stranger, attack):
    check_commands(stranger, attack, CHANGES)


def check_commands(stranger, attack, commands):
    before, of_git = around(stranger), hooks(stranger)
    for command in commands:
        result = CliRunner().invoke(cli.app, command)
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            command,
            result.exception,
        )
        if attack == "nothing" and command[0] != "measure":
            # The owner's README.md is in conflict.
            assert result.exit_code in (0, 1), (command, result.stderr)
        assert not [*stranger.parents[1].rglob("ran")], command
        assert around(stranger) == before, command
        assert not Path("/nowhere-at-all").exists(), command
        assert hooks(stranger) == of_git, command
        fresh = stranger.parent / "fresh"
        assert not (fresh / ".git").exists(), command
        for project in (stranger, fresh):
            readme = project / "README.md"
            assert not readme.exists() or "secret" not in readme.read_text(), command
        git(stranger, "reset", "--quiet", "--hard")
        git(stranger, "clean", "--quiet", "--force", "-d")
        shutil.rmtree(fresh, ignore_errors=True)


@pytest.mark.parametrize("name", ["leaves", "leaves.git"])
def test_no_program_that_a_bare_repository_names_runs(name, tmp_path, monkeypatch):
    """Its configuration is a file like others, in a project that somebody clones."""
    work, project, ran = tmp_path / "work", tmp_path / "project", tmp_path / "ran"
    bare = project / name
    write(work, "template/README.md.jinja", LOOP)
    copy_questions(work)
    answers = {"_src_path": name, "_commit": "HEAD", "project_name": "Leaves"}
    write(work, ".copier-answers.yml", yaml.safe_dump(answers))
    write(work, ".gitattributes", "* filter=shell\n")
    git(work, "init", "--quiet")
    commit(work)
    git(tmp_path, "clone", "--quiet", "--bare", work, bare)
    git(bare, "--work-tree", work, "add", "--all")
    for file in (".copier-answers.yml", ".gitattributes", "copier.yml"):
        shutil.copy(work / file, bare)
    settings = {"core.bare": "false", "core.worktree": "."}
    settings |= {"core.fsmonitor": f"touch {ran}; false"}
    settings |= {"filter.shell.clean": f"touch {ran}; cat"}
    for setting, value in settings.items():
        git(bare, f"--git-dir={bare}", "config", setting, value)
    ran.unlink(missing_ok=True)
    git(project, "init", "--quiet")
    shutil.copy(work / ".copier-answers.yml", project)
    monkeypatch.chdir(project)
    new = ("new", "../fresh", "--template", name, "--defaults")
    for command in (*LOOKS, ("update", "--defaults"), new):
        CliRunner().invoke(cli.app, command)
        assert not ran.exists(), command
    for command in (("add", "swa"), ("status",)):
        CliRunner().invoke(cli.app, (*command, "--project", name))
        assert not ran.exists(), command


@pytest.mark.parametrize("attack", few_of(ATTACKS, *range(0, len(ATTACKS), 4)))
def test_the_page_is_not_built_of_it(stranger):
    try:
        raw = read_questions(stranger)
        write_page.read(read_template(files_in(stranger / "template"), raw), raw)
    except (KeyError, TypeError, UnknownConstruct, ValueError):
        pass
    assert not [*stranger.parents[1].rglob("ran")]


EVALUATING = {
    "blocks.compiled": "conditions, made of what ASKED lists",
    "blocks.evaluate": "the same, with the names of what was chosen",
    "preview.environment": "Jinja's sandbox",
    "preview.evaluate": "the same",
    "preview.render": "the same",
}
"""Every function that evaluates text, and what keeps it from running code."""

WRITING = {
    "cli.main": "nothing: the end of the output",
    "creating.keep_own_files": "a temporary folder",
    "creating.move_beside": "the folder that the user named, through no link",
    "creating.move_into_place": "the folder that the user named",
    "creating.scratch_beside": "the same, and the folders above it",
    "git.__init__": "a temporary folder",
    "git._with_new_index": "a temporary folder",
    "git.merge_file": "a temporary folder",
    "blocks.write": "paths that place_of has checked",
    "preview.compiled_templates": "the user's cache, under a hash",
    "preview.write": "paths that Version.render has checked",
    "measure.check_free": "a folder that the user named",
    "measure.prepare": "the project's runs, or a folder that the user named",
    "project.render": "a temporary folder",
    "store.fetch": "the user's cache, under the hash of an address",
    "template.ask_own": "a temporary folder",
    "training.train": "the project's runs, or a folder that the user named",
    "training.train_all": "the same",
    "variants.write_variants": "the same, by git, which takes no path out of it",
    "merging._index_with_undo": "a temporary folder",
    "merging._remove": "files that git tracks",
    "merging._replace_index": "git's index",
    "write_page.main": "the file that the user named",
}
"""Every function that writes or removes by itself, and where."""

BY_EVALUATING = {"eval", "exec", "compile", "__import__", "from_string", "get_template"}
BY_EVALUATING |= {"compile_expression", "Environment", "SandboxedEnvironment"}
BY_WRITING = {"write_text", "write_bytes", "open", "mkdir", "chmod", "symlink_to"}
BY_WRITING |= {"copyfile", "copytree", "copy", "copy2", "move", "rename", "extractall"}
BY_WRITING |= {"unlink", "rmdir", "rmtree"}


@pytest.mark.parametrize(
    ("names", "known"),
    [(BY_EVALUATING, EVALUATING), (BY_WRITING, WRITING)],
    ids=["evaluates", "writes"],
)
def test_every_place_that_does_is_known(names, known):
    assert places(names) == known.keys(), "try it with ATTACKS, and list it"


def places(names):
    """The functions of the tool and of the page's builder that call one of some names."""
    found = set()
    paths = [
        *(ROOT / "generator/torch_tricks").rglob("*.py"),
        ROOT / "tools/write_page.py",
        ROOT / "tools/blocks.py",
    ]
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                found |= {
                    f"{path.stem}.{node.name}"
                    for call in ast.walk(node)
                    if called(call) in names
                }
    return found


def called(node):
    """The name of what a node calls, without that of its object."""
    if not isinstance(node, ast.Call):
        return None
    return getattr(node.func, "attr", getattr(node.func, "id", None))
