"""Versions of the template: the one at hand, and what later ones may bring.

Each is a commit with a tag in a bare repository, which Copier reaches at
the published address without a network.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import plumbum
from subsets import ROOT
from torch_tricks.template import PUBLISHED

REPOSITORY = f"{PUBLISHED.removeprefix('gh:')}.git"
"""Where the hub has it."""
IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Test"), ("EMAIL", "test@example.com"))
} | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
PACKAGE = "template/{{ package_name }}"


def git(directory: Path, *arguments: object) -> str:
    """Runs git as somebody with a name, and with no one's configuration but a test's."""
    return os.fsdecode(
        subprocess.run(
            ["git", "-C", directory, *arguments],
            capture_output=True,
            check=True,
            env=IDENTITY | os.environ,
        ).stdout
    )


def edit(path: Path, old: str, new: str) -> None:
    """Changes a file, and fails if it does not have the old text."""
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path} has no {old!r}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def rename(tree: Path, pattern: str, old: str, new: str) -> None:
    """Renames the one file that matches, and every import of the module."""
    [path] = (tree / "template").glob(pattern)
    path.rename(path.with_name(path.name.replace(f"{old}.py", f"{new}.py")))
    imports = re.compile(rf"^(from .*\.){old}( import )", re.MULTILINE)
    for file in (tree / "template").rglob("*.*"):
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            text = text.replace(f"/{old}.py", f"/{new}.py")
            file.write_text(imports.sub(rf"\1{new}\2", text), encoding="utf-8")


PRACTICES = ("folders", "csv", "evaluate", "predict")
"""Parts of every project, before each became a row of the catalogue."""


def before_practices(tree: Path) -> None:
    """A version before the first: all projects have the practices, which are no rows.

    No task is asked for: all projects are of the first.
    """
    text = (tree / "copier.yml").read_text(encoding="utf-8")
    text = re.sub(r"^    task: tasks\n", "", text, flags=re.MULTILINE)
    hidden = "task:\n  type: str\n  when: false\n  default: classification\n"
    text = re.sub(r"^task:\n(  .*\n)+", hidden, text, flags=re.MULTILINE)
    names = "|".join(PRACTICES)
    asked = re.compile(rf"(['\"])(?:{names})\1 in chosen")
    text = re.sub(rf"(?<=[\[ ])(?:{names})(?:, |(?=\]))", "", text)
    (tree / "copier.yml").write_text(asked.sub("true", text), encoding="utf-8")
    template = tree / "template"
    for path in sorted(template.rglob("*")):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            if path.name == "row.yml":
                text = re.sub(r"^tasks: .*\n", "", text, flags=re.MULTILINE)
            path.write_text(asked.sub("true", text), encoding="utf-8")
            os.renames(path, re.sub(rf"{{{{ trick\.(?:{names}) }}}}/", "", str(path)))
    for name in ("row.yml", "readme_section.md.jinja"):
        (template / name).unlink()


def as_it_is(tree: Path) -> None:
    """The version of this clone."""
    shutil.rmtree(tree / "template", ignore_errors=True)
    shutil.copytree(ROOT / "template", tree / "template")
    shutil.copy(ROOT / "copier.yml", tree)


def wording(tree: Path) -> None:
    """A patch: other words in comments, documentation and one question."""
    edit(tree / "template/train.py.jinja", "Trains a model", "Trains the model")
    edit(tree / f"{PACKAGE}/files.py.jinja", "Atomic writing", "Whole writing")
    edit(tree / "template/README.md.jinja", "## Install\n", "## Installation\n")
    edit(tree / "copier.yml", "help: Which tricks?", "help: Which training tricks?")


NEW_TRICK = "sign_gradients"
"""A trick that will never be in the template, so that no real one is in its way."""

ROW = f"""\
name: {NEW_TRICK}
title: Signs of gradients
buys: steps of one size
source: https://arxiv.org/abs/1802.04434
recommended: true
"""
MODULE = '''"""Signs of gradients."""

from torch import nn


def sign_gradients(model: nn.Module, scale: float) -> None:
    """Replaces each gradient by its sign, times a scale (arXiv:1802.04434)."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.sign_().mul_(scale)
'''


def trick(tree: Path) -> None:
    """A minor version: a trick more, which the preset has, with a module and a setting."""
    edit(tree / "copier.yml", ", video]", f", video, {NEW_TRICK}]")
    chosen = f'{{% if "{NEW_TRICK}" in chosen %}}'
    folder = tree / "template" / f"{{{{ trick.{NEW_TRICK} }}}}"
    module = folder / "{{ package_name }}" / "optim" / "signs.py"
    module.parent.mkdir(parents=True)
    module.write_text(MODULE, encoding="utf-8")
    (folder / "row.yml").write_text(ROW, encoding="utf-8")
    section = folder / "readme_section.md.jinja"
    section.write_text("The optimizer gets their signs.\n\n", encoding="utf-8")
    for name, after, lines in (
        (
            f"{PACKAGE}/settings.py.jinja",
            '    """Nesterov momentum of `sgd` (0 to below 1)."""\n',
            '    sign_scale: float = 1.0\n    """Size of each gradient."""\n',
        ),
        (
            "template/train.py.jinja",
            "from {{ package_name }}.settings import Settings\n",
            "from {{ package_name }}.optim.signs import sign_gradients\n",
        ),
        (
            "template/train.py.jinja",
            "    add_penalty_gradient(run.model, run.settings.l1)\n{% endif %}\n",
            "    sign_gradients(run.model, run.settings.sign_scale)\n",
        ),
    ):
        edit(tree / name, after, f"{after}{chosen}\n{lines}{{% endif %}}\n")


def defaults(tree: Path) -> None:
    """A minor version: other defaults, changed lines, and a new file."""
    settings = tree / PACKAGE / "settings.py.jinja"
    edit(settings, "epochs: PositiveInt = 10\n", "epochs: PositiveInt = 12\n")
    edit(settings, "Count = 128\n", "Count = 256\n")
    edit(
        tree / "copier.yml",
        '"classification": "Image classification"',
        '"classification": "Classification of images"',
    )
    edit(tree / f"{PACKAGE}/log.py.jinja", 'unit="batch"', 'unit="batches"')
    edit(tree / f"{PACKAGE}/files.py.jinja", "import os\n", "import os\nimport sys\n")
    edit(tree / "template/.gitignore.jinja", "build/\n", "build/\nwheels/\n")
    edit(tree / "template/pyproject.toml.jinja", "\n[tool.", "\n# A tool.\n[tool.")
    (tree / "template" / "CITATION.cff.jinja").write_text(
        "cff-version: 1.2.0\ntitle: {{ project_name | tojson }}\n", encoding="utf-8"
    )


def layout(tree: Path) -> None:
    """A major version: renamed modules and functions, a removed file, new checkpoints."""
    rename(tree, "*/optim/schedule.py*", "schedule", "learning_rate")
    rename(tree, "*/*/optim/swa.py*", "swa", "averaging")
    rename(tree, "*/tests/optim/test_swa.py*", "test_swa", "test_averaging")
    (tree / "template" / ".github" / "workflows" / "ci.yml").unlink()
    edit(tree / "template/train.py.jinja", "train_step(", "update_weights(")
    [checkpoint] = tree.glob("template/*/*/checkpoint.py*")
    name = str(checkpoint.relative_to(tree))
    [number] = re.findall(
        r"^FORMAT = (\d+)$", checkpoint.read_text("utf-8"), re.MULTILINE
    )
    edit(tree / name, f"\nFORMAT = {number}\n", f"\nFORMAT = {int(number) + 1}\n")


BEFORE_PRACTICES = "v0.0.1"
BEFORE = {BEFORE_PRACTICES: before_practices}

VERSIONS: dict[str, Callable[[Path], None]] = {
    "v0.1.0": as_it_is,
    "v0.1.1": wording,
    "v0.2.0": trick,
    "v0.3.0": defaults,
    "v1.0.0": layout,
}
"""Each tag, and what makes it of the one before."""


def environment(hub: Path, directory: Path) -> dict[str, str]:
    """The environment in which Copier and git find a hub, and no settings of this user."""
    settings = directory / "settings.yml"
    settings.write_text("{}\n")
    return {
        "COPIER_CACHE_DIR": str(directory / "cache"),
        "XDG_CACHE_HOME": str(directory / "user-cache"),
        "COPIER_SETTINGS_PATH": str(settings),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{hub}/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
    }


class Hub:
    """The template's versions as a hub would hold them, and as plain directories."""

    def __init__(
        self,
        directory: Path,
        versions: Mapping[str, Callable[[Path], None]] = BEFORE | VERSIONS,
    ) -> None:
        self.directory = directory
        self.work = directory / "work"
        self.work.mkdir(parents=True)
        as_it_is(self.work)
        git(self.work, "init", "--quiet", "--initial-branch=main")
        for tag, derive in versions.items():
            derive(self.work)
            self.release(tag)
        bare = directory / "hub" / REPOSITORY
        git(directory, "clone", "--quiet", "--bare", self.work, bare)

    def release(self, tag: str) -> None:
        """Commits a version and tags it, and keeps a copy outside of git."""
        git(self.work, "add", "--all")
        git(self.work, "commit", "--quiet", f"--message={tag}")
        git(self.work, "tag", tag)
        ignored = shutil.ignore_patterns(".git")
        shutil.copytree(self.work, self.tree(tag), ignore=ignored)

    def tree(self, version: str) -> Path:
        """A version outside of git."""
        return self.directory / "trees" / version

    @property
    def environment(self) -> Mapping[str, str]:
        return IDENTITY | environment(self.directory / "hub", self.directory)

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Makes this process find it: plumbum keeps an environment of its own."""
        with (
            mock.patch.dict(os.environ, self.environment),
            plumbum.local.env(**self.environment),
        ):
            yield
