"""Which attempts are made, and what they send."""

from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.calls.ipsec.endpoints.plan import EndpointScenario, EndpointsSection, ip_bytes, plan, talk
from weirlab.scenario.load import from_plain
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.encapsulation.suites import SUITES


def test_kinds_of_endpoints_take_turns_and_the_first_one_changes() -> None:
    asked = EndpointsSection(arms=("bypass", "sockets"), calls=(1, 10), repetitions=2)
    planned = plan(asked)
    assert len(planned) == len({each.key for each in planned}) == 16
    pairs = [planned[at : at + 2] for at in range(0, 16, 2)]
    for one, other in pairs:
        assert {one.arm, other.arm} == {"bypass", "sockets"}
        assert (one.beside, one.calls, one.repetition) == (other.beside, other.calls, other.repetition)
    assert [one.arm for one, _ in pairs].count("bypass") == 4
    assert [each.repetition for each in planned] == [1] * 8 + [2] * 8


def test_every_kind_of_endpoint_has_the_same_calls() -> None:
    asked = EndpointsSection(calls=(5,), warmup_s=0.1)
    one, other = (talk(asked, arm, "hog", 5, 1.0) for arm in ("bypass", "sockets"))
    for mine, theirs in zip(one.phases_ns, other.phases_ns, strict=True):
        assert mine.tolist() == theirs.tolist()
        assert all(0 <= phase < 20_000_000 for phase in mine.tolist())
    assert one.phases_ns[0].tolist() != one.phases_ns[1].tolist()
    assert (one.packets, one.warmup_packets, one.calls) == (55, 5, 5)
    assert one.lasts_s == pytest.approx(1.1)
    other_seed = talk(EndpointsSection(calls=(5,), seed=2), "bypass", "idle", 5, 1.0)
    assert other_seed.phases_ns[0].tolist() != one.phases_ns[0].tolist()


def test_packets_are_as_long_as_the_published_formulas_say_with_udp_around_esp() -> None:
    stream = parse_codec("g711")
    assert ip_bytes(stream, "", is_tunnel=False) == 200
    assert ip_bytes(stream, "aes-gcm-16", is_tunnel=False) == 236 + 8
    assert ip_bytes(stream, "aes-cbc-hmac-sha1-96", is_tunnel=True) == 264 + 8
    for suite in SUITES:
        assert ip_bytes(stream, suite.name, is_tunnel=True) > ip_bytes(stream, suite.name, is_tunnel=False)


def scenario(**asked: object) -> EndpointScenario:
    return from_plain({"name": "test", "endpoints": asked, "report": None}, "test", EndpointScenario)


def test_a_scenario_needs_nothing_but_its_key() -> None:
    asked = scenario().endpoints
    assert asked == EndpointsSection()
    assert dict(scenario().trials()) == {("endpoints",): 90}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"suite": "des"}, r"'des'.*, or none for calls in the clear"),
        ({"codec": "mp3"}, "mp3"),
        ({"arms": ["bypass", "bypass"]}, "arms"),
        ({"arms": []}, "arms"),
        ({"calls": [0]}, "calls"),
        ({"calls": [20_001]}, "calls"),
        ({"codec": "g711:200ms"}, "use a shorter packet time"),
        ({"lasts_s": 3000.0}, "at most 1,311 s are possible"),
        ({"calls": [20_000], "lasts_s": 60.0}, "too many to keep"),
        ({"limit": {"trial_s": 60.0}}, "too many to keep"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_refused_with_its_place(asked: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        scenario(**asked)
