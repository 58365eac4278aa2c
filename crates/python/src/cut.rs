//! Packets of captures as a new pcapng file; see `weirlab._engine.cut_captures`.

use std::cell::Cell;
use std::fs::File;
use std::os::fd::{BorrowedFd, RawFd};
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_capture::cut::{Counts, Cut, CutError, Span};
use weir_capture::write::Section;
use weir_capture::{CaptureError, FilterError};

use crate::analysis::{Filters, filter_refusal};
use crate::trace::{Interruptible, open, refusal};

enum Failure {
    Capture(PathBuf, CaptureError),
    Filter(FilterError),
    Write(std::io::Error),
    Interrupted(PyErr),
}

/// Writes packets of captures as one pcapng file.
#[pyfunction]
#[pyo3(signature = (paths, *, out, filter="", from_ns=None, to_ns=None, relative=false))]
pub fn cut_captures<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    out: RawFd,
    filter: &str,
    from_ns: Option<i64>,
    to_ns: Option<i64>,
    relative: bool,
) -> PyResult<Bound<'py, PyDict>> {
    for path in &paths {
        drop(open(py, path)?);
    }
    if out < 0 {
        return Err(pyo3::exceptions::PyValueError::new_err("out is no open file"));
    }
    // SAFETY: the caller keeps its file open during the call; only a copy of the descriptor is used.
    let file = File::from(unsafe { BorrowedFd::borrow_raw(out) }.try_clone_to_owned()?);
    let span = Span { from_ns, to_ns, relative };
    let counts = py.detach(|| cut(paths, file, filter, span)).map_err(|failure| match failure {
        Failure::Capture(path, error) => refusal(py, &path, &error),
        Failure::Filter(error) => filter_refusal(py, &error),
        Failure::Write(error) => error.into(),
        Failure::Interrupted(signal) => signal,
    })?;
    let dict = PyDict::new(py);
    dict.set_item("read", counts.read)?;
    dict.set_item("written", counts.written)?;
    dict.set_item("bytes", counts.bytes)?;
    dict.set_item("first_ns", counts.first_ns)?;
    dict.set_item("last_ns", counts.last_ns)?;
    dict.set_item("interfaces", counts.interfaces)?;
    dict.set_item("cut_short", counts.cut_short)?;
    Ok(dict)
}

fn cut(paths: Vec<PathBuf>, out: File, expression: &str, span: Span) -> Result<Counts, Failure> {
    let section =
        Section { application: concat!("Weir ", env!("CARGO_PKG_VERSION")).to_owned(), ..Section::default() };
    let mut cut = Cut::new(out, span, &section);
    let mut filters = Filters::new(expression);
    let failure = Cell::new(None);
    for path in paths {
        let told = |error: CutError| match error {
            CutError::Capture(error) => Failure::Capture(path.clone(), error),
            CutError::Write(error) => Failure::Write(error),
        };
        let file =
            File::open(&path).map_err(|source| told(CaptureError::Read { offset: 0, source }.into()))?;
        let mut signal = None;
        let read = weir_capture::open(Interruptible::new(file, &mut signal))
            .map_err(CutError::from)
            .and_then(|mut capture| {
                cut.add(&mut capture, |packet| expression.is_empty() || filters.take(packet, &failure))
            });
        if let Some(signal) = signal {
            return Err(Failure::Interrupted(signal));
        }
        if let Some(failure) = failure.take() {
            return Err(Failure::Filter(failure));
        }
        read.map_err(told)?;
    }
    cut.finish().map_err(|error| match error {
        CutError::Write(error) => Failure::Write(error),
        CutError::Capture(error) => Failure::Capture(PathBuf::new(), error),
    })
}
