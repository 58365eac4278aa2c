//! What client and server of a bulk transfer send each other; bytes in, messages out, no I/O.
//!
//! A connection begins with a [`Preamble`] of the client. On a control connection the server answers with a
//! [`Message::Challenge`]; the client's [`Request`] proves that it knows the token without revealing it. Data
//! connections carry a preamble that names their session, then blocks of one direction only.
//!
//! ```text
//! client   Preamble::Control            Request             Preamble::Data ...      Go               Stop
//! server                     Challenge           Accept                        Ready  Begun Interval*  Done
//!                                                 (or Refuse, at any time, and the end)
//! ```
//!
//! From `Ready` to `Done` the client may ask for the server's clock at any time: `Clock` is answered at once by
//! `Clocked`.
//!
//! A client that wants the server's packets ([`Wish`]) is told after `Done` what was recorded, and fetches it part by
//! part. It requests several parts before the first one has come; the last part ends it, and the file is gone.
//!
//! ```text
//! client                    Fetch*
//! server   Done   Recorded         Part*
//! ```
//!
//! A third host may ask a server to be the client of another one: an [`Errand`]. It proves that it knows the server's
//! token and, through the server (`Prove`, `Proven`), the other one's, which the server never learns. What
//! happens to the server as a client is reported as it comes: an [`Event`].
//!
//! ```text
//! third host  Preamble::Control            Errand         Proven                  Stop
//! server                        Challenge          Prove          Event*  Event::Done
//! ```
//!
//! Captures that the third host wants follow as they do for a client: the server's own, which is the client's, then
//! the other server's. A `Ready` meanwhile means that the server is still busy.

mod codec;
mod errand;
mod event;
mod flow;
mod message;
mod preamble;
mod proof;
mod record;
mod request;

pub use codec::{Decoder, ProtocolError};
pub use errand::Errand;
pub use event::{Event, Joined};
pub use flow::{Flow, LatencyNs, Total};
pub use message::Message;
pub use preamble::Preamble;
pub use proof::{LEAST_TOKEN_BYTES, prove, prove_errand, verify, verify_errand};
pub use record::{Record, Wish};
pub use request::Request;

/// A SHA-256 digest: a nonce, or the identity of a host.
pub type Digest = [u8; 32];

/// HMAC-SHA256 of the token over the nonce and the request.
pub type Proof = [u8; 32];

/// Identifies a session; a connection that knows it may join it.
pub type Session = [u8; 16];

/// Longest text in a message, in bytes.
const MOST_TEXT: usize = 1000;

/// `TCP_CA_NAME_MAX` without its end.
const MOST_NAME: usize = 15;

/// What version 4 is; the last byte is the version.
pub const MAGIC: [u8; 8] = *b"WEIRTCP\x04";

/// Bytes of a [`Preamble`], whatever it says.
pub const PREAMBLE_BYTES: usize = 32;

/// Connections of one direction.
pub const MOST_CONNECTIONS: u16 = 128;

/// Largest block.
pub const MOST_BLOCK_BYTES: u32 = 4 << 20;

/// Memory for blocks: their size times the connections of one direction.
pub const MOST_BUFFER_BYTES: u64 = 64 << 20;

/// Longest interval between two reports, and shortest.
pub const INTERVALS_NS: std::ops::RangeInclusive<u64> = 1_000_000..=3_600_000_000_000;

/// Bytes of a capture in one [`Message::Part`]; the last one may have less.
pub const PART_BYTES: usize = 256 * 1024;

/// Largest message that a server takes from a client, which may be anyone.
pub const MOST_REQUEST_BYTES: usize = 512;

/// Largest message that a client takes from a server: both ends of all connections.
pub const MOST_ANSWER_BYTES: usize = 512 * 1024;
