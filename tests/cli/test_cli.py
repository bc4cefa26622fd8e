"""The command line: what each command does, and what it refuses."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import copier
import pytest
import versions
import yaml
from plumbum import local
from rendering import clones_kept, quick_copier, render
from subsets import TRICKS
from torch_tricks import cli, output, updating
from torch_tricks.errors import Refusal
from torch_tricks.git import GitError, Scratch
from torch_tricks.project import Project
from torch_tricks.questions import Questions
from typer.testing import CliRunner
from versions import NEW_TRICK

ROOT = Path(__file__).parents[2]
SOURCE = "gh:org/torch-tricks"
NAME = "Leaf Diseases"
PACKAGE = "leaf_diseases"
GIT = shutil.which("git")


def git(directory, *arguments, **options):
    """Runs git as somebody with a name, and no hooks."""
    settings = ("user.name=Test", "user.email=test@example.com", "core.hooksPath=none")
    options_of_git = [word for setting in settings for word in ("-c", setting)]
    command = ["git", *options_of_git, "-C", directory, *arguments]
    result = subprocess.run(command, capture_output=True, check=True, **options)
    return os.fsdecode(result.stdout)


def commit(directory, message="Work"):
    git(directory, "add", "--all", "--force")
    git(directory, "commit", "--quiet", "--message", message)


def begin(work):
    """Makes a repository of the template as it is here, as v0.1.0."""
    shutil.copytree(ROOT / "template", work / "template")
    shutil.copy(ROOT / "copier.yml", work)
    git(work, "init", "--quiet", "--initial-branch=main")
    commit(work)
    git(work, "tag", "v0.1.0")


@pytest.fixture(scope="session")
def hub(tmp_path_factory):
    """The template where `gh:` finds it: v0.1.0 as it is here, and v0.2.0.

    The second has one trick more, a changed loop, a change in a file without Jinja, and
    schedule.py under another name.
    """
    work = tmp_path_factory.mktemp("work")
    begin(work)
    versions.trick(work)
    versions.rename(work, "*/optim/schedule.py*", "schedule", "rates")
    package = work / "template" / "{{ package_name }}"
    loop = work / "template" / "train.py.jinja"
    loop.write_text(loop.read_text().replace("Trains a model", "Trains a new model"))
    edit(package / "files.py", "never half-written", "always whole")
    commit(work)
    git(work, "tag", "v0.2.0")
    hub = tmp_path_factory.mktemp("hub")
    bare = hub / "org" / "torch-tricks.git"
    git(hub, "clone", "--quiet", "--bare", str(work), str(bare))
    return hub


@pytest.fixture(scope="session")
def strict(hub, tmp_path_factory):
    """Another template at the hub, in the second version of which tricks bind each other."""
    work = tmp_path_factory.mktemp("strict")
    begin(work)
    for name, binding in (
        ("swa", "needs: [amp]"),
        ("mixup", "excludes: [accumulation]"),
        ("prefetcher", "forms: [ddp, fsdp]"),
    ):
        row = f"    {name}:\n      title:"
        edit(work / "copier.yml", row, f"    {name}:\n      {binding}\n      title:")
    commit(work)
    git(work, "tag", "v0.2.0")
    bare = hub / "org" / "strict-tricks.git"
    git(hub, "clone", "--quiet", "--bare", str(work), str(bare))
    return "gh:org/strict-tricks"


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
    clones = tmp_path_factory.getbasetemp() / "clones"
    clones.mkdir(exist_ok=True)
    with quick_copier(), clones_kept(clones):
        yield


def environment(hub, base):
    settings = base / "settings.yml"
    settings.write_text("{}")
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

    def make(version="v0.1.0", source=SOURCE, **answers):
        key = (version, source, str(answers))
        if key not in made:
            made[key] = tmp_path_factory.mktemp("fresh") / "project"
            data = {"project_name": NAME} | answers
            options = {"vcs_ref": version, "defaults": True, "quiet": True}
            # Plumbum, by which Copier runs git, read the environment when it was imported.
            with local.env(**environment(hub, tmp_path_factory.getbasetemp())):
                copier.run_copy(source, made[key], data, **options)
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


def custom(*tricks, **answers):
    """Answers under the preset custom, with no tricks but those given."""
    chosen = {"preset": "custom", "parallel": "none", "tricks": list(tricks)}
    return chosen | answers


RECOMMENDED = [trick.name for trick in TRICKS if trick.recommended]
LESS_AMP = [name for name in RECOMMENDED if name != "amp"]


class TestNew:
    @pytest.mark.parametrize(
        ("wishes", "answers"),
        [
            (["--preset=minimal"], {"preset": "minimal"}),
            (["--defaults"], {"preset": "recommended"}),
            (["--with", "amp"], {"preset": "recommended"}),
            (
                ["--preset=minimal", "--with=amp,mixup"],
                custom("amp", "mixup"),
            ),
            (
                ["--with=swa", "--without=amp"],
                custom(*LESS_AMP, "swa"),
            ),
            (["--preset=minimal", "--with=parallel"], custom(parallel="dp")),
            (["--preset=minimal", "--with", "parallel=dp"], custom(parallel="dp")),
            (
                ["--data=preset=custom", "-d", "tricks=[swa, amp]", "-d", "author=Ada"],
                custom("swa", "amp", author="Ada"),
            ),
            (
                ["--preset=minimal", "--with=parallel", "--data=parallel=ddp"],
                custom(parallel="ddp"),
            ),
            (["--data=tricks=[swa]"], custom("swa")),
            (["--data=tricks=[]"], custom()),
            (["--data=tricks=[swa]", "--with=parallel"], custom("swa", parallel="dp")),
            (
                [f"--data=tricks=[{','.join(RECOMMENDED)}]", "--data=parallel=none"],
                {"preset": "recommended"},
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

    def test_a_clone_makes_projects_of_itself_as_it_stands(self, tmp_path):
        command = ("new", tmp_path / "leaves", "--name", NAME, "--preset=everything")
        result = python("-m", "torch_tricks", *command)
        assert result.returncode == 0, result.stderr
        made = files(tmp_path / "leaves")
        answers = yaml.safe_load(made.pop(".copier-answers.yml"))
        assert answers["_src_path"] == str(ROOT)
        assert answers["_commit"]
        fresh = files(render(tmp_path / "fresh", {"preset": "everything"}))
        del fresh[".copier-answers.yml"]
        assert made == fresh

    def test_everything_is_what_the_readme_says(self, project):
        project(preset="everything")
        listed = [line.split() for line in run("list").splitlines()]
        missing = {words[1] for words in listed if words[:1] == ["-"]}
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        [row] = re.findall(r"^\| `everything` \| (.*)", readme, re.MULTILINE)
        forms = {trick.name: trick.forms for trick in TRICKS}
        assert {*re.findall(r"`(\w+)`", row)} & forms.keys() == missing
        for name in missing:
            needed = " or ".join(f"parallel={form}" for form in forms[name])
            assert f"{name} needs {needed}: take that" in run("add", name, code=2)

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
        # In a process of its own, which clones the template each time.
        clone = tmp_path / "clone"
        git(hub, "clone", "--quiet", str(hub / "org" / "torch-tricks.git"), str(clone))
        edit(clone / "copier.yml", "_envops:", "# Changed\n_envops:")
        options = ("--defaults", "--template", clone, "--ref", "HEAD")
        result = python("-m", "torch_tricks", "new", tmp_path / "leaves", *options)
        assert "changes that are not committed" in result.stdout

    @pytest.mark.parametrize(
        ("wishes", "sentence"),
        [
            (["--preset=recomended"], "did you mean recommended?"),
            (["--with=AMP"], "did you mean amp?"),
            (["--with=mixip"], "did you mean mixup?"),
            (["--with=DDP"], "did you mean parallel=ddp?"),
            (["--with=zzz"], "there is seeding, resume"),
            (["--with=amp", "--without=amp"], "amp is both taken and left out"),
            (
                ["--with=parallel=fsdpp"],
                'no choice of parallel is called "fsdpp"; did you mean fsdp?',
            ),
            (["--with=amp=fp16"], "amp has no choices"),
            (["--data=authr=Ada"], "did you mean author?"),
            (["--data=tricks=[amp,mixip]"], "did you mean mixup?"),
            (["--data=tricks=[ddp]"], "did you mean parallel=ddp?"),
            (["--data=tricks=[parallel]"], 'no trick is called "parallel"'),
            (["--data=tricks=[amp=fp16]"], "did you mean amp?"),
            (["--data=author"], "write --data author=VALUE"),
            (["--data=swa=true"], "write --with or --without swa"),
            (
                ["--data=tricks=[swa]", "--without=swa"],
                "swa is both taken and left out",
            ),
            (["--data=preset=best"], 'no choice of preset is called "best"'),
            (["--data=package_name=class"], "class is taken"),
            (["--name=Leaves\x07"], "without control characters"),
            (["--ref=v9"], "the template has no version v9; it has v0.1.0, v0.2.0"),
            (["--ref=no-such-branch"], "cannot be had"),
            (
                ["--template=nowhere"],
                "'nowhere' does not appear to be a git repository",
            ),
            (["--template=gh:org/nothing"], "check the network"),
            (["--no-such-option"], "see torch-tricks new --help"),
        ],
        ids=str,
    )
    def test_a_refusal_leaves_nothing_behind(self, tmp_path, wishes, sentence):
        line = run(
            "new", tmp_path / "leaves", "--name", NAME, "--defaults", *wishes, code=2
        )
        assert sentence in line
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize(
        ("folder", "name"),
        [
            ("leaf-diseases", "Leaf Diseases"),
            ("_oak__leaves.v2", "Oak Leaves.v2"),
            ("BLÄTTER", "BLÄTTER"),
            ("blätter", "Blätter"),
            ("a\x07\n\udcffb", "A B"),
            ("---", "Project"),
            ("x" * 120, "X" + "x" * 79),
            ("y" * 79 + "-z", "Y" + "y" * 78),
        ],
    )
    def test_the_folder_gives_the_name(self, tmp_path, folder, name):
        run("new", tmp_path / folder, "--preset=minimal")
        answers = yaml.safe_load(
            (tmp_path / folder / ".copier-answers.yml").read_text()
        )
        assert answers["project_name"] == name
        assert {"package_name", "description", "author"} < answers.keys()

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

    @pytest.mark.parametrize(
        "wish",
        [
            *("--preset=minimal", "--with=swa", "--without=amp", "--data=tricks=[swa]"),
            "--defaults",
        ],
    )
    def test_nothing_when_told_enough(self, tmp_path, asked, wish):
        run("new", tmp_path / "leaves", "--name", NAME, wish)
        assert asked == []

    def test_name_and_preset(self, tmp_path, asked, fresh):
        run("new", tmp_path / "leaf-diseases")
        assert asked == ["project_name", "preset"]
        assert files(tmp_path / "leaf-diseases") == files(fresh())

    @pytest.mark.parametrize(
        ("wishes", "expected"),
        [
            (["--name", NAME], ["preset"]),
            (["--data", "project_name=Oaks"], ["preset"]),
            (["--data", "author=Ada"], ["project_name", "preset"]),
            (["--preset=everything"], ["project_name"]),
            (["--with=swa", "--preset=custom"], ["project_name"]),
        ],
        ids=str,
    )
    def test_what_was_not_told(self, tmp_path, asked, wishes, expected):
        run("new", tmp_path / "leaves", *wishes)
        assert asked == expected

    def test_the_rest_if_the_preset_is_custom(self, tmp_path, asked, fresh):
        wishes = ("--name", NAME, "--preset=custom", "--data", "author=Ada")
        run("new", tmp_path / "leaves", *wishes)
        assert asked == ["package_name", "description", "parallel", "tricks"]
        expected = fresh(**custom(*RECOMMENDED), author="Ada")
        assert files(tmp_path / "leaves") == files(expected)

    def test_custom_owners_about_nothing(self, project, asked, fresh):
        directory = project(**custom("amp"))
        output = run("update")
        assert asked == []
        assert f"\nnew trick {NEW_TRICK} (Signs of gradients: " in output
        assert f"not in: torch-tricks add {NEW_TRICK}\n" in output
        assert files(directory) == files(fresh("v0.2.0", **custom("amp")))

    def test_who_changes_to_custom_about_the_tricks(self, project, asked, fresh):
        directory = project(preset="minimal")
        run("update", "--data", "preset=custom")
        assert asked == ["parallel", "tricks"]
        expected = fresh("v0.2.0", **custom(*RECOMMENDED, NEW_TRICK))
        assert files(directory) == files(expected)

    def test_preset_owners_about_nothing(self, project, asked, fresh):
        directory = project(preset="everything")
        output = run("update")
        assert asked == []
        assert f"{NEW_TRICK} (Signs of gradients: steps of one size), in\n" in output
        assert files(directory) == files(fresh("v0.2.0", preset="everything"))


class TestChoices:
    """A trick that comes in several forms, with a question of its own."""

    QUESTIONS = Questions(yaml.safe_load((ROOT / "copier.yml").read_text("utf-8")))

    @pytest.mark.parametrize(
        ("before", "take", "leave", "after"),
        [
            ("none", ["parallel"], [], "dp"),
            ("none", ["parallel=ddp"], [], "ddp"),
            ("ddp", ["parallel"], [], "ddp"),
            ("ddp", ["parallel=dp"], [], "dp"),
            ("ddp", [], ["parallel"], "none"),
        ],
    )
    def test_the_form_stays_unless_another_is_named(self, before, take, leave, after):
        answers = {"parallel": before, "tricks": ["swa"]}
        changed = self.QUESTIONS.changed(answers, take, leave)
        assert changed == {"parallel": after, "tricks": ["swa"]}

    def test_none_is_no_form(self):
        with pytest.raises(Refusal, match="did you mean"):
            self.QUESTIONS.find(["parallel=dpd"])
        with pytest.raises(Refusal, match='"none"; there is dp, ddp'):
            self.QUESTIONS.find(["parallel=none"])


class TestList:
    def test_outside_of_a_project(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        lines = run("list").splitlines()
        groups = dict.fromkeys(trick.group for trick in TRICKS)
        assert [line for line in lines if line[0] != " "] == [*groups]
        for trick in TRICKS:
            [line] = [line for line in lines if line.split()[0] == trick.name]
            assert f"{trick.title}: {trick.buys}" in line
            heading = [line for line in lines[: lines.index(line)] if line[0] != " "]
            assert heading[-1] == trick.group
            if trick.name == "parallel":
                assert line.endswith("(needs two or more GPUs)")
        assert len(lines) == len(groups) + len(TRICKS)

    def test_inside_of_a_project(self, project):
        project(preset="recommended")
        lines = [
            line.split()[:2] for line in run("list").splitlines() if line[0] == " "
        ]
        assert [name for state, name in lines if state == "in"] == RECOMMENDED
        assert len(lines) == len(TRICKS)

    def test_has_the_tricks_of_the_version_that_the_project_has(self, project):
        project(preset="minimal", version="v0.2.0")
        assert f" {NEW_TRICK} " in run("list")

    def test_says_what_a_trick_needs(self, strict, project):
        project(preset="minimal", source=strict, version="v0.2.0")
        output = run("list")
        assert "(needs amp)\n" in output
        assert "(needs weights to begin with: pretrained)\n" in output
        assert "(needs parallel=ddp or parallel=fsdp, a CUDA GPU)\n" in output


class TestShow:
    @pytest.mark.parametrize("inside", [False, True])
    def test_has_the_idea_the_source_and_the_code(
        self, project, tmp_path, monkeypatch, inside
    ):
        monkeypatch.chdir(project(preset="everything") if inside else tmp_path)
        output = run("show", "swa")
        assert "From `--swa-start` on" in output
        assert "<https://arxiv.org/abs/1803.05407>" in output
        assert "\n+    run.swa.update(run.step)\n" in output
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
            ({"preset": "minimal"}, ["add", "swa", "amp"], custom("amp", "swa")),
            (
                {"preset": "recommended"},
                ["remove", "amp"],
                custom(*LESS_AMP),
            ),
            (custom("amp"), ["remove", "amp"], custom()),
            (custom(), ["add", "parallel"], custom(parallel="dp")),
            (
                custom(parallel="dp"),
                ["add", "amp", "parallel"],
                custom("amp", parallel="dp"),
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

    def test_takes_lists_with_commas(self, project, fresh):
        directory = project(preset="minimal")
        run("add", "swa,amp", "parallel=ddp, mixup")
        expected = custom("swa", "mixup", "amp", parallel="ddp")
        assert files(directory) == files(fresh(**expected))
        commit(directory)
        run("remove", "swa,parallel", "mixup")
        assert files(directory) == files(fresh(**custom("amp")))
        commit(directory)
        assert "did you mean ema?" in run("add", "mixup,emma", code=2)

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
        directory = project(**custom("amp"))
        shown = run("remove", "amp", "--dry-run")
        run("remove", "amp")
        assert git(directory, "diff") in shown
        git(directory, "checkout", ".")
        shown = run("add", "swa", "--dry-run")
        run("add", "swa")
        # The index holds nothing but the names of new files.
        assert git(directory, "diff") in shown


def notes(output):
    return re.findall(r"^note: (.*)$", output, re.MULTILINE)


class TestAdvice:
    """A trick that another one makes useful, and that goes without it, too."""

    def test_for_new_projects(self, tmp_path):
        wishes = ("new", tmp_path / "a", "--preset=minimal", "--with=freeze")
        assert notes(run(*wishes)) == [
            "freeze wants weights to begin with: torch-tricks add pretrained"
        ]
        wishes = ("new", tmp_path / "b", "--preset=minimal", "--with=freeze,pretrained")
        assert notes(run(*wishes)) == []

    @pytest.mark.parametrize("trick", ["freeze", "layerwise_lr", "distillation"])
    def test_once_for_what_has_changed(self, project, trick):
        directory = project(preset="minimal")
        [note] = notes(run("add", trick))
        assert note.startswith(f"{trick} wants ")
        assert note.endswith(": torch-tricks add pretrained")
        commit(directory)
        assert notes(run("add", "amp")) == []
        commit(directory)
        assert notes(run("add", "pretrained")) == []
        commit(directory)
        assert notes(run("remove", "pretrained")) == [note]

    def test_none_where_it_is_in(self, project):
        project(**custom("pretrained"))
        assert notes(run("add", "freeze,layerwise_lr,distillation")) == []


class TestFromAFolderInside:
    """What git does, too: the project is looked for upwards, and paths are from here."""

    INSIDE = f"{PACKAGE}/optim"

    @pytest.mark.parametrize("place", ["project", "repository/leaves"])
    @pytest.mark.parametrize(
        ("command", "before", "after"),
        [
            (["add", "swa"], custom(), custom("swa")),
            (["remove", "amp"], custom("amp"), custom()),
            (["update"], custom(), custom() | {"version": "v0.2.0"}),
        ],
        ids=str,
    )
    def test_changes_are_the_same(
        self, project, fresh, monkeypatch, place, command, before, after
    ):
        directory = project(place=place, **before)
        original = files(directory)
        monkeypatch.chdir(directory / self.INSIDE)
        output = run(*command)
        assert files(directory) == files(fresh(**after))
        said = re.findall(r"^changed (.*)$", output, re.MULTILINE)
        assert {"../../train.py", "../../.copier-answers.yml"} <= {*said}
        assert "run pytest in ../.., then" in output
        run_undo(output)
        assert files(directory) == original

    def test_looking_is_the_same(self, project, monkeypatch):
        directory = project(preset="minimal")
        edit(directory / "train.py", "Trains", "Really trains")
        (directory / self.INSIDE / "schedule.py").unlink()
        looks = (["list"], ["show", "swa"], ["status", "--json"])
        expected = [run(*look) for look in looks]
        monkeypatch.chdir(directory / self.INSIDE)
        assert [run(*look) for look in looks] == expected
        lines = run("status").splitlines()
        assert "edited          ../../train.py" in lines
        assert "deleted         schedule.py" in lines

    def test_a_refusal_has_paths_from_here(self, project, monkeypatch):
        directory = project(place="repository/leaves", preset="minimal")
        (directory / "train.py").write_text("mine")
        monkeypatch.chdir(directory / self.INSIDE)
        assert "error: ../../train.py not committed" in run("add", "swa", code=2)
        git(directory, "checkout", ".")
        Path("swa.py").write_text("mine")
        assert "error: swa.py is in the way" in run("add", "swa", code=2)
        git(directory, "update-index", "--assume-unchanged", "train.py")
        remedy = "git update-index --no-assume-unchanged ../../train.py"
        assert remedy in run("add", "swa", code=2)
        subprocess.run(remedy, shell=True, check=True)
        assert "error: swa.py is in the way" in run("add", "swa", code=2)

    def test_project_may_name_one(self, project, monkeypatch, tmp_path, fresh):
        directory = project(preset="minimal")
        monkeypatch.chdir(tmp_path)
        output = run("add", "swa", "--project", directory / self.INSIDE)
        assert files(directory) == files(fresh(**custom("swa")))
        assert "\nchanged train.py\n" in output

    def test_the_folder_may_go(self, project, monkeypatch, fresh):
        directory = project(**custom("resume"))
        monkeypatch.chdir(directory / PACKAGE / "checkpoints")
        output = run("remove", "resume")
        assert "\nremoved checkpoint.py\n" in output
        assert files(directory) == files(fresh(**custom()))

    def test_another_repository_inside_is_no_part(self, project, monkeypatch):
        directory = project(preset="minimal")
        other = directory / "others" / "timm" / "src"
        other.mkdir(parents=True)
        git(directory, "init", "--quiet", str(other.parent))
        monkeypatch.chdir(other)
        assert "there is no project in ." in run("add", "swa", code=2)
        assert not re.search("^  (in|- ) ", run("list"), re.MULTILINE)

    def test_home_is_the_end(self, tmp_path, monkeypatch):
        (tmp_path / ".copier-answers.yml").write_text("_src_path: dotfiles\n")
        folder = tmp_path / "home" / "work"
        folder.mkdir(parents=True)
        monkeypatch.setenv("HOME", str(folder.parent))
        monkeypatch.chdir(folder)
        assert "there is no project in ." in run("status", code=2)


def run_undo(output):
    """Runs the command that the output names for going back."""
    [command] = re.findall(r"^to go back: (.*)$", output, re.MULTILINE)
    subprocess.run(command, shell=True, check=True)


def state(directory):
    """What must come back when a change is undone."""
    return (
        files(directory),
        git(directory, "status", "--porcelain", "--untracked-files=all"),
        git(directory, "ls-files", "--stage"),
    )


class TestUpdate:
    def test_takes_up_the_newest_version(self, project, fresh):
        directory = project(preset="recommended")
        before = state(directory)
        output = run("update")
        assert files(directory) == files(fresh("v0.2.0", preset="recommended"))
        lines = output.splitlines()
        assert "from v0.1.0 to v0.2.0" in lines
        assert f"tricks: {', '.join([*RECOMMENDED, NEW_TRICK])}" in lines
        assert (
            f"renamed {PACKAGE}/optim/schedule.py -> {PACKAGE}/optim/rates.py" in lines
        )
        assert "changed train.py" in lines
        assert any(line.startswith("to go on: read git diff") for line in lines)
        run_undo(output)
        assert state(directory) == before

    def test_names_each_file_that_it_touches(self, project):
        directory = project(preset="recommended")
        output = run("update")
        commit(directory)
        command = ("diff", "--name-status", "--no-renames", "HEAD~", "HEAD")
        touched = {
            line.split("\t")[1] for line in git(directory, *command).splitlines()
        }
        words = re.findall(r"^(?:changed|added|renamed) (.*)$", output, re.MULTILINE)
        assert {path for word in words for path in word.split(" -> ")} == touched

    def test_keeps_edits(self, project):
        directory = project(preset="minimal")
        edit(directory / "train.py", "def main(", "# Mine\n\n\ndef main(")
        (directory / "notes.py").write_text("mine = 1\n")
        commit(directory)
        run("update")
        code = (directory / "train.py").read_text()
        assert "# Mine" in code
        assert "Trains a new model" in code
        assert (directory / "notes.py").read_text() == "mine = 1\n"

    def test_marks_a_conflict(self, project):
        directory = project(preset="minimal")
        edit(directory / "train.py", "Trains a model", "Trains my model")
        commit(directory)
        before = state(directory)
        output = run("update", code=1)
        assert "\nconflict train.py\n" in output
        assert "to go on: resolve" in output
        code = (directory / "train.py").read_text()
        assert code.startswith('<<<<<<< before updating\n"""Trains my model on images.')
        assert '"""Trains a new model' in code
        [ancestor] = re.findall(r"^\|{7} last update\n(.*)\n={7}$", code, re.MULTILINE)
        assert ancestor.startswith('"""Trains a model on images')
        assert "UU train.py" in git(directory, "status", "--porcelain")
        run_undo(output)
        assert state(directory) == before

    def test_an_older_git_marks_the_common_ancestor_too(
        self, project, tmp_path, monkeypatch
    ):
        directory = project(preset="minimal")
        edit(directory / "train.py", "Trains a model", "Trains my model")
        commit(directory)
        older = tmp_path / "older" / "git"
        older.parent.mkdir()
        # As git before 2.35 answers.
        older.write_text(
            f'#!/bin/sh\ncase "$*" in *--zdiff3*) exit 129;; esac\nexec {GIT} "$@"\n'
        )
        older.chmod(0o755)
        monkeypatch.setenv("PATH", f"{older.parent}:{os.environ['PATH']}")
        run("update", code=1)
        assert "\n||||||| last update\n" in (directory / "train.py").read_text()

    def test_carries_edits_to_the_new_name_of_a_file(self, project):
        directory = project(preset="minimal")
        old, new = (
            directory / PACKAGE / "optim" / f"{name}.py"
            for name in ("schedule", "rates")
        )
        old.write_text(old.read_text() + "\n# Mine\n")
        edited = old.read_text()
        commit(directory)
        output = run("update")
        assert (
            f"renamed {PACKAGE}/optim/schedule.py -> {PACKAGE}/optim/rates.py" in output
        )
        assert not old.exists()
        assert new.read_text() == edited

    def test_keeps_edits_of_a_removed_file_aside(self, project):
        directory = project(**custom("swa"))
        swa = directory / PACKAGE / "optim" / "swa.py"
        swa.write_text(swa.read_text() + "\n# Mine\n")
        edited = swa.read_text()
        taken = directory / "kept-aside" / PACKAGE / "optim" / "swa.py.kept"
        taken.parent.mkdir(parents=True)
        taken.write_text("of last time")
        (directory / ".gitignore").write_text("*.kept-2\n")
        commit(directory)
        before = state(directory)
        output = run("remove", "swa", code=1)
        kept = f"kept-aside/{PACKAGE}/optim/swa.py.kept-2"
        assert f"\nkept aside {kept} (your edits of {PACKAGE}/optim/swa.py)\n" in output
        assert f"\nremoved {PACKAGE}/optim/swa.py\n" in output
        assert not swa.exists()
        assert taken.read_text() == "of last time"
        assert (directory / kept).read_text() == edited
        run_undo(output)
        assert state(directory) == before

    def test_deleted_files_stay_deleted_and_are_missed_where_they_are_imported(
        self, project
    ):
        directory = project(preset="minimal")
        for name in ("README.md", "predict.py", f"{PACKAGE}/metrics.py"):
            (directory / name).unlink()
        (directory / "tests" / "test_predict.py").unlink()
        commit(directory)
        output = run("update", code=1)
        line = f"missing {PACKAGE}/metrics.py (you deleted it; "
        assert re.findall(r"^missing .*; ", output, re.MULTILINE) == [line]
        assert not (directory / "README.md").exists()
        assert not (directory / "predict.py").exists()

    def test_a_module_that_became_a_package_is_not_missed(self, project):
        directory = project(preset="minimal")
        package = directory / PACKAGE / "metrics"
        package.mkdir()
        (directory / PACKAGE / "metrics.py").rename(package / "__init__.py")
        commit(directory)
        assert "missing" not in run("update")

    def test_a_file_that_the_owner_renamed_gets_the_changes(self, project):
        directory = project(preset="minimal")
        git(directory, "mv", "train.py", "learn.py")
        commit(directory)
        output = run("update", code=1)
        assert (
            "missing train.py (you deleted it; tests/conftest.py imports it)" in output
        )
        assert "Trains a new model" in (directory / "learn.py").read_text()
        assert not (directory / "train.py").exists()

    def test_a_file_that_both_renamed_is_there_twice(self, project):
        directory = project(preset="minimal")
        mine = directory / PACKAGE / "mine.py"
        (directory / PACKAGE / "optim" / "schedule.py").rename(mine)
        mine.write_text(mine.read_text() + "# Mine\n")
        commit(directory)
        output = run("update", code=1)
        assert (
            f"kept aside {PACKAGE}/mine.py (your edits of {PACKAGE}/optim/schedule.py)"
            in output
        )
        assert "# Mine" in mine.read_text()
        assert (directory / PACKAGE / "optim" / "rates.py").exists()

    def test_a_file_that_both_added_has_both(self, project):
        directory = project(preset="minimal")
        (directory / PACKAGE / "optim" / "rates.py").write_text("mine = 1\n")
        commit(directory)
        output = run("update", code=1)
        assert f"conflict {PACKAGE}/optim/rates.py" in output
        code = (directory / PACKAGE / "optim" / "rates.py").read_text()
        assert "mine = 1\n" in code
        assert "def " in code

    def test_a_binary_file_stays_the_owners(self, project):
        directory = project(preset="minimal")
        (directory / PACKAGE / "optim" / "rates.py").write_bytes(b"\0\xff\n")
        commit(directory)
        output = run("update", code=1)
        assert f"conflict {PACKAGE}/optim/rates.py" in output
        assert (directory / PACKAGE / "optim" / "rates.py").read_bytes() == b"\0\xff\n"
        git(directory, "checkout", "--theirs", f"{PACKAGE}/optim/rates.py")
        assert b"def " in (directory / PACKAGE / "optim" / "rates.py").read_bytes()

    def test_bytes_that_are_no_text_and_a_missing_newline_are_kept(self, project):
        directory = project(preset="minimal")
        path = directory / "train.py"
        path.write_bytes(path.read_bytes() + b"# \xe9")
        commit(directory)
        run("update")
        assert path.read_bytes().endswith(b"# \xe9")
        assert b"Trains a new model" in path.read_bytes()

    def test_a_file_with_other_line_endings_keeps_them(self, project):
        directory = project(preset="minimal")
        path = directory / "train.py"
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        commit(directory)
        run("update")
        code = path.read_bytes()
        assert b"Trains a new model" in code
        assert code.count(b"\n") == code.count(b"\r\n")

    def test_permissions_and_links_are_kept(self, project):
        directory = project(preset="minimal")
        (directory / "train.py").chmod(0o755)
        (directory / "predict.py").unlink()
        (directory / "predict.py").symlink_to("train.py")
        commit(directory)
        run("update")
        assert os.access(directory / "train.py", os.X_OK)
        assert "Trains a new model" in (directory / "train.py").read_text()
        assert os.readlink(directory / "predict.py") == "train.py"

    def test_a_comment_in_the_answers_file_is_kept_aside(self, project):
        directory = project(preset="minimal")
        answers = directory / ".copier-answers.yml"
        answers.write_text(answers.read_text() + "# Mine\n")
        commit(directory)
        output = run("update", code=1)
        kept = "kept-aside/.copier-answers.yml.kept"
        assert f"kept aside {kept} (your edits of .copier-answers.yml)" in output
        assert (directory / kept).read_text().endswith("# Mine\n")
        assert "v0.2.0" in answers.read_text()

    def test_an_answer_that_was_edited_by_hand_counts(self, project, fresh):
        directory = project(preset="minimal")
        edit(directory / ".copier-answers.yml", "author: ''", "author: Ada")
        commit(directory)
        run("update")
        answers = (directory / ".copier-answers.yml").read_bytes()
        expected = fresh("v0.2.0", preset="minimal", author="Ada")
        assert answers == (expected / ".copier-answers.yml").read_bytes()

    def test_answers_can_be_changed(self, project, fresh):
        directory = project(preset="minimal")
        run("update", "--data", "preset=recommended", "-d", "author=Ada")
        expected = fresh("v0.2.0", author="Ada", preset="recommended")
        assert files(directory) == files(expected)

    def test_own_files_stay_where_they_are(self, project):
        directory = project(preset="minimal")
        (directory / PACKAGE / "mine.py").write_text("mine = 1\n")
        commit(directory)
        output = run("update", "--data", "package_name=plants")
        assert (
            f"renamed {PACKAGE}/models/networks.py -> plants/models/networks.py"
            in output
        )
        assert os.listdir(directory / PACKAGE) == ["mine.py"]
        assert (
            "from plants.models.networks import" in (directory / "train.py").read_text()
        )

    def test_works_in_a_part_of_a_repository(self, project, fresh, tmp_path):
        directory = project("papers/first one/project", preset="minimal")
        (tmp_path / "notes").write_text("not committed")
        before = files(tmp_path)
        output = run("update")
        assert files(directory) == files(fresh("v0.2.0", preset="minimal"))
        run_undo(output)
        assert files(tmp_path) == before
        assert git(tmp_path, "status", "--porcelain") == "?? notes\n"

    def test_needs_no_help_from_the_configuration_of_git(
        self, project, fresh, tmp_path, monkeypatch
    ):
        directory = project(preset="minimal")
        hooks = directory / ".git" / "hooks"
        hooks.mkdir(exist_ok=True)
        for name in ("post-checkout", "post-index-change", "pre-commit", "post-merge"):
            (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/a-hook-ran\n")
            (hooks / name).chmod(0o755)
        configuration = tmp_path / "gitconfig"
        configuration.write_text(
            "[user]\nuseConfigOnly = true\n[commit]\ngpgSign = true\n[core]\nautocrlf = true\n"
            "[diff]\nnoprefix = true\n[merge]\nconflictStyle = diff3\n[status]\nshort = true\n"
        )
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
        # As git itself would have checked it out.
        git(directory, "rm", "-r", "--quiet", "--cached", ".")
        git(directory, "-c", "commit.gpgSign=false", "reset", "--hard", "--quiet")
        (tmp_path / "a-hook-ran").unlink(missing_ok=True)
        before = state(directory)
        assert b"\r\n" in before[0]["train.py"]
        output = run("update")
        assert not (tmp_path / "a-hook-ran").exists()
        expected = files(fresh("v0.2.0", preset="minimal"))
        crlf = {name: text.replace(b"\n", b"\r\n") for name, text in expected.items()}
        assert {name: text for name, text in files(directory).items()} == crlf
        run_undo(output)
        assert state(directory) == before

    def test_says_so_if_there_is_nothing_to_do(self, project):
        directory = project(version="v0.2.0", preset="minimal")
        assert run("update") == "v0.2.0 is what the project has: nothing to do\n"
        assert git(directory, "status", "--porcelain") == ""

    def test_versions(self, project):
        project(version="v0.2.0", preset="minimal")
        assert "cannot go back" in run("update", "--to", "v0.1.0", code=2)
        assert "it has v0.1.0, v0.2.0" in run("update", "--to", "v0.3.0", code=2)
        assert "cannot be had" in run("update", "--to", "no-such-branch", code=2)
        assert "nothing to do" in run("update", "--to", "0.2.0")

    @pytest.mark.parametrize("conflict", [False, True])
    def test_dry_run_shows_everything_and_does_nothing(self, project, conflict):
        directory = project(preset="minimal")
        if conflict:
            edit(directory / "train.py", "Trains a model", "Trains my model")
            commit(directory)
        before = state(directory), (directory / ".git" / "index").read_bytes()
        dry = run("update", "--dry-run", code=conflict)
        assert (state(directory), (directory / ".git" / "index").read_bytes()) == before
        assert '+"""Trains a new model' in dry
        assert f"rename to {PACKAGE}/optim/rates.py" in dry
        output = run("update", code=conflict)
        prefixes = ("changed", "added", "removed", "renamed", "conflict")
        said = [line for line in output.splitlines() if line.startswith(prefixes)]
        assert [line for line in dry.splitlines() if line.startswith(prefixes)] == said

    def test_plain_copier_and_this_tool_take_turns(
        self, tmp_path, project, fresh, monkeypatch
    ):
        directory = project(preset="minimal")
        run("add", "swa")
        commit(directory)
        with local.env(**os.environ), local.cwd(directory):
            copier.run_update(directory, overwrite=True, defaults=True, quiet=True)
        assert files(directory) == files(fresh("v0.2.0", **custom("swa")))
        commit(directory)
        run("remove", "swa")
        assert files(directory) == files(fresh("v0.2.0", **custom()))


WRONG = [
    ("[swa]", "swa needs amp"),
    ("[accumulation, mixup]", "mixup excludes accumulation"),
    ("[prefetcher]", "prefetcher needs parallel"),
    ("[amp, sva]", "sva"),
]
"""Lists that the strict template refuses."""


class TestTricksThatDoNotGoTogether:
    """Such a list is refused with a sentence, wherever it stands."""

    @pytest.fixture
    def a_project(self, project, strict):
        """Returns a function that makes a project of the strict template."""

        def make(**answers):
            return project(**{"source": strict, "version": "v0.2.0"} | answers)

        return make

    @pytest.mark.parametrize(("tricks", "sentence"), WRONG)
    def test_new(self, tmp_path, strict, tricks, sentence):
        wishes = ("--template", strict, "--data", f"tricks={tricks}", "--defaults")
        assert sentence in run("new", tmp_path / "leaves", *wishes, code=2)
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize(("tricks", "sentence"), WRONG)
    def test_copier(self, hub, tmp_path, tmp_path_factory, strict, tricks, sentence):
        data = custom(*yaml.safe_load(tricks))
        options = {"vcs_ref": "v0.2.0", "defaults": True, "quiet": True}
        with (
            local.env(**environment(hub, tmp_path_factory.getbasetemp())),
            pytest.raises(ValueError, match=sentence),
        ):
            copier.run_copy(strict, tmp_path / "leaves", data, **options)
        assert not (tmp_path / "leaves").exists()

    @pytest.mark.parametrize(("tricks", "sentence"), WRONG)
    def test_update(self, a_project, tricks, sentence):
        directory = a_project(version="v0.1.0", preset="minimal")
        before = state(directory)
        data = ("--data", "preset=custom", "--data", f"tricks={tricks}")
        assert sentence in run("update", *data, code=2)
        assert state(directory) == before

    @pytest.mark.parametrize(
        ("before", "command", "sentence"),
        [
            (custom(), ["add", "swa"], "swa needs amp: take both, or neither"),
            (custom("amp", "swa"), ["remove", "amp"], "swa needs amp: take both"),
            (custom("mixup"), ["add", "accumulation"], "mixup excludes accumulation"),
            (custom(), ["add", "prefetcher"], "parallel=ddp or parallel=fsdp: take"),
            (
                custom("prefetcher", parallel="ddp"),
                ["remove", "parallel"],
                "parallel=ddp or parallel=fsdp: remove prefetcher too",
            ),
            (
                custom("prefetcher", parallel="ddp"),
                ["add", "parallel=dp"],
                "parallel=ddp or parallel=fsdp: remove prefetcher too",
            ),
        ],
        ids=str,
    )
    def test_add_and_remove(self, a_project, before, command, sentence):
        directory = a_project(**before)
        before = state(directory)
        assert sentence in run(*command, code=2)
        assert state(directory) == before

    def test_what_goes_together_is_added_and_removed(self, a_project):
        directory = a_project(**custom())
        run("add", "swa", "amp", "prefetcher", "parallel=ddp")
        commit(directory)
        run("remove", "prefetcher", "parallel", "amp", "swa")
        assert not (directory / PACKAGE / "optim" / "swa.py").exists()

    @pytest.mark.parametrize(
        "command", [["update"], ["add", "resume"], ["list"], ["show", "resume"]]
    )
    @pytest.mark.parametrize(
        ("answer", "wrong", "sentence"),
        [
            *(("tricks:\n- seeding", f"tricks: {text}", what) for text, what in WRONG),
            ("tricks:\n- seeding", "tricks: seeding", "tricks must be a list, such as"),
            ("parallel: none", "parallel: ddq", "did you mean ddp?"),
            ("preset: custom", "preset: costum", "did you mean custom?"),
            ("package_name: leaf_", "package_name: Leaf_", "package_name in .copier"),
        ],
    )
    def test_the_answers_file(self, a_project, answer, wrong, sentence, command):
        """Copier alone forgets such an answer, and takes the default."""
        directory = a_project(**custom("seeding"))
        edit(directory / ".copier-answers.yml", answer, wrong)
        commit(directory)
        before = state(directory)
        assert sentence in run(*command, code=2)
        assert state(directory) == before

    def test_a_list_that_a_newer_version_refuses(self, a_project):
        directory = a_project(version="v0.1.0", **custom("swa"))
        status = json.loads(run("status", "--json"))
        assert (status["tricks_in"], status["new_tricks"]) == (["swa"], [])
        assert status["not_known"] is None
        assert "swa needs amp: take both, or neither" in run("update", code=2)
        wanted = run("update", "--data", "tricks=[amp,swa]", "--dry-run")
        assert "tricks: swa, amp\n" in wanted
        run("add", "amp")
        commit(directory)
        run("update")
        answers = yaml.safe_load((directory / ".copier-answers.yml").read_text())
        assert answers["tricks"] == ["swa", "amp"]
        assert answers["_commit"] == "v0.2.0"


class TestRefusals:
    """Before anything is touched: one line, the remedy, and exit code 2."""

    def uncommitted(project):
        (project / "train.py").write_text("mine")

    def with_odd_name(project):
        (project / 'f"ü\n.py').write_text("")
        commit(project)
        (project / 'f"ü\n.py').write_text("mine")
        (project / "train.py").write_text("mine")

    def staged(project):
        (project / "notes").write_text("mine")
        git(project, "add", "notes")

    def no_repository(project):
        shutil.rmtree(project / ".git")

    def no_commit(project):
        shutil.rmtree(project / ".git")
        git(project, "init", "--quiet")
        (project / ".gitignore").write_text("*")

    def merging(project):
        (project / ".git" / "MERGE_HEAD").write_text(git(project, "rev-parse", "HEAD"))

    def rebasing(project):
        (project / ".git" / "rebase-merge").mkdir()

    def locked(project):
        (project / ".git" / "index.lock").touch()

    def markers(project):
        (project / "train.py").write_text("||||||| last update\n")
        commit(project)

    def no_answers(project):
        (project / ".copier-answers.yml").unlink()

    def empty_answers(project):
        (project / ".copier-answers.yml").write_text("")

    def broken_answers(project):
        (project / ".copier-answers.yml").write_text("a: [")

    def no_version(project):
        edit(project / ".copier-answers.yml", "_commit: v0.1.0\n", "")
        commit(project)

    def lost_version(project):
        edit(project / ".copier-answers.yml", "_commit: v0.1.0\n", "_commit: 0a1b2c3\n")
        commit(project)

    def lost_template(project):
        edit(
            project / ".copier-answers.yml", "gh:org/torch-tricks", "/nowhere/template"
        )
        commit(project)

    def another_template(project):
        other = project.parent / "other"
        other.mkdir()
        (other / "copier.yml").write_text("name: Ada\n")
        git(other, "init", "--quiet")
        commit(other)
        git(other, "tag", "v0.1.0")
        edit(project / ".copier-answers.yml", "gh:org/torch-tricks", str(other))
        commit(project)

    def untracked_in_the_way(project):
        (project / PACKAGE / "optim" / "swa.py").write_text("mine")

    def folder_is_a_file_in_the_way(project):
        shutil.rmtree(project / ".git")
        shutil.move(project / PACKAGE, project / "elsewhere")
        git(project, "init", "--quiet")
        commit(project)
        (project / PACKAGE).write_text("mine")

    def link_in_the_way(project):
        (project / PACKAGE / "optim" / "swa.py").symlink_to("nowhere")

    def ignored_in_the_way(project):
        (project / ".gitignore").write_text("swa.py\n")
        commit(project)
        (project / PACKAGE / "optim" / "swa.py").write_text("mine")

    def folder_in_the_way(project):
        (project / PACKAGE / "optim" / "swa.py").mkdir()
        (project / PACKAGE / "optim" / "swa.py" / "notes").write_text("mine")
        commit(project)

    @pytest.mark.parametrize(
        ("prepare", "sentence"),
        [
            (uncommitted, "train.py not committed: run git commit -a"),
            (with_odd_name, 'f"ü\n.py and 1 more not committed'),
            (staged, "notes not committed"),
            (no_repository, "run git init, git add -A and git commit"),
            (no_commit, "run git add, with -f"),
            (merging, "git merge --abort"),
            (rebasing, "git rebase --abort"),
            (locked, "index.lock"),
            (markers, "train.py still has conflict markers"),
            (no_answers, "run this where .copier-answers.yml is"),
            (empty_answers, "get it back from git"),
            (broken_answers, "correct it"),
            (no_version, "does not say which version"),
            (lost_version, "_commit in .copier-answers.yml"),
            (lost_template, "_src_path"),
            (another_template, "use Copier's commands"),
            (untracked_in_the_way, f"{PACKAGE}/optim/swa.py is in the way"),
            (folder_is_a_file_in_the_way, f"{PACKAGE} is in the way"),
            (link_in_the_way, f"{PACKAGE}/optim/swa.py is in the way"),
            (ignored_in_the_way, f"{PACKAGE}/optim/swa.py is in the way"),
            (folder_in_the_way, f"{PACKAGE}/optim/swa.py is one kind of thing"),
        ],
        ids=lambda value: getattr(value, "__name__", ""),
    )
    def test_a_refusal_leaves_everything_alone(self, project, prepare, sentence):
        directory = project(preset="minimal")
        prepare(directory)
        before = files(directory)
        sentence = " ".join(sentence.split())
        # What is in the way of swa.py is in the way of adding swa only.
        command = ["add", "swa"] if "way" in prepare.__name__ else ["update"]
        assert sentence in run(*command, code=2)
        assert files(directory) == before

    @pytest.mark.parametrize("command", [["add", "amp"], ["remove", "amp"], ["update"]])
    def test_every_command_looks_first(self, project, command):
        directory = project(preset="minimal")
        (directory / "train.py").write_text("mine")
        for options in ([], ["--dry-run"]):
            assert "train.py not committed" in run(*command, *options, code=2)
        assert (directory / "train.py").read_text() == "mine"


class TestWhatGitDoesNotSee:
    """Untracked files, marked files, sparse checkouts, and repositories of others."""

    def test_untracked_files_elsewhere_are_nobodys_business(self, project, fresh):
        directory = project(preset="minimal")
        mine = {"photos/cat.jpg": b"\xff", f"{PACKAGE}/mine.py": b"mine = 1\n"}
        mine |= {"run-7/model.pt": b"weights", "kept-aside/notes": b"mine"}
        for name, content in mine.items():
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_bytes(content)
        before = state(directory)
        output = run("update")
        assert files(directory) == files(fresh("v0.2.0", preset="minimal")) | mine
        assert "then git commit -a\n" in output
        run_undo(output)
        assert state(directory) == before
        output = run("update", "--data", "package_name=plants")
        assert files(directory).items() >= mine.items()
        run_undo(output)
        assert state(directory) == before

    def test_what_is_said_to_go_on_commits_the_change_and_nothing_else(self, project):
        directory = project(**custom("swa"))
        for name in ("train.py", f"{PACKAGE}/optim/swa.py"):
            (directory / name).write_text("# Mine\n")
        commit(directory)
        (directory / "photo").write_text("mine")
        output = run("update", "--data", "tricks=[amp]", code=1)
        assert "and git commit -a\n" in output
        git(directory, "commit", "--all", "--quiet", "--message=Update")
        assert git(directory, "status", "--porcelain") == "?? photo\n"
        committed = git(directory, "ls-files").splitlines()
        assert {*committed, "photo"} == files(directory).keys()
        assert f"kept-aside/{PACKAGE}/optim/swa.py.kept" in committed

    def test_untracked_copies_that_were_kept_aside_stay(self, project):
        directory = project(**custom("swa"))
        swa = directory / PACKAGE / "optim" / "swa.py"
        swa.write_text(swa.read_text() + "# Mine\n")
        commit(directory)
        kept = directory / "kept-aside" / PACKAGE / "optim" / "swa.py.kept"
        kept.parent.mkdir(parents=True)
        kept.write_text("of last time")
        before = state(directory)
        output = run("remove", "swa", code=1)
        assert f"kept aside kept-aside/{PACKAGE}/optim/swa.py.kept-2 " in output
        assert kept.read_text() == "of last time"
        run_undo(output)
        assert state(directory) == before

    def test_a_file_in_place_of_the_folder_for_what_is_kept(self, project):
        directory = project(**custom("swa"))
        swa = directory / PACKAGE / "optim" / "swa.py"
        swa.write_text(swa.read_text() + "# Mine\n")
        commit(directory)
        (directory / "kept-aside").write_text("mine")
        (directory / "kept-aside-2").symlink_to("nowhere")
        before = state(directory)
        output = run("remove", "swa", code=1)
        assert f"kept aside kept-aside-3/{PACKAGE}/optim/swa.py.kept " in output
        run_undo(output)
        assert state(directory) == before

    @pytest.mark.parametrize("mark", ["assume-unchanged", "skip-worktree"])
    @pytest.mark.parametrize("name", ["train.py", ".copier-answers.yml"])
    @pytest.mark.parametrize("options", [[], ["--dry-run"]])
    def test_a_marked_file_is_not_overwritten(self, project, mark, name, options):
        directory = project(preset="minimal")
        git(directory, "update-index", f"--{mark}", name)
        path = directory / name
        path.write_text(path.read_text() + "# Mine\n")
        before = state(directory)
        line = run("update", *options, code=2)
        command = f"git update-index --no-{mark} {name}"
        assert f"git sees no edits in {name}" in line
        assert command in line
        assert state(directory) == before
        subprocess.run(command, shell=True, check=True, cwd=directory)
        assert f"{name} not committed" in run("update", *options, code=2)

    def test_a_skipped_file_that_stays_is_left_alone(self, project):
        directory = project(preset="minimal")
        git(directory, "update-index", "--skip-worktree", "predict.py")
        (directory / "predict.py").write_text("mine")
        before = state(directory)
        output = run("update")
        assert (directory / "predict.py").read_text() == "mine"
        run_undo(output)
        assert state(directory) == before

    def test_the_way_back_would_overwrite_any_file_that_is_assumed_unchanged(
        self, project
    ):
        directory = project(preset="minimal")
        names = ["predict.py", "README.md"]
        git(directory, "update-index", "--assume-unchanged", *names)
        line = run("update", code=2)
        assert "git update-index --no-assume-unchanged README.md predict.py" in line

    @pytest.mark.parametrize("options", [[], ["--sparse-index"]])
    def test_a_sparse_checkout_that_leaves_out_what_changes(self, project, options):
        directory = project(preset="minimal")
        git(directory, "sparse-checkout", "set", "--cone", *options, "tests")
        before = state(directory)
        for command in (["update"], ["update", "--dry-run"], ["add", "swa"]):
            line = run(*command, code=2)
            assert "run git sparse-checkout disable" in line
            assert state(directory) == before

    @pytest.mark.parametrize("options", [[], ["--sparse-index"]])
    def test_a_sparse_checkout_that_leaves_out_other_things(
        self, project, tmp_path, fresh, options
    ):
        directory = project("code/project", preset="minimal")
        for folder in ("papers", "code/project/data"):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "large").write_text("large")
        commit(tmp_path)
        names = {
            str(Path(name).parent) for name in files(fresh("v0.2.0", **custom("swa")))
        }
        folders = [f"code/project/{name}" for name in names - {"."}]
        git(tmp_path, "sparse-checkout", "set", "--cone", *options, *folders)
        assert not (directory / "data").exists()
        before = state(directory)
        for command in (["update"], ["add", "swa"]):
            output = run(*command)
            assert not (directory / "data").exists()
            run_undo(output)
            assert state(directory) == before

    def test_a_new_file_outside_of_a_sparse_checkout(self, project, fresh):
        directory = project(preset="minimal")
        folders = {str(Path(name).parent) for name in files(directory)} - {"."}
        git(directory, "sparse-checkout", "set", "--cone", *folders)
        before = state(directory)
        line = run("update", "--data", "package_name=plants", code=2)
        assert "outside of your sparse-checkout definition" in line
        assert "hint" not in line
        assert state(directory) == before

    @pytest.mark.parametrize(
        "command", [["update"], ["add", "swa"], ["list"], ["new", "x", "--defaults"]]
    )
    def test_a_machine_without_git(self, project, monkeypatch, command):
        directory = project(preset="minimal")
        before = files(directory)
        monkeypatch.setenv("PATH", "/nowhere")
        assert "git is not installed" in run(*command, code=2)
        assert files(directory) == before

    def test_a_repository_of_somebody_else(self, project, monkeypatch):
        directory = project(preset="minimal")
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        for command in (["update"], ["add", "swa"]):
            line = run(*command, code=2)
            assert "dubious ownership in repository" in line
            assert f"git config --global --add safe.directory {directory}" in line
        status = json.loads(run("status", "--json"))
        assert "dubious ownership" in status["not_known"]
        assert status["version"] == "v0.1.0"

    def test_a_template_of_somebody_else(self, project, hub, monkeypatch, tmp_path):
        clone = tmp_path / "clone"
        git(hub, "clone", "--quiet", str(hub / "org" / "torch-tricks.git"), str(clone))
        directory = project(preset="minimal")
        edit(directory / ".copier-answers.yml", SOURCE, str(clone))
        commit(directory)
        config = tmp_path / "gitconfig"
        git(tmp_path, "config", "--file", config, "safe.directory", str(directory))
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        new = ["new", tmp_path / "leaves", "--template", clone, "--defaults"]
        for command in (["add", "swa"], ["update"], new):
            assert f"safe.directory {clone}" in run(*command, code=2)
        assert "safe.directory" in json.loads(run("status", "--json"))["not_known"]

    def test_only_what_the_merge_needs_is_copied(self, project, monkeypatch, fresh):
        directory = project(preset="minimal")
        git(directory, "mv", "train.py", "learn.py")
        large = {f"photos/{n}": os.urandom(200_000) for n in range(20)}
        large |= {"photos/labels.csv": b"cat,1\n" * 1000}
        for name, content in large.items():
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_bytes(content)
        commit(directory)
        sizes = []
        merge = Scratch.merge

        def measure(scratch, *trees):
            merged = merge(scratch, *trees)
            sizes.append(
                sum(path.stat().st_size for path in scratch.directory.rglob("*"))
            )
            return merged

        monkeypatch.setattr(Scratch, "merge", measure)
        for options in (["--dry-run"], []):
            output = run("update", *options, code=1)
            assert "photos" not in output
        assert max(sizes) < 2_000_000
        assert files(directory).items() >= large.items()
        assert "Trains a new model" in (directory / "learn.py").read_text()


class TestInterruption:
    """Whatever ends the writing, the project comes back."""

    @pytest.fixture
    def planned(self, project, fresh):
        """A project with edits of all kinds, and a plan that touches them."""
        directory = project(**custom("swa"))
        edit(directory / "train.py", "Trains a model", "Trains my model")
        for name in ("swa", "schedule"):
            path = directory / PACKAGE / "optim" / f"{name}.py"
            path.write_text(path.read_text() + "# Mine\n")
        commit(directory)
        opened = Project.at(directory)
        with updating.scratch_for(opened) as (scratch, _):
            base, new = fresh(**custom("swa")), fresh("v0.2.0", preset="minimal")
            plan = updating.plan_update(opened, scratch, base, new)
            assert plan.conflicts
            assert plan.kept
            assert plan.renamed
            yield opened, plan

    @pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, GitError])
    def test_a_change_that_fails_is_undone(self, planned, monkeypatch, error):
        project, plan = planned
        before = state(project.directory)
        for step in ("git", "_replace_index", "_remove"):
            whole = getattr(updating, step)

            def fail(*arguments, whole=whole, **options):
                whole(*arguments, **options)
                raise error("no space left")

            with monkeypatch.context() as patch, pytest.raises(error):
                patch.setattr(updating, step, fail)
                updating.apply(project, plan)
            assert state(project.directory) == before

    def test_the_printed_command_undoes_every_part_of_it(self, planned, monkeypatch):
        project, plan = planned
        before = state(project.directory)
        parts = [*plan.written, *plan.removed]
        monkeypatch.setattr(Project, "undo", lambda _: None)

        def leave_a_part(_, paths):
            """Leaves the project as a kill might: some files not yet written or removed."""
            for path in parts[part:]:
                if path in before[0]:
                    (project.directory / path).write_bytes(before[0][path])
                else:
                    (project.directory / path).unlink()
            raise KeyboardInterrupt

        monkeypatch.setattr(updating, "_remove", leave_a_part)
        for part in range(0, len(parts), 4):
            with pytest.raises(KeyboardInterrupt):
                updating.apply(project, plan)
            (project.directory / plan.written[part % len(plan.written)]).write_text(
                "cut sh"
            )
            run_undo(f"to go back: {project.undo_command}")
            assert state(project.directory) == before

    def test_looking_takes_no_lock(self, project):
        directory = project(preset="minimal")
        # The index is out of date, and git status would lock and refresh it.
        os.utime(directory / "train.py", (0, 0))
        index = (directory / ".git" / "index").read_bytes()
        run("add", "swa", "--dry-run")
        run("status")
        assert (directory / ".git" / "index").read_bytes() == index

    @pytest.mark.parametrize(
        ("name", "sentence", "status"),
        [
            ("train.py", "train.py not committed", " M train.py\n"),
            (
                f"{PACKAGE}/optim/rates.py",
                f"{PACKAGE}/optim/rates.py is in the way",
                f"?? {PACKAGE}/optim/rates.py\n",
            ),
        ],
    )
    def test_a_file_that_was_saved_meanwhile_is_not_overwritten(
        self, project, monkeypatch, name, sentence, status
    ):
        directory = project(preset="minimal")
        plan_update = updating.plan_update

        def save(*arguments):
            plan = plan_update(*arguments)
            (directory / name).write_text("mine")
            return plan

        monkeypatch.setattr("torch_tricks.changing.plan_update", save)
        result = CliRunner().invoke(cli.app, ["update"])
        assert result.exit_code == 2
        assert sentence in result.stderr
        assert (directory / name).read_text() == "mine"
        assert git(directory, "status", "--porcelain") == status


class TestStatus:
    def test_says_what_there_is(self, project):
        directory = project(preset="recommended")
        edit(directory / "train.py", "Trains a model", "Trains my model")
        (directory / "predict.py").unlink()
        (directory / "notes").write_text("mine")
        status = json.loads(run("status", "--json"))
        assert status == {
            "source": SOURCE,
            "version": "v0.1.0",
            "newer_versions": ["v0.2.0"],
            "new_tricks": [NEW_TRICK],
            "tricks_in": RECOMMENDED,
            "tricks_out": [t.name for t in TRICKS if t.name not in RECOMMENDED],
            "edited": ["train.py"],
            "deleted": ["predict.py"],
            "conflicts": [],
            "not_known": None,
        }
        output = run("status")
        assert "edited          train.py\n" in output
        assert "newer versions  v0.2.0\n" in output
        assert f"new tricks      {NEW_TRICK}\n" in output

    def test_knows_when_nothing_is_new(self, project):
        project(version="v0.2.0", preset="minimal")
        status = json.loads(run("status", "--json"))
        assert (status["newer_versions"], status["new_tricks"]) == ([], [])

    def test_lists_conflicts_that_are_left(self, project):
        directory = project(preset="minimal")
        edit(directory / "train.py", "Trains a model", "Trains my model")
        commit(directory)
        run("update", code=1)
        assert json.loads(run("status", "--json"))["conflicts"] == ["train.py"]
        # Also when git no longer knows of them, and elsewhere in a larger repository.
        commit(directory)
        assert json.loads(run("status", "--json"))["conflicts"] == ["train.py"]

    def test_works_outside_of_git(self, project):
        directory = project(preset="minimal")
        shutil.rmtree(directory / ".git")
        status = json.loads(run("status", "--json"))
        assert (status["edited"], status["conflicts"]) == ([], None)

    def test_the_project_can_be_elsewhere(self, project, tmp_path, monkeypatch):
        project(preset="minimal")
        monkeypatch.chdir(tmp_path)
        assert "v0.1.0" in run("status", "--project", "project")
        assert "--project" in run("status", code=2)


class TestWithoutNetwork:
    @pytest.fixture(autouse=True)
    def offline(self, tmp_path, monkeypatch):
        monkeypatch.setenv(
            "GIT_CONFIG_KEY_0", f"url.file://{tmp_path}/nowhere/.insteadOf"
        )

    def test_status_says_what_it_knows(self, project):
        project(preset="minimal", author="Ada")
        status = json.loads(run("status", "--json"))
        assert (status["version"], status["newer_versions"]) == ("v0.1.0", None)
        assert "check the network" in status["not_known"]
        output = run("status")
        assert "newer versions  not known\n" in output
        assert output.count("check the network") == 1

    def test_list_has_the_tricks_of_the_tool(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        lines = run("list").splitlines()
        names = [line.split()[0] for line in lines if line[0] == " "]
        assert names == [trick.name for trick in TRICKS]

    @pytest.mark.parametrize("command", [["update"], ["add", "swa"], ["show", "swa"]])
    def test_others_are_refused(self, project, command):
        directory = project(preset="minimal")
        assert "check the network" in run(*command, code=2)
        assert git(directory, "status", "--porcelain") == ""


def python(*arguments, **options):
    """Runs Python in a fresh process, on the tool of this clone."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "generator")}
    command = [sys.executable, *map(str, arguments)]
    options = {"capture_output": True, "text": True, "env": environment} | options
    return subprocess.run(command, check=False, **options)


class TestTerminal:
    def test_help_needs_neither_copier_nor_torch(self):
        code = "import sys, torch_tricks.cli; print(*sys.modules)"
        loaded = set(python("-c", code).stdout.split())
        assert "typer" in loaded
        assert not loaded & {"copier", "jinja2", "yaml", "torch", "rich"}

    def test_help_names_every_command(self):
        output = run("--help")
        assert "PyTorch training projects" in output
        for name in ("new", "list", "show", "add", "remove", "update", "status"):
            assert re.search(rf"^  {name} .*\.$", output, re.MULTILINE), name
            assert f"Usage: torch-tricks {name} " in run(name, "--help")
        assert run() == output

    def test_wrong_commands_get_a_suggestion(self):
        assert "Did you mean 'update'?" in run("updat", code=2)
        assert run("new", code=2).endswith("'DEST'; see torch-tricks new --help")

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ("add sw", ["swa"]),
            ("remove a", sorted(t.name for t in TRICKS if t.name.startswith("a"))),
            ("new x --with amp,mi", ["amp,mixup"]),
            ("new x --preset m", ["minimal"]),
            ("sho", ["show"]),
        ],
    )
    def test_completion(self, words, expected):
        variables = {
            "_TORCH_TRICKS_COMPLETE": "complete_bash",
            "COMP_WORDS": f"torch-tricks {words}",
            "COMP_CWORD": str(len(words.split())),
        }
        environment = os.environ | {"PYTHONPATH": str(ROOT / "generator")} | variables
        result = python("-m", "torch_tricks", env=environment)
        assert sorted(result.stdout.split()) == expected, result.stderr

    def test_a_closed_pipe_is_no_error(self, project):
        project(preset="everything")
        command = f"{sys.executable} -m torch_tricks show parallel | head -1"
        environment = os.environ | {"PYTHONPATH": str(ROOT / "generator")}
        options = {
            "shell": True,
            "capture_output": True,
            "text": True,
            "env": environment,
        }
        result = subprocess.run(command, check=False, **options)
        assert result.stdout.startswith("parallel ")
        assert result.stderr == ""

    @pytest.mark.parametrize(("no_color", "expected"), [("", True), ("1", False)])
    def test_no_color_is_respected(self, monkeypatch, no_color, expected):
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        monkeypatch.setenv("NO_COLOR", no_color)
        assert output.colored() == expected

    def test_variables_of_a_hook_do_not_mislead(self, project, tmp_path, monkeypatch):
        directory = project(preset="minimal")
        git(tmp_path, "init", "--quiet", "other")
        monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
        run("add", "swa")
        monkeypatch.delenv("GIT_DIR", raising=False)
        assert "swa.py" in git(directory, "status", "--porcelain")
