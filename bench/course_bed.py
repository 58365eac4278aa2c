"""A real device in namespaces that gets the packets of a course."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.quick import QuickProfile, profile_in_turn
from weirlab.model import QueueingModel
from weirlab.model.base import F64
from weirlab.records import EngineResult, RuleSetup
from weirlab.store import Store
from weirlab.traffic.flows import FlowAddresses, table
from weirlab.traffic.plan import NO_PAYLOAD, PACKET_KINDS, CallFlows, DeparturePlan, Media
from weirlab.traffic.spec import Flows

LATEST_NS, BEFORE, LEAST, KNOWN = 100_000, 2, 3, 0.9
"""A bin counts if packets' delays of departure differ by no more in it and in so many bins before it. So many
repetitions of it are needed, and such a share of the bins."""


def profiled(device: str, positions: tuple[int, ...], frame_bytes: int, folder: Path) -> QueueingModel:
    """The model of the device on this machine, from a quick profile.

    With five repetitions: the model takes their median, as :func:`median` does with the course, so that what
    the host did to a trial is in neither. The median of two would be their mean.
    """
    wanted = QuickProfile(device, positions, (frame_bytes,), repetitions=5, lab="netns", machine="noisy")
    (outcome,) = profile_in_turn(Store(folder), [wanted], SilentProgress())
    return QueueingModel.fit(outcome.run.observations("profile"))


def plan(
    at_ns: F64, side: F64, position: F64, frame_bytes: int, warmup_s: float, bin_s: float
) -> tuple[DeparturePlan, RuleSetup]:
    """Packets from both sides, and the rules that accept them.

    Every packet is logged and may come from either side, as those of calls do.
    """
    positions = [int(each) for each in np.unique(position)]
    both = bool(side.any())
    if both or len(positions) == 1:
        rules, addresses = RuleSetup(positions[0], both_ways=both), table(Flows())
    else:
        places = tuple((each, float(i == 0)) for i, each in enumerate(positions))
        rules = RuleSetup.mixed(places)
        addresses = table(Flows(), places)
    if both:
        there = addresses
        addresses = FlowAddresses(
            np.concatenate([there.src_ip, there.dst_ip]),
            np.concatenate([there.dst_ip, there.src_ip]),
            np.concatenate([there.src_port, there.dst_port]),
            np.concatenate([there.dst_port, there.src_port]),
        )
    flow = (side if both else np.searchsorted(positions, position)).astype(np.uint32)
    n, flows, warmup_ns, bin_ns = len(at_ns), len(addresses), round(warmup_s * 1e9), round(bin_s * 1e9)
    end_ns = bin_ns * int(np.ceil((at_ns[-1] + 1) / bin_ns))
    zeros = np.zeros(flows)
    media = Media(
        kind=np.full(n, PACKET_KINDS["raw"], np.uint8),
        stamp=np.zeros(n, np.uint32),
        marker=np.zeros(n, np.bool_),
        payload=np.full(n, NO_PAYLOAD, np.uint32),
        header=np.zeros((flows, 12), np.uint8),
        header_bytes=zeros.astype(np.uint8),
        flows=CallFlows(
            back=(np.arange(flows) == 1) & both,
            carries_media=zeros == 0,
            call=zeros.astype(np.uint32),
            calls_carried=np.ones(flows, np.uint32),
            call_class=zeros.astype(np.int64),
            packet_ns=np.ones(flows, np.int64),
        ),
        payload_bytes=np.zeros(0, np.uint8),
        payload_start=np.zeros(1, np.uint32),
    )
    made = DeparturePlan(
        gap_ns=np.diff(at_ns, append=end_ns).astype(np.uint32),
        gap_frac=np.zeros(n, np.uint16),
        frame_bytes=np.full(n, frame_bytes, np.uint16),
        flow=flow,
        phases=[(end_ns, 0, n)],
        paced=True,
        warmup_ns=warmup_ns,
        duration_ns=end_ns - warmup_ns,
        bin_ns=bin_ns,
        flows=addresses,
        l4="udp",
        ip=4,
        nominal_pps=n / end_ns * 1e9,
        media=media,
    )
    return made, rules


def passages(result: EngineResult, made: DeparturePlan, at_ns: F64) -> tuple[F64, F64]:
    """Times inside and how late packets departed, in ns, by arrival. Times inside are NaN for lost packets,
    lateness is NaN for them, and infinite for packets that were not sent."""
    log = result.packets
    assert log is not None
    inside, late = np.full(len(at_ns), np.nan), np.full(len(at_ns), np.nan)
    for flow, (first, sent) in enumerate(zip(log.first_seq, result.flows.sent, strict=True)):
        (own,) = np.nonzero(made.flow == flow)
        late[own[int(first + sent) :]] = np.inf
        rows = log.flow == flow
        packets = own[log.seq[rows]]
        sent_ns = log.sent_ns[rows].astype(np.int64)
        inside[packets] = log.arrival_ns[rows].astype(np.int64) - sent_ns
        late[packets] = sent_ns - (result.record_start_ns - made.warmup_ns) - at_ns[packets]
    return inside, late


def steady(at_ns: F64, late_ns: F64, warmup_s: float, bin_s: float, count: int) -> npt.NDArray[np.bool_]:
    """Of ``count`` bins those in which, and before which, the gaps between packets were those of the course.

    A sender that the host has kept from its CPU stays late by as much: its schedule slips.
    """
    known = ~np.isnan(late_ns)
    bins = ((at_ns[known] / 1e9 - warmup_s) // bin_s).astype(np.int64)
    latest, earliest = np.full(count, -np.inf), np.full(count, np.inf)
    inside = (bins >= 0) & (bins < count)
    np.maximum.at(latest, bins[inside], late_ns[known][inside])
    np.minimum.at(earliest, bins[inside], late_ns[known][inside])
    for _ in range(BEFORE):
        latest[1:] = np.maximum(latest[1:], latest[:-1].copy())
        earliest[1:] = np.minimum(earliest[1:], earliest[:-1].copy())
    return np.asarray(np.isfinite(latest) & (latest <= earliest + LATEST_NS))


def median(frames: Sequence[pl.DataFrame], good: Sequence[npt.NDArray[np.bool_]]) -> pl.DataFrame:
    """Of every bin, over the repetitions in which it counts; NaN if these are too few."""
    counts = np.sum(good, axis=0)
    known = counts >= LEAST
    if np.mean(known) < KNOWN:
        raise SystemExit(
            f"{known.sum()} of {len(known)} bins count in {LEAST} of {len(good)} repetitions: the host keeps "
            "the sender from its CPU. End what else runs here, or raise --repetitions"
        )
    values = {}
    for name in ("mean_us", "loss_percent"):
        rows = [
            np.where(ok | ~known, frame[name].to_numpy(), np.nan)
            for frame, ok in zip(frames, good, strict=True)
        ]
        values[name] = np.where(known, np.nanmedian(rows, axis=0), np.nan)
    return frames[0].with_columns(**{name: pl.Series(column) for name, column in values.items()})
