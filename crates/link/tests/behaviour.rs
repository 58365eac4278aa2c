//! Known cases, with their numbers worked out by hand.

use std::sync::Arc;

use weir_link::{
    CoDel, Departure, Discipline, Distribution, Jitter, Limit, Path, PathSpec, Queue, Rate, Red, Reorder,
    Selection, Trace,
};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

fn path(spec: PathSpec) -> Path<u64> {
    Path::new(spec, 0).expect("a path")
}

/// Frames of 1250 bytes take 1 ms each.
fn ten_mbit() -> Option<Rate> {
    Some(Rate::Constant { bps: 10_000_000 })
}

fn limited(limit: Limit) -> Queue {
    Queue { limit, ..Queue::default() }
}

fn frames(text: &str) -> Selection {
    Selection::Frames(text.parse().expect("a pattern"))
}

fn all(path: &mut Path<u64>) -> Vec<Departure<u64>> {
    std::iter::from_fn(|| path.depart(u64::MAX >> 1)).collect()
}

fn numbers(departed: &[Departure<u64>]) -> Vec<u64> {
    departed.iter().map(|departure| departure.frame).collect()
}

#[test]
fn a_burst_leaves_at_the_rate_and_what_finds_no_room_is_dropped() {
    let mut path = path(PathSpec {
        rate: ten_mbit(),
        queue: limited(Limit::Packets(3)),
        delay_ns: 5 * MS,
        ..PathSpec::default()
    });
    for number in 1..=10 {
        path.arrive(100 * US, number, 1250);
    }
    assert_eq!(path.queued(), 3);
    let departed = all(&mut path);
    // The first is transmitted at once, three wait, six find no room.
    assert_eq!(numbers(&departed), [1, 2, 3, 4]);
    let due: Vec<u64> = departed.iter().map(|departure| departure.due_ns).collect();
    assert_eq!(due, [1, 2, 3, 4].map(|n| 100 * US + n * MS + 5 * MS));
    assert_eq!(path.counters().dropped_full, 6);
}

#[test]
fn room_is_counted_in_bytes_or_time_as_well() {
    for (limit, fits) in [
        (Limit::Bytes(2 * 1250 + 1249), 3),
        (Limit::Bytes(3 * 1250), 4),
        // They wait for 1, 2 and 3 ms.
        (Limit::Time(3 * MS), 4),
        (Limit::Time(3 * MS - 1), 3),
        // A transmitter that is free takes a frame although the queue has no room for it.
        (Limit::Bytes(1), 1),
        (Limit::Time(1), 1),
    ] {
        let mut path = path(PathSpec { rate: ten_mbit(), queue: limited(limit), ..PathSpec::default() });
        for number in 1..=10 {
            path.arrive(0, number, 1250);
        }
        assert_eq!(all(&mut path).len(), fits, "{limit:?}");
    }
}

#[test]
fn overhead_takes_time_and_room() {
    let spec = PathSpec { rate: ten_mbit(), overhead_bytes: 24, ..PathSpec::default() };
    let mut path = path(PathSpec { queue: limited(Limit::Bytes(2500)), ..spec });
    for number in 1..=3 {
        path.arrive(0, number, 1226);
    }
    assert_eq!(path.queued_bytes(), 2500);
    assert_eq!(all(&mut path)[2].due_ns, 3 * MS);
}

#[test]
fn lost_frames_are_those_of_the_pattern_and_take_their_time_on_the_wire() {
    let mut path = path(PathSpec { rate: ten_mbit(), loss: frames("2,4-5,/10"), ..PathSpec::default() });
    for number in 1..=20 {
        path.arrive(0, number, 1250);
    }
    let departed = all(&mut path);
    assert_eq!(numbers(&departed), [1, 3, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
    assert!(departed.iter().all(|departure| departure.due_ns == departure.frame * MS));
    assert_eq!(path.counters().lost, 5);
}

#[test]
fn a_pattern_counts_what_the_queue_drops_too() {
    let spec = PathSpec { rate: ten_mbit(), loss: frames("4"), ..PathSpec::default() };
    let mut path = path(PathSpec { queue: limited(Limit::Packets(1)), ..spec });
    for number in 1..=3 {
        path.arrive(0, number, 1250);
    }
    path.arrive(10 * MS, 4, 1250);
    path.arrive(20 * MS, 5, 1250);
    assert_eq!(numbers(&all(&mut path)), [1, 2, 5]);
    assert_eq!((path.counters().dropped_full, path.counters().lost), (1, 1));
}

#[test]
fn a_frame_that_is_held_back_is_passed_by_those_within_its_time() {
    let reorder = Reorder { selection: frames("2"), by_ns: 25 * US };
    let mut path = path(PathSpec { delay_ns: MS, reorder: Some(reorder), ..PathSpec::default() });
    for number in 1..=6 {
        path.arrive(number * 10 * US, number, 100);
    }
    let departed = all(&mut path);
    assert_eq!(numbers(&departed), [1, 3, 4, 2, 5, 6]);
    assert_eq!(departed[3].due_ns, 20 * US + MS + 25 * US);
    assert_eq!(path.counters().held_back, 1);
}

#[test]
fn duplicates_come_right_behind_and_cost_no_rate() {
    let spec = PathSpec { rate: ten_mbit(), duplicate: frames("1,3"), ..PathSpec::default() };
    let mut path = path(spec);
    for number in 1..=3 {
        path.arrive(0, number, 1250);
    }
    let departed = all(&mut path);
    assert_eq!(numbers(&departed), [1, 1, 2, 3, 3]);
    assert_eq!(departed[4].due_ns, 3 * MS);
}

#[test]
fn a_lost_frame_has_no_duplicate() {
    let mut path = path(PathSpec { loss: frames("1"), duplicate: frames("1-2"), ..PathSpec::default() });
    path.arrive(0, 1, 100);
    path.arrive(0, 2, 100);
    assert_eq!(numbers(&all(&mut path)), [2, 2]);
}

#[test]
fn jitter_has_the_distribution_asked_for_and_reorders_only_if_told() {
    for (distribution, deviation) in
        [(Distribution::Uniform, 1.0 / 3.0_f64.sqrt()), (Distribution::Normal, 1.0)]
    {
        for keeps_order in [false, true] {
            let jitter = Jitter { distribution, ns: MS, keeps_order };
            let spec = PathSpec { delay_ns: 10 * MS, jitter: Some(jitter), ..PathSpec::default() };
            // Frames far apart never meet.
            let mut path = path(spec.clone());
            let gap_ns = 50 * MS;
            for number in 0..20_000 {
                path.arrive(number * gap_ns, number, 100);
            }
            let departed = all(&mut path);
            let delays: Vec<f64> =
                departed.iter().map(|d| (d.due_ns - d.frame * gap_ns) as f64 / MS as f64 - 10.0).collect();
            let mean = delays.iter().sum::<f64>() / delays.len() as f64;
            let variance = delays.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / delays.len() as f64;
            assert!(mean.abs() < 0.03, "{mean}");
            assert!((variance.sqrt() - deviation).abs() < 0.02, "{distribution:?}: {}", variance.sqrt());
            // Frames close together do.
            let mut path = Path::new(spec, 0).expect("a path");
            for number in 0..1000 {
                path.arrive(number * 10 * US, number, 100);
            }
            assert_eq!(numbers(&all(&mut path)).is_sorted(), keeps_order);
        }
    }
}

#[test]
fn a_trace_is_replayed_as_mahimahi_does() {
    // 1504 bytes of Mahimahi are an Ethernet frame of 1514.
    let trace = Trace::parse(b"2\n5\n5\n9\n").expect("a trace");
    let spec = PathSpec { rate: Some(Rate::Trace(Arc::new(trace))), ..PathSpec::default() };
    let mut path = path(spec);
    for number in 1..=4 {
        path.arrive(0, number, 1514);
    }
    // At 9 ms the next round begins; while nothing waits, opportunities pass unused.
    path.arrive(13 * MS, 5, 1514);
    // What comes at the time of an opportunity has missed it.
    path.arrive(18 * MS, 6, 1514);
    let departed = all(&mut path);
    let due_ms: Vec<u64> = departed.iter().map(|departure| departure.due_ns / MS).collect();
    assert_eq!(due_ms, [2, 5, 5, 9, 14, 20]);
}

#[test]
fn an_opportunity_carries_several_small_frames_and_a_part_of_a_large_one() {
    let trace = Trace::parse(b"1\n").expect("a trace");
    let mut path = path(PathSpec { rate: Some(Rate::Trace(Arc::new(trace))), ..PathSpec::default() });
    // 502 bytes each as Mahimahi counts: two, and 500 bytes of the third; 2 + 502 + 1000 of the next 1504.
    for number in 1..=4 {
        path.arrive(0, number, 512);
    }
    path.arrive(0, 5, 1514);
    let departed = all(&mut path);
    let due_ms: Vec<u64> = departed.iter().map(|departure| departure.due_ns / MS).collect();
    assert_eq!(due_ms, [1, 1, 2, 2, 3]);
}

#[test]
fn codel_keeps_a_queue_short_that_tail_drop_would_let_stand() {
    // 20 % overload: 1.2 frames of 1 ms each per ms.
    let run = |discipline| {
        let queue = Queue { limit: Limit::Packets(1000), discipline };
        let mut path = path(PathSpec { rate: ten_mbit(), queue, ..PathSpec::default() });
        let gap_ns = MS * 10 / 12;
        for number in 0..36_000 {
            path.arrive(number * gap_ns, number, 1250);
        }
        (path.counters(), all(&mut path), gap_ns)
    };
    let waited_ms = |departed: &[Departure<u64>], gap_ns: u64| {
        let late = &departed[departed.len() / 2..departed.len() * 3 / 4];
        late.iter().map(|d| (d.due_ns - d.frame * gap_ns) / MS).sum::<u64>() / late.len() as u64
    };
    let (tail, departed, gap_ns) = run(Discipline::TailDrop);
    assert!((990..=1001).contains(&waited_ms(&departed, gap_ns)));
    assert_eq!(tail.dropped_early, 0);
    let (codel, departed, gap_ns) = run(Discipline::CoDel(CoDel::default()));
    // Senders that do not give way need ever more drops, whose rate grows as slowly as the control law says: the
    // queue swings, and is never the standing one.
    assert!(4 * waited_ms(&departed, gap_ns) < 1000, "{}", waited_ms(&departed, gap_ns));
    assert_eq!(codel.dropped_full, 0);
    assert!(codel.dropped_early.abs_diff(6000) < 400, "{}", codel.dropped_early);
}

#[test]
fn codel_leaves_a_path_alone_that_is_not_overloaded() {
    let queue = Queue { limit: Limit::Packets(1000), discipline: Discipline::CoDel(CoDel::default()) };
    let mut path = path(PathSpec { rate: ten_mbit(), queue, ..PathSpec::default() });
    // Bursts of 80 frames, which wait for up to 80 ms, and a pause behind each.
    for number in 0..8_000 {
        path.arrive(number / 80 * 100 * MS, number, 1250);
    }
    assert_eq!(all(&mut path).len(), 8_000);
}

#[test]
fn red_holds_the_average_queue_between_its_thresholds() {
    let (min, max) = (Limit::Packets(20), Limit::Packets(60));
    let red = Red { min, max, max_ratio: 0.3, weight: 0.01, gentle: true };
    let queue = Queue { limit: Limit::Packets(1000), discipline: Discipline::Red(red) };
    let mut path = path(PathSpec { rate: ten_mbit(), queue, ..PathSpec::default() });
    let gap_ns = MS * 10 / 12;
    let mut lengths = Vec::new();
    for number in 0..36_000 {
        path.arrive(number * gap_ns, number, 1250);
        lengths.push(path.queued());
    }
    // A sixth has to go: a probability of 1/6, which is reached at 20 + 40 * (1/6) / 0.3 = 42 frames (drops at
    // even distances come twice as often as the formula's ratio, so at about half of that way).
    let steady = &lengths[12_000..];
    let mean = steady.iter().sum::<u64>() as f64 / steady.len() as f64;
    assert!((25.0..45.0).contains(&mean), "{mean}");
    assert_eq!(path.counters().dropped_full, 0);
    assert!((path.counters().dropped_early as f64 / 36_000.0 - 1.0 / 6.0).abs() < 0.01);
}

#[test]
fn a_change_lets_what_waits_go_on_at_the_new_rate() {
    let slow = PathSpec { rate: ten_mbit(), delay_ns: 3 * MS, ..PathSpec::default() };
    let mut path = path(slow.clone());
    for number in 1..=4 {
        path.arrive(0, number, 1250);
    }
    // One is through, one in transmission, two wait.
    path.change(PathSpec { rate: Some(Rate::Constant { bps: 100_000_000 }), ..slow }, 1500 * US)
        .expect("a path");
    let due_us: Vec<u64> = all(&mut path).iter().map(|departure| departure.due_ns / US).collect();
    assert_eq!(due_us, [4000, 5000, 5000, 5000]);
}

#[test]
fn without_a_rate_what_waits_leaves_at_once() {
    let mut path = path(PathSpec { rate: ten_mbit(), ..PathSpec::default() });
    for number in 1..=4 {
        path.arrive(0, number, 1250);
    }
    path.change(PathSpec::default(), 1500 * US).expect("a path");
    let due_us: Vec<u64> = all(&mut path).iter().map(|departure| departure.due_ns / US).collect();
    assert_eq!(due_us, [1000, 2000, 2000, 2000]);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut path = path(PathSpec { delay_ns: MS, ..PathSpec::default() });
    let wrong = PathSpec { rate: Some(Rate::Constant { bps: 0 }), ..PathSpec::default() };
    assert!(Path::<u64>::new(wrong.clone(), 0).is_err());
    assert!(path.change(wrong, 0).is_err());
    path.arrive(0, 1, 100);
    assert_eq!(all(&mut path)[0].due_ns, MS);
}
