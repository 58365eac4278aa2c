"""The scenarios of the firewall's publication: its settings, as far as this machine can have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from weirlab.reproduction.contract import ReproducedExperiment

RULES: Final = (0, 50, 100, 400, 1000)
"""Rule counts of the published profile."""
MORE_RULES: Final = (200, 300, 500, 700)
"""Those that make nine of them, held out from the models."""

SMALL: Final = "poisson:64-256"
MIDDLE: Final = "poisson:64-1024"
LARGE: Final = "poisson:334-1522"
"""Frames of 160, 544 and 928 bytes on average."""

_BELOW: Final = (0.02, 0.2, 0.4, 0.6, 0.8, 0.93)
_OVER: Final = (1.05, 1.2, 1.5)
_TIMES: Final = {"trial_s": 0.1, "warmup_s": 0.03}

DEVIATIONS: Final = (
    "The device is the packet filter of this machine's kernel between network namespaces, not an industrial "
    "firewall; frames have no transmission time.",
    "Trials are shorter: 0.1 s after a warm-up of 0.03 s in most experiments, instead of 2 s after 5 s.",
    "Loads of profiles are shares of the threshold of each rule count and size, not 1 to 1000 Mbit/s.",
)


def profile(
    dut: str, sizes: Sequence[str], held_out: Sequence[Mapping[str, Any]], quick: bool
) -> dict[str, Any]:
    """A profile at the published rule counts, its models, and trials that they have not seen."""
    repetitions = 2 if quick else 3
    return {
        "lab": {"kind": "netns"},
        "dut": {"name": dut},
        "profile": {
            "positions": list(RULES),
            "sizes": list(sizes),
            "load_shares": [*_BELOW, *_OVER],
            "load_stride": 2 if quick and len(sizes) > 1 else 1,
            "repetitions": repetitions,
            **_TIMES,
        },
        "verify": [{**each, "repetitions": repetitions, **_TIMES} for each in held_out],
    }


def series(
    settings: Sequence[Mapping[str, Any]], repetitions: int, quick: bool, **more: Any
) -> dict[str, Any]:
    """Trials at ``settings`` through iptables; a full run has three times the repetitions."""
    section = {**_TIMES, "settings": list(settings), "repetitions": repetitions * (1 if quick else 3)}
    times = {name: more.pop(name) for name in ("trial_s", "warmup_s") if name in more}
    return {"lab": {"kind": "netns"}, "dut": {"name": "iptables"}, "series": {**section, **times}, **more}


LOADS_MBIT_S: Final = (100, 300, 500, 700, 1000)
"""Data rates of 160-byte frames at each rule count."""


class FirewallExperiment(ReproducedExperiment):
    """An experiment that uses some of the :func:`shared` scenarios, beside its own."""

    shared: ClassVar[Sequence[str]] = ()
    """Their names."""

    def own(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        """The scenarios of this experiment alone."""
        return {}

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        """See :class:`ReproducedExperiment`."""
        common = shared(quick) if self.shared else {}
        return {**{name: common[name] for name in self.shared}, **self.own(quick)}


def shared(quick: bool) -> Mapping[str, Mapping[str, Any]]:
    """The scenarios that several experiments use."""
    held_out = (
        {
            "positions": MORE_RULES,
            "sizes": ["poisson:64-200", "poisson:476-612"],
            "draws": 3,
            "overload_shares": [1.15],
        },
        {
            "positions": [0],
            "sizes": ["poisson:64-200", "poisson:476-612", "poisson:888-1522"],
            "draws": 6,
            "overload_shares": [1.3],
            "seed": 11,
        },
    )
    other = (
        {"positions": [0, 200, 700], "sizes": ["poisson:64-200"], "draws": 4, "overload_shares": [1.15]},
    )
    loads = [
        {"name": f"{rules} rules, {mbit} Mbit/s", "rate": f"{mbit}Mbit/s", "sizes": "160", "position": rules}
        for rules in (*RULES, 200)
        for mbit in LOADS_MBIT_S
    ]
    return {
        "iptables": profile("iptables", (SMALL, MIDDLE, LARGE), held_out, quick),
        "nftables": profile("nftables", (SMALL,), other, quick),
        "loads": series(loads, 2, quick),
    }
