//! `weirlab.traffic.schedule.Media` as the engine's.

use std::num::NonZeroU8;

use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weir_engine::{Impairment, Media, MediaFlow, Packet};
use weir_wire::{APP_HEADER_MAX, Kind};

/// As `schedule.LOSE`: numbered, but not sent.
const LOSE: u8 = 0xff;

/// Reads the attributes of what the packets of calls carry.
pub fn extract(media: &Bound<'_, PyAny>) -> PyResult<Media> {
    let get = |name: &str| media.getattr(name);
    let payload_bytes: PyReadonlyArray1<'_, u8> = get("payload_bytes")?.extract()?;
    let payload_start: PyReadonlyArray1<'_, u32> = get("payload_start")?.extract()?;
    Ok(Media {
        packets: packets(media)?,
        flows: flows(media)?,
        payload_bytes: payload_bytes.as_slice()?.to_vec(),
        payload_start: payload_start.as_slice()?.to_vec(),
    })
}

fn packets(media: &Bound<'_, PyAny>) -> PyResult<Vec<Packet>> {
    let get = |name: &str| media.getattr(name);
    let kind: PyReadonlyArray1<'_, u8> = get("kind")?.extract()?;
    let stamp: PyReadonlyArray1<'_, u32> = get("stamp")?.extract()?;
    let marker: PyReadonlyArray1<'_, bool> = get("marker")?.extract()?;
    let payload: PyReadonlyArray1<'_, u32> = get("payload")?.extract()?;
    let impair: Option<PyReadonlyArray1<'_, u8>> = get("impair")?.extract()?;
    let (kind, stamp) = (kind.as_slice()?, stamp.as_slice()?);
    let (marker, payload) = (marker.as_slice()?, payload.as_slice()?);
    let impair = impair.as_ref().map(|impair| impair.as_slice()).transpose()?;
    let n = kind.len();
    if [stamp.len(), marker.len(), payload.len(), impair.map_or(n, <[u8]>::len)] != [n; 4] {
        return Err(PyValueError::new_err("the arrays of what packets carry differ in length"));
    }
    let packet = |i: usize| {
        Ok(Packet {
            stamp: stamp[i],
            payload: payload[i],
            kind: kind_of(kind[i])?,
            marker: marker[i],
            impairment: match impair.map_or(0, |impair| impair[i]) {
                LOSE => Impairment::Lose,
                back => NonZeroU8::new(back).map_or(Impairment::None, Impairment::Again),
            },
        })
    };
    (0..n).map(packet).collect()
}

/// As `schedule.PACKET_KINDS` numbers them.
fn kind_of(number: u8) -> PyResult<Kind> {
    match number {
        1 => Ok(Kind::Rtp),
        2 => Ok(Kind::Iax2Mini),
        3 => Ok(Kind::Iax2Meta),
        4 => Ok(Kind::Raw),
        other => Err(PyValueError::new_err(format!("packet of kind {other}: expected 1 to 4"))),
    }
}

fn flows(media: &Bound<'_, PyAny>) -> PyResult<Vec<MediaFlow>> {
    let header: PyReadonlyArray2<'_, u8> = media.getattr("header")?.extract()?;
    let header_bytes: PyReadonlyArray1<'_, u8> = media.getattr("header_bytes")?.extract()?;
    let back: PyReadonlyArray1<'_, bool> = media.getattr("flows")?.getattr("back")?.extract()?;
    let (header, header_bytes, back) = (header.as_slice()?, header_bytes.as_slice()?, back.as_slice()?);
    let rows = header.as_chunks::<APP_HEADER_MAX>().0;
    if rows.len() != back.len() || header_bytes.len() != back.len() {
        return Err(PyValueError::new_err("the arrays of what flows carry differ in length"));
    }
    let flows = rows.iter().zip(header_bytes).zip(back);
    Ok(flows.map(|((&header, &header_len), &back)| MediaFlow { header, header_len, back }).collect())
}
