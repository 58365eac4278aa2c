"""Why connections of the service's host are not faster, in a real browser."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from .devtools import Browser
from .pages import AXE, Serve, axe_faults, fill

FIELD = "A program (curl), a process (4711), or an end (:443, 192.0.2.1, HOST:PORT)"


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_connections_of_the_host_are_explained_live(
    serve: Serve, browser: Browser, shots: Path | None, width: int, dark: bool
) -> None:
    one = serve("--allow-watch")
    page = browser.session()
    page.look(width=width, height=844 if width < 600 else 800, dark=dark)
    page.open(f"{one.url}#/why")
    page.wait_for("document.querySelector('nav [aria-current]')?.innerText === 'Why slow'")
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as opened:
        port = listener.getsockname()[1]
        sender = opened.enter_context(socket.create_connection(listener.getsockname()))
        reader = opened.enter_context(listener.accept()[0])
        threads = [
            threading.Thread(target=run, args=(end,))
            for run, end in ((read_slowly, reader), (send_all, sender))
        ]
        for thread in threads:
            thread.start()
        fill(page, FIELD, f":{port}")
        page.click("form.form button.primary")
        said = page.wait_for(
            f"document.querySelector('h1')?.innerText.includes(':{port}')"
            " && document.querySelector('details summary') && document.querySelector('h1').innerText"
        )
        assert "of the time" in said
        assert page.evaluate("location.hash") == f"#/why/%3A{port}"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.screenshot(shots, f"why-{width}-{'dark' if dark else 'light'}")
        if AXE:
            assert axe_faults(page) == []
        for end in (sender, reader):
            end.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
    page.wait_for("document.querySelector('form.form [role=status]').innerText === 'Over.'")
    assert one.end()[0] == 0


def test_the_same_is_watched_again_on_request(serve: Serve, browser: Browser) -> None:
    page = browser.session()
    page.open(f"{serve('--allow-watch').url}#/why/no-such-program")
    status = "document.querySelector('form.form [role=status]')?.innerText"
    for _ in range(2):
        page.wait_for(f"{status}?.startsWith('Waiting for connections of no-such-program')")
        page.click("form.form button[type=button]")
        page.wait_for(f"{status} === 'Over.'")
        page.click("form.form button.primary")
    page.wait_for(f"{status}?.startsWith('Waiting for connections')")


def test_what_cannot_be_watched_is_told(serve: Serve, browser: Browser) -> None:
    page = browser.session()
    page.open(f"{serve('--allow-watch').url}#/why/two%20words")
    page.wait_for("document.querySelector('[role=alert]')?.innerText.includes('names no connections')")
    page.open(f"{serve().url}#/why/curl")
    page.wait_for("document.querySelector('h1')?.innerText === 'There is no such page'")


def read_slowly(reader: socket.socket) -> None:
    with suppress(OSError):
        while reader.recv(4096):
            time.sleep(0.05)


def send_all(sender: socket.socket) -> None:
    with suppress(OSError):
        while True:
            sender.sendall(bytes(65_536))
