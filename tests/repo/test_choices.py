"""The task, a question with choices that is no trick.

It is asked in each preset, and some tricks do not go with each of its choices.
"""

from itertools import combinations, groupby, product
from operator import itemgetter
from random import Random

import pytest
from browsing import needs_chromium
from covering import FORMS, TASK
from subsets import TASKS, TRICKS
from torch_tricks import preview
from torch_tricks.catalogue import (
    choice_questions,
    own_catalogue,
    own_questions,
    read_catalogue,
)
from torch_tricks.errors import Refusal
from torch_tricks.preview import own_version
from torch_tricks.reporting import describe


@pytest.fixture
def version():
    return own_version()


def test_the_default_is_copiers(version, tmp_path):
    names = {"project_name": "Leaf Diseases", "package_name": "leaf_diseases"}
    answers = preview.complete(version, names, new=tmp_path)
    assert answers[TASK] == "classification"
    given = {
        name: answers[name] for name in version.questions.asked if name != "tricks"
    }
    del given[FORMS]
    with pytest.raises(Refusal, match="captioning"):
        preview.complete(version, given | {TASK: "captioning"})
    with pytest.raises(Refusal, match="task has no answer"):
        preview.complete(version, names)


@pytest.mark.parametrize("task", TASKS)
def test_tricks_are_refused_for_other_tasks(version, task):
    questions = version.questions
    answers = {"preset": "custom", TASK: task, FORMS: "none", "tricks": []}
    for trick in TRICKS:
        if trick.works(TASK, task):
            continue
        assert " tasks: " in describe(trick, questions.tricks)
        needed = " or ".join(f"task={one}" for one in trick.works_with[TASK])
        remedy = f"leave it out, or make a project with {needed}"
        refused = f"^{trick.name} is not for task={task}: {remedy}$"
        with pytest.raises(Refusal, match=refused):
            questions.changed(answers, [trick.name], [])
    assert questions.changed(answers, ["ema"], [])["tricks"] == ["ema"]
    assert questions.read_data([f"task={task}"]) == {TASK: task}


@pytest.fixture
def page(show, written):
    return show(written)


@needs_chromium
def test_the_page_asks_for_it_before_the_preset(page):
    assert page.is_checked("#task [value=classification]")
    above = "element('task').compareDocumentPosition(element('presets')) & 4"
    assert page.evaluate(above)
    assert "--task" not in page.inner_text("#ours")
    assert "task=" not in page.inner_text("#theirs")


def lists():
    """Yields answers and tricks, and whether the command line refuses them.

    They are every pair of tricks with each task and form, and random lists.
    """
    questions, random = own_version().questions, Random(0)
    names = questions.listable
    for task, form in product(*(questions.choices[q] for q in (TASK, FORMS))):
        given = {TASK: task, FORMS: form}
        longer = (random.sample(names, random.randrange(20)) for _ in range(50))
        for tricks in (*map(list, combinations(names, 2)), *longer):
            try:
                questions.check({**given, "tricks": tricks})
                yield given, tricks, False
            except Refusal:
                yield given, tricks, True


def test_copier_refuses_what_the_command_line_refuses(version):
    known = {"preset": "custom"}
    for name in ("choice_questions", "catalogue"):
        known[name] = version.raw[name]["default"]
    verdicts = set()
    for given, cases in groupby(lists(), key=itemgetter(0)):
        known |= {**given, "choice_answers": given}
        barred = version.default("refusals", known)
        for _, tricks, refused in cases:
            fault = version.fault("tricks", known | {"tricks": tricks})
            by_copier = bool(fault or {*barred} & {*tricks})
            assert by_copier == refused, (tricks, given)
            verdicts.add(by_copier)
    assert verdicts == {True, False}


@needs_chromium
def test_the_page_refuses_what_the_command_line_refuses(page):
    cases = [*lists()]
    found = page.evaluate(
        """(cases) => cases.map(([answers, tricks]) => tricks.some((name) =>
            obstacle(name, {...answers, tricks: tricks.filter((one) => one !== name)})))""",
        cases,
    )
    wrong = [case for case, one in zip(cases, found, strict=True) if case[2] != one]
    assert wrong == []
    assert {*found} == {True, False}


@needs_chromium
def test_the_page_follows_it(page):
    for task in TASKS[1:]:
        works = {t.name: t.works_with[TASK] for t in TRICKS if not t.works(TASK, task)}
        others = [*works]
        page.click("#presets label:has([value=recommended])")
        page.click(f"#task label:has([value={task}])")
        assert page.evaluate("state.preset") == "recommended"
        for name in others:
            box = page.locator(f"#t-{name}")
            assert box.get_attribute("aria-disabled") == "true"
            assert not box.is_checked()
            said = f"not for {task}, only for {works[name][0]}"
            assert said in page.inner_text(f"#w-{name}")
        assert f"--task {task}" in page.inner_text("#ours")
        assert f"-d task={task}" in page.inner_text("#theirs")
        page.click("#presets label:has([value=everything])")
        assert page.evaluate("state.task") == task
        before = page.evaluate("state.tricks")
        assert not {*others} & {*before}
        page.reload()
        assert page.is_checked(f"#task [value={task}]")
        assert page.evaluate("state.tricks") == before


def test_templates_of_before_had_one_question_with_choices():
    """Projects are updated from them."""
    before = dict(own_questions())
    del before["choice_questions"]
    assert choice_questions(before) == {FORMS: "forms"}
    rows = read_catalogue(before)
    for name, trick in own_catalogue().items():
        forms = {key: some for key, some in trick.works_with.items() if key == FORMS}
        assert rows[name].works_with == forms
