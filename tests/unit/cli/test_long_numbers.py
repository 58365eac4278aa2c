"""Python refuses to read whole numbers of more than 4,300 digits, with an error that nobody expects."""

from __future__ import annotations

import pytest

from ..conftest import Weir

MANY = "9" * 5000


@pytest.mark.parametrize(
    "arguments",
    [
        ["trial", "--rate", "1kpps", "--places", f"{MANY}:1"],
        ["trial", "--rate", "1kpps", "--sizes", MANY],
        ["trial", "--rate", "1kpps", "--sizes", f"{MANY}:1,64:1"],
        ["trial", "--rate", "1kpps", "--sizes", f"poisson:64-{MANY}"],
        ["trial", "--rate", "1kpps", "--rules", "1", "--position-step", f"1:{MANY}"],
        ["trial", "--rate", "1kpps", "--flows", MANY],
        ["profile", "--rules", MANY],
        ["calls", "--calls", MANY],
        ["calls", "--transport", f"iax2-trunk*{MANY}"],
        ["calls", "--line", f"{MANY}G"],
        ["trace", "x.pcap", "--from", MANY],
        ["trace", "x.pcap", "--from", f"@{MANY}"],
        ["trace", "x.pcap", "--period", f"{MANY}s"],
        ["quality", "x.pcap", "--codec", f"96=opus/{MANY}"],
        ["plan", "x.json", "--given", f"frame={MANY}"],
        ["verify", "last", "--repetitions", MANY],
    ],
)
def test_a_number_of_5000_digits_is_bad_input_wherever_it_stands(weir: Weir, arguments: list[str]) -> None:
    answer = weir(*arguments)
    assert answer.code == 2, answer.err
    assert len(answer.err) < 800
