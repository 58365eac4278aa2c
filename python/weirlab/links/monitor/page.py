"""The page about link monitors: up to which rate everything is recorded, and what that costs the link."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from weirlab.links.monitor import figures, tables
from weirlab.links.monitor.plan import CUT_BYTES, RECORDING, WORDS
from weirlab.links.monitor.tables import MonitorEvidence, load_words
from weirlab.report.numbers import NOTHING, count, percent, plural, rate, size, words
from weirlab.report.story import Chapter, Story, place, setting, with_more
from weirlab.report.tables import Pairs, Tile

_TERMS: Final = (
    (
        "Tap, ring",
        "An XDP program forwards frames between two interfaces and copies each of them into a ring in "
        "memory. A recorder on the same host writes the copies to a file.",
    ),
    (
        "Tap, mirror",
        "The same program, but the copies leave by a third interface. A logger at its far end records them.",
    ),
    (
        "tcpdump on the bridge, at the receiver",
        "The kernel's bridge takes the place of the tap. tcpdump -w, with its default settings, records on "
        "the interface where frames enter the bridge, or at the end of the link.",
    ),
    (
        "Not logged",
        "Share of the frames sent, by the sender's own count, that are not in the record's files. The "
        "published validation calls this loss. It includes frames lost on the link itself.",
    ),
    (
        "Missed by the record",
        "Share of the frames that reached the point where the record is taken, and are not in it.",
    ),
    (
        "Bridge's receive ring full",
        "The bridge was still busy with earlier frames. The link itself is overloaded, and these frames are "
        "lost before any monitor sees them.",
    ),
    (
        "Counters agree",
        "In every trial the counters of all stages must add up: frames sent, refused, received, forwarded "
        "and copied, frames that the recorder saw and dropped, and frames in the files (read once more).",
    ),
    (
        "Not counted",
        "Behind the bridge, and between mirror and logger, there is no counter of losses. A loss there is "
        "the difference between the counters on both sides, so that these always agree.",
    ),
    ("In no count", "Neither kept nor lost at any known place."),
)


def tell(evidence: MonitorEvidence) -> Story:
    """The page about ``evidence``."""
    answer, *rest = _answer(evidence)
    return Story(
        subject=_subject(evidence),
        manifest=evidence.manifest,
        answer=answer,
        lede=tuple(rest),
        caution=_caution(evidence),
        place=place(evidence.manifest, "netns", "link monitors"),
        tiles=tuple(_tiles(evidence)),
        # A scenario asks for some of the parts.
        chapters=tuple(chapter for chapter in _chapters(evidence) if not chapter.empty),
        terms=_TERMS,
    )


def _subject(evidence: MonitorEvidence) -> str:
    """The monitors by their programs: ``link monitors: tap and tcpdump``."""
    programs = dict.fromkeys(row.method.split("-")[0] for row in evidence.rows if row.method in RECORDING)
    return f"link monitors: {words(list(programs))}" if programs else "link monitors"


def _answer(evidence: MonitorEvidence) -> list[str]:
    """The rate without loss beside tcpdump's, what copying costs, the stall: at most three sentences."""
    said = []
    if (first := _of_search(evidence) or _of_paced(evidence)) is not None:
        said.append(first)
    if (price := _price(evidence)) is not None:
        said.append(price)
    for one in evidence.stalls:
        if one.method == "tap-ring":
            link = "lost nothing" if not one.link_lost else f"lost {count(one.link_lost)} frames"
            said.append(
                f"While the recorder was stalled for {one.stalled_s:.1f} s, the link {link}; the record "
                f"misses {count(one.missing)} frames and reports {count(one.named)} of them as missing."
            )
    return said or list(evidence.headlines[:2]) or ["No trial was measured."]


def _price(evidence: MonitorEvidence) -> str | None:
    """What the link keeps of its rate with the tap's ring, as it is used and with copies never cut."""
    mine = [cost for cost in evidence.costs if cost.method == "tap-ring"]
    worst, whole = (
        min((c for c in mine if c.whole == is_whole), key=lambda c: c.ratio, default=None)
        for is_whole in (False, True)
    )
    if worst is None:
        return None
    cut = f", copies cut to {CUT_BYTES} bytes" if worst.cut_ratio > 0 else ""
    said = (
        f"{'In overload' if worst.overload else 'At the greatest rate of the sender'}, the link with copies "
        f"carries at least {percent(worst.ratio, 3)} of what it carries without "
        f"({worst.payload_bytes:,} B payload{cut})"
    )
    if whole is not None:
        said += f", and {percent(whole.ratio, 3)} with copies that are never cut"
    return f"{said}."


def _of_search(evidence: MonitorEvidence) -> str | None:
    mine = [one for one in evidence.found if one.method == "tap-ring"]
    if not mine:
        return None
    carried = [(one.frame_bytes, one.greatest_pps) for one in mine if one.greatest_pps is not None]
    if not carried:
        return "The tap with a ring lost frames at every rate that was tried."
    # Small frames are the hardest.
    frame_bytes, greatest_pps = min(carried)
    lead = (
        f"At up to {rate(greatest_pps)} of {frame_bytes:,}-byte frames, the tap with a ring forwarded and "
        "logged every frame in most trials"
    )
    for other in evidence.found:
        if (other.method, other.frame_bytes) == ("tcpdump-bridge", frame_bytes):
            if other.greatest_pps is None:
                return f"{lead}; tcpdump on the bridge lost frames at every rate that was tried."
            return f"{lead}; tcpdump on the bridge did at up to {rate(other.greatest_pps)}."
    return f"{lead}."


def _of_paced(evidence: MonitorEvidence) -> str | None:
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


def _caution(evidence: MonitorEvidence) -> str:
    spoiled = len(evidence.rows) - len(evidence.valid)
    disagree = sum(bool(row.balance) for row in evidence.valid)
    parts = []
    if disagree:
        parts.append(f"Counters do not agree in {plural(disagree, 'trial')}, listed under All numbers.")
    if uncounted := sum(row.remainder for row in evidence.valid):
        parts.append(f"{plural(uncounted, 'frame')} disappeared where losses are not counted (see Notes).")
    if spoiled:
        parts.append(f"Left out: {plural(spoiled, 'attempt')} spoiled by the host.")
    return " ".join(parts)


def _tiles(evidence: MonitorEvidence) -> Iterator[Tile]:
    for one in evidence.found:
        if one.method == "tap-ring":
            yield Tile(
                f"Without loss, {one.frame_bytes:,} B frames",
                rate(one.greatest_pps),
                "tap with a ring: forwarded and logged",
            )
    for cost in evidence.costs:
        if cost.method == "tap-ring":
            yield Tile(
                f"Link with {'whole ' if cost.whole else ''}copies, {cost.payload_bytes:,} B",
                percent(cost.ratio, 3),
                "of the rate without copies"
                + (", in overload" if cost.overload else "; the sender set the limit")
                + (f", copies cut to {CUT_BYTES} bytes" if cost.cut_ratio > 0 else ""),
            )
    if valid := evidence.valid:
        agree = sum(not row.balance for row in valid)
        yield Tile("Trials whose counters agree", f"{agree:,} of {len(valid):,}", "without spoiled attempts")


def _chapters(evidence: MonitorEvidence) -> Iterator[Chapter]:
    lost = list(figures.losses(evidence))
    of_record = [figure for figure in lost if figure.key.endswith("-by")]
    yield with_more(
        Chapter("loss", "Loss over payload size", "Loss", details=(tables.published(),)),
        [figure for figure in lost if figure not in of_record],
        of_record,
        "Of the frames that reached the record",
    )
    fates = list(figures.where(evidence))
    yield with_more(
        Chapter("where", "Where frames were lost", "Where"), fates[:1], fates[1:], "At other loads"
    )
    yield Chapter(
        "cost",
        "What copying costs the link",
        "Cost",
        intro=_ring_of(
            evidence, "copy_cost", "large enough for every copy, so that copying shows its full cost"
        )
        if evidence.costs
        else "",
        figures=tuple(figures.costs(evidence)),
    )
    yield Chapter(
        "stall",
        "When the recorder stalls",
        "Stall",
        intro=_ring_of(
            evidence,
            "stall",
            "too small for the pause, so that frames go missing and the record has to report them",
        )
        if evidence.stalls
        else "",
        tables=(tables.stalls(evidence),) if evidence.stalls else (),
    )
    yield Chapter("found", "All findings", "Findings", said=tuple(evidence.headlines), folded=True)
    yield setting(_setting(evidence))
    yield Chapter(
        "numbers",
        "All numbers",
        "Numbers",
        tables=(tables.found(evidence),) if evidence.found else (),
        details=(*tables.groups(evidence), *((left,) if (left := tables.left_out(evidence)) else ())),
        folded=True,
    )


def _ring_of(evidence: MonitorEvidence, section: str, why: str) -> str:
    """How large the ring of a chapter is: it differs from that of the validation."""
    asked = ((evidence.manifest.get("scenario") or {}).get("monitor") or {}).get(section) or {}
    return f"The ring is {size(float(asked['ring_bytes']))} here: {why}." if "ring_bytes" in asked else ""


def _setting(evidence: MonitorEvidence) -> Pairs:
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
        pairs.append(("Bridge", f"CPU {facts['bridge_cpu']}, frames processed by kernel threads"))
        where = "wherever the scheduler puts it" if cpu is None else f"CPU {cpu}"
        pairs.append(
            ("Recorder", f"{where}, shared with the bridge, which has priority" if shared else where)
        )
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
