"""What is known about one recorder, from its start to its end; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weirlab.link.account import RecorderCounts, RecordGap
from weirlab.link.settings import bare_name


@dataclass
class RecorderRun:
    """One recorder, the ``number``-th of its session from 0."""

    number: int
    path: Path
    started_ns: int
    launched_ns: int = 0
    ended_ns: int | None = None
    died: str = ""
    """How, if it did not end in good order."""
    early: bool = False
    """It or its source ended in good order, but unasked."""
    started: bool = False
    """Whether it began to record."""
    uncounted: bool = False
    """It died, and its files could not be counted."""
    last_report_ns: int = 0
    recorded: tuple[RecorderCounts, ...] = ()
    failure: str = ""
    """What it currently reports as failing, e.g. a full disk."""
    complaint: str = ""
    """The last failure it reported."""
    file: str = ""
    bytes: int = 0
    names: list[str] = field(default_factory=list)
    """Files it was seen to write."""
    files: tuple[dict[str, Any], ...] = ()
    gaps: tuple[RecordGap, ...] = ()
    first_frame_ns: int | None = None
    last_frame_ns: int | None = None

    def hear(self, at_ns: int, values: Mapping[str, Any]) -> None:
        """Take in a recorder's ``progress``, or what its ``stop`` returned."""
        self.last_report_ns = at_ns
        self.recorded = tuple(RecorderCounts.of(each) for each in values["interfaces"])
        self.failure = str(values["failure"]).rstrip(".")
        self.complaint = self.failure or self.complaint
        self.early = self.early or bool(values.get("ended"))
        self.bytes = int(values["bytes"])
        self.file = str(values["file"]) or self.file
        if self.file and self.file not in self.names:
            self.names.append(self.file)
        if "files" in values:
            self.files = tuple(dict(each) for each in values["files"])
            self.gaps = tuple(RecordGap.of(each) for each in values["gaps"])
            with_frames = [file for file in self.files if file["frames"]]
            if with_frames:
                self.first_frame_ns = int(with_frames[0]["first_ns"])
                self.last_frame_ns = int(with_frames[-1]["last_ns"])

    def wrote(self, name: str) -> bool:
        """Whether a file of this name is one of its files, judging by the names that rotation gives."""
        stem, endings = bare_name(self.path)
        rotated = rf"{re.escape(stem)}-\d{{5,}}-\d{{8}}T\d{{6}}{re.escape(endings)}"
        return name == self.path.name or re.fullmatch(rotated, name) is not None

    def salvage(self, found: Sequence[tuple[str, Mapping[str, Any] | None]]) -> None:
        """Replace the last report of a recorder that died by what its files really contain.

        It may have written more since, or less, because its last frames were not on their way to the disk
        yet. ``found`` has each file's name and, if it can be read, ``packets``, ``first_ns``, ``last_ns``.
        """
        told = sum(each.written for each in self.recorded)
        readable = {name: values for name, values in found if values is not None}
        # Files that rotation has since removed had still been written.
        kept = len(readable) == len(found)
        frames = sum(int(values["packets"]) for values in readable.values()) if kept else told
        left = tuple(
            replace(each, seen=each.filtered + each.not_written, written=0) for each in self.recorded
        )
        self.recorded = (
            *left,
            RecorderCounts(f"part {self.number + 1}, whose recorder died", seen=frames, written=frames),
        )
        self.files = tuple(
            {
                "path": name,
                "frames": int(values["packets"]),
                "bytes": int(values.get("bytes", 0)),
                "first_ns": int(values["first_ns"] or 0),
                "last_ns": int(values["last_ns"] or 0),
                "cut_short": bool(values["cut_short"]),
            }
            for name, values in readable.items()
        )
        with_frames = [file for file in self.files if file["frames"]]
        if with_frames:
            self.first_frame_ns = min(with_frame["first_ns"] for with_frame in with_frames)
            self.last_frame_ns = max(with_frame["last_ns"] for with_frame in with_frames)

    def document(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "part": self.number + 1,
            "path": str(self.path),
            "started_ns": self.started_ns,
            "ended_ns": self.ended_ns,
            "died": self.died,
            "ended_early": self.early,
            "uncounted": self.uncounted,
            "failure": self.complaint,
        }


def gap_behind(
    part: RecorderRun, following: RecorderRun | None, frames: int | None, *, ring: bool, end_ns: int
) -> RecordGap:
    """The gap left by the recorder of ``part``, which ended before the session did, at ``end_ns``.

    With a ring, the next recorder continues where this one stopped reading, so nothing that came after its
    death is missing. With an interface, everything is missing until the next one listens.
    """
    ended_ns = part.ended_ns or part.last_report_ns
    if following is None:
        to_ns = end_ns
    elif not ring:
        to_ns = following.started_ns
    elif following.first_frame_ns is not None:
        to_ns = min(ended_ns, following.first_frame_ns)
    else:
        to_ns = ended_ns
    from_ns = part.last_frame_ns or part.started_ns
    ended = part.died or "ended before its time" + (f": {part.complaint}" if part.complaint else "")
    return RecordGap(
        from_ns=min(from_ns, to_ns),
        to_ns=to_ns,
        stage="recorder",
        frames=frames,
        reason=f"the recorder of {part.path.name} {ended}",
    )
