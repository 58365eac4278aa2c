"""Stored runs whose files somebody damaged: a bad run must not hide the good ones, nor be told as one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conftest import Weir, sound
from .test_scenarios import places, trees, with_value

COMMANDS: Final = (
    ("runs",),
    ("runs", "--json"),
    ("show", "last"),
    ("show", "last", "--json"),
    ("report", "last", "--out", "damaged.html"),
    ("fit", "last"),
    ("verify", "last", "--lab", "sim"),
    ("transients", "last"),
    ("predict", "last", "--rate", "100kpps"),
    ("plan", "last", "--rules", "100"),
    ("export", "last", "--out", "damaged"),
    ("export", "last", "--out", "damaged", "--format", "parquet"),
    ("run", "--resume", "last"),
    ("profile", "--resume", "last"),
)

MODEL: Final = (("predict", "damaged.json", "--rate", "100kpps"), ("plan", "damaged.json", "--rules", "100"))

MANIFEST: Final = "manifest.json"


@st.composite
def changed(draw: st.DrawFn, document: Any) -> Any:
    """``document`` with one or two values, or keys, other than they were."""
    for _ in range(draw(st.integers(1, 2))):
        known = places(document)
        # What stands at the top matters most, and there is little of it.
        path = draw(st.sampled_from([place for place in known if len(place) <= 2]) | st.sampled_from(known))
        value = draw(trees)
        if path and draw(st.integers(0, 3)) == 0:
            around = document
            for key in path[:-1]:
                around = around[key]
            left = (
                {key: item for key, item in around.items() if key != path[-1]}
                if isinstance(around, dict)
                else around[: path[-1]]
            )
            document = with_value(document, path[:-1], left)
        else:
            document = with_value(document, path, value)
    return document


@pytest.fixture
def damaged(place: Path, run_id: str) -> Path:
    """A run of its own, to be damaged, beside the good one."""
    folder = place / "store" / f"29990101-000000-profile-{0xDEAD:04x}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(place / "store" / run_id, folder)
    return folder


def renew(damaged: Path, good: Path) -> None:
    """Every file as it was."""
    shutil.rmtree(damaged)
    shutil.copytree(good, damaged)


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(data=st.data(), command=st.sampled_from(COMMANDS))
def test_whatever_a_json_of_a_run_says_the_answer_is_sound(
    weir: Weir, damaged: Path, run_id: str, data: st.DataObject, command: tuple[str, ...]
) -> None:
    good = damaged.with_name(run_id)
    renew(damaged, good)
    names = sorted(path.name for path in good.glob("*.json"))
    name = data.draw(st.sampled_from((MANIFEST, *names)))
    document = data.draw(changed(json.loads((good / name).read_text())))
    (damaged / name).write_text(json.dumps(document))
    sound(weir(*command))
    listed = weir("runs")
    sound(listed)
    assert listed.code == 0
    assert run_id in listed.out


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(data=st.data(), command=st.sampled_from(COMMANDS))
def test_whatever_bytes_a_file_of_a_run_has_the_answer_is_sound(
    weir: Weir, damaged: Path, run_id: str, data: st.DataObject, command: tuple[str, ...]
) -> None:
    good = damaged.with_name(run_id)
    renew(damaged, good)
    file = damaged / data.draw(
        st.sampled_from(sorted(path.name for path in good.iterdir() if path.is_file()))
    )
    content = file.read_bytes()
    at = data.draw(st.integers(0, len(content)))
    file.write_bytes(
        data.draw(
            st.sampled_from(
                (b"", content[:at], content[:at] + b"\xff" + content[at + 1 :], b"[" * 100_000, b"\x00" * 64)
            )
        )
    )
    sound(weir(*command))


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(data=st.data(), command=st.sampled_from(MODEL))
def test_whatever_a_model_file_says_the_answer_is_sound(
    weir: Weir, place: Path, run_id: str, data: st.DataObject, command: tuple[str, ...]
) -> None:
    document = data.draw(changed(json.loads((place / "m.json").read_text())))
    (place / "damaged.json").write_text(json.dumps(document))
    sound(weir(*command))


@pytest.mark.parametrize("command", [("runs",), ("show", "last"), ("show", "last", "--json")])
def test_whatever_a_field_of_a_manifest_holds_the_answer_is_sound(
    weir: Weir, damaged: Path, run_id: str, command: tuple[str, ...]
) -> None:
    manifest = json.loads((damaged.with_name(run_id) / MANIFEST).read_text())
    for key in manifest:
        for value in (None, 5, [], {}, "x", [[]], {"x": None}, "\x1b[31m"):
            (damaged / MANIFEST).write_text(json.dumps({**manifest, key: value}))
            sound(weir(*command))
