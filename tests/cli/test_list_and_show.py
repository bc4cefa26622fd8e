"""`torch-tricks list` and `show`: what is said of tricks."""

import json
import os
import re

import pytest
from commands import RECOMMENDED, commit, custom, git, run
from parts import few_of
from subsets import ROOT, TASKS, TRICKS
from torch_tricks.catalogue import own_questions
from torch_tricks.errors import Refusal
from torch_tricks.questions import Questions
from versions import NEW_TRICK, REPOSITORY


class TestChoices:
    """A trick that comes in several forms, with a question of its own."""

    QUESTIONS = Questions(own_questions())

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
        answers = {"task": TASKS[0], "parallel": before, "tricks": ["swa"]}
        changed = self.QUESTIONS.changed(answers, take, leave)
        assert changed == {"parallel": after, "tricks": ["swa"]}

    def test_none_is_no_form(self):
        with pytest.raises(Refusal, match="did you mean"):
            self.QUESTIONS.find(["parallel=dpd"])
        with pytest.raises(Refusal, match='"none"; there is dp, ddp'):
            self.QUESTIONS.find(["parallel=none"])


def listed(output):
    """The lines of each trick by its name, joined; and the other lines."""
    tricks, others = {}, []
    for line in output.splitlines():
        words = line.removeprefix("  in ").removeprefix("  -  ").split()
        if line[0] != " ":
            others.append(line)
        elif len(line) - len(line.lstrip()) < 6:
            last, *rest = words
            tricks[last] = " ".join(rest)
        else:
            tricks[last] += " " + " ".join(words)
    return tricks, others


class TestList:
    def test_outside_of_a_project(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        output = run("list")
        tricks, others = listed(output)
        groups = dict.fromkeys(trick.group for trick in TRICKS)
        assert others == [*groups, "* recommended: in the preset of this name"]
        assert [*tricks] == [trick.name for trick in TRICKS]
        for trick in TRICKS:
            assert f"{trick.title}: {trick.buys}" in tricks[trick.name]
            assert tricks[trick.name].startswith("* ") == trick.recommended
        assert tricks["parallel"].endswith(" needs: two or more GPUs")
        assert " needs tricks: csv, predict needs: images " in tricks["kfold"]
        assert " goes with: pretrained needs: pretrained weights" in tricks["freeze"]
        assert " needs tricks: parallel=ddp or parallel=fsdp" in tricks["sync_bn"]
        assert " only with: parallel=none or parallel=ddp" in tricks["compile"]
        assert max(len(line) for line in output.splitlines()) <= 100

    @pytest.mark.parametrize("task", few_of(TASKS, -1))
    def test_of_a_task(self, task, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        tricks, _ = listed(run("list", "--task", task))
        assert [*tricks] == [t.name for t in TRICKS if t.works("task", task)]
        named = {t.name: "tasks: " in listed(run("list"))[0][t.name] for t in TRICKS}
        assert named == {t.name: "task" in t.works_with for t in TRICKS}
        refused = run("list", "--task", "detektion", code=2)
        assert 'no choice of task is called "detektion"; ' in refused

    def test_inside_of_a_project(self, project):
        project(preset="recommended")
        output = run("list")
        assert re.findall(r"^  in (\w+)", output, re.MULTILINE) == RECOMMENDED
        assert len(re.findall(r"^  (?:in|- ) \w+", output, re.MULTILINE)) == len(TRICKS)
        assert max(len(line) for line in output.splitlines()) <= 100


class TestJson:
    """Scripts read it: docs and help have the names."""

    def test_of_list(self, project, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        found = {row["name"]: row for row in json.loads(run("list", "--json"))}
        assert [*found] == [trick.name for trick in TRICKS]
        assert {row["in_project"] for row in found.values()} == {None}
        for trick in TRICKS:
            row = found[trick.name]
            assert (row["buys"], row["needs"]) == (trick.buys, [*trick.needs])
            works_with = {name: [*some] for name, some in trick.works_with.items()}
            assert row["works_with"] == works_with
        of_task = json.loads(run("list", "--task", TASKS[-1], "--json"))
        assert {row["name"] for row in of_task} < found.keys()
        project(preset="recommended")
        inside = json.loads(run("list", "--json"))
        assert [row["name"] for row in inside if row["in_project"]] == RECOMMENDED
        assert {row["in_project"] for row in inside} == {True, False}

    def test_of_show(self, project, monkeypatch):
        project(preset="recommended")
        text = run("show", "ema")
        # Also in a terminal, the diff has no colours.
        monkeypatch.setattr("torch_tricks.reporting.colored", lambda: True)
        shown = json.loads(run("show", "ema", "--json"))
        [row] = (r for r in json.loads(run("list", "--json")) if r["name"] == "ema")
        assert shown.items() > row.items()
        assert text.endswith(f"\n\n{shown['section']}\n\n{shown['diff']}\n")
        assert "--ema-decay" in shown["section"]
        assert shown["diff"].startswith("diff --git a/README.md")

    def test_the_names_are_documented(self, project):
        project(preset="minimal")
        text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
        tables = text.partition("\n## Output for scripts\n")[2]
        [row, *_], shown, status = (
            json.loads(run(*words, "--json"))
            for words in (["list"], ["show", "swa"], ["status"])
        )
        for command, names in (
            ("list", [*row]),
            ("show", [name for name in shown if name not in row]),
            ("status", [*status]),
        ):
            table = re.search(rf"`{command} .*?\n\n(\|.*?)\n\n", tables, re.DOTALL)[1]
            documented = re.findall(r"^\|(.*?)\|", table, re.MULTILINE)
            assert re.findall(r"`(\w+)`", "".join(documented)) == names
            told = " ".join(run(command, "--help").split("Print JSON: ")[1].split())
            assert [name for name in names if name not in told] == []


class TestShow:
    @pytest.mark.parametrize("inside", [False, True])
    def test_has_the_idea_the_source_and_the_code(
        self, project, tmp_path, monkeypatch, inside
    ):
        monkeypatch.chdir(project(preset="everything") if inside else tmp_path)
        output = run("show", "swa")
        assert "After `--swa-start` (0.75) of all" in output
        assert "<https://arxiv.org/abs/1803.05407>" in output
        assert "\n+    run.swa.update(now + 1)\n" in output
        assert "+class WeightAverage" in output
        assert ".copier-answers.yml" not in output
        assert ("run.scaler" in output) == inside

    def test_names_the_tasks(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for name in ("swa", "mixup", "label_smoothing"):
            [trick] = (trick for trick in TRICKS if trick.name == name)
            tasks = ", ".join(trick.works_with.get("task", TASKS))
            assert f" tasks: {tasks}\n" in run("show", name)

    def test_the_code_is_what_add_adds(self, project):
        directory = project(preset="minimal")
        shown = run("show", "parallel")
        run("add", "parallel")
        commit(directory)
        pathspec = ("HEAD~", "HEAD", "--", ".", ":!.copier-answers.yml")
        assert shown.endswith(git(directory, "diff", *pathspec))

    @pytest.mark.proof
    @pytest.mark.parametrize(
        ("answers", "version", "other"),
        [
            (custom("amp"), "v0.2.0", "parallel=ddp"),
            ({"preset": "everything"}, "v0.1.0", "timm"),
        ],
        ids=["amp", "everything"],
    )
    def test_without_copier_it_is_the_same(
        self, hub, project, monkeypatch, version, answers, other
    ):
        """A template on this disk is read as lines, and rendered in a tenth of the time."""
        source = str(hub / REPOSITORY)
        project(source=source, version=version, **answers)
        looks = (["list"], ["show", other])
        with monkeypatch.context() as patched:
            patched.setattr("torch_tricks.preview.read_version", lambda *_: None)
            expected = [run(*look) for look in looks]
        monkeypatch.delattr("torch_tricks.project.render")
        assert [run(*look) for look in looks] == expected

    def test_an_unknown_trick_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert "did you mean swa?" in run("show", "sva", code=2)

    def test_colours_are_for_terminals(self, project, monkeypatch):
        project(preset="minimal")
        assert "\033" not in run("show", "swa")
        monkeypatch.setattr("torch_tricks.reporting.colored", lambda: True)
        assert "\033[32m+" in run("show", "swa")


class TestWithoutNetwork:
    @pytest.fixture(autouse=True)
    def offline(self, tmp_path, monkeypatch):
        self.reached = os.environ["GIT_CONFIG_KEY_0"]
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

    def test_tricks_of_the_tool_are_at_hand(self, project):
        project(preset="minimal")
        assert "  -  swa " in run("list")
        assert "+class WeightAverage" in run("show", "swa")
        assert "added leaf_diseases/optim/swa.py" in run("add", "swa")

    @pytest.mark.parametrize("command", [["update"], ["add", "swa"]])
    def test_others_are_refused(self, project, command, monkeypatch, tmp_path):
        directory = project(preset="minimal", version="v0.2.0")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
        assert "check the network" in run(*command, code=2)
        assert git(directory, "status", "--porcelain") == ""

    def test_a_version_that_was_looked_at_is_kept(self, project, monkeypatch):
        """In the user's cache, so that the second look needs no network."""
        project(preset="minimal", version="v0.2.0")
        there = os.environ["GIT_CONFIG_KEY_0"]
        monkeypatch.setenv("GIT_CONFIG_KEY_0", self.reached)
        first = run("show", NEW_TRICK)
        monkeypatch.setenv("GIT_CONFIG_KEY_0", there)
        monkeypatch.delattr("torch_tricks.project.render")
        assert run("show", NEW_TRICK) == first
