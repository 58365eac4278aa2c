//! A transfer between two servers: what a third host asks one of them for, and what it is told.

use std::net::SocketAddr;

use super::codec::{ProtocolError, Reader, Writer};
use super::message::{Flow, Request, Total, many, short};

/// Longest name of a host (RFC 1035).
const MOST_HOST: usize = 253;
/// `TCP_CA_NAME_MAX` without its end.
const MOST_NAME: usize = 15;

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

/// A data connection that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The client's end.
    pub local: SocketAddr,
    /// The server's.
    pub remote: SocketAddr,
    /// The client sends.
    pub up: bool,
    /// Its congestion control at the client; empty if unknown.
    pub congestion: String,
}

/// What the client tells of a transfer; as the events of `bulk::ClientEvent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// All connections are there.
    Started {
        /// They.
        connections: Vec<Made>,
        /// Client and server have one clock.
        same_clock: bool,
        /// The start, in ns since 1970.
        since_1970_ns: u64,
    },
    /// An exchange of time.
    Clock {
        /// When the question was sent, by the client's `CLOCK_MONOTONIC`.
        sent_ns: u64,
        /// The answer, by the server's.
        at_ns: u64,
        /// When that was heard.
        heard_ns: u64,
    },
    /// The server's end has begun.
    Begun {
        /// When, by its `CLOCK_MONOTONIC`.
        server_ns: u64,
        /// When the client did, by its own.
        client_ns: u64,
    },
    /// How far one end is.
    Interval {
        /// It is the server's view.
        of_server: bool,
        /// Since the start at that end.
        at_ns: u64,
        /// By connection.
        flows: Vec<Flow>,
    },
    /// One end's view of each connection at the end: the client's, then the server's.
    Totals {
        /// It is the server's view.
        of_server: bool,
        /// By connection.
        totals: Vec<Total>,
    },
    /// The end.
    Done {
        /// The user ended it.
        stopped: bool,
    },
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

impl Made {
    fn write(&self, to: &mut Writer) {
        to.text(&self.local.to_string());
        to.text(&self.remote.to_string());
        to.u8(self.up.into());
        to.text(&self.congestion);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        let mut end = || from.text()?.parse().map_err(|_| ProtocolError::Body("an address"));
        let (local, remote) = (end()?, end()?);
        Ok(Self { local, remote, up: from.flag()?, congestion: short(from.text()?, MOST_NAME)? })
    }
}

impl Told {
    pub(super) fn write(&self, to: &mut Writer) {
        match self {
            Self::Started { connections, same_clock, since_1970_ns } => {
                to.u8(0);
                to.u16(connections.len() as u16);
                connections.iter().for_each(|made| made.write(to));
                to.u8((*same_clock).into());
                to.u64(*since_1970_ns);
            }
            Self::Clock { sent_ns, at_ns, heard_ns } => {
                to.u8(1);
                [sent_ns, at_ns, heard_ns].into_iter().for_each(|each| to.u64(*each));
            }
            Self::Begun { server_ns, client_ns } => {
                to.u8(2);
                [server_ns, client_ns].into_iter().for_each(|each| to.u64(*each));
            }
            Self::Interval { of_server, at_ns, flows } => {
                to.u8(3);
                to.u8((*of_server).into());
                to.u64(*at_ns);
                to.u16(flows.len() as u16);
                flows.iter().for_each(|flow| flow.write(to));
            }
            Self::Totals { of_server, totals } => {
                to.u8(4);
                to.u8((*of_server).into());
                to.u16(totals.len() as u16);
                totals.iter().for_each(|total| total.write(to));
            }
            Self::Done { stopped } => {
                to.u8(5);
                to.u8((*stopped).into());
            }
        }
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(match from.u8()? {
            0 => Self::Started {
                connections: many(from, Made::read)?,
                same_clock: from.flag()?,
                since_1970_ns: from.u64()?,
            },
            1 => Self::Clock { sent_ns: from.u64()?, at_ns: from.u64()?, heard_ns: from.u64()? },
            2 => Self::Begun { server_ns: from.u64()?, client_ns: from.u64()? },
            3 => {
                Self::Interval { of_server: from.flag()?, at_ns: from.u64()?, flows: many(from, Flow::read)? }
            }
            4 => Self::Totals { of_server: from.flag()?, totals: many(from, Total::read)? },
            5 => Self::Done { stopped: from.flag()? },
            _ => return Err(ProtocolError::Body("what it tells")),
        })
    }
}
