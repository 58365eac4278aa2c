//! What sender and receiver counted.

use crate::layout::{RxBin, RxFlow, RxTotals};

/// How packets were sent and received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// XDP live frames and an XDP receiver in this mode (`native` or `generic`).
    Xdp(&'static str),
    /// Packet sockets.
    AfPacket,
    /// A simulated device.
    Sim,
}

/// One bin of the time series, by time of departure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Departed.
    pub sent: u64,
    /// Of these, arrived.
    pub received: u64,
    /// Sum of their delays.
    pub delay_sum_ns: u64,
    /// Longest delay.
    pub delay_max_ns: u64,
}

/// One flow, recorded packets only.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowOutcome {
    /// Departed.
    pub sent: u64,
    /// Arrived, copies not counted.
    pub received: u64,
    /// Arrived again.
    pub duplicated: u64,
    /// Arrived late (RFC 4737).
    pub reordered: u64,
    /// Shortest delay; 0 if nothing arrived, as all that follows.
    pub delay_min_ns: u64,
    /// Sum of delays.
    pub delay_sum_ns: u64,
    /// Longest delay.
    pub delay_max_ns: u64,
    /// RFC 3550 jitter after the last packet.
    pub jitter_ns: f64,
    /// Sum of |D| between consecutive arrivals.
    pub ipdv_sum_ns: u64,
    /// Number of such differences.
    pub ipdv_count: u64,
    /// Longest time between arrivals.
    pub longest_gap_ns: u64,
}

/// One trial. Times are CLOCK_MONOTONIC.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How.
    pub backend: Backend,
    /// Start of recording.
    pub record_start_ns: u64,
    /// End of recording.
    pub record_end_ns: u64,
    /// Departed while recording.
    pub sent: u64,
    /// Departed before.
    pub sent_warmup: u64,
    /// First recorded departure.
    pub first_departure_ns: u64,
    /// Last recorded departure.
    pub last_departure_ns: u64,
    /// Sum of the lateness of recorded departures.
    pub late_sum_ns: u64,
    /// Greatest lateness.
    pub late_max_ns: u64,
    /// How far the sender was behind its schedule at the end.
    pub slipped_ns: u64,
    /// Frames at the receiver that were no probes of this trial.
    pub stray: u64,
    /// Frames that the receiver's socket dropped; the XDP receiver has no queue of its own.
    pub receiver_dropped: u64,
    /// First recorded arrival, 0 if none.
    pub first_arrival_ns: u64,
    /// Last recorded arrival.
    pub last_arrival_ns: u64,
    /// Longest time between recorded arrivals of any flow.
    pub longest_gap_ns: u64,
    /// Buckets that are not empty, with their counts.
    pub histogram: Vec<(u32, u64)>,
    /// Time series.
    pub bins: Vec<Bin>,
    /// Flows.
    pub flows: Vec<FlowOutcome>,
}

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
    pub bins: Vec<u64>,
    pub flows: Vec<u64>,
}

impl Sent {
    pub fn new(n_bins: usize, n_flows: usize) -> Self {
        Self { bins: vec![0; n_bins], flows: vec![0; n_flows], ..Self::default() }
    }
}

/// What a receiver counted, whichever it was.
pub struct Received {
    pub totals: RxTotals,
    pub histogram: Vec<u64>,
    pub bins: Vec<RxBin>,
    pub flows: Vec<RxFlow>,
    pub dropped: u64,
}

impl Outcome {
    pub(crate) fn join(backend: Backend, window: (u64, u64), sent: &Sent, received: &Received) -> Self {
        let flows = sent.flows.iter().zip(&received.flows).map(|(&sent, rx)| FlowOutcome {
            sent,
            received: rx.received,
            duplicated: rx.duplicated,
            reordered: rx.reordered,
            delay_min_ns: rx.delay_min_ns,
            delay_sum_ns: rx.delay_sum_ns,
            delay_max_ns: rx.delay_max_ns,
            jitter_ns: rx.jitter_q4 as f64 / 16.0,
            ipdv_sum_ns: rx.ipdv_sum_ns,
            ipdv_count: rx.ipdv_count,
            longest_gap_ns: rx.longest_gap_ns,
        });
        let bins = sent.bins.iter().zip(&received.bins).map(|(&sent, rx)| Bin {
            sent,
            received: rx.received,
            delay_sum_ns: rx.delay_sum_ns,
            delay_max_ns: rx.delay_max_ns,
        });
        let histogram = received.histogram.iter().enumerate().filter(|(_, count)| **count > 0);
        Self {
            backend,
            record_start_ns: window.0,
            record_end_ns: window.1,
            sent: sent.recorded,
            sent_warmup: sent.warmup,
            first_departure_ns: sent.first_ns,
            last_departure_ns: sent.last_ns,
            late_sum_ns: sent.late_sum_ns,
            late_max_ns: sent.late_max_ns,
            slipped_ns: sent.slipped_ns,
            stray: received.totals.stray,
            receiver_dropped: received.dropped,
            first_arrival_ns: received.totals.first_arrival_ns,
            last_arrival_ns: received.totals.last_arrival_ns,
            longest_gap_ns: received.totals.longest_gap_ns,
            histogram: histogram.map(|(i, count)| (i as u32, *count)).collect(),
            bins: bins.collect(),
            flows: flows.collect(),
        }
    }
}
