from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from weirlab.errors import ModelError
from weirlab.model import Piecewise, Queueing, fit_all, load, save
from weirlab.model.base import Model
from weirlab.records import Observation


@pytest.fixture(scope="module")
def models(random: list[Observation]) -> dict[str, Model]:
    return fit_all(random)


def test_every_model_is_fitted(models: dict[str, Model]) -> None:
    assert {name: type(model) for name, model in models.items()} == {
        "queueing": Queueing,
        "piecewise": Piecewise,
    }


def test_a_saved_model_predicts_as_before(models: dict[str, Model], tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    save(models, path)
    assert load(path) == models
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]


def test_the_file_names_format_and_version(models: dict[str, Model], tmp_path: Path) -> None:
    save(models, tmp_path / "model.json")
    data = json.loads((tmp_path / "model.json").read_text())
    assert (data["format"], data["version"]) == ("weir-model", 1)


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
        ('{"format": "weir-model", "version": 2, "models": {}}', "version 2"),
        ('{"format": "weir-model", "version": 1, "models": {}}', "holds no models"),
        ('{"format": "weir-model", "version": 1, "models": {"magic": {}}}', "'magic'; known are queueing"),
        ('{"format": "weir-model", "version": 1, "models": {"queueing": {}}}', "'queueing' is incomplete"),
        ('{"format": "weir-model", "version": 1, "models": {"piecewise": 3}}', "'piecewise' is incomplete"),
    ],
)
def test_damaged_files_are_refused_with_name_and_remedy(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(content)
    with pytest.raises(ModelError) as caught:
        load(path)
    assert complaint in str(caught.value)
    assert "model.json" in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere\.json.*weir fit"):
        load(tmp_path / "nowhere.json")


def test_a_failed_save_leaves_nothing_behind(models: dict[str, Model], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot write"):
        save(models, tmp_path / "missing" / "model.json")
    target = tmp_path / "taken"
    target.mkdir()
    with pytest.raises(ModelError, match="cannot write"):
        save(models, target)
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]
