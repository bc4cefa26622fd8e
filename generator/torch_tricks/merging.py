"""Lossless changes to a project: a three-way merge, planned first and then applied.

Git merges three copies of the project in a scratch repository: the base, as rendered at the last
update; the owner's, as committed; and the new rendering. This module settles unmerged files, so
that each line of the owner ends up in the project, between conflict markers, or in a file that is
kept aside.
"""

import ast
import os
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from torch_tricks.errors import Refusal
from torch_tricks.git import Entry, GitError, Scratch, Tree, git, quoted
from torch_tricks.imports import with_imports_of_both
from torch_tricks.project import Project, is_free_for_folder, parents
from torch_tricks.template import ANSWERS_FILE, Rendering, read_answers

KEPT = "kept-aside"
"""Folder of files that are kept aside, outside of the package and its builds."""

BASE, OURS, THEIRS = 1, 2, 3
"""Stages of an unmerged file in git."""


@dataclass
class Plan:
    """Planned changes to the files of a project."""

    project: Project
    scratch: Scratch
    before: Tree
    """The project as committed."""
    after: Tree
    """The project as it will be."""
    conflicts: dict[str, dict[int, Entry]] = field(default_factory=dict)
    """Entries by stage of each file with conflicts."""
    kept: dict[str, str] = field(default_factory=dict)
    """Copies of the owner's files, with the original paths."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Files that the template renamed: old path to new path."""
    followed: dict[str, str] = field(default_factory=dict)
    """Folders that the owner moved, with files of the template: old path to new path."""
    missing: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Modules that an import no longer finds: the reason, and the importing file."""

    @property
    def written(self) -> list[str]:
        """Files with new or changed content or mode."""
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
        """Whether the owner must resolve something."""
        return bool(self.conflicts or self.kept or self.missing)

    def check(self) -> None:
        """Checks that git can restore all overwritten files.

        Raises:
            Refusal: a file is untracked, or has uncommitted edits.
        """
        self.project.check_committed()
        changed = [path for path in self.written if path in self.before]
        self.project.check_can_write([*changed, *self.removed], self.added)

    def lines(self) -> Iterator[str]:
        """Yields a line about the change of each file."""
        seen = self.project.seen
        new_names = {new: old for old, new in self.renamed.items()}
        touched = {*self.written, *self.removed, *self.conflicts, *self.kept}
        for old, new in self.followed.items():
            if any(new in [*parents(path), "."] for path in touched):
                yield f"followed {seen(old)} -> {seen(new)} (you moved this folder)"
        for path in sorted(touched):
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
        for path, (why, importer) in sorted(self.missing.items()):
            yield f"missing {seen(path)} ({why}; {seen(importer)} imports it)"


@contextmanager
def scratch_for(project: Project) -> Iterator[tuple[Scratch, Path]]:
    """Provides a scratch repository with the project's objects, and a directory beside it."""
    with TemporaryDirectory(prefix="torch-tricks-") as name:
        yield Scratch(Path(name), borrow_from=project.directory), Path(name)


def render_base(
    project: Project, scratch: Scratch, aside: Path
) -> tuple[Project, Rendering]:
    """Renders the project at its recorded version, with the current name of its package.

    If the owner renamed the folder of the package, renderings of the returned project import the
    package by its new name, if the template allows it.
    """
    base = project.render(aside)
    package = base.answers["package_name"]
    tree = scratch.add_directory(base.directory)
    moved = moved_folders(scratch, tree, project.committed())
    name = PurePosixPath(moved.get(package, package)).name
    if name != package:
        with suppress(Refusal):
            renamed = replace(project, package_name=name)
            return renamed, renamed.render(aside)
    return project, base


def plan_update(project: Project, scratch: Scratch, base: Path, new: Path) -> Plan:
    """Plans the changes of an update, without changing the project.

    Args:
        project: project without uncommitted changes.
        scratch: repository with access to the project's objects.
        base: rendering of the recorded answers and version.
        new: rendering of the new answers and version.

    Raises:
        Refusal: a file would be overwritten, or git cannot merge folders and files.
    """
    trees = {
        BASE: scratch.add_directory(base),
        OURS: project.committed(),
        THEIRS: scratch.add_directory(new),
    }
    moved = moved_folders(scratch, trees[BASE], trees[OURS])
    places = _places(trees[BASE].keys() | trees[THEIRS].keys(), moved)
    places[ANSWERS_FILE] = name = project.answers_name
    for side in (BASE, THEIRS):
        trees[side] = {places[path]: entry for path, entry in trees[side].items()}
    by_owner = scratch.renames(trees[BASE], trees[OURS])
    by_template = scratch.renames(trees[BASE], trees[THEIRS])
    _follow_line_endings(scratch, trees, by_owner, by_template)
    plan = Plan(project, scratch, trees[OURS], {}, followed=moved)
    merged = scratch.merge(trees[BASE], trees[OURS], trees[THEIRS])
    for path, stages in merged.items():
        if 0 in stages:
            plan.after[path] = stages[0]
        else:
            _decide(plan, path, stages, trees)
    # Answers are not merged: the new ones have those of the owner.
    plan.after[name] = trees[THEIRS][name]
    plan.conflicts.pop(name, None)
    versions = (trees[stage][name] for stage in (OURS, BASE, THEIRS))
    if _has_own_answers(*map(scratch.read, versions)):
        _keep_aside(plan, name, trees[OURS][name])
    _name_files(plan, by_owner, by_template)
    if plan.written or plan.removed:
        plan.missing = _missing(plan, trees, places, by_owner)
    plan.check()
    return plan


def _name_files(
    plan: Plan, by_owner: Mapping[str, str], by_template: Mapping[str, str]
) -> None:
    """Gives kept and renamed files their paths from the owner.

    Args:
        by_owner: files that the owner renamed: old path to new path.
        by_template: files that the template renamed.
    """
    own_names = {new: old for old, new in by_owner.items()}
    plan.kept = {path: own_names.get(old, old) for path, old in plan.kept.items()}
    plan.renamed = {
        old: renamed
        for old, renamed in by_template.items()
        if old in plan.before and old not in plan.after and renamed in plan.after
        if old not in plan.kept.values()
    }


def moved_folders(scratch: Scratch, base: Tree, ours: Tree) -> dict[str, str]:
    """Returns the folders of the template that the owner moved: old path to new path.

    The rule is that of git's merge: the old folder is empty, and most of its renamed files are in
    one other folder. A folder that moved inside a moved folder is not listed.
    """
    left = {folder for path in ours for folder in parents(path)}
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for old, new in scratch.renames(base, ours).items():
        for start, end in zip(parents(old), [*parents(new), "."], strict=False):
            if start in left:
                break
            found[start][end] += 1
            if PurePosixPath(start).name != PurePosixPath(end).name:
                break
    moved: dict[str, str] = {}
    for folder in sorted(found):
        (new, most), *rest = found[folder].most_common(2)
        if new != _place(folder, moved) and [most] != [number for _, number in rest]:
            moved[folder] = new
    return moved


def renamed_by_owner(
    project: Project, rendered: Path
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the current paths of the template's files, and the owner's renames.

    The renames are folders, and files outside of renamed folders: old path to new path.
    """
    ours = project.staged()
    with scratch_for(project) as (scratch, _):
        base = scratch.add_directory(rendered)
        del base[ANSWERS_FILE]
        moved = moved_folders(scratch, base, ours)
        places = _places(base, moved)
        mapped = {place: base[path] for path, place in places.items()}
        found = scratch.renames(mapped, ours)
    names = {path: found.get(place, place) for path, place in places.items()}
    alone = {path: found[place] for path, place in places.items() if place in found}
    return names, moved | alone


def _place(path: str, moved: Mapping[str, str]) -> str:
    """Returns a path after the moves of folders."""
    for folder in (path, *parents(path)):
        if folder in moved:
            return str(PurePosixPath(moved[folder]) / path[len(folder) + 1 :])
    return path


def _places(paths: Iterable[str], moved: Mapping[str, str]) -> dict[str, str]:
    """Returns the current paths of the template's files, which stay distinct."""
    places = {path: _place(path, moved) for path in paths}
    taken = {path for path, place in places.items() if path == place}
    for path in sorted(places.keys() - taken):
        if places[path] in taken:
            places[path] = path
        taken.add(places[path])
    return places


def _follow_line_endings(
    scratch: Scratch,
    trees: Mapping[int, Tree],
    by_owner: Mapping[str, str],
    by_template: Mapping[str, str],
) -> None:
    """Converts the template's sides to CRLF, for files with CRLF throughout.

    Otherwise each line would be a conflict. New files get CRLF if most files of the project
    have it.
    """
    base, ours, theirs = trees[BASE], trees[OURS], trees[THEIRS]
    pairs = {**{path: path for path in base.keys() & ours.keys()}, **by_owner}
    crlf = {
        path
        for path, name in pairs.items()
        if base[path].oid != ours[name].oid and base[path].is_file
        if ours[name].is_file and _has_crlf(scratch.read(ours[name]))
    }
    new = {by_template.get(path, path) for path in crlf}
    if 2 * len(crlf) > len(pairs):
        new |= theirs.keys() - base.keys() - set(by_template.values())
    for tree, paths in ((base, crlf), (theirs, new & theirs.keys())):
        for path in paths:
            tree[path] = _with_crlf(scratch, tree[path])


def _has_crlf(content: bytes) -> bool:
    """Returns whether all lines of a text end in CRLF."""
    return b"\r\n" in content and content.count(b"\n") == content.count(b"\r\n")


def _with_crlf(scratch: Scratch, entry: Entry) -> Entry:
    """Returns a text of the template with CRLF line endings."""
    text = scratch.read(entry)
    if b"\r" in text or b"\0" in text:
        return entry
    return Entry(entry.mode, scratch.write(text.replace(b"\n", b"\r\n")))


def _decide(
    plan: Plan, path: str, stages: dict[int, Entry], trees: dict[int, Tree]
) -> None:
    """Settles a file that git left unmerged."""
    if not any(path in tree for tree in trees.values()):
        # Git moves a file that collides with a folder, or a link with a file, to path~side.
        place = plan.project.seen(path.rpartition("~")[0])
        raise Refusal(
            f"{place} is one kind of thing (file, folder or link) in the project and another "
            "in the template: rename yours, commit, and run again"
        )
    if OURS in stages and THEIRS in stages:
        _merge_content(plan, path, stages)
    elif OURS in stages and path in trees[BASE]:
        # Removed by the template, edited by the owner.
        _keep_aside(plan, path, trees[OURS][path])
    elif OURS in stages:
        # Removed or renamed by the template, renamed by the owner.
        plan.after[path] = trees[OURS][path]
        plan.kept[path] = path
    elif THEIRS in stages and path not in trees[BASE]:
        # Renamed by the template, deleted or renamed by the owner.
        plan.after[path] = trees[THEIRS][path]
    # Deleted by the owner: it stays deleted.


def _merge_content(plan: Plan, path: str, stages: dict[int, Entry]) -> None:
    """Merges a file that both sides changed or added, with conflict markers."""
    scratch, ours = plan.scratch, stages[OURS]
    plan.after[path] = ours
    if ours.is_file and stages[THEIRS].is_file:
        base = scratch.read(stages[BASE]) if BASE in stages else b""
        versions = (scratch.read(ours), base, scratch.read(stages[THEIRS]))
        # Binary files stay the owner's. Git has the other side.
        with suppress(GitError):
            content, disagree = scratch.merge_file(*versions)
            if disagree and path.endswith(".py"):
                with suppress(SyntaxError, ValueError):
                    versions = with_imports_of_both(*versions)
                    content, disagree = scratch.merge_file(*versions)
            plan.after[path] = Entry(ours.mode, scratch.write(content))
            if not disagree:
                return
    plan.conflicts[path] = stages


def _keep_aside(plan: Plan, path: str, entry: Entry) -> None:
    """Keeps a copy of the owner's file, under a name that Python and its tools ignore."""
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


def _has_own_answers(ours: bytes, base: bytes, new: bytes) -> bool:
    """Returns whether the answers file has comments or entries that no rendering has.

    Hand-edited answers do not count: base and new version are rendered with them. Nor does the
    style, which formatters of YAML change.
    """
    own, *rendered = (
        {*re.findall(rb"(?<!\S)#[^'\"\n]*\b", content), *read_answers(content or b"{}")}
        for content in (ours, base, new)
    )
    return bool(own.difference(*rendered))


def _missing(
    plan: Plan,
    trees: dict[int, Tree],
    places: Mapping[str, str],
    names_now: Mapping[str, str],
) -> dict[str, tuple[str, str]]:
    """Returns imported modules that the import no longer finds.

    Args:
        places: paths of the template's files after the moves of folders.
        names_now: files that the owner renamed in a folder: old path to new path.
    """
    seen = plan.project.seen
    present = {module for path in plan.after for module in _modules(path)}
    for path, place in places.items():
        # A folder that keeps its name, as in src/, is imported as before.
        if place in plan.after and place.endswith(f"/{path}"):
            present.update(_modules(path))
    gone = {
        module: (path, place)
        for path, place in places.items()
        if path.endswith(".py")
        for module in (_modules(path)[0], _modules(place)[0])
        if module not in present
    }
    missing: dict[str, tuple[str, str]] = {}
    if not gone:
        return missing
    for importer in sorted(plan.after):
        if importer.endswith(".py") and plan.after[importer].is_file:
            for module in _imports_of(plan, trees, importer) & gone.keys():
                path, place = gone[module]
                name, why = place, "you deleted it"
                if place in plan.after:
                    name, why = path, f"you renamed its folder: it is {seen(place)}"
                elif place in names_now:
                    why = f"you renamed it to {seen(names_now[place])}"
                elif place in plan.renamed:
                    why = f"it is now {seen(plan.renamed[place])}"
                elif place in trees[OURS]:
                    why = "it was removed"
                missing.setdefault(name, (why, importer))
    return missing


def _imports_of(plan: Plan, trees: dict[int, Tree], path: str) -> set[str]:
    """Returns the imports of a file of the project after the change."""
    imports = _imports(path, plan.scratch.read(plan.after[path]))
    if imports is None and path in trees[THEIRS]:
        # With conflict markers or errors, it is no Python: read both sides instead.
        ours, base, theirs = (
            (path in tree and _imports(path, plan.scratch.read(tree[path]))) or set()
            for tree in (trees[OURS], trees[BASE], trees[THEIRS])
        )
        return ours | (theirs - base)
    return imports or set()


def _modules(path: str) -> list[str]:
    """Returns the module names of a file, and its packages."""
    parts = PurePosixPath(path).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return [".".join(parts[:length]) for length in range(len(parts), 0, -1)]


def _imports(path: str, code: bytes) -> set[str] | None:
    """Returns the dotted names in the imports of a file, which may include attributes.

    Returns None if the file is not Python.
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
    """Applies a plan to the project, without a commit.

    Git's index is replaced first, atomically. It lists each file to be written, so that the
    project's undo command works at any moment. If writing fails, the changes are undone here.

    Raises:
        Refusal: writing failed, and so did the undo.
    """
    files = plan.scratch.directory / "final"
    new = {project.prefix + path: plan.after[path] for path in plan.written}
    final = {
        "GIT_INDEX_FILE": plan.scratch.with_index_of(new)["GIT_INDEX_FILE"],
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted(plan.scratch.objects),
    }
    # Written aside first: a failing filter of the owner fails here.
    options = ("--all", "--force", f"--prefix={files}/")
    git("checkout-index", *options, cwd=project.top, env=final)
    index = _index_with_undo(project, plan, files)
    # A file may have been saved in the meantime.
    plan.check()
    try:
        _replace_index(project, index)
        # Git writes the files, with the owner's line endings and filters.
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
    """Removes files, and folders that become empty."""
    for path in paths:
        (project.directory / path).unlink(missing_ok=True)
        for parent in PurePosixPath(path).parents[:-1]:
            with suppress(OSError):
                (project.directory / parent).rmdir()


def _index_with_undo(project: Project, plan: Plan, files: Path) -> Path:
    """Makes the new index of the project; returns its path.

    Changed and deleted files are as committed, so that `git diff` shows the change. Conflicts are
    unmerged. New files are staged: the undo command removes them, and `git stash` includes them.
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
            about = f"{entry.mode} {entry.oid} {stage}"
            lines.append(f"{about}\t{project.prefix}{path}")
    listing = os.fsencode("".join(f"{line}\0" for line in lines))
    git("update-index", "-z", "--index-info", cwd=project.top, env=env, input=listing)
    added = [project.prefix + path for path in plan.added if path not in plan.conflicts]
    if added:
        env |= {
            "GIT_DIR": str(project.git_directory),
            "GIT_WORK_TREE": str(files),
            "GIT_LITERAL_PATHSPECS": "1",
        }
        options = ("--force", "--pathspec-from-file=-")
        paths = os.fsencode("\0".join(added))
        git("add", *options, "--pathspec-file-nul", cwd=files, env=env, input=paths)
    return index


def _replace_index(project: Project, index: Path) -> None:
    """Replaces git's index atomically, without a lock that a kill would leave behind."""
    current = project.git_directory / "index"
    aside = current.with_name("index.torch-tricks")
    with open(aside, "wb") as file:
        file.write(index.read_bytes())
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, current)
