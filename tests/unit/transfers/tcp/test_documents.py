"""What the documents say of fields is what the engine says."""

from __future__ import annotations

import re
from pathlib import Path

from weirlab.transfers.tcp import connections

PREFIXES = ("bbr_", "vegas_", "dctcp_")
DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "tcp-watch.md"


def test_the_table_of_fields_is_that_of_the_engine() -> None:
    """``from weirlab.transfers.tcp import connections; print(connections.markdown())`` renews it."""
    assert connections.markdown() in DOCUMENT.read_text()


def test_the_document_names_what_bpf_does_not_tell() -> None:
    _, _, behind = DOCUMENT.read_text().partition("- **Which fields.** ")
    named = set(re.findall(r"`(\w+)(?:\*)?`", behind.partition(" come from `inet-diag` only")[0]))
    only = {each.name for each in connections.fields() if not each.by_bpf}
    assert named == {next((each for each in PREFIXES if name.startswith(each)), name) for name in only}
