//! A simulated TCP connection, packet by packet: CUBIC (RFC 9438) with a slow start that ends where the delay grows
//! (HyStart, RFC 9406), a bottleneck of its own with a queue, losses that are sent again, and what `TCP_INFO` tells.

use std::collections::{BTreeMap, VecDeque};

use weir_psock::io::UNSENT_BYTES;
use weir_psock::schedule::PathStats;

const MSS: u64 = 1448;
/// With headers of Ethernet, IP and TCP.
const FRAME: u64 = MSS + 66;
const FIRST_WINDOW: f64 = 10.0;
const LEAST_TIMEOUT_NS: u64 = 200_000_000;
const S: u64 = 1_000_000_000;
/// RFC 9438.
const BETA: f64 = 0.7;
const C: f64 = 0.4;

/// A path in one direction, and its least delay back.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    bits_per_s: u64,
    delay_ns: u64,
    queue_ns: u64,
}

impl Line {
    pub const fn new(mbit_per_s: u64, delay_ns: u64, queue_ns: u64) -> Self {
        Self { bits_per_s: mbit_per_s * 1_000_000, delay_ns, queue_ns }
    }
}

/// A segment that was sent and is not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Of all transmissions.
    order: u64,
    sent_ns: u64,
    is_lost: bool,
    /// As in the kernel's `tcp_rate.c`, when it was sent.
    delivered: u64,
    delivered_ns: u64,
    first_sent_ns: u64,
    is_limited: bool,
}

/// One direction of a connection, whose acknowledgements are never lost.
#[derive(Debug)]
pub struct Connection {
    line: Line,
    free_ns: u64,
    /// Bytes that were never sent, and segments from `una` on.
    unsent: VecDeque<u8>,
    segments: BTreeMap<u64, (u64, Vec<u8>)>,
    next: u64,
    sent_bytes: u64,
    /// Of the segments.
    held: u64,
    outstanding: BTreeMap<u64, Sent>,
    orders: u64,
    in_flight: u64,
    /// What arrives when: segment and transmission.
    flying: VecDeque<(u64, u64)>,
    acks: VecDeque<(u64, u64)>,
    /// At the receiver.
    expected: u64,
    beyond: BTreeMap<u64, Vec<u8>>,
    ready: VecDeque<Vec<u8>>,
    window: f64,
    threshold: f64,
    most: f64,
    /// Since when the window grows, and after how many seconds it is what it was before the loss.
    epoch: Option<(u64, f64)>,
    /// Transmissions before this one are of the same loss.
    recover: u64,
    srtt_ns: u64,
    rttvar_ns: u64,
    least_rtt_ns: u64,
    /// The last transmission of a round of slow start, and the first round-trip times in it.
    round_ends: u64,
    round_rtts: Vec<u64>,
    heard_ns: u64,
    timeouts: u32,
    retransmitted: u64,
    delivered: u64,
    delivered_ns: u64,
    first_sent_ns: u64,
    limited_until: u64,
    /// Segments delivered, in which time, and whether the application offered no more.
    rate: (u64, u64, bool),
}

impl Connection {
    pub fn new(line: Line) -> Self {
        // The handshake has told.
        let rtt_ns = 2 * line.delay_ns;
        Self {
            line,
            free_ns: 0,
            unsent: VecDeque::new(),
            segments: BTreeMap::new(),
            next: 0,
            sent_bytes: 0,
            held: 0,
            outstanding: BTreeMap::new(),
            orders: 0,
            in_flight: 0,
            flying: VecDeque::new(),
            acks: VecDeque::new(),
            expected: 0,
            beyond: BTreeMap::new(),
            ready: VecDeque::new(),
            window: FIRST_WINDOW,
            threshold: 1e9,
            most: 0.0,
            epoch: None,
            recover: 0,
            srtt_ns: rtt_ns,
            rttvar_ns: rtt_ns / 2,
            least_rtt_ns: rtt_ns,
            round_ends: 0,
            round_rtts: Vec::new(),
            heard_ns: 0,
            timeouts: 0,
            retransmitted: 0,
            delivered: 0,
            delivered_ns: 0,
            first_sent_ns: 0,
            limited_until: 0,
            rate: (0, 0, false),
        }
    }

    /// `poll` would tell that it can be written (`TCP_NOTSENT_LOWAT`).
    pub fn is_writable(&self) -> bool {
        2 * self.unsent.len() < UNSENT_BYTES as usize
    }

    pub fn push(&mut self, now: u64, bytes: &[u8]) {
        if self.unsent.is_empty() && (self.in_flight as f64) < self.window {
            self.limited_until = (self.delivered + self.in_flight).max(1);
        }
        self.unsent.extend(bytes);
        self.send(now);
    }

    /// Everything that has happened until now.
    pub fn advance(&mut self, now: u64) {
        loop {
            let arrival = self.flying.front().map_or(u64::MAX, |each| each.0);
            let ack = self.acks.front().map_or(u64::MAX, |each| each.0);
            let timeout = self.timeout_ns();
            let next = arrival.min(ack).min(timeout);
            if next > now {
                return;
            }
            if arrival == next {
                let (_, number) = self.flying.pop_front().unwrap();
                self.arrive(number);
                self.acks.push_back((next + self.line.delay_ns, number));
            } else if ack == next {
                let (_, number) = self.acks.pop_front().unwrap();
                self.acknowledged(number, next);
                self.send(next);
            } else {
                self.time_out(next);
                self.send(next);
            }
        }
    }

    /// Bytes for the receiver, in order.
    pub fn arrived(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    pub fn next_ns(&self) -> u64 {
        let front = |queue: &VecDeque<(u64, u64)>| queue.front().map_or(u64::MAX, |each| each.0);
        front(&self.flying).min(front(&self.acks)).min(self.timeout_ns())
    }

    pub fn stats(&self) -> PathStats {
        let acked = self.segments.first_key_value().map_or(self.sent_bytes, |(_, (offset, _))| *offset);
        let unsent = self.unsent.len() as u64;
        let (delivered, interval_ns, is_rate_limited) = self.rate;
        PathStats {
            srtt_ns: self.srtt_ns,
            rttvar_ns: self.rttvar_ns,
            least_rtt_ns: self.least_rtt_ns,
            sacked_bytes: self.sent_bytes - acked - self.held,
            cwnd_bytes: self.window as u64 * MSS,
            ssthresh_bytes: self.threshold as u64 * MSS,
            mss_bytes: MSS,
            unacked_bytes: unsent + self.sent_bytes - acked,
            unsent_bytes: unsent,
            rate_bytes_per_s: (delivered * MSS * S).checked_div(interval_ns).unwrap_or(0),
            is_rate_limited,
            acked_bytes: acked,
            retransmitted_segments: self.retransmitted,
        }
    }

    fn send(&mut self, now: u64) {
        while (self.in_flight as f64) < self.window.max(1.0) {
            let lost = self.outstanding.iter().find(|(_, sent)| sent.is_lost).map(|(number, _)| *number);
            let number = match lost {
                Some(number) => {
                    self.retransmitted += 1;
                    number
                }
                None if self.unsent.is_empty() => return,
                None => {
                    let len = self.unsent.len().min(MSS as usize);
                    let number = self.next;
                    self.segments.insert(number, (self.sent_bytes, self.unsent.drain(..len).collect()));
                    self.sent_bytes += len as u64;
                    self.held += len as u64;
                    self.next += 1;
                    number
                }
            };
            if self.in_flight == 0 {
                (self.first_sent_ns, self.delivered_ns) = (now, now);
                self.heard_ns = now;
            }
            self.orders += 1;
            self.in_flight += 1;
            let sent = Sent {
                order: self.orders,
                sent_ns: now,
                is_lost: false,
                delivered: self.delivered,
                delivered_ns: self.delivered_ns,
                first_sent_ns: self.first_sent_ns,
                is_limited: self.limited_until > 0,
            };
            self.outstanding.insert(number, sent);
            self.transmit(now, number);
        }
    }

    fn transmit(&mut self, now: u64, number: u64) {
        if self.free_ns.saturating_sub(now) > self.line.queue_ns {
            return;
        }
        self.free_ns = self.free_ns.max(now) + FRAME * 8 * S / self.line.bits_per_s;
        self.flying.push_back((self.free_ns + self.line.delay_ns, number));
    }

    fn arrive(&mut self, number: u64) {
        if number < self.expected {
            return;
        }
        if let Some((_, bytes)) = self.segments.get(&number) {
            self.beyond.insert(number, bytes.clone());
        }
        while let Some(bytes) = self.beyond.remove(&self.expected) {
            self.ready.push_back(bytes);
            self.expected += 1;
        }
    }

    fn acknowledged(&mut self, number: u64, now: u64) {
        let Some(sent) = self.outstanding.remove(&number) else { return };
        if !sent.is_lost {
            self.in_flight -= 1;
        }
        (self.heard_ns, self.timeouts) = (now, 0);
        self.delivered += 1;
        self.delivered_ns = now;
        self.held -= self.segments.remove(&number).map_or(0, |(_, bytes)| bytes.len() as u64);
        self.observe(&sent, now);
        let is_slow_start = self.window < self.threshold;
        // Whatever was sent before it and has not arrived is lost: the path keeps the order.
        let mut has_lost = false;
        for before in self.outstanding.values_mut().filter(|each| each.order < sent.order && !each.is_lost) {
            before.is_lost = true;
            self.in_flight -= 1;
            has_lost |= before.order > self.recover;
        }
        if has_lost {
            self.most = self.window;
            self.window = (BETA * self.window).max(2.0);
            self.threshold = self.window;
            self.recover = self.orders;
            self.epoch = None;
        } else if sent.order > self.recover && (self.in_flight + 1) as f64 >= 0.5 * self.window {
            if is_slow_start {
                self.window += 1.0;
            } else {
                self.grow(now);
            }
        }
    }

    /// Congestion avoidance, for one segment that was acknowledged.
    fn grow(&mut self, now: u64) {
        let (since_ns, k) = *self.epoch.get_or_insert_with(|| {
            self.most = self.most.max(self.window);
            (now, ((self.most - self.window) / C).cbrt())
        });
        let t = (now - since_ns + self.srtt_ns) as f64 / S as f64;
        let target = C * (t - k).powi(3) + self.most;
        self.window += ((target - self.window) / self.window).clamp(0.01 / self.window, 0.5);
    }

    fn observe(&mut self, sent: &Sent, now: u64) {
        let rtt = now - sent.sent_ns;
        self.rttvar_ns = (3 * self.rttvar_ns + self.srtt_ns.abs_diff(rtt)) / 4;
        self.srtt_ns = if self.srtt_ns == 0 { rtt } else { (7 * self.srtt_ns + rtt) / 8 };
        self.least_rtt_ns = self.least_rtt_ns.min(rtt);
        // HyStart (RFC 9406).
        if sent.order > self.round_ends {
            (self.round_ends, self.round_rtts) = (self.orders, Vec::new());
        }
        if self.round_rtts.len() < 9 {
            self.round_rtts.push(rtt);
        }
        let slack = (self.least_rtt_ns / 8).clamp(4_000_000, 16_000_000);
        if self.round_rtts.len() == 8
            && self.window < self.threshold
            && self.window >= 16.0
            && self.round_rtts.iter().min().unwrap() > &(self.least_rtt_ns + slack)
        {
            self.threshold = self.window;
        }
        if self.limited_until > 0 && self.delivered > self.limited_until {
            self.limited_until = 0;
        }
        self.first_sent_ns = sent.sent_ns;
        let interval = (sent.sent_ns - sent.first_sent_ns).max(now - sent.delivered_ns);
        let delivered = self.delivered - sent.delivered;
        if interval >= self.least_rtt_ns
            && (!sent.is_limited || delivered * self.rate.1 >= self.rate.0 * interval)
        {
            self.rate = (delivered, interval, sent.is_limited);
        }
    }

    fn timeout_ns(&self) -> u64 {
        if self.outstanding.is_empty() {
            return u64::MAX;
        }
        let after = (self.srtt_ns + 4 * self.rttvar_ns).max(LEAST_TIMEOUT_NS) << self.timeouts.min(10);
        self.heard_ns + after
    }

    fn time_out(&mut self, now: u64) {
        self.outstanding.values_mut().for_each(|each| each.is_lost = true);
        self.in_flight = 0;
        if self.timeouts == 0 {
            self.most = self.window;
            self.threshold = (BETA * self.window).max(2.0);
        }
        self.window = 1.0;
        self.recover = self.orders;
        self.epoch = None;
        self.timeouts += 1;
        self.heard_ns = now;
    }
}
