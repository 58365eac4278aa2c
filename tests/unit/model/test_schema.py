"""The schema of model files says what the reader accepts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import weirlab.model
from weirlab.base.errors import ModelError
from weirlab.model import fit_all
from weirlab.model.io import DeviceModels, from_document, to_document
from weirlab.records import Observation

SCHEMA = json.loads((Path(weirlab.model.__file__).parent / "model.schema.json").read_text())


@pytest.fixture(scope="module")
def document(random: list[Observation]) -> dict[str, Any]:
    return to_document([DeviceModels("firewall", fit_all(random, calibrate=False), {"lab": "sim"})])


def is_valid(document: object) -> bool:
    return bool(jsonschema.Draft202012Validator(SCHEMA).is_valid(document))


def queueing(document: dict[str, Any]) -> dict[str, Any]:
    model: dict[str, Any] = document["devices"][0]["models"]["queueing"]
    return model


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_what_fit_writes_is_valid(document: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(document)


def test_files_of_version_1_are_valid_and_open(document: dict[str, Any]) -> None:
    old = {"format": "weir-model", "version": 1, "models": document["devices"][0]["models"]}
    assert is_valid(old)
    assert from_document(old, "old.json", "old")[0].name == "old"


def required(value: Any, schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of all fields that the schema requires of an object."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    for name in schema.get("required", ()):
        yield (*path, name)
    for name, inner in value.items() if isinstance(value, dict) else ():
        below = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
        if isinstance(below, dict):
            yield from required(inner, below, (*path, name))


def test_schema_and_reader_require_the_same_fields(document: dict[str, Any]) -> None:
    paths = list(required(queueing(document), SCHEMA["$defs"]["queueing"]))
    assert len(paths) > 30
    for *parents, name in paths:
        damaged = json.loads(json.dumps(document))
        place = queueing(damaged)
        for parent in parents:
            place = place[parent]
        del place[name]
        assert not is_valid(damaged), (*parents, name)
        with pytest.raises(ModelError):
            from_document(damaged, "damaged.json")


def test_a_field_that_nobody_knows_is_refused_by_both(document: dict[str, Any]) -> None:
    damaged = json.loads(json.dumps(document))
    queueing(damaged)["colour"] = "red"
    assert not is_valid(damaged)
    with pytest.raises(ModelError):
        from_document(damaged, "damaged.json")
