"""Events of a tunnel during traffic, as part of its name: new keys, the death of a gateway."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from weirlab.base.amounts import parse_time
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted

After = Literal["time", "packets"]

_REKEY: Final = "rekey="
_OUTAGE: Final = "outage="
_EXAMPLES: Final[dict[After, str]] = {"time": "'rekey=90s'", "packets": "'rekey=10000packets'"}
_PACKETS: Final = re.compile(r"([0-9]{1,9})packets")
"""32-bit sequence numbers allow a little over four thousand million packets."""


@dataclass(frozen=True)
class Rekey:
    """How long the keys of a tunnel are used: for a time, or for a number of packets in one direction."""

    text: str
    """As users write it."""
    time_s: float | None = None
    packets: int | None = None

    @property
    def after(self) -> After:
        """The unit of the lifetime."""
        return "packets" if self.time_s is None else "time"


@dataclass(frozen=True)
class GatewayOutage:
    """The near gateway dies ``at_s`` after the beginning of every trial, and returns ``lasts_s`` later."""

    text: str
    """As users write it."""
    at_s: float
    lasts_s: float


@dataclass(frozen=True)
class TunnelSettings:
    """The settings after the name of a tunnel and a colon."""

    suite: str | None = None
    rekey: Rekey | None = None
    outage: GatewayOutage | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The events as users write them."""
        return (
            *([] if self.rekey is None else [f"{_REKEY}{self.rekey.text}"]),
            *([] if self.outage is None else [f"{_OUTAGE}{self.outage.text}"]),
        )


def understood(
    kind: str, text: str | None, rekeys_after: frozenset[After], *, returns: bool
) -> TunnelSettings:
    """Parse the settings ``text`` of a tunnel called ``kind``.

    ``rekeys_after``: the units after which its gateways can rekey; ``returns``: whether a gateway that dies
    can be restarted. Raises ``InputError`` for unsupported settings, and for what is not understood.
    """
    if text is None:
        return TunnelSettings()
    words = text.split(":")
    outage = None
    if words[-1].startswith(_OUTAGE):
        if not returns:
            raise InputError(
                f"Weir cannot restart a gateway of {kind} during a trial: leave out {quoted(words[-1])}"
            )
        outage = _outage(words.pop().removeprefix(_OUTAGE))
    rekey = None
    if words and words[-1].startswith(_REKEY):
        rekey = _lifetime(words[-1].removeprefix(_REKEY))
        if rekey.after not in rekeys_after:
            known = " or ".join(_EXAMPLES[each] for each in sorted(rekeys_after))
            else_ = f"give e.g. {known}" if known else "leave it out"
            raise InputError(f"{kind} does not support {quoted(words[-1])}: {else_}")
        words.pop()
    return TunnelSettings(":".join(words) if words else None, rekey, outage)


def _lifetime(text: str) -> Rekey:
    if (match := _PACKETS.fullmatch(text)) is not None and int(match[1]) > 0:
        return Rekey(text, packets=int(match[1]))
    try:
        return Rekey(text, time_s=parse_time(text, "rekey"))
    except InputError:
        known = " and ".join(_EXAMPLES.values())
        raise InputError(f"{quoted(_REKEY + text)} not understood; use e.g. {known}") from None


def _outage(text: str) -> GatewayOutage:
    at, _, lasts = text.partition("+")
    try:
        return GatewayOutage(text, parse_time(at, "outage"), parse_time(lasts, "outage"))
    except InputError:
        raise InputError(
            f"{quoted(_OUTAGE + text)} not understood; use e.g. 'outage=3s+1s': 3 s after the "
            "beginning of a trial, for 1 s"
        ) from None
