"""User-space gateways compared: throughput between namespaces, by ``weir search`` in turns."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory

from rich.console import Console

from weirlab.base.errors import WeirError
from weirlab.lab import dut

USUAL = (
    "esp:aes128gcm16",
    "esp:aes128-sha1",
    "wireguard-go",
    "openvpn:aes-128-gcm",
    "strongswan-libipsec:aes128gcm16",
)
OURS = "esp"
FRAME_BYTES = 218
"""Frames with 20 ms of G.711."""
LOSS = "0.5%"
WIDTH = "2%"
HEADINGS = ("gateway", "kpps", "range", "searches", "Weir's is")


def throughputs(names: Sequence[str], repeats: int, console: Console) -> dict[str, list[float]]:
    """Packets per second with at most 0.5 % loss, of every repeat. Missing gateways are left out."""
    usable = []
    for name in names if repeats else ():
        if missing := dut.make(name).check():
            console.print(f"{name} is left out: {'; '.join(missing)}")
        else:
            usable.append(name)
    found: dict[str, list[float]] = {name: [] for name in usable}
    for repeat in range(repeats):
        # In turns, so that a slow hour of the machine affects all of them.
        for name in usable:
            console.print(f"{name}: search {repeat + 1} of {repeats}")
            if (pps := _searched(name, console)) is not None:
                found[name].append(pps)
    return found


def _searched(name: str, console: Console) -> float | None:
    with TemporaryDirectory(prefix="weir-bench-") as store:
        command = [sys.executable, "-m", "weirlab", "--store", store, "search", "--dut", name, "--json"]
        command += ["--frame", str(FRAME_BYTES), "--loss", LOSS, "--width", WIDTH]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        (point,) = json.loads(done.stdout)["points"]
    except (ValueError, KeyError):
        raise WeirError(f"weir search --dut {name} fails: {done.stderr.strip()[-500:]}") from None
    if not point["goals"] or point["goals"][0]["lower_pps"] is None:
        console.print(f"{name}: {point['problem'] or 'nothing passes'}")
        return None
    return float(point["goals"][0]["lower_pps"])


def rows(found: Mapping[str, Sequence[float]]) -> list[tuple[str, ...]]:
    """Rows for ``HEADINGS``, fastest first."""
    best = _best(found, ours=True)
    made: list[tuple[str, ...]] = []
    for name, values in sorted(found.items(), key=lambda each: -_median(each[1])):
        kpps = [value / 1e3 for value in values]
        spread = f"{min(kpps):.1f}–{max(kpps):.1f}" if kpps else ""
        times = f"{best[1] / _median(values):.2f} ×" if best and values and not _is_ours(name) else ""
        made.append((name, f"{_median(kpps):.1f}" if kpps else "failed", spread, str(len(kpps)), times))
    return made


def verdict(found: Mapping[str, Sequence[float]], wanted: float) -> tuple[str, str, str]:
    """Whether Weir's fastest gateway carries ``wanted`` times as much as the fastest other one."""
    target = f"gateways carry at least {wanted:g} × the fastest other one in user space"
    ours, other = _best(found, ours=True), _best(found, ours=False)
    if ours is None or other is None:
        return target, "nothing to compare", "not measured"
    # The worst of Weir's against the best of the others, and vice versa.
    low = min(found[ours[0]]) / max(found[other[0]])
    high = max(found[ours[0]]) / min(found[other[0]])
    times = ours[1] / other[1]
    told = f"{times:.2f} ({low:.2f}–{high:.2f}): {ours[0]} and {other[0]}"
    return target, told, "met" if times >= wanted else "missed"


def _best(found: Mapping[str, Sequence[float]], *, ours: bool) -> tuple[str, float] | None:
    medians = [(name, _median(each)) for name, each in found.items() if each and _is_ours(name) == ours]
    return max(medians, key=lambda each: each[1], default=None)


def _is_ours(name: str) -> bool:
    return name.partition(":")[0] in (OURS, f"{OURS}-udp")


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else 0.0
