"""The Rust engine: XDP live frames, packet sockets, and the simulated device."""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from weirlab.traffic.plan import DeparturePlan

class Emulator:
    """A link between the interfaces ``a`` and ``b``, carried by a thread of this process while this is open.

    ``a_netns`` and ``b_netns`` are names of network namespaces (``None``: this one). ``paths`` say what
    happens from a to b and from b to a, as ``weirlab.emulation.spec.PathSpec.plain`` writes it. Before that,
    frames of both directions cross the ``device``, if there is one (as ``BehaviourGrid.plain`` writes it,
    with ``position`` and ``seed``). ``duration_s`` ends it by itself; ``cpu`` pins the thread, which with
    ``busy`` never sleeps, and without ``busy`` may be ``real_time``, before all ordinary work. Frames may
    leave up to ``slack_s`` late, so that it sleeps longer. ``memory_bytes`` bounds the frames that are on the
    link.
    Raises ``InputError`` for what there cannot be, ``MissingCapability`` without CAP_NET_RAW, ``LabError``
    where an interface is missing or down.
    """

    def __init__(
        self,
        *,
        a: str,
        b: str,
        a_netns: str | None = None,
        b_netns: str | None = None,
        paths: tuple[dict[str, Any], dict[str, Any]],
        device: Mapping[str, object] | None = None,
        duration_s: float | None = None,
        cpu: int | None = None,
        busy: bool = False,
        slack_s: float = 0.0,
        real_time: bool = False,
        memory_bytes: int = 1 << 30,
    ) -> None: ...
    def progress(self) -> dict[str, Any]:
        """``directions`` (counters, lateness as histogram), times, whether it has ``ended``, ``failure``."""
    def change(self, direction: int, path: dict[str, Any]) -> None:
        """Let a direction (0: from a to b) go on otherwise; raises ``InputError`` and changes nothing."""
    def stop(self) -> dict[str, Any]:
        """End it; the answer is that of ``progress``. May be called twice."""

def check_path(path: dict[str, Any]) -> None:
    """Raise ``InputError``, which begins with the name of what cannot be, unless there can be such a path."""

def emulate_path(
    path: dict[str, Any], at_ns: NDArray[np.uint64], frame_bytes: NDArray[np.uint32]
) -> dict[str, Any]:
    """Send frames through one direction of a link without any network.

    Frame ``i`` of ``frame_bytes[i]`` bytes (without FCS) arrives at ``at_ns[i]``, which never falls. The
    answer has ``frame`` (its number ``i``) and ``due_ns`` of each frame that departs, in order, and the
    counters.
    """

class Engine:
    """Sender and receiver on two interfaces.

    ``tx_netns`` and ``rx_netns`` are names of network namespaces (``None``: this one). One thread sends on
    each of ``tx_cpus``, or one on any CPU if there are none; ``spin_cpu`` is kept awake during trials by a
    thread of class SCHED_IDLE. ``device_threads`` (process numbers) do the device's work: they and the
    senders are real time during trials that are short enough for it. ``program_at_sender``: attach an XDP
    program to the sender's interface too, which drivers of hardware need to send by XDP. Raises
    ``MissingCapability`` when no allowed back end works and ``LabError`` when a namespace or an interface
    is missing.
    """

    def __init__(
        self,
        *,
        tx_netns: str | None,
        tx_if: str,
        rx_netns: str | None,
        rx_if: str,
        tx_cpus: Sequence[int] = (),
        spin_cpu: int | None = None,
        device_threads: Sequence[int] = (),
        backend: Literal["auto", "xdp", "af_packet"] = "auto",
        program_at_sender: bool = False,
    ) -> None: ...
    @property
    def backend(self) -> Literal["xdp", "af_packet"]: ...
    @property
    def xdp_mode(self) -> Literal["native", "generic", ""]: ...
    @property
    def fallback_reason(self) -> str | None: ...
    @property
    def real_time_refused(self) -> str | None:
        """Why the last trial was not real time although it was short enough for it."""
    def run(
        self,
        plan: DeparturePlan,
        macs: tuple[bytes, bytes],
        back_macs: tuple[bytes, bytes] | None = None,
        *,
        holds: Callable[[], bool | None] | None = None,
    ) -> dict[str, Any]:
        """Play ``plan``; blocks. Ctrl-C raises ``KeyboardInterrupt`` within some 20 ms.

        When no more packets arrive, ``holds`` is asked whether the device still holds some (None: not known);
        as long as it does, they are waited for. What it raises ends the trial.

        ``macs`` are source and destination; ``back_macs`` are for flows that are sent from the receiver's
        side. The answer to
        a plan with ``media`` has every arrival under ``packets``, and ``first_seq`` among ``flows``.
        Raises ``InputError`` for a plan that cannot be sent; it names the packet.
        """

    def close(self) -> None: ...

class EspOutbound:
    """The sender's end of an ESP security association (RFC 4303); for checks, not for speed.

    ``suite``: a name of ``weirlab.traffic.encapsulation.suites``. ``encryption_key``: with a salt of 4 bytes
    at its end for AES-GCM and ChaCha20-Poly1305. ``iv_key``: 16 random bytes, from which the initialization
    vectors of CBC come. ``tunnel``: addresses of the two gateways (``None``: transport mode). ``natt``: UDP
    ports of sender and receiver (``None``: no UDP). ``sent``: the last sequence number that was used.
    Raises ``ValueError`` for an association that cannot be.
    """

    def __init__(
        self,
        *,
        spi: int,
        suite: str,
        iv_key: bytes,
        encryption_key: bytes = b"",
        authentication_key: bytes = b"",
        tunnel: tuple[str, str] | None = None,
        natt: tuple[int, int] | None = None,
        esn: bool = False,
        sent: int = 0,
    ) -> None: ...
    @property
    def sent(self) -> int:
        """The last sequence number that was used; 0 before the first packet."""

    def encapsulate(self, packet: bytes) -> bytes:
        """An IP packet with ESP. Raises ``ValueError`` with the reason why it cannot be protected."""

    def encapsulate_each(self, packets: Sequence[bytes]) -> list[bytes]:
        """The same for many; those of AES-CBC are encrypted side by side."""

class EspInbound:
    """The receiver's end; arguments as of ``EspOutbound``.

    ``window``: how many sequence numbers are remembered against replays (0: none). ``highest``: the highest
    one that came.
    """

    def __init__(
        self,
        *,
        spi: int,
        suite: str,
        encryption_key: bytes = b"",
        authentication_key: bytes = b"",
        tunnel: tuple[str, str] | None = None,
        natt: tuple[int, int] | None = None,
        esn: bool = False,
        window: int = 64,
        highest: int = 0,
    ) -> None: ...
    @property
    def counts(self) -> dict[str, int]:
        """Packets: accepted, malformed, foreign, too_old, replayed, forged, discarded."""

    def decapsulate(self, packet: bytes) -> bytes:
        """The IP packet inside. Raises ``ValueError`` with the reason why it was dropped."""

class EspCosts:
    """Times packets of speech with ESP, ``packets`` of them in a round; keys and numbers go on."""

    def __init__(self, *, packets: int, associations: int = 1) -> None:
        """``associations`` are used in turn. ``ValueError`` where the system has no sockets for it."""

    def round(self, *, suite: str, tunnel: bool, way: str, packet_bytes: int) -> float:
        """ns per packet in one round; ``packet_bytes``: of the IP packet in the clear, with UDP.

        ``way``: ``out``, ``out-each`` (eight at a time), ``out-udp`` and ``out-rtp`` (headers written before,
        with UDP or without); ``in``, ``in-udp``, ``in-rtp``, ``in-layers``, ``in-system`` (decapsulated, and
        handed to its call: with UDP, without, through a queue between layers, through a socket).
        ``ValueError`` for other words, and lengths below 64 or above 1500.
        """

ESP_COUNTERS: Final[tuple[str, ...]]
"""Names of a gateway's counters: those of its file, 8 bytes each, in the host's byte order."""

def talk_between(
    *,
    bypass: bool,
    real_time: bool,
    places: tuple[tuple[str, str, bytes, str, int], tuple[str, str, bytes, str, int]],
    period_ns: int,
    packets: int,
    payload_bytes: int,
    payload_type: int,
    stamp_units: int,
    phases_ns: tuple[Sequence[int], Sequence[int]],
    linger_ns: int,
    suite: str | None = None,
    tunnel: bool = False,
    port: int = 4500,
    keys: Sequence[tuple[int, bytes, bytes]] | None = None,
    iv_key: bytes = ...,
) -> dict[str, Any]:
    """Let two endpoints talk to one another in calls, past the system (``bypass``) or through UDP sockets.

    ``places``: of each endpoint the namespace's name, the interface, its Ethernet and its IPv4 address, and
    the CPU of its thread. ``phases_ns``: when the first packet of each call is due, for either endpoint as
    the sender. ``keys``: SPI, encryption key and authentication key of what each endpoint sends, by ESP.
    The answer has ``logs``, one of each endpoint, whose ``sent_ns`` and ``heard_ns`` have the shape (calls,
    packets); 0 stands for a packet that was not there. Times are those of CLOCK_MONOTONIC.
    """

def try_af_xdp(interface: str) -> tuple[bool, bool]:
    """Open an AF_XDP socket, with its XDP program, on an interface of the calling thread's namespace.

    The answer is whether the program runs in the driver, and whether the socket is in zero-copy mode.
    ``MissingCapability`` where one of both is refused.
    """

def esp_key_bytes(suite: str) -> tuple[list[int], int]:
    """Lengths that a suite's encryption key may have, salt included, and that of its authentication key.

    ``ValueError`` where there is no such suite.
    """

def run_esp_gateway(
    *,
    inside: str,
    outside: tuple[str, bytes, bytes, int],
    suite: str,
    ends: tuple[str, str],
    sending: tuple[int, bytes, bytes, bytes],
    receiving: tuple[int, bytes, bytes, bytes],
    iv_key: bytes,
    natt: tuple[int, int] | None,
    window: int,
    counters: str,
    rekey_packets: int | None = None,
    rekey_s: float | None = None,
    is_rekey_wanted: Callable[[], bool] | None = None,
) -> None:
    """Be a gateway of an ESP tunnel until the handler of a signal raises something.

    ``inside``: name of the TUN interface to make, where packets are in the clear. ``outside``: name of the
    interface where they have ESP, the gateway's Ethernet address there (not the interface's own), that of
    the other gateway, and the MTU.
    ``ends``: IP addresses of this gateway and of the other one. ``sending`` and ``receiving``: SPI,
    encryption key and authentication key, as of ``EspOutbound``, and the secret of 32 bytes from which the
    associations come that follow. The gateway begins to send with the next one after ``rekey_packets``, after
    ``rekey_s`` seconds of the monotonic clock, or when ``is_rekey_wanted``, which is asked several times a
    second, says so; it follows the other gateway at any time. ``counters``: a file to make for
    ``ESP_COUNTERS``. ``ValueError`` for an association that cannot be, ``MissingCapability`` without
    CAP_NET_RAW and CAP_NET_ADMIN, ``LabError`` where an interface is missing, down or goes away.
    """

def frames(
    plan: DeparturePlan, macs: tuple[bytes, bytes], back_macs: tuple[bytes, bytes] | None = None
) -> dict[str, Any]:
    """Every frame of ``plan`` as it would be sent, without sending: what a capture of it shows.

    ``due_ns`` (u64, from the start), ``length`` (u32, without FCS), ``flow`` (u32) and ``bytes``
    (u8, all frames one after the other). ``ValueError`` for a plan that repeats or cannot be sent.
    """

def simulate(
    plan: DeparturePlan, device: Mapping[str, object], behaviour: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """Send ``plan`` through a simulated device. ``ValueError`` names a bad parameter, ``InputError`` a
    packet of a call that cannot be sent.

    ``positions`` of the device has the matching position of each flow, ``servers`` the number, from 0, of the
    server of the device that serves it. With a ``behaviour``, as
    ``weirlab.model.process.BehaviourGrid.plain`` writes it, the device does as a measured one.
    """

def handover_ns(cpu: int, other: int) -> float | None:
    """Time in ns for a cache line to pass between two CPUs and back; about a millisecond.

    None where it cannot be told (one CPU, or no right to pin threads).
    """

def listen(
    spinning: Sequence[int], waking: Sequence[int], seconds: float, threshold_ns: int
) -> list[dict[str, Any]]:
    """Have a thread spin, or wake up every 0.1 ms, on each of the CPUs, all at once, and note when each CPU
    was away for ``threshold_ns`` or longer.

    One dict per CPU, those of ``spinning`` first: ``cpu``, ``start_ns``, ``end_ns`` (CLOCK_MONOTONIC),
    ``real_time`` (bool: the thread had real-time priority), arrays ``gap_start_ns`` and ``gap_ns`` (u64).
    ``OSError`` for a CPU that cannot be used.
    """

def rtp_packets(
    path: str,
    decode_as: Sequence[tuple[int, int]] = (),
    encodings: Sequence[tuple[int | None, str, int]] = (),
    share: tuple[int, int] = (0, 1),
) -> dict[str, Any]:
    """Every packet of every voice stream in a capture file; see ``docs/quality.md``.

    ``path``: pcap or pcapng, plain or compressed. ``decode_as``: ranges of UDP ports, ends
    included, whose packets are taken for RTP if they look like one packet of it; elsewhere a
    stream has to prove itself. ``encodings``: what payload types stand for (None: what a stream carries
    of which nobody else tells), with encoding name and clock rate, before all that the capture says.
    Runs without the GIL. Raises ``weirlab.base.errors.InputError`` for a
    file that cannot be read or is damaged, with the offset.

    The answer has three dicts. ``packets``, one element per packet, streams one after the other
    in the order of their first packet, packets of a stream in order of arrival:

    - ``stream`` (u32): index into ``streams``.
    - ``arrival_ns`` (i64): since 1970, as captured.
    - ``seq`` (i64): sequence number carried on beyond 16 bits; the first packet of a stream has
      its own 16 bits, a packet before it may be negative. Copies have the same number.
    - ``timestamp`` (i64): RTP time stamp carried on beyond 32 bits, in units of the stream's
      ``clock_hz``.
    - ``payload_type`` (u8), ``marker`` (bool), ``payload_bytes`` (u16, as sent, even where the
      capture cut it short).
    - ``speech`` (bool): neither comfort noise nor a telephone event nor a payload type that is
      not known in this stream, whose time stamps do not follow the packets. Only these tell jitter.
    - ``stretch`` (u32): how often the stream's time stamps had begun anew before, of speech.

    ``streams``, a dict per stream as of ``analyse`` (see ``weirlab.trace.facts.Stream``), and ``first``: its
    rows are ``first .. first + packets``, if it is ``kept``: with a ``share`` (number, from 0, of several)
    only the rows of that share of the streams are. In IAX2 streams ``seq`` is estimated from the time stamps:
    speech left out in silence counts as lost. Where these are not those of the speech, packets are numbered
    as they came, ``lost`` is None and ``clock_hz`` 0.

    ``capture``: what was read and what was passed over: ``format`` (``pcap``, ``pcapng``, with ``+gzip``
    or ``+zstd``), ``packets``, ``bytes`` of the packets as sent, ``first_ns``, ``last_ns``
    (0 without packets), ``truncated`` (cut by the capture length), ``fragments``, ``not_ip``,
    ``not_udp``, ``malformed``, ``unknown_link`` and ``unknown_links`` (their LINKTYPE numbers),
    ``timeless`` (packets without a time), ``misdated`` (with one that cannot be), ``opaque`` (what is not
    looked into, by name), ``rtcp``, ``sip``, ``iax2`` (its signalling), ``other_udp``
    (no voice), ``cut_short`` (bool: the file ends inside a packet).
    """

class Tap:
    """An XDP bridge between interfaces ``a`` and ``b`` of one namespace, and copies of what crosses it.

    Copies go into a ring in memory that a ``Recorder`` reads (``ring``), and by way of a second ring out of
    ``mirror``, whole and with destination ``logger_mac``. ``netns``: name of a network namespace, None: this
    one. ``ring_bytes``: size of each ring, divided among all CPUs that there may be and rounded down to
    256 KiB times a power of two for each: a frame goes into the share of the CPU that forwards it.
    ``snap_bytes``: bytes of each frame that are copied for the recorder (at most 16,360 are). ``mirror_cpu``
    pins the thread that feeds the mirror. The bridge forwards while this object is open, whatever becomes of
    its readers.
    ``link_first``: while the forwarding CPU has no time left, copies for the recorder are cut to their first
    128 bytes (``cut`` counts these), and longer frames are left out of the mirror, so that copying costs the
    link nothing.
    With ``mode`` "auto", XDP is generic where an interface takes no native program or no XDP frames. What a
    sender's kernel leaves to its (virtual) hardware is lost on the way: hosts behind a veth have to complete
    checksums and VLAN tags themselves (ethtool -K IF tx off txvlan off) and send no frames beyond the MTU.
    Raises ``MissingCapability`` where XDP cannot run, ``LabError`` where an interface is missing or taken.
    """

    def __init__(
        self,
        *,
        a: str,
        b: str,
        netns: str | None = None,
        ring: bool = False,
        mirror: str | None = None,
        logger_mac: bytes | None = None,
        ring_bytes: int = 64 << 20,
        snap_bytes: int = 262_144,
        link_first: bool = True,
        mirror_cpu: int | None = None,
        mode: Literal["auto", "native", "generic"] = "auto",
    ) -> None: ...
    @property
    def xdp_mode(self) -> Literal["native", "generic"]: ...
    @property
    def warnings(self) -> list[str]:
        """What does not work as it should here, and the remedy, in sentences."""

    @property
    def ring_bytes_per_cpu(self) -> int:
        """The share of each CPU in each ring."""

    def counters(self) -> dict[str, Any]:
        """Frames so far, by stage; once closed, those of the end.

        ``a`` and ``b``, by the interface where frames came in: ``received``, ``forwarded``,
        ``not_forwarded`` (the other interface refused them, or its queue was full), ``copied`` (into the
        ring), ``not_copied`` (it was full), ``cut`` (of those copied, for the sake of the link), ``bytes``.
        ``mirror``: ``sent``, ``not_sent``, ``waiting``.
        ``reason`` in each: why frames were not forwarded or not sent, a sentence, or "".
        ``assumed``: nobody tells what became of frames behind the bridge (generic mode, no tracepoints, or,
        once closed, tracepoints that missed some); those that are not known to be refused count as forwarded.
        After the traffic has ended and the ring is empty, received = forwarded + not_forwarded =
        copied + not_copied.
        """

    def ring_fds(self) -> list[int]:
        """File descriptors by which a ``Recorder`` reads the ring, also in a child that inherits them."""

    def close(self) -> None:
        """Take the bridge away. Within 0.3 s the mirror sends what waits, and frames under way arrive; what
        waits after that counts as not sent. Safe to call again.
        """

class Recorder:
    """Writes frames into pcapng files, in a thread of its own.

    Frames come from the ring of a ``Tap`` (``ring_fds``) or from an interface (``interface`` in
    ``netns``). ``path``: the file; with rotation its stem gets a number and the time. ``filter``: an
    expression of libpcap (pcap-filter(7)). ``tcp_port``: write only the headers of the TCP connections that
    ``name_connections`` names, all of which have this port and begin after ``start``; until then, headers
    wait in memory. ``snap_bytes``: bytes of each frame that are written.
    ``rotate_bytes`` (before compression) and ``rotate_seconds`` begin a new file; ``keep_files`` removes the
    oldest ones. Frames beyond ``most_bytes`` are not written. Raises ``InputError`` for a bad filter or path,
    ``MissingCapability``, ``LabError``.
    """

    def __init__(
        self,
        path: str,
        *,
        ring_fds: Sequence[int] = (),
        interface: str | None = None,
        netns: str | None = None,
        filter: str = "",
        tcp_port: int | None = None,
        snap_bytes: int = 262_144,
        rotate_bytes: int | None = None,
        rotate_seconds: float | None = None,
        most_bytes: int | None = None,
        keep_files: int | None = None,
        compress: Literal["", "zstd"] = "",
        ring_bytes: int = 64 << 20,
        cpu: int | None = None,
        comment: str = "",
    ) -> None: ...
    def start(self) -> None:
        """Begin to record."""

    def name_connections(self, connections: Sequence[tuple[tuple[str, int], tuple[str, int]]]) -> None:
        """Name all connections to record, by address and port of both ends; further calls have no effect."""

    def progress(self) -> dict[str, Any]:
        """What became of frames so far: ``interfaces`` (a list: ``name``, ``seen``, ``lost``, ``filtered``,
        ``written``, ``not_written``), ``bytes`` written before compression, ``file`` being written,
        ``failure`` (a sentence, or ""), ``ended`` (although nobody called ``stop``: its source failed, say).

        seen = filtered + written + not_written once stopped; ``lost`` are those that never came here: the
        recorder, or its disk, was too slow. ``not_written`` are those that the disk refused, or that were
        beyond ``most_bytes``.
        """

    def stop(self) -> dict[str, Any]:
        """Write what is there, close the file; ``progress`` and besides ``files`` (``path``, ``frames``,
        ``bytes``, ``first_ns``, ``last_ns``), ``files_removed`` (how many ``keep_files`` took away) and
        ``gaps``: where frames are missing from the record (``from_ns``, ``to_ns``, ``interface``, its name,
        ``frames``, ``stage``: "ring" or "disk"). Safe to call again.
        """

class Connections:
    """Connections that :func:`analyse` found, each a dict that is made when it is asked for."""

    def __len__(self) -> int: ...
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    def packed(self) -> bytes:
        """What :meth:`merged` needs of a share."""

    @staticmethod
    def merged(shares: Sequence[bytes], keep: int) -> tuple[Connections, int]:
        """The ``keep`` connections with most bytes of all shares, numbered as without shares, and how many
        are left out."""

def analyse(
    paths: Sequence[str],
    *,
    filter: str = "",
    from_ns: int | None = None,
    to_ns: int | None = None,
    relative: bool = False,
    series: str | None = None,
    period_ns: int = 100_000_000,
    decode_as: Sequence[tuple[int, int]] = (),
    keep: int = 100_000,
    rows: ConnectionRows | None = None,
    share: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Analyse captures, one after the other as if they were one file; see ``docs/trace.md``.

    ``filter``: an expression of libpcap. ``from_ns``, ``to_ns``: only packets of this time, since 1970 or,
    if ``relative``, since the first packet. ``series``: a folder that is given Parquet files:
    ``connections``, ``segments``, ``rtt``, ``sack``, ``periods`` (of ``period_ns``) and ``streams``.
    ``keep``: connections and streams that are returned, those with most bytes; the files have all.
    ``rows``: takes the packets of connections; what it had before is dropped. ``share``: number, from 0, of
    several; only the connections of that share are followed, and their numbers are to be merged.

    The answer: ``capture`` (counts), ``connections`` (a list of dicts, sides under ``a`` and ``b``),
    ``connections_left_out``, ``streams`` (voice), ``streams_left_out``, ``esp`` (a list of dicts),
    ``esp_left_out``, ``elapsed_ns``.
    Raises ``InputError`` for files that cannot be read; the message names the offset.
    """

class ConnectionRows:
    """Packets, round trips and SACK blocks of connections, in memory; see :func:`analyse`.

    Of connections with at least ``least_segments`` packets with data, or ``least_timeouts`` time-outs, from
    one side; of connection ``only`` alone, if given. At more than ``most`` rows all are dropped
    (``overflowed``). Columns are those of the files of series, with codes for words.
    """

    overflowed: bool
    only: int | None
    def __init__(
        self, *, least_segments: int, least_timeouts: int, most: int, only: int | None = None
    ) -> None: ...
    def segments_of(self, connection: int, columns: Sequence[str], /) -> dict[str, NDArray[Any]]:
        """Columns of its packets, empty if it is not there. ``tsval`` is NaN without time stamps."""

    def rtt_of(self, connection: int, /) -> dict[str, NDArray[Any]]:
        """``time_ns``, ``rtt_ns``, ``from_side``, ``method``; not those by the ACK of a time stamp."""

    def sack_of(self, connection: int, /) -> dict[str, NDArray[Any]]:
        """``time_ns``, ``from_side``, ``left``, ``right``, ``duplicate``."""

    def take_segments_of(self, connection: int, columns: Sequence[str], /) -> dict[str, NDArray[Any]]:
        """The same, and forget all rows of the connection."""

def sender_timeline(
    columns: dict[str, NDArray[Any]],
    *,
    place: str,
    mss_bytes: int,
    min_rtt_s: float,
    scaled: bool,
    blocks: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    trips: tuple[NDArray[np.int64], NDArray[np.int64]],
    behind: tuple[NDArray[np.int64], NDArray[np.int64]],
    echoes: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> dict[str, Any] | None:
    """The columns of a ``weirlab.diagnosis.timeline.Timeline``, or None if hardly any data was captured.

    ``columns``: those of ``weirlab.diagnosis.capture.ConnectionPackets``; the dict is emptied. ``blocks``:
    times (ns), beginnings and ends of the receiver's SACK blocks. Round trips are pairs of times and
    lengths, ns. ``idle``: nothing waits in the sender. Also ``mss_bytes``,
    ``min_rtt_s``, ``blur_s`` (how exactly it is known when ACKs reached the sender), ``flaw`` (``no_acks``,
    ``clock``, ``too_much``, ``jump`` or None), ``policer``: None, or its rate in bytes per second, its first
    and its last loss in s, segments lost and sent between these; ``drain``: None, or a rate in bytes per
    second, from when and until when data arrived at it, in s, and whether never faster; and ``timeouts``:
    None, or number, tails, ignored, the longest, and (passed bytes, lost bytes, tries, later passed) of a
    black hole or None.
    """

def least_rtts(time_ns: NDArray[np.int64], rtt_ns: NDArray[np.int64], within_ns: int, /) -> NDArray[np.int64]:
    """By round trip, the least one of its period of about ``within_ns``."""

def adaptive_delays(
    start: NDArray[np.int64],
    number: NDArray[np.int64],
    sent_ns: NDArray[np.int64],
    transit_ns: NDArray[np.int64],
    packet_ns: NDArray[np.float64],
    depths_ns: tuple[float, float, float],
    /,
) -> NDArray[np.float64]:
    """Play-out delay by packet, ns, of the adaptive jitter buffer of ``weirlab.quality.jitterbuffer``.

    ``start``: where each stream begins among the packets, and the end; ``number`` to ``transit_ns``:
    the packets of each stream in order of arrival; ``packet_ns``: by stream; ``depths_ns``: least and
    greatest depth, and the time between adjustments. Raises ``ValueError`` for arrays that do not fit
    each other.
    """

def weighted_quantile(values: NDArray[np.float64], weights: NDArray[np.float64], share: float, /) -> float:
    """The value below which ``share`` of the weights lie; NaN without finite values of positive weight."""

def finite_median(values: NDArray[np.float64], /) -> float:
    """The median of what is finite; NaN without any."""

def queue_explains(
    start_s: NDArray[np.float64],
    rtt_s: NDArray[np.float64],
    flight_bytes: NDArray[np.float64],
    counts: NDArray[np.bool_],
    at_departure: bool,
    capacity: float,
    min_rtt_s: float,
    mss_bytes: float,
    /,
) -> tuple[bool, bool]:
    """Whether a queue in front of ``capacity`` bytes per second explains the round trips of the pieces that
    ``counts`` marks; and whether the data in flight varied enough to show that.

    ``at_departure``: round trips are known when data left, not when it was acknowledged.
    """

def rates(
    start_s: NDArray[np.float64], lasts_s: NDArray[np.float64], amount: NDArray[np.float64], half_s: float, /
) -> NDArray[np.float64]:
    """How much ``amount``, known where pieces begin, grows per second around each, over ``2 * half_s``."""

def psock_limits() -> dict[str, Any]:
    """What ``weirlab.transfers.psock`` says too, for its help."""

class ParallelSocket:
    """A session of parallel streams; see ``docs/psock.md``.

    ``how`` has ``token``, ``scheduler``, ``block_bytes``, ``memory_bytes`` (of each direction),
    ``unsent_bytes``, ``lost_ns``, ``options`` (names and values) and, unless they are False, ``fair``,
    ``fallback`` and ``wait_for_paths``. Dropping it breaks off what is not at its end. Calls wait without end
    where ``within_s`` is None, and Ctrl-C interrupts them. They raise ``TrialError`` when the session has
    failed.
    """

    @staticmethod
    def connect(routes: Sequence[tuple[str | None, str, int]], how: Mapping[str, Any]) -> ParallelSocket:
        """Open a session over ``routes``: this end's address or None, the other end's address, its port.

        All are tried at once, for 10 s at most, and 5 s more with ``wait_for_paths``; Ctrl-C interrupts it.
        Raises ``InputError`` for what cannot be, and for another token; ``LabError`` where nobody answers.
        """

    def write(self, data: bytes, within_s: float | None = None) -> int | None:
        """Write some of ``data``; how many bytes, or None where there was no room in time."""

    def write_all(self, data: bytes) -> None: ...
    def read(self, size: int, within_s: float | None = None) -> bytes | None:
        """Read at most ``size`` bytes: none at the end, None where nothing came in time."""

    def finish(self) -> None:
        """Nothing more will be written: the other end reads the end behind what was."""

    def delivered(self, within_s: float | None = None) -> bool:
        """Wait until everything written has arrived at the other end, after :meth:`finish`."""

    def close(self, within_s: float | None = None) -> bool:
        """End in good order: wait until both ends have finished and have everything."""

    def abort(self) -> None: ...
    def fileno(self) -> int:
        """A descriptor to poll; for nothing else."""

    def report(self) -> dict[str, Any]:
        """Bytes of both directions, the reorder memory, and each stream."""

class ParallelListener:
    """Listens for sessions on ``addresses``; ``how`` as for :class:`ParallelSocket`.

    Raises ``InputError`` where it would need a token, ``LabError`` where it cannot listen.
    """

    def __init__(self, addresses: Sequence[tuple[str, int]], how: Mapping[str, Any]) -> None: ...
    @property
    def addresses(self) -> list[tuple[str, int]]: ...
    def accept(self, within_s: float) -> tuple[ParallelSocket, tuple[str, int]] | None:
        """The next session and who opened it, or None within ``within_s``, at most 0.1 s."""

    def stranger(self) -> tuple[tuple[str, int], str] | None:
        """Somebody who connected in vain, and why."""

def relay_limits() -> dict[str, Any]:
    """What ``weirlab.transfers.psock.options`` says too, for its help."""

class ParallelRelay:
    """Carries the TCP connections of programs in a control group from now on, each in a session of its own.

    ``cgroup`` is a descriptor of the group's folder, ``routes`` lead to a proxy, ``how`` is as for
    :class:`ParallelSocket`, ``only`` are the destinations that are meant, without those in
    ``excepted`` and, unless it names them, this host's own networks. With ``fallback``, connections are
    made by plain TCP where the proxy does not answer. At most ``most`` are carried at one time.

    Raises ``InputError`` for what cannot be, ``MissingCapability`` where the kernel does not redirect
    connections or not for this user, ``LabError`` for everything else.
    """

    def __init__(
        self,
        cgroup: int,
        routes: Sequence[tuple[str | None, str, int]],
        how: Mapping[str, Any],
        *,
        only: Sequence[str],
        excepted: Sequence[str],
        fallback: bool,
        most: int,
    ) -> None: ...
    @staticmethod
    def by_seccomp(
        watched: tuple[int, int, int],
        routes: Sequence[tuple[str | None, str, int]],
        how: Mapping[str, Any],
        *,
        only: Sequence[str],
        excepted: Sequence[str],
        fallback: bool,
        most: int,
    ) -> ParallelRelay:
        """As the constructor, for the programs under a seccomp filter (:func:`seccomp_filter`).

        ``watched``: the descriptor that seccomp(2) gave a process, which is closed at the end; that process's
        number; one of its descriptors, to try whether they can be had.
        """

    @property
    def active(self) -> int: ...
    @property
    def watches(self) -> bool:
        """Whether programs under a seccomp filter have not ended."""

    def unseen(self) -> list[int]:
        """Threads that could not be looked at since the last time: they use plain TCP."""

    def ended(self) -> list[dict[str, Any]]:
        """Connections that have ended since the last time.

        ``peer``, ``to`` (None where it is not known), ``sent_bytes`` and ``received_bytes`` of the program,
        ``seconds``, ``direct`` (by plain TCP), ``reset`` (by an end), ``failure`` (empty without any),
        ``session`` (as :meth:`ParallelSocket.report`, or None).
        """

    def finish(self) -> None:
        """The programs have ended: what they sent is delivered; destinations then have 5 s to end, too."""

    def stop(self) -> None:
        """Break off what there is, and take nothing more."""

def seccomp_filter() -> tuple[int, bytes]:
    """The number of seccomp(2), and the filter that notifies of connect() alone.

    Raises ``MissingCapability`` where there is none for this processor.
    """

def confine(
    *,
    user: int | None,
    view: bool,
    read: Sequence[str],
    read_as_owner: Sequence[str],
    write: Sequence[str],
    network: bool,
    calls: Literal["all", "files", "drawing", "service"],
) -> list[tuple[str, str | None]]:
    """Confine this process for good; see ``weirlab.base.confinement``.

    Returns each measure with the reason why it is not in force, or None. Raises ``MissingCapability`` if the
    process is neither as free as before nor confined.
    """

class ParallelProxy:
    """Makes the connections that sessions ask for, to destinations that ``allow`` names.

    Raises ``InputError`` for what cannot be and where a token is needed, ``LabError`` where it cannot listen.
    """

    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        how: Mapping[str, Any],
        *,
        allow: Sequence[str],
        most: int,
    ) -> None: ...
    @property
    def addresses(self) -> list[tuple[str, int]]: ...
    @property
    def active(self) -> int: ...
    def ended(self) -> list[dict[str, Any]]:
        """Sessions that have ended since the last time, as :meth:`ParallelRelay.ended`."""

    def stranger(self) -> tuple[tuple[str, int], str] | None:
        """Somebody who connected in vain, and why."""

    def stop(self) -> None:
        """Break off what there is, and take nothing more."""

def cut_captures(
    paths: Sequence[str],
    *,
    out: int,
    filter: str = "",
    from_ns: int | None = None,
    to_ns: int | None = None,
    relative: bool = False,
) -> dict[str, Any]:
    """Write packets of captures as pcapng to the descriptor ``out``, which stays open; arguments as
    :func:`analyse`.

    The answer: ``read`` and ``written`` (packets), ``bytes`` of the new file, ``first_ns`` and ``last_ns`` of
    its packets (None without any), ``interfaces``, ``cut_short`` (a capture ends inside a packet).
    Raises ``InputError`` for what cannot be read, ``OSError`` where the disk refuses.
    """

def parquet_extent(source: int | bytes, columns: Set[str] | None = None) -> tuple[int, int]:
    """Rows of a Parquet file, and about how many bytes it takes when decoded.

    Its footer and the headers of its pages are read, but nothing is decompressed. ``source`` is its content,
    or the descriptor of an open file; ``columns`` names the columns that count, None all. Raises
    ``ValueError`` that says what is wrong with it, ``OSError`` if it cannot be read.
    """

class TcpClient:
    """A bulk transfer with a server; see ``weirlab.transfers.tcp.ends``.

    Threads of the engine carry it out; nothing of it fails before :meth:`next_event`. ``via``: host, port and
    token of a server that is to be the client instead of this host. ``fetch``: a new file for packets that
    the server records, whether there is no transfer without them, and the largest that is taken, in bytes;
    ``fetch_via``: the same of ``via``. ``read_bytes_per_s``, ``read_pause_ns``: how fast this end reads at
    most, and when it stops reading after the start, for how long.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        token: str,
        up: int,
        down: int,
        block_bytes: int,
        lasts_ns: int | None,
        total_bytes: int | None,
        bytes_per_s: int | None,
        interval_ns: int,
        congestion: str,
        options: Sequence[tuple[str, str]],
        local: str | None,
        local_port: int | None,
        every_block: bool,
        clocks: bool = False,
        via: tuple[str, int, str] | None = None,
        fetch: tuple[str, bool, int] | None = None,
        fetch_via: tuple[str, bool, int] | None = None,
        read_bytes_per_s: int | None = None,
        read_pause_ns: tuple[int, int] | None = None,
    ) -> None: ...
    def next_event(self, within_s: float) -> dict[str, Any] | None:
        """The next event within ``within_s``, at most 0.1 s.

        ``clock`` (if asked for), ``started``, ``begun``, ``interval``, ``samples``, ``recorded`` (for
        each file that is fetched; ``end`` is ``client`` or ``server``), at last ``done``. Raises
        ``InputError``, ``LabError`` and
        ``TrialError`` for a transfer that cannot be or broke off.
        """

    def stop(self) -> None:
        """End it in good order; ``done`` follows."""

class TcpServer:
    """A server of bulk transfers; see ``weirlab.transfers.tcp.ends``.

    ``errands``: it may be the client of other servers. ``capture``: folder, largest file (bytes), longest
    time (ns), bytes of each packet, and interface (None: that towards the client) of what it may record.
    Raises ``InputError`` where it would need a token, ``LabError`` where it cannot listen or there is no such
    interface, ``MissingCapability`` where nothing can be recorded.
    """

    def __init__(
        self,
        *,
        address: str,
        port: int,
        token: str,
        most_ns: int | None,
        most_bytes: int | None,
        most_clients: int,
        options: Sequence[tuple[str, str]],
        errands: bool = False,
        capture: tuple[str, int, int, int, str | None] | None = None,
        read_bytes_per_s: int | None = None,
        read_pause_ns: tuple[int, int] | None = None,
    ) -> None: ...
    @property
    def address(self) -> tuple[str, int]: ...
    @property
    def clients(self) -> int:
        """Transfers that go on."""

    def next_event(self, within_s: float) -> dict[str, Any] | None:
        """The next one within ``within_s``, at most 0.1 s: ``began``, ``recorded``, ``ended``, ``refused``,
        ``garbage``.
        """

    def stop(self) -> None: ...

class TcpWatcher:
    """Samples connections in a thread of its own; see ``weirlab.transfers.tcp.watching``.

    ``ends`` are addresses (None: any) and ports (0: any), in any order; ``also``: more addresses of the first
    end, any of which fits. ``by`` is "bpf", "inet-diag" or "auto" (by BPF where that works).
    Raises ``MissingCapability`` where it does not.
    """

    def __init__(
        self,
        *,
        ends: Sequence[tuple[str | None, int]],
        pid: int | None,
        program: str | None,
        period_ns: int,
        wait: bool,
        fields: Sequence[str],
        also: Sequence[str] = (),
        by: str = "inet-diag",
    ) -> None: ...
    def take(self) -> dict[str, Any]:
        """The samples since the last time: ``connection``, ``time_ns`` (since 1970), ``fields``.

        A field is a pair of arrays: its values, and where there is one.
        """

    def progress(self) -> dict[str, Any]:
        """``by`` says how connections are sampled ("bpf", "inet-diag"), ``why_not`` why not by BPF.

        By BPF, ``idle`` counts the samples of a connection that were due while nothing happened to it.
        """

    def stop(self) -> None: ...

class TcpEvents:
    """Watches connections event by event, by BPF, in a thread of its own; ``ends`` as of ``TcpWatcher``.

    Raises ``MissingCapability`` where the kernel or the user's rights do not allow it.
    """

    def __init__(
        self,
        *,
        ends: Sequence[tuple[str | None, int]],
        pid: int | None,
        program: str | None,
        wait: bool,
        fields: Sequence[str],
    ) -> None: ...
    def take(self) -> dict[str, Any]:
        """The events since the last time, as of ``TcpWatcher``; and ``kind``, by ``tcp_event_kinds``."""

    def progress(self) -> dict[str, Any]: ...
    def stop(self) -> None: ...

def tcp_connections() -> list[dict[str, Any]]:
    """The TCP sockets of this network namespace. Raises ``MissingCapability`` without ``SOCK_DIAG``."""

def tcp_event_fields() -> list[dict[str, Any]]: ...
def tcp_event_kinds() -> list[str]: ...
def tcp_fields() -> list[dict[str, Any]]: ...
def tcp_limits() -> dict[str, int]: ...
def tcp_options() -> list[str]: ...
def tcp_sample(fd: int) -> tuple[dict[str, int], int | None]:
    """What the kernel reports about a socket of this process, by field; and for how long the calling thread
    was ready to run and had no CPU, ns. Raises ``OSError``.
    """

def tcp_states() -> list[str]: ...
