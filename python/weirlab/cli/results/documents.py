"""Tables as a file: Markdown for reading, CSV for further processing."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weirlab.base import files
from weirlab.base.documents import plain
from weirlab.base.errors import InputError
from weirlab.base.tables import Table

FORMATS = (".md", ".csv")


def check(path: Path | None) -> None:
    """Raise ``InputError`` before anything is measured if the file could not be written later."""
    if path is None:
        return
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"--out {path}: the name must end in {' or '.join(FORMATS)}, which sets the format")
    files.check_output(path, "--out")


def write(
    path: Path, title: str, lead: Sequence[str], tables: Sequence[Table], rows: Sequence[Mapping[str, Any]]
) -> Path:
    """Write ``tables`` below ``title`` and ``lead`` as Markdown, or the bare ``rows`` as CSV."""
    text = _csv(rows) if path.suffix.lower() == ".csv" else _markdown(title, lead, tables)
    files.write_bytes(path, text.encode())
    return path


def _markdown(title: str, lead: Sequence[str], tables: Sequence[Table]) -> str:
    parts = [f"# {title}", *lead]
    for table in tables:
        if table.caption:
            parts.append(f"## {table.caption}")
        marks = ("---:" if i in table.numeric else "---" for i in range(len(table.columns)))
        lines = [table.columns, list(marks), *table.rows]
        parts.append("\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines))
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("\u00a0", " ")


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    buffer = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = csv.DictWriter(buffer, columns, lineterminator="\n")
    table.writeheader()
    for row in rows:
        values = plain(row)
        table.writerow({name: "" if value is None else value for name, value in values.items()})
    return buffer.getvalue()
