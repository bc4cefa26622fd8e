"""The task, a question with choices that is no trick: files and lines may ask for it.

It is asked in each preset, and some tricks do not go with each of its choices.
"""

import json
import shutil

import pytest
import write_page
import yaml
from browsing import needs_chromium
from covering import FORMS, TASK
from rendering import render_version
from subsets import ROOT, TASKS, TRICKS, Subset
from torch_tricks import conditions, preview
from torch_tricks.catalogue import (
    choice_questions,
    own_catalogue,
    own_questions,
    read_catalogue,
)
from torch_tricks.errors import Refusal
from torch_tricks.reporting import describe

FILES = {
    '{% if task == "regression" %}numbers.md{% endif %}.jinja': (
        '{% if "swa" in chosen %}\nof {{ package_name }}\n{% else %}\nplain\n{% endif %}\n'
    ),
    '{% if task in ("multilabel", "regression") %}targets.txt{% endif %}': "targets\n",
    "both.txt.jinja": (
        '{% if task == "classification" and parallel != "none" %}\nboth\n'
        '{% elif task != "classification" or "ema" in chosen %}\nother\n{% endif %}\nend\n'
    ),
}
"""Files and lines that ask for the task in all ways that a template may."""


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """The template and these files, outside of git."""
    folder = tmp_path_factory.mktemp("tasks")
    shutil.copytree(ROOT / "template", folder / "template")
    shutil.copy(ROOT / "copier.yml", folder)
    for name, text in FILES.items():
        (folder / "template" / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def version(template):
    files = conditions.files_in(template / "template")
    return preview.Version(own_questions(), files, "")


ANSWERS = [
    {"preset": "recommended", TASK: "classification"},
    {"preset": "minimal", TASK: "multilabel"},
    {"preset": "everything", TASK: "regression"},
    Subset.of(task="regression").answers,
    Subset.of("ema", task="segmentation").answers,
    Subset.of("swa", "ema", parallel="fsdp").answers,
]
"""Each branch of the conditions above, and each task."""
NAMES = {"project_name": "Leaf Diseases", "package_name": "leaf_diseases"}


def texts(project):
    """The files of a project, less where the template of the answers is and its version."""
    found = {
        path.relative_to(project).as_posix(): path.read_text(encoding="utf-8")
        for path in project.rglob("*")
        if path.is_file()
    }
    answers = yaml.safe_load(found.pop(".copier-answers.yml"))
    del answers["_src_path"]
    answers.pop("_commit", None)
    return found, answers


@pytest.mark.parametrize("answers", ANSWERS, ids=lambda answers: json.dumps(answers))
def test_a_project_equals_that_of_copier(template, version, tmp_path, answers):
    expected = texts(render_version(template, tmp_path / "copier", answers))
    given = preview.with_defaults(version, tmp_path, NAMES | answers)
    assert preview.render(version, str(template), tmp_path / "quick", given)
    assert texts(tmp_path / "quick") == expected
    assert expected[1][TASK] == answers[TASK]
    assert ("numbers.md" in expected[0]) == (answers[TASK] == "regression")


def test_the_default_is_copiers(version, tmp_path):
    given = preview.with_defaults(version, tmp_path, NAMES)
    assert given[TASK] == "classification"
    assert preview.complete(version, given | {TASK: "detection"}) is None
    del given[TASK]
    assert preview.complete(version, given) is None


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
    assert questions.changed(answers, ["swa"], [])["tricks"] == ["swa"]
    assert questions.read_data([f"task={task}"]) == {TASK: task}


def test_a_task_that_does_not_exist_is_refused(version):
    answers = {"preset": "custom", FORMS: "none", "tricks": []}
    with pytest.raises(
        Refusal, match=r'^no choice of task is called "clasification"; '
    ):
        version.questions.check(answers | {TASK: "clasification"})


@pytest.fixture
def page(browser, template, version, tmp_path, monkeypatch):
    """The page of the template."""
    monkeypatch.setattr(write_page, "own_template", lambda: version.template)
    path = tmp_path / "index.html"
    path.write_text(write_page.page(str(template), ""), encoding="utf-8")
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.set_default_timeout(30_000)
    errors = []
    page.on("pageerror", lambda error: errors.append(error))
    page.goto(path.as_uri())
    yield page
    context.close()
    assert errors == []


RENDERED = """(states) => states.map((state) =>
    Object.fromEntries([...render(data, state).files].map(([path, file]) => [path, textOf(file)])))"""


@needs_chromium
def test_the_page_renders_it(page, template, version, tmp_path):
    whole = []
    for answers in ANSWERS:
        given = preview.with_defaults(version, tmp_path, NAMES | answers)
        whole.append(preview.complete(version, given))
    states = [
        {name: answers[name] for name in ("preset", TASK, FORMS, "tricks")}
        | {"name": "Leaf Diseases"}
        for answers in whole
    ]
    for place, (answers, found) in enumerate(
        zip(ANSWERS, page.evaluate(RENDERED, states), strict=True)
    ):
        project = render_version(template, tmp_path / str(place), answers)
        expected, recorded = texts(project)
        ours = yaml.safe_load(found.pop(".copier-answers.yml"))
        assert found == expected, answers
        assert ours == ours | recorded
        assert ours.keys() - recorded.keys() == {"_src_path", "_commit"}


@needs_chromium
def test_the_page_asks_for_it_before_the_preset(page):
    assert page.is_checked("#task [value=classification]")
    above = "element('task').compareDocumentPosition(element('presets')) & 4"
    assert page.evaluate(above)
    assert "--task" not in page.inner_text("#ours")
    assert "task=" not in page.inner_text("#theirs")


@needs_chromium
def test_the_page_follows_it(page):
    for task in TASKS[1:]:
        works = {t.name: t.works_with[TASK] for t in TRICKS if not t.works(TASK, task)}
        others = [*works]
        page.click("#presets label:has([value=recommended])")
        page.click(f"#task label:has([value={task}])")
        assert page.evaluate("state.preset") == "recommended"
        made = page.evaluate("project.files.has('numbers.md')")
        assert made == (task == "regression")
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


@needs_chromium
def test_the_page_leaves_out_what_a_task_does_not_go_with(page):
    page.check("#t-mixup")
    ticked = page.evaluate("state.tricks")
    for task in TASKS[1:]:
        page.click(f"#task label:has([value={task}])")
        bound = [trick.name for trick in TRICKS if not trick.works(TASK, task)]
        left = [name for name in ticked if name in bound]
        assert page.evaluate("state.tricks") == [n for n in ticked if n not in left]
        if left:
            assert ", ".join(left) in page.inner_text("#task .left")
        page.click("#task label:has([value=classification])")
        assert page.evaluate("state.tricks") == ticked


def test_templates_of_before_had_one_question_with_choices():
    """Projects are updated from them."""
    before = dict(own_questions())
    del before["choice_questions"]
    assert choice_questions(before) == {FORMS: "forms"}
    rows = read_catalogue(before)
    for name, trick in own_catalogue().items():
        forms = {key: some for key, some in trick.works_with.items() if key == FORMS}
        assert rows[name].works_with == forms
