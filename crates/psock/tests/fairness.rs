//! What the streams of a session take from a bottleneck that they share with one TCP connection, simulated.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weir_psock::schedule::{PathStats, StreamId, scheduler};
use weir_psock::session::{Config, Session};

const S: u64 = 1_000_000_000;
const MSS: u64 = 1000;
/// Until all flows have left slow start and know each other.
const SETTLED_NS: u64 = 20 * S;
const END_NS: u64 = 120 * S;

/// A queue that is served at a rate, in front of a round-trip time.
#[derive(Clone, Copy)]
struct Bottleneck {
    packet_ns: u64,
    queue_packets: u64,
    rtt_ns: u64,
    free_ns: u64,
}

impl Bottleneck {
    /// 20 Mb/s, 20 ms, and a queue for as much again.
    const fn usual() -> Self {
        Self { packet_ns: 400_000, queue_packets: 50, rtt_ns: 20_000_000, free_ns: 0 }
    }
}

/// A sender with Reno's window: slow start, one more segment each round trip, half of it after a loss.
struct Flow {
    path: usize,
    stream: Option<StreamId>,
    window: f64,
    threshold: f64,
    in_flight: u64,
    sent: u64,
    acked: u64,
    lost: u64,
    /// Losses of packets before this one have been answered.
    recover: u64,
    srtt_ns: u64,
    pacing_bytes_per_s: Option<u64>,
    next_ns: u64,
    /// It will be woken then.
    has_timer: bool,
    measured: u64,
}

impl Flow {
    fn new(path: usize, stream: Option<StreamId>) -> Self {
        Self {
            path,
            stream,
            window: 10.0,
            threshold: f64::MAX,
            in_flight: 0,
            sent: 0,
            acked: 0,
            lost: 0,
            recover: 0,
            srtt_ns: 0,
            pacing_bytes_per_s: None,
            next_ns: 0,
            has_timer: true,
            measured: 0,
        }
    }

    fn stats(&self) -> PathStats {
        PathStats {
            srtt_ns: self.srtt_ns,
            cwnd_bytes: self.window as u64 * MSS,
            mss_bytes: MSS,
            unacked_bytes: self.in_flight * MSS,
            acked_bytes: self.acked * MSS,
            retransmitted_segments: self.lost,
            ..PathStats::default()
        }
    }

    fn acknowledged(&mut self, sent_ns: u64, now: u64) {
        let is_used = self.in_flight + 1 >= self.window as u64;
        self.in_flight -= 1;
        self.acked += 1;
        self.measured += u64::from(now >= SETTLED_NS);
        let rtt_ns = now - sent_ns;
        self.srtt_ns = if self.srtt_ns == 0 { rtt_ns } else { (7 * self.srtt_ns + rtt_ns) / 8 };
        if self.window < self.threshold {
            self.window += 1.0;
        } else if is_used {
            self.window += 1.0 / self.window;
        }
    }

    fn missed(&mut self, number: u64) {
        self.in_flight -= 1;
        self.lost += 1;
        if number >= self.recover {
            self.window = (self.window / 2.0).max(2.0);
            self.threshold = self.window;
            self.recover = self.sent;
        }
    }
}

/// What happens: when, to which flow, its packet's number and time, whether it arrived.
type Event = Reverse<(u64, usize, u64, u64, bool)>;

/// Lets a session with a stream over each of `streams` and plain connections over `others` send as much as they
/// can; the packets of each, streams first.
fn shares(is_fair: bool, mut paths: Vec<Bottleneck>, streams: &[usize], others: &[usize]) -> Vec<u64> {
    let config = Config { is_fair, ..Config::default() };
    let mut session = Session::new(config, scheduler("poll-all").unwrap());
    let ours = streams.iter().map(|path| (*path, session.attach(0)));
    let mut flows: Vec<_> = ours.map(|(path, stream)| Flow::new(path, Some(stream.unwrap()))).collect();
    flows.extend(others.iter().map(|path| Flow::new(*path, None)));
    let mut events: BinaryHeap<Event> = BinaryHeap::new();
    let mut rng = SmallRng::seed_from_u64(1);
    // Nobody begins at the same time.
    for (number, flow) in flows.iter_mut().enumerate() {
        flow.next_ns = number as u64 * 37_000_000;
        events.push(Reverse((flow.next_ns, number, 0, 0, true)));
    }
    while let Some(Reverse((now, number, packet, sent_ns, has_arrived))) = events.pop() {
        if now > END_NS {
            break;
        }
        let flow = &mut flows[number];
        match (packet, has_arrived) {
            // A time to send at.
            (0, _) => flow.has_timer = false,
            (_, true) => flow.acknowledged(sent_ns, now),
            (_, false) => flow.missed(packet),
        }
        if let Some(id) = flow.stream {
            session.set_stats(id, flow.stats(), now);
            flow.pacing_bytes_per_s = session.pacing_bytes_per_s(id);
        }
        let path = &mut paths[flow.path];
        while flow.in_flight < flow.window as u64 {
            if now < flow.next_ns {
                if !flow.has_timer {
                    flow.has_timer = true;
                    events.push(Reverse((flow.next_ns, number, 0, 0, true)));
                }
                break;
            }
            if let Some(rate) = flow.pacing_bytes_per_s {
                flow.next_ns = now + MSS * S / rate.max(1);
            }
            flow.sent += 1;
            flow.in_flight += 1;
            let waiting_ns = path.free_ns.saturating_sub(now);
            let has_room = waiting_ns / path.packet_ns < path.queue_packets;
            if has_room {
                path.free_ns = path.free_ns.max(now) + path.packet_ns;
            }
            // A host's own delay, so that flows do not fall into step.
            let jitter_ns = rng.random_range(0..path.packet_ns);
            let told_ns = now.max(path.free_ns) + path.rtt_ns + jitter_ns;
            events.push(Reverse((told_ns, number, flow.sent, now, has_room)));
        }
    }
    flows.iter().map(|flow| flow.measured).collect()
}

/// The share of the first `streams` flows in all.
fn share(counts: &[u64], streams: usize) -> f64 {
    counts[..streams].iter().sum::<u64>() as f64 / counts.iter().sum::<u64>() as f64
}

#[test]
fn streams_that_are_coupled_take_together_what_one_connection_takes() {
    for streams in [1, 2, 4] {
        let counts = shares(true, vec![Bottleneck::usual()], &vec![0; streams], &[0]);
        let ours = share(&counts, streams);
        assert!((0.43..0.57).contains(&ours), "{streams} streams: {ours} of {counts:?}");
        let jain = 1.0 / (2.0 * (ours * ours + (1.0 - ours) * (1.0 - ours)));
        assert!(jain >= 0.98, "{streams} streams: {jain}");
    }
}

#[test]
fn streams_that_are_not_coupled_take_a_share_each() {
    let counts = shares(false, vec![Bottleneck::usual()], &[0; 4], &[0]);
    let ours = share(&counts, 4);
    assert!(ours > 0.72, "{ours} of {counts:?}");
}

#[test]
fn paths_of_their_own_are_filled_by_coupled_streams_too() {
    let counts = shares(true, vec![Bottleneck::usual(); 2], &[0, 1], &[]);
    let all = 2 * (END_NS - SETTLED_NS) / Bottleneck::usual().packet_ns;
    let used = counts.iter().sum::<u64>() as f64 / all as f64;
    assert!(used > 0.95, "{used}");
}

#[test]
fn a_path_that_others_use_is_left_to_them_where_another_is_free() {
    let counts = shares(true, vec![Bottleneck::usual(); 2], &[0, 1], &[0]);
    let (shared, own) = (counts[0] as f64, counts[1] as f64);
    assert!(shared / (shared + counts[2] as f64) < 0.5, "{counts:?}");
    assert!(own * 400_000.0 / (END_NS - SETTLED_NS) as f64 > 0.95, "{counts:?}");
}
