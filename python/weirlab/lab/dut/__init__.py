"""Drivers of devices under test, by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

from weirlab.errors import InputError
from weirlab.lab.base import DutDriver
from weirlab.lab.dut.forward import Forward
from weirlab.lab.dut.iptables import Iptables
from weirlab.lab.dut.nftables import Nftables
from weirlab.lab.dut.ruleset import Ruleset
from weirlab.quoting import quoted

Factory = Callable[[Path | None], DutDriver]


def drivers() -> dict[str, Factory]:
    """What makes each driver; the argument is the user's ruleset file or None.

    ``iptables`` is the legacy back end where it works, otherwise the nft one.
    """
    return {
        "forward": _without_file("forward", Forward),
        "iptables": _without_file("iptables", _iptables),
        "iptables-legacy": _without_file("iptables-legacy", lambda: Iptables("legacy")),
        "iptables-nft": _without_file("iptables-nft", lambda: Iptables("nft")),
        "nftables": _without_file("nftables", lambda: Nftables("linear")),
        "nftables-set": _without_file("nftables-set", lambda: Nftables("set")),
        "nftables-vmap": _without_file("nftables-vmap", lambda: Nftables("vmap")),
        "ruleset": _ruleset,
    }


def make(name: str, ruleset: Path | None = None) -> DutDriver:
    """The driver called ``name``. Raises ``InputError`` for an unknown name or a file where none fits."""
    known = drivers()
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise InputError(
            f"no device under test is called {quoted(name)}{hint}; there are: {', '.join(known)}"
        )
    return known[name](ruleset)


def _iptables() -> Iptables:
    legacy, nft = Iptables("legacy"), Iptables("nft")
    return nft if legacy.check() and not nft.check() else legacy


def _without_file(name: str, factory: Callable[[], DutDriver]) -> Factory:
    def build(ruleset: Path | None) -> DutDriver:
        if ruleset is not None:
            raise InputError(
                f"the device {quoted(name)} makes its own rules; "
                f"to measure those of {ruleset} choose the device 'ruleset'"
            )
        return factory()

    return build


def _ruleset(ruleset: Path | None) -> DutDriver:
    if ruleset is None:
        raise InputError("the device 'ruleset' needs a file with rules: --ruleset FILE")
    return Ruleset(ruleset)
