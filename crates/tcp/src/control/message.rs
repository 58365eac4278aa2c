//! The messages.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::codec::{ProtocolError, Reader, Writer};
use super::errand::{Errand, Told};
use super::{INTERVALS_NS, MAGIC, MOST_BLOCK_BYTES, MOST_BUFFER_BYTES, MOST_CONNECTIONS, PREAMBLE_BYTES};
use crate::{Info, Queues};

/// Of SHA-256: a nonce, or what tells hosts apart.
pub type Digest = [u8; 32];

/// HMAC-SHA256 of the token over the nonce and the request.
pub type Proof = [u8; 32];

/// Names a session; who knows it may join it.
pub type Session = [u8; 16];

/// Longest text in a message, in bytes.
const MOST_TEXT: usize = 1000;

/// `TCP_CA_NAME_MAX` without its end.
const MOST_NAME: usize = 15;

/// The first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preamble {
    /// A client that wants a transfer.
    Control,
    /// A data connection.
    Data {
        /// Of this session.
        session: Session,
        /// Its number.
        index: u16,
    },
}

impl Preamble {
    /// As bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        if let Self::Data { session, index } = self {
            bytes[8] = 1;
            bytes[10..12].copy_from_slice(&index.to_le_bytes());
            bytes[12..28].copy_from_slice(session);
        }
        bytes
    }

    /// From bytes.
    ///
    /// # Errors
    /// [`ProtocolError`].
    pub fn parse(bytes: &[u8; PREAMBLE_BYTES]) -> Result<Self, ProtocolError> {
        let mut reader = Reader(bytes);
        let magic: [u8; 8] = reader.array()?;
        if magic[..7] != MAGIC[..7] {
            return Err(ProtocolError::Magic);
        }
        if magic[7] != MAGIC[7] {
            return Err(ProtocolError::Version(magic[7]));
        }
        let is_data = reader.flag()?;
        let _ = reader.u8()?;
        let index = reader.u16()?;
        let session = reader.array()?;
        let found = if is_data { Self::Data { session, index } } else { Self::Control };
        // Every byte that means nothing is 0: so it can mean something one day.
        if found.emit() == *bytes { Ok(found) } else { Err(ProtocolError::Body("its preamble")) }
    }
}

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Tells the client's host, and its clock, from others.
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
}

/// Block latency, one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyNs {
    /// Blocks.
    pub count: u64,
    /// Least.
    pub min: u64,
    /// Mean.
    pub mean: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Greatest.
    pub max: u64,
}

/// What one end knows of one connection so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Bytes written or read.
    pub bytes: u64,
    /// Whole blocks written or read.
    pub blocks: u64,
    /// Since the last report, or for a total since the start; of a receiver on the sender's host.
    pub latency: Option<LatencyNs>,
    /// The kernel's state; empty where the connection is gone.
    pub info: Info,
    /// What else its host knows of it; empty where the connection is gone.
    pub queues: Queues,
}

/// The end of one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Its last state.
    pub flow: Flow,
    /// From the start of the transfer to the first byte.
    pub first_ns: Option<u64>,
    /// From the start of the transfer to the last byte.
    pub last_ns: Option<u64>,
    /// Why it ended early; empty if it did not.
    pub failure: String,
}

/// What is said on a control connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Server: prove that you know the token.
    Challenge {
        /// Used once.
        nonce: Digest,
        /// There is a token.
        needs_token: bool,
    },
    /// Client: this is what I want.
    Request {
        /// That the token is known.
        proof: Proof,
        /// What is wanted.
        request: Request,
    },
    /// Server: make your data connections.
    Accept {
        /// They belong to this.
        session: Session,
        /// Tells the server's host from others.
        host: Digest,
    },
    /// No, or no longer.
    Refuse {
        /// Why, for people.
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
    /// Server: this.
    Clocked {
        /// As it came.
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
    /// Client: end in good order.
    Stop,
    /// Server: its view of each connection at the end.
    Done {
        /// The connections.
        totals: Vec<Total>,
    },
    /// Third host: be the client of another server.
    Errand {
        /// That the token is known.
        proof: Proof,
        /// What is wanted.
        errand: Box<Errand>,
    },
    /// Server, as the client of another one: prove to that one that you know its token.
    Prove {
        /// The other server's.
        nonce: Digest,
        /// There is a token.
        needs_token: bool,
        /// What the other one is asked for.
        request: Box<Request>,
    },
    /// Third host: here is the proof.
    Proven {
        /// Of the other server's token.
        proof: Proof,
    },
    /// Server, as the client of another one: this happened.
    Told(Told),
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
            Self::Told(told) => {
                told.write(&mut to);
                16
            }
        };
        to.message(kind)
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
            16 => Self::Told(Told::read(from)?),
            other => return Err(ProtocolError::Kind(other)),
        })
    }
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
        };
        match request.problem() {
            None => Ok(request),
            Some(problem) => Err(ProtocolError::Body(problem)),
        }
    }

    /// Why no server can do this, if so.
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

impl LatencyNs {
    fn write(&self, to: &mut Writer) {
        for value in [self.count, self.min, self.mean, self.p50, self.p99, self.max] {
            to.u64(value);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self {
            count: from.u64()?,
            min: from.u64()?,
            mean: from.u64()?,
            p50: from.u64()?,
            p99: from.u64()?,
            max: from.u64()?,
        })
    }
}

impl Flow {
    pub(super) fn write(&self, to: &mut Writer) {
        to.u64(self.bytes);
        to.u64(self.blocks);
        to.u8(self.latency.is_some().into());
        if let Some(latency) = &self.latency {
            latency.write(to);
        }
        to.bytes(self.info.bytes());
        let queues = &self.queues;
        to.bytes(queues.memory());
        for value in [queues.unread_bytes, queues.unacked_bytes, queues.waited_ns] {
            to.maybe(value);
        }
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self {
            bytes: from.u64()?,
            blocks: from.u64()?,
            latency: if from.flag()? { Some(LatencyNs::read(from)?) } else { None },
            info: Info::new(from.bytes()?),
            queues: Queues::new(from.bytes()?).with(from.maybe()?, from.maybe()?, from.maybe()?),
        })
    }
}

impl Total {
    pub(super) fn write(&self, to: &mut Writer) {
        self.flow.write(to);
        to.maybe(self.first_ns);
        to.maybe(self.last_ns);
        to.text(&self.failure.chars().take(MOST_TEXT / 8).collect::<String>());
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self {
            flow: Flow::read(from)?,
            first_ns: from.maybe()?,
            last_ns: from.maybe()?,
            failure: short(from.text()?, MOST_TEXT)?,
        })
    }
}

pub(super) fn short(text: String, most: usize) -> Result<String, ProtocolError> {
    if text.len() > most { Err(ProtocolError::Body("text that is too long")) } else { Ok(text) }
}

pub(super) fn many<T>(
    from: &mut Reader<'_>,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, ProtocolError>,
) -> Result<Vec<T>, ProtocolError> {
    let count = from.u16()?;
    if count > 2 * MOST_CONNECTIONS {
        return Err(ProtocolError::Body("too many connections"));
    }
    (0..count).map(|_| read(from)).collect()
}

/// That `token` is known, by whoever was given `nonce` and sends `request`.
#[must_use]
pub fn prove(token: &str, nonce: &Digest, request: &Request) -> Proof {
    mac(token, nonce, request_bytes(request)).finalize().into_bytes().into()
}

/// Is it? Takes the same time whatever is wrong.
#[must_use]
pub fn verify(token: &str, nonce: &Digest, request: &Request, proof: &Proof) -> bool {
    mac(token, nonce, request_bytes(request)).verify_slice(proof).is_ok()
}

/// That `token` is known, by whoever was given `nonce` and sends `errand`.
#[must_use]
pub fn prove_errand(token: &str, nonce: &Digest, errand: &Errand) -> Proof {
    mac(token, nonce, errand_bytes(errand)).finalize().into_bytes().into()
}

/// Is it? Takes the same time whatever is wrong.
#[must_use]
pub fn verify_errand(token: &str, nonce: &Digest, errand: &Errand, proof: &Proof) -> bool {
    mac(token, nonce, errand_bytes(errand)).verify_slice(proof).is_ok()
}

fn request_bytes(request: &Request) -> Vec<u8> {
    let mut to = Writer::default();
    request.write(&mut to);
    to.message(0)
}

/// Of another kind than those of a request: the proof of one is none of the other.
fn errand_bytes(errand: &Errand) -> Vec<u8> {
    let mut to = Writer::default();
    errand.write(&mut to);
    to.message(1)
}

fn mac(token: &str, nonce: &Digest, bytes: Vec<u8>) -> Hmac<Sha256> {
    // A key of any length will do; an empty one stands for no token.
    let mut mac =
        <Hmac<Sha256> as KeyInit>::new_from_slice(token.as_bytes()).unwrap_or_else(|_| unreachable!());
    mac.update(nonce);
    mac.update(&bytes);
    mac
}

#[cfg(test)]
mod tests;
