//! Round trips over time.

/// Round trips stay alike for this time.
const USUAL_NS: i64 = 100_000_000;
/// Shortest period of which the least round trip is taken.
const SHORTEST_NS: i64 = 1_000_000;
/// Multiple of the usual round trip: data that answers later was not released by the ACK that it echoes.
const LONGEST: f64 = 1.1;

/// When round trips were known, and how long they took, in ns.
#[derive(Clone, Debug, Default)]
pub struct Rtts {
    /// When they were known, in order.
    pub time_ns: Vec<i64>,
    /// How long they took.
    pub rtt_ns: Vec<i64>,
}

impl Rtts {
    /// By round trip, the least one of its period of about `within_ns`: a single ACK may have been delayed on purpose.
    #[must_use]
    pub fn least(&self, within_ns: i64) -> Vec<i64> {
        let (number, least) = self.leasts(within_ns);
        number.into_iter().map(|at| least[at as usize]).collect()
    }

    /// Puts them in the order of their times, which a capture with misdated packets has not.
    pub(super) fn sort(&mut self) {
        if !self.time_ns.is_sorted() {
            let mut pairs: Vec<_> = self.time_ns.drain(..).zip(self.rtt_ns.drain(..)).collect();
            pairs.sort_by_key(|&(time, _)| time);
            (self.time_ns, self.rtt_ns) = pairs.into_iter().unzip();
        }
    }

    /// The latest known round trip at times that grow, in s; before the first one, that. NaN without any.
    pub(super) fn at<'a>(&'a self, times_ns: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        let mut next = 0;
        times_ns.iter().map(move |&time| {
            while next < self.time_ns.len() && self.time_ns[next] as f64 <= time {
                next += 1;
            }
            self.rtt_ns.get(next.saturating_sub(1)).map_or(f64::NAN, |&rtt| rtt as f64 / 1e9)
        })
    }

    /// Round trips in s of what was sent at these times, limited to leave out pauses of the sender; 0 without any.
    pub(super) fn until<'a>(
        &'a self,
        times_ns: impl Iterator<Item = i64> + 'a,
    ) -> impl Iterator<Item = f64> + 'a {
        let mut latest = i64::MIN;
        let sent_ns: Vec<f64> = self
            .time_ns
            .iter()
            .zip(&self.rtt_ns)
            .map(|(time, rtt)| {
                latest = latest.max(time - rtt);
                latest as f64
            })
            .collect();
        let usual = self.usual();
        times_ns.map(move |time| {
            let at = sent_ns.partition_point(|&sent| sent <= time as f64).saturating_sub(1);
            let Some(&rtt) = self.rtt_ns.get(at) else { return 0.0 };
            (rtt as f64).min(usual[at] as f64 * LONGEST + SHORTEST_NS as f64) / 1e9
        })
    }

    /// The least round trip of about [`USUAL_NS`]; where it changes, the greater of two periods.
    fn usual(&self) -> Vec<i64> {
        let (number, least) = self.leasts(USUAL_NS);
        let around = |at: usize| {
            let neighbours = &least[at.saturating_sub(1)..(at + 2).min(least.len())];
            neighbours.iter().copied().max().unwrap_or(least[at])
        };
        let most: Vec<i64> = (0..least.len()).map(around).collect();
        number.into_iter().map(|at| most[at as usize]).collect()
    }

    /// The number of the period of each, and the least of each period.
    fn leasts(&self, within_ns: i64) -> (Vec<u32>, Vec<i64>) {
        let (mut number, mut least) = (Vec::with_capacity(self.time_ns.len()), Vec::new());
        let mut period = i64::MIN;
        for (&time, &rtt) in self.time_ns.iter().zip(&self.rtt_ns) {
            let mine = (time - self.time_ns[0]).div_euclid(within_ns.max(SHORTEST_NS));
            if mine > period || least.is_empty() {
                period = mine;
                least.push(rtt);
            }
            let last = least.len() - 1;
            least[last] = rtt.min(least[last]);
            number.push(last as u32);
        }
        (number, least)
    }
}
