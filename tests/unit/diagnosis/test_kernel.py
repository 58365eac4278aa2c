"""Samples of a kernel whose limit is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weirlab.diagnosis import kernel
from weirlab.diagnosis.diagnosing import diagnose
from weirlab.diagnosis.finding import Diagnosis

from .made import MSS, RTT_S, samples

HALF = 200


def found(
    receiver: kernel.Receiver | None = None, target_bps: float | None = None, **columns: object
) -> Diagnosis:
    read = kernel.read(*samples(**columns), receiver)
    assert read is not None
    diagnosis = diagnose(*read, target_bps=target_bps)
    assert diagnosis is not None
    assert sum(each.share for each in diagnosis.findings) == pytest.approx(1, abs=0.01)
    return diagnosis


def half(first: float, then: float) -> np.ndarray:
    """Two seconds, each with a value of its own."""
    return np.where(np.arange(2 * HALF + 1) < HALF, first, then)


NOTHING_TO_SEND: dict[str, object] = {
    "notsent_bytes": 0,
    "unacked": 20,
    "wqueue_bytes": 20 * MSS,
    "skmem_wmem_queued_bytes": 30 * MSS,
}


def behind_queue(rtt_us: float, segments: object = None) -> dict[str, object]:
    """100 segments per least round trip are delivered; as many are in flight as the longer one takes."""
    held = np.asarray(rtt_us / RTT_S / 1e4 if segments is None else segments)
    return {"rtt_us": rtt_us, "unacked": held, "snd_cwnd": held, "wqueue_bytes": (200 + held) * MSS}


@pytest.mark.parametrize(
    ("cause", "columns"),
    [
        ("application_write", NOTHING_TO_SEND),
        ("send_buffer", {**NOTHING_TO_SEND, "skmem_sndbuf_bytes": 30 * MSS}),
        ("receive_window", {"snd_wnd_bytes": 100 * MSS}),
        (
            "window_scaling",
            {"snd_wnd_bytes": 64 * MSS, "unacked": 64, "wqueue_bytes": 264 * MSS, "options": 3},
        ),
        ("loss", {"total_retrans": 3}),
        ("slow_start", {"snd_ssthresh": 0x7FFF_FFFF, "snd_cwnd": 100 + np.arange(401) / 20}),
        ("slow_start", {"snd_cwnd": 100 + np.arange(401) / 20}),
        ("marks", {"delivered_ce": np.arange(401) // 4}),
        (
            "timeout",
            {"ca_state": 4, "delivered": np.arange(401) // 100, "total_retrans": np.arange(401) // 100},
        ),
        ("sender_host", {"unacked": 20, "wqueue_bytes": 220 * MSS}),
        ("pacing", {"unacked": 20, "wqueue_bytes": 220 * MSS, "max_pacing_rate_bytes_per_s": 1e6}),
        ("bottleneck", behind_queue(80_000)),
        ("reordering", {"total_retrans": np.arange(401) / 4, "dsack_dups": np.arange(401) / 4}),
        (
            "nagle",
            {"notsent_bytes": 300, "unacked": 1, "wqueue_bytes": 600, "skmem_wmem_queued_bytes": 2_000},
        ),
    ],
)
def test_each_cause_is_named_by_what_only_it_does(cause: str, columns: dict[str, object]) -> None:
    diagnosis = found(**columns)
    assert diagnosis.main.key == cause
    assert diagnosis.share(cause) > 0.95
    assert diagnosis.findings[0].evidence


BBR: dict[str, object] = {
    "seconds": 4.0,
    "unacked": 50,
    "wqueue_bytes": 250 * MSS,
    # BBR has none.
    "snd_ssthresh": 0x7FFF_FFFF,
    "bbr_bandwidth_bytes_per_s": 100 * MSS / RTT_S,
    "bbr_pacing_gain_256ths": 256,
    "pacing_rate_bytes_per_s": 100 * MSS / RTT_S,
}


def test_a_congestion_window_that_stays_the_same_is_not_growing() -> None:
    assert found().share("unknown") > 0.95
    diagnosis = found(snd_cwnd=half(100, 110))
    assert diagnosis.main.key == "unknown"
    # For some round trips after the only step nobody knows that it is the last.
    assert 0.1 < diagnosis.share("slow_start") < 0.5


def test_a_congestion_window_that_has_stopped_growing_is_held() -> None:
    diagnosis = found(snd_ssthresh=0x7FFF_FFFF, snd_cwnd=half(100, 110), unacked=half(100, 110))
    assert (diagnosis.main.key, diagnosis.findings[0].confidence) == ("cwnd_limit", "high")
    # Until some round trips have passed, at the start and after the step, nobody knows that it is held.
    assert 0.05 < diagnosis.share("slow_start") < 0.5
    # A full receive window, or loss, is the limit instead.
    assert found(snd_ssthresh=0x7FFF_FFFF, snd_wnd_bytes=100 * MSS).main.key == "receive_window"
    assert found(snd_ssthresh=0x7FFF_FFFF, total_retrans=3).main.key == "loss"


@pytest.mark.parametrize(("starting", "confidence"), [(0.2, "medium"), (0.8, "high")])
def test_the_larger_part_of_a_cause_decides_how_sure_it_is(starting: float, confidence: str) -> None:
    at = np.arange(401)
    threshold = np.where(at < starting * 401, 0x7FFF_FFFF, 50)
    diagnosis = found(snd_ssthresh=threshold, snd_cwnd=100 + at / 20)
    assert (diagnosis.main.key, diagnosis.findings[0].confidence) == ("slow_start", confidence)


def test_a_cause_that_another_one_looks_like_is_never_certain() -> None:
    bottleneck = found(**behind_queue(80_000))
    assert (bottleneck.main.key, bottleneck.findings[0].confidence) == ("bottleneck", "medium")
    assert "other traffic took part of the bottleneck" in [each.what for each in bottleneck.blind]
    window = found(snd_wnd_bytes=100 * MSS)
    assert (window.main.key, window.findings[0].confidence) == ("receive_window", "high")


def test_marks_of_a_queue_that_is_seen_are_the_bottlenecks() -> None:
    assert found(**behind_queue(80_000), delivered_ce=np.arange(401) // 4).main.key == "bottleneck"


def test_marks_of_long_ago_limit_nothing() -> None:
    assert found(delivered_ce=7).share("marks") == 0
    once = np.where(np.arange(1_601) < 400, 0, 1)
    assert found(delivered_ce=once, seconds=8.0).share("marks") == pytest.approx(64 * RTT_S / 8, abs=0.02)


def test_what_bbr_probes_in_vain_is_the_capacity() -> None:
    diagnosis = found(**BBR)
    assert diagnosis.main.key == "bottleneck"
    assert diagnosis.share("bottleneck") > 0.95
    assert diagnosis.sentence.endswith("it carries 16.0 Mbit/s of payload, as BBR's probes found.")
    # Its congestion window is always below the threshold; its start-up is over.
    assert diagnosis.share("slow_start") == 0
    assert found(**{**BBR, "bbr_pacing_gain_256ths": 739}).main.key == "slow_start"


def test_bbr_that_still_finds_more_is_held_back_by_its_own_pace() -> None:
    growing = np.linspace(0.3, 1.0, 801) * 100 * MSS / RTT_S
    diagnosis = found(**{**BBR, "bbr_bandwidth_bytes_per_s": growing})
    assert diagnosis.main.key == "pacing"
    assert "BBR sent at 16.0 Mbit/s, from its estimate of the path's capacity" in diagnosis.sentence
    # Where much less leaves than the pace allows, the host is late.
    slow = {"bbr_bandwidth_bytes_per_s": growing, "pacing_rate_bytes_per_s": 1e9}
    assert found(**{**BBR, **slow}).main.key == "sender_host"


def test_a_limit_of_the_socket_is_no_estimate_of_the_path() -> None:
    limit = 100 * MSS / RTT_S
    diagnosis = found(**{**BBR, "max_pacing_rate_bytes_per_s": limit})
    assert diagnosis.main.key == "pacing"
    assert diagnosis.findings[0].confidence == "high"
    assert diagnosis.sentence == (
        "100 % of the time pacing held data back: the socket's limit of 16.0 Mbit/s (SO_MAX_PACING_RATE) was "
        "reached."
    )
    assert diagnosis.summary.capacity_bps is None


def test_the_sentence_has_window_round_trip_and_what_would_be_needed() -> None:
    said = found(target_bps=200e6, snd_wnd_bytes=100 * MSS).sentence
    assert said == (
        "100 % of the time the receiver's window was full: its buffer of 100 kB allows 16.0 Mbit/s at an "
        "RTT of 50.0 ms; 1.2 MB would be needed for 200 Mbit/s."
    )


def test_shares_are_those_of_the_time_and_not_of_the_samples() -> None:
    times, fields = samples(notsent_bytes=half(0, 200 * MSS), total_retrans=1)
    # The second half is sampled ten times less often.
    kept = np.concatenate([np.arange(HALF), np.arange(HALF, 2 * HALF + 1, 10)])
    read = kernel.read(times[kept], {name: values[kept] for name, values in fields.items()})
    assert read is not None
    diagnosis = diagnose(*read)
    assert diagnosis is not None
    assert diagnosis.share("application_write") == pytest.approx(0.5, abs=0.01)
    assert diagnosis.share("loss") == pytest.approx(0.5, abs=0.01)


def test_a_window_that_fell_is_a_reader_that_does_not_read() -> None:
    window = half(500 * MSS, 0)
    diagnosis = found(snd_wnd_bytes=window, unacked=half(100, 0), wqueue_bytes=half(300 * MSS, 200 * MSS))
    assert diagnosis.share("application_read") == pytest.approx(0.5, abs=0.02)
    assert "the scheduler of the receiver's host was not sampled" in [each.why for each in diagnosis.blind]


def test_probes_of_a_closed_window_are_neither_losses_nor_reordering() -> None:
    probes = np.minimum(np.arange(2 * HALF + 1) // 50, 3)
    diagnosis = found(
        snd_wnd_bytes=half(0, 500 * MSS),
        unacked=half(0, 100),
        wqueue_bytes=half(200 * MSS, 300 * MSS),
        total_retrans=probes,
        dsack_dups=probes,
    )
    assert diagnosis.share("application_read") == pytest.approx(0.5, abs=0.02)
    assert diagnosis.share("reordering") == diagnosis.share("loss") == 0


def test_a_reader_that_waits_for_a_cpu_is_told_from_one_that_does_not_read() -> None:
    times, _ = samples()
    receiver = kernel.Receiver(times, np.full(401, 300.0 * MSS), np.full(401, 0.9))
    starved = found(receiver, snd_wnd_bytes=50 * MSS, unacked=50, wqueue_bytes=250 * MSS)
    assert starved.main.key == "receiver_host"
    lazy = kernel.Receiver(times, np.full(401, 300.0 * MSS), np.full(401, 0.01))
    read = found(lazy, snd_wnd_bytes=50 * MSS, unacked=50, wqueue_bytes=250 * MSS)
    assert read.main.key == "application_read"


def test_others_in_the_bottleneck_are_told_by_what_the_transfer_had_alone() -> None:
    # A queue stands all the time; in the second half only a third is delivered.
    acked = np.cumsum(half(10_000, 3_300))
    columns = behind_queue(90_000, half(180, 60))
    diagnosis = found(**columns, bytes_acked=acked, bytes_sent=acked + 100 * MSS)
    assert diagnosis.share("foreign") == pytest.approx(0.5, abs=0.06)
    assert diagnosis.share("bottleneck") == pytest.approx(0.5, abs=0.06)
    alone = found(**behind_queue(90_000))
    assert "own and foreign" in " ".join(each.why for each in alone.blind)


def test_without_a_queue_the_rate_says_nothing_of_the_capacity() -> None:
    assert found(total_retrans=3).summary.capacity_bps is None
    assert found(**behind_queue(80_000)).summary.capacity_bps == pytest.approx(
        100 * MSS * 8 / RTT_S, rel=0.05
    )


def test_the_kernels_counters_are_shown_and_said_to_be_wrong_where_they_are() -> None:
    diagnosis = found(**NOTHING_TO_SEND)
    assert diagnosis.counters == pytest.approx(
        {"application": 0, "receiver": 0, "send_buffer": 0, "network": 1}, abs=0.01
    )
    assert [each.split(":")[0] for each in diagnosis.counters_wrong] == ["application", "network"]
    assert found(total_retrans=3).counters_wrong == ()


def test_a_kernel_that_tells_no_memory_cannot_tell_the_send_buffer() -> None:
    nothing = float("nan")
    memory = {"skmem_wmem_queued_bytes": nothing, "skmem_sndbuf_bytes": nothing}
    diagnosis = found(**{**NOTHING_TO_SEND, **memory})
    assert diagnosis.main.key == "application_write"
    assert "the send buffer was full" in [each.what for each in diagnosis.blind]


def test_a_busy_host_that_wakes_the_writer_late_is_no_application_that_pauses() -> None:
    # Of every 20 samples the buffer is full in 16, and almost empty in 4: 20 ms until it is filled again.
    number = np.arange(2 * HALF + 1)
    fill = np.where(number % 20 < 16, 30 * MSS, 10 * MSS)
    written = (number // 20 + 1) * 40 * MSS
    queued = np.where(number % 20 < 16, 20 * MSS, 5 * MSS)
    diagnosis = found(
        **{
            **NOTHING_TO_SEND,
            "skmem_sndbuf_bytes": 30 * MSS,
            "skmem_wmem_queued_bytes": fill,
            "wqueue_bytes": queued,
            "bytes_acked": written - queued,
            "bytes_sent": written,
        }
    )
    assert diagnosis.share("send_buffer") > 0.9


def test_settings_are_noted_whatever_the_limit_is() -> None:
    notes = found(options=0, advmss_bytes=536, data_segs_out=np.arange(401) * 100).notes
    assert [note.split(":")[0] for note in notes] == [
        "window scaling is off",
        "SACK is off",
        "time stamps are off",
        "the MSS is 536 B",
        "segments carry 100 B on average, of 1,000 B that fit",
    ]


def test_an_application_that_pauses_is_told_with_what_got_through_otherwise() -> None:
    # In the first half nothing waits, and a tenth is written.
    acked = np.cumsum(half(1_000, 10_000))
    columns = {"notsent_bytes": half(0, 200 * MSS), "bytes_acked": acked, "bytes_sent": acked + 100 * MSS}
    said = found(total_retrans=half(0, 1), **columns).sentence
    assert said.endswith(
        "the application had nothing to send: when it had more to send, 16.0 Mbit/s got through."
    )


def test_loss_is_told_with_the_loss_that_a_wanted_throughput_bears() -> None:
    said = found(target_bps=100e6, total_retrans=3).sentence
    # 1.22 MSS / (RTT sqrt(p)) is 100 Mbit/s at a loss of 3.8e-6.
    assert said.endswith("(16.0 Mbit/s at an RTT of 50.0 ms); 100 Mbit/s would need a loss below 0.00038 %.")


def test_losses_before_the_first_sample_are_not_told_as_a_share_of_what_was_sent_since() -> None:
    finding = found(total_retrans=3).findings[0]
    assert "nothing was lost meanwhile, but earlier losses hold it near" in finding.sentence
    assert not [
        said for said in (finding.sentence, *finding.evidence) if "Mathis" in said or "% of the seg" in said
    ]
    # Of some 4,000 segments, one is lost while they are sampled.
    assert (
        "% of the segments were lost, which held it near"
        in found(total_retrans=half(3, 4)).findings[0].sentence
    )


def test_the_queue_before_losses_is_not_that_of_the_first_sample() -> None:
    rtt_us = np.where(np.abs(np.arange(401) - HALF) < 20, 2, 1) * RTT_S * 1e6
    evidence = [
        next(
            each.evidence[-1]
            for each in found(total_retrans=lost, rtt_us=rtt_us).findings
            if each.cause.key == "loss"
        )
        for lost in (half(0, 1), half(3, 4))
    ]
    assert "a queue had filled up" in evidence[0]
    assert evidence[1] == evidence[0]


def test_what_nothing_looks_like_is_not_said_to_be_hidden() -> None:
    assert [each.what for each in found(snd_wnd_bytes=100 * MSS).blind] == []


def test_nothing_is_said_of_a_connection_that_sent_nothing() -> None:
    assert kernel.read(*samples(bytes_sent=0, notsent_bytes=0)) is None
    times, fields = samples()
    assert kernel.read(times[:2], {name: values[:2] for name, values in fields.items()}) is None


def test_connections_of_the_same_test_are_not_told_as_others_in_the_bottleneck() -> None:
    acked = np.cumsum(half(10_000, 3_300))
    columns = {**behind_queue(90_000, half(180, 60)), "bytes_acked": acked, "bytes_sent": acked + 100 * MSS}
    read = kernel.read(*samples(**columns), None)
    assert read is not None
    diagnosis = diagnose(read[0], replace(read[1], siblings=3))
    assert diagnosis is not None
    assert diagnosis.share("foreign") == 0
    assert diagnosis.main.key == "bottleneck"
    assert "3 other connections of this test" in diagnosis.sentence
