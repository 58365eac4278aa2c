"""The page's bundle is committed, so that nobody needs Node; it must be made of the sources beside it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from fastapi.testclient import TestClient

from weirlab.report import palette
from weirlab.transfers.trace.page import story
from weirlab.web.service import STATIC

ROOT = Path(__file__).resolve().parents[3]
SOURCES = (
    "index.html",
    "package-lock.json",
    "package.json",
    "public",
    "src",
    "tsconfig.json",
    "vite.config.ts",
)
"""As in webui/vite.config.ts."""


def digest() -> str:
    webui = ROOT / "webui"
    files = [
        path
        for name in SOURCES
        for path in ([webui / name] if "." in name else (webui / name).rglob("*"))
        if path.is_file()
    ]
    total = hashlib.sha256()
    for name, path in sorted((str(path.relative_to(webui)), path) for path in files):
        content = path.read_bytes()
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def test_the_bundle_was_made_of_these_sources() -> None:
    made_of = (STATIC / "SOURCES.sha256").read_text().strip()
    assert made_of == digest(), "webui has changed: make webui builds the bundle anew"


def test_the_bundle_loads_nothing_from_elsewhere() -> None:
    for path in (STATIC / "index.html", *STATIC.glob("*.css")):
        assert not re.search(r"(?:src|href|url)\s*[=(]\s*[\"']?(?:https?:)?//", path.read_text()), path


def test_no_part_of_one_version_can_be_taken_for_that_of_another(client: TestClient) -> None:
    """Their names have the hash of their content, also where parts and the page load each other."""
    parts = {path.name for path in STATIC.iterdir() if path.suffix in (".js", ".css")}
    assert len(parts) > 5
    assert {name for name in parts if not re.fullmatch(r"\w+-[\w-]{8}\.(js|css)", name)} == set()
    texts = [path.read_text() for path in STATIC.iterdir() if path.suffix in (".js", ".html")]
    named = {name for text in texts for name in re.findall(r"[\"']\./([\w-]+\.(?:js|css))[\"']", text)}
    assert named == parts
    for name in parts:
        assert client.get(f"/{name}").headers["cache-control"] == "max-age=31536000, immutable"
    assert client.get("/").headers["cache-control"] == "no-cache"
    assert client.get("/Data-00000000.js").status_code == 404


def test_the_page_finds_the_charts_of_a_report() -> None:
    (begin,) = re.findall(r"CHARTS = '(.+?)'", (ROOT / "webui/src/runs/story.ts").read_text())
    report = (Path(palette.__file__).parent / "templates/page.html").read_text()
    assert report.count(begin) == 1


def test_the_bundle_carries_the_licences_of_what_it_contains() -> None:
    text = (STATIC / "LICENSES.txt").read_text()
    for holder in ("Leon Sorokin", "svelte"):
        assert holder in text


def variables(css: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+):\s*(#[0-9a-fA-F]{6})", css))


def test_the_page_has_the_colours_of_reports() -> None:
    light, dark = re.split(
        r"@media screen and \(prefers-color-scheme: dark\)", (ROOT / "webui/src/app.css").read_text()
    )[:2]
    for ours, theirs, graph in (
        (light, palette.LIGHT, story.LIGHT),
        (dark, palette.DARK, story.DARK),
    ):
        found = variables(ours)
        for name in ("ink", "soft", "grid", "paper"):
            assert found[name] == theirs[name], name
        assert {name: found[name] for name in graph} == graph
