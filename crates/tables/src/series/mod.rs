//! The series of a trace as tables: `connections`, `segments`, `rtt`, `sack`, `periods`, `streams`.

mod connections;
mod periods;
mod rows;
mod streams;

use std::io::Write;

use connections::Connections;
use periods::Periods;
use rows::{Rows, RttColumns, SackColumns, SegmentColumns};
use streams::Streams;
use weir_trace::analysis;
use weir_trace::tcp::{Connection, RttRow, SackRow, SegmentRow, Sink};
use weir_trace::voice::Measured;

use crate::{Column, Spec, TableError};

/// Columns that grow by rows and are written as they are.
trait Columns: Default {
    const NAME: &'static str;
    const SPECS: &'static [Spec];
    /// Rows that are kept until they are written as one row group.
    const GROUP_ROWS: usize = 1 << 16;
    fn len(&self) -> usize;
    fn columns(&self) -> Vec<Column<'_>>;
    fn clear(&mut self);
}

/// A connection or a stream that is over.
#[derive(Debug)]
pub enum Ended {
    /// A connection.
    Connection(Box<Connection>),
    /// A voice stream.
    Stream(Box<Measured>),
}

/// Writes all series; connections and streams are passed on.
pub struct Series<W: Write + Send, F: FnMut(Ended)> {
    segments: Rows<SegmentColumns, W>,
    rtt: Rows<RttColumns, W>,
    sack: Rows<SackColumns, W>,
    periods: Periods<W>,
    connections: Rows<Connections, W>,
    streams: Rows<Streams, W>,
    failure: Option<TableError>,
    give: F,
}

impl<W: Write + Send, F: FnMut(Ended)> Series<W, F> {
    /// Begins the tables in what `make` makes of their names; `period_ns` is that of `periods`.
    ///
    /// # Errors
    /// [`TableError`] when one cannot be made or written.
    pub fn new(
        mut make: impl FnMut(&str) -> std::io::Result<W>,
        period_ns: u64,
        give: F,
    ) -> Result<Self, TableError> {
        Ok(Self {
            segments: Rows::new(&mut make, &[("meanings", weir_trace::tcp::Meaning::NAMES.join(","))])?,
            rtt: Rows::new(&mut make, &[("methods", "ack,timestamp,echo".to_owned())])?,
            sack: Rows::new(&mut make, &[])?,
            periods: Periods::new(&mut make, period_ns)?,
            connections: Rows::new(&mut make, &[])?,
            streams: Rows::new(&mut make, &[])?,
            failure: None,
            give,
        })
    }

    /// The first error so far; nothing is written after it.
    #[must_use]
    pub const fn failure(&self) -> Option<&TableError> {
        self.failure.as_ref()
    }

    /// Ends the tables.
    ///
    /// # Errors
    /// The first [`TableError`].
    pub fn finish(self) -> Result<(), TableError> {
        if let Some(error) = self.failure {
            return Err(error);
        }
        self.segments.finish()?;
        self.rtt.finish()?;
        self.sack.finish()?;
        self.periods.finish()?;
        self.connections.finish()?;
        self.streams.finish()
    }

    fn attempt(&mut self, step: impl FnOnce(&mut Self) -> Result<(), TableError>) {
        if self.failure.is_none() {
            self.failure = step(self).err();
        }
    }
}

impl<W: Write + Send, F: FnMut(Ended)> Sink for Series<W, F> {
    const ROWS: bool = true;

    fn connection(&mut self, connection: Connection) {
        self.attempt(|s| {
            s.periods.end(connection.id)?;
            s.connections.put(|columns| columns.push(&connection))
        });
        (self.give)(Ended::Connection(Box::new(connection)));
    }

    #[inline]
    fn segment(&mut self, row: &SegmentRow) {
        if self.failure.is_some() {
            return;
        }
        let written = self.segments.put(|columns| columns.push(row));
        self.failure = written.and_then(|()| self.periods.segment(row)).err();
    }

    #[inline]
    fn rtt(&mut self, row: &RttRow) {
        if self.failure.is_some() {
            return;
        }
        let written = self.rtt.put(|columns| columns.push(row));
        self.failure = written.and_then(|()| self.periods.rtt(row)).err();
    }

    fn sack(&mut self, row: &SackRow) {
        self.attempt(|s| s.sack.put(|columns| columns.push(row)));
    }
}

impl<W: Write + Send, F: FnMut(Ended)> analysis::Sink for Series<W, F> {
    fn stream(&mut self, stream: Measured) {
        self.attempt(|s| s.streams.put(|columns| columns.push(&stream)));
        (self.give)(Ended::Stream(Box::new(stream)));
    }
}

#[cfg(test)]
mod tests;
