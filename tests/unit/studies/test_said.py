"""``weir show`` says what a command said at its end."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ..conftest import Weir


@pytest.mark.parametrize(
    "command",
    [
        "trial --lab sim --rate 100kpps --duration 0.05 --repetitions 2",
        "trial --lab sim --rate 1500kpps --rules 400 --duration 0.05",
        "calls --send --lab sim --calls 20 --codec g711 --duration 0.5 --jitter-buffer fixed:40ms",
    ],
)
def test_a_stored_run_says_what_was_said_at_its_end(command: str, weir: Weir) -> None:
    ended = weir(*command.split(), "--json")
    assert ended.code == 0, ended.err
    shown = weir("show", "last", "--json").json
    (finding,) = shown["findings"]
    assert ended.json["conclusion"].startswith(finding.removesuffix("."))
    assert weir("show", "last").out.startswith(finding)


def test_a_run_that_cannot_be_concluded_from_is_shown_all_the_same(weir: Weir, tmp_path: Path) -> None:
    made = weir(*["calls", "--send", "--lab", "sim", "--calls", "5", "--duration", "0.2", "--json"])
    assert made.code == 0, made.err
    (folder,) = (tmp_path / "store").glob("*-calls-*")
    shutil.copytree(folder, other := folder.with_name(folder.name.replace("calls", "flows")))
    manifest = other / "manifest.json"
    manifest.write_text(
        manifest.read_text().replace(folder.name, other.name).replace('"calls"', '"flows"', 1)
    )
    shown = weir("show", other.name)
    assert shown.code == 0
    assert "no installed package knows" in shown.err
    assert f"Flows {other.name} is complete" in shown.out
