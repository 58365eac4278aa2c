//! Connections made up packet by packet, and what is found in them.

mod bounds;
mod copies;
mod handshake;
mod late;
mod loss;
mod properties;
mod quiet;
mod renumbered;
mod round_trips;
mod strange;
mod vlans;

use std::net::{IpAddr, Ipv4Addr};

use super::segment::{ACK, FIN, RST, SYN};
use super::*;
use crate::capture::{Direction, LinkType, Packet};
use crate::packet::{Datagram, Tags};

const MS: i64 = 1_000_000;
/// One-way time from A to B and back is twice this; B answers at once.
const RTT: i64 = 20 * MS;
const MSS: u32 = 1_000;

/// Everything that was found.
#[derive(Default)]
struct Rows {
    connections: Vec<Connection>,
    segments: Vec<SegmentRow>,
    rtts: Vec<RttRow>,
    sacks: Vec<SackRow>,
}

impl Sink for Rows {
    const ROWS: bool = true;

    fn connection(&mut self, connection: Connection) {
        self.connections.push(connection);
    }

    fn segment(&mut self, row: &SegmentRow) {
        self.segments.push(*row);
    }

    fn rtt(&mut self, row: &RttRow) {
        self.rtts.push(*row);
    }

    fn sack(&mut self, row: &SackRow) {
        self.sacks.push(*row);
    }
}

/// A packet to be.
#[derive(Clone, Debug)]
struct Made {
    time_ns: i64,
    from: From,
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    payload: usize,
    options: Vec<u8>,
    ip_id: u16,
    ecn: u8,
    ports: (u16, u16),
    interface: u32,
    /// 0: none.
    vlan: u16,
    /// Bytes of the header that were captured.
    kept: usize,
}

impl Made {
    fn cut_to(mut self, kept: usize) -> Self {
        self.kept = kept;
        self
    }

    fn options(mut self, options: &[u8]) -> Self {
        self.options = options.to_vec();
        self
    }

    fn window(mut self, window: u16) -> Self {
        self.window = window;
        self
    }

    fn flags(mut self, flags: u8) -> Self {
        self.flags = flags;
        self
    }

    fn ip_id(mut self, ip_id: u16) -> Self {
        self.ip_id = ip_id;
        self
    }

    /// SACK blocks behind two times "no operation".
    fn sack(mut self, blocks: &[(u32, u32)]) -> Self {
        self.options.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (left, right) in blocks {
            self.options.extend([left.to_be_bytes(), right.to_be_bytes()].concat());
        }
        self
    }

    fn timestamps(mut self, value: u32, echo: u32) -> Self {
        self.options.extend([1, 1, 8, 10]);
        self.options.extend([value.to_be_bytes(), echo.to_be_bytes()].concat());
        self
    }

    fn header(&self) -> Vec<u8> {
        let (src, dst) = if self.from == From::A { self.ports } else { (self.ports.1, self.ports.0) };
        let mut header = [src.to_be_bytes(), dst.to_be_bytes()].concat();
        header.extend(self.seq.to_be_bytes());
        header.extend(self.ack.to_be_bytes());
        header.extend([(((20 + self.options.len()) / 4) << 4) as u8, self.flags]);
        header.extend(self.window.to_be_bytes());
        header.extend([0; 4]);
        header.extend(&self.options);
        header.truncate(self.kept);
        header
    }
}

/// A packet of A or B, an ACK with a wide window.
fn packet(time_ns: i64, from: From, seq: u32, ack: u32, payload: u32) -> Made {
    Made {
        time_ns,
        from,
        seq,
        ack,
        flags: ACK,
        window: 60_000,
        payload: payload as usize,
        options: Vec::new(),
        ip_id: 0,
        ecn: 0,
        ports: (40_000, 80),
        interface: 0,
        vlan: 0,
        kept: 60,
    }
}

fn a(time_ns: i64, seq: u32, payload: u32) -> Made {
    packet(time_ns, From::A, seq, 5_001, payload)
}

fn b(time_ns: i64, ack: u32) -> Made {
    packet(time_ns, From::B, 5_001, ack, 0)
}

/// A handshake at the initiator; A's data begins at `isn` + 1, B's at 5001.
fn handshake(isn: u32) -> Vec<Made> {
    let options = [2, 4, 3, 232, 4, 2, 3, 3, 0, 0, 0, 0];
    vec![
        packet(0, From::A, isn, 0, 0).flags(SYN).options(&options),
        packet(RTT, From::B, 5_000, isn.wrapping_add(1), 0).flags(SYN | ACK).options(&options),
        packet(RTT + 10_000, From::A, isn.wrapping_add(1), 5_001, 0),
    ]
}

fn captured(time_ns: i64, interface: u32, original_len: u32) -> Packet<'static> {
    let link = LinkType(1);
    let direction = Direction::Unknown;
    Packet {
        time_ns,
        stated_ns: time_ns,
        link,
        interface,
        direction,
        original_len,
        lost_before: 0,
        data: &[],
    }
}

fn put<S: Sink>(analyzer: &mut Analyzer<S>, made: &Made) {
    let header = made.header();
    let ends = [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1))];
    let from_a = made.from == From::A;
    let (src, dst) = if from_a { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
    let ports = if from_a { made.ports } else { (made.ports.1, made.ports.0) };
    let mut tags = Tags::default();
    tags.push(made.vlan);
    let datagram = Datagram {
        src,
        dst,
        src_port: ports.0,
        dst_port: ports.1,
        tags,
        point: 0,
        ecn: made.ecn,
        ip_id: made.ip_id,
        header: &header,
        payload: &[],
        payload_len: made.payload,
    };
    let original_len = (34 + header.len() + made.payload) as u32;
    let packet = captured(made.time_ns, made.interface, original_len);
    analyzer.put(&packet, &datagram);
}

fn analysed(packets: &[Made]) -> Rows {
    counted(Options::default(), packets).0
}

fn counted(options: Options, packets: &[Made]) -> (Rows, Counts) {
    let mut analyzer = Analyzer::new(options, Rows::default());
    for made in packets {
        put(&mut analyzer, made);
    }
    analyzer.finish()
}

/// The only connection, behind a handshake.
fn talk(isn: u32, packets: &[Made]) -> (Connection, Rows) {
    let all = [&handshake(isn)[..], packets].concat();
    let rows = analysed(&all);
    assert_eq!(rows.connections.len(), 1);
    assert_consistent(&rows);
    (rows.connections[0].clone(), rows)
}

/// What holds for every connection, whatever its packets.
fn assert_consistent(rows: &Rows) {
    for connection in &rows.connections {
        for (from, side) in [From::A, From::B].into_iter().zip(&connection.sides) {
            let again = &side.retransmissions;
            let causes = again.timeout + again.fast + again.tail_probe + again.handshake + again.unexplained;
            assert_eq!(causes, again.total, "{connection:?}");
            assert!(again.spurious <= again.total, "{connection:?}");
            assert!(again.total - again.handshake - again.fins <= side.data_packets, "{connection:?}");
            assert!(side.unique_bytes <= side.data_bytes, "{connection:?}");
            let fresh =
                rows.segments.iter().filter(|row| (row.connection, row.from) == (connection.id, from));
            assert_eq!(fresh.map(|row| u64::from(row.new_bytes)).sum::<u64>(), side.unique_bytes);
            assert!(side.data_packets <= side.packets && side.pure_acks <= side.packets);
            let of = |row: &&SegmentRow| row.connection == connection.id && row.from == from;
            let count = |meaning: Meaning| {
                rows.segments.iter().filter(of).filter(|row| row.meaning == meaning).count() as u64
            };
            assert_eq!(rows.segments.iter().filter(of).count() as u64, side.packets);
            for (meaning, counted) in [
                (Meaning::DuplicateAck, side.duplicate_acks),
                (Meaning::OutOfOrder, side.out_of_order),
                (Meaning::Timeout, again.timeout),
                (Meaning::Fast, again.fast),
                (Meaning::TailProbe, again.tail_probe),
                (Meaning::Handshake, again.handshake),
                (Meaning::Unexplained, again.unexplained),
                (Meaning::Copy, side.copies),
                (Meaning::KeepAlive, side.keep_alives),
                (Meaning::WindowProbe, side.window_probes),
                (Meaning::Reset, side.resets),
            ] {
                assert_eq!(count(meaning), counted, "{meaning:?} {connection:?}");
            }
            let rtts = rows.rtts.iter().filter(|row| row.connection == connection.id && row.from == from);
            let by = |method| rtts.clone().filter(|row| row.method == method).count() as u64;
            assert_eq!((by(Method::Ack), by(Method::Timestamp)), (side.rtt.count, side.rtt_timestamp.count));
            let sacks = rows.sacks.iter().filter(|row| row.connection == connection.id && row.from == from);
            assert_eq!(sacks.clone().count() as u64, side.sack_blocks);
            assert_eq!(sacks.filter(|row| row.duplicate).count() as u64, side.dsacks);
        }
    }
}

/// What the packets of A mean, ACKs left out.
fn meanings(rows: &Rows) -> Vec<Meaning> {
    let of_a = rows.segments.iter().skip(3).filter(|row| row.from == From::A);
    of_a.map(|row| row.meaning).filter(|meaning| *meaning != Meaning::Ack).collect()
}
