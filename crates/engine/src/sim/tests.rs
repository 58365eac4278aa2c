use super::*;
use weir_wire::Kind;

use crate::plan::{Entry, Impairment, NEXT_FLOW, NO_PAYLOAD, Packet, Phase};
use crate::schedule::tests::{calls, plan};

const DEVICE: Device = Device {
    service_fixed_ns: 1_000.0,
    service_per_rule_ns: 2.0,
    service_per_byte_ns: 0.0,
    io_service_ns: 0.0,
    queue_packets: 256,
    base_delay_ns: 5_000.0,
    base_per_byte_ns: 0.0,
    noise: Noise::None,
    interrupt_every_ns: 0.0,
    interrupt_ns: 0.0,
    disturb_every_ns: 0.0,
    disturb_ns: 0.0,
    unpaced_gap_ns: 200,
    seed: 1,
};

fn at(positions: &[f64]) -> Vec<FlowPath> {
    positions.iter().map(|&position| FlowPath { position, server: 0 }).collect()
}

fn run_at(gap_ns: u32, device: &Device, positions: &[f64]) -> Outcome {
    run_along(gap_ns, device, &at(positions))
}

fn run_along(gap_ns: u32, device: &Device, paths: &[FlowPath]) -> Outcome {
    let entry = Entry { gap_ns, gap_frac: 0, length: 60, flow: NEXT_FLOW };
    let phases = vec![Phase { end_ns: 100_000_000, first_entry: 0, n_entries: 1 }];
    let mut plan = plan(vec![entry], phases, paths.len(), true);
    plan.warmup_ns = 20_000_000;
    plan.duration_ns = 80_000_000;
    simulate(&plan, device, paths, None).expect("valid device")
}

fn run(gap_ns: u32, device: &Device) -> Outcome {
    run_at(gap_ns, device, &[0.0])
}

#[test]
fn below_the_threshold_nothing_is_lost_and_delay_is_base_plus_service() {
    let outcome = run(2_000, &DEVICE);
    let flow = outcome.flows[0];
    assert_eq!(flow.sent, 40_000);
    assert_eq!(flow.received, 40_000);
    assert_eq!((flow.delay_min_ns, flow.delay_max_ns), (6_000, 6_000));
}

#[test]
fn above_the_threshold_loss_is_the_excess_and_delay_the_full_queue() {
    let outcome = run(500, &DEVICE);
    let flow = outcome.flows[0];
    let loss = 1.0 - flow.received as f64 / flow.sent as f64;
    assert!((loss - 0.5).abs() < 0.001, "{loss}");
    let mean = flow.delay_sum_ns as f64 / flow.received as f64;
    assert!((mean - 261_000.0).abs() < 1_000.0, "{mean}");
}

#[test]
fn rules_make_the_device_slower() {
    let outcome = run_at(500, &DEVICE, &[500.0]);
    let flow = outcome.flows[0];
    assert!((flow.received as f64 / flow.sent as f64 - 0.25).abs() < 0.001);
}

#[test]
fn flows_that_match_at_several_positions_share_the_mean_service_time() {
    // Without noise 1 µs and 3 µs are multiples of the gap: every free place would fall to the same flow.
    let outcome = run_at(500, &Device { noise: Noise::Gamma(0.5), ..DEVICE }, &[0.0, 1_000.0]);
    let (sent, received) = outcome.flows.iter().fold((0, 0), |(s, r), f| (s + f.sent, r + f.received));
    assert!((received as f64 / sent as f64 - 0.25).abs() < 0.01);
}

#[test]
fn below_the_threshold_each_flow_is_served_at_its_own_position() {
    let outcome = run_at(4_000, &DEVICE, &[0.0, 1_000.0]);
    assert_eq!(outcome.flows[0].delay_max_ns, 6_000);
    assert_eq!(outcome.flows[1].delay_min_ns, 8_000);
}

#[test]
fn interruptions_take_their_share_of_the_throughput() {
    let device = Device { interrupt_every_ns: 1e6, interrupt_ns: 2e5, ..DEVICE };
    let flow = run(500, &device).flows[0];
    assert!((flow.received as f64 / flow.sent as f64 - 0.4).abs() < 0.005);
    assert!(run(100_000, &device).flows[0].delay_max_ns > 100_000);
}

#[test]
fn interruptions_without_a_pause_are_refused() {
    assert!(Device { interrupt_every_ns: 1e5, interrupt_ns: 1e5, ..DEVICE }.check().is_err());
}

#[test]
fn every_flow_needs_a_position() {
    let plan = plan(vec![], vec![], 2, true);
    assert!(simulate(&plan, &DEVICE, &at(&[0.0]), None).is_err());
    assert!(simulate(&plan, &DEVICE, &at(&[0.0, -1.0]), None).is_err());
}

#[test]
fn the_slower_stage_sets_the_pace() {
    let device = Device { io_service_ns: 2_000.0, ..DEVICE };
    let flow = run_at(500, &device, &[100.0]).flows[0];
    assert!((flow.received as f64 / flow.sent as f64 - 0.25).abs() < 0.001);
}

#[test]
fn noise_keeps_the_mean_service_time() {
    let flow = run(500, &Device { noise: Noise::Gamma(0.5), ..DEVICE }).flows[0];
    assert!((flow.received as f64 / flow.sent as f64 - 0.5).abs() < 0.01);
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let device = Device { noise: Noise::Gamma(1.0), ..DEVICE };
    assert_eq!(run(900, &device).histogram, run(900, &device).histogram);
}

#[test]
fn calls_in_both_directions_share_the_server_and_are_logged() {
    let packet = Packet { kind: Kind::Rtp, payload: NO_PAYLOAD, ..Packet::default() };
    let lose = Packet { impairment: Impairment::Lose, ..packet };
    let again = Packet { impairment: Impairment::Again(1.try_into().expect("not 0")), ..packet };
    let entries = [(0, packet), (0, packet), (1, packet), (0, lose), (1, again), (0, again)];
    let packets = entries.map(|(flow, packet)| (100, flow, packet)).to_vec();
    let mut plan = calls(packets, vec![vec![0x80; 12]; 2], &[]);
    plan.phases[0].end_ns = 60_000;
    (plan.warmup_ns, plan.duration_ns) = (10_000, 50_000);
    // The second of two packets at a time waits for the first, although it goes the other way.
    plan.entries[1].gap_ns = 0;
    plan.entries[2].gap_ns = 20_000;
    let outcome = simulate(&plan, &DEVICE, &at(&[0.0, 0.0]), None).expect("valid device");
    let flow = |i: usize| {
        let f = outcome.flows[i];
        (f.sent, f.received, f.duplicated, f.reordered, f.first_seq)
    };
    assert_eq!((outcome.sent, flow(0), flow(1)), (3, (2, 2, 0, 0, 1), (1, 1, 1, 0, 0)));
    let log = outcome.packets.expect("logged");
    assert_eq!((log.flow, log.seq, log.missed), (vec![0, 0, 1, 1], vec![1, 2, 0, 0], 0));
    assert_eq!(
        log.sent_ns.iter().map(|t| t - 1_000_000_000).collect::<Vec<_>>(),
        [10_000, 50_000, 10_000, 40_000]
    );
    assert_eq!(outcome.flows[1].delay_max_ns, 7_000);
}

#[test]
fn a_device_without_a_queue_is_refused() {
    assert!(Device { queue_packets: 0, ..DEVICE }.check().is_err());
}

#[test]
fn each_server_has_a_queue_and_a_threshold_of_its_own() {
    // Three flows with gaps of about 1 µs each: two of them are twice as much as their server carries.
    let paths = [0, 1, 1].map(|server| FlowPath { position: 0.0, server });
    let outcome = run_along(334, &DEVICE, &paths);
    let [alone, first, second] = [0, 1, 2].map(|i| outcome.flows[i]);
    assert_eq!((alone.received, alone.delay_max_ns), (alone.sent, 6_000));
    let received = (first.received + second.received) as f64 / (first.sent + second.sent) as f64;
    assert!((received - 0.5).abs() < 0.01, "{received}");
    assert!(first.delay_max_ns > 250_000);
}

#[test]
fn eight_servers_carry_eight_times_as_much() {
    let paths: Vec<_> = (0..8).map(|server| FlowPath { position: 0.0, server }).collect();
    let noisy = Device { noise: Noise::Gamma(0.3), ..DEVICE };
    let received = |outcome: Outcome| outcome.flows.iter().map(|flow| flow.received).sum::<u64>() as f64;
    let (one, eight) = (received(run(500, &noisy)), received(run_along(62, &noisy, &paths)));
    assert!((eight / one - 8.0).abs() < 0.1, "{}", eight / one);
}

#[test]
fn a_server_beyond_all_limits_is_refused() {
    let plan = plan(vec![], vec![], 1, true);
    assert!(simulate(&plan, &DEVICE, &[FlowPath { position: 0.0, server: 1 << 20 }], None).is_err());
}
