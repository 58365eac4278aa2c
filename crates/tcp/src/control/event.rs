//! Events of a client in the course of a transfer; a third host is told the same ones.

use std::net::SocketAddr;

use super::MOST_NAME;
use super::codec::{ProtocolError, Reader, Writer, many, short};
use super::flow::{Flow, Total};
use crate::option::Value;

/// A data connection that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The client's end.
    pub local: SocketAddr,
    /// The server's.
    pub remote: SocketAddr,
    /// The client sends.
    pub up: bool,
    /// Its congestion control at the client; empty if unknown.
    pub congestion: String,
    /// What the client's kernel made of the settings, in order; a third host has none, and is told none.
    pub settings: Vec<Option<Value>>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// All connections exist.
    Started {
        /// The connections.
        connections: Vec<Joined>,
        /// Both ends have one clock, so that block latency can be measured.
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
    /// The progress of one end.
    Interval {
        /// It is the server's view.
        of_server: bool,
        /// Since the start at that end.
        at_ns: u64,
        /// By connection.
        flows: Vec<Flow>,
    },
    /// The end.
    Done {
        /// The client's view of each connection.
        client: Vec<Total>,
        /// The server's.
        server: Vec<Total>,
        /// The user ended it.
        stopped: bool,
    },
}

impl Event {
    /// Whether it is about this many connections, if it is about connections.
    #[must_use]
    pub fn is_of(&self, connections: usize) -> bool {
        match self {
            Self::Started { connections: made, .. } => made.len() == connections,
            Self::Interval { flows, .. } => flows.len() == connections,
            Self::Done { client, server, .. } => client.len() == connections && server.len() == connections,
            Self::Clock { .. } | Self::Begun { .. } => true,
        }
    }

    pub(super) fn write(&self, to: &mut Writer) {
        match self {
            Self::Started { connections, same_clock, since_1970_ns } => {
                to.u8(0);
                to.u16(connections.len() as u16);
                connections.iter().for_each(|joined| joined.write(to));
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
            Self::Done { client, server, stopped } => {
                to.u8(4);
                for totals in [client, server] {
                    to.u16(totals.len() as u16);
                    totals.iter().for_each(|total| total.write(to));
                }
                to.u8((*stopped).into());
            }
        }
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(match from.u8()? {
            0 => Self::Started {
                connections: many(from, Joined::read)?,
                same_clock: from.flag()?,
                since_1970_ns: from.u64()?,
            },
            1 => Self::Clock { sent_ns: from.u64()?, at_ns: from.u64()?, heard_ns: from.u64()? },
            2 => Self::Begun { server_ns: from.u64()?, client_ns: from.u64()? },
            3 => {
                Self::Interval { of_server: from.flag()?, at_ns: from.u64()?, flows: many(from, Flow::read)? }
            }
            4 => Self::Done {
                client: many(from, Total::read)?,
                server: many(from, Total::read)?,
                stopped: from.flag()?,
            },
            _ => return Err(ProtocolError::Body("what happened")),
        })
    }
}

impl Joined {
    fn write(&self, to: &mut Writer) {
        to.text(&self.local.to_string());
        to.text(&self.remote.to_string());
        to.u8(self.up.into());
        to.text(&self.congestion);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        let mut end = || from.text()?.parse().map_err(|_| ProtocolError::Body("an address"));
        let (local, remote) = (end()?, end()?);
        let (up, congestion) = (from.flag()?, short(from.text()?, MOST_NAME)?);
        Ok(Self { local, remote, up, congestion, settings: Vec::new() })
    }
}
