"""Options whose names changed: the former ones still work, unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.cli.options.former import FORMER

from ..calls.quality.captures import frames, pcap, talk
from ..conftest import Weir


@pytest.mark.parametrize("command", FORMER)
def test_the_help_names_the_new_options_only(weir: Weir, command: str) -> None:
    text = weir(*command.split(), "--help").out
    for old, name in FORMER[command].items():
        assert (f"{name} " in text, f"{old} " in text) == (True, False)


def test_a_script_with_the_former_name_gets_its_page(weir: Weir, tmp_path: Path) -> None:
    capture, page = pcap(tmp_path / "calls.pcap", frames(talk(200))), tmp_path / "page.html"
    answer = weir("quality", capture, "--report", page, "--json")
    assert (answer.code, page.exists(), "--report" in answer.err) == (0, True, False)
    assert (
        weir("voice", "lab", "--for", "never").code == weir("voice", "lab", "--duration", "never").code == 2
    )
    assert "No such option" not in weir("voice", "lab", "--for", "never").err
