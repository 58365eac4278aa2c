//! What became of frames.

/// Frames of one direction. Every frame that arrived or was created is in exactly one of `departed`, `lost`,
/// `dropped_full` and `dropped_early`, or still held:
///
/// `arrived + duplicated = departed + lost + dropped_full + dropped_early + held`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that came.
    pub arrived: u64,
    /// Their bytes.
    pub arrived_bytes: u64,
    /// Frames that left, duplicates included.
    pub departed: u64,
    /// Their bytes.
    pub departed_bytes: u64,
    /// Frames lost as the specification demands.
    pub lost: u64,
    /// Frames for which the queue had no room.
    pub dropped_full: u64,
    /// Frames that RED or CoDel dropped.
    pub dropped_early: u64,
    /// Copies that were created.
    pub duplicated: u64,
    /// Frames that were held back.
    pub held_back: u64,
}
