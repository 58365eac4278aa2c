//! Whether data waited in a sender, inferred from what released new data: an ACK, or the application.
//!
//! Data that leaves right after an ACK had waited for it. Data that leaves without an ACK before it was not available
//! earlier, unless the sender's host was late. If one segment misleads by chance, those around it correct it.

use super::Events;
use super::recovery::{is_behind_loss, is_timeout};
use super::stats::{median, quantile};

/// An ACK this much later than a round trip was delayed on purpose (RFC 1122: up to 500 ms; Linux: 40 ms).
const DELAYED_S: f64 = 0.015;
/// No ACK is delayed on purpose for longer (RFC 1122, 4.2.3.2).
const LONGEST_DELAY_S: f64 = 0.5;
/// Round trips for which past data in flight shows what the congestion window allows.
const ABLE_TRIPS: f64 = 3.0;
/// Bursts before and after one that show whether the ACK before it was there by chance.
const NEIGHBOURS: usize = 4;
const MOSTLY: f64 = 0.5;
/// Segments, and [`MOST_ROOM`] of the congestion window, that TCP may leave unused to send larger bursts.
const LEAST_ROOM: i64 = 3;
const MOST_ROOM: f64 = 1.0 / 3.0;
const LEAST_BURSTS: usize = 6;
/// Share of the bursts that must follow an ACK soon if ACKs release them: a busy host is late for some.
const CLOCKED: f64 = 0.5;
/// Share of the time between bursts that counts as soon after an ACK.
const SOON: f64 = 0.15;
/// Factor by which more bursts must follow an ACK than would by chance. If ACKs come all the time, they show nothing.
const BEYOND_CHANCE: f64 = 2.5;
/// Share of the variation in burst sizes by which the flight after bursts may vary, besides a segment. A full buffer is
/// filled up to the same mark again, however late the application is woken and however much ACKs have freed until then; an
/// application that writes at its own pace leaves a flight that varies like its writes.
const REFILLS: f64 = 0.5;
/// Segments that one ACK may acknowledge (RFC 5681, 4.2): a mark cannot be known more exactly.
const DELAYED_SEGMENTS: f64 = 2.0;
/// Share of the largest flight so far from which on a congestion window may allow no more.
const NEARLY_MOST: f64 = 0.9;
/// Least segments in flight at such a mark; fewer are the end of a message.
const FEW_SEGMENTS: f64 = 4.0;
/// Share of the bursts that may begin with more in flight than that: their ACKs were lost or overtaken.
const BEYOND: f64 = 0.05;
/// Greatest share of the flight left before a burst: an application sleeps until a third of its send buffer is free
/// (`sk_stream_is_writeable`), while a congestion window is filled again by each ACK.
const EMPTIED: f64 = 0.85;

/// How well a place sees the sender.
#[derive(Clone, Copy)]
pub(super) struct Visibility {
    /// What follows an ACK within this time was released by it.
    pub close_s: f64,
    /// The least round trip.
    pub least_s: f64,
    /// Whether it is known when ACKs reach the sender.
    pub timed: bool,
    /// Whether segments may be lost before they come here.
    pub away: bool,
}

impl Visibility {
    /// How late an ACK may be, if only the round trip of the handshake is known.
    pub fn late_s(&self) -> f64 {
        if self.least_s > 0.0 { self.least_s.max(DELAYED_S) + self.close_s } else { f64::INFINITY }
    }
}

/// New data but the first: `one` is the event of the data before, `other` its own.
pub(super) struct Gap {
    one: usize,
    other: usize,
    gap_s: f64,
    since_ack_s: f64,
    /// There was an ACK since the data before.
    fresh: bool,
    /// The last packet of the receiver carried no data.
    bare: bool,
    /// The data before ended with less than a segment.
    short: bool,
    /// Less than a segment, and nothing right after it: what Nagle's algorithm kept back until then.
    tail: bool,
    /// It does not follow immediately after the data before.
    begins: bool,
    /// Neither data nor an ACK was right before it.
    restarted: bool,
    /// What left before it was lost on the way, so nothing shows when.
    behind_loss: bool,
    /// Hardly more has ever been in flight than right before it.
    at_most: bool,
}

/// By event: there was nothing to send until the next new data, or less than a segment waited.
pub(super) struct Sends {
    pub idle: Vec<bool>,
    pub held: Vec<bool>,
    /// The data before ended with less than a segment.
    pub ended: Vec<bool>,
    /// The receiver sent data before the next.
    pub requested: Vec<bool>,
    /// What left before the next was lost on the way.
    pub hidden: Vec<bool>,
    pub gaps: Vec<Gap>,
}

/// What was there to send at each event. `anew`: past data in flight no longer shows what the congestion window allows.
pub(super) fn sends(events: &Events, anew: &[bool], mss: i64, sight: Visibility) -> Sends {
    let count = events.at_ns.len();
    let Gaps { gaps, last, asked } = gaps(events, mss, sight);
    let mut found = Sends {
        idle: vec![false; count],
        held: vec![false; count],
        ended: vec![false; count],
        requested: vec![false; count],
        hidden: vec![false; count],
        gaps,
    };
    let Some(last) = last.filter(|_| !found.gaps.is_empty()) else { return found };
    let by_chance = by_chance(&found.gaps);
    let late_s = sight.late_s();
    for ((gap, by_chance), asked) in found.gaps.iter().zip(by_chance).zip(asked) {
        // A late ACK of everything, without data, released the next segment.
        let little = events.sent[gap.one] - events.acked[gap.one] <= 2 * mss;
        let everything = events.acked[gap.other - 1] >= events.sent[gap.one];
        let answered = gap.since_ack_s <= sight.close_s;
        let delay_s = gap.gap_s - sight.least_s;
        let late = delay_s > DELAYED_S && delay_s <= LONGEST_DELAY_S + sight.close_s;
        let waited = gap.short && answered && little && everything && gap.bare && gap.fresh && late;
        // Nagle's algorithm may keep less than a segment back for a round trip: there was hardly anything to send.
        // Away from the sender, ACKs that took longer than the fastest look like none, and a full congestion window like this.
        let unclear = sight.away && gap.at_most && !asked;
        let freely = (gap.restarted || by_chance) && sight.timed && !unclear;
        // The ACK that released data may have taken longer than that of the handshake.
        let answered = answered || (!sight.timed && gap.since_ack_s <= late_s);
        let pause =
            ((gap.short && !(answered && gap.bare)) || freely || gap.tail) && !waited && !gap.behind_loss;
        // Each event belongs to the new data before it.
        let until = gap.one..gap.other;
        found.idle[until.clone()].fill(pause);
        found.held[until.clone()].fill(waited);
        found.ended[until.clone()].fill(gap.short);
        found.hidden[until.clone()].fill(gap.behind_loss);
        found.requested[until].fill(asked);
    }
    // What follows the last one is not known.
    let ends_short = i64::from(events.payload_bytes[last]) % mss != 0;
    found.idle[last..].fill(ends_short);
    found.ended[last..].fill(ends_short);
    if sight.timed {
        set_unused(&mut found.idle, events, &found.gaps, anew, mss, sight);
    }
    for (idle, held) in found.idle.iter_mut().zip(&found.held) {
        *idle &= !held;
    }
    make_whole(&mut found.idle, events, &found.gaps);
    for (at, idle) in found.idle.iter_mut().enumerate() {
        *idle &= !found.held[at] && !found.hidden[at];
    }
    found
}

struct Gaps {
    gaps: Vec<Gap>,
    /// The last new data.
    last: Option<usize>,
    /// By gap, whether the receiver sent data in it.
    asked: Vec<bool>,
}

fn gaps(events: &Events, mss: i64, sight: Visibility) -> Gaps {
    let at_ns = &events.at_ns;
    let close_s = sight.close_s;
    let mut most = 0;
    let mut found = Gaps { gaps: Vec::new(), last: None, asked: Vec::new() };
    let (mut last_ack, mut asked) = (None, false);
    for at in 0..at_ns.len() {
        if events.acks[at] {
            last_ack = Some(at);
            asked |= events.payload_bytes[at] > 0;
        }
        if !events.data[at] || (at > 0 && events.sent[at] <= events.sent[at - 1]) {
            continue;
        }
        if let Some(one) = found.last {
            let gap_s = (at_ns[at] - at_ns[one]) / 1e9;
            let since_ack_s = last_ack.map_or(f64::INFINITY, |ack| (at_ns[at] - at_ns[ack]) / 1e9);
            found.gaps.push(Gap {
                one,
                other: at,
                gap_s,
                since_ack_s,
                fresh: last_ack > Some(one),
                bare: last_ack.is_some_and(|ack| events.payload_bytes[ack] == 0),
                short: i64::from(events.payload_bytes[one]) % mss != 0,
                tail: false,
                begins: gap_s > close_s,
                restarted: since_ack_s.min(gap_s) > close_s,
                behind_loss: sight.away && is_behind_loss(events, at, sight.least_s),
                at_most: (events.sent[one] - events.acked[one]) as f64 >= NEARLY_MOST * most as f64,
            });
            found.asked.push(asked);
        }
        asked = false;
        found.last = Some(at);
        most = most.max(events.sent[at] - events.acked[at]);
    }
    for at in 0..found.gaps.len() {
        let alone = found.gaps[at].begins && found.gaps.get(at + 1).is_none_or(|next| next.begins);
        let next_s = found.gaps.get(at + 1).map(|next| next.gap_s);
        let gap = &mut found.gaps[at];
        let whole = i64::from(events.payload_bytes[gap.other]) == mss;
        gap.behind_loss |= sight.away && whole && is_timeout(gap.gap_s, next_s, sight.least_s);
        gap.tail = alone && i64::from(events.payload_bytes[gap.other]) < mss;
    }
    found
}

/// By gap: bursts after an ACK, most of whose neighbours began without one: they would have begun anyway.
fn by_chance(gaps: &[Gap]) -> Vec<bool> {
    let mut found = vec![false; gaps.len()];
    let begins: Vec<usize> = (0..gaps.len()).filter(|&at| gaps[at].begins && !gaps[at].tail).collect();
    if begins.len() <= 2 * NEIGHBOURS {
        return found;
    }
    for (number, &at) in begins.iter().enumerate() {
        let around = &begins[number.saturating_sub(NEIGHBOURS)..(number + NEIGHBOURS + 1).min(begins.len())];
        let free = around.iter().filter(|&&near| gaps[near].restarted).count();
        found[at] = free as f64 > MOSTLY * around.len() as f64;
    }
    found
}

/// Marks events at which the congestion window has room that a sender with data would use.
///
/// It allows what was in flight within the last round trips, unless something was lost since (`anew`). This counts only right
/// after a plain pause: data left without an ACK before it, or a burst ended with less than a segment. Pacing and changing
/// round trips leave room, too.
fn set_unused(idle: &mut [bool], events: &Events, gaps: &[Gap], anew: &[bool], mss: i64, sight: Visibility) {
    let recent_ns = (ABLE_TRIPS * sight.least_s * 1e9).max(1.0);
    let part = (2.0 * sight.close_s / sight.least_s.max(1e-9)).min(MOST_ROOM);
    let mut lost = 0;
    // Each one forgets at the end of its periods, when the other one still remembers.
    let mut able = [(i64::MIN, 0_i64); 2];
    let mut paused_ns = f64::NEG_INFINITY;
    let mut gap = gaps.iter().peekable();
    for at in 0..idle.len() {
        let at_ns = events.at_ns[at];
        lost += i64::from(anew[at]);
        let flight = events.sent[at] - events.acked[at];
        let mine = gap.next_if(|gap| gap.other == at);
        let after = if mine.is_some() { flight } else { 0 };
        for ((epoch, most), shift) in able.iter_mut().zip([0.0, 0.5]) {
            let now = ((at_ns - events.at_ns[0]) / (2.0 * recent_ns) + shift).floor() as i64 + lost;
            *most = if now > *epoch { after } else { after.max(*most) };
            *epoch = now;
        }
        if mine.is_some_and(|gap| gap.restarted || (gap.begins && gap.short)) {
            paused_ns = at_ns;
        }
        let able = able[0].1.max(able[1].1) as f64;
        let room = ((LEAST_ROOM * mss) as f64).max(able * part);
        idle[at] |= flight as f64 + room <= able && at_ns - paused_ns <= recent_ns;
    }
}

/// Marks all of the time from a burst to the next one if it is idle for most of that.
///
/// The burst belongs to it: it left at once, and only the bottleneck may have spread it.
fn make_whole(idle: &mut [bool], events: &Events, gaps: &[Gap]) {
    let mut begin = 0;
    let ends = gaps.iter().filter(|gap| gap.begins).map(|gap| gap.other).chain([idle.len()]);
    for end in ends {
        let lasts = |at: usize| events.lasts_ns(at);
        let whole: f64 = (begin..end).map(lasts).sum();
        let part: f64 = (begin..end).filter(|&at| idle[at]).map(lasts).sum();
        if part > MOSTLY * whole {
            idle[begin..end].fill(true);
        }
        begin = end;
    }
}

/// Where in `stretch` (by event) ACKs released the data, though the host may have been late to answer them.
///
/// An application that is woken by the ACK that makes room in its send buffer sends a moment later, and fills the buffer up
/// again; one that sends by its own clock does not depend on ACKs.
pub(super) fn clocked(events: &Events, gaps: &[Gap], stretch: &[bool], mss: i64, close_s: f64) -> Vec<bool> {
    let mut found = vec![false; stretch.len()];
    let mss = mss as f64;
    let mut first = 0;
    for part in stretch.chunk_by(|one, other| one == other) {
        let behind = first + part.len();
        let inside = |at: usize| gaps.partition_point(|gap| gap.other < at);
        let mine: Vec<&Gap> = if part[0] {
            gaps[inside(first)..inside(behind)].iter().filter(|gap| gap.begins && !gap.tail).collect()
        } else {
            Vec::new()
        };
        if mine.len() >= LEAST_BURSTS && may_be_let_out(events, &mine) {
            let bursts = Bursts::new(events, &mine, behind);
            let released = bursts.fills_up(mss)
                || ((bursts.comes_back(mss) || starts_anew(events, &mine, mss))
                    && is_clocked(events, &mine, first, behind, close_s));
            found[first..behind].fill(released);
        }
        first = behind;
    }
    found
}

fn share<T>(some: &[T], holds: impl Fn(&T) -> bool) -> f64 {
    some.iter().filter(|one| holds(one)).count() as f64 / some.len() as f64
}

fn may_be_let_out(events: &Events, mine: &[&Gap]) -> bool {
    // The share of the data in flight after the data before that is still in flight.
    let left = |gap: &&Gap| {
        let peak = (events.sent[gap.one] - events.acked[gap.one]).max(1);
        (events.sent[gap.one] - events.acked[gap.other]) as f64 / peak as f64
    };
    // Bursts that end with less than a segment end where the application's data does.
    median(&mut mine.iter().map(left).collect::<Vec<_>>()) <= EMPTIED
        && share(mine, |gap| gap.short) <= MOSTLY
}

/// The size of each burst, and the most data in flight until the next one, in bytes.
struct Bursts {
    peaks: Vec<f64>,
    peak_scatter: f64,
    size_scatter: f64,
}

impl Bursts {
    fn new(events: &Events, mine: &[&Gap], behind: usize) -> Self {
        let (mut peaks, mut sizes) = (Vec::with_capacity(mine.len()), Vec::with_capacity(mine.len()));
        for (number, gap) in mine.iter().enumerate() {
            let end = mine.get(number + 1).map_or(behind, |next| next.other);
            let flight = (gap.other..end).map(|at| events.sent[at] - events.acked[at]);
            peaks.push(flight.max().unwrap_or_default() as f64);
            sizes.push((events.sent[end - 1] - events.sent[gap.other.saturating_sub(1)]) as f64);
        }
        let (peak_scatter, size_scatter) = (scatter(&mut peaks), scatter(&mut sizes));
        Self { peaks, peak_scatter, size_scatter }
    }

    /// Whether bursts are as large as what ACKs have freed: however much they vary, the flight reaches one mark, or never
    /// exceeds the usual one.
    fn fills_up(&self, mss: f64) -> bool {
        if self.peak_scatter + self.size_scatter > 0.0 && self.peak_scatter <= REFILLS * self.size_scatter {
            return true;
        }
        let most = self.peaks.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.size_scatter >= mss && most - median(&mut self.peaks.clone()) <= mss
    }

    /// Whether the flight reaches about the same mark each time.
    fn comes_back(&self, mss: f64) -> bool {
        self.peak_scatter <= (REFILLS * self.size_scatter).max(mss)
    }
}

/// Whether bursts begin when the flight has fallen to one mark.
///
/// An application that writes in large pieces overfills its buffer by varying amounts, but always sleeps until the same share
/// of it is free.
fn starts_anew(events: &Events, mine: &[&Gap], mss: f64) -> bool {
    let before = |gap: &&Gap| {
        let at = gap.other - 1;
        (events.sent[at] - events.acked[at]) as f64
    };
    let left: Vec<f64> = mine.iter().map(before).collect();
    // If ACKs come together, late, it is woken with less left.
    let (mark, near) = (quantile(&mut left.clone(), 0.75), DELAYED_SEGMENTS * mss);
    mark >= FEW_SEGMENTS * mss
        && share(&left, |&left| left >= mark - near) >= MOSTLY
        && share(&left, |&left| left > mark + near) <= BEYOND
}

/// The interquartile range.
fn scatter(values: &mut [f64]) -> f64 {
    quantile(values, 0.75) - quantile(values, 0.25)
}

fn is_clocked(events: &Events, mine: &[&Gap], first: usize, behind: usize, close_s: f64) -> bool {
    let soon_s = close_s.max(SOON * median(&mut mine.iter().map(|gap| gap.gap_s).collect::<Vec<_>>()));
    let followed = share(mine, |gap| gap.fresh && gap.since_ack_s <= soon_s);
    let mut near_s = soon_s;
    let mut before = None;
    for at in (first..behind).filter(|&at| events.acks[at]) {
        if let Some(before) = before.replace(at) {
            near_s += ((events.at_ns[at] - events.at_ns[before]) / 1e9).min(soon_s);
        }
    }
    let by_chance = near_s * 1e9 / (events.at_ns[behind - 1] - events.at_ns[first]).max(1.0);
    followed >= CLOCKED.max(BEYOND_CHANCE * by_chance)
}
