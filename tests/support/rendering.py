"""Renders the template quickly, for tests that need hundreds of projects.

As a command it renders what tests/projects/test_gpu.py trains, for a machine that has no Copier:

    python tests/support/rendering.py DIRECTORY
"""

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import copier
import copier._main
import copier._template
import copier._vcs
import jinja2
from blocks import choose, own_template
from covering import TASK
from subsets import ROOT, TASKS, Subset, subsets_for_gpu
from torch_tricks.catalogue import choice_questions, own_questions
from torch_tricks.preview import own_version

PROJECT = {"project_name": "Leaf Diseases"}
PACKAGE = "leaf_diseases"
DESCRIPTIONS = {
    task: own_version().default("description", {TASK: task}) for task in TASKS
}
NAMES = {"preset", *choice_questions(own_questions()), "tricks"}
"""The questions that choose what is rendered."""


def render(destination: Path, answers: Mapping[str, Any]) -> Path:
    """Renders a project as `copier copy` does, from the template as data.

    test_rendering.py holds it to Copier, which decides where more than tricks is answered.
    """
    if not answers.keys() <= NAMES:
        return render_with_copier(destination, answers)
    own_template().write(destination, all_answers(answers))
    return destination


def render_files(answers: Mapping[str, Any]) -> dict[str, str]:
    """Returns the files of a project by their paths."""
    return own_template().render(all_answers(answers))


def all_answers(answers: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the answers to all questions, as Copier would have them."""
    given = {"preset": "recommended", TASK: TASKS[0], **PROJECT, **answers}
    preset = given["preset"]
    given.setdefault("parallel", "dp" if preset == "everything" else "none")
    chosen = choose(own_questions(), preset, given, given.get("tricks", []))
    description = DESCRIPTIONS[given[TASK]]
    given |= {"package_name": PACKAGE, "author": "", "description": description}
    recorded = {"_src_path": str(template_copy())} | given
    if preset != "custom":
        del recorded["parallel"]
    return given | {"chosen": chosen, "recorded": recorded}


def render_with_copier(destination: Path, answers: Mapping[str, Any]) -> Path:
    """Renders a project by Copier, in a sixth of its time."""
    return render_version(template_copy(), destination, answers)


def render_version(
    template: Path, destination: Path, answers: Mapping[str, Any]
) -> Path:
    """Renders a project of a template that lies outside of git."""
    with (
        quick_copier(),
        mock.patch.object(copier._vcs, "is_git_repo_root", return_value=False),
        mock.patch.object(copier._vcs, "is_git_bundle", return_value=False),
    ):
        copier.run_copy(
            str(template),
            destination,
            data=PROJECT | dict(answers),
            defaults=True,
            quiet=True,
        )
    return destination


def contents(project: Path) -> dict[str, tuple[int, bytes]]:
    """Modes and bytes of all files, and modes of all folders, so that an empty folder counts."""
    return {
        path.relative_to(project).as_posix(): (
            path.stat().st_mode,
            b"" if path.is_dir() else path.read_bytes(),
        )
        for path in project.rglob("*")
    }


def load_module(project: Path, name: str) -> ModuleType:
    """Imports a module of a project that imports none of the others."""
    path = project / PACKAGE / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def render_subset(destination: Path, subset: Subset) -> Path:
    """Renders the project of a subset of the tricks."""
    return render(destination, subset.answers)


@cache
def template_copy() -> Path:
    """The template outside of git, which Copier would otherwise ask about versions."""
    # Held until the process ends, which then removes the directory.
    template_copy.holder = tempfile.TemporaryDirectory(prefix="torch-tricks-")
    directory = Path(template_copy.holder.name)
    shutil.copy(ROOT / "copier.yml", directory)
    shutil.copytree(ROOT / "template", directory / "template")
    return directory


@contextmanager
def quick_copier() -> Iterator[None]:
    """Keeps what Copier does anew for each project, or for each file of one."""
    with (
        compiled_templates_kept(),
        one_context_for_all_files(),
        # `git config` for every file only matters inside a checkout.
        mock.patch.object(copier._main, "is_git_available", return_value=False),
    ):
        yield


_compiled: dict[tuple[Any, ...], Any] = {}


@contextmanager
def compiled_templates_kept() -> Iterator[None]:
    """Compiles each template once: Copier makes a new environment for every project."""
    compile_template = jinja2.Environment.compile

    def compile_once(environment, source, name=None, filename=None, *options):
        # The file's name would only appear in tracebacks, and differs in every clone.
        key = (source, name, options)
        if key not in _compiled:
            _compiled[key] = compile_template(
                environment, source, name, filename, *options
            )
        return _compiled[key]

    with mock.patch.object(jinja2.Environment, "compile", compile_once):
        yield


@contextmanager
def one_context_for_all_files() -> Iterator[None]:
    """Collects once what a project's templates may ask for: Copier does so for each part
    of each path, although nothing changes once the questions are answered."""
    worker_class = copier._main.Worker
    render_template = worker_class._render_template

    def render_in_one_context(worker: Any) -> None:
        answers, context = worker.answers_relpath, worker._render_context()
        with (
            mock.patch.object(worker_class, "answers_relpath", answers),
            mock.patch.object(worker_class, "_render_context", lambda _: context),
        ):
            render_template(worker)

    with mock.patch.object(worker_class, "_render_template", render_in_one_context):
        yield


_clones: dict[tuple[str | None, ...], str] = {}


@contextmanager
def clones_kept(directory: Path) -> Iterator[None]:
    """Clones each version of a template once into the directory, and copies that later.

    Not for templates that change. Where git leads an address to belongs to the address.
    """
    clone = copier._template.clone

    def clone_once(url: str, ref: str = "HEAD", location: str | None = None) -> str:
        key = (url, ref, os.environ.get("GIT_CONFIG_KEY_0"))
        if key not in _clones:
            kept = tempfile.mkdtemp(dir=directory)
            _clones[key] = clone(url, ref, location=kept)
        shutil.copytree(_clones[key], location, dirs_exist_ok=True)
        return location

    with mock.patch.object(copier._template, "clone", clone_once):
        yield


def main(directory: Path) -> None:
    """Renders the projects that the tests on a GPU need, each into a directory of its name."""
    subsets = subsets_for_gpu()
    for subset in subsets:
        render_subset(directory / str(subset), subset)
    print(f"{len(subsets)} projects in {directory}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
