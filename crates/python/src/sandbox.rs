//! Takes rights away from this process; see `weirlab.base.confinement`.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weir_sandbox::{Calls, Confinement};

use crate::errors::{describe, exception};

/// Adds everything about confinement to the module.
pub fn add_to(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(confine, m)?)
}

/// Confines this process for good; returns each measure with the reason why it is not in force, or None.
#[pyfunction]
#[pyo3(signature = (*, user, view, read, read_as_owner, write, network, calls))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
fn confine(
    py: Python<'_>,
    user: Option<u32>,
    view: bool,
    read: Vec<PathBuf>,
    read_as_owner: Vec<PathBuf>,
    write: Vec<PathBuf>,
    network: bool,
    calls: &str,
) -> PyResult<Vec<(&'static str, Option<String>)>> {
    let calls = match calls {
        "all" => Calls::All,
        "files" => Calls::Files,
        "drawing" => Calls::Drawing,
        "service" => Calls::Service,
        other => {
            let message = format!("calls {other:?}: expected all, files, drawing or service");
            return Err(PyValueError::new_err(message));
        }
    };
    let confinement = Confinement { user, view, read, read_as_owner, write, network, calls };
    let report =
        confinement.enter().map_err(|error| exception(py, "MissingCapability", &describe(&error)))?;
    Ok(report.into_iter().map(|(measure, refusal)| (measure.name(), refusal)).collect())
}
