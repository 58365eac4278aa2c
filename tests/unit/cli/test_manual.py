"""The manual page that comes with the wheel."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from weirlab.base.programs import find
from weirlab.cli.program import failures
from weirlab.cli.program.app import SUMMARIES
from weirlab.cli.program.manual import page, summaries

from .test_help import COMMANDS

PAGE = Path(__file__).resolve().parents[3] / "packaging/wheel/data/share/man/man1/weir.1"


def test_the_page_says_what_the_help_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "the help has changed: make manual"


def test_the_overview_says_what_the_help_says() -> None:
    assert SUMMARIES.read_text(encoding="utf-8") == summaries(), "the help has changed: make manual"


def test_every_command_and_every_exit_code_has_its_place() -> None:
    text = page()
    lines = [line.replace("\\-", "-") for line in text.splitlines()]
    sections = [line.removeprefix(".SS ") for line in lines if line.startswith(".SS ")]
    assert sorted(sections) == sorted(f"weir {command}" for command in COMMANDS)
    assert all(f".B {code}\n" in text for code in failures.EXIT_CODES)


def test_options_have_their_values_and_their_help() -> None:
    shown = page().replace("\\-", "-")
    trial = shown.partition(".SS weir trial\n")[2].partition(".SS ")[0]
    assert "\\fB--rate\\fR \\fITEXT\\fR\nOffered load: 2Mpps" in trial
    assert "\\fB--stateful\\fR\n" in trial
    assert "\\fB--wide\\fR\n" in trial
    assert "  weir trial --dut iptables" not in trial
    assert "\nweir trial --dut iptables --rules 1000 --rate 2Mpps --duration 2 --json\n" in trial
    assert "\\fIBEFORE\\fR\nRun before the change;" in shown


def test_the_page_is_set_without_a_warning() -> None:
    if find("groff") is None:
        pytest.skip("needs groff")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww"], input=page(), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    # Bold is a letter struck twice.
    assert "EXIT STATUS" in re.sub(".\b", "", done.stdout)
