//! TCP connections and bulk transfers; see `weirlab.transfers.tcp`.

mod bulk;
mod events;
mod recording;
mod watch;

use std::net::{IpAddr, SocketAddr};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use weir_tcp::diag::{Connection, Diag, DiagError, Id, State};
use weir_tcp::fields::{FIELDS, Field};
use weir_tcp::option::OPTIONS;
use weir_tcp::process::{Process, owners};
use weir_tcp::{Congestion, Info, Queues, Sample, this_thread};

use crate::errors::{describe, exception};

/// Adds everything about TCP to the module.
pub fn add_to(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<bulk::TcpClient>()?;
    m.add_class::<bulk::TcpServer>()?;
    m.add_class::<events::TcpEvents>()?;
    m.add_class::<watch::TcpWatcher>()?;
    m.add_function(wrap_pyfunction!(events::tcp_event_fields, m)?)?;
    m.add_function(wrap_pyfunction!(events::tcp_event_kinds, m)?)?;
    m.add_function(wrap_pyfunction!(tcp_connections, m)?)?;
    m.add_function(wrap_pyfunction!(tcp_fields, m)?)?;
    m.add_function(wrap_pyfunction!(tcp_limits, m)?)?;
    m.add_function(wrap_pyfunction!(tcp_options, m)?)?;
    m.add_function(wrap_pyfunction!(tcp_sample, m)?)?;
    m.add_function(wrap_pyfunction!(tcp_states, m)?)
}

/// What the kernel reports about a socket of this process, and how long the calling thread has waited for a CPU.
///
/// `INET_DIAG` from another thread takes the socket's lock from the thread that moves data.
#[pyfunction]
fn tcp_sample(py: Python<'_>, fd: i32) -> PyResult<(Bound<'_, PyDict>, Option<u64>)> {
    let info = Info::of(&fd)?;
    let (queues, congestion) = (Queues::of(&fd, Some(this_thread())), Congestion::of(&fd));
    let read =
        |field: &Field| info.get(field).or_else(|| queues.get(field)).or_else(|| congestion.get(field));
    let fields = fields_dict(py, read)?;
    Ok((fields, queues.waited_ns))
}

/// Every quantity that the kernel reports about a connection.
#[pyfunction]
fn tcp_fields(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for field in FIELDS {
        list.append(field_dict(py, field)?)?;
    }
    Ok(list)
}

fn field_dict<'py>(py: Python<'py>, field: &Field) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", field.name)?;
    dict.set_item("kernel_name", field.kernel_name)?;
    dict.set_item("unit", field.unit.name())?;
    dict.set_item("source", field.source.name())?;
    dict.set_item("since", field.since)?;
    dict.set_item("about", field.about)?;
    dict.set_item("by_bpf", field.is_by_bpf())?;
    Ok(dict)
}

/// Values that Python repeats for its help: a test compares them.
#[pyfunction]
fn tcp_limits(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("port", weir_tcp::bulk::PORT)?;
    dict.set_item("least_block_bytes", weir_tcp::bulk::HEADER_BYTES)?;
    dict.set_item("most_block_bytes", weir_tcp::control::MOST_BLOCK_BYTES)?;
    dict.set_item("most_connections", weir_tcp::control::MOST_CONNECTIONS)?;
    dict.set_item("most_watched", weir_tcp::watch::MOST_CONNECTIONS)?;
    Ok(dict)
}

/// Names of the states of a connection; the name at N belongs to the state N.
#[pyfunction]
fn tcp_states() -> [&'static str; State::NAMES.len()] {
    State::NAMES
}

/// Names of the socket options that can be set by name.
#[pyfunction]
fn tcp_options() -> Vec<&'static str> {
    OPTIONS.iter().map(|(name, ..)| *name).collect()
}

/// The TCP sockets of this network namespace.
#[pyfunction]
fn tcp_connections(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let found = py.detach(|| Diag::open()?.all(u32::MAX, 0, 0)).map_err(|e| refused(py, &e))?;
    let owners = py.detach(owners);
    let list = PyList::empty(py);
    for connection in &found {
        list.append(connection_dict(py, connection, owners.get(&connection.inode))?)?;
    }
    Ok(list)
}

fn connection_dict<'py>(
    py: Python<'py>,
    connection: &Connection,
    owner: Option<&Process>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let Connection { id, state, uid, inode, congestion, sample } = connection;
    dict.set_item("local", end(py, id.local)?)?;
    dict.set_item("remote", end(py, id.remote)?)?;
    dict.set_item("state", State::name(*state))?;
    dict.set_item("uid", uid)?;
    dict.set_item("inode", inode)?;
    dict.set_item("cookie", id.cookie)?;
    dict.set_item("pid", owner.map(|owner| owner.pid))?;
    dict.set_item("process", owner.map(|owner| &owner.name))?;
    dict.set_item("congestion", congestion)?;
    dict.set_item("fields", sample_dict(py, sample)?)?;
    Ok(dict)
}

/// Address and port, in their usual form.
fn end(py: Python<'_>, end: SocketAddr) -> PyResult<Bound<'_, PyTuple>> {
    let (address, port): (IpAddr, u16) = Id::plain(end);
    (address.to_string(), port).into_pyobject(py)
}

/// The existing fields, by name.
fn sample_dict<'py>(py: Python<'py>, sample: &Sample) -> PyResult<Bound<'py, PyDict>> {
    fields_dict(py, |field| sample.get(field))
}

fn info_dict<'py>(py: Python<'py>, info: &Info) -> PyResult<Bound<'py, PyDict>> {
    fields_dict(py, |field| info.get(field))
}

fn fields_dict<'py>(
    py: Python<'py>,
    get: impl Fn(&'static Field) -> Option<u64>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for field in FIELDS {
        if let Some(value) = get(field) {
            dict.set_item(field.name, value)?;
        }
    }
    Ok(dict)
}

fn refused(py: Python<'_>, error: &DiagError) -> PyErr {
    exception(py, "MissingCapability", &describe(error))
}
