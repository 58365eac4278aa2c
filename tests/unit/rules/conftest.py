"""Rules for nft as nft lists them: recorded once, so that tests need neither nft nor privileges.

``WEIR_RECORD_NFT=1 .venv/bin/pytest tests/unit/rules`` (root) records what tests ask for. A test in
``tests/netns`` compares all recordings with the nft of this machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from weirlab.rules import Ruleset, nftables_path
from weirlab.rules.nft.written import rule_texts

RECORDED = Path(__file__).parent / "nft.json"


class NftPath(Protocol):
    """Reads rules for nft; ``elements``: with those of named sets."""

    def __call__(self, text: str, *, elements: bool = True) -> list[Ruleset]: ...


@pytest.fixture(scope="session")
def nft() -> Iterator[NftPath]:
    recorded: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    recording = "WEIR_RECORD_NFT" in os.environ

    def read(text: str, *, elements: bool = True) -> list[Ruleset]:
        if recording:
            from weirlab.lab.dut.rulesets.listing import list_rules

            listing = list_rules(text, "the ruleset")
            recorded[text] = {"json": listing.json.strip(), "text": listing.text}
            if listing.hidden:
                recorded[text]["hidden"] = sorted(listing.hidden)
        assert text in recorded, f"not recorded, see {__file__}:\n{text}"
        listed = recorded[text]
        texts, hidden = (
            rule_texts(listed["text"]),
            {(table, handle) for table, handle in listed.get("hidden", ())},
        )
        return nftables_path(listed["json"], "the ruleset", texts, listed=elements, hidden=hidden)

    yield read
    if recording:
        RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
