"""The calls of a proof as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from weirlab.base.quantities import NOTHING, decimals, duration
from weirlab.base.tables import Table
from weirlab.numbering.proof.kinds import RouteKind
from weirlab.numbering.proof.rows import ProofCallRow, failing, titled
from weirlab.numbering.through.rows import PassageRow, device_table

_COLUMNS: Final = (
    "Number", "Failing", "Way taken", "Decided", "Answer", "Set-up", "Codec", "There", "Back", "DNS",
    "Verdict",
)  # fmt: skip
_SPARE: Final = ("DNS", "Codec", "Decided", "Back", "There", "Set-up")
_MEDIA: Final = ("Number", "Direction", "Packets", "Lost", "Jitter", "MOS")


def acceptance(rows: Sequence[ProofCallRow], uneven: Sequence[ProofCallRow] = ()) -> Table:
    """A row per call; MOS of ``uneven`` ones is marked."""
    cells = [
        (
            row.number,
            failing(row) or NOTHING,
            row.way or f"planned: {row.way_planned}",
            row.decided or NOTHING,
            str(row.answer) if row.answer else NOTHING,
            duration(row.setup_ms * 1e6),
            row.codec or NOTHING,
            _opinion(row.there_packets, row.there_mos, row in uneven),
            _opinion(row.back_packets, row.back_mos, row in uneven),
            duration(row.dns_ms * 1e6),
            row.verdict,
        )
        for row in rows
    ]
    return Table("Calls; There and Back: MOS at callee and caller", _COLUMNS, cells, _SPARE)


def kinds(listed: Sequence[RouteKind]) -> Table:
    """A row per kind of route."""
    cells = [
        (
            each.name,
            f"{len(each.proved)} of {len(each.proved) + len(each.failed)}",
            _some(each.failed or each.proved),
            "proved" if each.good else "not proved",
        )
        for each in listed
    ]
    return Table("Kinds of routes", ("Kind", "Calls", "For example", "Verdict"), cells, ("For example",))


def _some(titles: Sequence[str]) -> str:
    return f"{titles[0]}, ..." if len(titles) > 1 else titles[0]


def media(rows: Sequence[ProofCallRow], uneven: Sequence[ProofCallRow] = ()) -> Table:
    """Two rows per answered call: what arrived at callee and caller; MOS of ``uneven`` ones is marked."""
    cells = []
    for row in rows:
        for direction, packets, lost, jitter_ms, mos in (
            ("to callee", row.there_packets, row.there_lost, row.there_jitter_ms, row.there_mos),
            ("to caller", row.back_packets, row.back_lost, row.back_jitter_ms, row.back_mos),
        ):
            if row.answer == 200:
                cells.append(
                    (
                        titled(row),
                        direction,
                        f"{packets:,}",
                        f"{lost:,}",
                        duration(jitter_ms * 1e6),
                        _opinion(1, mos, row in uneven),
                    )
                )
    return Table("Speech", _MEDIA, cells, details=True)


def through(rows: Sequence[ProofCallRow], passed: Sequence[PassageRow], device: str) -> Table | None:
    """Two rows per call: the packets that passed the device; None if there is none."""
    return device_table(passed, "Call", {row.index: titled(row) for row in rows}, device)


def differing(rows: Sequence[ProofCallRow]) -> Table | None:
    """Calls that did not go as planned or were not tried, with the reason; None if there are none."""
    cells = [
        (row.number, failing(row) or NOTHING, row.verdict, row.why, row.tried or NOTHING)
        for row in rows
        if not row.proved
    ]
    columns = ("Number", "Failing", "Verdict", "Why", "Tried before")
    return Table("Not as planned", columns, cells, spare=("Tried before",)) if cells else None


def _opinion(packets: int, mos: float, uneven: bool) -> str:
    mark = " (busy machine)" if uneven and not math.isnan(mos) else ""
    return f"{decimals(mos)}{mark}" if packets else NOTHING
