//! The gateway of a tunnel; see `weirlab.lab.dut.tunnels.gateway`.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weir_engine::gateway::{Gateway, GatewayError, Options, Outside};
use weir_esp::Suite;

use crate::errors::{describe, exception, translate_port};
use crate::esp::{Given, refusal};

/// Interface, the gateway's address there, the neighbour's, and the MTU.
type GivenOutside = (String, [u8; 6], [u8; 6], usize);
/// SPI, encryption key and authentication key.
type GivenKeys = (u32, Vec<u8>, Vec<u8>);

/// Carries packets until a signal comes.
#[pyfunction]
#[pyo3(signature = (*, inside, outside, suite, ends, sending, receiving, iv_key, natt, window, counters))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
pub fn run_esp_gateway(
    py: Python<'_>,
    inside: String,
    outside: GivenOutside,
    suite: &str,
    ends: (String, String),
    sending: GivenKeys,
    receiving: GivenKeys,
    iv_key: [u8; 16],
    natt: Option<(u16, u16)>,
    window: usize,
    counters: PathBuf,
) -> PyResult<()> {
    let (interface, address, neighbour, mtu_bytes) = outside;
    let (here, there) = ends;
    let sending = given(suite, sending, (here.clone(), there.clone()), natt)?;
    let receiving = given(suite, receiving, (there, here), natt)?;
    let options = Options {
        inside,
        outside: Outside { interface, address, neighbour, mtu_bytes },
        sending: sending.association(),
        receiving: receiving.association(),
        iv_key,
        window,
        counters,
    };
    let mut gateway = Gateway::open(&options).map_err(|e| translate(py, &e))?;
    let mut signal = None;
    let ended = py.detach(|| {
        gateway.run(&mut || {
            signal = Python::attach(|py| py.check_signals()).err();
            signal.is_some()
        })
    });
    match signal {
        Some(signal) => Err(signal),
        None => ended.map_err(|e| translate(py, &e)),
    }
}

/// Lengths in bytes that a suite's encryption key may have, salt included, and that of its authentication key.
#[pyfunction]
pub fn esp_key_bytes(suite: &str) -> PyResult<(Vec<usize>, usize)> {
    let unknown = || PyValueError::new_err(format!("there is no cipher suite {suite:?}"));
    let suite = Suite::from_name(suite).ok_or_else(unknown)?;
    Ok((suite.encryption_key_lens().to_vec(), suite.authentication_key_len()))
}

fn given(
    suite: &str,
    (spi, encryption_key, authentication_key): GivenKeys,
    tunnel: (String, String),
    natt: Option<(u16, u16)>,
) -> PyResult<Given> {
    Given::new(spi, suite, encryption_key, authentication_key, Some(tunnel), natt, false)
}

fn translate(py: Python<'_>, error: &GatewayError) -> PyErr {
    match error {
        GatewayError::Port(error) => translate_port(py, error),
        GatewayError::Association(error) => refusal(error),
        GatewayError::Tun { .. } => exception(py, "MissingCapability", &describe(error)),
        GatewayError::Transport | GatewayError::Counters { .. } | GatewayError::Gone { .. } => {
            exception(py, "LabError", &describe(error))
        }
    }
}
