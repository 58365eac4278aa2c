//! How much a Parquet file holds.

use std::collections::HashSet;
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, RawFd};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use weir_tables::extent::{Extent, ExtentError, extent};

/// Rows of a Parquet file, and about how many bytes they take when decoded; see `weirlab.store.parquet`.
///
/// `source` is the file's bytes, or the descriptor of an open file; `columns` names those that count, None all.
#[pyfunction]
#[pyo3(signature = (source, columns=None))]
pub fn parquet_extent(
    py: Python<'_>,
    source: Source,
    columns: Option<HashSet<String>>,
) -> PyResult<(u64, u64)> {
    let wanted = |name: &[u8]| {
        columns.as_ref().is_none_or(|known| str::from_utf8(name).is_ok_and(|name| known.contains(name)))
    };
    let found = py.detach(|| match &source {
        // SAFETY: the caller keeps the descriptor open during the call, and it is not closed here.
        Source::Descriptor(fd) => extent(&*ManuallyDrop::new(unsafe { File::from_raw_fd(*fd) }), wanted),
        Source::Bytes(bytes) => extent::<[u8]>(bytes, wanted),
    });
    match found {
        Ok(Extent { rows, bytes }) => Ok((rows, bytes)),
        Err(ExtentError::Read(error)) => Err(error.into()),
        Err(error) => Err(PyValueError::new_err(error.to_string())),
    }
}

#[derive(FromPyObject)]
pub enum Source {
    Descriptor(RawFd),
    Bytes(PyBackedBytes),
}
