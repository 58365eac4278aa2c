from __future__ import annotations

import pytest

from weirlab.trace import wording

from . import made


def test_a_transfer_is_concluded_with_what_was_sent_again_and_its_round_trips() -> None:
    assert wording.conclusion(made.connection()) == (
        "a sent 2.89 MB in 2.00 s (11.6 Mbit/s); 5 of 2,000 segments were retransmitted (0.25 %), "
        "1 of them spuriously; the RTT was 6.44 ms on average, 12.8 ms at most."
    )


def test_the_busier_side_is_the_one_that_is_told_about() -> None:
    quiet = made.side("10.0.0.1", 40_000)
    found = made.connection(a=quiet, b=made.sender("192.0.2.1", 80))
    assert wording.conclusion(found).startswith("b sent 2.89 MB")
    assert wording.conclusion(found, "a") == "No data from a."


def test_a_transfer_without_repetition_says_so() -> None:
    clean = made.sender(retransmissions={"total": 0}, rtt=made.summary())
    assert wording.conclusion(made.connection(a=clean)).endswith("none of 2,000 segments was retransmitted.")


def test_windows_that_held_the_sender_up_are_named() -> None:
    slow = made.side("192.0.2.1", 80, zero_windows=2, zero_window_ns=1_500_000_000, window_full=1)
    text = wording.conclusion(made.connection(b=slow))
    assert "the receiver closed its window 2 times, for 1.50 s in all" in text
    assert "the receiver's window was full once" in text


def test_an_end_that_took_the_time_is_named_with_what_it_did() -> None:
    late = made.sender(answers=2, answers_ns=1_900_000_000, answer_max_ns=1_000_000_000)
    asks = made.side("192.0.2.1", 80, data_packets=2, data_ns=(made.START_NS, made.START_NS))
    text = wording.conclusion(made.connection(a=late, b=asks))
    assert "a took 1.90 s to answer in all, 1.00 s at most" in text
    quick = late | {"answers_ns": 20_000_000}
    assert "to answer" not in wording.conclusion(made.connection(a=quick, b=asks))


def test_the_end_that_sent_data_first_is_not_said_to_answer() -> None:
    asks = made.sender(answers=2, answers_ns=1_900_000_000, answer_max_ns=1_000_000_000)
    text = wording.conclusion(made.connection(a=asks))
    assert "a sent its next data 1.90 s after b's in all, 1.00 s at most" in text
    assert "to answer" not in text


def test_an_end_that_never_sent_data_is_told_unless_that_is_a_transfer() -> None:
    asked = made.side("10.0.0.1", 1, packets=4, data_packets=1, unique_bytes=80, data_ns=(made.START_NS,) * 2)
    found = made.connection(a=asked)
    assert wording.conclusion(found).endswith("b sent no data within 2.10 s.")
    assert "no data" not in wording.conclusion(made.connection(a=asked | {"data_packets": 400}))
    unseen = made.connection(a=asked, b=made.side("192.0.2.1", 80))
    assert wording.conclusion(unseen).endswith("nothing that b sent was captured.")


def test_connections_that_never_opened_are_counted() -> None:
    syn = made.side("10.0.0.1", 1, syns=1)
    refused = made.connection(
        begin="syn", end="reset", a=syn, b=made.side("192.0.2.1", 2, packets=1, resets=1)
    )
    lost = made.connection(1, begin="syn", a=syn, b=made.side("192.0.2.1", 2))
    text = wording.capture(made.analysis([refused, lost, lost]))
    assert text.endswith("; connections refused: 1, never answered: 2.")


def test_no_more_is_spurious_than_was_retransmitted_of_the_data() -> None:
    fins = made.sender(retransmissions={"total": 3, "fins": 1, "spurious": 3})
    assert "2 of 2,000 segments were retransmitted (0.10 %), 2 of them spuriously" in wording.conclusion(
        made.connection(a=fins)
    )


def test_a_window_that_stays_closed_and_a_reset_are_told() -> None:
    slow = made.side("192.0.2.1", 80, zero_windows=1, zero_window_ns=1_500_000_000, shut_ns=9, resets=1)
    text = wording.conclusion(made.connection(b=slow, end="reset"))
    assert "for 1.50 s in all and to the end" in text
    assert text.endswith("it was reset by b.")


def test_at_the_receiver_no_round_trip_of_the_path_is_claimed() -> None:
    text = wording.conclusion(made.connection(place="at_b", handshake_ns=(51_000, 43_500_000)))
    assert text.endswith(
        "captured at the receiver, where ACKs show no round trip; it was 43.5 ms in the handshake."
    )
    assert "6.44" not in text
    unknown = wording.conclusion(made.connection(place="at_b", handshake_ns=(None, None)))
    assert unknown.endswith("captured at the receiver, where ACKs show no round trip.")


def test_a_syn_that_was_repeated_is_told() -> None:
    end = made.sender(retransmissions={"total": 6, "handshake": 2})
    assert "its SYN was retransmitted 2 times" in wording.conclusion(made.connection(a=end))


def test_a_refused_connect_is_told_with_who_refused_it() -> None:
    refused = made.connection(
        begin="syn",
        end="reset",
        a=made.side("10.0.0.1", 1, syns=3, copies=2),
        b=made.side("192.0.2.1", 2, packets=1, resets=1),
    )
    assert wording.conclusion(refused) == "Refused: 192.0.2.1:2 answered 1 SYN from 10.0.0.1:1 with an RST."


def test_answers_of_an_older_connection_are_not_told_as_silence() -> None:
    stale = made.connection(
        begin="syn", a=made.side("10.0.0.1", 1, syns=2), b=made.side("192.0.2.1", 2, packets=1)
    )
    assert wording.conclusion(stale) == (
        "No matching answer: 2 SYNs from 10.0.0.1:1; what 192.0.2.1:2 sent belongs to another connection."
    )


def test_a_burst_within_a_round_trip_has_no_rate() -> None:
    trips = {**made.summary(10, 2e6, 3_000_000), "min_ns": 1_000_000}
    burst = made.sender(data_ns=(made.START_NS, made.START_NS + 83_000), rtt=trips)
    assert "in 83.0 µs (within a round trip)" in wording.conclusion(made.connection(a=burst))


def test_a_single_segment_takes_no_time() -> None:
    one = made.sender(data_packets=1, retransmissions={"total": 0}, data_ns=(1, 1), unique_bytes=609)
    text = wording.conclusion(made.connection(a=one))
    assert text.startswith("a sent 609 B; the only segment was not retransmitted")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"begin": "syn", "a": made.side("10.0.0.1", 1, syns=3), "b": made.side("192.0.2.1", 2)},
            "No answer: 3 SYNs from 10.0.0.1:1.",
        ),
        (
            {"end": "reset", "a": made.side("10.0.0.1", 1), "b": made.side("192.0.2.1", 2, resets=1)},
            "Reset by b before any data.",
        ),
        ({"a": made.side("10.0.0.1", 1)}, "No data."),
    ],
)
def test_connections_without_data_say_why(changes: dict[str, object], sentence: str) -> None:
    assert wording.conclusion(made.connection(**changes)) == sentence


def test_repeated_syns_are_no_share_of_the_data() -> None:
    end = made.sender(retransmissions={"total": 7, "handshake": 2})
    assert wording.again_ratio(end) == 5 / 2000


def test_the_capture_is_summed_up_over_both_sides_of_all_connections() -> None:
    two = [made.connection(0), made.connection(1)]
    assert wording.capture(made.analysis(two, connections_left_out=3, esp=[made.esp()])) == (
        "3,002 packets (3.00 MB) over 2.10 s: 5 TCP connections and 1 ESP flow; of the largest 2, "
        "10 of 4,000 segments were retransmitted (0.25 %), 2 of them spuriously."
    )
    assert wording.capture(
        made.analysis(capture={"packets": 0, "selected": 0, "bytes": 0, "first_ns": None})
    ) == ("0 packets (0 B): 0 TCP connections.")


def test_a_fin_that_was_sent_again_is_no_segment_with_data() -> None:
    again = {**made.sender()["retransmissions"], "total": 3, "timeout": 3, "fins": 2, "spurious": 0}
    sender = made.sender(data_packets=1, retransmissions=again)
    told = wording.capture(made.analysis([made.connection(a=sender)]))
    assert "1 of 1 segment was retransmitted (100 %)" in told


def test_what_the_capture_lacks_is_said() -> None:
    gap = made.connection(a=made.sender(unseen_bytes=2896))
    cut = made.files(1)
    cut[0]["cut_short"] = True
    notes = wording.cautions(made.analysis([gap], capture={"malformed": 2, "files": cut}))
    assert notes[0] == "The capture has 2 packets with headers that contradict themselves or are cut off."
    assert notes[1].startswith("The capture ends inside a packet")
    assert notes[2].startswith("Packets are missing from the capture: 2,896 B was acknowledged but")
    assert wording.cautions(made.analysis([made.connection()])) == []
    dropping = made.files(1)
    dropping[0]["interfaces"] = [{"lost": 7}, {"lost": None}]
    assert wording.cautions(made.analysis(capture={"files": dropping})) == [
        "The capture lost 7 packets, according to its files."
    ]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"redated": 1, "first_redated": (1_500, 3_600_000_000_000)},
            "Packet 1,500 has a time that cannot be right, 1 h 00 min 00 s later than the packet beside it. "
            "It counts as captured together with that.",
        ),
        (
            {"redated": 3, "first_redated": (7, -5_000_000_000)},
            "3 packets, the first of them number 7, have times that cannot be right, 5.00 s earlier than the "
            "packet beside it. Each counts as captured together with that.",
        ),
        (
            {"cut_short": True, "compression": "bzip2"},
            "The capture ends inside its bzip2 data. Everything before it was read: 3,002 packets.",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said(changes: dict[str, object], sentence: str) -> None:
    file = {**made.files(1)[0], **changes}
    assert wording.cautions(made.analysis(capture={"files": [file]})) == [sentence]


def test_causes_are_listed_with_their_numbers() -> None:
    assert wording.causes(made.sender()) == "1 after a time-out and 4 after duplicate ACKs or SACK"
    assert wording.causes(made.side("10.0.0.1", 1)) == ""
