//! Two endpoints of calls on this machine; see `weirlab.calls.ipsec.endpoints`.

use std::path::Path;

use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_engine::Endpoint;
use weir_engine::endpoints::{Calls, EndpointsError, Log, Options, Place, Way, talk, try_bypass};

use crate::NETNS_DIR;
use crate::errors::{describe, exception};
use crate::esp::{Given, refusal};

/// Name of the namespace, interface, its Ethernet and its IPv4 address, CPU.
type GivenPlace = (String, String, [u8; 6], String, usize);
/// SPI, encryption key, authentication key.
type GivenKeys = (u32, Vec<u8>, Vec<u8>);

/// Lets two endpoints talk. Arrays of times have the shape (calls, packets); 0: there was none.
///
/// With a suite, packets have ESP in UDP, in transport mode or in `tunnel` mode.
#[pyfunction]
#[pyo3(signature = (*, bypass, real_time, places, period_ns, packets, payload_bytes, payload_type, stamp_units, phases_ns,
    linger_ns, suite=None, tunnel=false, port=4500, keys=None, iv_key=[0; 16]))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
pub fn talk_between<'py>(
    py: Python<'py>,
    bypass: bool,
    real_time: bool,
    places: [GivenPlace; 2],
    period_ns: u64,
    packets: u32,
    payload_bytes: usize,
    payload_type: u8,
    stamp_units: u32,
    phases_ns: [Vec<u64>; 2],
    linger_ns: u64,
    suite: Option<&str>,
    tunnel: bool,
    port: u16,
    keys: Option<[GivenKeys; 2]>,
    iv_key: [u8; 16],
) -> PyResult<Bound<'py, PyDict>> {
    let addresses = [&places[0].3, &places[1].3].map(Clone::clone);
    let given = match (suite, keys) {
        (Some(suite), Some(keys)) => Some(given(suite, keys, tunnel, port, &addresses)?),
        (None, None) => None,
        _ => return Err(PyValueError::new_err("a suite needs keys, and keys need a suite")),
    };
    let calls = Calls { period_ns, packets, payload_bytes, payload_type, stamp_units, phases_ns };
    let [one, other] = places;
    let options = Options {
        way: if bypass { Way::Bypass } else { Way::Sockets },
        real_time,
        places: [place(one)?, place(other)?],
        calls: &calls,
        associations: given.as_ref().map(|both| both.each_ref().map(Given::association)),
        iv_key,
        linger_ns,
    };
    let mut signal = None;
    let talked = py.detach(|| {
        talk(&options, &mut || {
            signal = signal.take().or_else(|| Python::attach(|py| py.check_signals()).err());
            signal.is_some()
        })
    });
    let outcome = match (talked, signal) {
        (_, Some(signal)) => return Err(signal),
        (Err(error), None) => return Err(translate(py, &error)),
        (Ok(outcome), None) => outcome,
    };
    let dict = PyDict::new(py);
    fields!(dict, outcome; begins_ns, real_time_refused, zero_copy, native, polls, naps);
    let [one, other] = outcome.logs;
    dict.set_item("logs", (log(py, one, &calls)?, log(py, other, &calls)?))?;
    Ok(dict)
}

/// Whether the XDP program of a bypassing endpoint runs in the interface's driver, and whether its socket is in
/// zero-copy mode; tried in the calling thread's namespace.
#[pyfunction]
pub fn try_af_xdp(py: Python<'_>, interface: &str) -> PyResult<(bool, bool)> {
    let tried = try_bypass(interface).map_err(|error| translate(py, &error))?;
    Ok((tried.native, tried.zero_copy))
}

fn place((netns, interface, mac, address, cpu): GivenPlace) -> PyResult<Place> {
    let wrong = |_| PyValueError::new_err(format!("{address:?} is not an IPv4 address"));
    Ok(Place {
        interface: Endpoint { netns: Some(Path::new(NETNS_DIR).join(netns)), interface },
        mac,
        address: address.parse().map_err(wrong)?,
        cpu,
    })
}

fn given(
    suite: &str,
    [there, back]: [GivenKeys; 2],
    tunnel: bool,
    port: u16,
    [one, other]: &[String; 2],
) -> PyResult<[Given; 2]> {
    let of = |(spi, encryption, authentication): GivenKeys, from: &String, to: &String| {
        let tunnel = tunnel.then(|| (from.clone(), to.clone()));
        Given::new(spi, suite, encryption, authentication, tunnel, Some((port, port)), false)
    };
    Ok([of(there, one, other)?, of(back, other, one)?])
}

fn log<'py>(py: Python<'py>, log: Log, calls: &Calls) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    fields!(dict, log; refused, duplicated, damaged, foreign, shortest_bytes, longest_bytes, cpu_ns, work_ns, turns);
    let shape = [calls.count(), calls.packets as usize];
    dict.set_item("sent_ns", PyArray1::from_vec(py, log.sent_ns).reshape(shape)?)?;
    dict.set_item("heard_ns", PyArray1::from_vec(py, log.heard_ns).reshape(shape)?)?;
    Ok(dict)
}

fn translate(py: Python<'_>, error: &EndpointsError) -> PyErr {
    let class = match error {
        EndpointsError::Calls(_) => "InputError",
        EndpointsError::Association(error) => return refusal(error),
        EndpointsError::Encapsulation => return PyValueError::new_err(error.to_string()),
        EndpointsError::Bypass { .. } => "MissingCapability",
        EndpointsError::Netns { .. }
        | EndpointsError::Socket { .. }
        | EndpointsError::Cpu { .. }
        | EndpointsError::Lost { .. } => "LabError",
        EndpointsError::Interrupted => return PyKeyboardInterrupt::new_err(()),
    };
    exception(py, class, &describe(error))
}
