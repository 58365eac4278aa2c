//! Packets of connections, kept in memory for their diagnosis.

use std::collections::HashMap;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_trace::analysis;
use weir_trace::tcp::{self, Connection, Method, RttRow, SackRow, SegmentRow};
use weir_trace::voice::Measured;

#[derive(Clone, Copy)]
struct Segment {
    time_ns: i64,
    seq: i64,
    ack: i64,
    payload_bytes: u32,
    window_bytes: u32,
    tsval: u32,
    has_tsval: bool,
    from_side: u8,
    flags: u8,
    meaning: u8,
}

#[derive(Clone, Copy)]
struct Rtt {
    time_ns: i64,
    rtt_ns: i64,
    from_side: u8,
    method: u8,
}

#[derive(Clone, Copy)]
struct Sack {
    time_ns: i64,
    left: i64,
    right: i64,
    duplicate: bool,
    from_side: u8,
}

#[derive(Default)]
struct Rows {
    segments: Vec<Segment>,
    rtt: Vec<Rtt>,
    sack: Vec<Sack>,
}

impl Rows {
    fn len(&self) -> u64 {
        (self.segments.len() + self.rtt.len() + self.sack.len()) as u64
    }
}

/// The rows of connections that are worth a diagnosis; see `weirlab._engine.ConnectionRows`.
#[pyclass(module = "weirlab._engine")]
pub struct ConnectionRows {
    rows: HashMap<u32, Rows>,
    least_segments: u64,
    least_timeouts: u64,
    #[pyo3(get)]
    only: Option<u32>,
    most: u64,
    count: u64,
    #[pyo3(get)]
    overflowed: bool,
}

#[pymethods]
impl ConnectionRows {
    #[new]
    #[pyo3(signature = (*, least_segments, least_timeouts, most, only=None))]
    fn new(least_segments: u64, least_timeouts: u64, most: u64, only: Option<u32>) -> Self {
        Self { rows: HashMap::new(), least_segments, least_timeouts, only, most, count: 0, overflowed: false }
    }

    fn segments_of<'py>(
        &self,
        py: Python<'py>,
        connection: u32,
        columns: Vec<String>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let rows = self.rows.get(&connection).map_or(&[][..], |rows| &rows.segments);
        for name in columns {
            macro_rules! column {
                ($value:expr) => {
                    dict.set_item(&name, PyArray1::from_iter(py, rows.iter().map($value)))?
                };
            }
            match name.as_str() {
                "time_ns" => column!(|row| row.time_ns),
                "seq" => column!(|row| row.seq),
                "ack" => column!(|row| row.ack),
                "payload_bytes" => column!(|row| row.payload_bytes),
                "window_bytes" => column!(|row| row.window_bytes),
                "from_side" => column!(|row| row.from_side),
                "flags" => column!(|row| row.flags),
                "meaning" => column!(|row| row.meaning),
                _ => column!(|row| if row.has_tsval { f64::from(row.tsval) } else { f64::NAN }),
            }
        }
        Ok(dict)
    }

    fn rtt_of<'py>(&self, py: Python<'py>, connection: u32) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let rows = self.rows.get(&connection).map_or(&[][..], |rows| &rows.rtt);
        columns!(dict, rows.iter(); time_ns, rtt_ns, from_side, method);
        Ok(dict)
    }

    fn sack_of<'py>(&self, py: Python<'py>, connection: u32) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let rows = self.rows.get(&connection).map_or(&[][..], |rows| &rows.sack);
        columns!(dict, rows.iter(); time_ns, left, right, duplicate, from_side);
        Ok(dict)
    }

    fn take_segments_of<'py>(
        &mut self,
        py: Python<'py>,
        connection: u32,
        columns: Vec<String>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let found = self.segments_of(py, connection, columns);
        self.rows.remove(&connection);
        found
    }
}

impl ConnectionRows {
    /// An empty one, which takes the place of one that is filled elsewhere.
    pub fn take(&mut self) -> Self {
        let empty = Self::new(self.least_segments, self.least_timeouts, self.most, self.only);
        std::mem::replace(self, empty)
    }

    /// The rows of `connection`, to which one is about to be added.
    fn of(&mut self, connection: u32) -> Option<&mut Rows> {
        if self.overflowed || self.only.is_some_and(|only| only != connection) {
            return None;
        }
        self.count += 1;
        if self.count > self.most {
            self.overflowed = true;
            self.rows = HashMap::new();
            return None;
        }
        Some(self.rows.entry(connection).or_default())
    }

    fn end(&mut self, connection: &Connection) {
        let is_worth = connection.sides.iter().any(|side| {
            side.data_packets >= self.least_segments || side.retransmissions.timeout >= self.least_timeouts
        });
        if !is_worth && let Some(rows) = self.rows.remove(&connection.id) {
            self.count -= rows.len();
        }
    }

    fn segment(&mut self, row: &SegmentRow) {
        let Some(rows) = self.of(row.connection) else { return };
        rows.segments.push(Segment {
            time_ns: row.time_ns,
            seq: row.seq,
            ack: row.ack,
            payload_bytes: row.payload_bytes,
            window_bytes: row.window_bytes,
            tsval: row.tsval.unwrap_or_default(),
            has_tsval: row.tsval.is_some(),
            from_side: row.from as u8,
            flags: row.flags,
            meaning: row.meaning as u8,
        });
    }

    fn rtt(&mut self, row: &RttRow) {
        if row.method != Method::Timestamp
            && let Some(rows) = self.of(row.connection)
        {
            rows.rtt.push(Rtt {
                time_ns: row.time_ns,
                rtt_ns: row.rtt_ns.cast_signed(),
                from_side: row.from as u8,
                method: row.method as u8,
            });
        }
    }

    fn sack(&mut self, row: &SackRow) {
        if let Some(rows) = self.of(row.connection) {
            rows.sack.push(Sack {
                time_ns: row.time_ns,
                left: row.left,
                right: row.right,
                duplicate: row.duplicate,
                from_side: row.from as u8,
            });
        }
    }
}

/// Keeps rows, and passes everything on.
pub struct Recording<S> {
    pub inner: S,
    pub rows: ConnectionRows,
}

impl<S: tcp::Sink> tcp::Sink for Recording<S> {
    const ROWS: bool = true;

    fn connection(&mut self, connection: Connection) {
        self.rows.end(&connection);
        self.inner.connection(connection);
    }

    #[inline]
    fn segment(&mut self, row: &SegmentRow) {
        self.rows.segment(row);
        self.inner.segment(row);
    }

    #[inline]
    fn rtt(&mut self, row: &RttRow) {
        self.rows.rtt(row);
        self.inner.rtt(row);
    }

    fn sack(&mut self, row: &SackRow) {
        self.rows.sack(row);
        self.inner.sack(row);
    }
}

impl<S: analysis::Sink> analysis::Sink for Recording<S> {
    fn stream(&mut self, stream: Measured) {
        self.inner.stream(stream);
    }
}
