"""A second question with choices: the template of this file asks for the task of a project.

It is asked in each preset, is no trick, and some tricks do not go with each of its choices.
"""

import json
import shutil
from itertools import product

import pytest
import write_page
import yaml
from browsing import needs_chromium
from covering import Space
from rendering import render_version
from subsets import ROOT, Subset, with_levels
from test_arrays import check_array
from torch_tricks import conditions, preview
from torch_tricks.catalogue import (
    choice_questions,
    own_catalogue,
    own_questions,
    parse_questions,
    read_catalogue,
)
from torch_tricks.errors import Refusal
from torch_tricks.reporting import describe

TASKS = ("classification", "multilabel", "regression")
BOUND = {"mixup": ["classification", "multilabel"], "metrics": ["classification"]}
FILES = {
    '{% if task == "regression" %}numbers.md{% endif %}.jinja': (
        '{% if "swa" in chosen %}\nof {{ package_name }}\n{% else %}\nplain\n{% endif %}\n'
    ),
    '{% if task in ("multilabel", "regression") %}targets.txt{% endif %}': "targets\n",
    "both.txt.jinja": (
        '{% if has_classes and parallel != "none" %}\nboth\n'
        '{% elif task == "regression" or "ema" in chosen %}\nother\n{% endif %}\nend\n'
    ),
}


def with_tasks(questions):
    """Returns questions as a template with tasks would ask them."""
    computed = questions["distributed"]
    words = {f"{task}: a kind of targets": task for task in TASKS}
    asked = {"type": "str", "choices": words, "default": TASKS[0]}
    classes = "{{ task in ('classification', 'multilabel') }}"
    result = {}
    for name, question in questions.items():
        if name == "preset":
            result |= {"task": asked, "has_classes": computed | {"default": classes}}
        result[name] = question
    result["choice_questions"]["default"]["task"] = "tasks"
    for name, tasks in BOUND.items():
        result["catalogue"]["default"][name]["tasks"] = tasks
    other = "task not in row.get('tasks', [task])"
    for name, entry, after, text in (
        (
            "preset_tricks",
            "default",
            'parallel not in row.get("forms")',
            f" or {other}",
        ),
        (
            "tricks",
            "choices",
            'join(" or ") }}\n',
            f"{{% elif {other} %}}\n  validator: not for this task\n",
        ),
    ):
        assert result[name][entry].count(after) == 1
        result[name][entry] = result[name][entry].replace(after, after + text)
    return result


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A template with tasks, which lies outside of git."""
    folder = tmp_path_factory.mktemp("tasks")
    shutil.copytree(ROOT / "template", folder / "template")
    for name, text in FILES.items():
        (folder / "template" / name).write_text(text, encoding="utf-8")
    questions = with_tasks(parse_questions((ROOT / "copier.yml").read_bytes()))
    text = yaml.safe_dump(questions, sort_keys=False, allow_unicode=True)
    (folder / "copier.yml").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def version(template):
    raw = parse_questions((template / "copier.yml").read_bytes())
    return preview.Version(raw, conditions.files_in(template / "template"), "")


PRESETS = [
    {"preset": preset, "task": task}
    for preset, task in product(("minimal", "recommended", "everything"), TASKS)
]
CUSTOM = [
    Subset.of("swa", "ema", parallel=form).answers | {"task": task}
    for form, task in product(("none", "dp", "fsdp"), TASKS)
]
CUSTOM += [Subset.of("mixup", "metrics").answers | {"task": TASKS[0]}]
ANSWERS = [*PRESETS, *CUSTOM]
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
    assert expected[1]["task"] == answers["task"]
    assert ("numbers.md" in expected[0]) == (answers["task"] == "regression")


def test_the_default_is_copiers(version, tmp_path):
    given = preview.with_defaults(version, tmp_path, NAMES)
    assert given["task"] == "classification"
    assert preview.complete(version, given | {"task": "segmentation"}) is None
    assert (
        preview.complete(version, {n: v for n, v in given.items() if n != "task"})
        is None
    )


def test_tricks_are_refused_for_other_tasks(version):
    questions = version.questions
    answers = {"preset": "custom", "parallel": "none", "tricks": []}
    numbers = answers | {"task": "regression"}
    needed = "task=classification or task=multilabel"
    with pytest.raises(Refusal, match=f"^mixup needs {needed}: take that too$"):
        questions.changed(numbers, ["mixup"], [])
    assert (
        "mixup"
        in questions.changed(answers | {"task": "multilabel"}, ["mixup"], [])["tricks"]
    )
    with pytest.raises(Refusal, match=r'^no choice of task is called "regresion"; did'):
        questions.check(answers | {"task": "regresion"})
    assert questions.read_data(["task=regression"]) == {"task": "regression"}
    assert f"only with: {needed}" in describe(
        questions.tricks["mixup"], questions.tricks
    )


@pytest.mark.parametrize("strength", [2, 3])
def test_arrays_cover_it(version, strength):
    names = ("parallel", "sync_bn", "compile", "swa", *BOUND)
    rows = [version.questions.tricks[name] for name in names]
    tricks = with_levels(rows, {"task": TASKS})
    array = Space(tricks).covering_array(strength, seed=0)
    check_array(tricks, array, strength)
    assert {row[0] for row in array} == {*TASKS}


@pytest.fixture
def page(browser, template, version, tmp_path, monkeypatch):
    """The page of the template."""
    monkeypatch.setattr(write_page, "own_questions", lambda: version.raw)
    monkeypatch.setattr(write_page, "own_template", lambda: version.template)
    path = tmp_path / "index.html"
    path.write_text(write_page.page(str(template), ""), encoding="utf-8")
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.set_default_timeout(5000)
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
        {name: answers[name] for name in ("preset", "task", "parallel", "tricks")}
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
def test_the_page_asks_for_it(page):
    page.click("#task label:has([value=regression])")
    assert page.evaluate("state.preset") == "recommended"
    assert page.is_checked("#task [value=regression]")
    assert "numbers.md" in page.inner_text("#tree")
    assert (
        page.inner_text("#w-mixup") == "needs task to be classification or multilabel"
    )
    assert "--data task=regression" in page.inner_text("#ours")
    assert "-d task=regression" in page.inner_text("#theirs")
    page.click("#presets label:has([value=everything])")
    assert page.evaluate("state.task") == "regression"
    assert "mixup" not in page.evaluate("state.tricks")
    page.reload()
    assert page.is_checked("#task [value=regression]")
    page.click("#task label:has([value=classification])")
    page.check("#t-mixup")
    page.locator("#task label", has_text="regression").click(force=True)
    assert page.is_checked("#task [value=classification]")
    assert "regression does not go with mixup" in page.inner_text("#task-note")


def test_templates_of_before_had_one_question_with_choices():
    """Projects are updated from them."""
    before = dict(own_questions())
    del before["choice_questions"]
    assert choice_questions(before) == {"parallel": "forms"}
    assert read_catalogue(before) == own_catalogue()
