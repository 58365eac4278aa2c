//! Counts probes as they arrive: the receiver's logic for back ends that run in user space.
//!
//! The same as `bpf/receiver.bpf.c`, on the same structs.

use weir_wire::Probe;

use crate::histogram::{BUCKETS, bucket};
use crate::layout::{Arrival, RxBin, RxConfig, RxFlow, RxTotals, WINDOW_BITS, WINDOW_WORDS};
use crate::outcome::{PacketLog, Received};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    New,
    Late,
    Seen,
}

/// All that a receiver knows about a trial.
pub struct Account {
    config: RxConfig,
    pub flows: Vec<RxFlow>,
    pub totals: RxTotals,
    pub histogram: Vec<u64>,
    pub bins: Vec<RxBin>,
    pub log: Option<PacketLog>,
}

impl Account {
    pub fn new(config: RxConfig) -> Self {
        Self {
            config,
            flows: vec![RxFlow::default(); config.n_flows as usize],
            totals: RxTotals::default(),
            histogram: vec![0; BUCKETS * if config.windowed == 0 { 1 } else { config.n_bins as usize }],
            bins: vec![RxBin::default(); config.n_bins as usize],
            log: (config.log != 0).then(PacketLog::default),
        }
    }

    /// Flows that arrive at the other receiver count as strange here.
    pub fn expect_elsewhere(&mut self, is_elsewhere: impl Fn(usize) -> bool) {
        for (i, flow) in self.flows.iter_mut().enumerate() {
            flow.elsewhere = is_elsewhere(i).into();
        }
    }

    /// Everything that was counted.
    pub fn received(self, dropped: u64) -> Received {
        let Self { totals, histogram, bins, flows, log, .. } = self;
        Received { totals, histogram, bins, flows, dropped, log }
    }

    /// A frame that is not a probe.
    pub const fn stray(&mut self) {
        self.totals.stray += 1;
    }

    /// A probe that arrived at `now_ns`.
    pub fn arrive(&mut self, probe: &Probe, now_ns: u64) {
        let config = &self.config;
        let known = probe.magic == config.magic && probe.time_ns <= now_ns;
        let flow = match self.flows.get_mut(probe.flow as usize) {
            Some(flow) if known && flow.elsewhere == 0 => flow,
            _ => return self.stray(),
        };
        self.totals.probes += 1;
        self.totals.last_probe_ns = now_ns;
        let verdict = place(flow, probe.seq);
        if probe.time_ns < config.record_start_ns || probe.time_ns >= config.record_end_ns {
            return;
        }
        if let Some(log) = &mut self.log {
            let Probe { flow, seq, time_ns, .. } = *probe;
            log.push(Arrival { flow, seq, sent_ns: time_ns, arrival_ns: now_ns });
        }
        match verdict {
            Verdict::Seen => {
                flow.duplicated += 1;
                return;
            }
            Verdict::Late => flow.reordered += 1,
            Verdict::New => {}
        }
        let delay_ns = now_ns - probe.time_ns;
        let ipdv_ns = measure(flow, delay_ns, now_ns);
        let totals = &mut self.totals;
        if totals.first_arrival_ns == 0 {
            totals.first_arrival_ns = now_ns;
        } else {
            totals.longest_gap_ns = totals.longest_gap_ns.max(now_ns - totals.last_arrival_ns);
        }
        totals.last_arrival_ns = now_ns;
        let bin = ((probe.time_ns - config.record_start_ns) / u64::from(config.bin_ns.max(1))) as usize;
        let window = if config.windowed == 0 { 0 } else { bin };
        if let Some(count) = self.histogram.get_mut(window * BUCKETS + bucket(delay_ns)) {
            *count += 1;
        }
        if let Some(bin) = self.bins.get_mut(bin) {
            if bin.received == 0 || delay_ns < bin.delay_min_ns {
                bin.delay_min_ns = delay_ns;
            }
            bin.delay_max_ns = bin.delay_max_ns.max(delay_ns);
            bin.received += 1;
            bin.delay_sum_ns += delay_ns;
            bin.ipdv_sum_ns += ipdv_ns.unwrap_or(0);
            bin.ipdv_count += u64::from(ipdv_ns.is_some());
        }
    }
}

/// How the delay differs from that of the packet before, if there was one.
fn measure(flow: &mut RxFlow, delay_ns: u64, now_ns: u64) -> Option<u64> {
    let transit = delay_ns as i64;
    let ipdv_ns = (flow.received > 0).then(|| transit.abs_diff(flow.last_transit_ns));
    if let Some(d) = ipdv_ns {
        flow.ipdv_sum_ns += d;
        flow.ipdv_count += 1;
        // RFC 3550, A.8: the estimator in sixteenths.
        flow.jitter_q4 = (flow.jitter_q4 + d).wrapping_sub((flow.jitter_q4 + 8) >> 4);
        flow.longest_gap_ns = flow.longest_gap_ns.max(now_ns - flow.last_arrival_ns);
        flow.delay_min_ns = flow.delay_min_ns.min(delay_ns);
    } else {
        flow.delay_min_ns = delay_ns;
    }
    flow.queue = 1;
    flow.received += 1;
    flow.delay_sum_ns += delay_ns;
    flow.delay_max_ns = flow.delay_max_ns.max(delay_ns);
    flow.last_transit_ns = transit;
    flow.last_arrival_ns = now_ns;
    ipdv_ns
}

/// RFC 4737: a packet is reordered if its sequence number is below the next expected one.
fn place(flow: &mut RxFlow, seq: u32) -> Verdict {
    let ahead = seq.wrapping_sub(flow.next_seq);
    if ahead < 1 << 31 {
        if ahead >= WINDOW_BITS {
            flow.window = [0; WINDOW_WORDS];
        } else {
            for back in 0..ahead {
                clear(&mut flow.window, flow.next_seq.wrapping_add(back));
            }
        }
        set(&mut flow.window, seq);
        flow.next_seq = seq.wrapping_add(1);
        return Verdict::New;
    }
    // Older than the window, so it cannot be told from a duplicate; that it is reordered is certain.
    if ahead.wrapping_neg() > WINDOW_BITS {
        return Verdict::Late;
    }
    if set(&mut flow.window, seq) { Verdict::Seen } else { Verdict::Late }
}

/// Sets the bit of a sequence number and returns whether it was already set.
fn set(window: &mut [u64; WINDOW_WORDS], seq: u32) -> bool {
    let word = &mut window[(seq >> 6) as usize % WINDOW_WORDS];
    let bit = 1 << (seq & 63);
    let was = *word & bit != 0;
    *word |= bit;
    was
}

fn clear(window: &mut [u64; WINDOW_WORDS], seq: u32) {
    window[(seq >> 6) as usize % WINDOW_WORDS] &= !(1 << (seq & 63));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAGIC: u16 = 0x1234;

    fn account() -> Account {
        Account::new(RxConfig {
            record_start_ns: 1_000,
            record_end_ns: 10_000_000,
            n_flows: 2,
            bin_ns: 1_000_000,
            n_bins: 10,
            magic: MAGIC,
            armed: 1,
            ..RxConfig::default()
        })
    }

    fn probe(flow: u32, seq: u32, time_ns: u64) -> Probe {
        Probe { magic: MAGIC, flow, seq, time_ns }
    }

    /// Sequence numbers of flow 0 in order of arrival, 100 ns apart, each 50 ns under way.
    fn play(seqs: &[u32]) -> RxFlow {
        let mut account = account();
        for (i, &seq) in seqs.iter().enumerate() {
            let now = 2_000 + 100 * i as u64;
            account.arrive(&probe(0, seq, now - 50), now);
        }
        account.flows[0]
    }

    #[test]
    fn in_order_is_neither_reordered_nor_duplicated() {
        let flow = play(&[0, 1, 2, 3]);
        assert_eq!((flow.received, flow.reordered, flow.duplicated), (4, 0, 0));
    }

    #[test]
    fn a_late_packet_is_reordered_once() {
        let flow = play(&[0, 2, 3, 1, 4]);
        assert_eq!((flow.received, flow.reordered, flow.duplicated), (5, 1, 0));
    }

    #[test]
    fn a_second_copy_is_a_duplicate_and_not_received_again() {
        let flow = play(&[0, 1, 1, 0, 2]);
        assert_eq!((flow.received, flow.reordered, flow.duplicated), (3, 0, 2));
    }

    #[test]
    fn a_late_packet_that_comes_twice_is_reordered_and_duplicated() {
        let flow = play(&[0, 2, 1, 1]);
        assert_eq!((flow.received, flow.reordered, flow.duplicated), (3, 1, 1));
    }

    #[test]
    fn the_first_packets_may_be_lost() {
        assert_eq!(play(&[700, 701]).next_seq, 702);
    }

    #[test]
    fn a_packet_older_than_the_window_counts_as_reordered() {
        let flow = play(&[0, 1000, 1]);
        assert_eq!((flow.received, flow.reordered, flow.duplicated), (3, 1, 0));
    }

    #[test]
    fn jitter_of_alternating_delays_is_their_difference() {
        let mut account = account();
        for i in 0..2000u64 {
            let delay = if i % 2 == 0 { 100 } else { 260 };
            account.arrive(&probe(0, i as u32, 2_000 + 1_000 * i), 2_000 + 1_000 * i + delay);
        }
        let flow = account.flows[0];
        assert_eq!(flow.ipdv_sum_ns / flow.ipdv_count, 160);
        // The estimator rounds in sixteenths; it settles within a nanosecond of the truth.
        assert!((flow.jitter_q4 / 16).abs_diff(160) <= 1);
    }

    #[test]
    fn warm_up_advances_the_sequence_but_is_not_recorded() {
        let mut account = account();
        account.arrive(&probe(0, 0, 500), 700);
        account.arrive(&probe(0, 1, 1_500), 1_700);
        let flow = account.flows[0];
        assert_eq!((flow.received, flow.next_seq, account.totals.probes), (1, 2, 2));
    }

    #[test]
    fn foreign_probes_and_unknown_flows_are_stray() {
        let mut account = account();
        account.arrive(&Probe { magic: MAGIC + 1, ..probe(0, 0, 2_000) }, 2_100);
        account.arrive(&probe(2, 0, 2_000), 2_100);
        account.arrive(&probe(0, 0, 3_000), 2_100);
        assert_eq!((account.totals.stray, account.totals.probes), (3, 0));
    }

    proptest! {
        /// Any pattern of loss, duplication and displacement within the window is counted exactly.
        #[test]
        fn injected_faults_are_recovered(
            faults in proptest::collection::vec((0u8..10, 1usize..100), 1..400),
        ) {
            let mut order: Vec<(usize, u32)> = Vec::new();
            let (mut lost, mut duplicated) = (0, 0);
            for (i, (kind, shift)) in faults.iter().enumerate() {
                let seq = i as u32;
                match kind {
                    0 => lost += 1,
                    1 => { order.push((i * 2, seq)); order.push(((i + shift) * 2 + 1, seq)); duplicated += 1; }
                    2 => order.push(((i + shift) * 2 + 1, seq)),
                    _ => order.push((i * 2, seq)),
                }
            }
            order.sort();
            let seqs: Vec<u32> = order.iter().map(|o| o.1).collect();
            let mut seen = std::collections::HashSet::new();
            let mut next = 0;
            let mut reordered = 0;
            for &seq in &seqs {
                if seen.insert(seq) && seq < next { reordered += 1; }
                next = next.max(seq + 1);
            }
            let flow = play(&seqs);
            prop_assert_eq!(flow.received, faults.len() as u64 - lost);
            prop_assert_eq!(flow.duplicated, duplicated);
            prop_assert_eq!(flow.reordered, reordered);
        }
    }
}
