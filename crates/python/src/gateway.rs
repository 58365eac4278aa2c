//! The gateway of a tunnel; see `weirlab.lab.dut.tunnels.gateway`.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weir_engine::gateway::{Gateway, GatewayError, Lifetime, Options, Outside, Wish};
use weir_esp::{SECRET_LEN, Suite};

use crate::errors::{describe, exception, translate_port};
use crate::esp::{Given, refusal};

/// Interface, the gateway's address there, the neighbour's, and the MTU.
type GivenOutside = (String, [u8; 6], [u8; 6], usize);
/// SPI, encryption key, authentication key, and the secret of the associations that follow.
type GivenKeys = (u32, Vec<u8>, Vec<u8>, [u8; SECRET_LEN]);

/// Carries packets until the handler of a signal raises an exception.
#[pyfunction]
#[pyo3(signature = (*, inside, outside, suite, ends, sending, receiving, iv_key, natt, window, counters,
    rekey_packets=None, rekey_s=None, is_rekey_wanted=None))]
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
    rekey_packets: Option<NonZeroU64>,
    rekey_s: Option<f64>,
    is_rekey_wanted: Option<Py<PyAny>>,
) -> PyResult<()> {
    let (interface, address, neighbour, mtu_bytes) = outside;
    let (here, there) = ends;
    let time = rekey_s.map(Duration::try_from_secs_f64).transpose();
    let time = time.map_err(|_| PyValueError::new_err(format!("rekey_s {rekey_s:?} is no time")))?;
    let (sending, sending_secret) = given(suite, sending, (here.clone(), there.clone()), natt)?;
    let (receiving, receiving_secret) = given(suite, receiving, (there, here), natt)?;
    let options = Options {
        inside,
        outside: Outside { interface, address, neighbour, mtu_bytes },
        sending: sending.association(),
        receiving: receiving.association(),
        secrets: [&sending_secret, &receiving_secret],
        lifetime: Lifetime { packets: rekey_packets, time },
        iv_key,
        window,
        counters,
    };
    let mut gateway = Gateway::open(&options).map_err(|e| translate(py, &e))?;
    let mut raised = None;
    let ended = py.detach(|| {
        gateway.run(&mut || match Python::attach(|py| wish(py, is_rekey_wanted.as_ref())) {
            Ok(wish) => wish,
            Err(error) => {
                raised = Some(error);
                Wish::End
            }
        })
    });
    match raised {
        Some(error) => Err(error),
        None => ended.map_err(|e| translate(py, &e)),
    }
}

/// The wish expressed by signals, whose handlers run here.
fn wish(py: Python<'_>, is_rekey_wanted: Option<&Py<PyAny>>) -> PyResult<Wish> {
    py.check_signals()?;
    match is_rekey_wanted {
        Some(asked) if asked.call0(py)?.extract(py)? => Ok(Wish::Rekey),
        _ => Ok(Wish::Nothing),
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
    (spi, encryption_key, authentication_key, secret): GivenKeys,
    tunnel: (String, String),
    natt: Option<(u16, u16)>,
) -> PyResult<(Given, [u8; SECRET_LEN])> {
    let given = Given::new(spi, suite, encryption_key, authentication_key, Some(tunnel), natt, false)?;
    Ok((given, secret))
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
