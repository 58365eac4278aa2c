"""What a scenario file can be about, and what those about capacity may say."""

from __future__ import annotations

import json

import jsonschema
import pytest

from weirlab.base.errors import InputError
from weirlab.calls.capacity.section import CapacityScenario
from weirlab.scenario import Scenario, from_plain
from weirlab.studies.scenarios import json_schema, loads

MINIMAL = "name: t\ncapacity: {}\n"


def refused(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        loads(text, "f.yaml")
    return str(caught.value).splitlines()


def capacity(*lines: str, rest: str = "") -> str:
    return "name: t\n" + rest + "capacity:\n" + "".join(f"  {line}\n" for line in lines)


def test_the_kind_shows_in_its_key() -> None:
    assert isinstance(loads("name: t\nprofile: {}\n"), Scenario)
    assert isinstance(loads(MINIMAL), CapacityScenario)


def test_a_file_is_about_one_thing() -> None:
    assert refused("name: t\nprofile: {}\ncapacity: {}\n") == [
        "f.yaml:3:1: capacity: the file has 'profile' already; write a file for each"
    ]


def test_a_key_that_is_nearly_right_tells_the_kind_too() -> None:
    head, missing, close = refused("name: t\ncapasity: {}\n")
    assert head == "2 problems in f.yaml"
    assert missing == "f.yaml:1:1: the key 'capacity' is missing"
    assert close == "f.yaml:2:1: capasity: unknown key; did you mean 'capacity'?"


def test_a_file_about_nothing_hears_what_there_is() -> None:
    (line,) = refused("name: t\n")
    assert line.startswith("f.yaml:1:1: the key 'profile' is missing; ")
    assert "'capacity'" in line


def test_keys_are_those_of_the_files_own_kind() -> None:
    (line,) = refused(capacity("sweeep: {}"))
    assert line == "f.yaml:3:3: capacity.sweeep: unknown key; did you mean 'sweep'?"
    (line,) = refused(MINIMAL + "verify: []\n")
    assert line.startswith("f.yaml:3:1: verify: unknown key; ")


def test_the_shortest_file_asks_what_the_thesis_asked() -> None:
    wanted = loads(MINIMAL).capacity
    assert not wanted.sweep.fixed
    assert wanted.sweep.around[0] < 1 < wanted.sweep.around[-1]
    assert wanted.sweep.repetitions == 7
    assert wanted.positions == (0, 400)
    assert (wanted.search.mos, wanted.search.good_share) == (4.0, 0.99)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (capacity("sweep: null", "search: null"), "f.yaml:3:3: capacity: neither a sweep nor a search"),
        (
            capacity("sweep: {first: 600, last: 500}"),
            "f.yaml:3:29: capacity.sweep.last: must not be below 'first' (600)",
        ),
        (
            capacity("search: {min_calls: 100, max_calls: 100}"),
            "f.yaml:3:39: capacity.search.max_calls: must be above 'min_calls' (100)",
        ),
        (
            capacity("predict: {model: last, profile: {}}"),
            "f.yaml:3:35: capacity.predict.profile: a model is named already",
        ),
        (
            capacity(rest="dut: {name: none}\n"),
            "f.yaml:2:13: dut.name: a plain cable has no capacity to find",
        ),
        (
            capacity(rest="dut: {name: ruleset, ruleset: r}\n"),
            "f.yaml:3:11: capacity.positions: the device 'ruleset' has its own rules",
        ),
        (
            capacity("search: {}", rest="calls: {codec: gsm}\n"),
            "f.yaml:4:11: capacity.search.mos: gsm reaches MOS 3.7",
        ),
        (
            capacity("search: {}", rest="calls: {codec: ilbc-20}\n"),
            "f.yaml:4:11: capacity.search.mos: ilbc-20 has no published quality",
        ),
        (
            capacity("search: {}", rest="calls: {codec: g712}\n"),
            "f.yaml:2:16: calls.codec: codec 'g712' not understood",
        ),
        (
            capacity("search: {}", rest="calls: {codec: 'g729:25ms'}\n"),
            "f.yaml:2:16: calls.codec: codec 'g729:25ms': packets of G.729 last a multiple of 10 ms",
        ),
    ],
)
def test_what_cannot_be_is_told_with_its_place(text: str, message: str) -> None:
    text = text.replace("capacity:\n", "capacity: {}\n") if text.endswith("capacity:\n") else text
    (line,) = refused(text)
    assert line.startswith(message)


def test_without_a_limit_to_quality_any_codec_can_be_searched() -> None:
    assert loads(capacity("search: {mos: null}", rest="calls: {codec: gsm}\n")).capacity.search.mos is None


def test_it_survives_the_way_through_a_manifest() -> None:
    scenario = loads(capacity("positions: [0, 7]", "predict: null", rest="calls: {transport: iax2}\n"))
    plain = json.loads(scenario.model_dump_json())
    assert from_plain(plain, "manifest", CapacityScenario) == scenario


def test_the_schema_knows_every_kind_and_mixes_none() -> None:
    validator = jsonschema.Draft202012Validator(json_schema())
    assert validator.is_valid({"name": "t", "capacity": {"positions": [0]}})
    assert validator.is_valid({"name": "t", "profile": {}})
    assert not validator.is_valid({"name": "t", "capacity": {}, "profile": {}})
    assert not validator.is_valid({"name": "t", "capacity": {"sweep": {"frist": 1}}})
