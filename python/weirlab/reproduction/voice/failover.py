"""What a failover costs a stream of packets: at ten packets a second, and at the published load one way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar, Final

from weirlab.calls.failover.study import kept
from weirlab.calls.failover.switches.rows import SwitchRow
from weirlab.publications import PublishedExperiment, publication
from weirlab.reproduction.claims import decided, near
from weirlab.reproduction.contract import Answer, Decision, ReproducedExperiment, Runs
from weirlab.store import Run
from weirlab.traffic.calls.codecs import parse_codec

if TYPE_CHECKING:
    from weirlab.report.figure import Figure
    from weirlab.report.rows import RowText

CARP: Final = (
    "ucarp, which speaks CARP, and conntrackd on Linux stand for OpenBSD's CARP and pfsync. A loss of power "
    "is the end of a firewall's daemons and links. Traffic flows one way, from one side."
)
MASTERS: Final = ("firewall1", "firewall2")
PACKETS: Final = 1_000_000
LOADED, SLOW = "at the published rate", "ten packets a second"
HAPPENS: Final[Mapping[str, str]] = {"soft": "steps down", "hard": "loses its power"}
"""What a master does, by the kind of switch."""


def pairs() -> Sequence[Mapping[str, Any]]:
    """Either firewall as the master: the backup of the first adds the published skew, that of the other none.

    Two equal skews would leave two masters, so the skews of the second pair differ by the least possible.
    """
    settings = publication("woernhard-2006").experiments["failover-soft"].settings
    least, most = settings["advskews"]
    return [
        {"protocol": "ucarp", "name": name, "advskews": [least, skew]}
        for name, skew in zip(MASTERS, (most, least + 1), strict=True)
    ]


def loaded(quick: bool) -> Mapping[str, Any]:
    """The published load, one way, with calls as its flows."""
    settings = publication("woernhard-2006").experiments["failover-soft"].settings
    codec = "g711"
    calls = {"count": round(settings["pps"] / parse_codec(codec).rate_pps), "codec": codec}
    return switched(calls, pairs(), quick)


def switched(calls: Mapping[str, Any], pairs: Sequence[Mapping[str, Any]], quick: bool) -> Mapping[str, Any]:
    """``calls`` one way, through ``pairs`` whose masters step down and lose their power."""
    settings = publication("woernhard-2006").experiments["failover-soft"].settings
    return {
        "calls": {**calls, "directions": "forward"},
        "failover": {
            "pairs": list(pairs),
            "kinds": ["soft", "hard"],
            "find_load": False,
            "repetitions": 1 if quick else settings["repetitions"],
            "event_s": 3 if quick else settings["fail_after_s"],
            "affected_s": 5,
            "after_s": 9,
        },
    }


def slow(quick: bool) -> Mapping[str, Any]:
    """A packet every tenth of a second."""
    settings = publication("woernhard-2006").experiments["failover-slow"].settings
    calls = {"count": 1, "codec": f"g711:{1e3 / settings['pps']:g}ms"}
    return switched(calls, [pairs()[0], {"protocol": "keepalived", "name": "VRRP"}], quick)


def switches(run: Run, kind: str, pair: str = "") -> Sequence[SwitchRow]:
    """The valid switches of a kind, with one pair or with all."""
    return [row for row in kept(run) if row.valid and row.kind == kind and pair in ("", row.pair)]


def glitch_ms(run: Run, kind: str, pair: str = "") -> Sequence[float]:
    """Lost packets over the packet rate, the published length of an interruption."""
    return [row.glitch_ms for row in switches(run, kind, pair)]


class SlowFailover(ReproducedExperiment):
    """Ten packets a second."""

    key = "failover-slow"
    deviations = (CARP,)

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        return {SLOW: slow(quick)}

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        if SLOW not in runs:
            return
        run = runs[SLOW]
        soft, hard = switches(run, "soft"), switches(run, "hard")
        if carp := switches(run, "soft", MASTERS[0]):
            yield Answer("soft-lost", median(row.lost for row in carp))
        if carp := switches(run, "hard", MASTERS[0]):
            lost = median(row.lost for row in carp)
            yield Answer("hard-lost", lost)
            yield Answer("hard-time", lost / published.settings["pps"])
        rule = "no packet lost in any switch"
        most = max((row.lost for row in soft), default=0)
        yield Answer(
            "soft-lossless-slow",
            decision=decided(most == 0, rule, f"at most {most} lost in {len(soft)} switches")
            if soft
            else no_switch(rule),
        )
        rule = "the median interruption is 2 to 4 advertisement intervals, with CARP and with VRRP"
        lasted = {
            name: median(row.outage_ns / 1e9 / row.advert_s for row in hard if row.pair == name)
            for name in dict.fromkeys(row.pair for row in hard)
        }
        found = ", ".join(f"{name} {intervals:.2f}" for name, intervals in lasted.items())
        holds = all(2 <= intervals <= 4 for intervals in lasted.values())
        yield Answer(
            "hard-three-adverts", decision=decided(holds, rule, found) if lasted else no_switch(rule)
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        from weirlab.report.rows import RowText
        from weirlab.reproduction.charts import beside_published

        if SLOW not in runs:
            return ()
        hard = switches(runs[SLOW], "hard")
        lost = {
            name: [float(row.lost) for row in hard if row.pair == name]
            for name in dict.fromkeys(row.pair for row in hard)
        }
        title = "Packets lost when the master loses its power, at ten packets a second."
        text = RowText("slow-lost", self.key, title, "Packets lost")
        return beside_published(text, lost, {"CARP": published.values["hard-lost"].number})


class _LoadedFailover(ReproducedExperiment):
    deviations: ClassVar[Sequence[str]] = (CARP,)

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        return {LOADED: loaded(quick)}


def interrupted(
    kind: str, published: PublishedExperiment, text: RowText, here: Mapping[str, Sequence[float]]
) -> Sequence[Figure]:
    """The interruptions of ``here`` beside those ``published``."""
    from weirlab.reproduction.charts import beside_published

    prefix = f"{kind}-glitch-"
    values = {
        value.key.removeprefix(prefix).replace("-", ", "): value.number
        for value in published.values.values()
        if value.key.startswith(prefix)
    }
    return beside_published(text, here, values)


INTERRUPTION: Final = "Interruption, ms"
SPREAD: Final = "Lost packets over the packet rate. Here: median, and from the least to the greatest."


def _by_master(kind: str, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
    """The interruptions with either firewall as master."""
    from weirlab.report.rows import RowText

    if LOADED not in runs:
        return ()
    text = RowText(
        f"{kind}-interruptions",
        published.key,
        f"Interruptions, by the master that {HAPPENS[kind]}.",
        INTERRUPTION,
        SPREAD,
    )
    here = {name: glitch_ms(runs[LOADED], kind, name) for name in MASTERS}
    return interrupted(kind, published, text, here)


class SoftFailover(_LoadedFailover):
    """The master steps down."""

    key = "failover-soft"

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        if LOADED not in runs:
            return
        run = runs[LOADED]
        sent = [row.achieved_pps for row in switches(run, "soft")]
        if sent:
            yield near(published.values["soft-rate"], median(sent), 0.01)
            yield near(published.values["soft-packets-time"], PACKETS / median(sent), 0.01)
        yield from _interruptions(run, "soft")
        soft = {name: glitch_ms(run, "soft", name) for name in MASTERS}
        together = [*soft[MASTERS[0]], *soft[MASTERS[1]]]
        longest = max(
            value.number for key, value in published.values.items() if key.startswith("soft-glitch")
        )
        perceptible = published.settings["perceptible_ms"]
        rule = f"no interruption above {longest:.0f} ms, and the median below {perceptible} ms"
        yield Answer(
            "soft-below-perceptible-mostly",
            decision=decided(
                max(together) <= longest and median(together) < perceptible,
                rule,
                f"at most {max(together):.3g} ms, median {median(together):.3g} ms",
            )
            if together
            else no_switch(rule),
        )
        yield Answer("backup-skew-matters", decision=_much_shorter(*soft.values()))
        hard = glitch_ms(run, "hard")
        rule = "the median is at most a fifth of that after a loss of power"
        yield Answer(
            "soft-shorter-than-hard",
            decision=decided(
                median(together) <= median(hard) / 5,
                rule,
                f"{median(together):.3g} ms and {median(hard):.4g} ms",
            )
            if together and hard
            else no_switch(rule),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        return _by_master("soft", runs, published)


def _much_shorter(short: Sequence[float], long: Sequence[float]) -> Decision:
    rule = "with firewall1 as master, the median is at most half of that with firewall2"
    if not short or not long:
        return no_switch(rule)
    first, second = median(short), median(long)
    return decided(first < second and first <= second / 2, rule, f"{first:.3g} ms and {second:.3g} ms")


def _interruptions(run: Run, kind: str) -> Iterator[Answer]:
    """Packets received of a million, and the interruption, with either firewall as master."""
    for name in MASTERS:
        if found := switches(run, kind, name):
            lost = median(row.lost for row in found)
            yield Answer(f"{kind}-received-dell1-{name}", PACKETS - lost)
            yield Answer(f"{kind}-glitch-dell1-{name}", median(row.glitch_ms for row in found))


def no_switch(rule: str) -> Decision:
    return Decision("cannot tell", rule, "no valid switch")


class HardFailover(_LoadedFailover):
    """The master loses its power."""

    key = "failover-hard"
    deviations = (
        CARP,
        "A backup with ucarp looks at its timer once per interval of its own. With the published skew, it "
        "takes over up to a second later than with CARP.",
    )

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        if LOADED not in runs:
            return
        run = runs[LOADED]
        hard = switches(run, "hard")
        if hard:
            yield near(published.values["hard-rate"], median(row.achieved_pps for row in hard), 0.01)
        yield from _interruptions(run, "hard")
        lasted = {name: median(ms) / 1e3 for name in MASTERS if (ms := glitch_ms(run, "hard", name))}
        if lasted:
            yield Answer("hard-expected", median(lasted.values()))
        advert_s, skew_s = published.settings["advert_s"], published.settings["advskews"][1] / 256
        low, high = 2 * advert_s, 3 * advert_s + skew_s
        rule = f"medians from {low:g} s to {high:g} s: 2 to 3 intervals, and the skew of the backup"
        found = ", ".join(f"{name} as master {seconds:.3g} s" for name, seconds in lasted.items())
        holds = all(low <= seconds <= high for seconds in lasted.values())
        yield Answer(
            "hard-two-to-three-s", decision=decided(holds, rule, found) if lasted else no_switch(rule)
        )
        rule = "every stream that was heard before is heard in the last 2 s"
        dead, streams = sum(row.dead for row in hard), sum(row.streams for row in hard)
        found = f"{dead:,} of {streams:,} streams are not"
        yield Answer(
            "traffic-continues", decision=decided(dead == 0, rule, found) if hard else no_switch(rule)
        )
        rule = "no packet is lost before the event"
        early = [row.lost_before for row in (*hard, *switches(run, "soft"))]
        found = f"{sum(early)} lost in {len(early)} switches"
        yield Answer(
            "failover-alone", decision=decided(not sum(early), rule, found) if early else no_switch(rule)
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        return _by_master("hard", runs, published)
