//! One sample, as the programs report it (`bpf/samples.h`).

use weir_tcp::Sample;

/// `struct weir_sample`.
pub const RECORD_BYTES: usize = 368;

const INFO: usize = 32;
const INFO_BYTES: usize = 280;
const MEMORY: usize = INFO + INFO_BYTES;
const MEMORY_BYTES: usize = 36;
const RQUEUE: usize = MEMORY + MEMORY_BYTES;
const WQUEUE: usize = RQUEUE + 4;
const RATE_DELIVERED: usize = RQUEUE + 8;
const RATE_INTERVAL: usize = RQUEUE + 12;
const KNOWN_BYTES: usize = RQUEUE + 16;

/// Fields of `struct tcp_info` that the programs report in another form than the kernel.
const RTO: usize = 8;
const SND_MSS: usize = 16;
/// Time since data was sent, data came, an ACK came.
const SINCE: [usize; 3] = [44, 52, 56];
const DELIVERY_RATE: usize = 160;
/// Busy time, and the parts of it limited by the receive window and by the send buffer.
const CHRONO: [usize; 3] = [168, 176, 184];

const US_PER_S: u64 = 1_000_000;
const MS_PER_S: u64 = 1_000;

/// A sample that the programs took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was due, by `CLOCK_MONOTONIC`; none if it was not due but taken because the connection ends.
    pub due_ns: Option<u64>,
    /// When it was taken.
    pub at_ns: u64,
    /// Samples of this connection that found no room, so far.
    pub missed: u64,
    /// The connection's number.
    pub number: u32,
    /// The connection ends.
    pub is_last: bool,
    /// Its state.
    pub sample: Sample,
}

impl Record {
    /// From the bytes of `struct weir_sample`, on a kernel with `hz` jiffies in a second; `None` if they are not one.
    #[must_use]
    pub fn parse(bytes: &[u8], hz: u32) -> Option<Self> {
        let bytes: &[u8; RECORD_BYTES] = bytes.try_into().ok()?;
        let due_ns = long(bytes, 0)?;
        let is_last = match word(bytes, 28)? {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Self {
            due_ns: (due_ns > 0).then_some(due_ns),
            at_ns: long(bytes, 8)?,
            missed: long(bytes, 16)?,
            number: word(bytes, 24)?,
            is_last,
            sample: sample(bytes, hz.max(1))?,
        })
    }
}

/// The rest of what `tcp_get_info()` of the kernel does.
fn sample(bytes: &[u8; RECORD_BYTES], hz: u32) -> Option<Sample> {
    let mut info: [u8; INFO_BYTES] = bytes[INFO..].first_chunk().copied()?;
    let rto_us = us(word(&info, RTO)?, hz);
    put_word(&mut info, RTO, rto_us);
    for at in SINCE {
        let ms = ms(word(&info, at)?, hz);
        put_word(&mut info, at, ms);
    }
    let interval_us = u64::from(word(bytes, RATE_INTERVAL)?);
    let delivered = u64::from(word(bytes, RATE_DELIVERED)?) * u64::from(word(&info, SND_MSS)?);
    let rate = delivered.saturating_mul(US_PER_S).checked_div(interval_us).unwrap_or_default();
    put_long(&mut info, DELIVERY_RATE, rate);
    let [busy, window, buffer] = CHRONO;
    // The kernel multiplies by a rounded number here.
    let times = [long(&info, busy)?, long(&info, window)?, long(&info, buffer)?]
        .map(|jiffies| jiffies * (US_PER_S / u64::from(hz)));
    put_long(&mut info, busy, times.iter().sum());
    put_long(&mut info, window, times[1]);
    put_long(&mut info, buffer, times[2]);
    // A later field is absent, as in the kernel's own report.
    let known = (word(bytes, KNOWN_BYTES)? as usize).min(INFO_BYTES);
    let memory: [u8; MEMORY_BYTES] = bytes[MEMORY..].first_chunk().copied()?;
    Some(Sample::by_bpf(&info[..known], &memory, word(bytes, RQUEUE)?, word(bytes, WQUEUE)?))
}

/// `jiffies_to_usecs()`.
fn us(jiffies: u32, hz: u32) -> u32 {
    (u64::from(jiffies) * US_PER_S / u64::from(hz)) as u32
}

/// `jiffies_to_msecs()`.
fn ms(jiffies: u32, hz: u32) -> u32 {
    (u64::from(jiffies) * MS_PER_S).div_ceil(u64::from(hz)) as u32
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}

fn put_word(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_long(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_tcp::fields::{FIELDS, Source, field};

    const HZ: u32 = 250;

    /// A sample of connection 3 with an RTT of 25 ms.
    fn bytes(kind: u32, known: u32) -> Vec<u8> {
        let mut bytes = vec![0; RECORD_BYTES];
        put_long(&mut bytes, 0, 1_000);
        put_long(&mut bytes, 8, 1_007);
        put_long(&mut bytes, 16, 5);
        put_word(&mut bytes, 24, 3);
        put_word(&mut bytes, 28, kind);
        for (at, value) in [(0, 1), (RTO, 51), (SND_MSS, 1_448), (44, 2), (52, 3), (56, 4), (68, 25_000)] {
            put_word(&mut bytes, INFO + at, value);
        }
        for (at, jiffies) in CHRONO.into_iter().zip([10, 20, 30]) {
            put_long(&mut bytes, INFO + at, jiffies);
        }
        put_word(&mut bytes, MEMORY + 32, 9);
        put_word(&mut bytes, RQUEUE, 11);
        put_word(&mut bytes, WQUEUE, 12);
        put_word(&mut bytes, RATE_DELIVERED, 100);
        put_word(&mut bytes, RATE_INTERVAL, 2_000);
        put_word(&mut bytes, KNOWN_BYTES, known);
        bytes
    }

    fn told(bytes: &[u8], hz: u32) -> impl Fn(&str) -> Option<u64> + use<> {
        let sample = Record::parse(bytes, hz).unwrap().sample;
        move |name| sample.get(field(name).unwrap())
    }

    #[test]
    fn every_number_is_where_the_programs_write_it() {
        let record = Record::parse(&bytes(0, 280), HZ).unwrap();
        assert_eq!((record.due_ns, record.at_ns, record.missed), (Some(1_000), 1_007, 5));
        assert_eq!((record.number, record.is_last), (3, false));
        let get = told(&bytes(0, 280), HZ);
        for (name, value) in [
            ("state", 1),
            ("rtt_us", 25_000),
            ("snd_mss_bytes", 1_448),
            ("skmem_drops", 9),
            ("rqueue_bytes", 11),
            ("wqueue_bytes", 12),
        ] {
            assert_eq!(get(name), Some(value), "{name}");
        }
    }

    #[test]
    fn what_the_kernel_counts_in_jiffies_is_converted_as_it_does() {
        let get = told(&bytes(0, 280), HZ);
        for (name, value) in [
            ("rto_us", 204_000),
            ("last_data_sent_ms", 8),
            ("last_data_recv_ms", 12),
            ("last_ack_recv_ms", 16),
            ("busy_time_us", 240_000),
            ("rwnd_limited_us", 80_000),
            ("sndbuf_limited_us", 120_000),
            ("delivery_rate_bytes_per_s", 72_400_000),
        ] {
            assert_eq!(get(name), Some(value), "{name}");
        }
        // Where a second is no whole number of them, times round up, and busy time loses a little.
        let get = told(&bytes(0, 280), 300);
        assert_eq!((get("rto_us"), get("last_data_sent_ms")), (Some(170_000), Some(7)));
        assert_eq!(get("rwnd_limited_us"), Some(20 * 3_333));
    }

    #[test]
    fn before_anything_was_delivered_there_is_no_rate() {
        let mut bytes = bytes(0, 280);
        put_word(&mut bytes, RATE_INTERVAL, 0);
        assert_eq!(told(&bytes, HZ)("delivery_rate_bytes_per_s"), Some(0));
    }

    #[test]
    fn what_this_kernel_lacks_and_what_only_inet_diag_tells_is_absent() {
        for known in [104, 232, 248, 280, 300] {
            let get = told(&bytes(1, known), HZ);
            for field in FIELDS {
                let is_there = match field.source {
                    Source::Info => field.needs() <= known as usize,
                    _ => true,
                };
                assert_eq!(get(field.name).is_some(), is_there && field.is_by_bpf(), "{}", field.name);
            }
        }
    }

    #[test]
    fn the_last_sample_may_come_before_it_is_due() {
        let mut last = bytes(1, 280);
        put_long(&mut last, 0, 0);
        let record = Record::parse(&last, HZ).unwrap();
        assert_eq!((record.due_ns, record.is_last), (None, true));
    }

    #[test]
    fn other_bytes_are_no_sample() {
        assert_eq!(Record::parse(&bytes(2, 280), HZ), None);
        assert_eq!(Record::parse(&bytes(0, 280)[1..], HZ), None);
    }
}
