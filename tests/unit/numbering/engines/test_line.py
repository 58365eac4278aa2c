"""A line of MGCP, with a call agent that says what Asterisk says."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from weirlab.numbering.lab import line as lines
from weirlab.numbering.lab.line import MgcpEndpoint, described

AGENT = "v=0\r\nc=IN IP4 192.0.2.9\r\nm=audio 20000 RTP/AVP 8\r\n"


class Agent:
    """Talks with a line, and acknowledges all that it says."""

    def __init__(self, dials: str = "", hold_s: float = 1.0) -> None:
        self.now_s = 0.0
        self.number = 100
        self.line = MgcpEndpoint("aaln/1@fax", described("192.0.2.60", 8), dials, hold_s)
        self.heard: list[str] = []
        self.line.begin(self.now_s)
        self.take()

    def take(self) -> list[str]:
        """What the line says, acknowledged: events by their names, answers whole."""
        said = []
        while self.line.out:
            text = self.line.out.pop(0)
            command = re.match(r"([A-Z]{4}) (\d+) aaln/1@fax MGCP 1.0\r\n", text)
            if command is None:
                said.append(text)
                continue
            event = re.search(r"^O: (.*)\r$", text, re.MULTILINE)
            said.append(event[1] if event else command[1])
            self.line.received(f"200 {command[2]} OK\r\n", self.now_s)
        self.heard += said
        return said

    def tell(
        self, verb: str, *parameters: str, description: str = "", endpoint: str = "aaln/1@fax"
    ) -> list[str]:
        self.number += 1
        body = "".join(f"{each}\r\n" for each in parameters)
        text = f"{verb} {self.number} {endpoint} MGCP 1.0\r\n{body}"
        self.line.received(text + (f"\r\n{description}" if description else ""), self.now_s)
        return self.take()

    def wait(self, seconds: float) -> list[str]:
        self.now_s += seconds
        self.line.due(self.now_s)
        return self.take()

    def audit(self) -> list[str]:
        self.tell("RQNT", "X: 1", "R: L/hd(N)")
        return self.tell("AUEP", "F: A")


def test_a_line_tells_that_it_is_there_and_answers_questions_about_itself() -> None:
    agent = Agent()
    assert agent.heard == ["RSIP"]
    assert agent.tell("AUEP", endpoint="aaln/*@fax") == ["200 101 OK\r\nZ: aaln/1@fax\r\n"]
    assert not agent.line.ready
    assert agent.tell("AUEP", "F: A") == ["200 102 OK\r\nES: L/hu\r\n"]
    assert agent.line.ready


def test_a_line_that_is_called_rings_answers_talks_and_hangs_up_with_the_other_side() -> None:
    agent = Agent()
    agent.audit()
    (created,) = agent.tell("CRCX", "C: 7", "M: recvonly", description=AGENT)
    assert created.startswith("200 103 OK\r\nI: 1\r\n\r\nv=0")
    assert "m=audio 6100 RTP/AVP 8" in created
    assert agent.tell("RQNT", "X: 2", "S: L/rg", "R: L/hd(N)") == ["200 104 OK\r\n"]
    assert agent.wait(lines.ANSWER_S / 2) == []
    assert agent.wait(lines.ANSWER_S) == ["L/hd"]
    assert agent.line.off_hook
    assert agent.line.speaks_to is None
    agent.tell("MDCX", "M: sendrecv")
    assert agent.line.speaks_to == ("192.0.2.9", 20000)
    assert agent.tell("DLCX", "C: 7") == ["250 106 OK\r\n", "L/hu"]
    assert (agent.line.off_hook, agent.line.remote, agent.line.over) == (False, None, False)


def test_ringing_that_stops_is_not_answered() -> None:
    agent = Agent()
    agent.tell("RQNT", "S: L/rg")
    agent.tell("RQNT", "S: L/vmwi(-)")
    assert agent.wait(1) == []
    assert not agent.line.off_hook


def test_a_line_that_calls_dials_digit_by_digit_and_hangs_up_after_what_it_has_heard() -> None:
    agent = Agent("420", hold_s=2.0)
    agent.audit()
    assert agent.heard[-1] == "L/hd"
    agent.tell("CRCX", "M: sendrecv", description=AGENT)
    assert agent.line.speaks_to is None
    assert agent.tell("RQNT", "S: L/dl", "R: D/[0-9#*](N)")[1:] == []
    assert agent.wait(lines.FIRST_DIGIT_S) == ["D/4"]
    assert agent.wait(lines.DIGIT_S / 2) == []
    assert agent.wait(lines.DIGIT_S) == ["D/2"]
    assert agent.wait(lines.DIGIT_S) == ["D/0"]
    assert agent.line.speaks_to == ("192.0.2.9", 20000)
    agent.tell("RQNT", "S: G/rt")
    agent.wait(5)
    assert agent.line.off_hook
    agent.line.heard(agent.now_s)
    assert agent.wait(1.9) == []
    assert agent.wait(0.2) == ["L/hu"]
    assert agent.tell("DLCX") == ["250 106 OK\r\n"]
    assert not agent.line.over
    # Asterisk waits for an answer to what it asks for next, also of a line that has been away meanwhile.
    assert agent.tell("RQNT", "R: L/hd(N)") == ["200 107 OK\r\n"]
    # The tone for a refused call comes after that.
    agent.wait(lines.LAST_S / 2)
    assert agent.tell("RQNT", "S: L/ro") == ["200 108 OK\r\n"]
    assert not agent.line.over
    agent.wait(lines.LAST_S)
    assert agent.line.over


def test_speech_before_the_last_digit_is_no_answer() -> None:
    agent = Agent("4", hold_s=0.0)
    agent.audit()
    agent.line.heard(agent.now_s)
    assert agent.wait(9) == []
    assert agent.line.off_hook


def test_a_call_in_which_nothing_is_heard_is_hung_up_when_the_line_gives_up() -> None:
    agent = Agent("4")
    agent.audit()
    agent.tell("CRCX", "M: sendrecv", description=AGENT)
    agent.tell("RQNT", "S: L/dl")
    agent.line.give_up(agent.now_s)
    assert agent.take() == ["L/hu"]
    agent.line.give_up(agent.now_s)
    assert not agent.line.over
    agent.tell("DLCX")
    agent.tell("RQNT", "R: L/hd(N)")
    agent.wait(lines.LAST_S)
    assert agent.line.over


def test_a_line_that_gives_up_before_it_has_dialled_stays_on_hook() -> None:
    agent = Agent("4")
    agent.audit()
    agent.tell("CRCX", "M: sendrecv", description=AGENT)
    agent.line.give_up(agent.now_s)
    assert agent.take() == ["L/hu"]
    assert "L/hd" not in agent.tell("RQNT", "R: L/hd(N)")


def test_a_line_that_never_went_off_hook_gives_up_at_once() -> None:
    agent = Agent("4")
    agent.line.give_up(agent.now_s)
    assert agent.take() == []
    assert agent.line.over


@pytest.mark.parametrize("tone", ["L/bz", "G/cg", "L/ro"])
def test_a_tone_of_trouble_ends_the_call(tone: str) -> None:
    agent = Agent("4")
    agent.audit()
    agent.tell("CRCX", description=AGENT)
    agent.tell("RQNT", "S: L/dl")
    agent.wait(lines.FIRST_DIGIT_S)
    assert agent.tell("RQNT", f"S: {tone}")[-1] == "L/hu"
    assert agent.wait(lines.GONE_S) == []
    assert agent.line.over


def test_a_command_that_comes_again_is_answered_again_and_obeyed_once() -> None:
    agent = Agent()
    first = agent.tell("CRCX", description=AGENT)
    agent.number -= 1
    assert agent.tell("CRCX", description=AGENT) == first


def test_what_is_not_acknowledged_is_sent_again_ever_more_rarely_and_then_no_more() -> None:
    made = MgcpEndpoint("aaln/1@fax", "", "4")
    made.begin(0.0)
    sent, now_s = [], 0.0
    while not made.over:
        if made.out:
            sent.append(round(now_s, 2))
            made.out.clear()
        now_s += 0.1
        made.due(now_s)
    assert len(sent) == lines.MOST_SENT
    gaps = [later - earlier for earlier, later in pairwise(sent)]
    assert gaps == sorted(gaps)


def test_an_unknown_command_is_refused() -> None:
    assert Agent().tell("XXXX") == ["504 101 Refused\r\n"]


def test_speech_is_a_packet_every_20_ms_from_the_first() -> None:
    voice = lines.RtpSpeech(8, 160)
    packets = [*voice.due(1.0), *voice.due(1.05), *voice.due(1.059)]
    assert [int.from_bytes(packet[2:4]) for packet in packets] == [0, 1, 2]
    assert {len(packet) for packet in packets} == {172}
    assert [packet[1] for packet in packets] == [0x88, 8, 8]
    voice.silent()
    assert len(voice.due(9.0)) == 1


def test_answers_to_repeated_commands_are_kept_for_the_last_ones_alone() -> None:
    made = MgcpEndpoint("aaln/1@fax", described("192.0.2.7", 8))
    for number in range(3 * lines.MOST_ANSWERS):
        made.received(f"AUEP {number} aaln/1@fax MGCP 1.0\r\n", 0.0)
    assert len(made._answers) == lines.MOST_ANSWERS
    made.out.clear()
    last = 3 * lines.MOST_ANSWERS - 1
    made.received(f"AUEP {last} aaln/1@fax MGCP 1.0\r\n", 0.0)
    assert made.out == [made._answers[last]]


@pytest.mark.parametrize(
    ("description", "place"),
    [
        ("c=IN IP4 192.0.2.9\nm=audio 6100 RTP/AVP 8\n", ("192.0.2.9", 6100)),
        ("c=IN IP6 2001:db8::9\nm=audio 6100 RTP/AVP 8\n", ("2001:db8::9", 6100)),
        ("c=IN IP4 192.0.2.9\nm=audio 70000 RTP/AVP 8\n", None),
        ("c=IN IP4 192.0.2.9\nm=audio 99999999999999999999 RTP/AVP 8\n", None),
        ("c=IN IP4 host.example\nm=audio 6100 RTP/AVP 8\n", None),
    ],
)
def test_speech_goes_to_an_address_and_a_port_or_nowhere(
    description: str, place: tuple[str, int] | None
) -> None:
    assert lines._speech(description) == place
