//! What sender and receiver counted.

mod log;
mod sent;

pub use log::PacketLog;
pub use sent::Sent;

use crate::histogram::BUCKETS;
use crate::layout::{Look, RxBin, RxFlow, RxTotals};

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
    /// Shortest delay; 0 if nothing arrived.
    pub delay_min_ns: u64,
    /// Longest delay.
    pub delay_max_ns: u64,
    /// Sum of |D| (RFC 3550) between these packets and the ones before them in their flows.
    pub ipdv_sum_ns: u64,
    /// Number of such differences.
    pub ipdv_count: u64,
    /// Greatest lateness of a departure.
    pub late_max_ns: u64,
    /// Glances at what ran on the device's CPU.
    pub glances: u64,
    /// Of these, how many found other work there.
    pub others: u64,
}

/// What a windowed plan has for each bin in addition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// Non-empty buckets of the bins' histograms, one bin after the other.
    pub buckets: Vec<u32>,
    /// Their counts.
    pub counts: Vec<u64>,
    /// Where in them each bin ends.
    pub ends: Vec<u64>,
    /// What was seen of the host at the first packet of the trial, of each bin, and at the end; empty
    /// if the host could not be observed.
    pub looks: Vec<Look>,
    /// Number of tasks in each look.
    pub n_watched: usize,
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
    /// Shortest delay; 0 if nothing arrived, as are all fields that follow.
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
    /// Number of the first recorded packet; 0 unless arrivals were logged.
    pub first_seq: u32,
}

/// Answers to probes, counted where the probes came from; recorded ones only, but for `open_flows`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Departed.
    pub sent: u64,
    /// Of these, arrived.
    pub received: u64,
    /// Shortest delay; 0 if nothing arrived.
    pub delay_min_ns: u64,
    /// Sum of delays.
    pub delay_sum_ns: u64,
    /// Longest delay.
    pub delay_max_ns: u64,
    /// Non-empty buckets, with their counts.
    pub histogram: Vec<(u32, u64)>,
    /// Known flows of which at least one answer arrived, at any time.
    pub open_flows: u64,
    /// All answers that departed, warm-up included.
    pub sent_all: u64,
    /// Probes that were the first of their flows, warm-up included.
    pub openings: u64,
}

impl Answers {
    /// From what arrived at both ends.
    pub(crate) fn of(sent: &Sent, forward: &RxTotals, back: &Received, n_known: usize) -> Self {
        let arrived = || back.flows.iter().filter(|flow| flow.received > 0);
        Self {
            sent: forward.answers_recorded,
            received: arrived().map(|flow| flow.received).sum(),
            delay_min_ns: arrived().map(|flow| flow.delay_min_ns).min().unwrap_or(0),
            delay_sum_ns: arrived().map(|flow| flow.delay_sum_ns).sum(),
            delay_max_ns: arrived().map(|flow| flow.delay_max_ns).max().unwrap_or(0),
            histogram: non_empty(&back.histogram),
            open_flows: back.flows.iter().take(n_known).filter(|flow| flow.next_seq > 0).count() as u64,
            sent_all: forward.answers,
            openings: sent.openings,
        }
    }
}

/// The non-empty buckets of all windows together.
fn non_empty(histograms: &[u64]) -> Vec<(u32, u64)> {
    let mut whole = vec![0; BUCKETS];
    for block in histograms.chunks_exact(BUCKETS) {
        for (sum, count) in whole.iter_mut().zip(block) {
            *sum += count;
        }
    }
    let filled = whole.into_iter().enumerate().filter(|(_, count)| *count > 0);
    filled.map(|(i, count)| (i as u32, count)).collect()
}

/// One trial. Times are CLOCK_MONOTONIC.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it was sent and received.
    pub backend: Backend,
    /// Start of recording.
    pub record_start_ns: u64,
    /// End of recording.
    pub record_end_ns: u64,
    /// Departed while recording.
    pub sent: u64,
    /// Departed before recording.
    pub sent_warmup: u64,
    /// First recorded departure.
    pub first_departure_ns: u64,
    /// Last recorded departure.
    pub last_departure_ns: u64,
    /// Sum of the lateness of recorded departures.
    pub late_sum_ns: u64,
    /// Greatest lateness of a recorded departure.
    pub late_max_ns: u64,
    /// How far the sender was behind its schedule at the end.
    pub slipped_ns: u64,
    /// Probes that arrived in all, including those that departed outside the recording.
    pub arrived: u64,
    /// Frames at the receiver that were not probes of this trial.
    pub stray: u64,
    /// Packets that arrived in another receive queue than the one before them in their flow.
    pub moved: u64,
    /// Frames that the receiver's socket dropped; the XDP receiver has no queue of its own.
    pub receiver_dropped: u64,
    /// First recorded arrival, 0 if none.
    pub first_arrival_ns: u64,
    /// Last recorded arrival.
    pub last_arrival_ns: u64,
    /// Longest time between recorded arrivals of any flow.
    pub longest_gap_ns: u64,
    /// Non-empty buckets, with their counts.
    pub histogram: Vec<(u32, u64)>,
    /// Time series.
    pub bins: Vec<Bin>,
    /// Set for windowed plans.
    pub windows: Option<Windows>,
    /// Flows.
    pub flows: Vec<FlowOutcome>,
    /// Every arrival, for plans of calls: first those of one direction, then those of the other.
    pub packets: Option<PacketLog>,
    /// Set if the plan has answers.
    pub answers: Option<Answers>,
}

/// What a receiver counted, whichever back end it belongs to.
pub struct Received {
    pub totals: RxTotals,
    pub histogram: Vec<u64>,
    pub bins: Vec<RxBin>,
    pub flows: Vec<RxFlow>,
    pub dropped: u64,
    pub log: Option<PacketLog>,
}

impl Received {
    /// Adds what the receiver at the other end counted; each flow arrives at one of them.
    pub fn merge(mut self, other: Self, is_others: impl Fn(usize) -> bool) -> Self {
        self.totals = join(self.totals, other.totals);
        for (a, b) in self.histogram.iter_mut().zip(other.histogram) {
            *a += b;
        }
        for (a, b) in self.bins.iter_mut().zip(other.bins) {
            *a = add(*a, b);
        }
        for (i, (a, b)) in self.flows.iter_mut().zip(other.flows).enumerate() {
            if is_others(i) {
                *a = b;
            }
        }
        self.dropped += other.dropped;
        if let (Some(log), Some(other)) = (&mut self.log, other.log) {
            log.append(other);
        }
        self
    }
}

/// The same bin of two receive queues.
pub fn add(a: RxBin, b: RxBin) -> RxBin {
    let delay_min_ns = match (a.received, b.received) {
        (0, _) => b.delay_min_ns,
        (_, 0) => a.delay_min_ns,
        _ => a.delay_min_ns.min(b.delay_min_ns),
    };
    RxBin {
        received: a.received + b.received,
        delay_sum_ns: a.delay_sum_ns + b.delay_sum_ns,
        delay_min_ns,
        delay_max_ns: a.delay_max_ns.max(b.delay_max_ns),
        ipdv_sum_ns: a.ipdv_sum_ns + b.ipdv_sum_ns,
        ipdv_count: a.ipdv_count + b.ipdv_count,
    }
}

/// The totals of two receive queues. A gap that began in one and ended in another is not seen as
/// one, so the longest gap is that of a single receive queue.
pub fn join(a: RxTotals, b: RxTotals) -> RxTotals {
    let first = match (a.first_arrival_ns, b.first_arrival_ns) {
        (0, first) | (first, 0) => first,
        (a, b) => a.min(b),
    };
    RxTotals {
        probes: a.probes + b.probes,
        stray: a.stray + b.stray,
        first_arrival_ns: first,
        last_arrival_ns: a.last_arrival_ns.max(b.last_arrival_ns),
        longest_gap_ns: a.longest_gap_ns.max(b.longest_gap_ns),
        last_probe_ns: a.last_probe_ns.max(b.last_probe_ns),
        answers: a.answers + b.answers,
        answers_recorded: a.answers_recorded + b.answers_recorded,
        moved: a.moved + b.moved,
    }
}

impl Windows {
    fn of(sent: &Sent, histograms: &[u64]) -> Self {
        let mut windows = Self { looks: sent.looks.clone(), n_watched: sent.n_watched, ..Self::default() };
        for block in histograms.chunks_exact(BUCKETS) {
            for (bucket, &count) in block.iter().enumerate().filter(|(_, count)| **count > 0) {
                windows.buckets.push(bucket as u32);
                windows.counts.push(count);
            }
            windows.ends.push(windows.buckets.len() as u64);
        }
        windows
    }
}

impl Outcome {
    pub(crate) fn join(
        backend: Backend,
        window: (u64, u64),
        windowed: bool,
        sent: &Sent,
        received: Received,
    ) -> Self {
        let first_seq = sent.first_seq.iter().copied().chain(std::iter::repeat(0));
        let flows = sent.flows.iter().zip(&received.flows).zip(first_seq);
        let flows = flows.map(|((&sent, rx), first_seq)| FlowOutcome {
            sent,
            first_seq,
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
        let bins = sent.bins.iter().zip(&received.bins).map(|(tx, rx)| Bin {
            sent: tx.sent,
            received: rx.received,
            delay_sum_ns: rx.delay_sum_ns,
            delay_min_ns: rx.delay_min_ns,
            delay_max_ns: rx.delay_max_ns,
            ipdv_sum_ns: rx.ipdv_sum_ns,
            ipdv_count: rx.ipdv_count,
            late_max_ns: tx.late_max_ns,
            glances: tx.glances.into(),
            others: tx.others.into(),
        });
        let windows = windowed.then(|| Windows::of(sent, &received.histogram));
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
            arrived: received.totals.probes,
            stray: received.totals.stray,
            moved: received.totals.moved,
            receiver_dropped: received.dropped,
            first_arrival_ns: received.totals.first_arrival_ns,
            last_arrival_ns: received.totals.last_arrival_ns,
            longest_gap_ns: received.totals.longest_gap_ns,
            histogram: non_empty(&received.histogram),
            bins: bins.collect(),
            windows,
            flows: flows.collect(),
            packets: received.log,
            answers: None,
        }
    }
}
