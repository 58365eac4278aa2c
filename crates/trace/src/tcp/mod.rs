//! TCP connections: what each side sent, retransmitted and acknowledged, and how long that took.
//!
//! An [`Analyzer`] is fed with segments and gives [`Connection`]s, and rows if requested, to a [`Sink`]:
//!
//! | file | question |
//! |---|---|
//! | `segment` | what does the header say? |
//! | `table`, `analyzer` | which connection is it of, and which are over? |
//! | `connection` | handshake, end; both directions of one packet |
//! | `sender/recent` | is it a copy made on the way? |
//! | `sender/data` | is its data new, late, or sent again? |
//! | `sender/cause` | why was it sent again? |
//! | `sender/ack` | what does its ACK tell: round trip, gap of the capture, duplicates |
//! | `sender/missed` | does it stand behind its own ACK? |
//! | `place` | where was this captured? |
//!
//! Sequence numbers are continued beyond 32 bits from the first packet on. Flight size is what was sent and
//! not yet acknowledged by number; what SACK reported is part of it. A packet whose time lies before that of
//! its predecessor is taken in the order of the file, and the time between them counts as 0.
//!
//! Definitions of the counters that could be understood in more than one way:
//!
//! * `A` is the sender of the SYN, or the receiver of the first packet if that is a SYN/ACK, or else the
//!   sender of the first packet.
//! * A packet sent again counts with all of its payload, even if only a part of it was sent before. Text in
//!   a RST is not data. A FIN sent again is a packet sent again, of 0 bytes.
//! * One DSACK makes one packet of each range needless; it is searched for among the last 1,024 sent again.
//! * An ACK is a duplicate strictly by RFC 5681 section 2, with the window as it was and data
//!   outstanding as the capture saw it; an ACK with a new window is not one, whatever SACK blocks it has.
//! * Bytes are unseen if they were acknowledged and lie after the first packet seen of their sender; if
//!   there is none, after the first ACK. Data that comes a moment after its own ACK was seen after all.
//! * Windows are scaled if both SYNs were seen and offer it; without the SYNs they are as on the wire, and
//!   `window_full` is not reported. A window counts as full once when new data reaches its end.
//! * Keep-alives and probes of a closed window are not data, whatever byte they carry. One that is
//!   acknowledged counts with the next data.
//! * A copy made on the way counts as a packet, and as data if it has some; nothing else that it says counts.
//! * Flight size is 0 before the first ACK of the other end; round trips need both directions.
//!
//! Each direction of a connection comes by one interface and in one VLAN; the two directions may come by two
//! interfaces and in two VLANs, in the latter case if the numbers fit. If the same direction comes by two (a
//! router that captures on all of its interfaces), each is a connection of its own.

mod analyzer;
mod connection;
mod facts;
mod fold;
mod place;
mod segment;
mod sender;
mod series;
mod settings;
mod table;

pub use analyzer::Analyzer;
pub use facts::{Begin, Connection, End, Endpoint, From, Place, Retransmissions, Side, Summary, SynOptions};
pub(crate) use sender::Ranges;
pub use series::{Meaning, Method, RttRow, SackRow, SegmentRow, Sink};
pub use settings::{Counts, Options};

#[cfg(test)]
mod tests;
