"""Test doubles for tests without a network: a test bed made of formulas, and handmade records and captures.

Nothing here reads a clock or draws an unseeded random number: the same call gives the same bytes.
"""

from weirlab.testing.bed import FakeBed, FakeClock, FakeDevice, TrialDisturbance, disturbed
from weirlab.testing.results import SMALL_PROFILE, make_call_table, make_record, make_result, make_spec
from weirlab.testing.tcp import TcpConversation, TcpSide, write_pcap

__all__ = [
    "SMALL_PROFILE", "FakeBed", "FakeClock", "FakeDevice", "TcpConversation", "TcpSide", "TrialDisturbance",
    "disturbed", "make_call_table", "make_record", "make_result", "make_spec", "write_pcap",
]  # fmt: skip
