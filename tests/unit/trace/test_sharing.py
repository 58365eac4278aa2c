"""A capture that several processes read says what it says to one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import InputError
from weirlab.trace.analysis import TraceSettings, analyse, analyse_share, merge
from weirlab.trace.facts import Analysis

CAPTURES = sorted((Path(__file__).parents[3] / "examples/captures").glob("*.zst"))
# Several files are one capture here, with connections of each.
TOGETHER = [[path] for path in CAPTURES] + [CAPTURES]


def plain(analysis: Analysis) -> dict[str, Any]:
    return {**analysis, "connections": list(analysis["connections"]), "elapsed_ns": 0}


@pytest.mark.parametrize("many", [1, 2, 7])
@pytest.mark.parametrize("paths", TOGETHER, ids=lambda paths: f"{len(paths)}-{paths[0].name}")
@pytest.mark.parametrize("settings", [{}, {"filter": "port 443"}, {"keep": 3}], ids=str)
def test_all_shares_give_the_answer_of_one_process(
    paths: list[Path], many: int, settings: TraceSettings
) -> None:
    shares = [analyse_share([str(path) for path in paths], settings, (n, many)) for n in range(many)]
    whole = analyse(paths, **settings)
    assert plain(merge(shares, paths, settings.get("keep", 100_000))) == plain(whole)


def test_each_share_follows_connections_of_its_own() -> None:
    shares = [analyse_share([str(path) for path in CAPTURES], {}, (n, 2)) for n in range(2)]
    assert len({len(share["connections"]) for share in shares}) == 2
    assert min(len(share["connections"]) for share in shares) > 100


def test_shares_of_different_captures_are_refused() -> None:
    shares = [analyse_share([str(CAPTURES[n])], {}, (n, 2)) for n in range(2)]
    with pytest.raises(InputError, match="different captures"):
        merge(shares, CAPTURES[:1])


@pytest.mark.parametrize("share", [(2, 2), (0, 0)])
def test_a_share_that_does_not_exist_is_refused(share: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="share"):
        analyse(CAPTURES[0], share=share)
