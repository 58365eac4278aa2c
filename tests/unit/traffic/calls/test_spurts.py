from __future__ import annotations

import numpy as np
import pytest

from weirlab.base.units import NS_PER_S
from weirlab.traffic.calls.media import CONVERSATION_ACTIVITY, MONOLOGUE_ACTIVITY, TalkSpurts, conversations

LENGTH_S = 60
CALLS = 2000


def talk(ways: int, seed: int = 1) -> TalkSpurts:
    return conversations(CALLS, ways, LENGTH_S * NS_PER_S, np.random.default_rng(seed))


def states(at_s: float, found: TalkSpurts, ways: int) -> np.ndarray:
    """Who talks at an instant; shape (calls, ways)."""
    at_ns = round(at_s * NS_PER_S)
    on = (found.start_ns <= at_ns) & (at_ns < found.end_ns)
    talks = np.zeros((CALLS, ways), dtype=bool)
    talks[found.unit[on], found.way[on]] = True
    return talks


def spurts_of(found: TalkSpurts) -> np.ndarray:
    """Lengths in s of the talk spurts that begin in the first half, none of which the end cuts off."""
    stream = found.unit * 2 + found.way
    joined = (stream[1:] == stream[:-1]) & (found.start_ns[1:] == found.end_ns[:-1])
    first = np.flatnonzero(np.concatenate([[True], ~joined]))
    last = np.concatenate([first[1:] - 1, [len(stream) - 1]])
    start, end = found.start_ns[first], found.end_ns[last]
    whole = (start > 0) & (start < LENGTH_S * NS_PER_S // 2)
    return (end - start)[whole] / NS_PER_S


@pytest.mark.parametrize("at_s", [0.0, 0.1, 1.0, 59.9])
def test_each_side_talks_as_often_at_any_moment_as_p59_says(at_s: float) -> None:
    talks = states(at_s, talk(2), 2)
    # 4000 sides: a standard error of 0.0078.
    assert talks.mean() == pytest.approx(CONVERSATION_ACTIVITY, abs=0.03)
    # Of the chain: 7.42 % double talk, 22.46 % mutual silence; 6.59 % and 22.48 % were measured for P.59.
    assert talks.all(axis=1).mean() == pytest.approx(0.0742, abs=0.024)
    assert (~talks.any(axis=1)).mean() == pytest.approx(0.2246, abs=0.037)


def test_the_share_of_each_state_is_that_of_the_chain() -> None:
    found = talk(2)
    spoken_s = (found.end_ns - found.start_ns).sum() / NS_PER_S
    assert spoken_s / (2 * CALLS * LENGTH_S) == pytest.approx(CONVERSATION_ACTIVITY, rel=0.01)
    assert pytest.approx(0.4248, abs=5e-4) == CONVERSATION_ACTIVITY


def test_talk_spurts_of_a_conversation_last_about_a_second() -> None:
    # (0.6 * 1.1805 + 0.4 * 0.81625) s from the chain; P.59 measured 1.004 s.
    assert spurts_of(talk(2)).mean() == pytest.approx(1.0348, rel=0.02)


def test_one_direction_alone_talks_and_pauses_as_measured() -> None:
    found = talk(1)
    spoken_s = (found.end_ns - found.start_ns).sum() / NS_PER_S
    assert spoken_s / (CALLS * LENGTH_S) == pytest.approx(MONOLOGUE_ACTIVITY, rel=0.01)
    assert pytest.approx(1.004 / 2.591) == MONOLOGUE_ACTIVITY
    lengths = spurts_of(found)
    assert lengths.mean() == pytest.approx(1.004, rel=0.02)
    # Exponential: the standard deviation is the mean.
    assert lengths.std() == pytest.approx(1.004, rel=0.03)
    assert states(0.0, found, 1).mean() == pytest.approx(MONOLOGUE_ACTIVITY, abs=0.044)


@pytest.mark.parametrize("ways", [1, 2])
def test_stretches_of_a_side_do_not_overlap(ways: int) -> None:
    found = talk(ways)
    assert (found.end_ns > found.start_ns).all()
    assert found.start_ns.min() >= 0
    assert found.end_ns.max() <= LENGTH_S * NS_PER_S
    stream = found.unit * ways + found.way
    assert (np.diff(stream) >= 0).all()
    same = stream[1:] == stream[:-1]
    assert (found.start_ns[1:][same] >= found.end_ns[:-1][same]).all()


def test_nobody_talks_where_there_are_no_calls() -> None:
    found = conversations(0, 2, NS_PER_S, np.random.default_rng(1))
    assert len(found.unit) == 0
