//! An outcome as a dict of numbers and NumPy arrays.

use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_engine::{
    Backend, Bin, FlowOutcome, Frames, Heard, Outcome, PacketLog, TaskTime, Windows, bounds_ns,
};

/// The name that records use.
pub const fn backend_name(backend: &Backend) -> &'static str {
    match backend {
        Backend::Xdp(_) => "xdp",
        Backend::AfPacket => "af_packet",
        Backend::Sim => "sim",
    }
}

/// One key per field; see `weirlab.lab.engine.to_result`.
pub fn to_dict<'py>(py: Python<'py>, outcome: Outcome) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("backend", backend_name(&outcome.backend))?;
    let mode = match outcome.backend {
        Backend::Xdp(mode) => mode,
        _ => "",
    };
    dict.set_item("xdp_mode", mode)?;
    fields!(dict, outcome; record_start_ns, record_end_ns, sent, sent_warmup, first_departure_ns);
    fields!(dict, outcome; last_departure_ns, late_sum_ns, late_max_ns, slipped_ns, arrived, stray, moved);
    fields!(dict, outcome; receiver_dropped, first_arrival_ns, last_arrival_ns, longest_gap_ns);
    dict.set_item("histogram", histogram(py, &outcome.histogram)?)?;
    let answers = outcome.answers.as_ref().map(|found| {
        let dict = PyDict::new(py);
        fields!(dict, found; sent, received, delay_min_ns, delay_sum_ns, delay_max_ns, open_flows, sent_all, openings);
        dict.set_item("histogram", histogram(py, &found.histogram)?)?;
        PyResult::Ok(dict)
    });
    dict.set_item("answers", answers.transpose()?)?;
    dict.set_item("windows", outcome.windows.map(|found| windows(py, &found)).transpose()?)?;
    dict.set_item("series", series(py, &outcome.bins)?)?;
    let flows = flows(py, &outcome.flows)?;
    if let Some(log) = outcome.packets {
        let first_seq = outcome.flows.iter().map(|flow| u64::from(flow.first_seq));
        flows.set_item("first_seq", PyArray1::from_iter(py, first_seq))?;
        dict.set_item("packets", packets(py, log)?)?;
    }
    dict.set_item("flows", flows)?;
    Ok(dict)
}

/// Every frame of a plan, with the frames themselves in one array.
pub fn frames_to_dict(py: Python<'_>, frames: Frames) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("due_ns", PyArray1::from_vec(py, frames.due_ns))?;
    dict.set_item("length", PyArray1::from_vec(py, frames.length))?;
    dict.set_item("flow", PyArray1::from_vec(py, frames.flow))?;
    dict.set_item("bytes", PyArray1::from_vec(py, frames.bytes))?;
    Ok(dict)
}

/// What one CPU did while it was listened to.
pub fn heard_to_dict<'py>(py: Python<'py>, heard: &Heard) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    fields!(dict, heard; cpu, start_ns, end_ns, real_time);
    dict.set_item("gap_start_ns", PyArray1::from_iter(py, heard.gaps.iter().map(|gap| gap.start_ns)))?;
    dict.set_item("gap_ns", PyArray1::from_iter(py, heard.gaps.iter().map(|gap| gap.length_ns)))?;
    Ok(dict)
}

fn packets(py: Python<'_>, log: PacketLog) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("flow", PyArray1::from_vec(py, log.flow))?;
    dict.set_item("seq", PyArray1::from_vec(py, log.seq))?;
    dict.set_item("sent_ns", PyArray1::from_vec(py, log.sent_ns))?;
    dict.set_item("arrival_ns", PyArray1::from_vec(py, log.arrival_ns))?;
    dict.set_item("missed", log.missed)?;
    Ok(dict)
}

/// Bounds and counts of the non-empty buckets.
pub fn histogram<'py>(py: Python<'py>, buckets: &[(u32, u64)]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let bounds = buckets.iter().map(|(bucket, _)| bounds_ns(*bucket as usize));
    dict.set_item("lower_ns", PyArray1::from_iter(py, bounds.clone().map(|b| b.0)))?;
    dict.set_item("upper_ns", PyArray1::from_iter(py, bounds.map(|b| b.1)))?;
    dict.set_item("count", PyArray1::from_iter(py, buckets.iter().map(|b| b.1)))?;
    Ok(dict)
}

fn windows<'py>(py: Python<'py>, windows: &Windows) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let bounds = windows.buckets.iter().map(|bucket| bounds_ns(*bucket as usize));
    dict.set_item("lower_ns", PyArray1::from_iter(py, bounds.clone().map(|b| b.0)))?;
    dict.set_item("upper_ns", PyArray1::from_iter(py, bounds.map(|b| b.1)))?;
    dict.set_item("count", PyArray1::from_slice(py, &windows.counts))?;
    dict.set_item("end", PyArray1::from_slice(py, &windows.ends))?;
    let looks = PyDict::new(py);
    columns!(looks, windows.looks.iter(); at_ns, sender_stolen_ns, device_stolen_ns, device_clock_ns);
    for (name, field) in [("ran_ns", (|t| t.ran_ns) as fn(&TaskTime) -> u64), ("waited_ns", |t| t.waited_ns)]
    {
        let rows: Vec<Vec<u64>> = windows
            .looks
            .iter()
            .map(|look| look.tasks[..windows.n_watched].iter().map(field).collect())
            .collect();
        looks.set_item(name, PyArray2::from_vec2(py, &rows)?)?;
    }
    dict.set_item("looks", looks)?;
    Ok(dict)
}

fn series<'py>(py: Python<'py>, bins: &[Bin]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    columns!(dict, bins.iter(); sent, received, delay_sum_ns, delay_min_ns, delay_max_ns, ipdv_sum_ns);
    columns!(dict, bins.iter(); ipdv_count, late_max_ns, glances, others);
    Ok(dict)
}

fn flows<'py>(py: Python<'py>, flows: &[FlowOutcome]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    columns!(dict, flows.iter(); sent, received, duplicated, reordered, delay_min_ns, delay_sum_ns);
    columns!(dict, flows.iter(); delay_max_ns, ipdv_sum_ns, ipdv_count, longest_gap_ns, jitter_ns);
    Ok(dict)
}
