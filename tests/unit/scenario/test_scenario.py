from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from weirlab import studies
from weirlab.base.errors import InputError
from weirlab.scenario import Root, from_plain
from weirlab.studies import ready
from weirlab.studies.scenarios import json_schema, load, loads

SHIPPED = [ready.paths()[name] for name in ready.names()]
MINIMAL = "name: t\nprofile: {}\n"


def problems(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        loads(text, "f.yaml")
    return str(caught.value).splitlines()


def test_the_shortest_scenario_profiles_with_the_default_plan() -> None:
    scenario = loads(MINIMAL)
    assert {0, 50, 100, 400, 1000} <= set(scenario.profile.positions)
    assert scenario.profile.repetitions == 3
    assert scenario.dut.name == "iptables"
    assert scenario.verify == ()


def test_sizes_may_be_numbers_or_words() -> None:
    scenario = loads('name: t\nprofile: {sizes: [64, imix, "64:7,594:4", poisson:64-200]}\n')
    assert scenario.profile.sizes == ("64", "imix", "64:7,594:4", "poisson:64-200")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: t\nprofile: {}\nprofil: {}\n", "f.yaml:3:1: profil: unknown key; did you mean 'profile'?"),
        (
            "name: t\nprofile:\n  postions: [1]\n",
            "f.yaml:3:3: profile.postions: unknown key; did you mean 'positions'?",
        ),
        (
            "name: t\nprofile: {}\nlab:\n  device: {quue_packets: 3}\n",
            "f.yaml:4:12: lab.device.quue_packets: unknown key; did you mean 'queue_packets'?",
        ),
        (
            "name: t\nprofile: {}\nverify:\n- positions: [1]\n  colour: red\n",
            "f.yaml:5:3: verify[0].colour: unknown key; known keys are positions, sizes, new, load_shares,",
        ),
        (
            "name: t\nprofile:\n  positions: [0, -5]\n",
            "f.yaml:3:18: profile.positions[1]: must be greater than or equal to 0 (found -5)",
        ),
        ("name: t\nprofile:\n  positions: [0, 0]\n", "f.yaml:3:14: profile.positions: 0 is listed twice"),
        ("name: t\nprofile:\n  positions: []\n", "f.yaml:3:14: profile.positions: must not be empty"),
        (
            "name: t\nprofile:\n  trial_s: -1\n",
            "f.yaml:3:12: profile.trial_s: must be greater than 0 (found -1)",
        ),
        (
            "name: t\nprofile:\n  trial_s: .nan\n",
            "f.yaml:3:12: profile.trial_s: must be a finite number (found nan)",
        ),
        (
            "name: t\nprofile:\n  load_shares: [0.5, -0.1]\n",
            "f.yaml:3:22: profile.load_shares[1]: must be greater than 0 (found -0.1)",
        ),
        (
            "name: t\nprofile:\n  sizes: [64, foo]\n",
            "f.yaml:3:15: profile.sizes[1]: frame sizes 'foo' not understood",
        ),
        (
            "name: t\nprofile:\n  sizes: 64\n",
            "f.yaml:3:10: profile.sizes: must be a list, such as [1, 2] (found 64)",
        ),
        ("name: t\n", "f.yaml:1:1: the key 'profile' is missing"),
        (
            "name: t\nprofile: {}\nverify:\n- sizes: [64]\n",
            "f.yaml:4:3: verify[0]: the key 'positions' is missing",
        ),
        ("name: t\nprofile:\n", "f.yaml:2:9: profile: must have keys (positions, sizes,"),
        (
            "name: t\nprofile: {}\ndut: {name: openvpn:aes}\n",
            "f.yaml:3:13: dut.name: OpenVPN has no suite 'aes'; suites are aes-128-gcm, ",
        ),
        ("name: t\nprofile: {}\ndut: {name: iptable}\n", "f.yaml:3:13: dut.name: no such device; there are "),
        (
            "name: t\nprofile: {}\ndut: {image: my.qcow2}\n",
            "f.yaml:3:14: dut.image: goes with the device 'image', not with 'iptables'",
        ),
        (
            "name: t\nprofile: {}\ndut: {name: image}\n",
            "f.yaml:3:6: dut: the device 'image' needs the key 'image' with the path of a file",
        ),
        (
            "name: t\nprofile: {}\ndut: {ruleset: my.rules}\n",
            "f.yaml:3:16: dut.ruleset: goes with the device 'ruleset', not with 'iptables'",
        ),
        (
            "name: t\nprofile: {}\ndut: {name: image, image: router.qcow2}\n",
            "f.yaml:2:10: profile.positions: the device 'image' has its own rules: write 'positions: [0]'",
        ),
        (
            "name: t\nprofile: {positions: [0]}\ndut: {name: image, image: router.qcow2, stateful: true}\n",
            "f.yaml:3:51: dut.stateful: the device 'image' has its own rules: leave it out",
        ),
        (
            "name: t\nprofile: {}\ndut: {name: ruleset, ruleset: my.rules}\n",
            "f.yaml:2:10: profile.positions: the device 'ruleset' has its own rules: write 'positions: [0]'",
        ),
        (
            "name: t\nprofile:\n  sizes: [64, 1518]\ntraffic: {l4: tcp}\n",
            "f.yaml:3:11: profile.sizes[0]: frame size 64 B in '64' is out of range: a TCP",
        ),
        ("- a\n- b\n", "f.yaml:1:1: a scenario consists of keys"),
        ("", "f.yaml: a scenario consists of keys"),
    ],
)
def test_a_mistake_is_named_with_line_and_column(text: str, message: str) -> None:
    (line,) = problems(text)
    assert line.startswith(message)


def test_several_mistakes_are_listed_in_the_order_of_the_file() -> None:
    head, *lines = problems("nmae: t\nprofile:\n  seed: x\n  repetitions: 0\n")
    assert head == "4 problems in f.yaml"
    assert [line.split(":")[1] for line in lines] == ["1", "1", "3", "4"]


def test_a_flood_of_mistakes_is_cut_short() -> None:
    lines = problems("name: t\nprofile: {positions: [" + ", ".join(["-1"] * 50) + "]}\n")
    assert len(lines) == 22
    assert lines[-1] == "... and 30 more"


def test_the_ruleset_is_found_beside_the_scenario(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("name: t\nprofile: {positions: [0]}\ndut: {name: ruleset, ruleset: my.rules}\n")
    assert load(file).dut.ruleset == tmp_path / "my.rules"


def test_a_scenario_survives_the_way_through_a_manifest() -> None:
    scenario = loads("name: t\nprofile: {sizes: [64, imix]}\nverify:\n- positions: [200]\n")
    assert from_plain(json.loads(scenario.model_dump_json()), "manifest") == scenario


def test_a_wrong_value_that_never_was_text_is_named_without_line() -> None:
    with pytest.raises(InputError, match=r"^the options: profile\.positions\[0\]: must be greater"):
        from_plain({"name": "t", "profile": {"positions": [-1]}}, "the options")


@pytest.mark.parametrize("file", SHIPPED, ids=lambda path: path.name)
def test_every_shipped_scenario_is_valid(file: Path) -> None:
    assert isinstance(load(file), Root)
    jsonschema.validate(yaml.safe_load(file.read_text()), json_schema())


def test_the_schema_refuses_what_the_loader_refuses() -> None:
    validator = jsonschema.Draft202012Validator(json_schema())
    validator.check_schema(json_schema())
    assert validator.is_valid({"name": "t", "profile": {"sizes": [64, "imix"]}})
    assert not validator.is_valid({"name": "t", "profile": {"postions": [1]}})
    assert not validator.is_valid({"name": "t", "profile": {"positions": [-1]}})
    assert not validator.is_valid({"name": "t"})


def test_the_published_schema_is_current() -> None:
    published = json.loads(Path(studies.__file__).with_name("scenario.schema.json").read_text())
    assert published == json_schema(), (
        "write it anew: weir schema > python/weirlab/studies/scenario.schema.json"
    )
