"""A residential MGCP gateway with one line (RFC 3435), as a program with only the standard library.

It includes the line's telephone, which answers every call, or calls a number and hangs up after a
while. It sends speech whenever the connection allows. The only argument is a JSON object:

``host``, ``port``       where it is
``agent``                address and port of its call agent
``name``, ``line``       its name at the call agent: ``line@name``
``payload``, ``bytes``   RTP payload type of the speech, and bytes in a packet of 20 ms
``dials``                digits to dial; without it, it takes calls
``hold_s``               it hangs up this long after the first speech that it hears
``longest_s``            it gives up its own call after this time

Every message is printed, and ``ready`` once its call agent has acknowledged it.
"""

import ipaddress
import json
import math
import random
import re
import select
import socket
import struct
import sys
import time
from dataclasses import dataclass
from typing import Any

MEDIA_PORT = 6100
PACKET_S = 0.02
ANSWER_S = 0.1
"""How long it rings."""
READY_S = 1.0
"""It is ready after this time even without a call agent."""
FIRST_DIGIT_S = 0.5
DIGIT_S = 0.1
"""After dial tone, and between digits, as people and diallers do it. A digit that Asterisk gets before its
thread for the call runs is no first digit to it (``mgcp_ss`` in chan_mgcp): it then waits 16 s for one."""
FIRST_S = 0.2
MOST_SENT = 7
"""A command is repeated after this time, then after twice that, up to this often (RFC 3435, 4.3)."""
MOST_ANSWERS = 100
"""Answers that are kept for commands that come again."""
GONE_S = 5.0
"""A telephone that has hung up waits this long for its connection to be deleted, and for the next request.
If that request is unanswered when the line comes back, Asterisk stops answering."""
LAST_S = 2.0
"""It waits this long for further ones."""

_COMMAND = re.compile(r"([A-Z]{4}) (\d{1,9}) (\S+) MGCP 1\.0")
_ANSWER = re.compile(r"(\d{3}) (\d{1,9})(?: |$)")
_OUT = ("sendrecv", "sendonly", "confrnce")
"""Modes of a connection."""
_TROUBLE = re.compile(r"\b(?:bz|cg|ro)\b")
"""Tones that signal to a caller that the call has failed (RFC 3660): busy, congestion, reorder."""


@dataclass
class OutstandingCommand:
    """A command that has not been answered yet."""

    text: str
    again_s: float
    times: int


class MgcpEndpoint:
    """The line as a state machine. ``now_s`` is an argument; datagrams to be sent are in ``out``.

    Parameters
    ----------
    name:
        ``aaln/1@hotline``.
    description:
        Session description of where it hears and speaks (SDP).
    dials:
        Digits to dial; empty for one that takes calls.
    """

    def __init__(self, name: str, description: str, dials: str = "", hold_s: float = 0.0) -> None:
        self.name = name
        self.description = description
        self.hold_s = hold_s
        self.calls = bool(dials)
        self.out: list[str] = []
        self.remote: tuple[str, int] | None = None
        """Where speech goes while there is a connection."""
        self._sends = False
        """Does the connection's mode allow sending (RFC 3435, 3.2.2.6)?"""
        self.off_hook = False
        self.over = False
        """Has its own call ended?"""
        self.ready = False
        self._number = random.randrange(1, 1 << 20)
        self._request = "0"
        self._waiting: dict[int, OutstandingCommand] = {}
        self._answers: dict[int, str] = {}
        """To commands of the call agent, which may come again (RFC 3435, 3.5.1)."""
        self._todo = list(dials)
        self._dialling: int | None = None
        self._dials_s: float | None = None
        """When it dials the next digit."""
        self._dialled = False
        self._rings_until_s: float | None = None
        self._hangs_up_s: float | None = None
        self._gone_s: float | None = None
        self._connections = 0
        self._is_connected = False

    @property
    def speaks_to(self) -> tuple[str, int] | None:
        """Where speech goes now; None if no speech is sent."""
        speaks = self.off_hook and self._sends and (self._dialled or not self.calls)
        return self.remote if speaks else None

    def begin(self, now_s: float) -> None:
        """Tell the call agent that the line is in service."""
        self._command("RSIP", "RM: restart\r\n", now_s)

    def received(self, text: str, now_s: float) -> None:
        """Handle a datagram from the call agent."""
        first, _, rest = text.replace("\r\n", "\n").partition("\n")
        if (answer := _ANSWER.match(first)) is not None:
            self._answered(int(answer[2]), int(answer[1]), now_s)
        elif (command := _COMMAND.match(first)) is not None:
            self._obey(command[1], int(command[2]), command[3], rest, now_s)

    def heard(self, now_s: float) -> None:
        """A packet of speech arrived."""
        if self.calls and self._dialled and self._hangs_up_s is None:
            self._hangs_up_s = now_s + self.hold_s

    def give_up(self, now_s: float) -> None:
        """End its own call properly, because the call agent would otherwise keep it for ever."""
        self._todo.clear()
        if self.off_hook:
            self._hang_up(now_s)
        elif self._gone_s is None:
            self.over = True

    def due(self, now_s: float) -> None:
        """Do what is due."""
        for number, sent in list(self._waiting.items()):
            if now_s < sent.again_s:
                continue
            if sent.times >= MOST_SENT:
                del self._waiting[number]
                self.over = self.over or self.calls
                continue
            self.out.append(sent.text)
            sent.again_s = now_s + FIRST_S * 2**sent.times
            sent.times += 1
        if self._dials_s is not None and now_s >= self._dials_s:
            self._dials_s = None
            self._dial(now_s)
        if self._rings_until_s is not None and now_s >= self._rings_until_s:
            self._rings_until_s = None
            self._hook(True, now_s)
        if self._hangs_up_s is not None and now_s >= self._hangs_up_s and self.off_hook:
            self._hang_up(now_s)
        if self._gone_s is not None and now_s >= self._gone_s:
            self.over = True

    def _answered(self, number: int, code: int, now_s: float) -> None:
        if code < 200 or self._waiting.pop(number, None) is None:
            return
        if number == self._dialling:
            self._dialling = None
            self._dials_s = now_s + DIGIT_S if self._todo else None
            self._dialled = not self._todo

    def _obey(self, verb: str, number: int, endpoint: str, rest: str, now_s: float) -> None:
        if number in self._answers:
            self.out.append(self._answers[number])
            return
        if len(self._answers) >= MOST_ANSWERS:
            del self._answers[next(iter(self._answers))]
        head, _, description = rest.partition("\n\n")
        pairs = [line.partition(":") for line in head.split("\n") if ":" in line]
        lines = {key.strip().upper(): value.strip() for key, _, value in pairs}
        code, body = self._done(verb, endpoint, lines, description, now_s)
        answer = f"{code} {number} {'OK' if code < 300 else 'Refused'}\r\n{body}"
        self._answers[number] = answer
        self.out.append(answer)
        self._after(verb, lines, now_s)

    def _done(
        self, verb: str, endpoint: str, lines: dict[str, str], description: str, now_s: float
    ) -> tuple[int, str]:
        """The answer to a command, and what it changes at once."""
        if "*" in endpoint and verb == "AUEP":
            return 200, f"Z: {self.name}\r\n"
        if verb == "AUEP":
            self.ready = True
            return 200, f"ES: {'L/hd' if self.off_hook else 'L/hu'}\r\n"
        if verb == "RQNT":
            self._request = lines.get("X", self._request)
            return 200, ""
        if verb in ("CRCX", "MDCX"):
            self._connections += verb == "CRCX"
            self._is_connected = True
            self.remote = _speech(description) or self.remote
            if "M" in lines:
                self._sends = lines["M"].lower() in _OUT
            known = f"I: {self._connections}\r\n" if verb == "CRCX" else ""
            return 200, f"{known}\r\n{self.description}"
        if verb == "DLCX":
            self.remote, self._sends, self._is_connected = None, False, False
            return 250, ""
        return 504, ""

    def _after(self, verb: str, lines: dict[str, str], now_s: float) -> None:
        """What the telephone does then."""
        signals = lines.get("S", "")
        if verb == "RQNT" and "L/rg" in signals and not self.off_hook and not self.calls:
            self._rings_until_s = now_s + ANSWER_S
        elif verb == "RQNT" and "L/rg" not in signals:
            self._rings_until_s = None if not self.off_hook else self._rings_until_s
        if verb == "RQNT" and self.calls and self.off_hook:
            if "L/dl" in signals and self._dialling is None and self._dials_s is None and self._todo:
                self._dials_s = now_s + FIRST_DIGIT_S
            elif self._dialled and _TROUBLE.search(signals):
                self._hang_up(now_s)
        if verb in ("RQNT", "AUEP") and self.calls and self.ready and not self.off_hook and self._todo:
            self._hook(True, now_s)
        if verb == "DLCX" and self.off_hook:
            self._hang_up(now_s)
        elif verb == "RQNT" and self._gone_s is not None and not self._is_connected:
            # A tone for a refused call comes last, and would otherwise disturb the next call.
            self._gone_s = min(self._gone_s, now_s + LAST_S)

    def _dial(self, now_s: float) -> None:
        """The next digit; the one before has been taken."""
        self._dialling = self._command("NTFY", f"X: {self._request}\r\nO: D/{self._todo.pop(0)}\r\n", now_s)

    def _hook(self, off: bool, now_s: float) -> None:
        self.off_hook = off
        self._command("NTFY", f"X: {self._request}\r\nO: L/{'hd' if off else 'hu'}\r\n", now_s)

    def _hang_up(self, now_s: float) -> None:
        self._hook(False, now_s)
        self._hangs_up_s = self._dials_s = None
        if self.calls:
            self._gone_s = now_s + GONE_S

    def _command(self, verb: str, lines: str, now_s: float) -> int:
        self._number += 1
        text = f"{verb} {self._number} {self.name} MGCP 1.0\r\n{lines}"
        self._waiting[self._number] = OutstandingCommand(text, now_s + FIRST_S, 1)
        self.out.append(text)
        return self._number


def _speech(description: str) -> tuple[str, int] | None:
    """Where a session description wants speech; None if it does not say."""
    where = re.search(r"^c=IN IP[46] (\S+)", description, re.MULTILINE)
    port = re.search(r"^m=audio (\d+) ", description, re.MULTILINE)
    if where is None or port is None or not 0 < int(port[1][:6]) < 1 << 16:
        return None
    try:
        return str(ipaddress.ip_address(where[1])), int(port[1])
    except ValueError:
        return None


def described(host: str, payload: int) -> str:
    """The session description of a line that speaks one codec."""
    version = 6 if ":" in host else 4
    return (
        f"v=0\r\no=- 1 1 IN IP{version} {host}\r\ns=-\r\nc=IN IP{version} {host}\r\nt=0 0\r\n"
        f"m=audio {MEDIA_PORT} RTP/AVP {payload}\r\n"
    )


class RtpSpeech:
    """Speech as RTP packets (RFC 3550), one every 20 ms."""

    def __init__(self, payload: int, size: int) -> None:
        self._payload = payload
        self._noise = random.Random(payload).randbytes(size)
        self._source = 0x6D676370
        self._count = 0
        self.next_s: float | None = None

    def due(self, now_s: float) -> list[bytes]:
        """Packets that are to be sent by now."""
        if self.next_s is None:
            self.next_s = now_s
        packets = []
        while self.next_s <= now_s:
            marker = 0x80 if self._count == 0 else 0
            head = struct.pack(
                ">BBHII", 0x80, marker | self._payload, self._count % 65536, self._count * 160, self._source
            )
            packets.append(head + self._noise)
            self._count += 1
            self.next_s += PACKET_S
        return packets

    def silent(self) -> None:
        """Until the next call."""
        self.next_s = None


def main(settings: dict[str, Any]) -> int:
    """Run the line until its own call has ended, or for ever."""
    host, payload = settings["host"], settings["payload"]
    name = f"{settings['line']}@{settings['name']}"
    line = MgcpEndpoint(
        name, described(host, payload), settings.get("dials", ""), settings.get("hold_s", 0.0)
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    control, media = (socket.socket(family, socket.SOCK_DGRAM) for _ in range(2))
    control.bind((host, settings["port"]))
    media.bind((host, MEDIA_PORT))
    agent = tuple(settings["agent"])
    voice = RtpSpeech(payload, settings["bytes"])
    begun_s = time.monotonic()
    limit_s = begun_s + settings["longest_s"] if line.calls else math.inf
    line.begin(begun_s)
    told = False
    while not line.over:
        now_s = time.monotonic()
        line.due(now_s)
        if now_s > limit_s:
            print("gives up", flush=True)
            limit_s = math.inf
            line.give_up(now_s)
        if not told and (line.ready or now_s > begun_s + READY_S):
            told = True
            print("ready", flush=True)
        send(line, control, agent)
        if (listener := line.speaks_to) is not None:
            for packet in voice.due(now_s):
                media.sendto(packet, listener)
        else:
            voice.silent()
        for ready in select.select([control, media], [], [], PACKET_S / 4)[0]:
            try:
                datagram, source = ready.recvfrom(1 << 16)
            except OSError:
                # Nobody waits where the last one went.
                continue
            if ready is control and source[0] != agent[0]:
                # A line obeys its call agent alone.
                continue
            if ready is media:
                line.heard(now_s)
                continue
            text = datagram.decode(errors="replace")
            print("<<", text.replace("\r\n", " | ").replace("\n", " | "), flush=True)
            line.received(text, now_s)
    send(line, control, agent)
    return 0


def send(line: MgcpEndpoint, control: socket.socket, agent: tuple[Any, ...]) -> None:
    """Send what is to be sent."""
    for text in line.out:
        print(">>", text.replace("\r\n", " | "), flush=True)
        control.sendto(text.encode(), agent)
    line.out.clear()


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
