from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from weirlab.base.errors import InputError, ModelError, StoreError
from weirlab.model import (
    DeviceModels,
    LohmillerModel,
    PiecewiseModel,
    QueueingModel,
    fit_all,
    load,
    load_devices,
    save,
    save_devices,
)
from weirlab.model.base import Model
from weirlab.model.io import pick, to_document
from weirlab.records import Observation


@pytest.fixture(scope="module")
def models(random: list[Observation]) -> dict[str, Model]:
    return fit_all(random)


def plain(models: dict[str, Model]) -> object:
    """What there is to compare: models hold arrays."""
    return to_document([DeviceModels("any", models)])


def test_every_model_is_fitted(models: dict[str, Model]) -> None:
    assert {name: type(model) for name, model in models.items()} == {
        "queueing": QueueingModel,
        "piecewise": PiecewiseModel,
        "lohmiller": LohmillerModel,
    }


def test_a_saved_model_predicts_as_before(models: dict[str, Model], tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    save(models, path)
    assert plain(load(path)) == plain(models)
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]


def test_the_file_names_format_and_version(models: dict[str, Model], tmp_path: Path) -> None:
    save(models, tmp_path / "model.json")
    data = json.loads((tmp_path / "model.json").read_text())
    assert (data["format"], data["version"]) == ("weir-model", 2)


def test_several_devices_keep_names_facts_and_models(models: dict[str, Model], tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    devices = [
        DeviceModels(
            "iptables-legacy", models, {"kernel": "6.1", "positions": [0, 100], "calibration": None}
        ),
        DeviceModels("nftables", {"queueing": models["queueing"]}),
    ]
    save_devices(devices, path)
    assert to_document(load_devices(path)) == to_document(devices)


def test_a_file_of_version_1_is_one_device_named_after_the_file(
    models: dict[str, Model], tmp_path: Path
) -> None:
    path = tmp_path / "old.model.json"
    save(models, path)
    data = json.loads(path.read_text())
    path.write_text(
        json.dumps({"format": "weir-model", "version": 1, "models": data["devices"][0]["models"]})
    )
    assert to_document(load_devices(path)) == to_document([DeviceModels("old", models)])
    assert plain(load(path)) == plain(models)


def test_of_several_devices_one_must_be_named(models: dict[str, Model], tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    save_devices([DeviceModels("a", models), DeviceModels("b", models)], path)
    with pytest.raises(ModelError, match=r"devices\.json holds 2 devices; choose one with --device: a, b"):
        load(path)
    with pytest.raises(ModelError, match="no device 'c'; there is a, b"):
        pick(load_devices(path), "c", "devices.json")
    assert pick(load_devices(path), "b", "devices.json").name == "b"


def test_two_devices_of_one_name_are_refused(models: dict[str, Model], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="several devices called a"):
        save_devices([DeviceModels("a", models), DeviceModels("a", models)], tmp_path / "devices.json")
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_known_survives_as_not_known(random: list[Observation], tmp_path: Path) -> None:
    models = fit_all(replace(o, jitter_ns=float("nan")) for o in random)
    save(models, tmp_path / "model.json")
    for model in load(tmp_path / "model.json").values():
        found = model.predict(1e5, 64, 100)
        assert found.jitter_ns != found.jitter_ns
        assert found.delay_mean_ns > 0


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "not a model file"),
        ("[1, 2]", "'format' must be 'weir-model'"),
        ('{"format": "weir-model", "version": 3, "models": {}}', "version 3 of the model format"),
        ('{"format": "weir-model", "version": 2, "models": {}}', "holds no devices"),
        ('{"format": "weir-model", "version": 2, "devices": [{"models": {}}]}', "a device without a name"),
        ('{"format": "weir-model", "version": 2, "devices": [{"name": "a"}]}', "device 'a' holds no models"),
        (
            '{"format": "weir-model", "version": 2, "devices": [{"name": "a", "facts": 3}]}',
            "facts of device 'a' are damaged",
        ),
        (
            '{"format": "weir-model", "version": 2, "devices": [{"name": "a", "models": {"queueing": 1}}]}',
            "device 'a': model 'queueing' is incomplete",
        ),
        ('{"format": "weir-model", "version": 1, "models": {}}', "holds no models"),
        ('{"format": "weir-model", "version": 1, "models": {"magic": {}}}', "'magic'; known are queueing"),
        ('{"format": "weir-model", "version": 1, "models": {"queueing": {}}}', "'queueing' is incomplete"),
        ('{"format": "weir-model", "version": 1, "models": {"piecewise": 3}}', "'piecewise' is incomplete"),
    ],
)
def test_damaged_files_are_refused_with_name_and_remedy(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(content)
    with pytest.raises((InputError, ModelError)) as caught:
        load(path)
    assert complaint in str(caught.value)
    assert "model.json" in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.json.*weir fit"):
        load(tmp_path / "nowhere.json")


def test_a_failed_save_leaves_nothing_behind(models: dict[str, Model], tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot write"):
        save(models, tmp_path / "missing" / "model.json")
    target = tmp_path / "taken"
    target.mkdir()
    with pytest.raises(InputError, match="that is a folder"):
        save(models, target)
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize("kind", ["queueing", "piecewise", "lohmiller"])
def test_a_list_or_mapping_in_place_of_a_number_is_refused_when_read(
    kind: str, models: dict[str, Model], tmp_path: Path
) -> None:
    path = tmp_path / "model.json"
    document = to_document([DeviceModels("any", {kind: models[kind]})])
    fields = document["devices"][0]["models"][kind]
    numbers = [name for name, value in fields.items() if isinstance(value, float)]
    assert numbers
    for name in numbers:
        for wrong in ({}, [1.0]):
            kept = fields[name]
            fields[name] = wrong
            path.write_text(json.dumps(document))
            fields[name] = kept
            with pytest.raises(ModelError, match=f"model '{kind}' is incomplete, damaged"):
                load(path)
