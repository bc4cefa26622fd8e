"""Real browsers, and a server for what they show."""

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium: make chromium installs it"
)
FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
needs_firefox = pytest.mark.skipif(FIREFOX is None, reason="there is no Firefox")


class Handler(SimpleHTTPRequestHandler):
    """Serves files, without notes about it, and keeps what a page sends."""

    received: Queue[bytes] = Queue()

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        self.received.put(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """Serves a directory, and yields its address, which ends with a slash."""
    handler = partial(Handler, directory=directory)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def in_firefox(page: Path, directory: Path, function: str, argument: object) -> Any:
    """Returns the result of an asynchronous function among the scripts of a page.

    Args:
        directory: a new one for Firefox's files, and for the page with a script that sends it.
    """
    (directory / "profile").mkdir(parents=True)
    send = "(found) => fetch('', { method: 'POST', body: JSON.stringify(found) })"
    script = f"<script>({function})({json.dumps(argument)}).then({send})</script>"
    text = page.read_text(encoding="utf-8")
    # The page itself may ask nobody.
    text = text.replace("default-src 'none'", "connect-src 'self'", 1) + script
    (directory / "index.html").write_text(text, encoding="utf-8")
    options = ("--headless", "--no-remote", "--profile", directory / "profile")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with served(directory) as address:
        browser = subprocess.Popen([FIREFOX, *options, address], **quiet)
        try:
            return json.loads(Handler.received.get(timeout=120))
        finally:
            browser.terminate()
            browser.wait(30)
