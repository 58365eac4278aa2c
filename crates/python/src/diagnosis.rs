//! The numbers of a diagnosis; see `weirlab.diagnosis`.

use std::borrow::Cow;

use numpy::{Element, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_trace::timeline::{
    Flaw, Known, Packet, PathRtts, Place, Rtts, SackBlock, Timeline, stats, timeline,
};

type Column<'py, T> = PyReadonlyArray1<'py, T>;

/// A column; numbers of another width are converted.
fn column<'py, T: Element>(
    columns: &Bound<'py, PyDict>,
    name: &str,
    count: usize,
) -> PyResult<Column<'py, T>> {
    let array = columns.get_item(name)?.ok_or_else(|| PyValueError::new_err(format!("no column {name}")))?;
    let found: Column<'py, T> = match array.extract() {
        Ok(found) => found,
        Err(_) => array.call_method1("astype", (numpy::dtype::<T>(columns.py()),))?.extract()?,
    };
    if found.as_array().len() == count {
        Ok(found)
    } else {
        Err(PyValueError::new_err("the columns of packets differ in length"))
    }
}

fn packets(columns: &Bound<'_, PyDict>) -> PyResult<Vec<Packet>> {
    let count = columns.get_item("time_ns")?.map_or(Ok(0), |times| times.len())?;
    macro_rules! columns {
        ($($name:ident: $kind:ty),*) => {
            $(let $name: Column<'_, $kind> = column(columns, stringify!($name), count)?;
            let $name = $name.as_array();)*
        };
    }
    columns!(time_ns: i64, seq: i64, ack: i64, payload_bytes: u32, window_bytes: u32, tsval: f64, flags: u8);
    columns!(from_sender: bool, again: bool, probe: bool, timeout: bool);
    let packet = |at: usize| Packet {
        time_ns: time_ns[at],
        seq: seq[at],
        ack: ack[at],
        sacked_bytes: 0,
        payload_bytes: payload_bytes[at],
        window_bytes: window_bytes[at],
        tsval: tsval[at].is_finite().then_some(tsval[at] as u32),
        flags: flags[at],
        from_sender: from_sender[at],
        again: again[at],
        probe: probe[at],
        timeout: timeout[at],
    };
    Ok((0..count).map(packet).collect())
}

type BlockArrays<'py> = (Column<'py, i64>, Column<'py, i64>, Column<'py, i64>);

fn blocks((time_ns, left, right): &BlockArrays<'_>) -> Vec<SackBlock> {
    let columns = time_ns.as_array().into_iter().zip(left.as_array()).zip(right.as_array());
    columns.map(|((&time_ns, &left), &right)| SackBlock { time_ns, left, right }).collect()
}

type RttArrays<'py> = (Column<'py, i64>, Column<'py, i64>);

fn rtts((time_ns, rtt_ns): &RttArrays<'_>) -> Rtts {
    Rtts { time_ns: time_ns.as_array().to_vec(), rtt_ns: rtt_ns.as_array().to_vec() }
}

/// The columns of a sender's timeline. The columns of packets are taken out of their dict.
#[pyfunction]
#[pyo3(signature = (columns, *, place, mss_bytes, min_rtt_s, scaled, blocks, trips, behind, echoes))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
pub fn sender_timeline<'py>(
    py: Python<'py>,
    columns: &Bound<'py, PyDict>,
    place: &str,
    mss_bytes: i64,
    min_rtt_s: f64,
    scaled: bool,
    blocks: BlockArrays<'py>,
    trips: RttArrays<'py>,
    behind: RttArrays<'py>,
    echoes: RttArrays<'py>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let place = match place {
        "sender" => Place::Sender,
        "between" => Place::Between,
        "receiver" => Place::Receiver,
        other => return Err(PyValueError::new_err(format!("no place of captures: {other}"))),
    };
    let packets = packets(columns)?;
    // They take as much memory as the packets.
    columns.clear();
    let paths = PathRtts { trips: rtts(&trips), behind: rtts(&behind), echoes: rtts(&echoes) };
    let blocks = self::blocks(&blocks);
    let found =
        py.detach(|| timeline(packets, &blocks, Known { place, mss_bytes, min_rtt_s, scaled }, paths));
    found.map(|found| to_dict(py, found)).transpose()
}

fn to_dict(py: Python<'_>, found: Timeline) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    macro_rules! arrays {
        ($($name:ident),*) => {
            $(dict.set_item(stringify!($name), PyArray1::from_vec(py, found.$name))?;)*
        };
    }
    dict.set_item(
        "flaw",
        found.flaw.map(|flaw| match flaw {
            Flaw::NoAcks => "no_acks",
            Flaw::Clock => "clock",
            Flaw::TooMuch => "too_much",
            Flaw::Jump => "jump",
        }),
    )?;
    let timeouts = found.timeouts.map(|known| {
        let hole = known.black_hole;
        let hole = hole.map(|hole| (hole.passed_bytes, hole.lost_bytes, hole.tries, hole.later_passed));
        (known.number, known.tails, known.ignored, known.longest_s, hole)
    });
    dict.set_item("timeouts", timeouts)?;
    let since_s = |time_ns: i64| (time_ns as f64 - found.begun_ns) / 1e9;
    let drain =
        found.drain.map(|each| (each.rate, since_s(each.from_ns), since_s(each.until_ns), each.is_full));
    dict.set_item("drain", drain)?;
    let policer = found
        .policer
        .map(|each| (each.rate, since_s(each.from_ns), since_s(each.until_ns), each.lost, each.sent));
    dict.set_item("policer", policer)?;
    fields!(dict, found; begun_ns, mss_bytes, min_rtt_s, blur_s);
    dict.set_item("marks", found.marks.map(|marks| PyArray1::from_vec(py, marks)))?;
    arrays!(start_s, lasts_s, flight_bytes, window_bytes, rtt_s, acked_bytes, lost);
    arrays!(idle, recovery, held_small, flat, paced, starting, timing_out);
    Ok(dict)
}

/// By round trip, the least one of its period of about `within_ns`.
#[pyfunction]
pub fn least_rtts<'py>(
    py: Python<'py>,
    time_ns: Column<'py, i64>,
    rtt_ns: Column<'py, i64>,
    within_ns: i64,
) -> Bound<'py, PyArray1<i64>> {
    PyArray1::from_vec(py, rtts(&(time_ns, rtt_ns)).least(within_ns))
}

/// The value below which `share` of the weights lie; NaN without values.
#[pyfunction]
pub fn weighted_quantile(values: Column<'_, f64>, weights: Column<'_, f64>, share: f64) -> f64 {
    let pairs = values.as_array().into_iter().copied().zip(weights.as_array().into_iter().copied());
    stats::weighted_quantile(pairs, share)
}

/// The median of what is finite; NaN without any.
#[pyfunction]
pub fn finite_median(values: Column<'_, f64>) -> f64 {
    let mut known: Vec<f64> = values.as_array().iter().copied().filter(|value| value.is_finite()).collect();
    stats::median(&mut known)
}

/// How much `amount` grows per second around each piece, over `2 * half_s`.
#[pyfunction]
pub fn rates<'py>(
    py: Python<'py>,
    start_s: Column<'py, f64>,
    lasts_s: Column<'py, f64>,
    amount: Column<'py, f64>,
    half_s: f64,
) -> Bound<'py, PyArray1<f64>> {
    let [start_s, lasts_s, amount] = [&start_s, &lasts_s, &amount].map(together);
    PyArray1::from_vec(py, stats::rates(&start_s, &lasts_s, &amount, half_s))
}

/// The values one after the other in memory.
fn together<'a>(column: &'a Column<'_, f64>) -> Cow<'a, [f64]> {
    column.as_slice().map_or_else(|_| column.as_array().to_vec().into(), Cow::from)
}

/// Whether a queue explains the round trips of the pieces that `counts` marks, and whether the data in flight varied enough
/// to show that.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "columns")]
pub fn queue_explains(
    start_s: Column<'_, f64>,
    rtt_s: Column<'_, f64>,
    flight_bytes: Column<'_, f64>,
    counts: Column<'_, bool>,
    at_departure: bool,
    capacity: f64,
    min_rtt_s: f64,
    mss_bytes: f64,
) -> (bool, bool) {
    let (start_s, flight) = (together(&start_s), together(&flight_bytes));
    let (rtt_s, counts) = (rtt_s.as_array(), counts.as_array());
    let mut cursor = stats::Cursor::default();
    let trips = (0..start_s.len()).filter(|&at| counts[at]).map(|at| {
        let rtt_s = rtt_s[at];
        let sent = if at_departure { at } else { cursor.seek(&start_s, start_s[at] - rtt_s) };
        (rtt_s, flight[sent])
    });
    stats::Queue { capacity, min_rtt_s, mss_bytes }.explains(trips)
}
