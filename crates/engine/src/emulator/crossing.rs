//! The measured device that frames of both directions cross.

use weir_link::{DeviceQueue, MeasuredDevice};

use super::Crossed;

/// FCS, which packet sockets do not show, and the shortest frame.
const FCS: usize = 4;
const SHORTEST: usize = 64;

/// A device that frames cross.
pub struct Crossing {
    queue: DeviceQueue,
    position: f64,
    /// Times count from here, so that they are exact.
    start_ns: u64,
}

impl Crossing {
    pub fn new(crossed: &Crossed, start_ns: u64) -> Self {
        // It was checked when the emulator was started.
        let device = MeasuredDevice::new(crossed.behaviour.clone(), crossed.seed)
            .unwrap_or_else(|error| unreachable!("{error}"));
        Self { queue: DeviceQueue::new(device), position: crossed.position, start_ns }
    }

    /// When a frame of `len` bytes leaves that came at `at_ns`; `None`: it is dropped.
    pub fn pass(&mut self, at_ns: u64, len: usize) -> Option<u64> {
        let since_ns = at_ns.saturating_sub(self.start_ns) as f64;
        let frame_bytes = (len + FCS).max(SHORTEST) as f64;
        self.queue.pass(since_ns, self.position, frame_bytes).map(|ns| self.start_ns + ns.round() as u64)
    }
}
