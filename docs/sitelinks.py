"""What is done with the built pages of the documentation: they need no network, their links are checked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

SHIM: Final = "https://unpkg.com/iframe-worker/shim"
"""What Zensical has pages load from the network for their search, if they are opened as files."""

SHIM_FILE: Final = Path(__file__).with_name("iframe-worker.js")


def localise(site: Path) -> None:
    """Have the built pages load the worker of their search from the site itself."""
    shim = site / "assets/javascripts/iframe-worker.js"
    shutil.copyfile(SHIM_FILE, shim)
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        if SHIM in text:
            path.write_text(text.replace(SHIM, os.path.relpath(shim, path.parent)), encoding="utf-8")


class _Page(HTMLParser):
    """The links of a page, what it loads, and what can be linked to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := values.get(key))}
        if tag == "script" or (tag == "link" and values.get("rel") in ("stylesheet", "icon")):
            self.loads += filter(None, [values.get("src"), values.get("href")])
        if tag in ("a", "img") and (target := values.get("href" if tag == "a" else "src")):
            self.links.append(target)


def broken_links(site: Path) -> Iterator[str]:
    """Links of the built pages to a file or a place that is not there, and what they load from elsewhere."""
    pages = {}
    for path in set(site.rglob("*.html")) - set(site.glob("gallery/*")):
        pages[path] = _Page()
        pages[path].feed(path.read_text(encoding="utf-8"))
    for path, page in pages.items():
        for target in page.loads:
            if urlsplit(target).netloc:
                yield f"{path.relative_to(site)}: {target} is loaded from the network"
        for target in page.links:
            parts_ = urlsplit(target)
            if parts_.scheme or parts_.netloc or target in (".", "/") or path.name == "404.html":
                continue
            place = (path.parent / unquote(parts_.path)).resolve() if parts_.path else path
            if place.is_dir():
                place /= "index.html"
            if not place.exists():
                yield f"{path.relative_to(site)}: {target} does not exist"
            elif parts_.fragment and place in pages and unquote(parts_.fragment) not in pages[place].anchors:
                yield f"{path.relative_to(site)}: {target} is no place on that page"
