//! The watch; see `weirlab.transfers.tcp.watching`.

use std::net::IpAddr;

use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use weir_clock::realtime_to_monotonic_ns;
use weir_events::EventsError;
use weir_events::sampling::sample;
use weir_tcp::fields::{FIELDS, Field, field};
use weir_tcp::watch::{End, Filter, Options, Progress, Row, Watcher};

use super::{end, events, refused};

/// Ways to sample, as users name them; the third: by BPF if that works.
const BPF: &str = "bpf";
const INET_DIAG: &str = "inet-diag";
const AUTO: &str = "auto";

/// Samples connections, in its own thread.
#[pyclass(name = "TcpWatcher", module = "weirlab._engine", frozen)]
pub struct TcpWatcher {
    inner: Watcher,
    fields: Vec<&'static Field>,
    by: &'static str,
    /// Why not by BPF.
    why_not: Option<String>,
    /// From the clock of the samples to ns since 1970.
    offset_ns: i64,
}

#[pymethods]
impl TcpWatcher {
    #[new]
    #[pyo3(signature = (*, ends, pid, program, period_ns, wait, fields, also = Vec::new(), by = INET_DIAG))]
    #[expect(clippy::too_many_arguments, reason = "they are named in Python")]
    fn new(
        py: Python<'_>,
        ends: [(Option<IpAddr>, u16); 2],
        pid: Option<u32>,
        program: Option<String>,
        period_ns: u64,
        wait: bool,
        fields: Vec<String>,
        also: Vec<IpAddr>,
        by: &str,
    ) -> PyResult<Self> {
        if ![BPF, INET_DIAG, AUTO].contains(&by) {
            return Err(PyValueError::new_err(format!("nothing is sampled by {by:?}")));
        }
        let known = |name: &String| {
            field(name).ok_or_else(|| PyValueError::new_err(format!("there is no field {name:?}")))
        };
        let fields = if fields.is_empty() {
            FIELDS.iter().collect()
        } else {
            fields.iter().map(known).collect::<PyResult<_>>()?
        };
        let filter = Filter { also, ..filter(ends, pid, program) };
        let options = Options { filter, period_ns, wait };
        let offset_ns = -realtime_to_monotonic_ns();
        let mut why_not = None;
        if by != INET_DIAG {
            let by_bpf = options.clone();
            match py.detach(|| sample(by_bpf)) {
                Ok(inner) => return Ok(Self { inner, fields, by: BPF, why_not, offset_ns }),
                // Another way does not need it. The verifier's output is more than a sentence.
                Err(error) if by == AUTO && !matches!(error, EventsError::Diag(_)) => {
                    why_not = Some(error.to_string());
                }
                Err(error) => return Err(events::refused(py, &error, "with --by inet-diag")),
            }
        }
        let inner = py.detach(|| Watcher::start(options)).map_err(|e| refused(py, &e))?;
        Ok(Self { inner, fields, by: INET_DIAG, why_not, offset_ns })
    }

    /// The samples since the last call, as columns.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = py.detach(|| self.inner.take());
        let dict = PyDict::new(py);
        let time = |row: &Row| row.at_ns.saturating_add_signed(self.offset_ns).cast_signed();
        dict.set_item("connection", PyArray1::from_iter(py, rows.iter().map(|row| row.connection)))?;
        dict.set_item("time_ns", PyArray1::from_iter(py, rows.iter().map(time)))?;
        let fields = PyDict::new(py);
        for field in &self.fields {
            // In one go: this takes time from what is watched.
            let values = rows.iter().map(|row| row.sample.get(field));
            let (numbers, there): (Vec<_>, Vec<_>) =
                values.map(|value| (value.unwrap_or_default(), value.is_some())).unzip();
            fields.set_item(field.name, (PyArray1::from_vec(py, numbers), PyArray1::from_vec(py, there)))?;
        }
        dict.set_item("fields", fields)?;
        Ok(dict)
    }

    /// The progress of the watch; `by`: how connections are sampled, `why_not`: why not by BPF, if that was tried.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = progress_dict(py, &self.inner.progress(), self.offset_ns)?;
        dict.set_item("by", self.by)?;
        dict.set_item("why_not", self.why_not.as_deref())?;
        Ok(dict)
    }

    /// Ends it; what was sampled can be taken afterwards.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.inner.stop());
    }
}

/// Which connections are selected.
pub fn filter(ends: [(Option<IpAddr>, u16); 2], pid: Option<u32>, program: Option<String>) -> Filter {
    let [one, other] = ends.map(|(address, port)| End { address, port });
    Filter { ends: (one, other), pid, program, ..Filter::default() }
}

/// The progress of a watch.
pub fn progress_dict<'py>(
    py: Python<'py>,
    progress: &Progress,
    offset_ns: i64,
) -> PyResult<Bound<'py, PyDict>> {
    let Progress { connections, lateness, lost, left_out, ended, failure } = progress;
    let time = |ns: u64| ns.saturating_add_signed(offset_ns);
    let list = PyList::empty(py);
    for each in connections {
        let dict = PyDict::new(py);
        dict.set_item("local", end(py, each.local)?)?;
        dict.set_item("remote", end(py, each.remote)?)?;
        dict.set_item("pid", each.process.as_ref().map(|process| process.pid))?;
        dict.set_item("process", each.process.as_ref().map(|process| &process.name))?;
        dict.set_item("found_ns", time(each.found_ns))?;
        dict.set_item("ended_ns", each.ended_ns.map(time))?;
        fields!(dict, each; congestion, samples, missed, idle);
        list.append(dict)?;
    }
    let late = PyDict::new(py);
    fields!(late, lateness; rounds, mean_ns, p99_ns, max_ns);
    let dict = PyDict::new(py);
    dict.set_item("connections", list)?;
    dict.set_item("lateness", late)?;
    dict.set_item("lost", lost)?;
    dict.set_item("left_out", left_out)?;
    dict.set_item("ended", ended)?;
    dict.set_item("failure", failure)?;
    Ok(dict)
}
