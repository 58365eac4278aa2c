"""What shells are told to complete."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weirlab.base.programs import find
from weirlab.cli.options.completing import DEVICES
from weirlab.cli.program.app import app
from weirlab.lab import dut
from weirlab.store import Store

from ..conftest import Weir

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("numpy", "polars", "pydantic", "rich")


def completing(*words: str, store: Path) -> dict[str, str]:
    """What bash tells about a line whose last word is to be completed."""
    return {
        "WEIR_STORE": str(store), "_WEIR_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(("weir", *words)),
        "COMP_CWORD": str(len(words)),
    }  # fmt: skip


def complete(*words: str, store: Path) -> list[str]:
    """What bash is offered for the last of ``words``."""
    return CliRunner().invoke(app, env=completing(*words, store=store)).stdout.split()


@pytest.mark.parametrize(
    "words", [("rep",), ("trial", "--backend", "x"), ("trial", "--dut", "nf"), ("show", ""), ("run", "fire")]
)
def test_a_key_was_pressed_so_nothing_heavy_is_imported(words: tuple[str, ...], tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['weir']\n"
        "from weirlab.cli import main\n"
        "try: main()\n"
        f"finally: print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "python"), **completing(*words, store=tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.strip() == "[]"
    assert done.stdout.split()


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    """IDs of two runs; a file between them is none."""
    names = ["20260131-120000-trial-0001", "20260201-120000-profile-0002"]
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / "20260301-120000-trial-0003").write_text("")
    return names


def test_commands_and_options_are_completed(tmp_path: Path) -> None:
    assert complete("rep", store=tmp_path) == ["reproduce", "report"]
    assert complete("tcp", "wa", store=tmp_path) == ["watch"]
    assert complete("show", "last", "--wi", store=tmp_path) == ["--wide"]
    assert complete("trial", "--backend", "x", store=tmp_path) == ["xdp"]


def test_runs_are_completed_newest_first(tmp_path: Path, runs: list[str]) -> None:
    assert complete("show", "", store=tmp_path) == ["last", *reversed(runs)]
    assert complete("report", "20260131", store=tmp_path) == runs[:1]
    assert complete("profile", "--resume", "2026", store=tmp_path) == list(reversed(runs))
    assert complete("fit", "last", "20260201", store=tmp_path) == runs[1:]
    assert complete("show", "--store", str(tmp_path), "20260131", store=tmp_path / "no") == runs[:1]
    assert complete("show", "20", store=tmp_path / "missing") == []
    assert [each.run_id for each in Store(tmp_path).runs()] == list(reversed(runs))


def test_scenarios_and_kinds_are_completed_by_name(tmp_path: Path) -> None:
    assert complete("run", "fire", store=tmp_path) == ["firewall-rules"]
    assert complete("runs", "--kind", "prof", store=tmp_path) == ["profile"]


def test_devices_are_completed_and_are_all_that_there_are(tmp_path: Path) -> None:
    assert complete("trial", "--dut", "nft", store=tmp_path) == ["nftables", "nftables-set", "nftables-vmap"]
    assert {*DEVICES} == {"none", *dut.own()} - {"image", "ruleset"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(weir: Weir, shell: str) -> None:
    script = weir("completion", shell)
    assert script.code == 0
    assert f"_WEIR_COMPLETE=complete_{shell}" in script.out
    assert weir("completion", shell, "--json").json["script"] == script.out.rstrip("\n")
    assert weir("completion", "tcsh").code == 2


def test_bash_takes_the_script_and_offers_what_weir_says(weir: Weir, tmp_path: Path) -> None:
    if find("bash") is None:
        pytest.skip("needs bash")
    script = weir("completion", "bash").out
    asked = tmp_path / "weir"
    asked.write_text('#!/bin/sh\necho "$COMP_CWORD:$COMP_WORDS"\necho second\n')
    asked.chmod(0o755)
    test = (
        f'{script}\nCOMP_WORDS=(weir show "")\nCOMP_CWORD=2\n_weir_completion weir\necho "${{COMPREPLY[@]}}"'
    )
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", test], env={"PATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "2:weir show second"


@pytest.mark.parametrize(
    ("shell", "options", "use"),
    [
        ("fish", ["--no-config"], "complete -C 'weir trial --dut nftables-v'"),
        # Its own completion system needs a terminal: what it is called with is printed.
        (
            "zsh",
            ["-f"],
            "_arguments() { print -r -- $@ }; "
            "words=(weir trial --dut nftables-v); CURRENT=4; _weir_completion",
        ),
    ],
)
def test_other_shells_complete_a_device(
    weir: Weir, tmp_path: Path, shell: str, options: list[str], use: str
) -> None:
    if find(shell) is None:
        pytest.skip(f"needs {shell}")
    script = tmp_path / "script"
    script.write_text(weir("completion", shell).out)
    test = f"{'compdef() { : }; ' if shell == 'zsh' else ''}source {script}; {use}"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [shell, *options, "-c", test],
        env={"PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "nftables-vmap" in done.stdout
    assert "iptables-legacy" not in done.stdout
