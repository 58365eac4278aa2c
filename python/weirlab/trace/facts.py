"""The result of ``weirlab._engine.analyse``: plain mappings, so that nothing has to be built.

Definitions of all numbers are in ``docs/trace.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NotRequired, TypedDict, overload

Begin = Literal["handshake", "half_handshake", "syn", "middle"]
End = Literal["open", "closed", "half_closed", "reset", "idle", "replaced"]
Place = Literal["at_a", "at_b", "between", "unknown"]
SideName = Literal["a", "b"]

BEGINS: Final = ("handshake", "half_handshake", "syn", "middle")
ENDS: Final = ("open", "closed", "half_closed", "reset", "idle", "replaced")
PLACES: Final = ("at_a", "at_b", "between", "unknown")

MEANINGS: Final = (
    "new",
    "ack",
    "duplicate_ack",
    "out_of_order",
    "timeout",
    "fast",
    "tail_probe",
    "handshake",
    "unexplained",
    "copy",
    "keep_alive",
    "window_probe",
    "reset",
)
"""Names of ``meaning`` in the table of segments, in the order of their numbers."""

RETRANSMISSIONS: Final = ("timeout", "fast", "tail_probe", "handshake", "unexplained")
"""Causes of retransmissions; the same words are meanings and fields of ``Retransmissions``."""

METHODS: Final = ("ack", "timestamp", "echo")
"""Names of ``method`` in the table of round trips, in the order of their numbers."""


class TimeSummary(TypedDict):
    """Times, summed up; in ns. None where ``count`` is 0."""

    count: int
    min_ns: int | None
    max_ns: int | None
    mean_ns: float | None
    sd_ns: float | None


class Retransmissions(TypedDict):
    """Retransmitted packets, each counted once by its cause; ``bytes`` is their payload."""

    total: int
    bytes: int
    timeout: int
    fast: int
    tail_probe: int
    handshake: int
    unexplained: int
    fins: NotRequired[int]
    """Among all of them, FINs without data; analyses kept by earlier versions have none."""
    spurious: int
    """Among all of them, those that the receiver already had."""


class SynOptions(TypedDict):
    """Options of a SYN. ``mss`` in bytes; ``window_scale`` is the shift."""

    mss: int | None
    window_scale: int | None
    sack: bool
    timestamps: bool


class Side(TypedDict):
    """One end of a connection and what it sent. Sizes in bytes, times in ns."""

    addr: str
    port: int
    packets: int
    link_bytes: int
    data_packets: int
    data_bytes: int
    unique_bytes: int
    pure_acks: int
    data_ns: tuple[int, int] | None
    payload_max: int
    syns: int
    fins: int
    resets: int
    options: SynOptions | None
    retransmissions: Retransmissions
    out_of_order: int
    copies: int
    unseen_bytes: int
    keep_alives: int
    window_probes: int
    duplicate_acks: int
    sack_blocks: int
    dsacks: int
    window: tuple[int, int] | None
    zero_windows: int
    zero_window_ns: int
    window_full: int
    rtt: TimeSummary
    rtt_timestamp: TimeSummary
    flight_max: int
    flight_mean: float
    idle_max_ns: int
    congestion_marks: int
    renumbered: int
    """Packets whose sequence numbers a device had changed."""
    unanswered: int
    """Packets with data after the last packet of the other end, which came ``unanswered_after_ns`` before the
    first of them; ``unanswered_ns`` passed from the first to the last."""
    unanswered_ns: int
    unanswered_after_ns: int
    shut_ns: NotRequired[int]
    """How long its window had been closed at the end; analyses of earlier versions have none."""
    answers: NotRequired[int]
    """Times that its new data came after data of the other end; analyses of earlier versions have none."""
    answers_ns: NotRequired[int]
    """How long these took in all, beyond the least round trip to this end; ``answer_max_ns`` the longest."""
    answer_max_ns: NotRequired[int]


class Connection(TypedDict):
    """A TCP connection. ``a`` sent the SYN, or the first packet that was captured."""

    id: int
    vlan: str
    interface: str
    a: Side
    b: Side
    first_ns: int
    last_ns: int
    begin: Begin
    end: End
    handshake_ns: tuple[int | None, int | None]
    idle_max_ns: int
    place: Place
    scaled: NotRequired[bool]
    """The scale of its windows is known from elsewhere; see ``Trace.scale_windows``."""


class Selection(Sequence[Connection]):
    """Connections in an order, each made when it is looked at: 100,000 of them as mappings take 3 GB.

    Parameters
    ----------
    source
        Where they come from.
    numbers
        Places in ``source``, in the wanted order; None: all.
    """

    def __init__(self, source: Sequence[Connection], numbers: Sequence[int] | None = None) -> None:
        self._source = source
        self._numbers = range(len(source)) if numbers is None else numbers

    @property
    def source(self) -> Sequence[Connection]:
        """All of them, in the order of their first packets."""
        return self._source

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> Connection: ...
    @overload
    def __getitem__(self, at: slice) -> Selection: ...
    def __getitem__(self, at: int | slice) -> Connection | Selection:
        if isinstance(at, slice):
            return Selection(self._source, self._numbers[at])
        return self._source[self._numbers[at]]

    def where(self, fits: Callable[[Connection], bool]) -> Selection:
        """Those that fit, in the same order."""
        return Selection(self._source, [number for number in self._numbers if fits(self._source[number])])

    def ordered(self, key: Callable[[Connection], Any]) -> Selection:
        """All of them, those with the least ``key`` first."""
        return Selection(self._source, sorted(self._numbers, key=lambda number: key(self._source[number])))


class File(TypedDict):
    """Facts about a file."""

    path: str
    format: str
    packets: int
    cut_short: bool
    timeless: int
    misdated: int
    backwards: int
    redated: int
    """Packets whose time is far from those of both neighbours; they count with the one before."""
    first_redated: tuple[int, int] | None
    """The number of the first of these, from 1, and by how many ns it is later than its neighbour."""
    compression: str
    interfaces: list[dict[str, Any]]


class Capture(TypedDict):
    """What was read, and what was skipped."""

    files: list[File]
    packets: int
    origin_ns: int | None
    """Time of the first packet of all, from which relative times count."""
    selected: int
    bytes: int
    first_ns: int | None
    last_ns: int | None
    truncated: int
    fragments: int
    reassembled: int
    not_ip: int
    other_ip: int
    opaque: dict[str, int]
    """Packets that may contain IP but are not analysed, by name; see ``passed.OPAQUE``."""
    malformed: int
    unknown_link: int
    unknown_links: list[int]
    timeless: int
    misdated: int
    backwards: int
    redated: int
    cut_short: bool
    tcp: int
    udp: int
    esp: int


class Stream(TypedDict):
    """A voice stream: RTP, or one direction of an IAX2 call. Times in ns; see ``docs/quality.md``."""

    src: str
    src_port: int
    dst: str
    dst_port: int
    protocol: Literal["rtp", "iax2"]
    ssrc: int
    vlan: str
    interface: str
    codec: str
    payload_types: list[tuple[int, int, str]]
    media: str
    known_by: str
    payload_type: int
    clock_hz: int
    part: int
    packets: int
    payload_bytes: int
    first_ns: int
    last_ns: int
    expected: int
    lost: int | None
    """None if it is unknown: over IAX2, if the sender's time stamps are not those of the speech; and if the
    capture itself misses packets."""
    loss_estimated: bool
    loss_runs: int
    longest_run: int
    copies: int
    reordered: int
    strays: int
    markers: int
    gap_max_ns: int | None
    jitter_mean_ns: float | None
    jitter_max_ns: float | None


class EspFlow(TypedDict):
    """What one security association sent; ``ports`` if in UDP."""

    src: str
    dst: str
    vlan: str
    interface: str
    spi: int
    ports: tuple[int, int] | None
    packets: int
    bytes: int
    first_ns: int
    last_ns: int
    lost: int
    reordered: int
    copies: int
    restarts: int


class Analysis(TypedDict):
    """The whole answer."""

    capture: Capture
    connections: Sequence[Connection]
    connections_left_out: int
    streams: list[Stream]
    streams_left_out: int
    """Streams beyond the limit, which are not in the answer."""
    esp: list[EspFlow]
    esp_left_out: int
    elapsed_ns: int


def start_ns(analysis: Analysis) -> int:
    """Time of the first packet, from which relative times count."""
    return analysis["capture"]["origin_ns"] or 0


def side(connection: Connection, name: SideName) -> Side:
    """Side ``a`` or ``b``."""
    return connection["a"] if name == "a" else connection["b"]


def sides(connection: Connection) -> tuple[Side, Side]:
    """Both sides, the initiator first."""
    return connection["a"], connection["b"]


def busier(connection: Connection) -> SideName:
    """The side that sent more payload."""
    return "b" if connection["b"]["data_bytes"] > connection["a"]["data_bytes"] else "a"


def data_again(sent: Side) -> int:
    """Packets with data that were retransmitted: no SYN, and no FIN by itself."""
    again = sent["retransmissions"]
    return again["total"] - again["handshake"] - again.get("fins", 0)


def link_bytes(connection: Connection) -> int:
    """Bytes of all its frames, by which the engine selects the largest connections."""
    return connection["a"]["link_bytes"] + connection["b"]["link_bytes"]


def endpoint(end: Side) -> str:
    """``192.0.2.1:443``, ``[2001:db8::1]:443``."""
    return place(end["addr"], end["port"])


def place(addr: str, port: int) -> str:
    """The same for an address and a port; port 0 is left out."""
    if not port:
        return addr
    return f"[{addr}]:{port}" if ":" in addr else f"{addr}:{port}"


def streams_left_out(analysis: Analysis) -> int:
    """The number of voice streams that are not in the answer."""
    return analysis.get("streams_left_out", 0)
