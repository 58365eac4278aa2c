//! Facts as Python's dicts and lists: without NumPy, which takes longer to import than many a capture to read.

use pyo3::exceptions::{PyIndexError, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyList};
use weir_capture::Interface;
use weir_trace::analysis::{Facts, File};
use weir_trace::esp::Flow;
use weir_trace::tcp::{Connection, Endpoint, Side, Summary};

use super::kept::{Kept, Packed};
use crate::trace::{format_name, interface_name, measured, opaque};

pub fn to_dict<'py>(
    py: Python<'py>,
    facts: &Facts,
    files: &[File],
    mut kept: Kept,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("capture", capture(py, facts, files)?)?;
    let (connections, left_out) = kept.connections();
    dict.set_item("connections", Connections { connections, numbers: kept.numbers() })?;
    dict.set_item("connections_left_out", left_out)?;
    let (streams, left_out) = kept.streams();
    dict.set_item("streams", list(py, &streams, measured)?)?;
    dict.set_item("streams_left_out", left_out)?;
    dict.set_item("esp", list(py, &facts.esp, esp)?)?;
    dict.set_item("esp_left_out", facts.esp_left_out)?;
    Ok(dict)
}

/// Connections as dicts, each made anew when it is asked for: a dict takes a hundred times as much memory.
#[pyclass(sequence, frozen)]
pub struct Connections {
    connections: Vec<Packed>,
    /// Of all connections of a share, those that are left out, too; empty without shares.
    numbers: Vec<u32>,
}

#[pymethods]
impl Connections {
    /// What :meth:`merged` needs of a share.
    fn packed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = postcard::to_allocvec(&(&self.connections, &self.numbers)).map_err(broken)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The connections of all shares, numbered as without shares, and how many are left out.
    #[staticmethod]
    fn merged(shares: Vec<PyBackedBytes>, keep: usize) -> PyResult<(Self, u64)> {
        let (mut kept, mut numbers) = (Kept::new(keep, false), Vec::new());
        for share in shares {
            let (connections, of_share): (Vec<Packed>, Vec<u32>) =
                postcard::from_bytes(&share).map_err(broken)?;
            connections.into_iter().for_each(|connection| kept.put(connection));
            numbers.extend(of_share);
        }
        numbers.sort_unstable();
        let (mut connections, _) = kept.connections();
        for connection in &mut connections {
            let number = numbers.partition_point(|number| *number < connection.id());
            connection.renumber(number as u32).map_err(broken)?;
        }
        let left_out = (numbers.len() - connections.len()) as u64;
        Ok((Self { connections, numbers: Vec::new() }, left_out))
    }

    const fn __len__(&self) -> usize {
        self.connections.len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyDict>> {
        let found = self.connections.get(at).ok_or_else(|| PyIndexError::new_err("no such connection"))?;
        let found = found.facts().map_err(broken)?;
        connection(py, &found)
    }
}

fn broken(error: postcard::Error) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

fn list<'py, T>(
    py: Python<'py>,
    items: &[T],
    each: impl Fn(Python<'py>, &T) -> PyResult<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for item in items {
        list.append(each(py, item)?)?;
    }
    Ok(list)
}

fn capture<'py>(py: Python<'py>, facts: &Facts, files: &[File]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let counts = &facts.counts;
    dict.set_item("files", list(py, files, file)?)?;
    fields!(dict, counts; packets, origin_ns, selected, bytes, first_ns, last_ns, truncated, tcp, udp, esp);
    fields!(dict, counts; other_ip, not_ip, malformed, unknown_link);
    dict.set_item("opaque", opaque(py, &counts.opaque)?)?;
    dict.set_item("unknown_links", counts.unknown_links.iter().copied().collect::<Vec<_>>())?;
    let fragments = &facts.fragments;
    fields!(dict, fragments; fragments);
    dict.set_item("reassembled", fragments.datagrams)?;
    dict.set_item("fragments_dropped", {
        let lost = PyDict::new(py);
        fields!(lost, fragments; duplicates, overlapping, expired, crowded_out, malformed);
        lost
    })?;
    let voice = &facts.voice;
    fields!(dict, voice; rtcp, rtcp_unreadable, sip);
    dict.set_item("iax2_signalling", voice.iax2)?;
    dict.set_item("other_udp", voice.udp)?;
    dict.set_item("timeless", files.iter().map(|file| file.timeless).sum::<u64>())?;
    dict.set_item("misdated", files.iter().map(|file| file.misdated).sum::<u64>())?;
    dict.set_item("backwards", files.iter().map(|file| file.backwards).sum::<u64>())?;
    dict.set_item("redated", files.iter().map(|file| file.redated).sum::<u64>())?;
    dict.set_item("cut_short", files.iter().any(|file| file.cut_short))?;
    dict.set_item("tcp_limits", {
        let limits = PyDict::new(py);
        let tcp = &facts.tcp;
        fields!(limits, tcp; truncated, backwards, impossible_acks, evicted, forgotten);
        limits
    })?;
    Ok(dict)
}

fn file<'py>(py: Python<'py>, file: &File) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("format", format_name(file.format, file.compression))?;
    fields!(dict, file; packets, cut_short, timeless, misdated, backwards, redated);
    dict.set_item("compression", file.compression.name())?;
    dict.set_item("first_redated", file.first_redated.map(|first| (first.number, first.off_ns)))?;
    dict.set_item("interfaces", list(py, &file.interfaces, interface)?)?;
    Ok(dict)
}

fn interface<'py>(py: Python<'py>, interface: &Interface) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    fields!(dict, interface; section, id, packets, snap_bytes);
    dict.set_item("name", &interface.name)?;
    dict.set_item("description", &interface.description)?;
    dict.set_item("link", interface.link.0)?;
    dict.set_item("lost", interface.lost())?;
    Ok(dict)
}

fn connection<'py>(py: Python<'py>, connection: &Connection) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    fields!(dict, connection; id, first_ns, last_ns, handshake_ns, idle_max_ns);
    dict.set_item(intern!(py, "vlan"), connection.vlan())?;
    dict.set_item(intern!(py, "interface"), connection.interface_name())?;
    dict.set_item(intern!(py, "begin"), connection.begin.name())?;
    dict.set_item(intern!(py, "end"), connection.end.name())?;
    dict.set_item(intern!(py, "place"), connection.place.name())?;
    let [a, b] = &connection.sides;
    dict.set_item(intern!(py, "a"), side(py, &connection.a, a)?)?;
    dict.set_item(intern!(py, "b"), side(py, &connection.b, b)?)?;
    Ok(dict)
}

fn side<'py>(py: Python<'py>, end: &Endpoint, side: &Side) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item(intern!(py, "addr"), end.addr.to_string())?;
    dict.set_item(intern!(py, "port"), end.port)?;
    fields!(dict, side; packets, link_bytes, data_packets, data_bytes, unique_bytes, pure_acks, data_ns);
    fields!(dict, side; payload_max, syns, fins, resets, out_of_order, copies, unseen_bytes, keep_alives);
    fields!(dict, side; window_probes, duplicate_acks, sack_blocks, dsacks, window, zero_windows);
    fields!(dict, side; zero_window_ns, window_full, flight_max, flight_mean, idle_max_ns, congestion_marks);
    fields!(dict, side; renumbered, unanswered, unanswered_ns, unanswered_after_ns);
    fields!(dict, side; shut_ns, answers, answers_ns, answer_max_ns);
    let options = side.options.map(|options| {
        let offered = PyDict::new(py);
        fields!(offered, options; mss, window_scale, sack, timestamps);
        PyResult::Ok(offered)
    });
    dict.set_item(intern!(py, "options"), options.transpose()?)?;
    let repeated = PyDict::new(py);
    let causes = &side.retransmissions;
    fields!(repeated, causes; total, bytes, timeout, fast, tail_probe, handshake, unexplained);
    fields!(repeated, causes; fins, spurious);
    dict.set_item(intern!(py, "retransmissions"), repeated)?;
    dict.set_item(intern!(py, "rtt"), summary(py, &side.rtt)?)?;
    dict.set_item(intern!(py, "rtt_timestamp"), summary(py, &side.rtt_timestamp)?)?;
    Ok(dict)
}

/// An empty set has no least, greatest and mean.
fn summary<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let there = summary.count > 0;
    dict.set_item(intern!(py, "count"), summary.count)?;
    dict.set_item(intern!(py, "min_ns"), there.then_some(summary.min_ns))?;
    dict.set_item(intern!(py, "max_ns"), there.then_some(summary.max_ns))?;
    dict.set_item(intern!(py, "mean_ns"), there.then_some(summary.mean_ns))?;
    dict.set_item(intern!(py, "sd_ns"), there.then_some(summary.sd_ns))?;
    Ok(dict)
}

fn esp<'py>(py: Python<'py>, flow: &Flow) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let key = &flow.key;
    dict.set_item("src", key.src.to_string())?;
    dict.set_item("dst", key.dst.to_string())?;
    dict.set_item("vlan", key.tags.to_string())?;
    dict.set_item("interface", interface_name(key.interface))?;
    fields!(dict, key; spi, ports);
    fields!(dict, flow; packets, bytes, first_ns, last_ns, lost, reordered, copies, restarts);
    Ok(dict)
}
