"""What is kept next to a record: where every frame went, what is missing, and from when to when."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from weirlab import __version__
from weirlab.base import files
from weirlab.link.account import FrameBalance

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


@dataclass(frozen=True)
class RecordManifest:
    """What is known about a record.

    Sums and ``complete`` are only checked at the end: until then, frames are in flight.
    """

    kind: Literal["tap", "log"]
    command: str
    host: Mapping[str, str]
    mode: Mapping[str, Any]
    state: State
    start_ns: int
    end_ns: int
    """While running, the time of the last update, which is all that remains after a crash."""
    account: FrameBalance
    parts: tuple[Mapping[str, Any], ...]
    """The recorders, one after the other."""
    files: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]
    sentence: str

    def document(self) -> dict[str, Any]:
        """The manifest for JSON."""
        account = self.account
        sums = [{**asdict(each), "holds": each.holds} for each in account.sums()] if account.finished else []
        return {
            "kind": self.kind,
            "format": FORMAT,
            "version": __version__,
            "command": self.command,
            "host": dict(self.host),
            "mode": dict(self.mode),
            "state": self.state,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
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
            "parts": [dict(part) for part in self.parts],
            "files": [dict(file) for file in self.files],
            "notes": list(self.notes),
            "conclusion": self.sentence,
        }


def write(path: Path, content: Mapping[str, Any], *, durable: bool = False) -> None:
    """Replace ``path`` in one step: a reader sees the old manifest or the new one, never half of it.

    ``durable``: it is on the disk when this returns, even if the power then fails.
    Raises as :func:`weirlab.base.files.write`; on error, the old manifest stays.
    """
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    # A file name that is not UTF-8 becomes a JSON escape.
    encoded = text.encode(errors="backslashreplace")
    elsewhere = "name another place with --manifest"
    files.write_bytes(path, encoded, durable=durable, elsewhere=elsewhere)
