//! What client and server of a bulk transfer say to each other; bytes in, messages out, no I/O.
//!
//! A connection begins with a [`Preamble`] of the client. On a control connection the server answers with a
//! [`Message::Challenge`]; the client's [`Request`] proves that it knows the token without telling it. Data
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
//! A third host may ask a server to be the client of another one: an [`Errand`]. It proves to know the server's
//! token, and by way of the server (`Prove`, `Proven`) the other one's, which the server never learns. What
//! happens to the server as a client is [`Told`] as it comes.
//!
//! ```text
//! third host  Preamble::Control            Errand         Proven                  Stop
//! server                        Challenge          Prove          Told*  Told::Done
//! ```

mod codec;
mod errand;
mod message;

pub use codec::{Decoder, ProtocolError};
pub use errand::{Errand, Made, Told};
pub use message::{
    Digest, Flow, LatencyNs, Message, Preamble, Proof, Request, Session, Total, prove, prove_errand, verify,
    verify_errand,
};

/// What version 2 is; the last byte is the version.
pub const MAGIC: [u8; 8] = *b"WEIRTCP\x02";

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

/// Largest message that a server takes from a client, which may be anybody.
pub const MOST_REQUEST_BYTES: usize = 512;

/// Largest message that a client takes from a server: an interval of all connections.
pub const MOST_ANSWER_BYTES: usize = 256 * 1024;
