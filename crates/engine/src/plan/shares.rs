//! A plan divided among several senders.

use std::borrow::Cow;

use super::{Entry, NEXT_FLOW, Phase, Plan};

/// What one sender plays: every n-th departure of the whole plan, in flows that no other sender has.
#[derive(Debug)]
pub struct Share<'a> {
    /// Its departures and flows.
    pub plan: Cow<'a, Plan>,
    /// Number of its first flow in the whole plan.
    pub first_flow: u32,
    /// Time of its first departure, from the start of the trial.
    pub offset_ns: u64,
}

impl Plan {
    /// The plan divided among `senders`, or fewer: each has at least one flow, and flows that take turns are all
    /// that can be divided. Departures are those of the whole plan, but each phase begins with one of every
    /// sender.
    #[must_use]
    pub fn shares(&self, senders: usize) -> Vec<Share<'_>> {
        let n = senders.clamp(1, self.flows.len().max(1));
        if n == 1 || !self.can_be_divided(n) {
            return vec![Share { plan: Cow::Borrowed(self), first_flow: 0, offset_ns: 0 }];
        }
        (0..n).map(|number| self.share(number, n)).collect()
    }

    fn can_be_divided(&self, n: usize) -> bool {
        let is_short = |entry: &Entry| (u64::from(entry.gap_ns) + 1) * (n as u64) < u64::from(u32::MAX);
        self.media.is_none()
            && self.answers.is_none()
            && self.entries.iter().all(|entry| entry.flow == NEXT_FLOW && is_short(entry))
    }

    fn share(&self, number: usize, n: usize) -> Share<'_> {
        let mut entries = Vec::with_capacity(self.entries.len());
        let mut phases = Vec::with_capacity(self.phases.len());
        for phase in &self.phases {
            let round = self.round(phase);
            let first_entry = entries.len() as u32;
            // As many rounds as it takes until the same sender begins again.
            for place in (number..number + round.len() * n / common(round.len(), n)).step_by(n) {
                let gap = units((place..place + n).map(|i| &round[i % round.len()]));
                entries.push(Entry {
                    gap_ns: (gap >> 16) as u32,
                    gap_frac: gap as u16,
                    ..round[place % round.len()]
                });
            }
            phases.push(Phase { first_entry, n_entries: entries.len() as u32 - first_entry, ..*phase });
        }
        let offset = units(self.round(&self.phases[0]).iter().cycle().take(number));
        let [first, end] = [number, number + 1].map(|i| self.flows.len() * i / n);
        Share {
            plan: Cow::Owned(Self {
                entries,
                phases,
                flows: self.flows[first..end].to_vec(),
                media: None,
                ..*self
            }),
            first_flow: first as u32,
            offset_ns: if self.paced { offset >> 16 } else { 0 },
        }
    }

    /// What a phase repeats.
    fn round(&self, phase: &Phase) -> &[Entry] {
        &self.entries[phase.first_entry as usize..][..phase.n_entries as usize]
    }
}

/// Sum of gaps in 2⁻¹⁶ ns.
fn units<'a>(entries: impl Iterator<Item = &'a Entry>) -> u64 {
    entries.map(|entry| u64::from(entry.gap_ns) << 16 | u64::from(entry.gap_frac)).sum()
}

/// The greatest common divisor.
const fn common(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Cursor;
    use crate::schedule::tests::plan;

    fn times(plan: &Plan, offset_ns: u64) -> Vec<(u64, u16)> {
        let mut cursor = Cursor::new(plan);
        std::iter::from_fn(|| cursor.next(0)).map(|found| (found.due_ns + offset_ns, found.length)).collect()
    }

    #[test]
    fn shares_together_depart_as_the_whole_plan_does() {
        for (lengths, senders) in [(vec![60], 2), (vec![60, 1514, 512], 2), (vec![60, 128, 256, 512], 3)] {
            let gaps = [1_000, 250, 4_000, 10];
            let entry = |(length, gap_ns)| Entry { gap_ns, gap_frac: 0x8000, length, flow: NEXT_FLOW };
            let entries: Vec<_> = lengths.iter().copied().zip(gaps).map(entry).collect();
            let n_entries = entries.len() as u32;
            let phases = vec![Phase { end_ns: 1_000_000, first_entry: 0, n_entries }];
            let whole = plan(entries, phases, 10, true);
            let shares = whole.shares(senders);
            assert_eq!(shares.len(), senders);
            let flows: Vec<_> =
                shares.iter().map(|share| (share.first_flow, share.plan.flows.len())).collect();
            assert_eq!(flows.iter().map(|(_, n)| n).sum::<usize>(), 10);
            assert!(flows.windows(2).all(|two| two[0].0 as usize + two[0].1 == two[1].0 as usize));
            let mut together: Vec<_> =
                shares.iter().flat_map(|share| times(&share.plan, share.offset_ns)).collect();
            together.sort_unstable();
            let alone = times(&whole, 0);
            // Fractions of ns are dropped at other places, and the end falls between two departures.
            assert!(together.len().abs_diff(alone.len()) <= senders);
            for (one, other) in together.iter().zip(&alone) {
                assert!(one.0.abs_diff(other.0) <= 1 && one.1 == other.1, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn senders_begin_with_the_gaps_of_the_first_phase() {
        let entries: Vec<_> =
            [100, 1_000_000].map(|gap_ns| Entry { gap_ns, gap_frac: 0, length: 60, flow: NEXT_FLOW }).into();
        let phases =
            [0, 1].map(|at| Phase { end_ns: 10_000_000 * u64::from(at + 1), first_entry: at, n_entries: 1 });
        let whole = plan(entries, phases.into(), 8, true);
        let offsets: Vec<_> = whole.shares(4).iter().map(|share| share.offset_ns).collect();
        assert_eq!(offsets, [0, 100, 200, 300]);
    }

    #[test]
    fn what_cannot_be_divided_has_one_sender() {
        let entry = Entry { gap_ns: 1_000, gap_frac: 0, length: 60, flow: NEXT_FLOW };
        let phases = vec![Phase { end_ns: 1_000_000, first_entry: 0, n_entries: 1 }];
        let of = |entry, n_flows| plan(vec![entry], phases.clone(), n_flows, true).shares(4).len();
        assert_eq!(of(entry, 1), 1);
        assert_eq!(of(entry, 3), 3);
        assert_eq!(of(Entry { flow: 0, ..entry }, 8), 1);
        assert_eq!(of(Entry { gap_ns: u32::MAX / 2, ..entry }, 8), 1);
    }
}
