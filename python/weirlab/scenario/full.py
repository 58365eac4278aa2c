"""The full profile, with everything that is measured before a device's model is trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from weirlab.scenario.model import BLACK_BOX, NO_DEVICE
from weirlab.scenario.profile import ProfileSection
from weirlab.traffic.places import mean_position, parse_places

FULL: Final[dict[str, Any]] = {
    # Shortest and longest frames, the size classes small, medium and large, and a mix of all sizes.
    "sizes": ("64", "poisson:64-200", "poisson:476-612", "poisson:888-1522", "imix", "1518"),
    "load_stride": 5,
    "stateful": (False, True),
    "cross_traffic": (False, True),
    "arrivals": ("constant", "poisson"),
    "mixed": ("1:50,99:50", "1:50,799:50"),
    "rate_step": (0.3, 0.8),
    "position_step": (1, 2000),
}
"""Settings of a :class:`Profile` that takes about 13 minutes."""

_WALKED: Final = ("iptables", "iptables-legacy", "iptables-nft", "nftables", "vm", "vm:nftables")
"""Devices that walk their rules one by one, so that the position of the matching rule matters."""

_WITHOUT_RULES: Final = ("forward", "ruleset", "image", "vm:forward", BLACK_BOX, NO_DEVICE)
"""Devices whose rules cannot be chosen."""


def full(dut: str, positions: Sequence[int] | None = None, *, own: bool = False) -> dict[str, Any]:
    """Settings of the full profile, as far as the device called ``dut`` supports them.

    With ``positions`` other than the usual ones, mixed positions whose mean is not among them are
    left out: there would be nothing to compare them with. ``own``: it is a device of the user's.
    """
    usual = ProfileSection().positions if dut not in _WITHOUT_RULES else (0,)
    known = tuple(usual if positions is None else positions)
    settings = dict(FULL)
    mixed = tuple(text for text in FULL["mixed"] if mean_position(parse_places(text)) in known)
    if dut not in _WALKED or not mixed:
        del settings["mixed"]
    else:
        settings["mixed"] = mixed
    if dut not in _WALKED or max(known) == 0:
        del settings["position_step"]
    if dut in _WITHOUT_RULES:
        del settings["stateful"]
        settings["positions"] = (0,)
    if own or dut in (BLACK_BOX, NO_DEVICE):
        del settings["cross_traffic"]
    return settings
