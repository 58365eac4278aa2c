"""The routing system of the CESNET network: what the plan decides, and what calls say about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from weirlab.numbering.proof.findings import ProofCallRow
from weirlab.publications import publication
from weirlab.reproduction import routing
from weirlab.reproduction.contract import Answer

from .answers import unanswered

ABOUT = publication(routing.KEY)


def answers(experiment: Any, settings: dict[str, Any] | None = None) -> dict[str, Answer]:
    published = ABOUT.experiments[experiment.key]
    if settings is not None:
        published = replace(published, settings={**published.settings, **settings})
    return {each.key: each for each in experiment.answers({}, published)}


def verdicts(found: dict[str, Answer]) -> dict[str, str]:
    return {key: answer.decision.verdict for key, answer in found.items() if answer.decision is not None}


def test_the_example_plan_has_the_published_records_and_takes_them_in_order() -> None:
    found = answers(routing.EnumLookup())
    for key, value in ABOUT.experiments["enum-lookup"].values.items():
        assert found[key].here == value.number
    assert verdicts(found) == {"domain": "holds", "sip-preferred": "holds", "h323-next": "holds"}


def test_each_published_route_is_decided_by_the_plan() -> None:
    found = verdicts(answers(routing.Figure1()))
    assert set(found) == {"ip2ip-to-sip", "ip2ip-to-h323", "asterisk", "both-ways"}
    assert set(found.values()) == {"holds"}
    other = verdicts(answers(routing.Figure1(), {"prefixes": {"ip2ip": "950059", "asterisk": "950052"}}))
    assert (other["ip2ip-to-sip"], other["asterisk"]) == ("differs", "holds")


def row(number: str, verdict: str, why: str = "", down: str = "") -> Any:
    others: dict[str, Any] = dict.fromkeys(ProofCallRow.__dataclass_fields__, "")
    return ProofCallRow(**{**others, "number": number, "verdict": verdict, "why": why, "down": down})


@pytest.mark.parametrize(
    ("rows", "verdict", "says"),
    [
        ([], "holds", "computed, not called"),
        ([("as planned", "")], "holds", "1 call went so"),
        ([("not tried", "no gateway")], "holds", "no gateway"),
        ([("as planned", ""), ("not as planned", "404 came")], "differs", "404 came"),
    ],
)
def test_calls_prove_or_refute_what_the_plan_says(rows: list[Any], verdict: str, says: str) -> None:
    made = [row("+420", *each) for each in rows]
    found = routing.proved(True, "rule", "a > b", made)
    assert found.verdict == verdict
    assert says in found.found
    assert routing.proved(False, "rule", "a > c", made).verdict == "differs"


def test_every_value_and_claim_is_answered_or_has_a_reason() -> None:
    found: dict[str, list[str]] = {each.key: [*answers(each)] for each in routing.EXPERIMENTS}
    # The load needs a run.
    assert unanswered(ABOUT, found) == ["proxy-load/thousands"]


def test_without_a_proof_there_is_no_map_and_no_chart() -> None:
    assert routing.Figure1().drawing({}) is None
    assert not routing.ProxyLoad().figures({}, ABOUT.experiments["proxy-load"])
