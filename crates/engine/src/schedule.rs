//! The schedule as a state machine: when the next packet is due. It has no clock; `now` is an argument.
//!
//! `bpf/generator.bpf.c` does the same inside the kernel.

use crate::plan::{NEXT_FLOW, Plan};

/// A sender that fell behind shortens its gaps by 1/16 until it has made up for it.
const RECOVERY_SHIFT: u32 = 4;

/// A packet that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// From the start of the trial.
    pub due_ns: u64,
    /// Index of the phase.
    pub phase: u32,
    /// Index of the entry.
    pub entry: u32,
    /// Index of the flow.
    pub flow: u32,
    /// Frame length without FCS.
    pub length: u16,
}

/// Walks through a plan.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    plan: &'a Plan,
    phase: usize,
    entry: u32,
    flow: u32,
    next_ns: u64,
    frac: u32,
    slipped_ns: u64,
}

impl<'a> Cursor<'a> {
    /// Starts at the beginning of the trial.
    pub const fn new(plan: &'a Plan) -> Self {
        Self { plan, phase: 0, entry: 0, flow: 0, next_ns: 0, frac: 0, slipped_ns: 0 }
    }

    /// The next packet; `None` when the trial is over.
    ///
    /// An unpaced plan is always due at `now_ns`; a paced one ignores `now_ns`.
    pub fn next(&mut self, now_ns: u64) -> Option<Departure> {
        let due_ns = loop {
            let phase = self.plan.phases.get(self.phase)?;
            let due_ns = if self.plan.paced { self.next_ns } else { now_ns };
            if due_ns < phase.end_ns {
                break due_ns;
            }
            self.next_ns = phase.end_ns;
            self.frac = 0;
            self.entry = 0;
            self.phase += 1;
        };
        let phase = &self.plan.phases[self.phase];
        let index = phase.first_entry + self.entry;
        let entry = &self.plan.entries[index as usize];
        let flow = if entry.flow == NEXT_FLOW {
            let flow = self.flow;
            self.flow = (flow + 1) % self.plan.n_known() as u32;
            flow
        } else {
            entry.flow
        };
        let frac = self.frac + u32::from(entry.gap_frac);
        let recovered = u64::from(entry.gap_ns >> RECOVERY_SHIFT).min(self.slipped_ns);
        self.slipped_ns -= recovered;
        self.next_ns = due_ns + u64::from(entry.gap_ns) + u64::from(frac >> 16) - recovered;
        self.frac = frac & 0xffff;
        self.entry = (self.entry + 1) % phase.n_entries;
        let (phase, length) = (self.phase as u32, entry.length);
        Some(Departure { due_ns, phase, entry: index, flow, length })
    }

    /// The packet just taken departs this much later than it was due, and so do those that
    /// follow, until shorter gaps have made up for it or for as much as the plan allows. The phases
    /// still end on time.
    pub fn slip(&mut self, late_ns: u64) {
        self.next_ns += late_ns;
        self.slipped_ns = (self.slipped_ns + late_ns).min(self.plan.slip_most_ns().into());
    }

    /// How far behind its schedule the sender is.
    pub const fn slipped_ns(&self) -> u64 {
        self.slipped_ns
    }

    /// Forgets how far the schedule has slipped: only what follows counts.
    pub const fn forget_slip(&mut self) {
        self.slipped_ns = 0;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use proptest::prelude::*;
    use weir_wire::{Addresses, L4};

    use super::*;
    use crate::plan::{Entry, Media, MediaFlow, Packet, Phase};

    pub fn plan(entries: Vec<Entry>, phases: Vec<Phase>, n_flows: usize, paced: bool) -> Plan {
        let ip = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));
        let flow = Addresses { src_ip: ip, dst_ip: ip, src_port: 1, dst_port: 2 };
        let total = phases.last().map_or(0, |p| p.end_ns);
        Plan {
            entries,
            phases,
            paced,
            warmup_ns: 0,
            duration_ns: total,
            bin_ns: 10_000_000,
            windowed: false,
            flows: vec![flow; n_flows],
            l4: L4::Udp,
            skip: 0,
            catch_up_ns: 50_000,
            quiet_ns: 0,
            straggler_ns: 0,
            media: None,
            answers: None,
        }
    }

    /// A plan of calls: entries of the given lengths and flows, 10 µs apart, 60 s in all; every
    /// second flow goes back.
    pub fn calls(packets: Vec<(u16, u32, Packet)>, headers: Vec<Vec<u8>>, payloads: &[&[u8]]) -> Plan {
        let entry =
            |&(length, flow, _): &(u16, u32, Packet)| Entry { gap_ns: 10_000, gap_frac: 0, length, flow };
        let entries: Vec<Entry> = packets.iter().map(entry).collect();
        let phases = vec![Phase { end_ns: 60_000_000_000, first_entry: 0, n_entries: entries.len() as u32 }];
        let mut plan = plan(entries, phases, headers.len(), true);
        let flow = |(i, header): (usize, &Vec<u8>)| {
            let mut flow =
                MediaFlow { header_len: header.len() as u8, back: i % 2 == 1, ..MediaFlow::default() };
            flow.header[..header.len()].copy_from_slice(header);
            flow
        };
        let ends = payloads.iter().scan(0, |end, payload| {
            *end += payload.len() as u32;
            Some(*end)
        });
        plan.media = Some(Media {
            packets: packets.iter().map(|p| p.2).collect(),
            flows: headers.iter().enumerate().map(flow).collect(),
            payload_bytes: payloads.concat(),
            payload_start: std::iter::once(0).chain(ends).collect(),
        });
        plan
    }

    fn gap(gap_ns: u32, gap_frac: u16) -> Entry {
        Entry { gap_ns, gap_frac, length: 60, flow: NEXT_FLOW }
    }

    fn whole(end_ns: u64) -> Vec<Phase> {
        vec![Phase { end_ns, first_entry: 0, n_entries: 1 }]
    }

    fn due(plan: &Plan) -> Vec<u64> {
        let mut cursor = Cursor::new(plan);
        std::iter::from_fn(|| cursor.next(0)).map(|d| d.due_ns).collect()
    }

    #[test]
    fn fractions_of_a_nanosecond_add_up() {
        let plan = plan(vec![gap(333, 21845)], whole(1_000_000), 1, true); // 333 1/3 ns
        assert_eq!(due(&plan).len(), 3001);
    }

    #[test]
    fn a_new_phase_starts_where_the_old_one_ends() {
        let entries = vec![gap(400, 0), gap(100, 0)];
        let phases = vec![
            Phase { end_ns: 1000, first_entry: 0, n_entries: 1 },
            Phase { end_ns: 1250, first_entry: 1, n_entries: 1 },
        ];
        assert_eq!(due(&plan(entries, phases, 1, true)), [0, 400, 800, 1000, 1100, 1200]);
    }

    #[test]
    fn flows_take_turns() {
        let plan = plan(vec![gap(100, 0)], whole(500), 3, true);
        let mut cursor = Cursor::new(&plan);
        let flows: Vec<u32> = std::iter::from_fn(|| cursor.next(0)).map(|d| d.flow).collect();
        assert_eq!(flows, [0, 1, 2, 0, 1]);
    }

    #[test]
    fn a_slip_shifts_what_follows_but_not_the_end() {
        let plan = plan(vec![gap(100, 0)], whole(500), 1, true);
        let mut cursor = Cursor::new(&plan);
        assert_eq!(cursor.next(0).map(|d| d.due_ns), Some(0));
        cursor.slip(250);
        assert_eq!(cursor.next(0).map(|d| d.due_ns), Some(350));
        assert_eq!(cursor.next(0).map(|d| d.due_ns), Some(444));
        assert_eq!(cursor.next(0), None);
    }

    #[test]
    fn a_slip_is_made_up_for_by_slightly_shorter_gaps() {
        let plan = plan(vec![gap(3_200, 0)], whole(320_000), 1, true);
        let mut cursor = Cursor::new(&plan);
        assert!(cursor.next(0).is_some());
        cursor.slip(1_000);
        let due: Vec<u64> = std::iter::from_fn(|| cursor.next(0)).map(|d| d.due_ns).collect();
        assert_eq!(due[..3], [4_200, 7_200, 10_200]);
        assert_eq!(due.len(), 99);
        assert_eq!(due.last(), Some(&(99 * 3_200)));
        assert_eq!(cursor.slipped_ns(), 0);
    }

    #[test]
    fn in_a_windowed_plan_a_long_slip_moves_the_schedule() {
        let mut plan = plan(vec![gap(3_200, 0)], whole(320_000), 1, true);
        (plan.windowed, plan.bin_ns) = (true, 1_000);
        let mut cursor = Cursor::new(&plan);
        assert!(cursor.next(0).is_some());
        cursor.slip(100_000);
        assert_eq!(cursor.slipped_ns(), 200);
        let due: Vec<u64> = std::iter::from_fn(|| cursor.next(0)).map(|d| d.due_ns).collect();
        assert_eq!(due[..4], [103_200, 106_200, 109_400, 112_600]);
        assert_eq!(cursor.slipped_ns(), 0);
    }

    #[test]
    fn packets_of_calls_are_made_up_for_although_the_host_is_looked_at_in_their_bins() {
        let mut plan = calls(vec![(200, 0, Packet::default()); 3], vec![vec![]], &[]);
        (plan.windowed, plan.bin_ns) = (true, 1_000);
        let mut cursor = Cursor::new(&plan);
        assert!(cursor.next(0).is_some());
        cursor.slip(100_000);
        assert_eq!(cursor.slipped_ns(), 100_000);
    }

    #[test]
    fn unpaced_packets_are_due_at_once_until_time_is_up() {
        let plan = plan(vec![gap(0, 0)], whole(500), 1, false);
        let mut cursor = Cursor::new(&plan);
        assert_eq!(cursor.next(499).map(|d| d.due_ns), Some(499));
        assert_eq!(cursor.next(500), None);
    }

    proptest! {
        #[test]
        fn the_number_of_packets_is_the_length_over_the_gap(gap_ns in 1u32..5_000, end_ns in 1u64..1_000_000) {
            let n = due(&plan(vec![gap(gap_ns, 0)], whole(end_ns), 1, true)).len() as u64;
            prop_assert_eq!(n, end_ns.div_ceil(u64::from(gap_ns)));
        }
    }
}
