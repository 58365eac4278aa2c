//! The messages.

use super::codec::{ProtocolError, Reader, Writer, many, short};
use super::record::{self, Record};
use super::{Digest, Errand, Event, Flow, Joined, MOST_TEXT, PART_BYTES, Proof, Request, Session, Total};

/// A message on a control connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Server: prove that you know the token.
    Challenge {
        /// Used only once.
        nonce: Digest,
        /// There is a token.
        needs_token: bool,
    },
    /// Client: this is what I want.
    Request {
        /// Proof that the token is known.
        proof: Proof,
        /// The request.
        request: Request,
    },
    /// Server: make your data connections.
    Accept {
        /// Their session.
        session: Session,
        /// Identifies the server's host.
        host: Digest,
    },
    /// Refusal, or abort.
    Refuse {
        /// Why, for people to read.
        why: String,
    },
    /// Server: all data connections are here.
    Ready,
    /// Client: begin.
    Go,
    /// Client: what time is it?
    Clock {
        /// The client's `CLOCK_MONOTONIC`, to be sent back.
        sent_ns: u64,
    },
    /// Server: the time.
    Clocked {
        /// Copied from the question.
        sent_ns: u64,
        /// The server's `CLOCK_MONOTONIC`.
        at_ns: u64,
    },
    /// Server: the transfer has begun.
    Begun {
        /// When, by the server's `CLOCK_MONOTONIC`.
        start_ns: u64,
    },
    /// Server: its view of each connection, in the order of their numbers.
    Interval {
        /// Since the start.
        at_ns: u64,
        /// The connections.
        flows: Vec<Flow>,
    },
    /// Client: end properly.
    Stop,
    /// Server: its view of each connection at the end.
    Done {
        /// The connections.
        totals: Vec<Total>,
    },
    /// Server: what it recorded for the client, or why nothing was recorded.
    Recorded {
        /// The record.
        found: Result<Record, String>,
    },
    /// Client: send a part of the capture.
    Fetch {
        /// From this byte on.
        from: u64,
    },
    /// Server: a part of the capture.
    Part {
        /// Its first byte.
        from: u64,
        /// [`PART_BYTES`], or what is left.
        bytes: Vec<u8>,
    },
    /// Third host: be the client of another server.
    Errand {
        /// Proof that the token is known.
        proof: Proof,
        /// The errand.
        errand: Box<Errand>,
    },
    /// Server, as the client of another one: prove to that one that you know its token.
    Prove {
        /// The other server's.
        nonce: Digest,
        /// There is a token.
        needs_token: bool,
        /// The request to the other one.
        request: Box<Request>,
    },
    /// Third host: here is the proof.
    Proven {
        /// For the other server's token.
        proof: Proof,
    },
    /// Server, as the client of another one: an event.
    Event(Event),
}

impl Message {
    /// As bytes.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut to = Writer::default();
        let kind = match self {
            Self::Challenge { nonce, needs_token } => {
                to.array(nonce);
                to.u8((*needs_token).into());
                1
            }
            Self::Request { proof, request } => {
                to.array(proof);
                request.write(&mut to);
                2
            }
            Self::Accept { session, host } => {
                to.array(session);
                to.array(host);
                3
            }
            Self::Refuse { why } => {
                to.text(&why.chars().take(MOST_TEXT / 4).collect::<String>());
                4
            }
            Self::Ready => 5,
            Self::Go => 6,
            Self::Interval { at_ns, flows } => {
                to.u64(*at_ns);
                to.u16(flows.len() as u16);
                flows.iter().for_each(|flow| flow.write(&mut to));
                7
            }
            Self::Stop => 8,
            Self::Done { totals } => {
                to.u16(totals.len() as u16);
                totals.iter().for_each(|total| total.write(&mut to));
                9
            }
            Self::Clock { sent_ns } => {
                to.u64(*sent_ns);
                10
            }
            Self::Clocked { sent_ns, at_ns } => {
                to.u64(*sent_ns);
                to.u64(*at_ns);
                11
            }
            Self::Begun { start_ns } => {
                to.u64(*start_ns);
                12
            }
            Self::Errand { proof, errand } => {
                to.array(proof);
                errand.write(&mut to);
                13
            }
            Self::Prove { nonce, needs_token, request } => {
                to.array(nonce);
                to.u8((*needs_token).into());
                request.write(&mut to);
                14
            }
            Self::Proven { proof } => {
                to.array(proof);
                15
            }
            Self::Event(event) => {
                event.write(&mut to);
                16
            }
            Self::Recorded { found } => {
                record::write(found, &mut to);
                17
            }
            Self::Fetch { from } => {
                to.u64(*from);
                18
            }
            Self::Part { from, bytes } => {
                to.u64(*from);
                to.array(bytes);
                19
            }
        };
        to.message(kind)
    }

    /// Why an end that receives it at the wrong time goes no further.
    #[must_use]
    pub fn unexpected(&self) -> String {
        format!("a message of the kind {} makes no sense here", self.emit()[0])
    }

    /// About how much memory it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let flows = |count: usize| count * size_of::<Flow>();
        size_of::<Self>()
            + match self {
                Self::Part { bytes, .. } => bytes.len(),
                Self::Interval { flows: each, .. } => flows(each.len()),
                Self::Done { totals } => totals.len() * (size_of::<Total>() + MOST_TEXT),
                Self::Event(Event::Interval { flows: each, .. }) => flows(each.len()),
                Self::Event(Event::Done { client, server, .. }) => {
                    (client.len() + server.len()) * (size_of::<Total>() + MOST_TEXT)
                }
                Self::Event(Event::Started { connections, .. }) => connections.len() * size_of::<Joined>(),
                Self::Request { .. } | Self::Errand { .. } | Self::Prove { .. } => size_of::<Errand>(),
                _ => MOST_TEXT,
            }
    }

    pub(super) fn read(kind: u8, from: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(match kind {
            1 => Self::Challenge { nonce: from.array()?, needs_token: from.flag()? },
            2 => Self::Request { proof: from.array()?, request: Request::read(from)? },
            3 => Self::Accept { session: from.array()?, host: from.array()? },
            4 => Self::Refuse { why: short(from.text()?, MOST_TEXT)? },
            5 => Self::Ready,
            6 => Self::Go,
            7 => Self::Interval { at_ns: from.u64()?, flows: many(from, Flow::read)? },
            8 => Self::Stop,
            9 => Self::Done { totals: many(from, Total::read)? },
            10 => Self::Clock { sent_ns: from.u64()? },
            11 => Self::Clocked { sent_ns: from.u64()?, at_ns: from.u64()? },
            12 => Self::Begun { start_ns: from.u64()? },
            13 => Self::Errand { proof: from.array()?, errand: Box::new(Errand::read(from)?) },
            14 => Self::Prove {
                nonce: from.array()?,
                needs_token: from.flag()?,
                request: Box::new(Request::read(from)?),
            },
            15 => Self::Proven { proof: from.array()? },
            16 => Self::Event(Event::read(from)?),
            17 => Self::Recorded { found: record::read(from)? },
            18 => Self::Fetch { from: from.u64()? },
            19 => {
                let (at, bytes) = (from.u64()?, from.rest());
                if bytes.len() > PART_BYTES {
                    return Err(ProtocolError::Body("a part that is too long"));
                }
                Self::Part { from: at, bytes }
            }
            other => return Err(ProtocolError::Kind(other)),
        })
    }
}

#[cfg(test)]
mod tests;
