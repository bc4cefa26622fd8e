"""A real TensorBoard shows, in a real browser, what projects have written for it."""

import json
import re
import subprocess
import sys

import pytest
from browsing import needs_chromium
from playwright.sync_api import expect
from rendering import render
from subsets import Subset

pytestmark = [needs_chromium, pytest.mark.proof]

FLAGS = (
    *("--device", "cpu", "--num-workers", 0, "--image-size", 8, "--batch-size", 4),
    *("--epochs", 2, "--log-every", 2, "--checkpoint-every", 3),
    *("--keep-checkpoints", 9),
)
RATES = {"first": 0.003, "second": 0.01}
"""The learning rate of each run."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory, zygote, folder):
    """Two runs, of which the first was killed in its second epoch."""
    tricks = ("seeding", "resume", "grad_clipping", "tensorboard")
    project = render(tmp_path_factory.mktemp("project"), Subset.of(*tricks).answers)

    def train(name, *more):
        data = ("--data", "mnist", "--data-dir", folder)
        run = ("--run-dir", f"runs/{name}", "--lr", RATES[name])
        arguments = (*data, *run, *FLAGS, *more)
        result = zygote.run(project, "train.py", *arguments)
        assert result.returncode == 0, result.stderr

    for name in RATES:
        train(name)
    checkpoint = project / "runs" / "first" / "checkpoints" / "step-00000009.pt"
    train("first", "--resume", checkpoint)
    return project / "runs"


@pytest.fixture(scope="module")
def address(runs):
    """The address of a server that shows the runs."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", runs]
    options = ["--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(
        command + options, stderr=subprocess.PIPE, encoding="utf-8"
    ) as server:
        said = ""
        while not (found := re.search(r"http://\S+/", said)):
            line = server.stderr.readline()
            assert line, said
            said += line
        yield found[0]
        server.terminate()


@pytest.fixture
def page(browser):
    # So high that all cards are in sight: the others are not drawn.
    page = browser.new_page(viewport={"width": 1400, "height": 9000})
    yield page
    page.close()


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_it_shows_curves_images_and_histograms(runs, address, page):
    page.goto(f"{address}#timeseries")
    # The first two groups, which are accuracy and loss, are open.
    for group in ("lr", "steps", "training", "weights"):
        page.get_by_role("button", name="Expand group").filter(has_text=group).click()

    def cards(kind, tag):
        return page.locator(kind, has=page.locator(f"[title='{tag}']"))

    last = read_lines(runs / "second" / "metrics.jsonl")[-1]
    for tag, name in (
        ("loss/train", "train_loss"),
        ("loss/val", "val_loss"),
        ("accuracy/val", "val_accuracy"),
        ("training/gradient_norm", "gradient_norm"),
    ):
        table = cards("scalar-card", tag)
        expect(table).to_contain_text("first")
        expect(table).to_contain_text(f"{round(last[name], 4):g}")
    for tag in ("lr/0", "steps/train_loss", "training/samples_per_second"):
        expect(cards("scalar-card", tag)).to_contain_text("second")
    for run in range(len(RATES)):
        image = cards("image-card", "training/images").nth(run).locator("img")
        # Four in a row and a column, of 8 pixels, with two around each.
        expect(image).to_have_js_property("naturalWidth", 4 * (8 + 2) + 2)
        histogram = cards("histogram-card", "weights/classifier.weight").nth(run)
        expect(histogram.locator("g.histogram")).to_have_count(2)


def test_it_shows_first_what_differs_between_runs(address, page):
    page.goto(f"{address}#hparams")
    settings = page.get_by_role("main").get_by_role("checkbox")
    expect(settings.first).to_have_accessible_name("lr")
    for rate in RATES.values():
        cells = page.get_by_text(re.compile(rf"^\s*{rate}0*\s*$"))
        expect(cells.locator("visible=true").first).to_be_visible()


def test_it_shows_a_resumed_run_as_an_unbroken_one(runs, address, page):
    for file, entry, tag in (
        ("steps", "train_loss", "steps/train_loss"),
        ("metrics", "train_loss", "loss/train"),
        ("metrics", "val_loss", "loss/val"),
    ):
        which = f"run=first&tag={tag}"
        response = page.request.get(f"{address}data/plugin/scalars/scalars?{which}")
        shown = {step: value for _, step, value in response.json()}
        lines = read_lines(runs / "first" / f"{file}.jsonl")
        logged = {line["step"]: line[entry] for line in lines}
        assert shown == pytest.approx(logged)
        assert len(response.json()) == len(logged)
