//! How an endpoint reaches the network.

use std::io;

/// Packets received, or sent, before the other direction has its turn.
pub const BATCH: usize = 32;

/// The way to the other endpoint, for IPv4 packets.
pub trait Port {
    /// Whether the sender has to add the UDP checksum of what it sends in the clear.
    const ADDS_CHECKSUM: bool;

    /// Hands arrived packets to `take`, at most [`BATCH`]; returns how many there were.
    ///
    /// # Errors
    /// The port no longer works.
    fn receive(&mut self, take: &mut dyn FnMut(&mut [u8])) -> io::Result<usize>;

    /// Accepts a packet; false if there is no room for it.
    ///
    /// # Errors
    /// The port no longer works.
    fn send(&mut self, packet: &[u8]) -> io::Result<bool>;

    /// Sends what was accepted, in order; returns how many packets the system has not taken yet. The next call
    /// tries these again.
    ///
    /// # Errors
    /// The port no longer works.
    fn flush(&mut self) -> io::Result<usize>;

    /// Waits until something arrives or the time has come, or shorter. CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// The port no longer works.
    fn wait(&mut self, until_ns: u64) -> io::Result<()>;

    /// Called in every turn, even if there is always something to do: a port whose owner never sleeps
    /// leaves the CPU to others for moments here. The next packet is due at `next_ns`.
    fn give_way(&mut self, now_ns: u64, next_ns: u64);
}
