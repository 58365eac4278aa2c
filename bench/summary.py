"""The output of comparing benchmarks: tables on the terminal, and a folder with README.md and raw.json."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
Tables = Mapping[tuple[str, ...], Sequence[tuple[str, ...]]]
"""The rows of each table, by its headings."""


def parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """The parser for the options of ``bench/NAME.py``, with ``--out`` for the folder."""
    found = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument(
        "--out",
        type=Path,
        default=HERE / "runs" / f"{datetime.now(UTC):%Y-%m-%d-%H%M}-{name}",
        help=f"folder for README.md and raw.json (default bench/runs/DATE-{name})",
    )
    return found


def about(name: str) -> dict[str, Any]:
    """When and how ``bench/NAME.py`` was called."""
    command = " ".join([f"bench/{name}.py", *sys.argv[1:]])
    return {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "command": command}


@dataclass(frozen=True)
class Summary:
    """The results, for people."""

    title: str
    about: Mapping[str, Any]
    """The result of :func:`about`."""
    facts: Mapping[str, object]
    """What the numbers depend on."""
    tables: Tables
    legend: str
    remarks: Sequence[str] = ()

    def markdown(self) -> str:
        lines = [f"# {self.title}, {self.about['date']}", ""]
        lines += [f"`{self.about['command']}`; raw data in `raw.json`.", ""]
        lines += [f"- {name}: {value}" for name, value in self.facts.items()]
        if self.remarks:
            lines += ["", *(f"- {remark}" for remark in self.remarks)]
        for headings, rows in self.tables.items():
            lines += ["", "| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
            lines += ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([*lines, "", self.legend, ""])

    def publish(self, out: Path, raw: Mapping[str, Any], console: Console) -> None:
        """Write the summary and ``raw`` to the folder ``out``, and print the summary."""
        out.mkdir(parents=True, exist_ok=True)
        (out / "raw.json").write_text(json.dumps({**self.about, **raw}, indent=1) + "\n")
        (out / "README.md").write_text(self.markdown())
        for headings, rows in self.tables.items():
            table = Table(*headings)
            for row in rows:
                table.add_row(*row)
            console.print(table)
        for line in (*self.remarks, self.legend, f"Raw data and summary: {out}"):
            console.print(line, markup=False)
