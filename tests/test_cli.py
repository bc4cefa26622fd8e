"""The command line: what each command does, and what it refuses."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import copier
import pytest
import yaml
from plumbum import local
from rendering import compiled_templates_kept, git_left_alone
from torch_tricks import cli
from torch_tricks.catalogue import TRICKS
from typer.testing import CliRunner

ROOT = Path(__file__).parents[1]
SOURCE = "gh:org/torch-tricks"
NAME = "Leaf Diseases"
PACKAGE = "leaf_diseases"


def git(directory, *arguments, **options):
    """Runs git as somebody with a name."""
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
    command = ["git", *identity, "-C", directory, *arguments]
    result = subprocess.run(command, capture_output=True, check=True, **options)
    return os.fsdecode(result.stdout)


def commit(directory, message="Work"):
    git(directory, "add", "--all", "--force")
    git(directory, "commit", "--quiet", "--message", message)


@pytest.fixture(scope="session")
def hub(tmp_path_factory):
    """The template where `gh:` finds it: v0.1.0 as it is here, and v0.2.0.

    The second has one trick more, a changed loop, and schedule.py under another name.
    """
    work = tmp_path_factory.mktemp("work")
    shutil.copytree(ROOT / "template", work / "template")
    shutil.copy(ROOT / "copier.yml", work)
    git(work, "init", "--quiet", "--initial-branch=main")
    commit(work)
    git(work, "tag", "v0.1.0")
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [trick] = re.findall(r"^```diff\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    only = ("--include=template/*", "--include=copier.yml")
    git(work, "apply", *only, "-", input=trick.encode())
    package = work / "template" / "{{ package_name }}"
    (package / "schedule.py").rename(package / "rates.py")
    for path in (work / "template").rglob("*.jinja"):
        code = path.read_text(encoding="utf-8")
        path.write_text(code.replace("}}.schedule import", "}}.rates import"))
    loop = work / "template" / "train.py.jinja"
    loop.write_text(loop.read_text().replace("Trains an image", "Trains a new image"))
    commit(work)
    git(work, "tag", "v0.2.0")
    hub = tmp_path_factory.mktemp("hub")
    bare = hub / "org" / "torch-tricks.git"
    git(hub, "clone", "--quiet", "--bare", str(work), str(bare))
    return hub


@pytest.fixture(autouse=True)
def at_the_hub(hub, tmp_path_factory, monkeypatch):
    """Leads `gh:` to the hub, and lets the tool take it for its own template."""
    for key, value in environment(hub, tmp_path_factory.getbasetemp()).items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(
        "torch_tricks.template.default_source", lambda: (SOURCE, "v0.1.0")
    )
    monkeypatch.setattr(
        "torch_tricks.creating.default_source", lambda: (SOURCE, "v0.1.0")
    )
    monkeypatch.setattr(
        "torch_tricks.reporting.default_source", lambda: (SOURCE, "v0.1.0")
    )
    with compiled_templates_kept(), git_left_alone():
        yield


def environment(hub, base):
    settings = base / "settings.yml"
    settings.touch()
    return {
        "COPIER_CACHE_DIR": str(base / "cache"),
        "COPIER_SETTINGS_PATH": str(settings),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{hub}/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
    }


def run(*arguments, code=0, **options):
    """Runs a command in this process; returns what it printed."""
    result = CliRunner().invoke(cli.app, [str(word) for word in arguments], **options)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    if code == 2:
        [line] = result.stderr.splitlines()
        assert line.startswith("error: ")
        return line
    assert result.stderr == ""
    return result.stdout


@pytest.fixture(scope="session")
def fresh(hub, tmp_path_factory):
    """Returns a function that makes a project with Copier alone, each kind once."""
    made = {}

    def make(version="v0.1.0", **answers):
        key = (version, *answers.items())
        if key not in made:
            made[key] = tmp_path_factory.mktemp("fresh") / "project"
            data = {"project_name": NAME} | answers
            options = {"vcs_ref": version, "defaults": True, "quiet": True}
            # Plumbum, by which Copier runs git, read the environment when it was imported.
            with local.env(**os.environ):
                copier.run_copy(SOURCE, made[key], data, **options)
        return made[key]

    return make


@pytest.fixture
def project(fresh, tmp_path, monkeypatch):
    """Returns a function that makes a committed project and goes there."""

    def make(place="project", **answers):
        directory = tmp_path / place
        shutil.copytree(fresh(**answers), directory)
        git(tmp_path, "init", "--quiet", str(tmp_path if "/" in place else directory))
        commit(directory, "Start")
        monkeypatch.chdir(directory)
        return directory

    return make


def files(directory):
    """The content of each file, less git's own."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(directory).parts
    }


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def custom(**answers):
    """Answers under the preset custom, with no tricks but those given."""
    none = {trick.name: False for trick in TRICKS} | {"parallel": "none"}
    return {"preset": "custom"} | none | answers


RECOMMENDED = {"seeding": True, "prefetcher": True, "amp": True, "resume": True}


class TestNew:
    @pytest.mark.parametrize(
        ("wishes", "answers"),
        [
            (["--preset=minimal"], {"preset": "minimal"}),
            (["--defaults"], {"preset": "recommended"}),
            (["--with", "amp"], {"preset": "recommended"}),
            (
                ["--preset=minimal", "--with=amp,mixup"],
                custom(amp=True, mixup=True),
            ),
            (
                ["--with=swa", "--without=amp"],
                custom(**RECOMMENDED | {"swa": True, "amp": False}),
            ),
            (["--preset=minimal", "--with=parallel"], custom(parallel="dp")),
            (["--preset=minimal", "--with", "parallel=dp"], custom(parallel="dp")),
            (
                ["--data=preset=custom", "-d", "swa=yes", "-d", "author=Ada"],
                custom(**RECOMMENDED, swa=True) | {"author": "Ada"},
            ),
        ],
        ids=str,
    )
    def test_equals_what_copier_makes(self, tmp_path, fresh, wishes, answers):
        output = run("new", tmp_path / "leaves", "--name", NAME, *wishes)
        assert files(tmp_path / "leaves") == files(fresh(**answers))
        assert f"{NAME} is ready in " in output
        assert os.listdir(tmp_path) == ["leaves"]

    def test_the_real_commands_agree(self, hub, tmp_path):
        variables = os.environ | {"PYTHONPATH": str(ROOT / "generator")}
        tool = [sys.executable, "-m", "torch_tricks"]
        ours = ["new", "ours/leaves", "--name", NAME, "--preset", "everything"]
        ours += ["--template", SOURCE, "--ref", "v0.1.0"]
        theirs = [
            Path(sys.executable).with_name("copier"),
            "copy",
            "--defaults",
            "--quiet",
        ]
        theirs += ["-d", f"project_name={NAME}", "-d", "preset=everything"]
        theirs += ["--vcs-ref", "v0.1.0", SOURCE, "theirs/leaves"]
        for command in (tool + ours, theirs):
            subprocess.run(command, cwd=tmp_path, env=variables, check=True)
        assert files(tmp_path / "ours") == files(tmp_path / "theirs")

    def test_an_empty_folder_is_filled(self, tmp_path, fresh, monkeypatch):
        monkeypatch.chdir(tmp_path)
        output = run("new", ".", "--name", NAME, "--preset=minimal")
        assert files(tmp_path) == files(fresh(preset="minimal"))
        assert "    cd " not in output

    def test_a_relative_template_is_found_again_from_the_project(
        self, hub, tmp_path, monkeypatch
    ):
        monkeypatch.chdir(hub / "org")
        template = "torch-tricks.git"
        run(
            "new",
            tmp_path / "leaves",
            "--name",
            NAME,
            "--defaults",
            "--template",
            template,
        )
        answers = yaml.safe_load(
            (tmp_path / "leaves" / ".copier-answers.yml").read_text()
        )
        assert answers["_src_path"] == str(hub / "org" / template)
        assert answers["_commit"] == "v0.2.0"

    def test_an_uncommitted_template_gets_a_note(self, hub, tmp_path):
        clone = tmp_path / "clone"
        git(hub, "clone", "--quiet", str(hub / "org" / "torch-tricks.git"), str(clone))
        edit(clone / "copier.yml", "_needs:", "# Changed\n_needs:")
        options = ("--defaults", "--template", clone, "--ref", "HEAD")
        output = run("new", tmp_path / "leaves", "--name", NAME, *options)
        assert "changes that are not committed" in output

    @pytest.mark.parametrize(
        ("wishes", "sentence"),
        [
            (["--preset=recomended"], "did you mean recommended?"),
            (["--with=AMP"], "did you mean amp?"),
            (["--with=mixip"], "did you mean mixup?"),
            (["--with=zzz"], "there is seeding, parallel"),
            (["--with=amp", "--without=amp"], "amp is both taken and left out"),
            (
                ["--with=parallel=ddp"],
                'no choice of parallel is called "ddp"; did you mean dp?',
            ),
            (["--with=amp=fp16"], "amp has no choices"),
            (["--data=authr=Ada"], "did you mean author?"),
            (["--data=tricks=[]"], 'no question is called "tricks"'),
            (["--data=author"], "write --data author=VALUE"),
            (["--data=swa=maybe"], "write swa=true or swa=false"),
            (["--data=swa=true"], "add -d preset=custom"),
            (["--data=preset=best"], 'no choice of preset is called "best"'),
            (["--data=package_name=class"], "class is taken"),
            (["--name=Leaves\x07"], "without control characters"),
            (["--ref=v9"], "the template has no version v9; it has v0.1.0, v0.2.0"),
            (["--ref=no-such-branch"], "cannot be had"),
            (["--template=nowhere"], "nowhere is no git repository"),
            (["--template=gh:org/nothing"], "check the network"),
            (["--no-such-option"], "see torch-tricks --help"),
        ],
        ids=str,
    )
    def test_a_refusal_leaves_nothing_behind(self, tmp_path, wishes, sentence):
        line = run(
            "new", tmp_path / "leaves", "--name", NAME, "--defaults", *wishes, code=2
        )
        assert sentence in line
        assert os.listdir(tmp_path) == []

    def test_a_name_is_needed(self, tmp_path):
        assert '--name "Leaf Diseases"' in run("new", tmp_path / "leaves", code=2)

    def test_nothing_is_overwritten(self, tmp_path):
        (tmp_path / "notes").write_text("mine")
        line = run("new", tmp_path, "--name", NAME, "--defaults", code=2)
        assert "exists already" in line
        assert files(tmp_path) == {"notes": b"mine"}
        assert "exists already" in run(
            "new", tmp_path / "notes", "--name", NAME, code=2
        )

    def test_an_interrupt_leaves_nothing_behind(self, tmp_path, monkeypatch):
        def interrupt(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr("copier._main.Worker._render_template", interrupt)
        arguments = ["new", str(tmp_path / "leaves"), "--name", NAME, "--defaults"]
        result = CliRunner().invoke(cli.app, arguments)
        assert (result.exit_code, result.stderr) == (130, "stopped\n")
        assert os.listdir(tmp_path) == []


class TestAsking:
    """Somebody is there, and Copier's prompts are answered by their defaults."""

    @pytest.fixture
    def asked(self, monkeypatch):
        asked = []

        def answer(questions, answers):
            [question] = questions
            if question["when"](answers):
                asked.append(question["name"])
            return {question["name"]: answers[question["name"]]}

        monkeypatch.setattr("torch_tricks.cli.can_ask", lambda: True)
        monkeypatch.setattr("copier._main.unsafe_prompt", answer)
        return asked

    def test_nothing_when_told_enough(self, tmp_path, asked):
        run("new", tmp_path / "leaves", "--name", NAME, "--preset", "minimal")
        assert asked == []

    def test_what_was_not_told(self, tmp_path, asked):
        run("new", tmp_path / "leaves", "--name", NAME)
        assert asked == ["package_name", "description", "author", "preset"]

    def test_custom_owners_only_about_what_is_new(self, project, asked):
        directory = project(**custom(amp=True))
        output = run("update")
        assert asked == ["grad_clipping"]
        assert "new trick grad_clipping (Gradient clipping: " in output
        assert "not in: torch-tricks add grad_clipping" in output
        assert not (directory / PACKAGE / "grad_clipping.py").exists()

    def test_preset_owners_about_nothing(self, project, asked, fresh):
        directory = project(preset="everything")
        output = run("update")
        assert asked == []
        assert output.count("grad_clipping") > 1
        assert files(directory) == files(fresh("v0.2.0", preset="everything"))


class TestList:
    def test_outside_of_a_project(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        lines = run("list").splitlines()
        for trick, line in zip(TRICKS, lines, strict=True):
            assert line.split()[0] == trick.name
            assert f"{trick.title}: {trick.buys}" in line
        assert lines[1].endswith("(needs two or more GPUs)")

    def test_inside_of_a_project(self, project):
        project(preset="recommended")
        lines = [line.split()[:2] for line in run("list").splitlines()]
        assert [name for state, name in lines if state == "in"] == list(RECOMMENDED)
        assert len(lines) == len(TRICKS)

    def test_has_the_tricks_of_the_version_that_the_project_has(self, project):
        project(preset="minimal", version="v0.2.0")
        assert "grad_clipping" in run("list")


class TestShow:
    @pytest.mark.parametrize("inside", [False, True])
    def test_has_the_idea_the_source_and_the_code(
        self, project, tmp_path, monkeypatch, inside
    ):
        monkeypatch.chdir(project(preset="everything") if inside else tmp_path)
        output = run("show", "swa")
        assert "From `--swa-start` on" in output
        assert "<https://arxiv.org/abs/1803.05407>" in output
        assert "\n+    if run.step > run.swa.start:\n" in output
        assert "+class WeightAverage" in output
        assert ".copier-answers.yml" not in output
        assert ("run.scaler" in output) == inside

    def test_the_code_is_what_add_adds(self, project):
        directory = project(preset="minimal")
        shown = run("show", "parallel")
        run("add", "parallel")
        commit(directory)
        pathspec = ("HEAD~", "HEAD", "--", ".", ":!.copier-answers.yml")
        assert shown.endswith(git(directory, "diff", *pathspec))

    def test_an_unknown_trick_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert "did you mean swa?" in run("show", "sva", code=2)

    def test_colours_are_for_terminals(self, project, monkeypatch):
        project(preset="minimal")
        assert "\033" not in run("show", "swa")
        monkeypatch.setattr("torch_tricks.reporting.colored", lambda: True)
        assert "\033[32m+" in run("show", "swa")


class TestAddAndRemove:
    @pytest.mark.parametrize(
        ("before", "command", "after"),
        [
            ({"preset": "minimal"}, ["add", "amp", "swa"], custom(amp=True, swa=True)),
            (
                {"preset": "recommended"},
                ["remove", "amp"],
                custom(**RECOMMENDED | {"amp": False}),
            ),
            (custom(amp=True), ["remove", "amp"], custom()),
            (custom(), ["add", "parallel"], custom(parallel="dp")),
            (
                custom(parallel="dp"),
                ["add", "amp", "parallel"],
                custom(parallel="dp", amp=True),
            ),
        ],
        ids=str,
    )
    def test_gives_what_copier_makes_anew(self, project, fresh, before, command, after):
        directory = project(**before)
        before = files(directory)
        output = run(*command)
        assert files(directory) == files(fresh(**after))
        run_undo(output)
        assert files(directory) == before
        assert git(directory, "status", "--porcelain", "--ignored") == ""

    def test_says_so_if_there_is_nothing_to_do(self, project):
        directory = project(preset="recommended")
        assert run("add", "amp") == "amp is in already\nnothing to do\n"
        assert run("remove", "swa") == "swa is not in\nnothing to do\n"
        assert git(directory, "status", "--porcelain") == ""

    @pytest.mark.parametrize("command", ["add", "remove"])
    def test_refuses_an_unknown_trick(self, project, command):
        project(preset="minimal")
        assert "did you mean amp?" in run(command, "AMP", code=2)

    def test_every_change_shows_in_git_diff(self, project):
        directory = project(**custom(amp=True))
        shown = run("remove", "amp", "--dry-run")
        run("remove", "amp")
        assert git(directory, "diff") in shown
        git(directory, "checkout", ".")
        shown = run("add", "swa", "--dry-run")
        run("add", "swa")
        # The index holds nothing but the names of new files.
        assert git(directory, "diff") in shown


def run_undo(output):
    """Runs the command that the output names for going back."""
    [command] = re.findall(r"^to go back: (.*)$", output, re.MULTILINE)
    subprocess.run(command, shell=True, check=True)
