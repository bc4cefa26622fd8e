"""Real browsers, and a server for what they show."""

import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from machines import free_port, is_free
from slurm import wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium: make chromium installs it"
)
FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
needs_firefox = pytest.mark.skipif(FIREFOX is None, reason="there is no Firefox")


class Firefox:
    """A page in Firefox, by the protocol that Firefox itself speaks.

    https://firefox-source-docs.mozilla.org/testing/marionette/Protocol.html
    """

    def __init__(self, connection: socket.socket) -> None:
        self.stream = connection.makefile("rwb")
        self.receive()
        self.send("WebDriver:NewSession")

    def receive(self) -> Any:
        """Returns the next message: its length, a colon and JSON."""
        digits = b""
        while (character := self.stream.read(1)) != b":":
            digits += character
        return json.loads(self.stream.read(int(digits)))

    def send(self, command: str, **parameters: object) -> Any:
        """Sends a command, and returns its result."""
        message = json.dumps([0, 1, command, parameters]).encode()
        self.stream.write(b"%d:%b" % (len(message), message))
        self.stream.flush()
        _, _, error, result = self.receive()
        assert error is None, error
        return result

    def evaluate(self, function: str, argument: object) -> Any:
        """Returns what an asynchronous function of the page's own scripts resolves to."""
        call = f"({function})({json.dumps(argument)})"
        ready = "(found) => (document.body.dataset.found = JSON.stringify(found))"
        add = (
            "const script = document.createElement('script');"
            "script.textContent = arguments[0]; document.body.append(script);"
        )
        self.send("WebDriver:ExecuteScript", script=add, args=[f"{call}.then({ready})"])
        read = "return document.body.dataset.found ?? null;"

        def found() -> str | None:
            return self.send("WebDriver:ExecuteScript", script=read, args=[])["value"]

        wait_until(found, 60)
        return json.loads(found())


@contextmanager
def firefox(address: str, profile: Path) -> Iterator[Firefox]:
    """Opens an address in Firefox, without a window.

    Args:
        profile: a directory for its files.
    """
    port = free_port()
    profile.mkdir()
    settings = f'user_pref("marionette.port", {port});\n'
    (profile / "user.js").write_text(settings, encoding="utf-8")
    options = ("--headless", "--no-remote", "--marionette", "--profile", profile)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    browser = subprocess.Popen([FIREFOX, *options], **quiet)
    try:
        wait_until(lambda: not is_free(port), 60)
        with socket.create_connection(("127.0.0.1", port)) as connection:
            page = Firefox(connection)
            page.send("WebDriver:Navigate", url=address)
            yield page
    finally:
        browser.terminate()
        browser.wait(30)


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """The browser's requests are no part of a test's output."""


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """Serves a directory, and yields its address, which ends with a slash."""
    handler = partial(QuietHandler, directory=directory)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
