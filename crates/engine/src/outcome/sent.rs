//! What a sender counted.

use weir_wire::Probe;

use crate::layout::{GenBin, Look};
use crate::plan::Plan;

/// What a sender counted.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    pub recorded: u64,
    pub warmup: u64,
    pub first_ns: u64,
    pub last_ns: u64,
    pub late_sum_ns: u64,
    pub late_max_ns: u64,
    pub slipped_ns: u64,
    pub bins: Vec<GenBin>,
    pub looks: Vec<Look>,
    pub n_watched: usize,
    pub flows: Vec<u64>,
    /// Of each flow; empty unless arrivals are logged.
    pub first_seq: Vec<u32>,
    /// Packets sent again less packets not sent, by impairment.
    pub surplus: i64,
    /// Packets that were the first of their flows.
    pub openings: u64,
}

impl Sent {
    /// Nothing yet.
    pub fn of(plan: &Plan) -> Self {
        let n_flows = plan.flows.len();
        Self {
            bins: vec![GenBin::default(); plan.n_bins()],
            flows: vec![0; n_flows],
            first_seq: vec![0; if plan.media.is_some() { n_flows } else { 0 }],
            ..Self::default()
        }
    }

    /// Adds what another sender counted, whose flows follow those of this one. The host was observed by this one.
    pub fn merge(mut self, other: Self) -> Self {
        if other.recorded > 0 {
            let is_first = self.recorded == 0 || other.first_ns < self.first_ns;
            self.first_ns = if is_first { other.first_ns } else { self.first_ns };
            self.last_ns = self.last_ns.max(other.last_ns);
        }
        self.recorded += other.recorded;
        self.warmup += other.warmup;
        self.late_sum_ns += other.late_sum_ns;
        self.late_max_ns = self.late_max_ns.max(other.late_max_ns);
        self.slipped_ns = self.slipped_ns.max(other.slipped_ns);
        for (bin, more) in self.bins.iter_mut().zip(other.bins) {
            bin.sent += more.sent;
            bin.late_max_ns = bin.late_max_ns.max(more.late_max_ns);
        }
        self.flows.extend(other.flows);
        self.surplus += other.surplus;
        self.openings += other.openings;
        self
    }

    /// Packets that should arrive if none is lost, warm-up included.
    pub const fn expected(&self) -> u64 {
        (self.recorded + self.warmup).saturating_add_signed(self.surplus)
    }

    /// Counts a departure.
    pub fn depart(&mut self, probe: &Probe, late_ns: u64, window: (u64, u64), bin_ns: u64) {
        let (flow, time_ns) = (probe.flow as usize, probe.time_ns);
        if time_ns < window.0 || time_ns >= window.1 {
            self.warmup += u64::from(time_ns < window.0);
            return;
        }
        if self.recorded == 0 {
            self.first_ns = time_ns;
        }
        self.last_ns = time_ns;
        self.recorded += 1;
        if self.flows[flow] == 0
            && let Some(first) = self.first_seq.get_mut(flow)
        {
            *first = probe.seq;
        }
        self.flows[flow] += 1;
        let bin = &mut self.bins[((time_ns - window.0) / bin_ns) as usize];
        bin.sent += 1;
        bin.late_max_ns = bin.late_max_ns.max(late_ns);
    }
}
