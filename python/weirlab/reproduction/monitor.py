"""The link monitor of Chertov and Fahmy: a flood of packets at the rate of its link, and who loses what."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from weirlab.links.monitor import figures, study
from weirlab.links.monitor.rows import MonitorRow
from weirlab.publications import PublishedExperiment, publication
from weirlab.report.figure import Figure
from weirlab.reproduction import claims
from weirlab.reproduction.charts import CourseText, courses
from weirlab.reproduction.contract import Answer, Decision, ReproducedExperiment, Runs
from weirlab.store import Run
from weirlab.transfers.tcp.measure.captured import EACH_ONCE
from weirlab.transfers.tcp.study import kept as transfers

KEY: Final = "chertov-link-monitor"
TCPDUMP: Final = "tcpdump-receiver"
TRANSFER: Final = "transfer"
FLOOD: Final = "flood"
OVERLOAD: Final = "overload"
BUFFERS_KIB: Final = (256, 2048, 16_384, 131_072)
"""tcpdump's own choice among them."""

_NOTHING_MISSING: Final = "nothing was missing in any run"
COMMON: Final = (
    "Sender, bridge and recorder are network namespaces of one machine. The record is tcpdump's where the "
    "link ends, on a node that does not forward; Weir's own mirror and logger stand beside it in the chart.",
)


def _parts(**own: Any) -> Mapping[str, Any]:
    """A scenario with the validation alone, unless ``own`` has more."""
    return {"monitor": {"stall": None, "search": None, "copy_cost": None, **own}}


def rows_of(run: Run, part: str, method: str, payload: int | None = None) -> list[MonitorRow]:
    """The valid trials of one part and method."""
    return [
        row
        for row in study.evidence(run).valid
        if (row.part, row.method) == (part, method) and payload in (None, row.payload_bytes)
    ]


def average(values: Sequence[float]) -> float:
    """As the publication gives; NaN for nothing."""
    return float(np.mean(values)) if values else math.nan


class TcpTransfer(ReproducedExperiment):
    """A TCP connection over a link of the published rate, recorded where the link ends."""

    key = "tcp-transfer"
    deviations = (
        "The TCP transfer crosses an emulated link (weir link) and is recorded at its end: the monitor's own "
        "test bed has no TCP connection.",
    )

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        asked = publication(KEY).experiments[self.key].settings
        path = {"up": {"rate": f"{asked['link_mbit_s']}Mbps", "queue": "20ms"}, "both": {"delay": "100us"}}
        transfer = {
            "path": path,
            "lasts": "5s" if quick else "60s",
            "congestion": "reno",
            "capture": "receiver",
        }
        return {TRANSFER: {"tcp": transfer}}

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        if TRANSFER not in runs:
            return
        kept = transfers.read(runs[TRANSFER])
        capture = kept.captures["server"]
        missing = capture.lost_packets + capture.left_out_packets
        rate = kept.directions[0].throughput_bps / 8e6
        yield claims.near(published.values["rate"], rate, 0.1)
        yield claims.near(published.values["missing"], float(missing), 0)
        rule = "the record lacks no packet, and has every byte that the sender's kernel sent"
        counted = [row for row in kept.agreement if (row.place, row.quantity) == ("receiver", EACH_ONCE)]
        if not counted:
            yield Answer("complete", decision=Decision(claims.UNKNOWN, rule, "nothing was recorded"))
            return
        [row, *_] = counted
        found = f"{missing:,} packets missing; {row.capture:,.0f} of {row.kernel:,.0f} bytes in the record"
        yield Answer("complete", decision=claims.decided(row.agrees and not missing, rule, found))


class Flood(ReproducedExperiment):
    """Six payloads at the rate of the link."""

    key = "udp-flood"
    deviations = (
        *COMMON,
        "The sender keeps to the rate that the published link carries, gaps and preambles included; it "
        "counts for itself what it sends.",
    )

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        asked = publication(KEY).experiments[self.key].settings
        return {
            FLOOD: _parts(
                methods=[TCPDUMP, "tap-mirror"],
                payloads=asked["payloads_bytes"],
                loads=[f"{asked['link_mbit_s']}Mbps"],
                runs=3 if quick else asked["runs"],
                trial_s=1 if quick else asked["run_s"],
            )
        }

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        if FLOOD not in runs:
            return
        asked = published.settings
        flood = {
            payload: rows_of(runs[FLOOD], "validation", TCPDUMP, payload)
            for payload in asked["payloads_bytes"]
        }
        sent = {p: average([row.sent / row.duration_s * 60 for row in rows]) for p, rows in flood.items()}
        arrived = {
            p: average([row.received / row.duration_s * 60 for row in rows]) for p, rows in flood.items()
        }
        recorded = {
            p: average([(row.logged or 0) / row.duration_s * 60 for row in rows]) for p, rows in flood.items()
        }
        missing = {p: average([row.logged_loss_ratio for row in rows]) for p, rows in flood.items()}
        for payload in published.series("sent"):
            yield claims.near(published.values[f"sent@{payload:g}"], sent[round(payload)], 0.01)
        for payload in published.series("recorded"):
            yield claims.beside(f"recorded@{payload:g}", recorded[round(payload)])
        for name, value in published.values.items():
            what, _, payload_text = name.partition("-")
            if what == "missing":
                yield claims.beside(name, 100 * missing[int(payload_text)])
            if what == "throughput":
                octets = int(payload_text) + asked["header_bytes"]
                yield claims.near(value, recorded[int(payload_text)] / 60 * octets / 1e6, 0.03)
        yield from _claims(sent, arrived, recorded, missing)
        wire = {f"{p} B": sent[p] / 60 * _wire_bytes(p) * 8 / 1e6 / asked["link_mbit_s"] for p in flood}
        rule = "from payload to payload, 0.98 to 1.01 of the rate of the link, headers and gaps included"
        yield Answer("rate-by-size", decision=claims.within(wire, 0.98, 1.01, rule))

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        if FLOOD not in runs:
            return ()
        minute = {
            name: {
                payload: average([count(row) / row.duration_s * 60 for row in rows])
                for payload in published.settings["payloads_bytes"]
                if (rows := rows_of(runs[FLOOD], "validation", TCPDUMP, payload))
            }
            for name, count in (("sent", _sent), ("recorded", _logged))
        }
        text = CourseText(
            "packets-a-minute", self.key, "", "Packets sent and recorded in a minute, over the payload.",
            "payload, bytes", "packets/min", log=True,
        )  # fmt: skip
        series = {f"{name}, here": [*points.items()] for name, points in minute.items()}
        series |= {f"{name}, published": [*published.series(name).items()] for name in minute}
        return (*courses(text, series), *figures.losses(study.evidence(runs[FLOOD])))


def _sent(row: MonitorRow) -> int:
    return row.sent


def _logged(row: MonitorRow) -> int:
    return row.logged or 0


def _wire_bytes(payload: int) -> int:
    """On Ethernet: headers, check sequence, preamble and gap."""
    return max(payload + 14 + 20 + 8, 60) + 4 + 20


def _claims(
    sent: Mapping[int, float],
    arrived: Mapping[int, float],
    recorded: Mapping[int, float],
    missing: Mapping[int, float],
) -> Iterator[Answer]:
    payloads = sorted(missing)
    gaps = [arrived[p] - recorded[p] for p in payloads]
    shape = claims.monotone(payloads, [missing[p] for p in payloads], falling=True)
    yield Answer("falls-with-size", decision=_unless_nothing(missing, shape))
    growth = claims.monotone([arrived[p] for p in payloads], gaps)
    yield Answer("grows-with-rate", decision=_unless_nothing(missing, growth))
    worst = {f"{p} B": 100 * missing[p] for p in payloads}
    rule = "average below 1 % missing at every payload"
    yield Answer("below-one-percent", decision=claims.within(worst, -math.inf, 1 - 1e-9, rule))
    least = payloads[0]
    rule = "with the smallest payload, all packets arrive and some are not recorded"
    if math.isnan(missing[least]):
        yield Answer("arrived-not-recorded", decision=Decision(claims.UNKNOWN, rule, "no valid measurement"))
    else:
        lost, gap = sent[least] - arrived[least], arrived[least] - recorded[least]
        found = (
            f"per minute, {lost:,.1f} of {sent[least]:,.1f} did not arrive and {gap:,.1f} are not recorded"
        )
        yield Answer("arrived-not-recorded", decision=claims.decided(lost == 0 < gap, rule, found))


def _unless_nothing(missing: Mapping[int, float], decision: Decision) -> Decision:
    """Records without a loss have no shape."""
    if all(value == 0 for value in missing.values()):
        return Decision(claims.UNKNOWN, decision.rule, _NOTHING_MISSING)
    return decision


class Design(ReproducedExperiment):
    """Recorders on the forwarder, that stand still, and with larger buffers."""

    key = "design"
    deviations = (
        *COMMON,
        "Who is slow is made so: a recorder is stopped for two seconds, a bridge gets more packets than it "
        "can forward.",
    )

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        runs = 3 if quick else 10
        few = {"payloads": [10], "loads": ["max"], "runs": runs, "trial_s": 0.5 if quick else 2}
        overload = _parts(
            methods=["tap-bare", "tap-mirror", "plain-bridge", "tcpdump-bridge"],
            stall={"methods": ["tap-mirror"], "repetitions": runs},
            **few,
        )
        buffers = {
            f"buffer-{size}": _parts(methods=[TCPDUMP], tcpdump_buffer_kib=size, **few)
            for size in BUFFERS_KIB
        }
        return {OVERLOAD: overload, **buffers}

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        if OVERLOAD in runs:
            yield Answer("on-the-forwarder", decision=_forwarder(runs[OVERLOAD]))
            yield Answer("slow-recorder", decision=_slow(runs[OVERLOAD]))
        if missing := _by_buffer(runs):
            shape = claims.monotone([*missing], [*missing.values()], falling=True)
            yield Answer("larger-buffer", decision=_unless_nothing(missing, shape))

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        text = CourseText(
            "buffers", self.key, "", "Packets that tcpdump does not record, over the size of its buffer.",
            "buffer, MiB", "missing, %",
        )  # fmt: skip
        missing = [(size / 1024, 100 * ratio) for size, ratio in _by_buffer(runs).items()]
        return courses(text, {"here": missing})


def _by_buffer(runs: Runs) -> Mapping[int, float]:
    """Mean share that is missing, by KiB of tcpdump's buffer."""
    return {
        size: average([row.logged_loss_ratio for row in rows_of(runs[name], "validation", TCPDUMP)])
        for size in BUFFERS_KIB
        if (name := f"buffer-{size}") in runs
    }


def _forwarder(run: Run) -> Decision:
    """What the bridge still forwards in overload, with tcpdump on it and with nobody who records."""
    rates = {
        method: [row.forwarded_pps for row in rows_of(run, "validation", method)]
        for method in ("tcpdump-bridge", "plain-bridge", "tap-mirror", "tap-bare")
    }
    names = ("packets forwarded with tcpdump on the bridge", "without")
    own = claims.ratio(rates["tcpdump-bridge"], rates["plain-bridge"], 0.0, 0.98, names)
    apart = average(rates["tap-mirror"]) / average(rates["tap-bare"])
    beside = f"; with a logger apart, the tap forwards {apart:.3g} of what it does without"
    return Decision(own.verdict, own.rule, own.found + ("" if math.isnan(apart) else beside))


def _slow(run: Run) -> Decision:
    rule = "a stopped recorder: packets missing in the record, none on the link; overload: some on the link"
    stopped = rows_of(run, "stall", "tap-mirror")
    overload = rows_of(run, "validation", "tap-bare")
    if not stopped or not overload:
        return Decision(claims.UNKNOWN, rule, "no valid measurement")
    link = sum(row.sent - row.received for row in stopped)
    record = sum(row.sent - (row.logged or 0) for row in stopped)
    lost = average([row.link_loss_ratio for row in overload])
    found = (
        f"stopped: link {link:,}, record {record:,} missing; in overload, the link loses {100 * lost:.3g} %"
    )
    return claims.decided(link == 0 < record and lost > 0, rule, found)


EXPERIMENTS: Final = (TcpTransfer(), Flood(), Design())
