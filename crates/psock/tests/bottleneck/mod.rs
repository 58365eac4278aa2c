//! A simulated bottleneck that the streams of a session share with plain connections, packet by packet.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weir_psock::schedule::{PathStats, StreamId, scheduler};
use weir_psock::session::{Config, Session};

pub const S: u64 = 1_000_000_000;
const MSS: u64 = 1000;
const FIRST_WINDOW: f64 = 10.0;
const TIMEOUT_NS: u64 = S / 5;

/// A queue that is served at a rate, in front of a round-trip time.
#[derive(Clone, Copy)]
pub struct Bottleneck {
    pub packet_ns: u64,
    pub queue_packets: u64,
    pub rtt_ns: u64,
    free_ns: u64,
}

impl Bottleneck {
    pub const fn new(packet_ns: u64, queue_packets: u64, rtt_ns: u64) -> Self {
        Self { packet_ns, queue_packets, rtt_ns, free_ns: 0 }
    }

    /// 20 Mb/s, 20 ms, and a queue for as much again.
    pub const fn usual() -> Self {
        Self::new(400_000, 50, S / 50)
    }
}

/// What is simulated.
pub struct World {
    pub is_fair: bool,
    pub paths: Vec<Bottleneck>,
    /// The path of each stream of the session.
    pub streams: Vec<usize>,
    /// The path of each plain connection.
    pub others: Vec<usize>,
    /// Times in which the session has nothing to send; nor have the others where they pause, too.
    pub pauses: Vec<Range<u64>>,
    pub do_others_pause: bool,
    /// Times in which every packet on any path is lost.
    pub outages: Vec<Range<u64>>,
    pub end_ns: u64,
    pub seed: u64,
}

impl World {
    /// Streams over the first path, and one plain connection.
    pub fn shared(is_fair: bool, streams: usize) -> Self {
        Self::over(is_fair, vec![Bottleneck::usual()], vec![0; streams], vec![0])
    }

    pub fn over(is_fair: bool, paths: Vec<Bottleneck>, streams: Vec<usize>, others: Vec<usize>) -> Self {
        Self {
            is_fair,
            paths,
            streams,
            others,
            pauses: Vec::new(),
            do_others_pause: false,
            outages: Vec::new(),
            end_ns: 120 * S,
            seed: 1,
        }
    }

    fn has_pause(&self, is_ours: bool, now: u64) -> Option<u64> {
        let pauses = is_ours || self.do_others_pause;
        self.pauses.iter().find(|pause| pauses && pause.contains(&now)).map(|pause| pause.end)
    }

    /// Lets everybody send as much as they can; when each packet of each flow was acknowledged, streams first.
    pub fn run(self) -> Vec<Vec<u64>> {
        let config = Config { is_fair: self.is_fair, ..Config::default() };
        let mut session = Session::new(config, scheduler("poll-all").unwrap());
        let ours = self.streams.iter().map(|path| (*path, session.attach(0)));
        let mut flows: Vec<_> = ours.map(|(path, stream)| Flow::new(path, Some(stream.unwrap()))).collect();
        flows.extend(self.others.iter().map(|path| Flow::new(*path, None)));
        let mut paths = self.paths.clone();
        let mut events: BinaryHeap<Event> = BinaryHeap::new();
        let mut rng = SmallRng::seed_from_u64(self.seed);
        // Nobody begins at the same time.
        for (number, flow) in flows.iter_mut().enumerate() {
            flow.next_ns = number as u64 * 37_000_000;
            events.push(Reverse((flow.next_ns, number, 0, 0, Fate::Arrived)));
        }
        while let Some(Reverse((now, number, packet, sent_ns, fate))) = events.pop() {
            if now > self.end_ns {
                break;
            }
            let flow = &mut flows[number];
            match (packet, fate) {
                // A time to send at.
                (0, _) => flow.has_timer = false,
                _ if packet <= flow.written_off => {}
                (_, Fate::Arrived) => flow.acknowledged(sent_ns, now),
                (_, Fate::Dropped) => flow.missed(packet, now),
                (_, Fate::Unheard) => flow.timed_out(now),
            }
            if let Some(id) = flow.stream {
                session.set_stats(id, flow.stats(), now);
                flow.pacing_bytes_per_s = session.pacing_bytes_per_s(id);
            }
            let path = &mut paths[flow.path];
            if let Some(end) = self.has_pause(flow.stream.is_some(), now) {
                flow.next_ns = flow.next_ns.max(end);
            } else {
                flow.restart(now);
            }
            while flow.in_flight < flow.window as u64 {
                if now < flow.next_ns {
                    if !flow.has_timer {
                        flow.has_timer = true;
                        events.push(Reverse((flow.next_ns, number, 0, 0, Fate::Arrived)));
                    }
                    break;
                }
                if let Some(rate) = flow.pacing_bytes_per_s {
                    flow.next_ns = now + MSS * S / rate.max(1);
                }
                flow.sent += 1;
                flow.in_flight += 1;
                flow.last_sent_ns = now;
                let waiting_ns = path.free_ns.saturating_sub(now);
                let fate = if self.outages.iter().any(|outage| outage.contains(&now)) {
                    Fate::Unheard
                } else if waiting_ns / path.packet_ns < path.queue_packets {
                    path.free_ns = path.free_ns.max(now) + path.packet_ns;
                    Fate::Arrived
                } else {
                    Fate::Dropped
                };
                // A host's own delay, so that flows do not fall into step.
                let jitter_ns = rng.random_range(0..path.packet_ns);
                let told_ns = now.max(path.free_ns) + path.rtt_ns + jitter_ns;
                events.push(Reverse((told_ns, number, flow.sent, now, fate)));
            }
        }
        flows.into_iter().map(|flow| flow.acked_ns).collect()
    }
}

/// A sender with Reno's window as Linux keeps it: slow start up to a threshold, one more segment each round trip, half
/// of it after a loss, one segment after a time-out, and the first window after a pause (RFC 5681).
struct Flow {
    path: usize,
    stream: Option<StreamId>,
    window: f64,
    threshold: f64,
    in_flight: u64,
    sent: u64,
    lost: u64,
    /// Losses of packets before this one have been answered.
    recover: u64,
    /// Of packets up to this one nothing more will be heard.
    written_off: u64,
    /// How many of them TCP has to send again.
    owed: u64,
    /// Time-outs since something was acknowledged.
    timeouts: u32,
    srtt_ns: u64,
    pacing_bytes_per_s: Option<u64>,
    next_ns: u64,
    last_sent_ns: u64,
    /// It will be woken then.
    has_timer: bool,
    acked_ns: Vec<u64>,
}

impl Flow {
    fn new(path: usize, stream: Option<StreamId>) -> Self {
        Self {
            path,
            stream,
            window: FIRST_WINDOW,
            threshold: 1e9,
            in_flight: 0,
            sent: 0,
            lost: 0,
            recover: 0,
            written_off: 0,
            owed: 0,
            timeouts: 0,
            srtt_ns: 0,
            pacing_bytes_per_s: None,
            next_ns: 0,
            last_sent_ns: 0,
            has_timer: true,
            acked_ns: Vec::new(),
        }
    }

    fn stats(&self) -> PathStats {
        PathStats {
            srtt_ns: self.srtt_ns,
            cwnd_bytes: self.window as u64 * MSS,
            ssthresh_bytes: self.threshold as u64 * MSS,
            mss_bytes: MSS,
            unacked_bytes: (self.in_flight + self.owed) * MSS,
            acked_bytes: self.acked_ns.len() as u64 * MSS,
            retransmitted_segments: self.lost,
            ..PathStats::default()
        }
    }

    fn acknowledged(&mut self, sent_ns: u64, now: u64) {
        let is_used = self.in_flight + 1 >= self.window as u64;
        self.in_flight -= 1;
        self.timeouts = 0;
        self.owed = 0;
        self.acked_ns.push(now);
        let rtt_ns = now - sent_ns;
        self.srtt_ns = if self.srtt_ns == 0 { rtt_ns } else { (7 * self.srtt_ns + rtt_ns) / 8 };
        if self.window < self.threshold {
            self.window += 1.0;
        } else if is_used {
            self.window += 1.0 / self.window;
        }
    }

    fn missed(&mut self, number: u64, now: u64) {
        self.in_flight -= 1;
        self.lost += 1;
        if number >= self.recover && self.timeouts == 0 {
            self.window = (self.window / 2.0).max(2.0);
            self.threshold = self.window;
            self.recover = self.sent;
        }
        if self.in_flight == 0 {
            // Nothing is left that could be acknowledged.
            self.wait(now);
        }
    }

    /// Nobody tells of a packet, nor of those behind it.
    fn timed_out(&mut self, now: u64) {
        if self.timeouts == 0 {
            self.threshold = (self.window / 2.0).max(2.0);
        }
        self.lost += 1;
        self.owed += self.in_flight;
        self.in_flight = 0;
        self.written_off = self.sent;
        self.wait(now);
    }

    fn wait(&mut self, now: u64) {
        self.window = 1.0;
        self.next_ns = self.next_ns.max(now + (TIMEOUT_NS << self.timeouts.min(6)));
        self.timeouts += 1;
    }

    /// After a pause of more than a time-out nobody knows any more what the path carries.
    fn restart(&mut self, now: u64) {
        let is_idle = self.in_flight == 0 && self.timeouts == 0 && self.sent > 0;
        if is_idle && now.saturating_sub(self.last_sent_ns) > TIMEOUT_NS + self.srtt_ns {
            self.threshold = self.threshold.max(0.75 * self.window);
            self.window = self.window.min(FIRST_WINDOW);
            self.last_sent_ns = now;
        }
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Arrived,
    /// The packets behind it tell.
    Dropped,
    Unheard,
}

/// What happens: when, to which flow, its packet's number and time, what became of it.
type Event = Reverse<(u64, usize, u64, u64, Fate)>;
