"""Many captures: a row for each, the same whoever assesses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.calls.quality.wording import CaptureHearing, CaptureHearings

from ...campaigns.conftest import LocalCluster, cluster  # noqa: F401
from ...conftest import Weir
from .captures import frames, later, pcap, talk, without

SILENT = Path(__file__).parents[4] / "examples/captures/backup.pcapng.zst"


@pytest.fixture
def archive(tmp_path: Path) -> list[Path]:
    """A capture without loss, one with loss and a second stream, one without voice, and one that is none."""
    lossy = [*without(talk(500, jitter_us=2000), range(20, 480, 24))]
    lossy += [later(p, 15_000) for p in talk(500, ssrc=2, src_port=6000, payload_type=97)]
    damaged = tmp_path / "damaged.pcap"
    damaged.write_bytes(b"no capture")
    clean = pcap(tmp_path / "clean.pcap", frames(talk(500)))
    return [clean, pcap(tmp_path / "lossy.pcap", frames(lossy)), SILENT, damaged]


def test_every_capture_is_a_row_with_what_it_says_by_itself(weir: Weir, archive: list[Path]) -> None:
    answer = weir("quality", "--each", *archive, "--json")
    assert (answer.code, answer.json["valid"]) == (2, False)
    clean, lossy, silent, damaged = answer.json["captures"]
    alone = weir("quality", archive[1], "--json").json
    assert lossy["mos_min"] == min(one["mos"] for one in alone["streams"] if one["mos"] is not None)
    assert lossy["loss_ratio_max"] == max(one["loss_ratio"] for one in alone["streams"])
    assert lossy["packets"] == alone["capture"]["packets"]
    assert (lossy["streams"], lossy["without_mos"], lossy["below_satisfied"]) == (2, 1, 1)
    assert (clean["streams"], clean["loss_ratio_max"], clean["below_satisfied"]) == (1, 0, 0)
    assert (silent["streams"], silent["problem"], silent["mos_min"]) == (0, "", None)
    assert silent["packets"] > 0
    assert str(archive[3]) in damaged["problem"]
    assert f"in {archive[1]}" in answer.json["conclusion"]


def test_a_capture_that_cannot_be_read_holds_no_zeros() -> None:
    found = CaptureHearing("damaged.pcap", "it is no capture")
    (row,) = CaptureHearings((found,)).table(1).rows
    assert row == ("damaged.pcap", *["–"] * 9, "it is no capture")


def test_workers_assess_byte_for_byte_as_one_process(
    weir: Weir,
    archive: list[Path],
    cluster: LocalCluster,  # noqa: F811
) -> None:
    command = ("quality", "--each", *archive * 12, "--codec", "97=g711", "--delay", "40", "--json")
    here = weir(*command)
    cluster.worker()
    cluster.wait_for(1)
    one = weir(*command, "--cluster", cluster.url)
    workers = [cluster.worker() for _ in range(2)]
    cluster.wait_for(3)
    workers[0].kill()
    three = weir(*command, "--cluster", cluster.url)
    assert here.out == one.out == three.out
    assert (here.code, one.code, three.code) == (2, 2, 2)


def test_workers_share_one_capture_and_answer_byte_for_byte(
    weir: Weir,
    archive: list[Path],
    tmp_path: Path,
    cluster: LocalCluster,  # noqa: F811
) -> None:
    command = ("quality", archive[1], "--codec", "97=g711", "--delay", "40", "--require", "loss<1%", "--json")
    here = weir(*command)
    workers = [cluster.worker(), cluster.worker()]
    cluster.wait_for(2)
    two = weir(*command, "--cluster", cluster.url, "--out", tmp_path / "two.html")
    assert (here.out, here.code) == (two.out, two.code)
    assert here.code == 9
    assert (tmp_path / "two.html").stat().st_size > 10_000
    workers[0].kill()
    silent = weir("quality", SILENT, "--cluster", cluster.url)
    assert (silent.code, "no voice" in silent.err) == (2, True)
    assert weir("quality", "-", "--cluster", cluster.url).code == 2


@pytest.mark.parametrize(
    "option", [("--stream", "1"), ("--out", "a.html"), ("--require", "mos>=4"), ("--delay", "-1")]
)
def test_options_about_one_capture_do_not_go_with_each(
    weir: Weir, archive: list[Path], option: tuple[str, str]
) -> None:
    assert weir("quality", "--each", archive[0], *option).code == 2
    assert "--each" in weir("quality", *archive[:2]).err
    assert weir("quality", "--each", "-").code == 2
