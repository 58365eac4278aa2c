//! What crosses the network: a greeting, then frames. `docs/psock-protocol.md` specifies it; no I/O.

mod frame;
mod greeting;
mod secret;

pub use frame::{Frame, HEADER_BYTES, MOST_BLOCK_BYTES, MOST_OFFSET, Reason, Violation};
pub use greeting::{
    GreetingError, HELLO_BYTES, Hello, Initiator, Proved, REPLY_BYTES, Responder, Status, WELCOME_BYTES,
    begins_like_hello, refusal, refused_welcome,
};
pub use secret::{Id, Nonce, PROOF_BYTES, Proof, Secret};

/// First bytes of either end; the version follows.
pub const MAGIC: [u8; 7] = *b"WEIRPSK";

/// Version of the protocol.
pub const VERSION: u8 = 1;

/// Most blocks that were sent and not acknowledged, and so most gaps between blocks that were received.
pub const MOST_BLOCKS: usize = 4096;

/// Most streams of a session at one time.
pub const MOST_STREAMS: usize = 64;
