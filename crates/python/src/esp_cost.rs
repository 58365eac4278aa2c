//! `weir_engine::esp_cost` for Python.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weir_engine::esp_cost::{CostWay, EspCost, PacketSet};
use weir_esp::Suite;

use crate::esp::refusal;

/// Times packets with ESP; keys and numbers go on from round to round.
#[pyclass(module = "weirlab._engine")]
pub struct EspCosts {
    set: PacketSet,
    associations: usize,
    cases: HashMap<(String, bool), EspCost>,
}

#[pymethods]
impl EspCosts {
    #[new]
    #[pyo3(signature = (*, packets, associations=1))]
    fn new(packets: usize, associations: usize) -> PyResult<Self> {
        if packets == 0 || associations == 0 {
            return Err(PyValueError::new_err("at least one packet and one association are needed"));
        }
        Ok(Self { set: PacketSet::new(packets).map_err(refusal)?, associations, cases: HashMap::new() })
    }

    /// ns per packet in one round.
    #[pyo3(signature = (*, suite, tunnel, way, packet_bytes))]
    fn round(
        &mut self,
        py: Python<'_>,
        suite: &str,
        tunnel: bool,
        way: &str,
        packet_bytes: usize,
    ) -> PyResult<f64> {
        let unknown = |what: &str, name: &str| PyValueError::new_err(format!("there is no {what} {name:?}"));
        let chosen = Suite::from_name(suite).ok_or_else(|| unknown("cipher suite", suite))?;
        let way = CostWay::from_name(way).ok_or_else(|| unknown("way", way))?;
        let Self { set, associations, cases } = self;
        let cost = match cases.entry((suite.to_owned(), tunnel)) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(EspCost::new(chosen, tunnel, *associations).map_err(refusal)?)
            }
        };
        py.detach(|| cost.round(way, packet_bytes, set)).map_err(refusal)
    }
}
