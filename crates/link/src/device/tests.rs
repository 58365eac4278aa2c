//! Delays, queue and losses of a measured device.

use super::*;

/// Below the threshold of 1 Mpps packets stay 5 µs; in overload a full queue of 20 holds them for 20 µs.
fn behaviour() -> Behaviour {
    let calm = [5000.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let full = [20_000.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    Behaviour {
        positions: vec![0.0],
        frames_bytes: vec![64.0],
        rhos: vec![0.01, 1.0, 1.000_001, 4.0],
        service_ns: vec![1000.0],
        states: [calm, calm, full, full].concat(),
        queue_packets: 50.0,
        rate_min_pps: 1000.0,
    }
}

fn queue(behaviour: Behaviour) -> DeviceQueue {
    DeviceQueue::new(MeasuredDevice::new(behaviour, 1).expect("a valid grid"))
}

#[test]
fn a_calm_packet_stays_for_the_floor() {
    let mut queue = queue(behaviour());
    let delays: Vec<_> = (0..1000)
        .map(|n| queue.pass(f64::from(n) * 4000.0, 0.0, 64.0).map(|left| left - f64::from(n) * 4000.0))
        .collect();
    assert!(delays.iter().all(|delay| *delay == Some(5000.0)));
}

#[test]
fn an_overloaded_device_forwards_its_threshold_and_holds_packets_for_its_queue() {
    let mut queue = queue(behaviour());
    let delays: Vec<_> = (0..40_000)
        .map(|n| queue.pass(f64::from(n) * 500.0, 0.0, 64.0).map(|left| left - f64::from(n) * 500.0))
        .collect();
    let late = &delays[20_000..];
    let passed: Vec<f64> = late.iter().flatten().copied().collect();
    assert_eq!(passed.len(), late.len() / 2);
    assert!(passed.iter().all(|delay| (19_500.0..=20_500.0).contains(delay)), "{:?}", &passed[..4]);
}

#[test]
fn interruptions_hold_up_the_share_of_packets_that_the_slopes_say() {
    let mut uneven = behaviour();
    let slopes = [5000.0, 0.0, 100.0, 1000.0, 10_000.0, 100_000.0];
    uneven.states = [slopes; 4].concat();
    let mut queue = queue(uneven);
    let n = 200_000;
    let mut delays: Vec<f64> = (0..n)
        .filter_map(|n| queue.pass(f64::from(n) * 7000.0, 0.0, 64.0).map(|left| left - f64::from(n) * 7000.0))
        .collect();
    delays.sort_by(f64::total_cmp);
    let p50 = 5000.0 + (3.0 - 2_f64.ln()) * 100.0;
    let p90 = p50 + (2_f64.ln() + 0.9_f64.ln()) * 1000.0;
    for (share, expected) in [(0.5, p50), (0.9, p90)] {
        let found = delays[(share * f64::from(n)) as usize];
        assert!((found / expected - 1.0).abs() < 0.01, "{found} instead of {expected}");
    }
}

#[test]
fn a_grid_whose_values_do_not_fit_is_refused() {
    let mut short = behaviour();
    short.states.pop();
    assert_eq!(short.check(), Err(BehaviourError("values that do not fit its axes")));
    let mut falling = behaviour();
    falling.rhos[0] = 2.0;
    assert!(falling.check().is_err());
    let mut unknown = behaviour();
    unknown.service_ns[0] = f64::NAN;
    assert!(unknown.check().is_err());
}

#[test]
fn values_between_points_of_the_grid_are_interpolated_and_constant_beyond() {
    assert_eq!(ends(&[1.0, 3.0], 1.5), [(0, 0.75), (1, 0.25)]);
    assert_eq!(ends(&[1.0, 3.0], 0.0)[0], (0, 1.0));
    assert_eq!(ends(&[1.0, 3.0], 9.0)[0], (1, 1.0));
}
