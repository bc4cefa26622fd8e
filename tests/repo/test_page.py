"""The page on which tricks are picked, in a real browser: it renders what Copier renders."""

import hashlib
import json
import os
import random
import re
import shlex
import sys
import tomllib
import zipfile
from functools import partial
from itertools import cycle, pairwise

import pytest
import write_page
from blocks import UnknownConstruct, as_yaml, files_in, own_template, read_template
from browsing import in_firefox, needs_chromium, needs_firefox, served
from commands import RECOMMENDED, commit, files, git, python, run
from parts import few_of
from processes import call, call_any
from rendering import all_answers, contents, render_files, render_with_copier
from subsets import (
    ROOT,
    TASKS,
    TRICKS,
    Subset,
    covering_array,
    everything,
    forms_of,
    space,
    task_of,
)
from torch_tricks.catalogue import own_questions
from torch_tricks.template import PUBLISHED
from versions import Hub, as_it_is

NAMES = {"Leaf Diseases": "leaf_diseases", "2026 test_Wheat-ears.v2": "wheat_ears_v2"}
"""Names of projects, with those of their packages."""

AWKWARD = (
    *("1.5", "5.", ".5", "1.5e-3", "1e3", "007", "0x1f", "-0b1", "1_000", "2026-05-17"),
    *("-", "- a", "-rf", "---", "...", "null", "nULL", "off", "y", ".inf", ".nAn"),
    *("a  b", "a-", "1 2", "A.b-c_d 9", "x" * 60),
)
"""Names that YAML could take for something else, one of each kind."""

OF_PACKAGES = ("torch", "test_test_x", "If", "h5py", "Class 9", "...", "a" * 29 + " b")
"""Names from which those of packages do not follow at once."""


def state(answers, name="Leaf Diseases"):
    """The state of the page for some answers."""
    whole = all_answers(answers)
    listed = [trick for trick in whole["chosen"] if trick != "parallel"]
    entries = {entry: whole[entry] for entry in ("preset", "task", "parallel")}
    return {"name": name, "tricks": listed} | entries


def digest(content):
    return hashlib.sha256(content).hexdigest()


def expected(answers, name):
    """The digest of each file of a project, as Copier records it for the page's release."""
    names = {"project_name": name, "package_name": NAMES[name]}
    whole = all_answers(answers) | names
    whole["recorded"] |= names | {"_src_path": PUBLISHED, "_commit": "v0.1.0"}
    project = own_template().render(whole)
    return {path: digest(text.encode()) for path, text in project.items()}


DIGESTS = """async (states) => {
    const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
    const digest = async (text) => hex(new Uint8Array(
        await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));
    return Promise.all(states.map(async (state) => Object.fromEntries(await Promise.all(
        [...render(data, state).files].map(async ([path, file]) =>
            [path, await digest(textOf(file))])))));
}"""


def differing(evaluate, choices):
    """The files in which the page and Copier differ, over choices with names."""
    found = evaluate(DIGESTS, [state(answers, name) for answers, name in choices])
    return {
        path
        for (answers, name), ours in zip(choices, found, strict=True)
        for path, _ in ours.items() ^ expected(answers, name).items()
    }


def random_choices(number, seed):
    """Any choices that go together."""
    drawn = random.Random(seed)
    for _ in range(number):
        share = drawn.random()
        wanted = {
            trick.name: drawn.choice(trick.choices) if trick.choices else True
            for trick in drawn.sample(TRICKS, len(TRICKS))
            if drawn.random() < share
        }
        task = {"task": drawn.choice(TASKS)}
        yield Subset(space().choose(task, wanted)).answers


PRESETS = [{"preset": name} for name in ("minimal", "recommended", "everything")]
OF_TASKS = [preset | {"task": task} for preset in PRESETS for task in TASKS[1:]]


@needs_chromium
class TestRendering:
    def test_presets_equal_copier(self, show, written):
        answers = (*PRESETS, *OF_TASKS)
        choices = [(one, name) for one, name in zip(answers, cycle(NAMES))]
        assert differing(show(written).evaluate, choices) == set()

    @pytest.mark.proof
    @pytest.mark.parametrize("name", NAMES)
    def test_any_choice_equals_copier(self, show, written, name):
        seed = os.environ.get("TORCH_TRICKS_SEED", name)
        rows = [subset.answers for subset in covering_array()]
        choices = [(one, name) for one in (*rows, *random_choices(300, seed))]
        assert differing(show(written).evaluate, choices) == set()

    @pytest.mark.proof
    @needs_firefox
    def test_firefox_equals_copier(self, written, tmp_path):
        rows = [subset.answers for subset in covering_array(2)]
        choices = [(answers, "Leaf Diseases") for answers in (*PRESETS, *rows)]
        evaluate = partial(in_firefox, written, tmp_path / "firefox")
        assert differing(evaluate, choices) == set()

    def test_a_corrupted_line_is_found(self, show, written, tmp_path):
        text = written.read_text(encoding="utf-8")
        line = "from {package}.optim.ema import ExponentialMovingAverage"
        line = line.format(package=write_page.MARKS["package_name"])
        corrupted = tmp_path / "corrupted.html"
        corrupted.write_text(text.replace(line, line.upper(), 1), encoding="utf-8")
        choices = [
            (everything().answers, "Leaf Diseases"),
            (PRESETS[0], "Leaf Diseases"),
        ]
        assert len(differing(show(corrupted).evaluate, choices)) == 1

    @pytest.mark.proof
    def test_names_are_those_of_copier(self, show, written, tmp_path):
        page = show(written)
        scalars = page.evaluate("(names) => names.map(yaml)", AWKWARD)
        for name, scalar in zip(AWKWARD, scalars, strict=True):
            assert as_yaml({"project_name": name}) == f"project_name: {scalar}\n"
        names = [*OF_PACKAGES, "1.5"]
        choices = [state(PRESETS[0], name) for name in names]
        found = page.evaluate(DIGESTS, choices)
        for name, ours in zip(names, found, strict=True):
            answers = {"preset": "minimal", "project_name": name}
            project = files(render_with_copier(tmp_path / name, answers))
            del project[".copier-answers.yml"], ours[".copier-answers.yml"]
            assert ours == {path: digest(text) for path, text in project.items()}

    def test_other_names_are_refused_beside_the_field(self, show, written):
        page = show(written, "#preset=minimal")
        page.evaluate("element('name').maxLength = 99")
        for name in ("", "a" * 61, "Blätter", 'a"b', "a/b", "test_1a"):
            page.fill("#name", name)
            assert page.get_attribute("#name", "aria-invalid") == "true", name
            assert "Until then it is Leaf Diseases" in page.inner_text("#name-note")
            assert "Leaf Diseases" in page.inner_text("#ours")


def git_diff(before, after, directory):
    """The numbers of the lines that git finds added, and of those that it finds removed."""
    sides = [directory / "before", directory / "after"]
    for path, text in zip(sides, (before, after), strict=True):
        path.write_text(text, encoding="utf-8")
    options = ("--no-index", "--minimal", "--unified=0")
    result = call_any("git", "diff", *options, *sides)
    added, removed = [], []
    hunks = re.findall(r"^@@ -(\S+) \+(\S+) @@", result.stdout, re.MULTILINE)
    for hunk in hunks:
        for side, numbers in zip(hunk, (removed, added), strict=True):
            first, _, count = side.partition(",")
            numbers += range(int(first), int(first) + int(count or 1))
    return added, removed


def marks(lines):
    """The same of the signs and texts that the page has."""
    old = [sign for sign, _ in lines if sign != "+"]
    new = [sign for sign, _ in lines if sign != "-"]
    return (
        [number for number, sign in enumerate(new, 1) if sign == "+"],
        [number for number, sign in enumerate(old, 1) if sign == "-"],
    )


COMPARE = """([old, now]) => {
    const [before, after] = [old, now].map((state) => render(data, state).files);
    return [...new Set([...before.keys(), ...after.keys()])].map((path) => [
        path, compare(before.get(path), after.get(path)).map(({ sign, text }) => [sign, text])]);
}"""


def ticks():
    """Pairs of choices, without a trick and with it, from nothing and from everything."""
    for trick in TRICKS:
        if trick.choices:
            continue
        form = (*forms_of(trick), "none")[0]
        task = task_of(trick)
        alone = Subset.of(trick.name, parallel=form, task=task).answers
        for whole in (alone, everything(task=task).answers):
            left = [name for name in whole["tricks"] if name != trick.name]
            needed = any(trick.name in other.needs for other in TRICKS)
            if trick.name in whole["tricks"] and not (needed and whole != alone):
                yield whole | {"tricks": left}, whole


@needs_chromium
class TestMarks:
    @pytest.mark.parametrize("trick", ["amp", "grad_clipping"])
    def test_a_tick_marks_what_diff_marks(self, show, written, tmp_path, trick):
        before, after = (
            render_files(answers)["train.py"]
            for answers in (PRESETS[0], Subset.of(trick).answers)
        )
        added, removed = git_diff(before, after, tmp_path)
        assert added
        assert removed or trick == "grad_clipping"
        page = show(written, "#preset=minimal")
        page.check(f"#t-{trick}")
        old, new = before.splitlines(), after.splitlines()
        assert self.marked(page) == (added, [old[number - 1] for number in removed])
        page.uncheck(f"#t-{trick}")
        assert self.marked(page) == (removed, [new[number - 1] for number in added])

    def marked(self, page):
        """The numbers of the lines that are marked as added, and the texts of those removed."""
        numbers = page.locator(".added .number").evaluate_all(
            "(cells) => cells.map((cell) => Number(cell.dataset.n))"
        )
        return numbers, [
            text.rstrip() for text in page.locator("del").all_inner_texts()
        ]

    def check(self, page, pairs, directory):
        """Git finds as many lines, or more; which ones may differ by empty ones around a block."""
        for old, new in pairs:
            sides = [render_files(answers) for answers in (old, new)]
            for path, lines in page.evaluate(COMPARE, [state(old), state(new)]):
                if path == ".copier-answers.yml":
                    continue
                before, after = (side.get(path, "") for side in sides)
                old_lines, new_lines = before.splitlines(), after.splitlines()
                assert [text for sign, text in lines if sign != "+"] == old_lines
                assert [text for sign, text in lines if sign != "-"] == new_lines
                if before == after:
                    assert marks(lines) == ([], [])
                    continue
                ours, theirs = marks(lines), git_diff(before, after, directory)
                for side, one, other in zip(
                    (new_lines, old_lines), ours, theirs, strict=True
                ):
                    # Before version 2.48, git finds more where it gives up.
                    assert len(one) <= len(other), path
                    if len(one) == len(other):
                        assert {side[n - 1] for n in {*one} ^ {*other}} <= {""}, path

    @pytest.mark.proof
    def test_any_tick_marks_what_diff_marks(self, show, written, tmp_path):
        self.check(show(written), ticks(), tmp_path)

    def test_the_margin_names_the_trick(self, show, written):
        page = show(written, "#preset=everything&file=leaf_diseases/optim/ema.py")
        assert page.inner_text(".why >> nth=0") == "ema"
        page = show(written, "#preset=minimal")
        assert page.locator(".due").count() == 0

    @pytest.mark.proof
    def test_the_lines_of_a_trick_are_shown_when_asked_for(self, show, written):
        page = show(written, "#preset=everything")
        page.locator("[data-lines=ema]").click(force=True)
        asked = self.marked(page)
        page = show(written, "#preset=everything")
        page.uncheck("#t-ema")
        page.check("#t-ema")
        assert self.marked(page) == asked

    @pytest.mark.proof
    def test_only_what_a_trick_adds_is_left(self, show, written):
        page = show(written, "#preset=recommended")
        page.check("#t-ema")
        lines = page.locator("#lines li").count()
        page.check("#only")
        assert page.locator("#lines li").count() < lines / 3
        assert page.locator(".added").count() > 0
        assert page.locator("[data-file='leaf_diseases/errors.py']").is_hidden()
        while page.locator(".fold button").count():
            page.locator(".fold button").first.click()
        assert page.locator("#lines li").count() == lines


@needs_chromium
class TestForm:
    def test_what_does_not_go_together_is_said_beside_it(self, show, written):
        page = show(written, "#preset=minimal")
        for name, reason in (("video", "needs folders"), ("sync_bn", "needs parallel")):
            box = page.locator(f"#t-{name}")
            assert box.get_attribute("aria-disabled") == "true"
            assert reason in page.inner_text(f"#w-{name}")
            box.focus()
            page.keyboard.press("Space")
            assert not box.is_checked()
            assert reason in page.inner_text("#status")
        page.check("#t-folders")
        page.check("#t-video")
        assert "video needs it" in page.inner_text("#w-folders")
        page.locator("#t-folders").click(force=True)
        assert page.is_checked("#t-folders")
        page.check("#t-channels_last")
        page.click("#parallel label:has([value=fsdp])")
        assert not page.is_checked("#t-channels_last")
        assert "channels_last" in page.inner_text("#parallel .left")
        page.click("#parallel .left button")
        assert page.is_checked("#parallel [value=none]")
        assert page.is_checked("#t-channels_last")

    def test_an_address_can_be_shared_and_back_works(self, show, written):
        page = show(written, "#preset=minimal&name=Wheat+ears")
        page.check("#t-ema")
        page.click("#parallel label:has([value=ddp])")
        page.check("#t-sync_bn")
        shared, code = page.url.partition("#")[2], page.inner_text("#lines")
        page.go_back()
        assert not page.is_checked("#t-sync_bn")
        assert page.is_checked("#parallel [value=ddp]")
        page.go_back()
        page.go_back()
        assert page.is_checked("#presets [value=minimal]")
        page.go_forward()
        assert page.is_checked("#t-ema")
        page = show(written, f"#{shared}")
        assert page.is_checked("#t-sync_bn")
        assert page.is_checked("#t-ema")
        assert page.input_value("#name") == "Wheat ears"
        assert page.locator("#lines .added").count() == 0
        assert "SyncBatchNorm" in page.evaluate(
            "[...project.files.values()].map(textOf).join('')"
        )
        assert code.count("wheat_ears") == page.inner_text("#lines").count("wheat_ears")

    def test_an_address_of_what_does_not_exist_or_go_together(self, show, written):
        page = show(
            written, "#preset=custom&tricks=video,sync_bn,ema,none&file=x&name=a%22"
        )
        assert page.evaluate("state.tricks") == ["ema"]
        assert page.inner_text("#path") == "train.py"
        assert page.input_value("#name") == "Leaf Diseases"
        said = page.inner_text("#status")
        assert 'the name “a"” (Use letters' in said
        assert "video (needs folders), sync_bn (needs parallel=ddp or fsdp)" in said
        assert "none (not in this version), x (no file of this project)" in said
        page.evaluate("location.hash = '#preset=custom&tricks=old_trick'")
        page.locator("#status", has_text="asks for old_trick (not in this").wait_for()
        page = show(written, "#preset=custom&parallel=toString&tricks=ema")
        assert page.evaluate("state.parallel") == "none"
        page = show(written, "#preset=constructor")
        assert page.evaluate("state.preset") == "recommended"
        assert "preset=constructor (not in" in page.inner_text("#status")
        page = show(written, "#preset=minimal&parallel=ddp&lines=no&page=never")
        said = page.inner_text("#status")
        assert "parallel=ddp (the preset minimal decides on it)" in said
        assert "the lines of no (not" in said
        assert "the page of never (not" in said

    @pytest.mark.proof
    def test_tricks_in_an_address_are_a_custom_choice_and_the_first_of_two_stays(
        self, show, written
    ):
        for tricks, kept in (
            ("hdf5,video,folders", ["folders", "hdf5"]),
            ("video,hdf5,folders", ["folders", "video"]),
        ):
            page = show(written, f"#preset=minimal&tricks={tricks}")
            assert page.is_checked("#presets [value=custom]")
            assert page.evaluate("state.tricks") == kept
            lost = "video" if "hdf5" in kept else "hdf5"
            assert f"for {lost} (does not go" in page.inner_text("#status")

    def test_each_tick_shows_its_code(self, show, written):
        page = show(written, "#preset=minimal")
        shown = []
        for trick in ("folders", "ema", "hdf5", "evaluate"):
            page.check(f"#t-{trick}")
            shown.append(page.inner_text("#path"))
        assert shown == [
            *("leaf_diseases/data/folders.py", "train.py"),
            *("leaf_diseases/data/hdf5.py", "evaluate.py"),
        ]

    @pytest.mark.proof
    def test_another_name_leaves_the_file_open_and_the_lines_marked(
        self, show, written
    ):
        page = show(written, "#preset=minimal&file=leaf_diseases/settings.py")
        page.check("#t-ema")
        marked = page.locator(".added").count()
        page.fill("#name", "Wheat")
        assert page.inner_text("#path") == "wheat/settings.py"
        assert page.locator(".added").count() == marked > 0
        assert "new wheat" in page.inner_text("#ours")
        page = show(written)
        page.click("[data-lines=folders]")
        said = page.inner_text("#status")
        page.fill("#name", "Wheat")
        assert page.inner_text("#status") == said

    def test_a_command_is_copied(self, show, written):
        page = show(written)
        page.click("[data-copy=ours]")
        page.locator("[data-copy=ours]", has_text="Copied").wait_for()
        page.fill("#name", "")
        page.keyboard.press("Control+V")
        assert page.input_value("#name") == page.inner_text("#ours")[:80]

    @pytest.mark.proof
    def test_every_control_has_a_name(self, show, written):
        page = show(written)
        unnamed = page.evaluate("""() => [...document.querySelectorAll("button, input, a")]
            .filter((one) => !one.ariaLabel && !one.textContent.trim() && !one.labels?.length)
            .map((one) => one.outerHTML)""")
        assert unnamed == []

    def test_a_phone_shows_one_part_at_a_time(self, show, written):
        page = show(written)
        page.set_viewport_size({"width": 390, "height": 844})
        parts = ("tricks", "files", "code", "get")
        for part in parts:
            page.click(f"[data-tab={part}]")
            assert [one for one in parts if page.is_visible(f"#{one}")] == [part]
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width == 390

    @pytest.mark.proof
    def test_a_small_window_cuts_nothing_off(self, show, written):
        page = show(written, "#preset=everything")
        tricks = ",".join(page.evaluate("state.tricks"))
        page = show(written, f"#preset=custom&tricks={tricks}")
        page.set_viewport_size({"width": 320, "height": 360})
        assert page.evaluate("element('tricks').scrollWidth") == 320
        page.click("[data-tab=get]")
        assert page.evaluate("document.documentElement.scrollHeight") == 360

    @pytest.mark.proof
    def test_all_choices_of_a_question_have_room(self, show, written):
        page = show(written)
        for width in (2560, 1440, 1101, 1100, 960, 861, 860, 700, 390, 320):
            page.set_viewport_size({"width": width, "height": 800})
            cut = """() => [...document.querySelectorAll(".segments > div, .segments label, #tricks, header")]
                .filter((one) => one.scrollWidth > one.clientWidth)
                .map((one) => one.innerText)"""
            assert page.evaluate(cut) == [], width
            outside = """() => [...document.querySelectorAll("button, input, label")]
                .filter((one) => one.checkVisibility() && !one.closest("#code"))
                .filter((one) => one.getBoundingClientRect().right > innerWidth)
                .map((one) => one.outerHTML)"""
            assert page.evaluate(outside) == [], width
            assert page.is_visible("#tabs") == (width <= 1100)

    @pytest.mark.proof
    def test_focus_on_a_preset_stays_on_the_screen(self, show, written):
        page = show(written)
        page.evaluate("element('tricks').scrollTop = 1e6")
        page.focus("#presets :checked")
        assert page.evaluate("""() => {
            const { top, bottom } = document.activeElement.closest("label").getBoundingClientRect();
            return top >= 0 && bottom <= innerHeight;
        }""")


def focused(page, entry):
    """An entry of the data of the control in focus."""
    return page.evaluate(f"document.activeElement.dataset.{entry}")


PHONE = {"width": 390, "height": 844}


@pytest.mark.proof
@needs_chromium
class TestHistory:
    def test_on_a_phone_back_leaves_a_part_and_keeps_the_choice(self, show, written):
        page = show(written, "#preset=minimal")
        page.set_viewport_size(PHONE)
        page.check("#t-ema")
        titles = [page.title()]
        for leave in ("[data-tab=code]", "[data-lines=ema]", "[data-page=ema]"):
            page.click(leave)
            assert not page.is_visible("#tricks")
            titles.append(page.title())
            page.go_back()
            assert page.is_visible("#tricks")
            assert page.is_checked("#t-ema")
        page.click("[data-tab=files]")
        page.click("[data-file='README.md']")
        titles.append(page.title())
        page.go_back()
        assert page.is_visible("#files")
        titles.append(page.title())
        page.go_back()
        page.go_back()
        assert not page.is_checked("#t-ema")
        assert len({*titles, page.title()}) == 7

    def test_back_and_reload_keep_what_is_marked_and_typed(self, show, written):
        page = show(written, "#preset=minimal")
        page.check("#t-ema")
        said, lines = page.inner_text("#status"), page.inner_html("#lines")
        page.check("#t-swa")
        page.go_back()
        assert page.inner_text("#status") == said
        assert page.inner_html("#lines") == lines
        page.check("#only")
        page.fill("#filter", "averag")
        page.fill("#name", "a/b")
        lines, note = page.inner_html("#lines"), page.inner_text("#name-note")
        page.reload()
        assert page.is_checked("#only")
        assert page.inner_html("#lines") == lines
        assert page.inner_text("#status") == said
        assert page.input_value("#filter") == "averag"
        assert page.input_value("#name") == "a/b"
        assert page.inner_text("#name-note") == note
        page.check("#t-swa")
        assert page.input_value("#name") == "a/b"
        assert "Until then" in page.inner_text("#name-note")

    def test_a_preset_leaves_the_custom_choice_as_it_was(self, show, written):
        page = show(written, "#tricks=ema,sync_bn&parallel=ddp")
        page.click("#presets label:has([value=minimal])")
        assert page.evaluate("[state.tricks, state.parallel]") == [[], "none"]
        page.reload()
        page.click("#presets label:has([value=custom])")
        expected = [["sync_bn", "ema"], "ddp"]
        assert page.evaluate("[state.tricks, state.parallel]") == expected

    def test_the_lines_of_any_trick_have_an_address(self, show, written):
        page = show(written, "#lines=ema")
        assert page.is_checked("#only")
        assert page.inner_text("#status").startswith("Lines of ema: ")
        lines, address = page.inner_text("#lines"), page.url
        assert "+" in lines
        assert show(address).inner_text("#lines") == lines
        refused = page.evaluate("""() => data.tricks.map(({ name }) => [name, including(name, state)])
            .filter(([name, next]) => !chosenOf(data, next).has(name)
                || next.tricks.some((one) => obstacle(one, without(one, next))))
            .map(([name]) => name)""")
        assert refused == []
        for trick, needed in (("smp", "segmentation"), ("sync_bn", "ddp")):
            page = show(written, f"#lines={trick}")
            assert needed in page.evaluate("[state.task, state.parallel]")
            assert page.locator(".added").count() > 0


@pytest.mark.proof
@needs_chromium
class TestKeyboard:
    def test_the_lines_of_a_trick_and_back(self, show, written):
        page = show(written)
        page.focus("[data-lines=resume]")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "scroll"
        button = page.locator(".fold button").nth(1)
        button.focus()
        place = page.evaluate("element('scroll').scrollTop")
        lines = page.locator("#lines li").count()
        page.keyboard.press("Enter")
        assert page.locator("#lines li").count() > lines
        assert page.evaluate("element('scroll').scrollTop") == place
        assert page.evaluate("document.activeElement.parentElement.id") == "lines"
        page.keyboard.press("Escape")
        assert focused(page, "lines") == "resume"

    def test_the_first_links_lead_to_each_part(self, show, written):
        page = show(written)
        for part in ("files", "code", "get"):
            page.evaluate("document.activeElement.blur()")
            page.focus(f"[data-skip={part}]")
            assert page.locator(f"[data-skip={part}]").bounding_box()["x"] >= 0
            page.keyboard.press("Enter")
            assert page.evaluate("document.activeElement.id") == part

    def test_a_tick_stays_under_the_pointer(self, show, written):
        page = show(written, "#tricks=evaluate")
        page.focus("#t-calibration")
        place = page.locator("#t-calibration").bounding_box()
        page.keyboard.press("Space")
        assert page.is_visible("[data-way=evaluate]")
        moved = page.locator("#t-calibration").bounding_box()["y"] - place["y"]
        assert abs(moved) < 1


LUMINANCE = """([selector, property]) => {
    const luminance = (color) => {
        const context = new OffscreenCanvas(1, 1).getContext("2d");
        context.fillStyle = color;
        context.fillRect(0, 0, 1, 1);
        const linear = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map((value) =>
            value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    return luminance(getComputedStyle(document.querySelector(selector))[property]);
}"""


def contrast(page, border, ground):
    """The contrast of a control's border to what is behind it."""
    one = page.evaluate(LUMINANCE, [border, "borderTopColor"])
    other = page.evaluate(LUMINANCE, [ground, "backgroundColor"])
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


@pytest.mark.proof
@needs_chromium
class TestLooks:
    def test_locked_unfit_and_advised_rows_differ(self, show, written):
        page = show(written, "#tricks=folders,video,distillation")
        looks = {}
        for name in ("folders", "smp", "distillation", "video", "ema"):
            looks[name] = page.evaluate(
                """(name) => {
                const input = element(`t-${name}`), { backgroundColor, borderTopStyle } = getComputedStyle(input);
                return [input.parentElement.dataset.look, input.checked, backgroundColor, borderTopStyle];
            }""",
                name,
            )
        found = [look[0] for look in looks.values()]
        assert found == ["locked", "unfit", "advice", "free", "free"]
        assert looks["smp"][3] == "dashed"
        assert looks["folders"][1] and looks["folders"][2] != looks["video"][2]
        assert "works best with pretrained" in page.inner_text("#w-distillation")
        page.click("[data-way=pretrained]")
        assert page.inner_text("#w-distillation") == ""
        assert page.evaluate("document.activeElement.id") == "t-distillation"

    def test_controls_can_be_seen_and_hit(self, show, written):
        page = show(written, "#tricks=folders,video,distillation&page=ema")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for control in ("#t-ema", "#t-smp", "#name", "#filter", "#close"):
                assert contrast(page, control, "body") >= 3, (scheme, control)
            for control in ("#download", "#parallel label:not(:has(:checked))"):
                assert contrast(page, control, "header") >= 3, (scheme, control)
        small = page.evaluate("""() => [...document.querySelectorAll("button, label:has(input), .trick label, #name, #filter")]
            .filter((one) => one.checkVisibility() && !one.closest("#page"))
            .filter((one) => one.getBoundingClientRect().height < 24 || one.getBoundingClientRect().width < 24)
            .map((one) => one.outerHTML)""")
        assert small == []
        levels = page.evaluate(
            "[...document.querySelectorAll('h1, h2, h3, h4')].map((one) => Number(one.tagName[1]))"
        )
        assert levels[0] == 1
        assert all(b - a <= 1 for a, b in pairwise(levels))

    def test_other_media_and_the_choice_of_the_site(self, show, written, browser):
        ground = "getComputedStyle(document.querySelector('{}')).backgroundColor"
        with served(written.parent) as address:
            page = show(f"{address}index.html", "#tricks=ema")
            page.emulate_media(color_scheme="light")
            light = page.evaluate(ground.format("body"))
            palette = {"color": {"media": "", "scheme": "slate"}}
            page.evaluate(
                "(it) => localStorage.setItem('/.__palette', it)", json.dumps(palette)
            )
            page.reload()
            assert page.evaluate(ground.format("body")) != light
            page.emulate_media(forced_colors="active")
            ticked, free = (
                page.evaluate(ground.format(f"#t-{name}")) for name in ("ema", "swa")
            )
            assert ticked != free
            page.emulate_media(media="print", forced_colors="none")
            assert page.is_visible("#t-ema")
            assert page.is_visible("#lines")
            assert page.is_visible("#ours")
            assert not page.is_visible("#t-swa")
            assert not page.is_visible("#tree")
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(written.as_uri())
        assert "needs JavaScript" in page.inner_text("body")
        assert not page.is_visible("#tricks")
        context.close()

    def test_rows_name_what_they_require(self, show, written):
        page = show(written)
        for trick in TRICKS:
            if trick.wants and not trick.choices:
                assert f"Requires {trick.wants}" in page.inner_text(f"#b-{trick.name}")
        assert "Requires" not in page.inner_text("#parallel-note")
        page.click("#parallel label:has([value=ddp])")
        assert "Requires two or more GPUs" in page.inner_text("#parallel-note")

    def test_one_line_is_one_line(self, show, written):
        page = show(written)
        assert page.evaluate("numbered(1, 'line')") == "1 line"
        said = page.evaluate("counts({ added: 1, removed: 2 })")
        assert " line added" in said
        assert " lines removed" in said


@needs_chromium
class TestWays:
    def test_the_next_steps_stand_beside_the_commands(self, show, written):
        page = show(written)
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        assert page.inner_text("#install") in readme
        steps = 'cd leaf-diseases && pip install -e ".[dev]" && python train.py'
        assert page.inner_text("#then") == steps
        with page.expect_download():
            page.click("#download")
        assert page.inner_text("#status").endswith(steps)
        page.click("#parallel label:has([value=ddp])")
        assert "torchrun" in page.inner_text("#then")
        page.click("[data-copy=link]")
        page.locator("[data-copy=link]", has_text="Copied").wait_for()

    @pytest.mark.parametrize("parallel", ["none", "fsdp"])
    def test_every_refusal_has_a_way_out(self, show, written, parallel):
        page = show(written, f"#tricks=folders,video&parallel={parallel}")
        found = page.evaluate("""() => listable.filter((name) => obstacle(name, state)).map((name) => {
            const next = wayOut(name, state);
            return [name, document.querySelector(`[data-way=${name}]`) !== null, wordsFor(name, next),
                next.task === state.task, next.tricks.includes(name) !== state.tricks.includes(name)];
        })""")
        assert {"folders", "hdf5", "calibration", "smp"} <= {name for name, *_ in found}
        for name, shown, words, same_task, works in found:
            assert shown == bool(words) == same_task, name
            assert works, name
        page.click("[data-way=hdf5]")
        assert page.evaluate("state.tricks") == ["folders", "hdf5"]
        assert page.evaluate("document.activeElement.id") == "t-hdf5"

    def test_tricks_are_found_by_other_words(self, show, written):
        page = show(written)
        for word, trick in (
            ("vit", "timm"),
            ("memory", "activation_checkpointing"),
            ("laptop", "pretrained"),
            ("Cluster", "resume"),
            ("averaging stochastic", "swa"),
        ):
            page.fill("#filter", word)
            assert page.is_visible(f"#t-{trick}"), word
            assert not page.is_visible("#t-l1"), word
            count = page.locator(".trick:visible").count()
            assert page.inner_text("#found").startswith(f"{count} of "), word
        page.fill("#filter", "")
        assert page.is_visible("#t-l1")
        assert page.inner_text("#found") == ""

    @pytest.mark.proof
    def test_a_situation_is_a_choice_for_every_task(self, show, written):
        page = show(written)
        starts = tomllib.loads(
            (write_page.PARTS / "starts.toml").read_text(encoding="utf-8")
        )["starts"]
        names = {trick.name for trick in TRICKS}
        for place, start in enumerate(starts):
            page.click("#task label:has([value=classification])")
            assert {*start["with"], *start["without"]} <= names
            page.click(f"[data-start='{place}']")
            kept = {*RECOMMENDED, *start["with"]} - {*start["without"]}
            assert {*page.evaluate("state.tricks")} == kept, start["title"]
            answers = page.evaluate("state")
            assert start["answers"].items() <= answers.items()
            for task in TASKS[1:]:
                page.click(f"#task label:has([value={task}])")
                here = {*page.evaluate("state.tricks")}
                fit = {trick.name for trick in TRICKS if trick.works("task", task)}
                left = kept - fit
                assert here == kept & fit
                assert {*page.evaluate("leftOut(data.questions[0])")} == left

    @pytest.mark.proof
    def test_another_task_leaves_out_and_brings_back(self, show, written):
        page = show(written, "#tricks=folders,ema,mixup")
        rows = ".trick input"
        order = page.locator(rows).evaluate_all("(all) => all.map((one) => one.value)")
        page.click("#task label:has([value=segmentation])")
        assert page.inner_text("#path") == "leaf_diseases/task.py"
        assert page.evaluate("state.tricks") == ["folders", "ema"]
        assert "mixup" in page.inner_text("#task .left")
        assert "not for segmentation" in page.inner_text("#w-mixup")
        found = page.locator(rows).evaluate_all("(all) => all.map((one) => one.value)")
        assert found == order
        page.click("#task .left button")
        assert page.is_checked("#task [value=classification]")
        assert page.is_checked("#t-mixup")
        page.click("#task label:has([value=segmentation])")
        page.check("#t-swa")
        page.reload()
        page.click("#task label:has([value=classification])")
        assert page.evaluate("state.tricks") == ["folders", "ema", "swa", "mixup"]
        above = """["name", "presets"].every((below) =>
            element("task").compareDocumentPosition(element(below)) & 4)"""
        assert page.evaluate(above)
        tops = page.locator("#task label").evaluate_all(
            "(all) => all.map((one) => one.getBoundingClientRect().top)"
        )
        assert tops[0] == tops[1] < tops[2] == tops[3]
        for task, target in write_page.EXAMPLES["task"].items():
            assert target in page.inner_text(f"#task label:has([value={task}])")


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """A repository of the template with a version, and the page of that."""
    hub = Hub(tmp_path_factory.mktemp("release"), {"v0.1.0": as_it_is})
    page = hub.directory / "index.html"
    page.write_text(write_page.page(str(hub.work), "v0.1.0"), encoding="utf-8")
    return page


def run_as_typed(command, directory):
    """Runs it as whoever copies it would, but for the tools' being those of this clone."""
    words = shlex.split(command)
    directory.mkdir()
    module, first = ("torch_tricks", 1) if words[0] == "torch-tricks" else ("copier", 2)
    result = python("-m", module, *words[first:], cwd=directory)
    assert result.returncode == 0, result.stderr


CHOICES = [
    ("custom", "ddp", ["folders", "seeding", "ema", "amp", "sync_bn"]),
    ("custom", "none", []),
    ("custom", "dp", ["swa"]),
    ("custom", "none", RECOMMENDED),
    ("recommended", "none", []),
    ("minimal", "none", []),
    ("everything", "dp", []),
]


@needs_chromium
@pytest.mark.parametrize(("preset", "parallel", "tricks"), few_of(CHOICES, 0))
def test_zip_and_commands_give_the_same_project(
    show, release, tmp_path, preset, parallel, tricks
):
    fragment = f"#name=-Wheat+1.5&preset={preset}&parallel={parallel}"
    if preset == "custom":
        fragment += f"&tricks={','.join(tricks)}"
    page = show(release, fragment)
    with page.expect_download() as download:
        page.click("#download")
    assert download.value.suggested_filename == "wheat-1-5.zip"
    with zipfile.ZipFile(download.value.path()) as archive:
        assert archive.testzip() is None
        assert {entry.external_attr >> 16 for entry in archive.infolist()} == {0o100644}
        archive.extractall(tmp_path)
    unpacked = tmp_path / "wheat-1-5"
    for command in ("ours", "theirs"):
        directory = tmp_path / command
        run_as_typed(page.inner_text(f"#{command}"), directory)
        assert contents(directory / "wheat-1-5") == contents(unpacked)
    git(tmp_path, "init", "--quiet", str(unpacked))
    commit(unpacked)
    found = json.loads(run("status", "--json", "--project", unpacked))
    assert found["version"] == "v0.1.0"
    assert found["edited"] == []


@needs_chromium
def test_a_page_of_the_handbook_opens_beside_the_code(show, written):
    page = show(written)
    page.focus("#tricks [data-page=augmentation]")
    page.keyboard.press("Enter")
    heading = page.locator("#page h2 >> nth=0")
    assert heading.inner_text() == "Automatic augmentation"
    code = page.locator("#page details pre .k").first
    assert not code.is_visible()
    page.click("#page summary")
    assert code.inner_text() == "def"
    page.click("[data-file='leaf_diseases/task.py']")
    assert page.inner_text("#path") == "leaf_diseases/task.py"
    assert page.locator("#lines").is_visible()
    assert page.is_visible("#page")
    shared = page.url
    page.click("#page [data-page=seeding]")
    assert heading.inner_text() == "Seeding"
    page.keyboard.press("Escape")
    assert not page.locator("#handbook").is_visible()
    assert page.evaluate("document.activeElement.dataset.page") == "seeding"
    page.go_back()
    page.go_back()
    assert page.url == shared
    assert heading.inner_text() == "Automatic augmentation"
    assert (
        show(shared).locator("#page h2 >> nth=0").inner_text()
        == "Automatic augmentation"
    )


@pytest.mark.proof
@needs_chromium
def test_on_a_phone_a_page_of_the_handbook_can_be_left(show, written):
    page = show(written)
    page.set_viewport_size(PHONE)
    tab = "[data-tab=tricks]"
    for leave in (lambda: page.click("#close"), page.go_back, lambda: page.click(tab)):
        page.click("#tricks [data-page=swa]")
        assert page.locator("#page h2 >> nth=0").is_visible()
        assert not page.locator("#tricks").is_visible()
        leave()
        assert page.locator("#tricks").is_visible()
        assert "page=" not in page.url


@pytest.mark.proof
@needs_chromium
def test_links_of_the_handbook_lead_to_pages_of_the_site(show, written):
    with served(written.parent) as address:
        page = show(f"{address}index.html")
        page.click("#tricks [data-page=swa]")
        assert page.locator("#elsewhere").get_attribute("href") == "../tricks/swa/"
    docs = ROOT / "docs"
    pages = {
        path.relative_to(docs).with_suffix("").as_posix()
        for folder in (".", "guides", "tasks")
        for path in docs.glob(f"{folder}/*.md")
    }
    tricks = {trick.name for trick in TRICKS}
    for trick in tricks:
        html = write_page.handbook_page(trick)
        assert set(re.findall(r'data-page="(.*?)"', html)) <= tricks
        assert set(re.findall(r'href="\.\./([\w/-]+)/', html)) <= pages
        links = re.findall('href="(.*?)"', html)
        assert all(link.startswith(("https://", "../")) for link in links)


@pytest.mark.parametrize(
    "line",
    [
        "{{ project_name | upper }}",
        "{{ preset }}",
        "{{author}}",
        "{# nothing #}",
        '{% if "unheard_of" in chosen %}',
        "{% if preset %}",
        '{% if parallel[0] == "d" %}',
    ],
)
def test_what_the_page_does_not_know_is_named_with_its_place(line, tmp_path):
    (tmp_path / "notes.txt.jinja").write_text(f"a\n{line}\n", encoding="utf-8")
    if line.startswith("{%"):
        with (tmp_path / "notes.txt.jinja").open("a") as notes:
            notes.write("b\n{% endif %}\n")
    with pytest.raises(UnknownConstruct, match=r"^notes\.txt\.jinja:[23]: "):
        write_page.read(
            read_template(files_in(tmp_path), own_questions()), own_questions()
        )


def test_nothing_in_the_data_ends_its_script():
    assert "<" not in write_page.embedded({"a": "</script><!--"})


def test_the_command_writes_the_page(tmp_path):
    path = tmp_path / "site" / "index.html"
    assert str(path) in call(sys.executable, ROOT / "tools" / "write_page.py", path)
    assert "@@" not in path.read_text(encoding="utf-8").partition("<script>")[0]
