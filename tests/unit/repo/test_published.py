"""A published number stands in the file of its publication and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from weirlab.publications import KEYS, publication

ROOT: Final = Path(__file__).resolve().parents[3]
NUMBER: Final = re.compile(r"(?<![\w.,])\d[\d,_]*(?:\.\d+)?(?!\w|[.,]\d)")
TELLING: Final = 4
"""Significant digits from which a number is taken to be the published one."""
COMMON: Final = {"1448": "data in a TCP segment with time stamps over Ethernet"}


def published() -> Iterator[tuple[str, str]]:
    """Telling numbers, and whose they are."""
    for key in KEYS:
        for experiment in publication(key).experiments.values():
            for value in experiment.values.values():
                for number in (value.low, value.high):
                    text = f"{number:.12g}"
                    digits = re.sub(r"\D", "", text if "." in text else text.rstrip("0")).lstrip("0")
                    if value.kind != "given" and len(digits) >= TELLING and text not in COMMON:
                        yield text, f"{key}, {experiment.key}: {value.what}"


def test_no_published_number_is_repeated_in_code_or_docs() -> None:
    owners = dict(published())
    assert len(owners) > 100
    package = ROOT / "python/weirlab"
    files = [*package.rglob("*.py"), *package.rglob("*.yaml"), *(ROOT / "docs").rglob("*.md")]
    repeated = [
        f"{path.relative_to(ROOT)}:{line}: {number} is from {owners[plain]}"
        for path in files
        if path.parent != package / "publications"
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for number in NUMBER.findall(text)
        if (plain := re.sub("[,_]", "", number)) in owners
    ]
    assert repeated == []
