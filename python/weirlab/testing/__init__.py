"""A test bed made of formulas, and records made by hand: for tests that need no network.

Nothing here reads a clock or draws a random number; the same call gives the same bytes.
"""

from weirlab.testing.bed import FakeBed, FakeDevice, Trouble
from weirlab.testing.clock import FakeClock
from weirlab.testing.results import make_call_table, make_record, make_result, make_spec

__all__ = [
    "FakeBed",
    "FakeClock",
    "FakeDevice",
    "Trouble",
    "make_call_table",
    "make_record",
    "make_result",
    "make_spec",
]
