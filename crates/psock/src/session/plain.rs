//! A session with a peer that does not speak psock: its bytes as they are, over one TCP connection.
//!
//! It has no streams, and [`Session::drive`] does not apply to it.

use super::{Session, SessionError};
use crate::wire::MOST_OFFSET;

impl Session {
    /// Only TCP limits what may be sent.
    pub fn plain_begin(&mut self) {
        // Nothing was sent, so nothing can be wrong.
        let _ = self.outgoing.acknowledge(0, MOST_OFFSET);
    }

    /// How many bytes there is memory for.
    #[must_use]
    pub fn plain_room(&self) -> usize {
        self.incoming.room()
    }

    /// Takes bytes that the connection delivered, at most [`Session::plain_room`].
    pub fn plain_input(&mut self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(self.plain_room())];
        let _ = self.incoming.take(self.incoming.arrived(), bytes);
    }

    /// The connection delivers nothing more.
    pub fn plain_end(&mut self) {
        let _ = self.incoming.end(self.incoming.arrived());
    }

    /// Appends what the connection is to take next to `to`; each byte is given once.
    pub fn plain_output(&mut self, to: &mut Vec<u8>) {
        if let Some((offset, len)) = self.outgoing.take(0, self.config.block_bytes) {
            self.outgoing.copy(offset, len, to);
        }
    }

    /// Everything was given to the connection, which is to pass the end on to the other side.
    #[must_use]
    pub fn plain_is_at_end(&self) -> bool {
        self.outgoing.total().is_some()
    }

    /// The other end's TCP has acknowledged this many bytes; the end, once it was sent, counts as one more.
    pub fn plain_acknowledge(&mut self, bytes: u64, is_end_told: bool) {
        if is_end_told {
            self.outgoing.end_told();
        }
        let _ = self.outgoing.acknowledge(bytes, MOST_OFFSET);
    }

    /// The connection is gone.
    pub fn plain_break(&mut self) {
        if !self.is_finished() {
            self.fail(SessionError::Broken);
        }
    }
}
