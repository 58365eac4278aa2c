//! Where frames to be written come from.

use std::io;
use std::time::Duration;

pub use weir_capture::Direction;

/// A frame to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When it was seen, ns since 1970.
    pub time_ns: i64,
    /// Place in [`Source::interfaces`].
    pub interface: usize,
    /// Which way it went.
    pub direction: Direction,
    /// Length on the link without FCS; more than `data` has if it was cut.
    pub original_len: u32,
    /// Frames of this interface that the source lost between its last frame and this one.
    pub lost_before: u64,
    /// Since when they may have been lost, if that may be before the last frame of the interface.
    pub lost_since_ns: Option<i64>,
    /// Its bytes.
    pub data: &'a [u8],
}

/// What a source reports about one of its interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name, as in `ip link`.
    pub name: String,
    /// Its role for the reader of the file, for instance "A, towards B".
    pub description: String,
    /// Ethernet address.
    pub mac: [u8; 6],
}

/// Frames, and counts of those lost on the way here.
pub trait Source: Send {
    /// The interfaces that frames are counted under; they never change.
    fn interfaces(&self) -> &[Interface];

    /// Waits up to `wait` for frames and hands over those available, in time order and at most
    /// some thousand; returns how many. 0 means that none came in time.
    ///
    /// # Errors
    /// Any system error; nothing more can be read then.
    fn read(&mut self, wait: Duration, take: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize>;

    /// Frames per interface that the source lost for want of room so far.
    fn lost(&self) -> Vec<u64>;

    /// Since when frames may have been lost that no frame has reported, if that may be before the last frame of
    /// the interface.
    fn lost_since_ns(&self, _interface: usize) -> Option<i64> {
        None
    }
}
