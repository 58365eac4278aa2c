//! What an application has the thread of a session do: no other thread is woken for what comes and goes.

use std::fmt::Debug;

use crate::session::Session;

/// Moves bytes between a session and a descriptor of its own, without blocking.
pub trait Forwarder: Debug + Send {
    /// Moves what can be moved. `events`: what poll() reported of the descriptor; `buffer`: for any use.
    ///
    /// Returns what to wait for; `None`: it is done. It is called again whenever the session may have changed.
    fn forward(
        &mut self,
        session: &mut Session,
        events: libc::c_short,
        buffer: &mut [u8],
    ) -> Option<libc::pollfd>;
}
