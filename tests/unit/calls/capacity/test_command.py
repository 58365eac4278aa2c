"""``weir capacity``, on a simulated device."""

from __future__ import annotations

import pytest

from ...conftest import Weir

SHORT = ("--lab", "sim", "--rules", "0", "--duration", "0.2", "--warmup", "0.1")


def test_fixed_numbers_of_calls_are_swept_in_one_command(weir: Weir) -> None:
    found = weir(
        "capacity", *SHORT, "--first", "500", "--last", "700", "--no-search", "--repetitions", "2", "--json"
    ).json
    assert [(loss["calls"], loss["trials"]) for loss in found["losses"]] == [(500, 2), (600, 2), (700, 2)]
    assert found["search"] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--first", "500", "--no-search"), "'last' is missing"),
        (("--step", "50"), "--step goes with --first and --last"),
        (("--mos", "good"), "--mos"),
        (("--codec", "gsm:50,g711:50"), "too few calls are good enough"),
        (("--dut", "none"), "a plain cable has no capacity"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(weir: Weir, options: tuple[str, ...], message: str) -> None:
    answer = weir("capacity", *SHORT, *options)
    assert answer.code == 2
    assert message in answer.err


def test_a_mix_of_codecs_is_sent_in_its_shares(weir: Weir) -> None:
    options = ("--first", "400", "--last", "400", "--no-search", "--repetitions", "1", "--no-rtcp")
    mixed = weir("capacity", *SHORT, *options, "--codec", "g711:20ms:50,g729:40ms:50", "--json").json
    (loss,) = mixed["losses"]
    # 0.2 s of 200 calls at 50 and 200 at 25 packets/s, both ways.
    assert loss["sent"] == pytest.approx(0.2 * 2 * (200 * 50 + 200 * 25), rel=0.01)
