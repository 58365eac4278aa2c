"""Medians of repetitions, which comparisons take by the thousand."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weirlab.model.comparing import matching

groups = st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), min_size=1, max_size=8)


@given(groups)
def test_medians_of_groups_are_those_that_numpy_takes_of_each(parts: list[list[float]]) -> None:
    values = np.array([value for part in parts for value in part])
    group = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    expected = [float(np.median(part)) for part in parts]
    assert matching._medians(values, group).tolist() == expected
    assert [matching._median(np.array(part)) for part in parts] == expected
