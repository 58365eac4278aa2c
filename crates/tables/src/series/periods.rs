//! What each side did in each period: sums of the other series.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{self, Write};

use weir_trace::tcp::{From, Method, RttRow, SegmentRow};

use super::Columns;
use super::rows::{Rows, columns};
use crate::{Column, Kind, Spec, TableError};

/// A side in a period.
#[derive(Clone, Copy)]
pub struct Period {
    connection: u32,
    from: From,
    start_ns: i64,
    packets: i64,
    payload_bytes: i64,
    unique_bytes: i64,
    retransmissions: i64,
    rtt_count: i64,
    rtt_sum_ns: i64,
    rtt_max_ns: i64,
    flight_max_bytes: u32,
    window_min_bytes: u32,
}

impl Period {
    const fn new(connection: u32, from: From, start_ns: i64) -> Self {
        Self {
            connection,
            from,
            start_ns,
            packets: 0,
            payload_bytes: 0,
            unique_bytes: 0,
            retransmissions: 0,
            rtt_count: 0,
            rtt_sum_ns: 0,
            rtt_max_ns: 0,
            flight_max_bytes: 0,
            window_min_bytes: u32::MAX,
        }
    }
}

columns! {
    /// Of [`Period`].
    PeriodColumns = "periods" of Period {
        connection: U32 as Small(i32).repeats() = |r| r.connection.cast_signed();
        from_side: U8 as Small(i32).repeats() = |r| r.from as i32;
        start_ns: I64 as I64(i64).rising() = |r| r.start_ns;
        packets: I64 as I64(i64) = |r| r.packets;
        payload_bytes: I64 as I64(i64) = |r| r.payload_bytes;
        unique_bytes: I64 as I64(i64) = |r| r.unique_bytes;
        retransmissions: I64 as I64(i64) = |r| r.retransmissions;
        rtt_count: I64 as I64(i64) = |r| r.rtt_count;
        rtt_sum_ns: I64 as I64(i64) = |r| r.rtt_sum_ns;
        rtt_max_ns: I64 as I64(i64) = |r| r.rtt_max_ns;
        flight_max_bytes: U32 as Small(i32) = |r| r.flight_max_bytes.cast_signed();
        window_min_bytes: I64 as MaybeI64(Option<i64>).optional() =
            |r| (r.packets > 0).then_some(r.window_min_bytes.into());
    }
}

/// The table being filled, and the periods that are not over.
pub struct Periods<W: Write + Send> {
    rows: Rows<PeriodColumns, W>,
    period_ns: i64,
    open: HashMap<u32, [Option<Period>; 2], BuildHasherDefault<Spread>>,
}

/// Hashes connection numbers, which only this crate chooses.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32((*byte).into());
        }
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        // Knuth's multiplicative hashing, by 2^64 over the golden ratio.
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl<W: Write + Send> Periods<W> {
    pub fn new(make: &mut impl FnMut(&str) -> io::Result<W>, period_ns: u64) -> Result<Self, TableError> {
        let period_ns = i64::try_from(period_ns).unwrap_or(i64::MAX).max(1);
        let facts = [("period_ns", period_ns.to_string())];
        Ok(Self { rows: Rows::new(make, &facts)?, period_ns, open: HashMap::default() })
    }

    #[inline]
    pub fn segment(&mut self, row: &SegmentRow) -> Result<(), TableError> {
        let period = self.at(row.connection, row.from, row.time_ns)?;
        period.packets += 1;
        period.payload_bytes += i64::from(row.payload_bytes);
        period.unique_bytes += i64::from(row.new_bytes);
        period.retransmissions += i64::from(row.meaning.is_retransmission());
        period.flight_max_bytes = period.flight_max_bytes.max(row.flight_bytes);
        period.window_min_bytes = period.window_min_bytes.min(row.window_bytes);
        Ok(())
    }

    /// Round trips by ACK; those by time stamps would count most packets twice.
    #[inline]
    pub fn rtt(&mut self, row: &RttRow) -> Result<(), TableError> {
        if row.method == Method::Ack {
            let rtt_ns = i64::try_from(row.rtt_ns).unwrap_or(i64::MAX);
            let period = self.at(row.connection, row.from, row.time_ns)?;
            period.rtt_count += 1;
            period.rtt_sum_ns = period.rtt_sum_ns.saturating_add(rtt_ns);
            period.rtt_max_ns = period.rtt_max_ns.max(rtt_ns);
        }
        Ok(())
    }

    /// Writes the open periods of a connection.
    pub fn end(&mut self, connection: u32) -> Result<(), TableError> {
        for period in self.open.remove(&connection).into_iter().flatten().flatten() {
            self.rows.put(|columns| columns.push(&period))?;
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<(), TableError> {
        let mut open: Vec<u32> = self.open.keys().copied().collect();
        open.sort_unstable();
        for connection in open {
            self.end(connection)?;
        }
        self.rows.finish()
    }

    /// The period of a side at a time; an earlier one is written. Times that go back count in the later one.
    #[inline]
    fn at(&mut self, connection: u32, from: From, time_ns: i64) -> Result<&mut Period, TableError> {
        let place = &mut self.open.entry(connection).or_default()[from as usize];
        let goes_on = |period: &Period| time_ns - period.start_ns < self.period_ns;
        if !place.as_ref().is_some_and(goes_on) {
            let start_ns = time_ns.saturating_sub(time_ns.rem_euclid(self.period_ns));
            if let Some(over) = place.replace(Period::new(connection, from, start_ns)) {
                self.rows.put(|columns| columns.push(&over))?;
            }
        }
        Ok(place.get_or_insert(Period::new(connection, from, time_ns)))
    }
}
