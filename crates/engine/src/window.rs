//! When a trial happens, and what marks its packets.

use crate::layout::RxConfig;
use crate::plan::{NEXT_FLOW, Plan, Side};

/// Times are CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub start_ns: u64,
    pub record_start_ns: u64,
    pub record_end_ns: u64,
    pub magic: u16,
}

impl Window {
    pub const fn new(plan: &Plan, start_ns: u64, magic: u16) -> Self {
        Self {
            start_ns,
            record_start_ns: start_ns + plan.warmup_ns,
            record_end_ns: start_ns + plan.total_ns(),
            magic,
        }
    }

    /// Start and end of recording.
    pub const fn bounds(&self) -> (u64, u64) {
        (self.record_start_ns, self.record_end_ns)
    }

    /// What the receiver of packets that go this way has to know.
    pub fn rx_config(&self, plan: &Plan, side: Side) -> RxConfig {
        let media = plan.media.is_some().into();
        let answers = plan.answers.filter(|_| side == Side::Forward);
        RxConfig {
            record_start_ns: self.record_start_ns,
            record_end_ns: self.record_end_ns,
            n_flows: plan.flows.len() as u32,
            bin_ns: plan.bin_ns,
            n_bins: plan.n_bins() as u32,
            magic: self.magic,
            skip: plan.skip,
            armed: 1,
            tail: media,
            log: media,
            pad: [0; 2],
            windowed: plan.windowed.into(),
            answers: answers.map_or(0, |answers| answers.first),
            new_flow: answers.map_or(NEXT_FLOW, |_| plan.new_flow()),
        }
    }
}
