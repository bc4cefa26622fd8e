import os

import pytest
from browsing import CHROMIUM
from playwright.sync_api import sync_playwright


@pytest.fixture(scope="module")
def browser():
    # Chromium's sandbox does not start for root.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()
