"""Senders that wait for the next request, and those that only pause."""

from __future__ import annotations

from pathlib import Path

import pytest

from .talks import MSS, diagnosed, opened


@pytest.mark.parametrize(
    ("asks_s", "thinks_s", "key"), [(3, 0.2, "application_ask"), (0.2, 3, "application_write")]
)
@pytest.mark.parametrize("place", [0.0, 1.0])
def test_a_client_that_asks_late_is_told_from_a_server_that_answers_late(
    tmp_path: Path, place: float, asks_s: float, thinks_s: float, key: str
) -> None:
    talk = opened(20, place=place)
    for _ in range(12):
        talk.wait(1_000 * asks_s)
        talk.a.send(300)
        talk.wait(10)
        talk.b.ack()
        talk.wait(1_000 * thinks_s)
        for _ in range(3):
            talk.b.send(MSS)
        talk.wait(20)
        talk.a.ack()
    diagnosis = diagnosed(talk, tmp_path, "b")
    assert diagnosis.main.key == key
    assert diagnosis.share(key) > 0.85
    assert diagnosis.findings[0].confidence == "medium"


@pytest.mark.parametrize("place", [0.0, 1.0])
def test_a_request_of_several_segments_is_one_request(tmp_path: Path, place: float) -> None:
    talk = opened(20, place=place)
    for _ in range(12):
        talk.wait(2_000)
        for _ in range(3):
            talk.a.send(MSS)
            talk.wait(4)
        talk.wait(20 * (1 - place) + 5)
        for _ in range(3):
            talk.b.send(MSS)
        talk.wait(20 * place)
        talk.a.ack()
    assert diagnosed(talk, tmp_path, "b").share("application_ask") > 0.85


@pytest.mark.parametrize("place", [0.0, 1.0])
@pytest.mark.parametrize("every_ms", [1_000, 4_000])
def test_heartbeats_of_the_receiver_are_no_requests(tmp_path: Path, place: float, every_ms: float) -> None:
    talk = opened(20, place=place)
    for _ in range(12):
        for _ in range(3):
            talk.b.send(MSS)
        talk.wait(20 * place)
        talk.a.ack()
        for _ in range(int(9_000 // every_ms)):
            talk.wait(every_ms)
            talk.a.send(40)
            talk.wait(20 * (1 - place))
            talk.b.ack()
        talk.wait(1_000)
    diagnosis = diagnosed(talk, tmp_path, "b")
    assert diagnosis.main.key == "application_write"
    assert diagnosis.share("application_ask") == 0
