"""Diagnoses of captures that others made, compared with what a person found in the packets.

    make bench-foreign ARGS=FOLDER
    .venv/bin/python bench/foreign.py FOLDER --wrong

`foreign.tsv` lists them: SHA-256, where the capture is published, the ports of sender and receiver, the
cause, others that are right as well, whether the judgement is sure, and its evidence. Causes were judged from
sequence numbers, windows and times before the first diagnosis. `unknown`: the packets do not show it. FOLDER
holds the captures under any names; those that it lacks are counted. Captures whose SHA-256 begins with 0 to 7
may be used to change the rules, the others are held out. Doubtful judgements are counted apart.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import confusion
from machine import versions
from weirlab import trace
from weirlab.diagnosis import tracing
from weirlab.diagnosis.finding import Diagnosis
from weirlab.trace.facts import Connection, busier, side

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Verdict:
    """The diagnosis of a capture, and what is right."""

    sha256: str
    path: str
    case: str
    """The cause as judged."""
    also: tuple[str, ...]
    source: str
    named: str
    confidence: str
    share: float
    sentence: str
    void: str = ""
    untold: bool = False

    @property
    def names_it(self) -> bool:
        return self.named not in ("", confusion.UNKNOWN) and self.named in (self.case, *self.also)


def verdict(judged: Mapping[str, str], diagnosis: Diagnosis | None) -> Verdict:
    first = None if diagnosis is None else diagnosis.findings[0]
    sure = "development" if judged["sha256"][0] < "8" else "held out"
    return Verdict(
        judged["sha256"],
        judged["path"],
        judged["cause"],
        tuple(judged["also"].split()),
        sure if judged["sure"] == "yes" else "doubtful",
        "" if first is None else first.cause.key,
        "" if first is None else first.confidence,
        0.0 if first is None else first.share,
        "" if first is None else first.sentence,
    )


def diagnosis_of(path: Path, ports: str) -> Diagnosis | None:
    """Of the busiest connection between these ports (``sender>receiver``), as in ``weir trace``."""
    with trace.read(path, series=True) as read:
        own = [each for each in read.facts["connections"] if _ports(each) == ports]
        return tracing.read(read, max(own, key=_data_bytes)) if own else None


def _ports(connection: Connection) -> str:
    ends = [str(connection[name]["port"]) for name in ("a", "b")]
    return ">".join(ends if busier(connection) == "a" else reversed(ends))


def _data_bytes(connection: Connection) -> int:
    return side(connection, busier(connection))["data_bytes"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds the captures")
    parser.add_argument("--wrong", action="store_true", help="show the wrong headlines, but no held-out ones")
    parser.add_argument("--out", type=Path, default=HERE.parent / "build" / "bench")
    chosen = parser.parse_args()
    files = {
        hashlib.sha256(path.read_bytes()).hexdigest(): path
        for path in chosen.folder.rglob("*")
        if path.is_file()
    }
    with (HERE / "foreign.tsv").open(newline="") as table:
        listed = list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))
    present = [row for row in listed if row["sha256"] in files]
    found = [verdict(row, diagnosis_of(files[row["sha256"]], row["ports"])) for row in present]
    shown = [row for row in found if row.source != "held out" and confusion.outcome(row) == "wrong"]
    for row in shown if chosen.wrong else ():
        print(f"{row.path} ({row.source}): {row.case}, named {row.named} ({row.confidence}): {row.sentence}")
    print(f"{len(present)} of {len(listed)} captures are in {chosen.folder}\n")
    print(confusion.markdown(found))
    chosen.out.mkdir(parents=True, exist_ok=True)
    path = chosen.out / f"foreign-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    path.write_text(json.dumps({"versions": versions(), "rows": [asdict(row) for row in found]}, indent=1))
    path.with_suffix(".md").write_text(confusion.markdown(found))


if __name__ == "__main__":
    main()
