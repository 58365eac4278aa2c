//! Part of a capture as pcapng; see `weirlab._engine.excerpt`.

use std::cell::Cell;
use std::io::{self, Write};
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use weir_capture::Packet;
use weir_capture::write::{ExcerptError, Section};

use super::{Failure, Filters, translate};
use crate::trace::{Interruptible, open};

/// Hands packets of a time, and that a filter accepts, to `write`; returns how many there are.
#[pyfunction]
#[pyo3(signature = (
    path, write, *, filter="", from_ns=None, to_ns=None, relative=false, application="", comment="",
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
pub fn excerpt(
    py: Python<'_>,
    path: PathBuf,
    write: Py<PyAny>,
    filter: &str,
    from_ns: Option<i64>,
    to_ns: Option<i64>,
    relative: bool,
    application: &str,
    comment: &str,
) -> PyResult<u64> {
    let file = open(py, &path)?;
    let (application, comment) = (application.to_owned(), comment.to_owned());
    let about = Section { application, comment, ..Section::default() };
    let mut signal = None;
    let mut target = Target { write, raised: None };
    let (written, refused) = py.detach(|| {
        let failure = Cell::new(None);
        let mut filters = Filters::new(filter);
        let mut origin_ns = (!relative).then_some(0);
        let take = |packet: &Packet<'_>| {
            let time_ns = packet.time_ns - *origin_ns.get_or_insert(packet.time_ns);
            from_ns.is_none_or(|from| time_ns >= from)
                && to_ns.is_none_or(|to| time_ns < to)
                && (filter.is_empty() || filters.take(packet, &failure))
        };
        let written = weir_capture::open(Interruptible::new(file, &mut signal))
            .map_err(ExcerptError::Read)
            .and_then(|mut capture| weir_capture::write::excerpt(&mut capture, &about, take, &mut target));
        (written, failure.take())
    });
    if let Some(raised) = signal.or(target.raised) {
        return Err(raised);
    }
    if let Some(refused) = refused {
        return Err(translate(py, Failure::Filter(refused)));
    }
    written.map_err(|error| match error {
        ExcerptError::Read(error) => translate(py, Failure::Capture(path, error)),
        ExcerptError::Write(error) => error.into(),
    })
}

/// Python's function as something to write to.
struct Target {
    write: Py<PyAny>,
    raised: Option<PyErr>,
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = Python::attach(|py| self.write.call1(py, (PyBytes::new(py, bytes),)).map(drop));
        match done {
            Ok(()) => Ok(bytes.len()),
            Err(raised) => {
                self.raised = Some(raised);
                Err(io::Error::other("interrupted"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
