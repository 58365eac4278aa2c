"""What is kept beside a record: where every frame went, and what is missing from when to when."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Literal

from weirlab import __version__, files
from weirlab.link.account import Account

FORMAT: Final = 1
"""Raised when a reader of an older manifest would misunderstand a newer one."""

_CLOCK: Final = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")

State = Literal["running", "finished"]


def host_facts() -> dict[str, str]:
    """What time stamps and losses may depend on."""
    try:
        clock = _CLOCK.read_text().strip()
    except OSError:
        clock = ""
    return {"kernel": platform.release(), "machine": platform.machine(), "clock_source": clock}


def document(
    *,
    kind: Literal["tap", "log"],
    command: str,
    host: Mapping[str, str],
    mode: Mapping[str, Any],
    state: State,
    start_ns: int,
    end_ns: int,
    account: Account,
    parts: tuple[Mapping[str, Any], ...],
    files: tuple[Mapping[str, Any], ...],
    notes: tuple[str, ...],
    sentence: str,
) -> dict[str, Any]:
    """The manifest. Sums and ``complete`` are judged at the end only: before, frames are under way.

    ``end_ns`` of a running one is when it was last refreshed, which is all there is after a crash. ``parts``
    are the recorders, one after the other.
    """
    sums = [{**asdict(each), "holds": each.holds} for each in account.sums()] if account.finished else []
    return {
        "kind": kind,
        "format": FORMAT,
        "version": __version__,
        "command": command,
        "host": dict(host),
        "mode": dict(mode),
        "state": state,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "link": [asdict(side) for side in account.sides],
        "mirror": asdict(account.mirror) if account.mirror else None,
        "link_assumed": account.assumed,
        "cut": account.cut,
        "recorder": [asdict(each) for each in account.recorded],
        "lost_with_recorder": account.vanished,
        "repeated": account.repeated,
        "missing": account.missing,
        "missing_unknown": account.unknown,
        "complete": account.complete,
        "sums": sums,
        "sums_hold": all(each["holds"] for each in sums) if sums else None,
        "gaps": [asdict(gap) for gap in account.gaps],
        "parts": [dict(part) for part in parts],
        "files": [dict(file) for file in files],
        "notes": list(notes),
        "conclusion": sentence,
    }


def write(path: Path, content: Mapping[str, Any], *, durable: bool = False) -> None:
    """Replace ``path`` in one step: a reader sees the old manifest or the new one, never half of it.

    ``durable``: it is on the disk when this returns, also if the power fails then.
    Raises as :func:`weirlab.files.write`; what was there stays.
    """
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    # A file name that is no UTF-8 becomes an escape of JSON.
    encoded = text.encode(errors="backslashreplace")
    elsewhere = "name another place with --manifest"
    files.write_bytes(path, encoded, durable=durable, elsewhere=elsewhere)
