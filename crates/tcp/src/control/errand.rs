//! A transfer between two servers: what a third host requests from one of them.

use super::codec::{ProtocolError, Reader, Writer, short};
use super::record::Wish;
use super::request::Request;

/// Longest name of a host (RFC 1035).
const MOST_HOST: usize = 253;

/// What the server is to do as the client of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errand {
    /// Name or address of the other server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Compare its clock with the client's.
    pub clocks: bool,
    /// Record its own packets, as the client, too.
    pub capture: Wish,
    /// The largest file of them that is accepted.
    pub capture_bytes: u64,
    /// The transfer; the client fills in its `host`. A capture of the other server is passed on.
    pub request: Request,
}

impl Errand {
    pub(super) fn write(&self, to: &mut Writer) {
        to.text(&self.host);
        to.u16(self.port);
        to.u8(self.clocks.into());
        self.capture.write(to);
        to.u64(self.capture_bytes);
        self.request.write(to);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self {
            host: short(from.text()?, MOST_HOST)?,
            port: from.u16()?,
            clocks: from.flag()?,
            capture: Wish::read(from)?,
            capture_bytes: from.u64()?,
            request: Request::read(from)?,
        })
    }
}
