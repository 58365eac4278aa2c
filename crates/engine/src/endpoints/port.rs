//! How an endpoint reaches the network.

use std::io;

/// Packets that are taken, or sent, before the other direction has its turn.
pub const BATCH: usize = 32;

/// The way to the other endpoint, for IPv4 packets.
pub trait Port {
    /// Whether the sender has to add the UDP checksum of what it sends in the clear.
    const ADDS_CHECKSUM: bool;

    /// Hands packets that arrived to `take`, at most [`BATCH`]; how many there were.
    ///
    /// # Errors
    /// The port does not work any more.
    fn receive(&mut self, take: &mut dyn FnMut(&mut [u8])) -> io::Result<usize>;

    /// Accepts a packet; false where there is no room for it.
    ///
    /// # Errors
    /// The port does not work any more.
    fn send(&mut self, packet: &[u8]) -> io::Result<bool>;

    /// Lets what was accepted leave, in order; how many packets the system has not taken yet. The next call tries
    /// these again.
    ///
    /// # Errors
    /// The port does not work any more.
    fn flush(&mut self) -> io::Result<usize>;

    /// Waits until something arrives or until the time has come, or shorter. CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// The port does not work any more.
    fn wait(&mut self, until_ns: u64) -> io::Result<()>;

    /// Called in every turn, also while there is always something to do: a port whose owner never sleeps
    /// leaves the CPU to others for moments here. The next packet is due at `next_ns`.
    fn give_way(&mut self, now_ns: u64, next_ns: u64);
}
