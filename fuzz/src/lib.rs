//! What the fuzz targets do with their bytes, and what must hold whatever these are.
//!
//! `crates/trace/tests/corpus` runs the same functions over the committed seeds, so that `cargo test` does
//! it without a fuzzer.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::ControlFlow;

use weir_trace::analysis::{self, Analysis};
use weir_trace::capture::{self, LinkType, MAX_RECORD_BYTES, MAX_TIME_NS, Packet};
use weir_trace::packet::{Datagram, Decoded, Reassembly, decode};
use weir_trace::tcp::{self, Connection, SegmentRow};
use weir_trace::voice;

/// How the reading of a capture ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// At the end of a record.
    Whole,
    /// Inside a record.
    CutShort,
    /// With this message.
    Error(String),
}

/// Reads a capture; its packets, and how it ended.
pub fn capture(data: &[u8]) -> (u64, End) {
    let (packets, digest, end) = read(data);
    // A decoder that meets damage may keep back what it had in hand; whatever else there is, portions do
    // not matter. Only small files are read again.
    let is_packed_and_damaged = matches!(&end, End::Error(e) if e.starts_with("reading failed"));
    if data.len() <= 4_096 && digest.bytes < 1 << 16 && !is_packed_and_damaged {
        let (again, digest_again, _) = read(Portions(data));
        assert_eq!((packets, digest), (again, digest_again), "portions of 7 bytes make a difference");
    }
    (packets, end)
}

/// Enough of the packets of a capture to tell them from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Digest {
    bytes: u64,
    hash: u64,
    offset: u64,
}

fn read(source: impl Read) -> (u64, Digest, End) {
    let mut digest = Digest::default();
    let mut capture = match capture::open(source) {
        Ok(capture) => capture,
        Err(e) => return (0, digest, End::Error(e.to_string())),
    };
    let mut packets = 0;
    let end = loop {
        match capture.next_packet() {
            Ok(Some(packet)) => {
                packets += 1;
                assert!(packet.data.len() <= MAX_RECORD_BYTES);
                assert!(packet.data.len() <= packet.original_len as usize);
                assert!(packet.time_ns.unsigned_abs() < MAX_TIME_NS.unsigned_abs());
                digest.bytes += packet.data.len() as u64;
                for byte in packet.data.iter().chain(&packet.time_ns.to_le_bytes()) {
                    digest.hash = digest.hash.wrapping_mul(31).wrapping_add(u64::from(*byte));
                }
            }
            Ok(None) => break if capture.cut_short() { End::CutShort } else { End::Whole },
            Err(e) => break End::Error(e.to_string()),
        }
        assert!(capture.offset() > digest.offset, "a packet takes bytes");
        digest.offset = capture.offset();
    };
    if !matches!(end, End::Error(_)) {
        assert!(matches!(capture.next_packet(), Ok(None)), "the end is the end");
    }
    let counted: u64 = capture.interfaces().iter().map(|interface| interface.packets).sum();
    assert!(counted <= packets);
    (packets, digest, end)
}

/// Bytes, a few at a time.
struct Portions<'a>(&'a [u8]);

impl Read for Portions<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let some = buffer.len().min(7);
        self.0.read(&mut buffer[..some])
    }
}

/// Decodes packets: their link type in 16 bits, then for each its length in 16 bits, one byte that moves the
/// clock on, and its bytes. Numbers are little-endian. How many there are of each kind.
pub fn packet(data: &[u8]) -> BTreeMap<&'static str, u64> {
    let mut found = BTreeMap::new();
    let Some((link, mut rest)) = data.split_first_chunk() else { return found };
    let link = LinkType(u16::from_le_bytes(*link));
    let mut reassembly = Reassembly::new();
    let mut time_ns = 0;
    while let Some((&[low, high, step], behind)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(behind.len());
        let (bytes, behind) = behind.split_at(length);
        rest = behind;
        time_ns += i64::from(step) << 24;
        let packet = Packet::new(time_ns, link, bytes);
        let alone = decode(&packet);
        check(&alone, bytes.len());
        let together = reassembly.decode(&packet);
        check(&together, usize::from(u16::MAX));
        if alone != Decoded::Fragment {
            assert_eq!(alone, together, "what is whole needs no reassembly");
        }
        *found.entry(name(&together)).or_default() += 1;
    }
    let counts = reassembly.counts();
    assert!(counts.datagrams + reassembly.unfinished() <= counts.fragments);
    found
}

fn check(decoded: &Decoded<'_>, captured: usize) {
    match decoded {
        Decoded::Tcp(datagram) => check_datagram(datagram, captured),
        Decoded::Udp(datagram) => {
            check_datagram(datagram, captured);
            let _ = datagram.natt();
        }
        Decoded::Esp(esp) => assert!(esp.len >= 8),
        _ => {}
    }
}

fn check_datagram(datagram: &Datagram<'_>, captured: usize) {
    assert!(datagram.payload.len() <= datagram.payload_len);
    assert!(datagram.header.len() + datagram.payload.len() <= captured);
    assert!(datagram.header.len() <= 60);
}

const fn name(decoded: &Decoded<'_>) -> &'static str {
    match decoded {
        Decoded::Udp(_) => "udp",
        Decoded::Tcp(_) => "tcp",
        Decoded::Esp(_) => "esp",
        Decoded::OtherIp => "other ip",
        Decoded::Fragment => "fragment",
        Decoded::NotIp => "not ip",
        Decoded::Opaque(what) => what.name(),
        Decoded::UnknownLink => "unknown link",
        Decoded::Malformed => "malformed",
    }
}

/// Finds the voice streams of a capture; how many there are.
pub fn voice(data: &[u8]) -> usize {
    // Whatever looks like RTP is taken for it, but for the port of IAX2.
    let options =
        voice::Options { decode_as: vec![0..=4_568, 4_570..=u16::MAX], ..voice::Options::default() };
    let Ok(voice) = weir_trace::voice_of(data, options) else { return 0 };
    for stream in &voice.streams {
        assert!(!stream.rows.is_empty());
    }
    voice.streams.len()
}

/// Follows the TCP connections of a capture, with all rows; how many there are.
pub fn tcp(data: &[u8]) -> u64 {
    // Once more with bounds that a small file can reach.
    let tight = tcp::Options {
        max_connections: 4,
        max_states: 2,
        max_outstanding: 6,
        idle_ns: 1_000_000_000,
        ..tcp::Options::default()
    };
    follow(data, tight);
    follow(data, tcp::Options::default())
}

fn follow(data: &[u8], tcp: tcp::Options) -> u64 {
    let options = analysis::Options { tcp, ..analysis::Options::default() };
    let mut analysis = Analysis::new(options, Tally::default());
    let read = analysis.read(data, |_| true, |_| ControlFlow::Continue(()));
    let (tally, facts) = analysis.finish();
    assert_eq!(tally.packets, facts.tcp.segments, "every segment belongs to a connection");
    assert_eq!(tally.rows, facts.tcp.segments, "every segment is a row");
    assert!(facts.tcp.segments + facts.tcp.truncated == facts.counts.tcp);
    if let Ok(file) = read {
        assert_eq!(file.packets, facts.counts.packets);
    }
    tally.connections
}

/// Counts what comes, and checks what must add up.
#[derive(Default)]
struct Tally {
    connections: u64,
    packets: u64,
    rows: u64,
}

impl tcp::Sink for Tally {
    const ROWS: bool = true;

    fn connection(&mut self, connection: Connection) {
        self.connections += 1;
        assert!(connection.first_ns <= connection.last_ns);
        for side in &connection.sides {
            self.packets += side.packets;
            let again = &side.retransmissions;
            let causes = again.timeout + again.fast + again.tail_probe + again.handshake + again.unexplained;
            assert_eq!(causes, again.total);
            assert!(side.unique_bytes <= side.data_bytes);
            assert!(side.data_packets + side.pure_acks <= side.packets);
            for summary in [&side.rtt, &side.rtt_timestamp] {
                assert!(summary.count == 0 || summary.min_ns <= summary.max_ns);
                assert!(summary.mean_ns.is_finite() && summary.sd_ns.is_finite());
            }
        }
    }

    fn segment(&mut self, _: &SegmentRow) {
        self.rows += 1;
    }
}

impl analysis::Sink for Tally {
    fn stream(&mut self, _: voice::Measured) {}
}
