//! A client's request.

use super::codec::{ProtocolError, Reader, Writer, short};
use super::{Digest, INTERVALS_NS, MOST_BLOCK_BYTES, MOST_BUFFER_BYTES, MOST_CONNECTIONS, MOST_NAME, Wish};

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Identifies the client's host, and its clock.
    pub host: Digest,
    /// Connections on which the client sends.
    pub up: u16,
    /// Connections on which the server sends.
    pub down: u16,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// How long each direction lasts.
    pub lasts_ns: Option<u64>,
    /// Bytes of each direction, over all its connections.
    pub bytes: Option<u64>,
    /// Most bytes per second of each direction, over all its connections.
    pub bytes_per_s: Option<u64>,
    /// Time between two reports.
    pub interval_ns: u64,
    /// The congestion control of the server's connections; empty for its default.
    pub congestion: String,
    /// Record the packets at the server.
    pub capture: Wish,
    /// The largest file of them that the client accepts.
    pub capture_bytes: u64,
}

impl Request {
    pub(super) fn write(&self, to: &mut Writer) {
        to.array(&self.host);
        to.u16(self.up);
        to.u16(self.down);
        to.u32(self.block_bytes);
        to.maybe(self.lasts_ns);
        to.maybe(self.bytes);
        to.maybe(self.bytes_per_s);
        to.u64(self.interval_ns);
        to.text(&self.congestion);
        self.capture.write(to);
        to.u64(self.capture_bytes);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        let request = Self {
            host: from.array()?,
            up: from.u16()?,
            down: from.u16()?,
            block_bytes: from.u32()?,
            lasts_ns: from.maybe()?,
            bytes: from.maybe()?,
            bytes_per_s: from.maybe()?,
            interval_ns: from.u64()?,
            congestion: short(from.text()?, MOST_NAME)?,
            capture: Wish::read(from)?,
            capture_bytes: from.u64()?,
        };
        match request.problem() {
            None => Ok(request),
            Some(problem) => Err(ProtocolError::Body(problem)),
        }
    }

    /// Why no server can do this, if that is so.
    #[must_use]
    pub fn problem(&self) -> Option<&'static str> {
        let flows = self.up.max(self.down);
        let per_flow = |total: Option<u64>, most: u64| total.is_none_or(|n| n / u64::from(flows) >= most);
        let block = crate::bulk::HEADER_BYTES as u64;
        let wrong = [
            (flows == 0, "no connections"),
            (flows > MOST_CONNECTIONS, "too many connections"),
            (u64::from(self.block_bytes) < block, "blocks smaller than their header"),
            (self.block_bytes > MOST_BLOCK_BYTES, "blocks too large"),
            (
                u64::from(self.block_bytes) * u64::from(flows) > MOST_BUFFER_BYTES,
                "blocks too large for so many connections, 64 MiB in all",
            ),
            (flows > 0 && !per_flow(self.bytes, block), "fewer bytes than a block's header per connection"),
            (self.lasts_ns == Some(0), "no time"),
            (flows > 0 && !per_flow(self.bytes_per_s, 1), "no rate"),
            (!INTERVALS_NS.contains(&self.interval_ns), "an interval that is too short or too long"),
        ];
        wrong.iter().find(|(is_wrong, _)| *is_wrong).map(|(_, what)| *what)
    }
}
