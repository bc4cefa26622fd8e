"""Changes to a project that lose nothing: a three-way merge, worked out aside and then applied.

Three copies of the project meet: the base, which the template gave when it was last updated; the
owner's, as committed; and the new one. Git merges them in a scratch repository. What git cannot
decide is decided here, so that each line of the owner's ends up in the project, between conflict
markers, or in a file that is kept aside.
"""

import ast
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from torch_tricks.errors import Refusal
from torch_tricks.git import Entry, GitError, Scratch, Tree, git, quoted
from torch_tricks.project import Project, is_free_for_folder, parents
from torch_tricks.template import ANSWERS_FILE

KEPT = "kept-aside"
"""The folder of what is kept aside: outside of the package, so that it is not built into it."""

BASE, OURS, THEIRS = 1, 2, 3
"""Git's stages of an unmerged file."""


@dataclass
class Plan:
    """What an update does to a project."""

    project: Project
    scratch: Scratch
    before: Tree
    """The project as committed."""
    after: Tree
    """The project as it will be."""
    conflicts: dict[str, dict[int, Entry]] = field(default_factory=dict)
    """The entries by stage of each file that the owner must look at."""
    kept: dict[str, str] = field(default_factory=dict)
    """Copies of the owner's files, and what they are copies of."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Files that the template renamed: old path to new path."""
    missing: dict[str, str] = field(default_factory=dict)
    """Files that the owner deleted, and one that imports each."""

    @property
    def written(self) -> list[str]:
        """The files whose content or mode changes, new ones included."""
        return sorted(
            p for p, entry in self.after.items() if self.before.get(p) != entry
        )

    @property
    def added(self) -> list[str]:
        return sorted(self.after.keys() - self.before.keys())

    @property
    def removed(self) -> list[str]:
        return sorted(self.before.keys() - self.after.keys())

    @property
    def needs_a_look(self) -> bool:
        """Whether the owner has something to decide."""
        return bool(self.conflicts or self.kept or self.missing)

    def check(self) -> None:
        """Makes sure that git can bring back all that the change overwrites.

        Raises:
            Refusal: it does not know something, or not its newest edits.
        """
        self.project.check_committed()
        changed = [path for path in self.written if path in self.before]
        self.project.check_can_write([*changed, *self.removed], self.added)

    def lines(self) -> Iterator[str]:
        """Says what happens to each file, one a line."""
        seen = self.project.seen
        new_names = {new: old for old, new in self.renamed.items()}
        for path in sorted({*self.written, *self.removed, *self.conflicts, *self.kept}):
            if path in new_names:
                yield f"renamed {seen(new_names[path])} -> {seen(path)}"
            if path in self.conflicts:
                yield f"conflict {seen(path)}"
            elif path in self.kept:
                yield f"kept aside {seen(path)} (your edits of {seen(self.kept[path])})"
            elif path in self.renamed or path in new_names:
                continue
            elif path not in self.after:
                yield f"removed {seen(path)}"
            else:
                done = "changed" if path in self.before else "added"
                yield f"{done} {seen(path)}"
        for path, importer in sorted(self.missing.items()):
            yield f"missing {seen(path)} (you deleted it; {seen(importer)} imports it)"

    def diff(self, color: bool) -> str:
        """Returns the change as a unified diff."""
        changed = {*self.written, *self.removed}
        before, after = (
            self.scratch.make_tree({p: tree[p] for p in changed & tree.keys()})
            for tree in (self.before, self.after)
        )
        return self.scratch.diff(before, after, color)


@contextmanager
def scratch_for(project: Project) -> Iterator[tuple[Scratch, Path]]:
    """Gives a scratch repository that reads the project's objects, and a directory beside it."""
    with TemporaryDirectory(prefix="torch-tricks-") as name:
        yield Scratch(Path(name), borrow_from=project.directory), Path(name)


def plan_update(project: Project, scratch: Scratch, base: Path, new: Path) -> Plan:
    """Works out what becomes of a project, and leaves it alone.

    Args:
        project: the project, in which everything is committed.
        scratch: a repository that can read the project's objects.
        base: the project as rendered from its recorded answers and version.
        new: the project as it is to be, as rendered.

    Raises:
        Refusal: something would have to be overwritten, or git cannot merge folders and files.
    """
    prefix = project.prefix.rstrip("/")
    trees = {
        BASE: scratch.files(scratch.add_directory(base)),
        OURS: scratch.files(project.git("rev-parse", f"HEAD:{prefix}")),
        THEIRS: scratch.files(scratch.add_directory(new)),
    }
    answers = {stage: tree.pop(ANSWERS_FILE) for stage, tree in trees.items()}
    before = trees[OURS]
    trees[OURS] = _needed(scratch, trees)
    _follow_line_endings(scratch, trees)
    names = {stage: scratch.make_tree(tree) for stage, tree in trees.items()}
    merged = scratch.merge(names[BASE], names[OURS], names[THEIRS])

    plan = Plan(project, scratch, dict(before), {})
    plan.after |= {p: entry for p, entry in before.items() if p not in trees[OURS]}
    for path, stages in merged.items():
        if 0 in stages:
            plan.after[path] = stages[0]
        else:
            _decide(plan, path, stages, trees)
    plan.before[ANSWERS_FILE] = answers[OURS]
    plan.after[ANSWERS_FILE] = answers[THEIRS]
    if _has_own_lines(
        *(scratch.read(answers[stage]) for stage in (OURS, BASE, THEIRS))
    ):
        _keep_aside(plan, ANSWERS_FILE, answers[OURS])
    own_names = {
        new: old for old, new in scratch.renames(names[BASE], names[OURS]).items()
    }
    plan.kept = {path: own_names.get(old, old) for path, old in plan.kept.items()}
    renames = scratch.renames(names[BASE], names[THEIRS])
    plan.renamed = {
        old: renamed
        for old, renamed in renames.items()
        if old in before and old not in plan.after and renamed in plan.after
        if old not in plan.kept.values()
    }
    if plan.written or plan.removed:
        plan.missing = _missing(plan, trees)
    plan.check()
    return plan


def _needed(scratch: Scratch, trees: dict[int, Tree]) -> Tree:
    """Returns the owner's files that the merge must know; the others stay what they are.

    These are the files where the template has one, those in the way of its folders, and those
    that may be renamed ones of the template. A project can hold gigabytes of others.
    """
    base, ours, theirs = trees[BASE], trees[OURS], trees[THEIRS]
    paths = base.keys() | theirs.keys()
    folders = {folder for path in paths for folder in parents(path)}
    needed = {
        path
        for path in ours
        if path in paths or path in folders or not paths.isdisjoint(parents(path))
    }
    if gone := scratch.sizes(base[path] for path in base.keys() - ours.keys()):
        others = [path for path in ours if path not in needed and ours[path].is_file]
        sizes = scratch.sizes(ours[path] for path in others)
        # Git takes a file for a renamed one if half of the larger is in both.
        needed |= {
            path
            for path, size in zip(others, sizes, strict=True)
            if min(gone) <= 2 * size and size <= 2 * max(gone)
        }
    return {path: entry for path, entry in ours.items() if path in needed}


def _follow_line_endings(scratch: Scratch, trees: dict[int, Tree]) -> None:
    """Gives the template's sides of a file CRLF where the owner's has it throughout.

    Else each line of such a file would differ, and be in a conflict.
    """
    for path in trees[BASE].keys() & trees[OURS].keys():
        base, ours = trees[BASE][path], trees[OURS][path]
        if base.oid == ours.oid or not (base.is_file and ours.is_file):
            continue
        content = scratch.read(ours)
        if content.count(b"\n") != content.count(b"\r\n") or b"\r\n" not in content:
            continue
        for stage in (BASE, THEIRS):
            if path in trees[stage]:
                mode, _ = trees[stage][path]
                text = scratch.read(trees[stage][path])
                if b"\r" not in text:
                    oid = scratch.write(text.replace(b"\n", b"\r\n"))
                    trees[stage][path] = Entry(mode, oid)


def _decide(
    plan: Plan, path: str, stages: dict[int, Entry], trees: dict[int, Tree]
) -> None:
    """Settles a file that git left unmerged."""
    if not any(path in tree for tree in trees.values()):
        # Git moves a file that meets a folder, or a link that meets a file, to path~side.
        place = plan.project.seen(path.rpartition("~")[0])
        raise Refusal(
            f"{place} is one kind of thing (file, folder or link) in the project and another "
            "in the template: rename yours, commit, and run again"
        )
    if OURS in stages and THEIRS in stages:
        _merge_content(plan, path, stages)
    elif OURS in stages and path in trees[BASE]:
        # The template has removed a file that the owner edited.
        _keep_aside(plan, path, trees[OURS][path])
    elif OURS in stages:
        # The template has removed or renamed a file that the owner renamed.
        plan.after[path] = trees[OURS][path]
        plan.kept[path] = path
    elif THEIRS in stages and path not in trees[BASE]:
        # The template has renamed a file that the owner deleted or renamed.
        plan.after[path] = trees[THEIRS][path]
    # What is left is a file that the owner deleted: it stays deleted.


def _merge_content(plan: Plan, path: str, stages: dict[int, Entry]) -> None:
    """Merges a file that both sides have changed or added, with markers where they disagree."""
    scratch, ours = plan.scratch, stages[OURS]
    plan.after[path] = ours
    if ours.is_file and stages[THEIRS].is_file:
        base = scratch.read(stages[BASE]) if BASE in stages else b""
        # What is not text stays the owner's, and git has the other side.
        with suppress(GitError):
            content, disagree = scratch.merge_file(
                scratch.read(ours), base, scratch.read(stages[THEIRS])
            )
            plan.after[path] = Entry(ours.mode, scratch.write(content))
            if not disagree:
                return
    plan.conflicts[path] = stages


def _keep_aside(plan: Plan, path: str, entry: Entry) -> None:
    """Puts a copy of the owner's file where neither Python nor its tools take it for code."""
    taken, here = {*plan.before, *plan.after}, plan.project.directory
    folders = (f for f in _numbered(KEPT) if f not in taken)
    folder = next(f for f in folders if is_free_for_folder(here / f))
    names = (n for n in _numbered(f"{folder}/{path}.kept") if n not in taken)
    name = next(n for n in names if not os.path.lexists(here / n))
    plan.after[name] = entry
    plan.kept[name] = path


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}-{number}"
        number += 1


def _has_own_lines(ours: bytes, base: bytes, new: bytes) -> bool:
    """Tells whether the owner wrote into the answers file what no version of it has.

    A hand-edited answer does not count: the base and the new version are rendered with it.
    """
    own = {*ours.splitlines()} - {*base.splitlines(), *new.splitlines()}
    return any(not re.match(rb"_commit:|_src_path:|\s*$", line) for line in own)


def _missing(plan: Plan, trees: dict[int, Tree]) -> dict[str, str]:
    """Returns the modules that the owner deleted and that some file imports."""
    present = {module for path in plan.after for module in _modules(path)}
    deleted = {
        _modules(path)[0]: path
        for path in trees[BASE].keys() - trees[OURS].keys()
        if path.endswith(".py") and _modules(path)[0] not in present
    }
    missing: dict[str, str] = {}
    if not deleted:
        return missing
    for path in sorted(plan.after):
        if path.endswith(".py") and plan.after[path].is_file:
            imports = _imports(path, plan.scratch.read(plan.after[path]))
            if imports is None and path in trees[THEIRS]:
                # With conflict markers, or broken, it is no Python: read the new version.
                imports = _imports(path, plan.scratch.read(trees[THEIRS][path]))
            for module in (imports or set()) & deleted.keys():
                missing.setdefault(deleted[module], path)
    return missing


def _modules(path: str) -> list[str]:
    """Returns what a file can be imported as, and the packages that it is in."""
    parts = PurePosixPath(path).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return [".".join(parts[:length]) for length in range(len(parts), 0, -1)]


def _imports(path: str, code: bytes) -> set[str] | None:
    """Returns the dotted names that a file imports, and those that may be attributes.

    None if the file is no Python.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return None
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            folder = PurePosixPath(path).parts[: -node.level] if node.level else ()
            module = ".".join([*folder, *([node.module] if node.module else [])])
            names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return names


def apply(project: Project, plan: Plan) -> None:
    """Writes what is planned into the project, uncommitted.

    Git's index comes first, in one step: from then on it lists each file that may be written,
    so that the project's undo command brings everything back at any moment. If writing fails,
    that is done here.

    Raises:
        Refusal: writing failed, and so did going back.
    """
    files = plan.scratch.directory / "final"
    final = _index_of_written(project, plan)
    # Written aside first: should a filter of the owner's fail, it fails here.
    options = ("--all", "--force", f"--prefix={files}/")
    git("checkout-index", *options, cwd=project.top, env=final)
    index = _index_with_undo(project, plan, files)
    # Somebody may have saved a file in the meantime.
    plan.check()
    try:
        _replace_index(project, index)
        # Git writes the files, as it knows the owner's line endings and filters.
        git("checkout-index", "--all", "--force", cwd=project.top, env=final)
        _remove(project, plan.removed)
    except BaseException as error:
        try:
            project.undo()
        except GitError as failure:
            message = (
                f"stopped halfway ({error}; {failure}): run {project.undo_command}"
            )
            raise Refusal(message) from error
        raise


def _remove(project: Project, paths: list[str]) -> None:
    """Removes files, and the folders that they leave empty."""
    for path in paths:
        (project.directory / path).unlink(missing_ok=True)
        for parent in PurePosixPath(path).parents[:-1]:
            with suppress(OSError):
                (project.directory / parent).rmdir()


def _index_of_written(project: Project, plan: Plan) -> dict[str, str]:
    """Makes an index of the new content; returns the variables by which git reads it."""
    env = {
        "GIT_INDEX_FILE": str(plan.scratch.directory / "index-of-written"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted(plan.scratch.objects),
    }
    lines = [_index_line(project, path, plan.after[path]) for path in plan.written]
    _add_to_index(project, lines, env)
    return env


def _index_with_undo(project: Project, plan: Plan, files: Path) -> Path:
    """Makes the index that the project gets; returns its path.

    Changed and deleted files are as committed, so that `git diff` shows the change. Conflicts are
    unmerged. New files are marked as intended to be added: `git diff` shows them, too, and
    undoing removes them.
    """
    index = plan.scratch.directory / "index-with-undo"
    shutil.copyfile(project.git_directory / "index", index)
    env = {"GIT_INDEX_FILE": str(index)}
    lines = []
    for path, stages in plan.conflicts.items():
        lines.append(f"0 {'0' * len(stages[OURS].oid)}\t{project.prefix}{path}")
        for stage, entry in stages.items():
            content = plan.scratch.read(entry)
            project.git("hash-object", "-w", "--stdin", input=content)
            lines.append(_index_line(project, path, entry, stage))
    _add_to_index(project, lines, env)
    added = [project.prefix + path for path in plan.added if path not in plan.conflicts]
    if added:
        env |= {
            "GIT_DIR": str(project.git_directory),
            "GIT_WORK_TREE": str(files),
            "GIT_LITERAL_PATHSPECS": "1",
        }
        options = ("--intent-to-add", "--force", "--pathspec-from-file=-")
        paths = os.fsencode("\0".join(added))
        git("add", *options, "--pathspec-file-nul", cwd=files, env=env, input=paths)
    return index


def _index_line(project: Project, path: str, entry: Entry, stage: int = 0) -> str:
    return f"{entry.mode} {entry.oid} {stage}\t{project.prefix}{path}"


def _add_to_index(project: Project, lines: list[str], env: dict[str, str]) -> None:
    listing = os.fsencode("".join(f"{line}\0" for line in lines))
    command = ("update-index", "-z", "--index-info")
    git(*command, cwd=project.top, env=env, input=listing)


def _replace_index(project: Project, index: Path) -> None:
    """Gives git another index, in one step that leaves no lock behind when it is killed."""
    current = project.git_directory / "index"
    aside = current.with_name("index.torch-tricks")
    with open(aside, "wb") as file:
        file.write(index.read_bytes())
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, current)
