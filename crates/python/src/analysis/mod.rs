//! TCP, voice and ESP of captures; see `weirlab._engine.analyse`.

mod facts;
mod files;
mod kept;
mod rows;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_capture::filter::{Filter, FilterError};
use weir_capture::{CaptureError, LinkType, Packet};
use weir_tables::TableError;
use weir_tables::series::{Ended, Series};
use weir_trace::Share;
use weir_trace::analysis::{self, Analysis, Facts, File, Options, Sink, Span};
use weir_trace::{tcp, voice};

use crate::errors::{describe, exception, unwritten};
use crate::trace::{Interruptible, open, refusal, share_of};
pub use facts::Connections;
use files::{Folder, Partial};
use kept::Kept;
pub use rows::ConnectionRows;
use rows::Recording;

/// An error, and what it happened to.
enum Failure {
    Capture(PathBuf, CaptureError),
    Filter(FilterError),
    Table(PathBuf, TableError),
    Interrupted(PyErr),
}

/// Facts about captures, one after the other as if they were one file.
#[pyfunction]
#[pyo3(signature = (
    paths, *, filter="", from_ns=None, to_ns=None, relative=false, series=None, period_ns=100_000_000,
    decode_as=Vec::new(), keep=100_000, rows=None, share=None,
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
pub fn analyse<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    filter: &str,
    from_ns: Option<i64>,
    to_ns: Option<i64>,
    relative: bool,
    series: Option<PathBuf>,
    period_ns: u64,
    decode_as: Vec<(u16, u16)>,
    keep: usize,
    rows: Option<Bound<'py, ConnectionRows>>,
    share: Option<(u32, u32)>,
) -> PyResult<Bound<'py, PyDict>> {
    let begin = Instant::now();
    let numbered = share.is_some();
    let share = share.map_or(Ok(Share::ALL), share_of)?;
    let options = Options {
        tcp: tcp::Options { share, ..tcp::Options::default() },
        voice: voice::Options {
            decode_as: decode_as.into_iter().map(|(low, high)| low..=high).collect(),
            ..voice::Options::default()
        },
        span: Span { from_ns, to_ns, relative },
    };
    for path in &paths {
        // Now, rather than after an hour of reading the others; and opened again one by one, as there may be many.
        drop(open(py, path)?);
    }
    let empty = rows.as_ref().map(|rows| rows.borrow_mut().take());
    let found = py.detach(|| {
        let kept = RefCell::new(Kept::new(keep, numbered));
        let (facts, files, empty) = match (&series, empty) {
            (None, None) => {
                let (_, facts, files) = read(paths, filter, options, Summary(&kept), |_| true)?;
                (facts, files, None)
            }
            (None, Some(rows)) => {
                let sink = Recording { inner: Summary(&kept), rows };
                let (sink, facts, files) = read(paths, filter, options, sink, |_| true)?;
                (facts, files, Some(sink.rows))
            }
            (Some(folder), rows) => with_series(folder, paths, filter, options, period_ns, &kept, rows)?,
        };
        Ok((facts, files, kept.into_inner(), empty))
    });
    let (facts, files, kept, filled) = found.map_err(|failure| translate(py, failure))?;
    if let (Some(rows), Some(filled)) = (rows, filled) {
        *rows.borrow_mut() = filled;
    }
    let answer = facts::to_dict(py, &facts, &files, kept)?;
    answer.set_item("elapsed_ns", begin.elapsed().as_nanos() as u64)?;
    Ok(answer)
}

fn with_series(
    folder: &Path,
    paths: Vec<PathBuf>,
    filter: &str,
    options: Options,
    period_ns: u64,
    kept: &RefCell<Kept>,
    rows: Option<ConnectionRows>,
) -> Result<(Facts, Vec<File>, Option<ConnectionRows>), Failure> {
    let wrong = |error| Failure::Table(folder.to_owned(), error);
    let mut files = Folder::new(folder).map_err(wrong)?;
    let give = |ended| match ended {
        Ended::Connection(connection) => kept.borrow_mut().connection(&connection),
        Ended::Stream(stream) => kept.borrow_mut().stream(*stream),
    };
    let tables = Series::new(|name| files.make(name), period_ns, give).map_err(wrong)?;
    let is_well = |tables: &Series<Partial, _>| tables.failure().is_none();
    let (tables, facts, read_files, filled) = match rows {
        None => {
            let (tables, facts, read_files) = read(paths, filter, options, tables, is_well)?;
            (tables, facts, read_files, None)
        }
        Some(rows) => {
            let sink = Recording { inner: tables, rows };
            let (sink, facts, read_files) = read(paths, filter, options, sink, |sink| is_well(&sink.inner))?;
            (sink.inner, facts, read_files, Some(sink.rows))
        }
    };
    tables.finish().map_err(wrong)?;
    files.keep().map_err(wrong)?;
    Ok((facts, read_files, filled))
}

/// Reads all sources while `is_well` approves of the sink.
fn read<S: Sink>(
    paths: Vec<PathBuf>,
    expression: &str,
    options: Options,
    sink: S,
    is_well: impl Fn(&S) -> bool,
) -> Result<(S, Facts, Vec<File>), Failure> {
    let mut analysis = Analysis::new(options, sink);
    let mut filters = Filters::new(expression);
    let failure = Cell::new(None);
    let mut files = Vec::new();
    for path in paths {
        let file = std::fs::File::open(&path)
            .map_err(|source| Failure::Capture(path.clone(), CaptureError::Read { offset: 0, source }))?;
        let mut signal = None;
        let go_on = |sink: &S| {
            let filter_failed = failure.take();
            let is_well = filter_failed.is_none() && is_well(sink);
            failure.set(filter_failed);
            if is_well { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let source = Interruptible::new(file, &mut signal);
        let read = if expression.is_empty() {
            analysis.read(source, |_| true, go_on)
        } else {
            analysis.read(source, |packet| filters.take(packet, &failure), go_on)
        };
        if let Some(signal) = signal {
            return Err(Failure::Interrupted(signal));
        }
        if let Some(failure) = failure.take() {
            return Err(Failure::Filter(failure));
        }
        files.push(read.map_err(|error| Failure::Capture(path, error))?);
    }
    let (sink, facts) = analysis.finish();
    Ok((sink, facts, files))
}

/// The expression, translated for each link type that occurs.
pub struct Filters<'a> {
    expression: &'a str,
    /// That of the last packet, usually also of the next one; None: it cannot be translated.
    last: Option<(LinkType, Option<Filter>)>,
    others: HashMap<LinkType, Option<Filter>>,
}

impl<'a> Filters<'a> {
    /// None translated yet.
    pub fn new(expression: &'a str) -> Self {
        Self { expression, last: None, others: HashMap::new() }
    }

    /// Whether the expression accepts `packet`. If it cannot be translated, the error goes into `failure`.
    #[inline]
    pub fn take(&mut self, packet: &Packet<'_>, failure: &Cell<Option<FilterError>>) -> bool {
        if self.last.as_ref().is_none_or(|(link, _)| *link != packet.link) {
            self.turn_to(packet.link, failure);
        }
        let filter = self.last.as_ref().and_then(|(_, filter)| filter.as_ref());
        filter.is_some_and(|filter| filter.matches(packet.data, packet.original_len))
    }

    #[cold]
    fn turn_to(&mut self, link: LinkType, failure: &Cell<Option<FilterError>>) {
        if let Some((link, filter)) = self.last.take() {
            self.others.insert(link, filter);
        }
        let filter = self.others.remove(&link).unwrap_or_else(|| {
            Filter::compile(self.expression, link).map_err(|error| failure.set(Some(error))).ok()
        });
        self.last = Some((link, filter));
    }
}

/// A sink without series.
struct Summary<'a>(&'a RefCell<Kept>);

impl tcp::Sink for Summary<'_> {
    const ROWS: bool = false;

    fn connection(&mut self, connection: tcp::Connection) {
        self.0.borrow_mut().connection(&connection);
    }
}

impl analysis::Sink for Summary<'_> {
    fn stream(&mut self, stream: voice::Measured) {
        self.0.borrow_mut().stream(stream);
    }
}

fn translate(py: Python<'_>, failure: Failure) -> PyErr {
    match failure {
        Failure::Capture(path, error) => refusal(py, &path, &error),
        Failure::Filter(error) => filter_refusal(py, &error),
        Failure::Table(folder, error) => unwritten(py, &folder, &describe(&error)),
        Failure::Interrupted(signal) => signal,
    }
}

/// The error for an expression that cannot be translated.
pub fn filter_refusal(py: Python<'_>, error: &FilterError) -> PyErr {
    let class = match error {
        FilterError::NoLibrary { .. } => "MissingCapability",
        _ => "InputError",
    };
    exception(py, class, &describe(error))
}
