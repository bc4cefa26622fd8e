"""Chromium, and the page on which tricks are picked."""

import os

import pytest
import write_page
from browsing import CHROMIUM
from playwright.sync_api import sync_playwright
from torch_tricks.template import PUBLISHED


@pytest.fixture(scope="module")
def browser():
    # Chromium's sandbox does not start for root.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """The page of this template, as of a release."""
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(write_page.page(PUBLISHED, "v0.1.0"), encoding="utf-8")
    return path


@pytest.fixture
def show(browser):
    """Returns a function that opens a page; whatever it asks for besides itself fails."""
    asked, errors = [], []
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.on("request", lambda request: asked.append(request.url.partition("#")[0]))
    page = context.new_page()
    page.set_default_timeout(30_000)
    page.on("pageerror", lambda error: errors.append(error))
    opened = set()

    def open_page(path, fragment=""):
        address = path if isinstance(path, str) else path.as_uri()
        opened.add(address)
        page.goto("about:blank")
        page.goto(address + fragment)
        return page

    yield open_page
    context.close()
    assert {url for url in asked if not url.startswith("blob:")} <= opened
    assert errors == []
