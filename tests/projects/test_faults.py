"""Nothing that happens to a run loses it: kills, full disks, signals, damaged files."""

import hashlib
import json
import os
import pty
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from itertools import product
from pathlib import Path

import faults
import pytest
import ranks
import torch
import training
from parts import at_once, few_of
from rendering import render_subset
from subsets import PROOF_SEED, ROOT, Subset, all_subsets, everything, recommended
from test_floor import needs_floor
from zygote import OF_FEW_CORES

EVERYTHING = everything()
RESUMABLE = [subset for subset in all_subsets(PROOF_SEED) if "resume" in subset.tricks]

RENAMED = 3 * faults.SAVING.index("rename")
"""The place of the kill that `make test` tries: before the first save is complete."""

KILLS, PARTS, KILLS_OF_A_SUBSET = 216, 8, 7
"""At random moments, in all the parts of the proof together."""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return render_subset(tmp_path_factory.mktemp("faults") / "project", EVERYTHING)


@pytest.fixture(scope="module")
def flags(folder, hdf5):
    more = ("--batch-size", "4", "--checkpoint-every", "1")  # Six steps and saves.
    return [
        *training.flags(EVERYTHING, folder, hdf5),
        *more,
        *training.WITHOUT_TRACKERS,
    ]


@pytest.fixture(scope="module")
def whole(project, flags, zygote, tmp_path_factory):
    """A run that nothing happens to, with all its checkpoints."""
    directory = tmp_path_factory.mktemp("whole") / "run"
    training.train(zygote.run, project, *flags, "--run-dir", directory)
    return directory


@pytest.fixture
def started(whole, tmp_path):
    """A copy of that run, which has three of its checkpoints and no results.

    It has all the readings: those after the third checkpoint are to come again.
    """
    directory = tmp_path / "run"
    shutil.copytree(whole / "checkpoints", directory / "checkpoints")
    shutil.copy(whole / "steps.jsonl", directory)
    for path in checkpoints(directory)[3:]:
        path.unlink()
    return directory


def checkpoints(directory: Path) -> list[Path]:
    """The checkpoints of a run, oldest first, less what an interrupted save has left."""
    found = directory.glob("checkpoints/step-*")
    return sorted(path for path in found if path.suffix in ("", ".old", ".pt"))


def is_whole(path: Path) -> bool:
    """Whether a checkpoint is as it was saved."""
    if path.is_dir():
        state = path / "state.pt"
        digests = torch.load(state)["digests"] if is_whole(state) else []
        return {f"rank-{rank}.pt": digest for rank, digest in enumerate(digests)} == {
            file.name: hashlib.sha256(file.read_bytes()).hexdigest()
            for file in path.iterdir()
            if file != state
        }
    with zipfile.ZipFile(path) as archive:
        return archive.testzip() is None


def goes_on(run, project, directory, *flags) -> str:
    """Resumes a run to its end and returns what it said."""
    arguments = (*flags, "--run-dir", directory, "--resume", "auto")
    result = run(project, "train.py", *arguments)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def goes_on_in_a_new_directory(run, project, last, step, *flags) -> Path:
    """Goes on from a step of the last run, or begins, and saves after each step."""
    directory = last.with_name(f"from-{step}")
    arguments = (*flags, "--run-dir", directory, "--checkpoint-every", 1)
    if step is not None:
        saved = {int(path.stem.partition("-")[2]): path for path in checkpoints(last)}
        arguments += ("--resume", saved[step])
    training.train(run, project, *arguments)
    return directory


def one_line(result: subprocess.CompletedProcess[str], status: int = 1) -> str:
    """The only line of a failed run."""
    assert result.returncode == status, result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_at_any_moment(part, tmp_path, zygote, folder, hdf5):
    seed, number = f"{PROOF_SEED} {part}", KILLS // PARTS
    random_kills(seed, number, RESUMABLE, tmp_path, zygote, folder, hdf5)


def test_killed_at_a_moment(tmp_path, zygote, folder, hdf5):
    random_kills("one", 1, [recommended()], tmp_path, zygote, folder, hdf5)


def random_kills(seed, number, subsets, tmp_path, zygote, folder, hdf5) -> None:
    """Kills runs of some of the subsets, resumes them, and compares with unbroken ones."""
    rng = random.Random(seed)
    counts = Counter()
    while counts["kills"] < number or not counts["kills after a save"]:
        counts["subsets"] += 1
        subset = rng.choice(subsets)
        project = render_subset(tmp_path / "project", subset)
        flags = [*training.flags(subset, folder, hdf5), "--checkpoint-every", 1]
        start = time.perf_counter()
        training.train(zygote.run, project, *flags, "--run-dir", tmp_path / "whole")
        length = time.perf_counter() - start
        enough = counts["kills"] + min(number, KILLS_OF_A_SUBSET)
        while counts["kills"] < enough:
            flags += ["--keep-checkpoints", rng.randint(1, 3)]
            directory = tmp_path / "run"
            if "seeding" not in subset.tricks:
                # Nobody knows the seed of the other run, but its checkpoints do.
                (directory / "checkpoints").mkdir(parents=True)
                first = checkpoints(tmp_path / "whole")[0]
                copy = shutil.copytree if first.is_dir() else shutil.copy
                copy(first, directory / "checkpoints" / first.name)
                shutil.copy(tmp_path / "whole" / "steps.jsonl", directory)
            counts += kill_until_done(zygote, project, directory, flags, length, rng)
            goes_on(zygote.run, project, directory, *flags)
            training.check_same_run(tmp_path / "whole", directory)
            shutil.rmtree(directory)
            counts["runs"] += 1
        shutil.rmtree(project)
        shutil.rmtree(tmp_path / "whole")
    print(dict(counts))


def kill_until_done(zygote, project, directory, flags, length, rng) -> Counter[str]:
    """Kills a run at random moments, again and again, until it ends before its kill."""
    counts = Counter()
    arguments = (*flags, "--run-dir", directory, "--resume", "auto")
    newest = max((path.name for path in checkpoints(directory)), default="")
    while True:
        moment = rng.uniform(0, length)
        result = zygote.run(project, "train.py", *arguments, kill_after=moment)
        assert result.stderr == ""
        if result.returncode == 0:
            return counts
        assert result.returncode == -signal.SIGKILL
        saved = checkpoints(directory)
        assert all(map(is_whole, saved))
        last = max((path.name for path in saved), default="")
        assert last >= newest, "a checkpoint is lost"
        if last == newest:
            length *= 1.1  # Else a machine that got slower would never get further.
        newest = last
        counts["kills"] += 1
        counts["kills after a save"] += bool(saved)
        counts["kills while saving"] += any(directory.glob("checkpoints/*.tmp"))


@pytest.mark.parametrize(
    ("event", "number"), few_of(list(product(faults.SAVING, (1, 2, 4))), RENAMED)
)
def test_killed_within_a_save(event, number, project, flags, zygote, whole, tmp_path):
    directory = tmp_path / "run"
    arguments = (*flags, "--keep-checkpoints", 1, "--run-dir", directory)
    result = zygote.run(project, faults.SCRIPT, "die", event, number, *arguments)
    assert result.returncode == -signal.SIGKILL, result.stderr
    saved = checkpoints(directory)
    assert all(map(is_whole, saved))
    # With one to keep, the first to be removed is removed in the second save.
    saves = number + (event == "remove")
    renamed = event in ("open directory", "fsync directory", "remove")
    assert bool(saved) == (saves > 1 or renamed)
    assert len(saved) <= 2
    said = goes_on(zygote.run, project, directory, *arguments[:-2])
    assert ("resuming from" in said) == bool(saved)
    training.check_same_run(whole, directory)
    assert len(checkpoints(directory)) == 1


def test_a_save_is_atomic_and_durable(project, flags, zygote, tmp_path):
    arguments = (*flags, "--keep-checkpoints", 1, "--max-steps", 3)
    result = zygote.run(
        *(project, faults.SCRIPT, "trace", tmp_path / "calls.json"),
        *(*arguments, "--run-dir", tmp_path / "run"),
    )
    assert result.returncode == 0, result.stderr
    calls = json.loads((tmp_path / "calls.json").read_text())
    calls = [call for call in calls if not call[1].startswith("best.pt")]
    first = "step-00000001.pt"
    aside = f"{first}.tmp"
    names = [aside, aside, aside, aside, "checkpoints", "checkpoints"]
    steps = list(map(list, zip(faults.SAVING, names, strict=False)))
    assert calls[: len(steps)] == steps
    events = [event for event, _ in calls]
    assert events[len(steps) :][: len(faults.SAVING)] == list(faults.SAVING)
    # The old one goes when the new one, and its name, are on the disk.
    assert calls[len(steps) + len(faults.SAVING) - 1] == ["remove", first]


@pytest.mark.parametrize("fault", at_once(["fill", "move"], "fill"))
def test_run_goes_on_without_checkpoints(fault, project, flags, zygote, whole, started):
    arguments = [*flags, "--run-dir", started, "--resume", "auto"]
    if fault == "move":
        arguments[:0] = started / "checkpoints", started / "nowhere" / "at-all"
    result = zygote.run(project, faults.SCRIPT, fault, 2, *arguments)
    assert result.returncode == 0, result.stderr
    lines = result.stderr.splitlines()
    path = re.escape(f"{started}/checkpoints")
    assert len(lines) >= 2
    made_room = r"|the disk is full: removed \S+" if fault == "fill" else ""
    refusal = rf"training continues without a checkpoint: .*{path}.*{made_room}"
    for line in lines:
        assert re.fullmatch(refusal, line), line
    training.check_same_run(whole, started)
    moved = started / "checkpoints-away"
    if moved.exists():
        (started / "checkpoints").unlink()
        moved.rename(started / "checkpoints")
    # What was there before, and nothing that was written aside.
    names = [path.name for path in (started / "checkpoints").iterdir()]
    # On a full disk, older ones have made room in vain.
    kept = (3,) if fault == "fill" else (1, 2, 3)
    assert sorted(names) == [f"step-{step:08d}.pt" for step in kept]
    assert "step-00000003.pt, step 3" in goes_on(zygote.run, project, started, *flags)
    training.check_same_run(whole, started)


@pytest.mark.proof
@pytest.mark.parametrize("name", ["config.json", "model.pt", "best.pt"])
def test_run_ends_if_its_results_cannot_be_written(
    name, project, flags, zygote, whole, started
):
    (started / f"{name}.tmp").symlink_to("/dev/full")
    arguments = (*flags, "--run-dir", started, "--resume", "auto")
    result = zygote.run(project, "train.py", *arguments)
    message = one_line(result)
    assert f"cannot write {started / name} (" in message
    assert "No space left on device" in message
    assert not (started / name).exists()
    goes_on(zygote.run, project, started, *flags)
    training.check_same_run(whole, started)


@pytest.mark.proof
def test_oldest_checkpoints_make_room(project, flags, zygote, whole, small_disk):
    sizes = {path: path.stat().st_size for path in whole.rglob("*") if path.is_file()}
    one = sizes[checkpoints(whole)[0]]
    others = sum(sizes.values()) - 6 * one
    directory = small_disk(others + 4 * one) / "run"
    result = zygote.run(project, "train.py", *flags, "--run-dir", directory)
    assert result.returncode == 0, result.stderr
    said = result.stderr.splitlines()
    assert said
    assert all(line.startswith("the disk is full: removed ") for line in said), said
    names = [path.name for path in checkpoints(whole)[-len(checkpoints(directory)) :]]
    assert [path.name for path in checkpoints(directory)] == names
    training.check_same_run(whole, directory)


@pytest.mark.parametrize(
    "number", at_once([signal.SIGTERM, signal.SIGINT, signal.SIGKILL], signal.SIGTERM)
)
def test_signal_on_the_command_line(number, zygote, folder, hdf5, tmp_path):
    """A new process with two workers; Ctrl-C signals them as well.

    Until it ends no other run gets into its directory, and then one does at once: the
    workers of a process that was killed live on for seconds.
    """
    subset = recommended()
    project = render_subset(tmp_path / "project", subset)
    flags = (*training.flags(subset, folder, hdf5), "--epochs", 6, "--num-workers", 2)
    flags += ("--checkpoint-every", 1, "--keep-checkpoints", 2)
    training.train(zygote.run, project, *flags, "--run-dir", tmp_path / "whole")
    directory = tmp_path / "run"
    arguments = map(str, (*flags, "--run-dir", directory))
    process = subprocess.Popen(
        [sys.executable, "-Werror", f"-Wignore:{OF_FEW_CORES}", "train.py", *arguments],
        cwd=project,
        encoding="utf-8",
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        start_new_session=True,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        while not [*directory.glob("checkpoints/step-*[4-9].pt")]:
            assert process.poll() is None, process.communicate()
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGSTOP)
        again = (*flags, "--run-dir", directory, "--resume", "auto")
        assert one_line(zygote.run(project, "train.py", *again)) == (
            f"error: another process is training in {directory}: wait for its end, or "
            "pass another --run-dir (Resource temporarily unavailable)\n"
        )
        os.kill(process.pid, signal.SIGCONT)
        kill = os.killpg if number == signal.SIGINT else os.kill
        kill(process.pid, number)
        process.wait(60)
        last = int(re.search(r"\d+", checkpoints(directory)[-1].name)[0])
        assert f"step {last}\n" in goes_on(zygote.run, project, directory, *flags)
        _, stderr = process.communicate(timeout=60)  # Waits for the workers too.
    finally:
        process.kill()
    if number == signal.SIGKILL:  # The workers may print how it left them.
        assert process.returncode == -number
    else:
        assert process.returncode == 128 + number, stderr
        assert stderr == (
            f"stopped by {number.name} after step {last}: "
            f"to continue, pass --resume {directory}\n"
        )
    training.check_same_run(tmp_path / "whole", directory)


@pytest.mark.proof
def test_terminal_closes(project, flags, zygote, tmp_path):
    """Printing fails from then on, but the checkpoint is still saved."""
    flags = (*flags, "--epochs", 16, "--log-every", 1)
    training.train(zygote.run, project, *flags, "--run-dir", tmp_path / "whole")
    directory = tmp_path / "run"
    child, terminal = pty.fork()
    if child == 0:
        arguments = map(str, (*flags, "--run-dir", directory))
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has it ignored.
        os.chdir(project)
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        os.execve(sys.executable, [sys.executable, "train.py", *arguments], environment)
    while not checkpoints(directory):
        os.read(terminal, 2**16)
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGHUP
    assert not (directory / "model_plain.pt").exists()
    last = int(re.search(r"\d+", checkpoints(directory)[-1].name)[0])
    assert f"step {last}\n" in goes_on(zygote.run, project, directory, *flags)
    training.check_same_run(tmp_path / "whole", directory)


@pytest.mark.parametrize(
    ("seed", "flips"),
    [
        (0, 100),
        pytest.param(PROOF_SEED, 1500, marks=[pytest.mark.proof, pytest.mark.share]),
        pytest.param(PROOF_SEED, 4000, marks=[pytest.mark.proof, pytest.mark.share]),
    ],
    ids=["hundreds", "more", "thousands"],
)
def test_damaged_checkpoints(seed, flips, project, zygote, started):
    """A damaged checkpoint is refused, or its whole content is as it was saved."""
    newest = checkpoints(started)[-1]
    arguments = ("damage", newest, seed, flips)
    result = zygote.run(project, faults.SCRIPT, *arguments, timeout=900)
    assert result.returncode == 0, result.stderr
    outcomes, silent = json.loads(result.stdout)
    counts = Counter(
        (kind, re.sub(r"\S+ is damaged, or .*", "damaged", outcome))
        for kind, outcome in outcomes
    )
    print(counts, silent)
    unharmed = {("untouched", "equal"), ("longer", "equal"), ("flipped", "equal")}
    assert {case for case in counts if case[1] != "damaged"} <= unharmed
    assert counts["untouched", "equal"] == 1
    # Bits that nothing reads, such as those of dates and of the space between records.
    assert counts["flipped", "equal"] < counts["flipped", "damaged"]
    assert silent > flips / 2


@pytest.mark.proof
def test_auto_passes_over_damaged_checkpoints(project, flags, zygote, whole, started):
    arguments = (*flags, "--run-dir", started, "--resume", "auto")
    first, second, third = checkpoints(started)
    content = third.read_bytes()
    third.write_bytes(content[: len(content) // 2])
    second.unlink()
    second.mkdir()
    result = zygote.run(project, ranks.SCRIPT, "stop::2", *arguments)
    assert f"resuming from {first}, step 1" in result.stdout
    remedy = "pass the directory of a run that has one"
    passed = [
        rf"skipped: {third} is damaged, .* \(RuntimeError: .*\)",
        f"skipped: there is no checkpoint in {second}: {remedy}",
    ]
    *two, last, stopped = result.stderr.splitlines()
    assert all(map(re.fullmatch, passed, two)), two
    assert stopped.startswith("stopped by SIGTERM after step 3")
    # A directory is not replaced: the run says so, and goes on.
    assert last.startswith(
        f"training continues without a checkpoint: cannot write {second}"
    )
    assert is_whole(third)
    third.write_bytes(content[: len(content) // 2])
    second.rmdir()
    result = zygote.run(project, "train.py", *arguments)
    assert result.returncode == 0
    assert re.fullmatch(f"{passed[0]}\n", result.stderr)
    training.check_same_run(whole, started)


@pytest.mark.proof
def test_auto_with_nothing_good(project, flags, zygote, started):
    for path in checkpoints(started):
        path.write_text("text")
    arguments = (*flags, "--run-dir", started, "--resume", "auto")
    message = one_line(zygote.run(project, "train.py", *arguments))
    assert message.startswith(f"error: no checkpoint in {started} can be used: ")
    assert f"{path} is damaged" in message
    assert [path.read_text() for path in checkpoints(started)] == ["text"] * 3


OTHER_VERSION = (
    "{path} is no checkpoint of this version: finish its run with the code that saved "
    "it, or start a new run"
)
REFUSED = {
    "weights": OTHER_VERSION,
    "list": OTHER_VERSION,
    "tensor": OTHER_VERSION,
    "past": OTHER_VERSION,
    "future": OTHER_VERSION,
    "classes": "{path} is of another model, or of a run with other targets: "
    "bring it back, or start a new run (",
    "samples": "{path} is of a run with 9 training samples, not 22: "
    "bring the data back, or start a new run",
}

SEEN_LATE = {"classes", "samples"}
"""Differences that are found when the run is made: too late to look for another checkpoint."""


@pytest.mark.proof
def test_other_files_are_refused(project, flags, zygote, whole, started, tmp_path):
    *_, newest = checkpoints(started)
    result = zygote.run(project, faults.SCRIPT, "others", tmp_path, newest)
    assert set(json.loads(result.stdout)) == set(REFUSED), result.stderr
    for name, reason in REFUSED.items():
        path = tmp_path / f"{name}.pt"
        arguments = (*flags, "--run-dir", tmp_path / "new", "--resume", path)
        message = one_line(zygote.run(project, "train.py", *arguments))
        assert message.startswith(f"error: {reason.format(path=path)}")
        shutil.copy(path, newest)
        arguments = (*flags, "--run-dir", started, "--resume", "auto")
        if name in SEEN_LATE:
            message = one_line(zygote.run(project, "train.py", *arguments))
            assert message.startswith(f"error: {reason.format(path=newest)}")
            continue
        result = zygote.run(project, ranks.SCRIPT, "stop::1", *arguments)
        assert result.returncode == 143, result.stderr
        passed = f"skipped: {reason.format(path=newest)}\n"
        assert result.stderr.startswith(f"{passed}stopped by SIGTERM after step 3")
    shutil.copy(checkpoints(whole)[2], newest)
    goes_on(zygote.run, project, started, *flags)
    training.check_same_run(whole, started)


@pytest.mark.proof
def test_checkpoint_of_a_project_with_other_tricks(
    project, flags, zygote, whole, folder, hdf5, tmp_path
):
    """The checkpoint is used if its state fits. The log lists the settings that came and went."""
    only = Subset.of("folders", "csv", "hdf5", "resume", "muon")
    fewer = render_subset(tmp_path / "fewer", only)
    few = training.flags(only, folder, hdf5)
    training.train(zygote.run, fewer, *few, "--run-dir", tmp_path / "run")
    path = checkpoints(tmp_path / "run")[0]
    arguments = (*flags, "--run-dir", tmp_path / "new", "--resume", path)
    message = one_line(zygote.run(project, "train.py", *arguments))
    assert f"{path} is of a run with " in message
    # Its optimizer has the weights in other groups.
    arguments = (*few, "--batch-size", 4, "--run-dir", tmp_path / "new")
    message = one_line(
        zygote.run(fewer, "train.py", *arguments, "--resume", checkpoints(whole)[2])
    )
    assert "is of another optimizer" in message
    more = Subset.of("folders", "csv", "hdf5", "resume", "muon", "mixup", "amp")
    projects = (render_subset(tmp_path / "more", more), fewer)
    line = (
        r"resumed with .*mixup_alpha {} \(was {}\).*: the weights may end in other bits"
    )
    changes = (line.format("0.2", "None"), line.format("None", "0.2"))
    for other, change in zip(projects, changes, strict=True):
        directory = tmp_path / f"run-of-{other.name}"
        arguments = (*few, "--epochs", 9, "--max-steps", 4, "--run-dir", directory)
        result = zygote.run(other, "train.py", *arguments, "--resume", path)
        assert (result.returncode, result.stderr) == (0, "")
        assert re.search(change, result.stdout), result.stdout
        path = checkpoints(directory)[-1]


@pytest.mark.proof
def test_files_never_run_code(project, flags, zygote, whole, folder, tmp_path):
    *_, newest = checkpoints(whole)
    result = zygote.run(project, faults.SCRIPT, "attack", tmp_path, newest)
    assert result.returncode == 0, result.stderr
    files = sorted(tmp_path.glob("*.pt"))
    assert len(files) == 5
    for path in files:
        ran = path.with_name(f"{path.stem}-ran")
        arguments = (*flags, "--run-dir", tmp_path / "new", "--resume", path)
        message = one_line(zygote.run(project, "train.py", *arguments))
        loaded = r"(is damaged|holds \S+, which could run code)"
        assert re.search(f"{path} {loaded}", message)
        arguments = ("--weights", path, "--config", whole / "config.json")
        message = one_line(
            zygote.run(
                project, "predict.py", folder / "val", *arguments, "--device", "cpu"
            )
        )
        assert not ran.exists()
        zygote.run(project, faults.SCRIPT, "detonate", path)
        assert ran.exists(), "the file was harmless"


OTHER = {
    "data": "folder",
    "model": "mobilenet_v3_small",  # It has the names of weights that are frozen.
    "freeze": "'features.2.*' '*.bias'",
    "milestones": "0.4 0.8",
    "lr": 0.1,
    "max_steps": 6,
    "mlflow_experiment": "other",
    "wandb_mode": "offline",
    "wandb_project": "other",
    "folds": 2,
}
"""Another value of settings for which `another` knows none."""

ALONG = {
    "data_on_device": {"augment": "none"},
    "fold": {"folds": 2},
    "group_column": {"folds": 2},
    "group_pattern": {"folds": 2},
}
"""Other settings that must change together with one, which is refused alone."""

STATES = {"model": "model", "pooling": "model", "teacher": "distillation"}
"""Settings that stay the same because the state of a part would not fit."""

WHERE = {"run_dir", "resume", "settings"}
"""Settings that say where files are: a change of theirs is not printed."""


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize("part", range(PARTS))
def test_changed_settings(
    part, project, flags, zygote, whole, started, folder, hdf5, tmp_path
):
    """Each setting may change, which is printed, or is refused in one line."""
    # After the last checkpoint but one, a step and an evaluation are left.
    before_the_end = checkpoints(whole)[-2]
    shutil.copy(before_the_end, started / "checkpoints")
    described = zygote.run(project, faults.SCRIPT, "describe")
    defaults, fixed, properties = json.loads(described.stdout)
    saved = defaults | json.loads((whole / "config.json").read_text())["settings"]
    moved = tmp_path / "moved"
    shutil.copytree(hdf5, moved)
    (tmp_path / "empty.toml").touch()
    shutil.copy(whole / "config.json", started)
    others = OTHER | {
        "data_dir": moved,
        "run_dir": tmp_path / "new",
        "init_weights": whole / "model.pt",
        "teacher": whole / "model.pt",
        "resume": checkpoints(started)[0],
        "settings": tmp_path / "empty.toml",
        "mlflow_uri": f"sqlite:///{tmp_path}/mlflow.db",
    }
    for name, described in properties.items():
        if name not in others:
            others[name] = another(described, saved[name])
    page = (ROOT / "docs/resuming.md").read_text(encoding="utf-8")
    for name in (*fixed, *STATES):
        assert f"`--{name.replace('_', '-')}`" in page, name
    for name, value in sorted(others.items())[part::PARTS]:
        changes = dict(sorted(({name: value} | ALONG.get(name, {})).items()))
        change = [part for item in changes.items() for part in as_flag(*item)]
        copy = tmp_path / name
        shutil.copytree(started, copy)
        resumed = checkpoints(copy)[-1]
        arguments = ["--device", "cpu", "--resume", resumed, *change]
        if name == "data":
            arguments += ["--data-dir", folder]
        if name == "resume":
            # That of another run needs a directory of its own.
            arguments += ["--run-dir", tmp_path / "newer"]
        result = zygote.run(project, "train.py", *arguments)
        if name in fixed:
            assert f"{resumed} is of a run with {name} " in one_line(result)
        elif name in STATES:
            message = f"{resumed} is of another {STATES[name]}"
            assert message in one_line(result)
        else:
            assert (result.returncode, result.stderr) == (0, ""), name
            line = (
                f"{name} .*{re.escape(f'(was {saved.get(name)})')}.*: the weights may"
            )
            printed = re.search(f"(?m)^resumed with .*{line}", result.stdout)
            assert bool(printed) == (name not in WHERE), (name, result.stdout)


def another(described, value):
    """Returns another value of a setting that a JSON schema describes."""
    kind = described.get("anyOf", [described])[0]
    if "enum" in kind:
        return next(choice for choice in kind["enum"] if choice != value)
    match kind["type"]:
        case "boolean":
            return not value
        case "integer":
            return (value or 0) + 1
        case "number":
            return value / 2 if value else 0.5
    return "auto" if value == "cpu" else "another"


def as_flag(name, value):
    """Returns a setting as arguments of the command line."""
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return [flag if value else f"--no-{flag.removeprefix('--')}"]
    if name in ("freeze", "milestones"):
        values = value if isinstance(value, list) else shlex.split(value)
        return [flag, *map(str, values)]
    return [flag, value]


@pytest.mark.proof
@needs_floor
@pytest.mark.parametrize(
    ("without", "tolerance"),
    [
        # Between the two versions the choice of Mixup or CutMix draws otherwise.
        pytest.param({}, 0.1, marks=pytest.mark.share),
        ({"amp": False, "mixup": False}, 0.01),
    ],
    ids=["everything", "no-amp-no-mixup"],
)
def test_versions_may_change(
    without, tolerance, folder, hdf5, zygote, floor_zygote, tmp_path
):
    """A run moves from the newest versions to the oldest and back. The losses stay close."""
    subset = everything(**without)
    project = render_subset(tmp_path / "project", subset)
    # MLflow opens no database that a newer version of it has opened.
    flags = [*training.flags(subset, folder, hdf5), *training.WITHOUT_TRACKERS]
    training.train(zygote.run, project, *flags, "--run-dir", tmp_path / "whole")
    last = tmp_path / "whole"
    parts = (zygote, None), (floor_zygote, 2), (zygote, 3), (floor_zygote, 4)
    for python, step in parts:
        last = goes_on_in_a_new_directory(python.run, project, last, step, *flags)
    newest, moved = map(training.read_metrics, (tmp_path / "whole", last))
    for one, other in zip(newest, moved, strict=True):
        assert one["learning_rates"] == other["learning_rates"]
        for name in ("train_loss", "val_loss"):
            assert one[name] == pytest.approx(other[name], rel=tolerance)
