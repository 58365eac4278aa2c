"""The page in words: up to which rate everything is recorded, and what that costs the link."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from weirlab.report.numbers import NOTHING, count, percent, plural, rate, size, words
from weirlab.report.story import Chapter, Story, place
from weirlab.report.tables import Pairs, Tile
from weirlab.studies.monitor import tables
from weirlab.studies.monitor.bed import RECORDING, WORDS
from weirlab.studies.monitor.page import figures
from weirlab.studies.monitor.page.source import Evidence, load_words

_TERMS: Final = (
    (
        "Tap, ring",
        "An XDP program forwards between two interfaces and puts a copy of each frame into a ring in "
        "memory, from which a recorder on the same host writes a file.",
    ),
    (
        "Tap, mirror",
        "The same program, whose copies leave by a third interface to a logger, which records them.",
    ),
    (
        "tcpdump on the bridge, at the receiver",
        "A bridge of the kernel in place of the tap, and tcpdump -w with its usual settings on the "
        "interface where frames come in, or where the link ends.",
    ),
    (
        "Not logged",
        "Share of the frames sent, by the sender's own count, that are not in the record's files: what the "
        "published validation calls loss. It includes frames that the link itself lost.",
    ),
    (
        "Of what came by",
        "Share of the frames that came to where the record is taken and are not in it.",
    ),
    (
        "No room at the bridge's interface",
        "The ring between cable and bridge was full, because the bridge had not finished with earlier "
        "frames: overload of the link, before any monitor.",
    ),
    (
        "Sum of the stages",
        "Every trial is checked where counters of different parts must agree: what the sender sent, what was "
        "refused, taken in, forwarded and copied, what who records saw and dropped, and what is in the "
        "files, which are read again.",
    ),
    (
        "A remainder",
        "Behind the bridge and between mirror and logger nobody counts what is lost: there it is what one "
        "counter has and the next one has not, which closes any sum. In no count: neither kept nor lost at "
        "any place.",
    ),
)


def tell(evidence: Evidence) -> Story:
    """The page about ``evidence``."""
    answer, *rest = _answer(evidence)
    return Story(
        subject=_subject(evidence),
        manifest=evidence.manifest,
        simulated=False,
        answer=answer,
        lede=tuple(rest),
        caution=_caution(evidence),
        place=place(evidence.manifest, "netns", "link monitors"),
        tiles=tuple(_tiles(evidence)),
        chapters=tuple(_chapters(evidence)),
        terms=_TERMS,
    )


def _subject(evidence: Evidence) -> str:
    """The monitors by their programs: ``link monitors: tap and tcpdump``."""
    methods = (
        evidence.trials["method"].unique(maintain_order=True).to_list() if evidence.trials.height else []
    )
    programs = dict.fromkeys(method.split("-")[0] for method in methods if method in RECORDING)
    return f"link monitors: {words(list(programs))}" if programs else "link monitors"


def _answer(evidence: Evidence) -> list[str]:
    """The rate without loss beside tcpdump, the link's price, the stall: at most three sentences."""
    said = []
    if (first := _of_search(evidence) or _of_paced(evidence)) is not None:
        said.append(first)
    if (price := _price(evidence)) is not None:
        said.append(price)
    for one in evidence.stalls:
        if one.method == "tap-ring":
            link = "lost nothing" if not one.link_lost else f"lost {count(one.link_lost)} frames"
            said.append(
                f"While the recorder stood still for {one.stalled_s:.0f} s the link {link}, and the "
                f"record named {count(one.named)} of {count(one.missing)} missing frames."
            )
    return said or list(evidence.said[:2]) or ["No trial was measured."]


def _price(evidence: Evidence) -> str | None:
    """What the link keeps of its rate with the tap's ring, as it is used and with copies never cut."""
    mine = [cost for cost in evidence.costs if cost.method == "tap-ring"]
    worst, whole = (
        min((c for c in mine if c.whole == is_whole), key=lambda c: c.ratio, default=None)
        for is_whole in (False, True)
    )
    if worst is None:
        return None
    cut = ", copies cut to 128 bytes" if worst.cut_ratio > 0 else ""
    said = (
        f"{'In overload' if worst.overload else 'As fast as the sender can'} the link with copies carries "
        f"at least {percent(worst.ratio, 3)} of what it carries without "
        f"({worst.payload_bytes:,} B payload{cut})"
    )
    if whole is not None:
        said += f", and {percent(whole.ratio, 3)} with copies whole at any price"
    return f"{said}."


def _of_search(evidence: Evidence) -> str | None:
    mine = [one for one in evidence.found if one.method == "tap-ring"]
    if not mine:
        return None
    carried = [(one.frame_bytes, one.greatest_pps) for one in mine if one.greatest_pps is not None]
    if not carried:
        return "The tap with its ring lost frames at every rate that was tried."
    # Small frames come first: there a rate is hardest.
    frame_bytes, greatest_pps = min(carried)
    lead = (
        f"Up to {rate(greatest_pps)} of {frame_bytes:,}-byte frames every frame was forwarded "
        "and logged in most trials"
    )
    for other in evidence.found:
        if (other.method, other.frame_bytes) == ("tcpdump-bridge", frame_bytes):
            if other.greatest_pps is None:
                return f"{lead}; tcpdump on the bridge lost frames at every rate that was tried."
            return f"{lead}; with tcpdump on the bridge up to {rate(other.greatest_pps)}."
    return f"{lead}."


def _of_paced(evidence: Evidence) -> str | None:
    """Without a search: losses at the first load that is not the greatest possible."""
    loads = [load for load in evidence.loads if load != "max"] or evidence.loads
    if not loads:
        return None
    worst = {
        method: max(
            (g for g in evidence.groups_at(loads[0]) if g.method == method),
            key=lambda g: g.logged_loss_ratio,
            default=None,
        )
        for method in RECORDING
    }
    told = [
        f"{WORDS[method]} {'lost nothing' if not group.logged_loss_ratio else 'lost up to '}"
        + ("" if not group.logged_loss_ratio else percent(group.logged_loss_ratio))
        for method, group in worst.items()
        if group is not None
    ]
    if not told:
        return None
    return f"Sent {load_words(loads[0])}: {'; '.join(told)}."


def _caution(evidence: Evidence) -> str:
    spoiled = evidence.trials.filter(~pl.col("valid")).height
    open_sums = evidence.valid.filter(pl.col("balance") != "").height
    parts = []
    if open_sums:
        parts.append(f"In {plural(open_sums, 'trial')} counters do not agree; they are listed at the end.")
    if remainder := _remainder(evidence):
        parts.append(f"{plural(remainder, 'frame')} got lost where nobody counts (see Notes).")
    if spoiled:
        parts.append(f"Left out: {plural(spoiled, 'attempt')} spoiled by the host.")
    return " ".join(parts)


def _remainder(evidence: Evidence) -> int:
    """Frames missing in valid trials where nobody counts."""
    columns = [name for name in ("lost_behind", "lost_logger") if name in evidence.valid.columns]
    return sum(int(evidence.valid[name].sum() or 0) for name in columns)


def _tiles(evidence: Evidence) -> Iterator[Tile]:
    for one in evidence.found:
        if one.method == "tap-ring":
            yield Tile(
                f"Without loss, {one.frame_bytes:,} B frames",
                NOTHING if one.greatest_pps is None else rate(one.greatest_pps),
                "tap with a ring: forwarded and logged",
            )
    for cost in evidence.costs:
        if cost.method == "tap-ring":
            yield Tile(
                f"Link with {'whole ' if cost.whole else ''}copies, {cost.payload_bytes:,} B",
                percent(cost.ratio, 3),
                "of the rate without copies"
                + (", in overload" if cost.overload else "; the sender set the limit")
                + (", copies cut to 128 bytes" if cost.cut_ratio > 0 else ""),
            )
    valid = evidence.valid
    if valid.height:
        closed = valid.filter(pl.col("balance") == "").height
        yield Tile(
            "Trials whose counters agree", f"{closed:,} of {valid.height:,}", "without spoiled attempts"
        )


def _chapters(evidence: Evidence) -> Iterator[Chapter]:
    yield Chapter(
        "loss",
        "Loss over payload size",
        "Loss",
        figures=tuple(figures.losses(evidence)),
        details=(tables.published(),),
    )
    yield Chapter("where", "Where frames were lost", "Where", figures=tuple(figures.where(evidence)))
    yield Chapter(
        "cost",
        "What copying costs the link",
        "Cost",
        intro=_ring_of(evidence, "copy_cost", "so that copies find room and cost what they cost")
        if evidence.costs
        else "",
        figures=tuple(figures.costs(evidence)),
    )
    yield Chapter(
        "stall",
        "When the recorder stands still",
        "Stall",
        intro=_ring_of(evidence, "stall", "too small for the pause, so that there is a gap to name")
        if evidence.stalls
        else "",
        tables=(tables.stalls(evidence),) if evidence.stalls else (),
    )
    yield Chapter("found", "What was found", "Found", said=tuple(evidence.said))
    scenario = evidence.manifest.get("scenario") or {}
    yield Chapter(
        "setting",
        "What was tested",
        "Setting",
        intro=str(scenario.get("question") or ""),
        facts=_setting(evidence),
    )
    yield Chapter(
        "numbers",
        "All numbers",
        "Numbers",
        tables=(tables.found(evidence),) if evidence.found else (),
        details=(
            *tables.groups(evidence.groups),
            *((left,) if (left := tables.left_out(evidence)) else ()),
        ),
    )


def _ring_of(evidence: Evidence, section: str, why: str) -> str:
    """How large the ring of a chapter is: it differs from that of the validation."""
    asked = ((evidence.manifest.get("scenario") or {}).get("monitor") or {}).get(section) or {}
    return f"The ring is {size(float(asked['ring_bytes']))} here: {why}." if "ring_bytes" in asked else ""


def _setting(evidence: Evidence) -> Pairs:
    manifest = evidence.manifest
    facts: Mapping[str, Any] = manifest.get("facts") or {}
    wanted: Mapping[str, Any] = (manifest.get("scenario") or {}).get("monitor") or {}
    pairs: Pairs = [
        ("Host", str(manifest.get("host") or NOTHING)),
        ("Kernel", str(manifest.get("kernel") or NOTHING)),
    ]
    if "sender_cpu" in facts:
        cpu = facts.get("recorder_cpu")
        shared = cpu is not None and cpu == facts.get("bridge_cpu")
        pairs.append(("Sender", f"CPU {facts['sender_cpu']}, packets by {facts.get('backend', NOTHING)}"))
        pairs.append(("Bridge", f"CPU {facts['bridge_cpu']}, receive work in kernel threads"))
        where = "wherever the scheduler puts it" if cpu is None else f"CPU {cpu}"
        pairs.append(("Recorder", f"{where}, shared with the bridge, which goes first" if shared else where))
    if facts.get("xdp_mode"):
        pairs.append(("Tap", f"XDP, {facts['xdp_mode']}"))
    if facts.get("tap_warnings"):
        pairs.append(("The tap warns", str(facts["tap_warnings"])))
    if facts.get("tcpdump"):
        pairs.append(("tcpdump", str(facts["tcpdump"])))
    if wanted:
        pairs.append(("Ring", size(float(wanted.get("ring_bytes") or math.nan))))
        memory = wanted.get("records") == "memory"
        pairs.append(("Records", "in memory (/dev/shm)" if memory else "on disk"))
        pairs.append(("A trial lasts", f"{wanted.get('trial_s', math.nan):g} s"))
    return pairs
