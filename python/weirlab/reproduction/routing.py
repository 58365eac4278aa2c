"""The routing system of the CESNET network: its example of ENUM, its prefixes, and the load of its proxy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.quantities import plural, words
from weirlab.numbering.load import study as load_study
from weirlab.numbering.plan import load, ready
from weirlab.numbering.plan.values import owner_name
from weirlab.numbering.proof import study as proof_study
from weirlab.numbering.proof.chart import MAP, Chart
from weirlab.numbering.proof.findings import NOT_AS_PLANNED, ProofCallRow
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import calls
from weirlab.numbering.routing.wording import CallRoute
from weirlab.publications import PublishedExperiment, publication
from weirlab.reproduction import claims
from weirlab.reproduction.contract import Answer, Decision, ReproducedExperiment, Runs

if TYPE_CHECKING:
    from weirlab.report.figure import Figure
    from weirlab.report.graphs import Drawing

KEY: Final = "cesnet-routing-2007"
EXAMPLE: Final = "cesnet"
NETWORK: Final = "cesnet-network"
PROOF: Final = "calls"
LOAD: Final = "load"

_ENGINES: Final = (
    "Kamailio, BIND, Asterisk and Weir's gatekeeper stand for SER, the name server, the gateways and GnuGK, "
    "each in its own network namespace.",
    "Every route is computed from a plan (weir voice example cesnet, cesnet-network), and proved by a call "
    "where the engines are installed.",
)


def network(plan: str) -> PlanNetwork:
    """A plan that comes with Weir, as of today."""
    return _network(plan, date.today())


@lru_cache(maxsize=2)
def _network(plan: str, day: date) -> PlanNetwork:
    return PlanNetwork(load(ready.FOLDER / f"{plan}.yaml"), day)


def ways(plan: str, number: str, caller: str | None = None) -> Sequence[CallRoute]:
    """All ways of a call, the first one first."""
    return [*calls(network(plan), number, caller)]


def _proof(plan: str) -> Mapping[str, Mapping[str, Any]]:
    return {PROOF: {"voice": {"plan": plan, "partly": True}}}


def rows(runs: Runs) -> Sequence[ProofCallRow]:
    """The calls of a proof; empty if there was none."""
    return proof_study.stored(runs[PROOF]).rows if PROOF in runs else ()


def proved(is_planned: bool, rule: str, way: str, made: Sequence[ProofCallRow]) -> Decision:
    """The plan's own decision, and what calls say about it, if there were any."""
    failed = [row for row in made if row.verdict == NOT_AS_PLANNED]
    good = [row for row in made if row.proved]
    untried = dict.fromkeys(row.why for row in made if not row.proved and row not in failed)
    parts = [way]
    if good:
        parts.append(f"{plural(len(good), 'call')} went so")
    parts += [f"{row.number}: {row.why}" for row in failed]
    if not good and not failed:
        parts.append(f"computed, not called: {words([*untried]) or 'there was no proof'}")
    return claims.decided(is_planned and not failed, rule, "; ".join(parts))


class EnumLookup(ReproducedExperiment):
    """One number with two records."""

    key = "enum-lookup"
    deviations = _ENGINES

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        return _proof(EXAMPLE)

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        asked = published.settings
        number = asked["number"]
        found = ways(EXAMPLE, number)
        # The record that decides is the last one of a way.
        records = [
            [step for step in way.steps if step.what == "record"][-1].facts
            for way in found
            if any(step.what == "record" for step in way.steps)
        ]
        for name, record in zip(("sip", "h323"), records, strict=False):
            for what in ("order", "preference"):
                yield Answer(f"{name}-{what}", float(record[what]))
        host = asked["sip"].partition("@")[2]
        [service, *_] = [
            each for each in network(EXAMPLE).plan.domains[host].services if each.target == asked["host"]
        ]
        for what in ("priority", "weight", "port"):
            yield Answer(f"srv-{what}", float(getattr(service, what)))
        name = owner_name(number.lstrip("+"), "e164.arpa").rstrip(".")
        rule = f"the name asked for {number} is {asked['domain']}"
        yield Answer("domain", decision=claims.decided(name == asked["domain"], rule, name))
        made = [row for row in rows(runs) if row.number == number]
        for key, place, uri, down in (
            ("sip-preferred", 0, asked["sip"], False),
            ("h323-next", 1, asked["h323"], True),
        ):
            here = str(records[place]["uri"]) if place < len(records) else "nothing"
            rule = f"record {place + 1} in order that is tried leads to {uri}"
            of_case = [row for row in made if bool(row.down) == down]
            yield Answer(key, decision=proved(here == uri, rule, here, of_case))


class Figure1(ReproducedExperiment):
    """The prefixes of two gateways."""

    key = "figure-1"
    deviations = _ENGINES

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        return _proof(NETWORK)

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        made = [row for row in rows(runs) if not row.down]
        prefixes = {
            name: f"+{published.settings['country']}{prefix}"
            for name, prefix in published.settings["prefixes"].items()
        }
        tests = [test for test in network(NETWORK).plan.tests if test.answer == 200]
        by_call = {
            (test.number, test.caller or network(NETWORK).plan.caller): ways(
                NETWORK, test.number, test.caller
            )
            for test in tests
        }
        checks = {
            "ip2ip-to-sip": (
                prefixes["ip2ip"],
                ("ip2ip", "ser"),
                "from the gatekeeper's side, its prefix goes from the gateway to the SIP proxy",
            ),
            "ip2ip-to-h323": (
                None,
                ("ip2ip", "gk"),
                "from the SIP proxy's side, other prefixes go from the gateway to the gatekeeper",
            ),
            "asterisk": (
                prefixes["asterisk"],
                ("asterisk",),
                "from both sides, its prefix goes to Asterisk, and no other does",
            ),
        }
        directions: dict[str, Decision] = {}
        for key, (prefix, through, rule) in checks.items():
            mine = {
                call: found[0]
                for call, found in by_call.items()
                if found and _passes(found[0].engines, through)
            }
            fits = bool(mine) and all(
                way.end.good and (call[0].startswith(prefix) if prefix else not _own(call[0], prefixes))
                for call, way in mine.items()
            )
            if key == "asterisk":
                fits = fits and {way.engines[1] for way in mine.values()} == {"ser", "gk"}
            shown = words([*dict.fromkeys(" > ".join(way.engines) for way in mine.values())])
            of_calls = [row for row in made if (row.number, row.caller) in mine]
            directions[key] = proved(fits, rule, shown, of_calls)
            yield Answer(key, decision=directions[key])
        both = {"H.323 to SIP": directions["ip2ip-to-sip"], "SIP to H.323": directions["ip2ip-to-h323"]}
        rule = "calls from each side are answered on the other"
        yield Answer("both-ways", decision=claims.every(both, rule))

    def drawing(self, runs: Runs) -> Drawing | None:
        """The network of the figure, with the ways of the calls."""
        from weirlab.numbering.proof.drawing import drawn

        if PROOF not in runs or not runs[PROOF].has(MAP):
            return None
        return drawn(runs[PROOF].get_json(MAP, Chart.of), rows(runs))


def _passes(engines: Sequence[str], through: Sequence[str]) -> bool:
    """Whether a call goes through these engines one after the other."""
    size = len(through)
    return any(tuple(engines[at : at + size]) == tuple(through) for at in range(len(engines)))


def _own(number: str, prefixes: Mapping[str, str]) -> bool:
    return any(number.startswith(prefix) for prefix in prefixes.values())


class ProxyLoad(ReproducedExperiment):
    """Calls per second of the proxy, with its look-up in ENUM."""

    key = "proxy-load"
    deviations = (
        *_ENGINES,
        "SIPp, which calls and answers, shares the CPUs with the proxy; a rate below a thousand says nothing "
        "about the proxy alone.",
    )
    LEAST_PER_S: Final = 1000
    """Thousands."""

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        number = publication(KEY).experiments["enum-lookup"].settings["number"]
        asked = {
            "plan": EXAMPLE,
            "numbers": [number],
            "lowest": 250 if quick else 100,
            "highest": 4000,
            "width": 0.2 if quick else 0.05,
            "trial_s": 3 if quick else 10,
            "trials": 1 if quick else 3,
            "media_calls": 0,
        }
        return {LOAD: {"voice_load": asked}}

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        if LOAD not in runs:
            return
        rule = f"at least {self.LEAST_PER_S:,} calls/s without a bad call in a hundred"
        [limit, *_] = load_study.stored(runs[LOAD]).limits
        if limit.carried_per_s >= self.LEAST_PER_S:
            least = "at least " if limit.at_least else ""
            found = f"{least}{limit.carried_per_s:,.0f} calls/s"
            yield Answer("thousands", decision=claims.decided(True, rule, found))
        else:
            rate = f"{limit.carried_per_s:,.0f} calls/s with SIPp on the same CPUs"
            found = limit.problem or limit.no_load or rate
            yield Answer("thousands", decision=Decision(claims.UNKNOWN, rule, found))

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        from weirlab.reproduction.charts import CourseText, courses

        if LOAD not in runs:
            return ()
        trials = load_study.stored(runs[LOAD]).trials
        text = CourseText(
            "set-up-times", self.key, "", "Set-up times of calls, over their rate.", "calls/s", "ms", log=True
        )
        return courses(
            text,
            {
                "median": [(row.rate_per_s, row.setup_p50_ms) for row in trials],
                "99th percentile": [(row.rate_per_s, row.setup_p99_ms) for row in trials],
            },
        )


EXPERIMENTS: Final = (EnumLookup(), Figure1(), ProxyLoad())
