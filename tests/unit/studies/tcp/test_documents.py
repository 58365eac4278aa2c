"""What the documents say of fields is what the engine says."""

from __future__ import annotations

from pathlib import Path

from weirlab.studies.tcp import fields

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "tcp.md"


def test_the_table_of_fields_is_that_of_the_engine() -> None:
    """To renew it: ``python -c "from weirlab.studies.tcp import fields; print(fields.markdown())"``."""
    assert fields.markdown() in DOCUMENT.read_text()
