//! What an emulated link reports about itself.

use weir_link::Counters;

use crate::histogram::{BUCKETS, bucket};

/// One direction so far.
#[derive(Clone, Debug)]
pub struct Direction {
    /// What the emulated path did.
    pub counters: Counters,
    /// Frames on the path.
    pub held: u64,
    /// Of those, the ones waiting for the transmitter.
    pub queued: u64,
    /// Departed frames that the interface took.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames that could not be kept.
    pub overload: Overload,
    /// How late frames left.
    pub late: Late,
    /// How fast they left while frames waited, since the last change.
    pub pace: Paced,
}

/// Frames that the emulator itself lost or could not carry as it should: none of this is emulated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overload {
    /// The kernel had no room for them because they were not read in time.
    pub not_received: u64,
    /// They were longer than the interface's MTU allows.
    pub too_long: u64,
    /// All memory for frames was in use.
    pub no_memory: u64,
    /// The interface that they were to leave by did not take them.
    pub refused: u64,
    /// Why the most recent one was not taken.
    pub reason: String,
    /// They were carried, but their senders had left the checksum to hardware.
    pub unfinished: u64,
}

/// How late frames were handed to the kernel; behind a device, also how much too soon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// By [`bucket`](crate::bucket).
    pub counts: Vec<u64>,
    /// The greatest.
    pub max_ns: u64,
}

/// Frames that followed another one without a pause of the emulated transmitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paced {
    /// Bits transmitted, overhead included.
    pub bits: u64,
    /// How long that took, by the times at which the frames really left.
    pub ns: u64,
    /// How often the transmitter began again after a pause.
    pub bursts: u64,
}

/// A whole link so far.
#[derive(Clone, Debug)]
pub struct Progress {
    /// From the first end to the second, and back.
    pub directions: [Direction; 2],
    /// How long it has run, or ran.
    pub elapsed_ns: u64,
    /// CPU time that it used meanwhile, including the kernel's work for it.
    pub cpu_ns: u64,
    /// Why it is not real-time although it should be; empty if it is or need not be.
    pub real_time_refused: String,
    /// Why it no longer runs; empty if it was stopped or its time is over.
    pub failure: String,
    /// Whether it has ended.
    pub ended: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        let direction = || Direction {
            counters: Counters::default(),
            held: 0,
            queued: 0,
            sent: 0,
            sent_bytes: 0,
            overload: Overload::default(),
            late: Late::new(),
            pace: Paced::default(),
        };
        Self {
            directions: [direction(), direction()],
            elapsed_ns: 0,
            cpu_ns: 0,
            real_time_refused: String::new(),
            failure: String::new(),
            ended: false,
        }
    }
}

impl Late {
    pub(super) fn new() -> Self {
        Self { counts: vec![0; BUCKETS], max_ns: 0 }
    }

    pub(super) fn add(&mut self, late_ns: u64) {
        self.counts[bucket(late_ns)] += 1;
        self.max_ns = self.max_ns.max(late_ns);
    }
}
