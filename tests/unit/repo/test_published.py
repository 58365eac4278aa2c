"""A published number stands in the file of its publication and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from weirlab.publications import KEYS, publication

ROOT: Final = Path(__file__).resolve().parents[3]
DATA: Final = ROOT / "python/weirlab/publications"
NUMBER: Final = re.compile(r"(?<![\w.,/:@#-])\d[\d,_]*(?:\.\d+)?(?![\d_]|[.,]\d)")
TELLING: Final = 4
"""Significant digits from which a number is taken to be the published one."""
SCALED: Final = 5
"""Significant digits from which it is so in another unit, too."""
COMMON: Final = {"1448": "data in a TCP segment with time stamps over Ethernet"}
SEARCHED: Final = {
    "python/weirlab": ".py .yaml",
    "docs": ".md .py",
    "webui/src": ".ts .svelte",
    "bench": ".py",
    "crates": ".rs .c .h",
    "bpf": ".c .h",
    "sim": ".cc .h .md .py",
    "examples": ".md .py .yaml",
    "integrations": ".md .py",
    "packaging": ".md .1",
    "tests": ".py .c .ts",
}
"""Folders, and the ends of the names of their files."""
PAGES: Final = ("README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md")


def digits(text: str) -> str:
    """The significant digits of a number, whatever its unit."""
    return re.sub(r"\D", "", text).strip("0")


@cache
def published() -> dict[str, str]:
    """Telling numbers, and, by their digits alone, those with many; and whose they are."""
    found: dict[str, str] = {}
    for key in KEYS:
        for experiment in publication(key).experiments.values():
            for value in experiment.values.values():
                for number in (value.low, value.high):
                    text = f"{number:.12g}"
                    known = len(digits(text))
                    if value.kind == "given" or known < TELLING or text in COMMON:
                        continue
                    owner = f"{key}, {experiment.key}: {value.what}"
                    found[text.lstrip("-")] = owner
                    if known >= SCALED:
                        found[f"digits {digits(text)}"] = owner
    return found


def repeated(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, number and owner of each published number in ``text``."""
    owners = published()
    for line, words in enumerate(text.splitlines(), 1):
        for number in NUMBER.findall(words):
            plain = re.sub("[,_]", "", number)
            if plain not in COMMON and (owner := owners.get(plain) or owners.get(f"digits {digits(plain)}")):
                yield line, number, owner


def searched() -> Iterator[Path]:
    yield from (ROOT / name for name in PAGES)
    for folder, ends in SEARCHED.items():
        for path in (ROOT / folder).rglob("*"):
            # This file has some for its own test.
            if path.suffix in ends.split() and path.parent != DATA and path != Path(__file__):
                yield path


@pytest.mark.parametrize("text", ["241.48 ms", "241.48ms", "998,786 packets", "998_786", "3.15556 ms"])
def test_a_published_number_is_found_in_any_unit(text: str) -> None:
    assert [line for line, _, _ in repeated(f"nothing\nit was {text} once")] == [2]


@pytest.mark.parametrize("text", ["1448 B", "v1.241.48", "0x99878", "port:5097", "2007"])
def test_what_only_looks_like_one_is_not(text: str) -> None:
    assert not [*repeated(text)]


def test_no_published_number_is_repeated_in_code_or_docs() -> None:
    assert len(published()) > 150
    found = [
        f"{path.relative_to(ROOT)}:{line}: {number} is from {owner}"
        for path in searched()
        for line, number, owner in repeated(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []
