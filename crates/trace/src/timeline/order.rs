//! Packets in the order of their sender, from those that were captured elsewhere.

use super::departures::Departures;
use super::{Events, Packet, PathRtts, Rtts};

/// Parts of a round trip.
const PARTS: i64 = 8;
/// Two ways into one capture are not so far apart.
const BACK_NS: i64 = 100_000_000;
/// Share of the packets that may be dated so much earlier than the one before, and how many at least.
const MISDATED: f64 = 0.05;
const FEW_MISDATED: usize = 4;

/// Whether the clock of the capture goes back again and again, so that no time tells anything.
pub fn goes_back(packets: &[Packet]) -> bool {
    let back = packets.windows(2).filter(|pair| pair[1].time_ns < pair[0].time_ns - BACK_NS).count();
    back > FEW_MISDATED && back as f64 > MISDATED * packets.len() as f64
}

/// The least round trip from the point of capture to the sender, without the time that data waited.
pub fn back_ns(came_ns: &[i64], left: &Departures, rtts: &PathRtts) -> i64 {
    let last = came_ns.len() - 1;
    let echoed = rtts.echoes.time_ns.iter().zip(&rtts.echoes.rtt_ns).map(|(&time, &rtt)| {
        let at = came_ns.partition_point(|&came| came < time).min(last);
        rtt - (came_ns[at] - left.left_ns[at]).max(0)
    });
    let least = rtts.behind.rtt_ns.iter().copied().min();
    least.into_iter().chain(echoed.min().map(|least| least.max(0))).min().unwrap_or(0)
}

/// Round trips of the whole path, from the time that the sender's packets waited on their way.
pub fn queued_trips(came_ns: &[i64], left: &Departures, least_s: f64) -> Rtts {
    let least_ns = (least_s * 1e9).round_ties_even() as i64;
    let half_ns = (left.tick_ns / 2.0).round_ties_even() as i64;
    let mut trips: Vec<(i64, i64)> = came_ns
        .iter()
        .zip(&left.left_ns)
        .map(|(came, &left)| {
            let waited = (came - left).max(0);
            // A packet left at any time within its tick, not only at its end.
            (left, least_ns + if waited > 0 { waited + half_ns } else { 0 })
        })
        .collect();
    trips.sort_by_key(|&(left, _)| left);
    let (time_ns, rtt_ns) = trips.into_iter().unzip();
    let mut found = Rtts { time_ns, rtt_ns };
    // No ACK was delayed here, but a busy host may deliver late.
    found.rtt_ns = found.least(least_ns / PARTS);
    found
}

/// By packet, how many bytes had arrived: by what ACKs and SACK report, or, `as_it_comes`, by the data itself.
pub fn delivered(packets: &[Packet], first_seq: i64, as_it_comes: bool) -> Vec<f64> {
    let mut so_far = 0;
    let by = |packet: &Packet| {
        if as_it_comes && packet.has_data() {
            so_far += i64::from(packet.payload_bytes);
        } else if !as_it_comes && packet.is_ack() {
            so_far = so_far.max(packet.ack + i64::from(packet.sacked_bytes) - first_seq);
        }
        so_far as f64
    };
    packets.iter().map(by).collect()
}

/// The packets in the order in which the sender knew of them, ACKs rather `early_s` too early; and the wait of each in queues
/// before the point of capture, in s (empty if it is not known).
pub fn as_sent(
    mut packets: Vec<Packet>,
    behind: &Rtts,
    early_s: f64,
    left: Option<&Departures>,
) -> (Vec<Packet>, Vec<f64>) {
    if left.is_none() && behind.time_ns.is_empty() && packets.is_sorted_by_key(|packet| packet.time_ns) {
        // At the sender they are in its order already.
        return (packets, Vec::new());
    }
    let mut latest = i64::MIN;
    {
        let theirs: Vec<i64> = packets.iter().filter(|p| !p.from_sender).map(|p| p.time_ns).collect();
        let mut late_s: Box<dyn Iterator<Item = f64>> = match left {
            None => Box::new(behind.until(theirs.into_iter())),
            Some(_) => Box::new(std::iter::repeat(behind.rtt_ns[0] as f64 / 1e9)),
        };
        for packet in packets.iter_mut().filter(|packet| !packet.from_sender) {
            let late_s = (late_s.next().unwrap_or(0.0) - early_s).max(0.0);
            // One after the other, as they were sent.
            latest = latest.max(packet.time_ns + (late_s * 1e9) as i64);
            packet.time_ns = latest;
        }
    }
    let Some(left) = left else {
        packets.sort_by_key(|packet| packet.time_ns);
        return (packets, Vec::new());
    };
    let mut left_ns = left.left_ns.iter();
    let mut pairs: Vec<(Packet, f64)> = Vec::with_capacity(packets.len());
    for mut packet in packets {
        let mut waited_s = 0.0;
        if packet.from_sender
            && let Some(&left_ns) = left_ns.next()
        {
            waited_s = (packet.time_ns - left_ns).max(0) as f64 / 1e9;
            packet.time_ns = left_ns;
        }
        pairs.push((packet, waited_s));
    }
    pairs.sort_by_key(|(packet, _)| packet.time_ns);
    pairs.into_iter().unzip()
}

/// Whether data met a queue: the time before it cost nothing, as the bottleneck was busy meanwhile.
pub struct Outlasted(Vec<bool>);

impl Outlasted {
    pub fn new(events: &Events, waited_s: &[f64], close_s: f64) -> Self {
        if waited_s.is_empty() {
            return Self(Vec::new());
        }
        let mut found = vec![false; events.data.len()];
        let last = events.data.iter().rposition(|&data| data);
        let mut next = last.is_some_and(|last| waited_s[last] > close_s);
        for at in (0..found.len()).rev() {
            found[at] = next;
            if events.data[at] {
                next = waited_s[at] > close_s;
            }
        }
        Self(found)
    }

    pub fn is(&self, at: usize) -> bool {
        self.0.get(at).is_some_and(|&is| is)
    }
}
