"""Statements about git, Copier, Python and Linux."""

import importlib.metadata
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from packaging.requirements import Requirement

from claimed.claim import claim, folder, python

ENVIRONMENT = os.environ | {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "me"), ("EMAIL", "me@localhost"))
    },
}


def git(place: Path, *arguments: str, fails: bool = False) -> str:
    """Runs git in a folder, and returns its output."""
    done = subprocess.run(
        ["git", "-C", place, *arguments],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert bool(done.returncode) == fails, (arguments, done)
    return done.stdout + done.stderr


def repository(place: Path, **files: str) -> Path:
    """Commits files in a new repository."""
    place.mkdir(parents=True, exist_ok=True)
    if not (place / ".git").exists():
        git(place, "init", "--quiet")
    for name, text in files.items():
        (place / name).write_text(text)
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--message", "change")
    return place


# git


@claim(
    "git",
    "docs/command-line.md",
    "A changed file is marked `assume-unchanged` or `skip-worktree`: git does not see your edits.",
)
def _() -> object:
    with folder() as place:
        repository(place, a="1", b="1")
        git(place, "update-index", "--assume-unchanged", "a")
        git(place, "update-index", "--skip-worktree", "b")
        (place / "a").write_text("2")
        (place / "b").write_text("2")
        assert git(place, "status", "--short") == ""
    return "no change in git status"


@claim(
    "git",
    "generator/torch_tricks/git.py",
    "A bare repository can be committed as files in another repository. Its configuration could make "
    "git run programs. A `.git` folder cannot be committed.",
)
def _() -> object:
    with folder() as place:
        repository(place, a="1")
        git(place, "init", "--quiet", "--bare", "bare")
        (place / "b" / ".git").mkdir(parents=True)
        (place / "b" / ".git" / "config").touch()
        (place / "b" / "c").touch()
        git(place, "add", "bare", "b")
        files = git(place, "ls-files").split()
        assert (
            "bare/config" in files and "b/c" in files and "b/.git/config" not in files
        )
        with (place / "bare" / "config").open("a") as config:
            config.write(
                f'[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = "touch {place}/ran"\n'
            )
        git(place / "bare", "status")
        assert (place / "ran").exists()
    return "git status ran the program of core.fsmonitor"


@claim(
    "git",
    "generator/torch_tricks/git.py",
    "Exit code of git for an unknown option.",
)
def _() -> object:
    code = subprocess.run(["git", "status", "--nope"], capture_output=True, check=False)
    assert code.returncode == 129
    return code.returncode


@claim(
    "git",
    "docs/command-line.md",
    "A file that is not text stays yours; `git checkout --theirs FILE` takes the template's",
)
def _() -> object:
    with folder() as place:
        repository(place, a="\0 base")
        git(place, "checkout", "--quiet", "-b", "other")
        repository(place, a="\0 theirs")
        git(place, "checkout", "--quiet", "-")
        repository(place, a="\0 ours")
        git(place, "merge", "other", fails=True)
        kept = (place / "a").read_text()
        git(place, "checkout", "--theirs", "a")
        taken = (place / "a").read_text()
    assert (kept, taken) == ("\0 ours", "\0 theirs")
    return "as after a merge by git"


@claim(
    "git",
    "generator/torch_tricks/merging.py",
    "New files are staged: the undo command removes them, and `git stash` includes them.",
)
@claim(
    "git",
    "docs/command-line.md",
    "It restores all files, also if the change was killed halfway. Untracked files stay.",
)
def _() -> object:
    with folder() as place:
        repository(place, a="1")
        (place / "a").write_text("2")
        (place / "new").touch()
        (place / "untracked").touch()
        git(place, "add", "new")
        git(place, "stash")
        assert not (place / "new").exists()
        git(place, "stash", "pop", "--index")
        undo = ("restore", "--source=HEAD", "--staged", "--worktree", ".")
        git(place, *undo)
        found = sorted(path.name for path in place.iterdir())
        assert found == [".git", "a", "untracked"], found
        assert (place / "a").read_text() == "1"
    return found


# Copier


def template(place: Path, questions: str, tag: str, **files: str) -> None:
    """Commits and tags a version of a template."""
    answers = "{{ _copier_conf.answers_file }}.jinja"
    files["copier.yml"] = f"_subdirectory: t\n{questions}\n"
    place.mkdir(exist_ok=True)
    shutil.rmtree(place / "t", ignore_errors=True)
    (place / "t").mkdir()
    (place / "t" / answers).write_text("{{ _copier_answers|to_nice_yaml }}")
    for name, text in files.items():
        target = place if name == "copier.yml" else place / "t"
        (target / name).write_text(text)
    repository(place)
    git(place, "tag", tag)


def copier(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs Copier."""
    return subprocess.run(
        [sys.executable, "-m", "copier", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )


TRICKS = """
tricks:
  type: str
  multiselect: true
  default: [amp]
  choices: [{choices}]
"""


@claim(
    "copier",
    "docs/updating.md",
    "If the new version renames a file, or you remove the trick of a file, `copier update` deletes "
    "the file with your edits. There is no conflict marker.",
)
@claim(
    "copier",
    "docs/updating.md",
    "The exit code is 0 even if there are conflicts: look for them with `git ls-files -u`.",
)
@claim(
    "copier",
    "docs/updating.md",
    "If the template does not allow an answer in `.copier-answers.yml`, such as a misspelt trick, "
    "Copier uses the default instead.",
)
@claim(
    "copier",
    "docs/releasing.md",
    "Never rename or remove a trick or a form of `parallel`. Copier would drop the whole list of a "
    "project with the old name.",
)
def _() -> object:
    text = "".join(f"{n}\n" for n in range(20))
    with folder() as place:
        source, project = place / "source", place / "project"
        old, new = (TRICKS.format(choices=c) for c in ("amp, ema, swa", "amp, swa"))
        template(source, old, "v1", **{"a.py": text, "b.py": text})
        template(
            source, new, "v2", **{"c.py": text, "b.py": text.replace("5\n", "theirs\n")}
        )
        data = ["--data", "tricks=[ema, swa]"]
        made = copier("copy", "--defaults", "--vcs-ref=v1", *data, source, project)
        assert made.returncode == 0, made.stderr
        repository(project)
        for name, edit in (("a.py", "mine\n"), ("b.py", "ours\n")):
            path = project / name
            path.write_text(path.read_text().replace("5\n", edit, 1))
        repository(project)
        done = copier("update", "--defaults", "--conflict=inline", project)
        assert done.returncode == 0, done.stderr
        conflicts = git(project, "ls-files", "-u")
        answers = (project / ".copier-answers.yml").read_text()
        edits = [p.name for p in project.glob("*.py") if "mine" in p.read_text()]
        assert not (project / "a.py").exists() and not edits
        assert "<<<<<<<" in (project / "b.py").read_text() and "b.py" in conflicts
        assert "- amp" in answers and "swa" not in answers, answers
    return "exit code 0 with a conflict, a lost edit, and [ema, swa] became [amp]"


@claim(
    "copier",
    "docs/updating.md",
    "A template in a plain directory has no version, so there is nothing to update from.",
)
def _() -> object:
    with folder() as place:
        template(place / "source", TRICKS.format(choices="amp"), "v1")
        shutil.rmtree(place / "source" / ".git")
        made = copier("copy", "--defaults", place / "source", place / "project")
        assert made.returncode == 0, made.stderr
        repository(place / "project")
        done = copier("update", "--defaults", place / "project")
        assert done.returncode
    return done.stderr.strip().splitlines()[-1][:90]


@claim(
    "copier",
    "docs/proof.md",
    "If you run Copier yourself, a refused value prints a traceback above the sentence.",
)
def _() -> object:
    with folder() as place:
        rule = "a:\n  type: str\n  default: b\n  validator: \"{% if a == 'c' %}no c{% endif %}\"\n"
        template(place / "source", rule, "v1")
        data = ["--data", "a=c"]
        done = copier("copy", "--defaults", *data, place / "source", place / "project")
    assert "Traceback" in done.stderr, done.stderr
    return done.stderr.strip().splitlines()[-1][:90]


@claim(
    "copier",
    "generator/torch_tricks/template.py",
    "Pre-releases are left out, as in Copier.",
)
def _() -> object:
    with folder() as place:
        for tag in ("v1.0.0", "v2.0.0rc1"):
            template(place / "source", TRICKS.format(choices="amp"), tag, a=tag)
        copier("copy", "--defaults", place / "source", place / "project")
        assert (place / "project" / "a").read_text() == "v1.0.0"
    return "of v1.0.0 and v2.0.0rc1, v1.0.0 is rendered"


# Python and Linux


@claim(
    "Linux",
    "docs/guides/docker.md",
    "Linux drops SIGTERM for a PID 1 that does not handle it, and the container then runs until "
    "SIGKILL.",
)
def _() -> object:
    code = "import time; print('up', flush=True); time.sleep(2); print('still up')"
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    with subprocess.Popen(
        [*command, sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        os.kill(int(children.split()[0]), signal.SIGTERM)
        seen = process.stdout.read()
    assert seen == "still up\n", seen
    return "PID 1 of a namespace survived SIGTERM"


@claim(
    "Python",
    "docs/resuming.md",
    "If `main()` runs in a thread, Python cannot catch signals, and the run prints this.",
)
def _() -> object:
    done = python("""
        import signal, threading
        def main():
            signal.signal(signal.SIGTERM, print)
        threading.Thread(target=main).start()
    """)
    assert "ValueError" in done.stderr
    return done.stderr.strip().splitlines()[-1]


@claim(
    "Python",
    "docs/recipes/debugging.md",
    "`python -O` removes assertions.",
)
def _() -> object:
    subprocess.run([sys.executable, "-O", "-c", "assert False"], check=True)
    return None


@claim(
    "Linux",
    "generator/torch_tricks/measuring/training.py",
    "Linux counts in KiB.",
)
def _() -> object:
    code = """
import resource
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
block = bytearray(b"1") * 2**28
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    # By a shell: a new process begins with the peak of the process that started it.
    command = ["sh", "-c", '"$0" -c "$1"; true', sys.executable, code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 0.95 < int(done.stdout) / 2**18 < 1.1, done.stdout
    return f"256 MiB more are {int(done.stdout):,}"


@claim(
    "Python",
    "docs/guides/docker.md",
    "`pip freeze --exclude-editable > requirements.txt`",
)
def _() -> object:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "freeze"]
    plain, other = (
        subprocess.run(
            [*pip, *option], capture_output=True, text=True, check=True
        ).stdout
        for option in ([], ["--exclude-editable"])
    )
    assert "torch-tricks" in plain.replace("torch_tricks", "torch-tricks")
    assert "torch-tricks" not in other.replace("torch_tricks", "torch-tricks")
    return f"{len(plain.splitlines())} and {len(other.splitlines())} lines"


@claim(
    "torch torchvision",
    "docs/recipes/environment.md",
    "The metadata of torchvision has the torch versions that it needs:",
)
def _() -> object:
    needs = map(Requirement, importlib.metadata.requires("torchvision") or [])
    [torch] = [each for each in needs if each.name == "torch"]
    assert torch.specifier.contains(importlib.metadata.version("torch"))
    return str(torch)


@claim(
    "Linux",
    "docs/guides/docker.md",
    "`ENTRYPOINT python train.py` starts a shell as PID 1, which does not pass SIGTERM on.",
)
def _() -> object:
    code = "import time; print('up', flush=True); time.sleep(2); print('still up')"
    command = ["sh", "-c", f'{sys.executable} -c "{code}"']
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        process.terminate()
        seen = process.stdout.read()
    assert seen == "still up\n", seen
    return "the shell ended, and Python went on"


@claim(
    "Linux",
    "docs/resuming.md",
    "SIGHUP | a terminal that closes; ignored under `nohup` | 129",
)
def _() -> object:
    code = "import signal; print(signal.getsignal(signal.SIGHUP).name)"
    command = ["nohup", sys.executable, "-c", code]
    seen = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert seen.strip() == "SIG_IGN", seen
    return seen.strip()


@claim(
    "Python",
    "docs/recipes/environment.md",
    "The order of a `set` of strings differs between Python processes, unless `PYTHONHASHSEED` is in "
    "the environment *when Python starts*.",
)
def _() -> object:
    code = "print(list({'a', 'b', 'c', 'd', 'e', 'f'}))"

    def orders(**environment: str) -> int:
        return len({python(code, **environment).stdout for _ in range(5)})

    seen = orders(PYTHONHASHSEED="random"), orders(PYTHONHASHSEED="0")
    assert seen[0] > 1 == seen[1], seen
    return f"{seen[0]} orders in 5 processes, and {seen[1]} with PYTHONHASHSEED=0"


@claim(
    "Python",
    "docs/recipes/data.md",
    "`os.cpu_count()` counts the CPUs of the machine, but a container or a scheduler may give you "
    "only two.",
)
def _() -> object:
    code = "import os; print(os.cpu_count(), len(os.sched_getaffinity(0)))"
    command = ["taskset", "--cpu-list", "0", sys.executable, "-c", code]
    seen = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert seen.split() == [str(os.cpu_count()), "1"], seen
    return f"with one CPU allowed: {seen.strip()}"
