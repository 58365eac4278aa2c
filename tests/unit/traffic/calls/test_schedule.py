from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.base.units import NS_PER_S
from weirlab.traffic.calls.schedule import Schedule, schedule, traffic_of
from weirlab.traffic.calls.spec import Calls, parse_calls
from weirlab.traffic.plan import PACKET_KINDS
from weirlab.traffic.sizes import Constant, mean_bytes

MEDIA_ALONE = {"rtcp": False, "signalling": False}


def media(calls: Calls, **how: object) -> Calls:
    return replace(calls, **{**MEDIA_ALONE, **how})  # type: ignore[arg-type]


def payload(found: Schedule, i: int) -> bytes:
    row, starts = int(found.media.payload[i]), found.media.payload_start
    return found.media.payload_bytes[starts[row] : starts[row + 1]].tobytes()


any_calls = st.builds(
    lambda text, count, directions, phases, arrivals, spurts, rtcp, signalling, one_flow, seed: replace(
        parse_calls(count, text),
        directions=directions,
        phases=phases,
        arrivals=arrivals,
        holding_s=1.5,
        spurts=spurts,
        rtcp=rtcp,
        rtcp_min_s=0.5,
        signalling=signalling,
        one_flow=one_flow,
        seed=seed,
    ),
    st.sampled_from(["g711", "g729/iax2", "g711/rtp:40,gsm:40ms/iax2:60", "opus@24k:60ms:1,g711:30ms:2"]),
    st.integers(5, 40),
    st.sampled_from(["both", "forward", "back"]),
    st.sampled_from(["even", "random"]),
    st.sampled_from(["standing", "poisson"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(0, 1000),
)


@given(st.integers(1, 200), st.sampled_from(["both", "forward", "back"]), st.sampled_from([0.1, 0.4, 1.0]))
def test_evenly_phased_calls_are_calls_times_rate_times_duration_packets(
    count: int, directions: str, duration_s: float
) -> None:
    calls = media(parse_calls(count), directions=directions)
    found = schedule(calls, duration_s, 0.2)
    ways = 2 if directions == "both" else 1
    assert found.recorded == round(count * 50 * duration_s) * ways
    gap_ns = 1e9 / (count * 50)
    for way in set(found.media.flows.back):
        due = found.due_ns[found.media.flows.back[found.flow] == way]
        assert np.abs(np.diff(due) - gap_ns).max() <= 1
        # No drift either: every departure is where a line through the first puts it, to the ns.
        assert np.abs(due - due[0] - np.arange(len(due)) * gap_ns).max() <= 1


@settings(max_examples=60, deadline=None)
@given(any_calls)
def test_packets_of_a_stream_keep_its_packet_time_and_order(calls: Calls) -> None:
    found = schedule(calls, 2.0, 0.5)
    assert found.due_ns[0] == 0
    assert (np.diff(found.due_ns) >= 0).all()
    assert found.due_ns[-1] < 2.5 * NS_PER_S
    order = np.argsort(found.flow, kind="stable")
    flow, due, stamp = found.flow[order], found.due_ns[order], found.media.stamp[order].astype(np.int64)
    same = (flow[1:] == flow[:-1]) & found.media.flows.carries_media[flow[1:]]
    packet_ns = found.media.flows.packet_ns[flow[1:]][same]
    steps, rest = np.divmod(np.diff(due)[same], packet_ns)
    assert (rest == 0).all()
    assert (steps >= 1).all()
    if not calls.spurts:
        assert (steps == 1).all()
    kinds = [calls.classes[c] for c in found.media.flows.call_class[flow[1:]][same]]
    per_packet = [k.stream.stamp_units if k.transport == "rtp" else k.stream.packet_ms for k in kinds]
    assert (np.diff(stamp)[same] == steps * np.array(per_packet)).all()


@settings(max_examples=40, deadline=None)
@given(any_calls)
def test_every_packet_has_room_for_its_headers_and_the_probe(calls: Calls) -> None:
    found = schedule(calls, 1.0, 0.5)
    length = np.diff(found.media.payload_start.astype(np.int64))[found.media.payload]
    header = np.where(found.media.kind == PACKET_KINDS["raw"], 0, found.media.header_bytes[found.flow])
    ip_udp = 14 + 20 + 8 + 4
    assert (found.frame_bytes == np.maximum(ip_udp + header + length, 64)).all()
    ends = found.media.payload_start[1:][np.unique(found.media.payload)].astype(np.int64)
    assert not found.media.payload_bytes[ends[:, None] - np.arange(1, 19)].any()


@settings(max_examples=30, deadline=None)
@given(any_calls)
def test_traffic_counts_what_the_schedule_sends(calls: Calls) -> None:
    found, traffic = schedule(calls, 2.0, 0.5), traffic_of(calls, 2.0, 0.5)
    recorded = found.due_ns >= found.warmup_ns
    assert traffic.rate.value == pytest.approx(recorded.sum() / 2.0)
    assert mean_bytes(traffic.sizes) == pytest.approx(found.frame_bytes[recorded].mean())
    assert traffic.flows.count == len(found.addresses) == len(found.media.header)
    assert (traffic.calls, traffic.seed, traffic.warmup_s) == (calls, calls.seed, 0.5)


def test_calls_that_stand_are_one_size() -> None:
    assert traffic_of(media(parse_calls(10)), 1.0).sizes == Constant(218)


@settings(max_examples=20, deadline=None)
@given(any_calls)
def test_a_schedule_is_a_function_of_its_arguments(calls: Calls) -> None:
    first, again = (schedule(calls, 1.0) for _ in range(2))
    for column in ("due_ns", "flow"):
        assert (getattr(first, column) == getattr(again, column)).all()
    for column in ("kind", "stamp", "payload_bytes", "header"):
        assert (getattr(first.media, column) == getattr(again.media, column)).all()


def test_the_seed_changes_phases_and_numbers() -> None:
    first, other = (schedule(media(parse_calls(5), phases="random", seed=seed), 0.1) for seed in (1, 2))
    assert (first.due_ns != other.due_ns[: len(first.due_ns)]).any()
    assert (first.media.header != other.media.header).any()


def test_control_packets_do_not_change_when_people_talk() -> None:
    calls = media(parse_calls(20), spurts=True, arrivals="poisson", holding_s=2.0)
    bare, whole = schedule(calls, 2.0), schedule(replace(calls, rtcp=True), 2.0)
    speech = whole.media.flows.carries_media[whole.flow]
    assert (bare.due_ns == whole.due_ns[speech]).all()


def test_rtp_headers_are_those_of_rfc_3550() -> None:
    found = schedule(media(parse_calls(50, "g729")), 0.1)
    assert (found.media.header_bytes == 12).all()
    assert (found.media.header[:, 0] == 0x80).all()
    assert (found.media.header[:, 1] == 18).all()
    for columns in (slice(2, 4), slice(4, 8), slice(8, 12)):
        assert len(np.unique(found.media.header[:, columns], axis=0)) > 95
    assert (found.media.kind == PACKET_KINDS["rtp"]).all()


def test_markers_are_set_where_a_talk_spurt_begins() -> None:
    found = schedule(media(parse_calls(50), spurts=True), 20.0)
    for flow in (0, 7, 99):
        mine = np.flatnonzero(found.flow == flow)
        silent_before = np.diff(found.due_ns[mine], prepend=-NS_PER_S) > 20_000_000
        assert (found.media.marker[mine] == silent_before).all()
        assert silent_before.sum() > 3


def test_who_is_silent_sends_nothing() -> None:
    """The four states of P.59: each side talks 42.5 % of the time."""
    found = schedule(media(parse_calls(1000), spurts=True, seed=3), 10.0)
    # 2000 streams of 10 s; the standard error of the share is some 0.4 %.
    assert found.recorded / (1000 * 100 * 10) == pytest.approx(0.4248, rel=0.05)


def test_arriving_calls_load_the_line_as_much_as_standing_ones_on_average() -> None:
    counts = [
        schedule(media(parse_calls(100), arrivals="poisson", holding_s=2.0, seed=seed), 4.0).recorded
        for seed in range(40)
    ]
    # Mean number of calls over 4 s of holding times of 2 s: a standard deviation of 7.5, over 40 trials 1.2.
    assert np.mean(counts) / 400 == pytest.approx(100, abs=4)


def test_both_directions_of_a_call_use_the_same_hosts_and_ports_the_other_way_round() -> None:
    found = schedule(parse_calls(300, "g711/rtp:60,g711/iax2:30,gsm/iax2-trunk*5:10"), 0.1, 1.0)
    a = found.addresses
    forward, back = np.flatnonzero(~found.media.flows.back), np.flatnonzero(found.media.flows.back)
    assert (back == forward + 1).all()
    assert (a.src_ip[forward] == a.dst_ip[back]).all()
    assert (a.dst_ip[forward] == a.src_ip[back]).all()
    assert (a.src_port[forward] == a.dst_port[back]).all()
    assert (a.dst_port[forward] == a.src_port[back]).all()
    assert (a.src_ip[forward, :2] == (198, 18)).all()
    assert (a.dst_ip[forward, :2] == (198, 19)).all()


@pytest.mark.parametrize("ip", [4, 6])
def test_no_two_calls_share_addresses_and_ports(ip: int) -> None:
    # More calls of IAX2 than there are hosts.
    calls = parse_calls(76_000, "g729/rtp:6,g729/iax2:70", ip=ip)  # type: ignore[arg-type]
    found = schedule(media(calls, directions="forward"), 0.02)
    a, speech = found.addresses, found.media.flows.carries_media
    rows = np.concatenate(
        [a.src_ip, a.dst_ip, a.src_port[:, None].view(np.uint8), a.dst_port[:, None].view(np.uint8)], axis=1
    )[speech]
    assert len(rows) == len({row.tobytes() for row in rows}) == 76_000


def test_calls_in_one_flow_are_one_connection_of_each_transport() -> None:
    calls = media(parse_calls(12_000, "g711/rtp:50,g711/iax2:50"), one_flow=True)
    found, usual = schedule(calls, 0.04), schedule(replace(calls, one_flow=False), 0.04)
    a = found.addresses
    ends = {
        tuple(map(bytes, (src, dst, port, to)))
        for src, dst, port, to in zip(a.src_ip, a.dst_ip, a.src_port, a.dst_port, strict=True)
    }
    assert len(ends) == 4
    # Nothing else differs.
    assert (found.due_ns == usual.due_ns).all()
    assert (found.flow == usual.flow).all()
    assert (found.frame_bytes == usual.frame_bytes).all()


def test_rtp_ports_are_even_and_rtcp_ports_follow_them() -> None:
    found = schedule(replace(parse_calls(12_000, "g711"), signalling=False, rtcp_min_s=0.1), 0.04)
    speech = found.media.flows.carries_media
    port = found.addresses.src_port.astype(int)
    assert (port[speech] % 2 == 0).all()
    assert (port[speech].min(), port[speech].max()) == (20_000, 29_998)
    assert (port[~speech] == port[speech] + 1).all()
    assert (found.addresses.src_ip[~speech] == found.addresses.src_ip[speech]).all()
    # 5,000 calls between two hosts.
    hosts = Counter(map(bytes, found.addresses.src_ip[speech & ~found.media.flows.back]))
    assert sorted(hosts.values()) == [2_000, 5_000, 5_000]


def test_standing_calls_are_set_up_before_they_talk() -> None:
    found = schedule(replace(parse_calls(40), rtcp=False), 0.5, 1.0)
    sip = found.addresses.src_port[found.flow] == 5060
    assert sip.sum() == 5 * 40
    requests = [payload(found, i).split()[0] for i in np.flatnonzero(sip)]
    assert Counter(requests) == {b"INVITE": 40, b"SIP/2.0": 120, b"ACK": 40}
    assert found.due_ns[sip].max() < 1.0 * NS_PER_S
    speech = found.media.flows.carries_media[found.flow]
    firsts = [found.due_ns[found.flow == flow].min() for flow in range(80)]
    assert firsts == sorted(firsts, key=lambda ns: ns // 30_000_000)
    assert found.due_ns[speech].min() >= 110_000_000
    # All stand once recording begins.
    assert (found.due_ns >= found.warmup_ns).sum() == 40 * 50


def test_calls_that_come_and_go_are_set_up_and_torn_down() -> None:
    calls = replace(parse_calls(50), arrivals="poisson", holding_s=1.0, rtcp=False)
    found = schedule(calls, 5.0)
    sip = np.flatnonzero(found.addresses.src_port[found.flow] == 5060)
    requests = Counter(payload(found, i).split()[0] for i in sip)
    # 50 calls/s begin and end; a standard deviation of 16.
    assert requests[b"INVITE"] == pytest.approx(250, abs=50)
    assert requests[b"BYE"] == pytest.approx(250, abs=50)
    assert requests[b"SIP/2.0"] == pytest.approx(3 * requests[b"INVITE"] + requests[b"BYE"], abs=8)


def test_in_one_direction_alone_nobody_answers() -> None:
    for directions, back in (("forward", False), ("back", True)):
        found = schedule(replace(parse_calls(10), directions=directions), 0.5, 1.0)  # type: ignore[arg-type]
        assert (found.media.flows.back == back).all()
        sip = np.flatnonzero(found.addresses.src_port[found.flow] == 5060)
        answers = {payload(found, i).split()[0] == b"SIP/2.0" for i in sip}
        assert answers == {back}


def test_iax2_names_the_codec_first_and_again_whenever_time_stamps_wrap() -> None:
    found = schedule(parse_calls(2, "g711/iax2"), 140.0, 0.5)
    for flow in range(4):
        mine = np.flatnonzero(found.flow == flow)
        full = mine[found.media.kind[mine] == PACKET_KINDS["raw"]]
        stamps = found.media.stamp[mine].astype(int)
        wrapped = np.flatnonzero(np.diff(stamps >> 16, prepend=-1))
        assert (full == mine[wrapped]).all()
        assert len(full) == 3
        for i in full:
            body = payload(found, i)
            assert len(body) == 12 + 160
            assert body[0] & 0x80
            assert int.from_bytes(body[4:8]) == found.media.stamp[i]
        assert (found.media.kind[np.setdiff1d(mine, full)] == PACKET_KINDS["iax2-mini"]).all()
    control = ~found.media.flows.carries_media[found.flow]
    # NEW, ACCEPT, RINGING, ANSWER, three acknowledgements; one per full voice frame.
    assert control.sum() == 2 * (7 + 6)


def test_calls_that_stand_do_not_wrap_all_at_once() -> None:
    found = schedule(media(parse_calls(500, "g711/iax2")), 20.0)
    later = found.due_ns > NS_PER_S
    full = (found.media.kind == PACKET_KINDS["raw"]) & later
    # Of 1000 streams those that wrap within 19 of 65.536 s, some 290.
    assert 200 < full.sum() < 380
    assert np.histogram(found.due_ns[full] / NS_PER_S, bins=4, range=(1, 20))[0].min() > 35


def test_a_trunk_packet_carries_the_speech_of_its_calls() -> None:
    found = schedule(media(parse_calls(11, "gsm/iax2-trunk*4")), 0.1)
    assert found.media.flows.calls_carried.tolist() == [4, 4, 4, 4, 3, 3]
    assert found.media.flows.call.tolist() == [0, 0, 4, 4, 8, 8]
    assert sorted(set(found.frame_bytes.tolist())) == [14 + 20 + 8 + 8 + n * 37 + 2 + 4 for n in (3, 4)]
    assert (found.media.kind == PACKET_KINDS["iax2-meta"]).all()
    body = payload(found, 0)
    assert [int.from_bytes(body[i * 37 : i * 37 + 2]) for i in range(4)] == [1, 2, 3, 4]
    assert [int.from_bytes(body[i * 37 + 2 : i * 37 + 4]) for i in range(4)] == [33] * 4


def test_sender_reports_count_what_was_sent() -> None:
    calls = replace(parse_calls(20), spurts=True, signalling=False, rtcp_min_s=0.3, seed=5)
    found = schedule(calls, 5.0)
    reports = np.flatnonzero(~found.media.flows.carries_media[found.flow])
    assert len(reports) > 500
    for i in reports[:: len(reports) // 100]:
        stream = int(found.flow[i]) - 40
        body = payload(found, int(i))
        earlier = (found.flow[:i] == stream) & (found.due_ns[:i] < found.due_ns[i])
        assert int.from_bytes(body[20:24]) == earlier.sum()
        assert int.from_bytes(body[24:28]) == earlier.sum() * 160
        assert body[4:8] == found.media.header[stream, 8:12].tobytes()
        if earlier.any():
            last = np.flatnonzero(earlier)[-1]
            since_ns = int(found.due_ns[i] - found.due_ns[last])
            first = int.from_bytes(found.media.header[stream, 4:8].tobytes())
            expected = (first + int(found.media.stamp[last]) + since_ns * 8000 // NS_PER_S) % (1 << 32)
            assert abs(int.from_bytes(body[16:20]) - expected) <= 1


def test_control_packets_take_5_percent_if_they_may() -> None:
    found = schedule(replace(parse_calls(500), signalling=False, rtcp_min_s=0.0), 10.0, 1.0)
    recorded = found.due_ns >= found.warmup_ns
    speech = found.media.flows.carries_media[found.flow]
    # From IP upwards, as RFC 3550 counts.
    ip = found.frame_bytes.astype(int) - 18
    assert ip[recorded & ~speech].sum() / ip[recorded & speech].sum() == pytest.approx(0.05, rel=0.02)


def test_more_packets_than_a_trial_can_have_are_refused_with_the_most() -> None:
    with pytest.raises(InputError, match=r"at most 16\.2 s with as many calls, or 2,773 calls for as long"):
        schedule(parse_calls(10_000), 60.0, 0.5)
    with pytest.raises(InputError, match="of a trial: at most 83,886 calls for as long"):
        schedule(parse_calls(10_000_000), 1.0, 1.0)
    with pytest.raises(InputError, match=r"of a trial: at most 167772\.1 s with as many calls$"):
        schedule(parse_calls(1), 1e9, 0.0)
    with pytest.raises(InputError, match=r"of a trial: shorten the warm-up$"):
        schedule(parse_calls(1), 1.0, 1e9)


def test_more_flows_than_there_can_be_are_refused_with_the_most() -> None:
    with pytest.raises(InputError, match=r"flows of packets.* up to 1,048,4"):
        schedule(parse_calls(1_200_000, "g723.1"), 0.03)


def test_packets_without_room_for_the_probe_are_refused() -> None:
    with pytest.raises(InputError, match="Packets of 20 ms have it"):
        traffic_of(parse_calls(10, "g729:10ms"), 1.0)


@pytest.mark.parametrize(("duration_s", "warmup_s"), [(0.0, 0.0), (float("nan"), 0.0), (1.0, -1.0)])
def test_no_time_to_talk_is_refused(duration_s: float, warmup_s: float) -> None:
    with pytest.raises(InputError, match=r"duration|warm-up"):
        schedule(parse_calls(10), duration_s, warmup_s)


def test_a_trial_in_which_nobody_calls_is_refused() -> None:
    calls = media(parse_calls(1), arrivals="poisson", holding_s=1e6)
    # Nobody stands with a probability of 1 / e, and nobody else calls in so short a time.
    assert schedule(replace(calls, seed=0), 0.1).recorded == 10
    with pytest.raises(InputError, match="nobody speaks"):
        schedule(replace(calls, seed=9), 0.1)
