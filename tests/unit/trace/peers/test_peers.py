"""Weir, tshark and tcptrace on the same small captures: what is true, and why who says otherwise."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from weirlab.testing.tcp import write_pcap

from .cases import CASES, USUAL, Case, Otherwise
from .numbers import Numbers, of_tcptrace, of_tshark, of_weir, weir

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="not here: tshark")
needs_tcptrace = pytest.mark.skipif(shutil.which("tcptrace") is None, reason="not here: tcptrace")
each_case = pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])


def written(case: Case, folder: Path) -> Path:
    return write_pcap(folder / "case.pcap", case.script(), snap_bytes=case.snap_bytes)


@each_case
def test_weir_says_what_the_script_did(case: Case, tmp_path: Path) -> None:
    found = weir(written(case, tmp_path))
    assert len(found) == len(case.truth)
    for connection, truth in zip(found, case.truth, strict=True):
        numbers = of_weir(connection)
        assert {name: looked_up(connection, numbers, name) for name in truth} == truth


@needs_tshark
@each_case
def test_tshark_agrees_or_it_is_known_why_not(case: Case, tmp_path: Path) -> None:
    # Printed to the ns, of times that the file has to the ns.
    compare(case, tmp_path, of_tshark, case.tshark, within_ms=1e-4)


@needs_tcptrace
@each_case
def test_tcptrace_agrees_or_it_is_known_why_not(case: Case, tmp_path: Path) -> None:
    if case.tcptrace_blind:
        assert of_tcptrace(written(case, tmp_path)) == [], case.tcptrace_blind
        return
    # Printed to 0.1 ms.
    compare(case, tmp_path, of_tcptrace, [{**USUAL, **said} for said in case.tcptrace], within_ms=0.06)


def compare(
    case: Case,
    folder: Path,
    read: Callable[[Path], list[Numbers]],
    otherwise: Sequence[Otherwise],
    within_ms: float,
) -> None:
    path = written(case, folder)
    mine, theirs = [of_weir(connection) for connection in weir(path)], read(path)
    assert len(theirs) == len(mine)
    for me, peer, said in zip(mine, theirs, otherwise, strict=True):
        assert set(said) <= set(peer)
        for name, number in peer.items():
            within = within_ms if name.endswith("_ms") else 0
            # What one does not tell since it never came is 0 for the other.
            ours, differs = me.get(name, 0), said.get(name)
            if differs is None:
                assert number == pytest.approx(ours, abs=within), name
            else:
                theirs_by_table = pytest.approx(differs.of(ours), abs=within, rel=1e-9)
                assert number == theirs_by_table, f"{name}: {differs.because}"
                assert not math.isclose(ours, number, abs_tol=within), f"{name}: nothing to explain"


def looked_up(connection: Mapping[str, Any], numbers: Numbers, name: str) -> Any:
    """A number, or what stands at this path of the answer."""
    if name in numbers:
        return numbers[name]
    found: Any = connection
    for key in name.split("."):
        found = found[key]
    return found
