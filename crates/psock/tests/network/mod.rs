//! A simulated network: TCP connections as sessions see them.

use std::collections::VecDeque;
use std::ops::Range;

use rand::Rng;
use rand::rngs::SmallRng;
use weir_psock::schedule::PathStats;

pub const MS: u64 = 1_000_000;
pub const NEVER: u64 = u64::MAX;
const SEGMENT_BYTES: usize = 1000;

/// One direction of a TCP connection: bytes in order, late, or not at all.
#[derive(Debug)]
pub struct Pipe {
    pub bytes_per_s: u64,
    pub delay_ns: u64,
    pub capacity: u64,
    free_ns: u64,
    pub last_ns: u64,
    flying: VecDeque<(u64, Vec<u8>)>,
    acks: VecDeque<(u64, u64)>,
    /// Of segments: when the sender would hear that it has arrived, were nothing missing before it; when it is
    /// acknowledged; bytes.
    held: VecDeque<(u64, u64, u64)>,
    /// When it was last asked what has arrived.
    seen_ns: u64,
    unacked: u64,
    acked: u64,
    /// Nothing arrives from then on.
    pub dead_ns: u64,
    /// Nothing arrives in this time; then TCP's time-out has to pass first, which doubles meanwhile.
    pub outage: Range<u64>,
}

impl Pipe {
    pub fn new(bytes_per_s: u64, delay_ns: u64, capacity: u64, dead_ns: u64) -> Self {
        Self {
            bytes_per_s,
            delay_ns,
            capacity,
            free_ns: 0,
            last_ns: 0,
            flying: VecDeque::new(),
            acks: VecDeque::new(),
            held: VecDeque::new(),
            seen_ns: 0,
            unacked: 0,
            acked: 0,
            dead_ns,
            outage: 0..0,
        }
    }

    /// When something arrives that should at that time.
    fn after_outage(&self, mut at_ns: u64) -> u64 {
        let mut timeout_ns = 200 * MS;
        while self.outage.contains(&at_ns) {
            at_ns = at_ns.saturating_add(timeout_ns);
            timeout_ns = timeout_ns.saturating_mul(2);
        }
        at_ns
    }

    pub fn room(&self) -> usize {
        (self.capacity.saturating_sub(self.unacked)) as usize
    }

    pub fn push(&mut self, now: u64, bytes: &[u8], loss: f64, rng: &mut SmallRng) {
        for segment in bytes.chunks(SEGMENT_BYTES) {
            let len = segment.len() as u64;
            self.free_ns = self.free_ns.max(now) + len * 1_000_000_000 / self.bytes_per_s;
            // A segment that is lost comes a retransmission later, and holds up those behind it.
            let again = if rng.random_bool(loss) { rng.random_range(MS..100 * MS) } else { 0 };
            let first_ns = self.free_ns + self.delay_ns;
            let comes_ns = self.after_outage(first_ns + again);
            self.last_ns = self.last_ns.max(comes_ns);
            self.unacked += len;
            if self.last_ns < self.dead_ns {
                self.flying.push_back((self.last_ns, segment.to_vec()));
            }
            let told_ns = self.after_outage(self.last_ns.saturating_add(self.delay_ns));
            if told_ns < self.dead_ns {
                self.acks.push_back((told_ns, len));
            }
            // What is not lost itself, and waits for one that is.
            let sacked_ns = first_ns + self.delay_ns;
            if comes_ns == first_ns && self.last_ns > comes_ns && sacked_ns < self.dead_ns {
                let told_ns = if told_ns < self.dead_ns { told_ns } else { NEVER };
                self.held.push_back((sacked_ns, told_ns, len));
            }
        }
    }

    pub fn arrived(&mut self, now: u64) -> Option<Vec<u8>> {
        self.seen_ns = now;
        while self.held.front().is_some_and(|(_, told, _)| *told <= now) {
            self.held.pop_front();
        }
        while self.acks.front().is_some_and(|(at, _)| *at <= now) {
            let (_, len) = self.acks.pop_front().unwrap();
            self.unacked -= len;
            self.acked += len;
        }
        if self.flying.front().is_some_and(|(at, _)| *at <= now) {
            return self.flying.pop_front().map(|(_, bytes)| bytes);
        }
        None
    }

    #[allow(dead_code, reason = "one of the tests goes on in steps of equal length")]
    pub fn next_ns(&self) -> u64 {
        let front = |at: Option<u64>| at.unwrap_or(NEVER);
        front(self.flying.front().map(|each| each.0)).min(front(self.acks.front().map(|each| each.0)))
    }

    pub fn stats(&self) -> PathStats {
        let rtt = 2 * self.delay_ns + SEGMENT_BYTES as u64 * 1_000_000_000 / self.bytes_per_s;
        let cwnd = self.bytes_per_s * rtt / 1_000_000_000;
        let is_held = |(sacked, told, _): &&(u64, u64, u64)| (*sacked..*told).contains(&self.seen_ns);
        PathStats {
            srtt_ns: rtt,
            rttvar_ns: rtt / 8,
            cwnd_bytes: cwnd,
            mss_bytes: SEGMENT_BYTES as u64,
            unacked_bytes: self.unacked,
            sacked_bytes: self.held.iter().filter(is_held).map(|(.., len)| len).sum(),
            unsent_bytes: self.unacked.saturating_sub(cwnd),
            rate_bytes_per_s: self.bytes_per_s,
            is_rate_limited: false,
            acked_bytes: self.acked,
            ..PathStats::default()
        }
    }
}
