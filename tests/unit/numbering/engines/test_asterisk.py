"""What Asterisk says of itself, and what the lab does with it."""

from __future__ import annotations

import pytest

from weirlab.numbering.lab import engines, switch
from weirlab.numbering.lab.probes import info

THREADS = [
    "0x7fd546f3c700 95 ooh323c_cmd_thread   started at [  206] ooh323cDriver.c ooh323c_start_stack_thread()",
    "0x7fd546ffd700 94 ooh323c_stack_thread started at [  201] ooh323cDriver.c ooh323c_start_stack_thread()",
    "0x7fd5446f5700 99 ooh323c_call_thread  started at [  165] ooh323cDriver.c ooh323c_start_call_thread()",
    "0x7fd546e7b700 96 do_monitor           started at [ 3919] chan_mgcp.c restart_monitor()",
    "40 threads listed.",
]


def test_the_threads_that_take_calls_by_h323_are_found_among_those_of_asterisk() -> None:
    assert engines.takers(THREADS) == ["95", "94"]
    assert engines.takers([]) == []


@pytest.mark.parametrize(
    ("said", "channels"),
    [
        (["No ethernet interface found", "1034 active channels", "550 active calls"], 1034),
        (["1 active channel", "0 active calls", "7 calls processed"], 1),
        (["0 active channels", "0 active calls"], 0),
        (["Unable to connect to remote asterisk"], None),
        ([], None),
    ],
    ids=["many", "one", "none", "not running", "silent"],
)
def test_channels_are_counted_as_asterisk_tells_them(said: list[str], channels: int | None) -> None:
    assert engines.channels(said) == channels


def test_a_call_that_sipp_holds_stays_up_until_an_info_with_its_call_id_comes() -> None:
    scenario = switch.held(f"<send>ACK</send>{switch.PAUSE}<send>BYE</send>", "/tmp/x y/held.log")
    assert "exec command=\"echo >> '/tmp/x y/held.log'\"" in scenario
    assert scenario.index("ACK") < scenario.index('recv request="INFO"') < scenario.index("BYE")
    asked = info("2001:db8::7", 5092, "weir-held-3").decode()
    assert asked.startswith("INFO sip:[2001:db8::7]:5092 SIP/2.0\r\n")
    assert "\r\nCall-ID: weir-held-3\r\n" in asked
    assert asked.endswith("\r\n\r\n")
