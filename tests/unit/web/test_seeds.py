"""What the process that reads an upload makes of any bytes; here it is a function."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from weirlab.trace.facts import busier
from weirlab.web.captures.child import CAPTURE, DEEDS, FACTS
from weirlab.web.child import answer

CORPUS = Path(__file__).resolve().parents[3] / "fuzz" / "corpus"
KINDS = sorted(folder.name for folder in CORPUS.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_every_hostile_seed_is_read_and_drawn_or_refused_in_the_users_words(
    kind: str, tmp_path: Path
) -> None:
    refused = [seed.name for seed in (CORPUS / kind).iterdir() if refusal(seed, tmp_path / seed.name)]
    assert "pcap-le-us" not in refused
    assert ("no-capture" in refused) == (kind == "capture")


def refusal(seed: Path, folder: Path) -> str:
    """Why ``seed`` is not read; empty where it is."""
    folder.mkdir()
    (folder / CAPTURE).write_bytes(seed.read_bytes())
    request: dict[str, Any] = {"folder": str(folder), "name": "upload.pcap"}
    told = answer(DEEDS, {**request, "do": "analyse"}, CAPTURE)
    if "error" in told:
        message = str(told["error"]["message"])
        assert "upload.pcap" in message or "capture" in message, seed
        assert not re.search(f"{folder}|exit code|unexpected", message), (seed, message)
        return message
    for one in json.loads((folder / FACTS).read_bytes())["connections"][:1]:
        wanted = {"do": "draw", "connection": one["id"], "side": busier(one), "scratch": ".0.tmp"}
        drawn = answer(DEEDS, {**request, **wanted}, CAPTURE)
        assert drawn == {}, (seed, drawn)
    return ""
