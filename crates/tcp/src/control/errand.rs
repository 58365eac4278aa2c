//! A transfer between two servers: what a third host asks one of them for.

use super::codec::{ProtocolError, Reader, Writer, short};
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
    /// The transfer; the client fills in its `host`.
    pub request: Request,
}

impl Errand {
    pub(super) fn write(&self, to: &mut Writer) {
        to.text(&self.host);
        to.u16(self.port);
        to.u8(self.clocks.into());
        self.request.write(to);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self {
            host: short(from.text()?, MOST_HOST)?,
            port: from.u16()?,
            clocks: from.flag()?,
            request: Request::read(from)?,
        })
    }
}
