"""What was tested where, which trials were spoiled, what the models learned: the report's tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from weirlab.cli.results.tables import reasons
from weirlab.devices.prediction import tables as models
from weirlab.devices.profile import tables
from weirlab.devices.profile.page.source import ProfileEvidence
from weirlab.report.numbers import NOTHING, count, duration, percent, plural, rate, significant, size, words
from weirlab.report.tables import Pairs, Table
from weirlab.store.reasons import reason_counts

_MOST_INVALID_ROWS: Final = 60
_UNITS: Final = (
    ("_ns", duration),
    ("_pps", rate),
    ("_ratio", percent),
    ("_bytes", size),
    ("_packets", count),
    ("_us", lambda value: duration(value * 1e3)),
    ("_s", lambda value: duration(value * 1e9)),
    ("_percent", lambda value: f"{significant(value)} %"),
)
_SPELLED: Final = {
    "dut": "device",
    "cpu": "CPU",
    "cpus": "CPUs",
    "mtu": "MTU",
    "napi": "NAPI",
    "xdp": "XDP",
    "id": "ID",
    "p50": "(median)",
    "p99": "(p99)",
    "sha256": "SHA-256",
}
_DROPPED_FACTS: Final = frozenset({"kernel", "command", "lab", "dut", "backend"})


def setting(evidence: ProfileEvidence) -> Pairs:
    """Device, host, traffic and tools, as label and value."""
    manifest, attempts = evidence.manifest, evidence.attempts
    pairs: Pairs = [("Device under test", "simulated device" if evidence.simulated else evidence.device)]
    pairs.append(
        ("Lab", {"netns": "Linux network namespaces", "sim": "simulation"}.get(evidence.lab, evidence.lab))
    )
    for label, key in (("Host", "host"), ("Kernel", "kernel")):
        pairs.append((label, str(manifest.get(key) or NOTHING)))
    if attempts.height:
        backends = sorted(set(attempts["backend"].to_list()))
        pairs.append(("Sender and receiver", words([_BACKENDS.get(b, b) for b in backends])))
        sizes = attempts.sort("frame_bytes")["panel"].unique(maintain_order=True).to_list()
        pairs.append(("Frame sizes", words(sizes)))
        flows = sorted(set(attempts["flows"].to_list()))
        pairs.append(("Flows", words([count(n) for n in flows])))
        positions = attempts.sort("position")["setup"].unique(maintain_order=True).to_list()
        varied = evidence.varied
        pairs.append((varied.legend if varied.percents else "Rule counts", words(positions)))
        if varied.percents:
            pairs.append(("Rules", count(varied.positions)))
    facts = manifest.get("facts") or {}
    pairs += [
        (label, value) for key, label, value in _flat(facts) if key not in _DROPPED_FACTS and value != NOTHING
    ]
    versions = manifest.get("versions") or {}
    pairs.append(("Versions", ", ".join(f"{name} {v}" for name, v in versions.items()) or NOTHING))
    pairs.append(("Run", f"{manifest.get('run_id', NOTHING)} ({manifest.get('status', 'status unknown')})"))
    pairs.append(("Begun", str(manifest.get("created", NOTHING)).replace("T", " ")[:19] + " UTC"))
    return pairs


def calibration(evidence: ProfileEvidence) -> tuple[Pairs, Table | None]:
    """The bed's own error over a plain cable, in all and per load; empty if no calibration is known."""
    content = evidence.calibration
    summary = content.get("summary") or {}
    pairs = [
        (label, _readable(key, summary[key])[1])
        for key, label in _EXACTNESS.items()
        if summary.get(key) is not None
    ]
    named = content.get("id") or evidence.manifest.get("calibration")
    if named:
        when = str(content.get("when") or "").replace("T", " ")[:16]
        pairs.append(("Calibration", f"{named}" + (f" ({when} UTC)" if when else "")))
    points = content.get("points") or ()
    return pairs, tables.calibration(points) if points else None


def invalid(evidence: ProfileEvidence) -> tuple[str, list[Table]]:
    """A sentence on spoiled attempts, and tables of their reasons (empty if there are none)."""
    attempts = evidence.attempts
    spoiled = attempts.filter(~pl.col("valid"))
    if not attempts.height:
        return "No trial was carried out.", []
    if not spoiled.height:
        return f"None of {plural(attempts.height, 'attempt')} was spoiled by the host.", []
    repeated = spoiled.join(attempts.filter("valid"), on=["role", "index"], how="semi").height
    lost = (
        spoiled.join(attempts.filter("valid"), on=["role", "index"], how="anti")
        .unique(["role", "index"])
        .height
    )
    share = percent(spoiled.height / attempts.height)
    text = (
        f"{plural(spoiled.height, 'attempt')} of {attempts.height:,} ({share}) {_was(spoiled.height)} "
        f"spoiled by the host. {plural(repeated, 'attempt')} {_was(repeated)} made good by a repetition"
    )
    text += f"; {plural(lost, 'trial')} stayed without a valid attempt." if lost else "."
    text += " Spoiled attempts are kept in the run but take no part in any number or chart here."
    summary = reasons(reason_counts(spoiled["invalid"]))
    shown = spoiled.sort("role", "index", "attempt").head(_MOST_INVALID_ROWS)
    rows = tuple(
        (row["words"], row["panel"], rate(_load(row)), count(row["attempt"]), row["invalid"])
        for row in shown.iter_rows(named=True)
    )
    left_out = f" (first {shown.height} of {spoiled.height})" if shown.height < spoiled.height else ""
    details = Table(
        f"Spoiled attempts{left_out}",
        (evidence.varied.name.capitalize(), "Frames", "Load", "Attempt", "Reason"),
        rows,
    )
    return text, [summary, details]


def parameters(evidence: ProfileEvidence) -> Table | None:
    """The parameters of every model that has any; None if none has."""
    return next(iter(models.parameters(evidence.models)), None)


def in_words(evidence: ProfileEvidence) -> list[tuple[str, list[str]]]:
    """Per model what it says in sentences."""
    found = []
    for name, model in evidence.models.items():
        told = getattr(model, "in_words", None)
        of = (evidence.varied.positions,) if evidence.varied.percents else ()
        if callable(told) and (sentences := [str(s) for s in told(*of)]):
            found.append((name, sentences))
    return found


_EXACTNESS: Final = {
    "pacing_error_ratio": "Largest pacing error",
    "delay_p50_ns": "Time-stamp error, median",
    "delay_p99_ns": "Time-stamp error, 99th percentile",
    "false_loss_ratio": "False loss",
    "sent": "Packets sent for this",
    "paced_limit_pps": "Highest load paced exactly",
    "max_pps": "Fastest, unpaced",
}
_BACKENDS: Final = {"xdp": "XDP", "af_packet": "AF_PACKET (slower fallback)", "sim": "simulated"}


def _flat(values: Any, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Nested facts as key, label and readable value."""
    for key, value in dict(values).items():
        path = f"{prefix}_{key}" if prefix else str(key)
        if isinstance(value, Mapping):
            yield from _flat(value, path)
        else:
            label, text = _readable(path, value)
            yield (str(key), label, text)


def _readable(key: str, value: Any) -> tuple[str, str]:
    if value is None:
        return _label(key), NOTHING
    if isinstance(value, bool):
        return _label(key), "yes" if value else "no"
    if isinstance(value, int | float):
        for suffix, shown in _UNITS:
            if key.endswith(suffix):
                return _label(key.removesuffix(suffix)), shown(float(value))
        return _label(key), f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
    if isinstance(value, list | tuple):
        return _label(key), ", ".join(str(item) for item in value) or NOTHING
    return _label(key), str(value)


def _label(key: str) -> str:
    text = " ".join(_SPELLED.get(word, word) for word in key.split("_"))
    return text[:1].upper() + text[1:]


def _load(row: Mapping[str, Any]) -> float:
    offered = row["offered_pps"]
    return float(offered if offered is not None and math.isfinite(offered) else row["achieved_pps"])


def _was(n: int) -> str:
    return "was" if n == 1 else "were"
