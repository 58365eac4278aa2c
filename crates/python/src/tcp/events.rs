//! The watch by events; see `weirlab.transfers.tcp.watching`.

use std::net::IpAddr;

use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use weir_clock::realtime_to_monotonic_ns;
use weir_events::{Column, EventsError, Kind, Options, Row, columns, start};
use weir_tcp::watch::Watcher;

use super::watch::{filter, progress_dict};
use crate::errors::{describe, exception};

/// Watches connections event by event, in its own thread.
#[pyclass(name = "TcpEvents", module = "weirlab._engine", frozen)]
pub struct TcpEvents {
    inner: Watcher<Row>,
    columns: Vec<Column>,
    /// From the clock of the events to ns since 1970.
    offset_ns: i64,
}

#[pymethods]
impl TcpEvents {
    #[new]
    #[pyo3(signature = (*, ends, pid, program, wait, fields))]
    fn new(
        py: Python<'_>,
        ends: [(Option<IpAddr>, u16); 2],
        pid: Option<u32>,
        program: Option<String>,
        wait: bool,
        fields: Vec<String>,
    ) -> PyResult<Self> {
        let all = columns();
        let known = |name: &String| {
            let found = all.iter().find(|column| column.name() == name);
            found.copied().ok_or_else(|| PyValueError::new_err(format!("events do not tell {name:?}")))
        };
        let columns = fields.iter().map(known).collect::<PyResult<_>>()?;
        let options = Options { filter: filter(ends, pid, program), wait };
        let inner = py.detach(|| start(options)).map_err(|e| refused(py, &e, "without --events"))?;
        Ok(Self { inner, columns, offset_ns: -realtime_to_monotonic_ns() })
    }

    /// The events since the last call, as columns.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = py.detach(|| self.inner.take());
        let dict = PyDict::new(py);
        let time = |row: &Row| row.event.at_ns.saturating_add_signed(self.offset_ns).cast_signed();
        dict.set_item("connection", PyArray1::from_iter(py, rows.iter().map(|row| row.connection)))?;
        dict.set_item("time_ns", PyArray1::from_iter(py, rows.iter().map(time)))?;
        dict.set_item("kind", PyArray1::from_iter(py, rows.iter().map(|row| row.event.kind.number())))?;
        let fields = PyDict::new(py);
        for column in &self.columns {
            let values = || rows.iter().map(|row| column.get(&row.event));
            let there = PyArray1::from_iter(py, values().map(|value| value.is_some()));
            let numbers = PyArray1::from_iter(py, values().map(Option::unwrap_or_default));
            fields.set_item(column.name(), (numbers, there))?;
        }
        dict.set_item("fields", fields)?;
        Ok(dict)
    }

    /// The progress of the watch.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = progress_dict(py, &self.inner.progress(), self.offset_ns)?;
        dict.set_item("by", "events")?;
        dict.set_item("why_not", py.None())?;
        Ok(dict)
    }

    /// Ends it; what happened until then can be taken afterwards.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.inner.stop());
    }
}

/// Every quantity that events carry, with a unit and a source like those of connections.
#[pyfunction]
pub fn tcp_event_fields(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for column in columns() {
        list.append(match column {
            Column::Field(field) => super::field_dict(py, field)?,
            Column::Own(name, about, _) => {
                let dict = PyDict::new(py);
                dict.set_item("name", name)?;
                dict.set_item("kernel_name", name)?;
                dict.set_item("unit", "")?;
                dict.set_item("source", "event")?;
                dict.set_item("since", "5.12")?;
                dict.set_item("about", about)?;
                dict.set_item("by_bpf", true)?;
                dict
            }
        })?;
    }
    Ok(list)
}

/// Names of the events; the name at N belongs to the kind N.
#[pyfunction]
pub fn tcp_event_kinds() -> [&'static str; Kind::NAMES.len()] {
    Kind::NAMES
}

/// `otherwise`: how it works without BPF.
pub fn refused(py: Python<'_>, error: &EventsError, otherwise: &str) -> PyErr {
    let class = if matches!(error, EventsError::System { .. }) { "LabError" } else { "MissingCapability" };
    let way_out = match error {
        EventsError::NotAllowed(_) | EventsError::NoBtf(_) | EventsError::Refused { .. } => {
            format!("; {otherwise} connections are sampled, which needs none of this")
        }
        EventsError::Diag(_) | EventsError::System { .. } => String::new(),
    };
    exception(py, class, &format!("{}{way_out}", describe(error)))
}
