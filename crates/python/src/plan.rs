//! `weirlab.traffic.schedule.Plan` as the engine's plan.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weir_engine::{Answering, Entry, NewFlows, Phase, Plan};
use weir_wire::{Addresses, L4};

use crate::media;

const FCS_BYTES: u16 = 4;
/// A sender at most this late makes up for it at once; at 1 Mpps that is a burst of 50 packets.
const CATCH_UP_NS: u64 = 50_000;
/// A device that still holds packets sends one at least this often, or says that it holds some.
const QUIET_NS: u64 = 100_000_000;
const STRAGGLER_NS: u64 = 10_000_000_000;

/// Reads the attributes of a plan.
pub fn extract(plan: &Bound<'_, PyAny>) -> PyResult<Plan> {
    let get = |name: &str| plan.getattr(name);
    let gap_ns: PyReadonlyArray1<'_, u32> = get("gap_ns")?.extract()?;
    let gap_frac: PyReadonlyArray1<'_, u16> = get("gap_frac")?.extract()?;
    let frame_bytes: PyReadonlyArray1<'_, u16> = get("frame_bytes")?.extract()?;
    let flow: PyReadonlyArray1<'_, u32> = get("flow")?.extract()?;
    let (gap_ns, gap_frac) = (gap_ns.as_slice()?, gap_frac.as_slice()?);
    let (frame_bytes, flow) = (frame_bytes.as_slice()?, flow.as_slice()?);
    let n = gap_ns.len();
    if gap_frac.len() != n || frame_bytes.len() != n || flow.len() != n {
        return Err(PyValueError::new_err("the arrays of a plan differ in length"));
    }
    let entries = (0..n).map(|i| Entry {
        gap_ns: gap_ns[i],
        gap_frac: gap_frac[i],
        length: frame_bytes[i].saturating_sub(FCS_BYTES),
        flow: flow[i],
    });
    let phases: Vec<(u64, u32, u32)> = get("phases")?.extract()?;
    let phases =
        phases.into_iter().map(|(end_ns, first_entry, n_entries)| Phase { end_ns, first_entry, n_entries });
    Ok(Plan {
        entries: entries.collect(),
        phases: phases.collect(),
        paced: get("paced")?.extract()?,
        warmup_ns: get("warmup_ns")?.extract()?,
        duration_ns: get("duration_ns")?.extract()?,
        bin_ns: get("bin_ns")?.extract()?,
        windowed: get("windowed")?.extract()?,
        flows: flows(&get("flows")?, get("ip")?.extract()?)?,
        l4: match get("l4")?.extract::<String>()?.as_str() {
            "udp" => L4::Udp,
            "tcp" => L4::Tcp,
            other => return Err(PyValueError::new_err(format!("l4 {other:?}: expected udp or tcp"))),
        },
        skip: 0,
        catch_up_ns: CATCH_UP_NS,
        quiet_ns: QUIET_NS,
        straggler_ns: STRAGGLER_NS,
        media: match get("media")? {
            media if media.is_none() => None,
            media => Some(media::extract(&media)?),
        },
        answers: match get("answers")? {
            answers if answers.is_none() => None,
            answers => Some(answering(&answers)?),
        },
    })
}

fn answering(answers: &Bound<'_, PyAny>) -> PyResult<Answering> {
    let new_flows = match answers.getattr("new_flows")? {
        new if new.is_none() => None,
        new => Some(NewFlows {
            hosts: new.getattr("hosts")?.extract()?,
            host: new.getattr("host")?.extract()?,
            ports: new.getattr("ports")?.extract()?,
            port: new.getattr("port")?.extract()?,
        }),
    };
    Ok(Answering { first: answers.getattr("rounds")?.extract()?, new_flows })
}

fn flows(flows: &Bound<'_, PyAny>, ip: u8) -> PyResult<Vec<Addresses>> {
    let src_ip: PyReadonlyArray2<'_, u8> = flows.getattr("src_ip")?.extract()?;
    let dst_ip: PyReadonlyArray2<'_, u8> = flows.getattr("dst_ip")?.extract()?;
    let src_port: PyReadonlyArray1<'_, u16> = flows.getattr("src_port")?.extract()?;
    let dst_port: PyReadonlyArray1<'_, u16> = flows.getattr("dst_port")?.extract()?;
    let addresses = src_ip.as_slice()?.chunks_exact(16).zip(dst_ip.as_slice()?.chunks_exact(16));
    let ports = src_port.as_slice()?.iter().zip(dst_port.as_slice()?);
    addresses
        .zip(ports)
        .map(|((src, dst), (&src_port, &dst_port))| {
            Ok(Addresses { src_ip: address(src, ip)?, dst_ip: address(dst, ip)?, src_port, dst_port })
        })
        .collect()
}

fn address(bytes: &[u8], ip: u8) -> PyResult<IpAddr> {
    let short = || PyValueError::new_err("an address of a flow has fewer than 16 bytes");
    match ip {
        4 => Ok(Ipv4Addr::from(*bytes.first_chunk::<4>().ok_or_else(short)?).into()),
        6 => Ok(Ipv6Addr::from(*bytes.first_chunk::<16>().ok_or_else(short)?).into()),
        other => Err(PyValueError::new_err(format!("IP version {other}: expected 4 or 6"))),
    }
}
