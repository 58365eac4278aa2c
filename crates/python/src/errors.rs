//! Rust's errors as Weir's Python exceptions; the only place that knows both.

use std::path::Path;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use weir_engine::tap::TapError;
use weir_engine::{EngineError, PortError};

/// The matching exception of `weirlab.base.errors`.
pub fn translate(py: Python<'_>, error: &EngineError) -> PyErr {
    let class = match error {
        EngineError::Plan(_) => "InputError",
        EngineError::Netns { .. } | EngineError::Interface { .. } | EngineError::NotEthernet { .. } => {
            "LabError"
        }
        EngineError::Xdp(_) | EngineError::Socket { .. } | EngineError::Unanswered => "MissingCapability",
        EngineError::Interrupted => return PyErr::new::<pyo3::exceptions::PyKeyboardInterrupt, _>(()),
    };
    exception(py, class, &describe(error))
}

/// The matching exception of `weirlab.base.errors`.
pub fn translate_tap(py: Python<'_>, error: &TapError) -> PyErr {
    let class = match error {
        TapError::Option(_) => "InputError",
        TapError::Refused { .. } | TapError::Xdp(_) => "MissingCapability",
        TapError::System { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            "MissingCapability"
        }
        TapError::Port(error) => return translate_port(py, error),
        TapError::Same { .. } | TapError::Taken { .. } | TapError::System { .. } => "LabError",
    };
    exception(py, class, &describe(error))
}

/// The matching exception of `weirlab.base.errors`.
pub fn translate_port(py: Python<'_>, error: &PortError) -> PyErr {
    let class = match error {
        PortError::Socket { .. } => "MissingCapability",
        PortError::Netns { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            "MissingCapability"
        }
        PortError::Netns { .. }
        | PortError::Missing { .. }
        | PortError::Down { .. }
        | PortError::NotEthernet { .. } => "LabError",
    };
    exception(py, class, &describe(error))
}

/// An exception of `weirlab.base.errors`.
pub fn exception(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let found = py.import("weirlab.base.errors").and_then(|module| module.getattr(class));
    match found.and_then(|class| class.call1((message,))) {
        Ok(exception) => PyErr::from_value(exception),
        Err(e) => e,
    }
}

/// The error for a `path` that cannot be written, in the words of `weirlab.base.files`.
pub fn unwritten(py: Python<'_>, path: &Path, reason: &str) -> PyErr {
    let reason = PyRuntimeError::new_err(reason.to_owned());
    let found = py.import("weirlab.base.files").and_then(|module| {
        let path = py.import("pathlib")?.getattr("Path")?.call1((path,))?;
        module.call_method1("explain", (path, "write", reason.value(py)))
    });
    found.map_or_else(|error| error, PyErr::from_value)
}

/// The message with its causes: "what: why: why".
pub fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
