//! What holds for every path and all arrivals.

use std::sync::Arc;

use proptest::prelude::*;
use weir_link::{
    CoDel, Departure, Discipline, Distribution, GilbertElliott, Jitter, Limit, Pace, Path, PathSpec, Queue,
    Rate, Red, Reorder, Selection, Trace,
};

/// A frame is its number, from 1.
type Frames = Vec<Departure<u64>>;

fn ratio() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 0.0..=1.0, Just(1.0)]
}

fn selection() -> impl Strategy<Value = Selection> {
    let model = (ratio(), ratio(), ratio(), ratio()).prop_map(|(to_bad, to_good, in_bad, in_good)| {
        Selection::GilbertElliott(GilbertElliott { to_bad, to_good, in_bad, in_good })
    });
    let frames = (1_u64..50, 1_u64..20).prop_map(|(first, step)| {
        Selection::Frames(format!("{first}/{step},{step}-{}", first + step).parse().expect("a pattern"))
    });
    prop_oneof![
        3 => Just(Selection::Never),
        1 => ratio().prop_map(|ratio| Selection::Random { ratio }),
        1 => model,
        1 => frames,
    ]
}

fn queue() -> impl Strategy<Value = Queue> {
    let limit = prop_oneof![
        (1_u64..50).prop_map(Limit::Packets),
        (1_u64..50_000).prop_map(Limit::Bytes),
        (1_u64..50_000_000).prop_map(Limit::Time),
    ];
    let red = (1_u64..10, 1_u64..20, ratio(), any::<bool>()).prop_map(|(min, more, max_ratio, gentle)| {
        let (min, max) = (Limit::Packets(min), Limit::Packets(min + more));
        Discipline::Red(Red { min, max, max_ratio, weight: 0.2, gentle })
    });
    let codel = (1_u64..5_000_000, 1_u64..50_000_000)
        .prop_map(|(target_ns, interval_ns)| Discipline::CoDel(CoDel { target_ns, interval_ns }));
    let discipline = prop_oneof![2 => Just(Discipline::TailDrop), 1 => red, 1 => codel];
    (limit, discipline).prop_map(|(limit, discipline)| Queue { limit, discipline })
}

fn rate() -> impl Strategy<Value = Option<Rate>> {
    let constant = (100_000_u64..2_000_000_000).prop_map(|bps| Rate::Constant { bps });
    let trace = prop::collection::vec(0_u64..5, 1..20).prop_map(|gaps_ms| {
        let mut at_ms = 0;
        let lines = gaps_ms.into_iter().map(|gap| {
            at_ms += gap;
            format!("{at_ms}\n")
        });
        let text = lines.collect::<String>() + &format!("{}\n", at_ms + 1);
        Rate::Trace(Arc::new(Trace::parse(text.as_bytes()).expect("a trace")))
    });
    prop_oneof![2 => constant.prop_map(Some), 1 => trace.prop_map(Some), 1 => Just(None)]
}

/// Any path; `ordered`: one that keeps the order.
fn spec(ordered: bool) -> impl Strategy<Value = PathSpec> {
    let delay = (0_u64..20_000_000).prop_flat_map(move |delay_ns| {
        let kind = prop_oneof![Just(Distribution::Uniform), Just(Distribution::Normal)];
        let jitter = (kind, 0..=delay_ns, any::<bool>()).prop_map(move |(distribution, ns, keeps_order)| {
            Jitter { distribution, ns, keeps_order: keeps_order || ordered }
        });
        (Just(delay_ns), prop::option::of(jitter))
    });
    let reorder = prop::option::of((selection(), 1_u64..10_000_000)).prop_map(move |found| {
        found.filter(|_| !ordered).map(|(selection, by_ns)| Reorder { selection, by_ns })
    });
    (rate(), -40..40_i32, queue(), selection(), delay, reorder, selection(), any::<u64>()).prop_map(
        |(rate, overhead_bytes, queue, loss, (delay_ns, jitter), reorder, duplicate, seed)| PathSpec {
            rate,
            overhead_bytes,
            queue,
            loss,
            delay_ns,
            jitter,
            reorder,
            duplicate,
            seed,
        },
    )
}

/// Gaps in ns and bytes.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let gap = prop_oneof![Just(0), 0_u64..10_000, 0_u64..3_000_000, Just(500_000_000)];
    prop::collection::vec((gap, 14_u32..3000), 0..150)
}

const START_NS: u64 = 1_000_000_000;

/// Lets all arrive and then everything depart, asking whenever something may be due.
fn carried(path: &mut Path<u64>, arrivals: &[(u64, u32)]) -> Frames {
    let mut departed = Frames::new();
    let mut now_ns = START_NS;
    for (number, &(gap_ns, bytes)) in (1..).zip(arrivals) {
        now_ns += gap_ns;
        // All that arrived before `now_ns` has been told.
        take_all(path, now_ns.saturating_sub(1), &mut departed);
        path.arrive(now_ns, number, bytes);
    }
    while let Some(next_ns) = path.next_ns() {
        now_ns = now_ns.max(next_ns);
        take_all(path, now_ns, &mut departed);
        now_ns += 1;
    }
    departed
}

fn take_all(path: &mut Path<u64>, now_ns: u64, into: &mut Frames) {
    while let Some(departure) = path.depart(now_ns) {
        assert!(departure.due_ns <= now_ns);
        into.push(departure);
    }
}

fn arrival_times(arrivals: &[(u64, u32)]) -> Vec<u64> {
    let mut now_ns = START_NS;
    arrivals
        .iter()
        .map(|(gap_ns, _)| {
            now_ns += gap_ns;
            now_ns
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_frame_is_accounted_for(spec in spec(false), arrivals in arrivals()) {
        let mut path = Path::new(spec, START_NS).expect("a path");
        let mut now_ns = START_NS;
        for (number, &(gap_ns, bytes)) in (1_u64..).zip(&arrivals) {
            now_ns += gap_ns;
            path.arrive(now_ns, number, bytes);
            if number % 3 == 0 {
                while path.depart(now_ns).is_some() {}
            }
            let c = path.counters();
            prop_assert_eq!(
                c.arrived + c.duplicated,
                c.departed + c.lost + c.dropped_full + c.dropped_early + path.held()
            );
        }
        prop_assert_eq!(path.counters().arrived_bytes, arrivals.iter().map(|&(_, bytes)| u64::from(bytes)).sum());
    }

    #[test]
    fn at_the_end_nothing_is_held_and_no_frame_departs_more_often_than_it_should(
        spec in spec(false), arrivals in arrivals()
    ) {
        let mut path = Path::new(spec, START_NS).expect("a path");
        let departed = carried(&mut path, &arrivals);
        let c = path.counters();
        prop_assert_eq!(path.held(), 0);
        prop_assert_eq!(c.departed, departed.len() as u64);
        prop_assert_eq!(c.departed_bytes, departed.iter().map(|d| u64::from(d.bytes)).sum());
        let mut numbers: Vec<u64> = departed.iter().map(|d| d.frame).collect();
        numbers.sort_unstable();
        let twice = numbers.windows(2).filter(|pair| pair[0] == pair[1]).count();
        prop_assert_eq!(twice as u64, c.duplicated);
        prop_assert!(numbers.windows(3).all(|three| three[0] != three[2]));
        for departure in &departed {
            prop_assert_eq!(departure.bytes, arrivals[departure.frame as usize - 1].1);
        }
    }

    #[test]
    fn departures_are_told_in_the_order_of_their_times(spec in spec(false), arrivals in arrivals()) {
        let mut path = Path::new(spec, START_NS).expect("a path");
        let departed = carried(&mut path, &arrivals);
        prop_assert!(departed.windows(2).all(|pair| pair[0].due_ns <= pair[1].due_ns));
    }

    #[test]
    fn order_is_kept_unless_it_is_told_not_to(spec in spec(true), arrivals in arrivals()) {
        let mut path = Path::new(spec, START_NS).expect("a path");
        let departed = carried(&mut path, &arrivals);
        prop_assert!(departed.windows(2).all(|pair| pair[0].frame <= pair[1].frame));
    }

    #[test]
    fn asking_late_changes_nothing_but_when_it_is_told(spec in spec(false), arrivals in arrivals()) {
        let mut prompt = Path::new(spec.clone(), START_NS).expect("a path");
        let mut late = prompt.clone();
        let promptly = carried(&mut prompt, &arrivals);
        for ((number, &(_, bytes)), at_ns) in (1..).zip(&arrivals).zip(arrival_times(&arrivals)) {
            late.arrive(at_ns, number, bytes);
        }
        let mut at_the_end = Frames::new();
        take_all(&mut late, u64::MAX >> 1, &mut at_the_end);
        prop_assert_eq!(promptly, at_the_end);
        prop_assert_eq!(prompt.counters(), late.counters());
    }

    #[test]
    fn nothing_departs_before_the_time_that_is_told_for_the_next(spec in spec(false), arrivals in arrivals()) {
        let mut path = Path::new(spec, START_NS).expect("a path");
        let mut now_ns = START_NS;
        for (number, &(gap_ns, bytes)) in (1_u64..).zip(&arrivals) {
            now_ns += gap_ns;
            path.arrive(now_ns, number, bytes);
            if let Some(next_ns) = path.next_ns() && next_ns > now_ns {
                prop_assert!(path.clone().depart(next_ns - 1).is_none());
            }
        }
    }

    #[test]
    fn without_rate_and_jitter_the_delay_is_exact(
        delay_ns in 0_u64..1_000_000_000, loss in selection(), arrivals in arrivals()
    ) {
        let spec = PathSpec { delay_ns, loss, ..PathSpec::default() };
        let mut path = Path::new(spec, START_NS).expect("a path");
        let times = arrival_times(&arrivals);
        for departure in carried(&mut path, &arrivals) {
            prop_assert_eq!(departure.due_ns, times[departure.frame as usize - 1] + delay_ns);
        }
    }

    #[test]
    fn the_delay_is_never_shorter_than_the_least(spec in spec(false), arrivals in arrivals()) {
        let mut path = Path::new(spec, START_NS).expect("a path");
        let times = arrival_times(&arrivals);
        let least_ns = path.least_delay_ns();
        for departure in carried(&mut path, &arrivals) {
            prop_assert!(departure.due_ns >= times[departure.frame as usize - 1] + least_ns);
        }
    }

    #[test]
    fn a_constant_rate_is_never_exceeded_and_kept_while_frames_wait(
        bps in 100_000_u64..10_000_000_000, overhead_bytes in -10..40_i32, arrivals in arrivals()
    ) {
        let spec = PathSpec {
            rate: Some(Rate::Constant { bps }),
            overhead_bytes,
            queue: Queue { limit: Limit::Packets(1_000_000), ..Queue::default() },
            ..PathSpec::default()
        };
        let mut path = Path::new(spec, START_NS).expect("a path");
        let departed = carried(&mut path, &arrivals);
        prop_assert_eq!(departed.len(), arrivals.len());
        let times = arrival_times(&arrivals);
        // The exact times, in 1/bps ns: a frame begins when it is there and the one before is through.
        let mut free: u128 = 0;
        for (departure, at_ns) in departed.iter().zip(times) {
            let bits = u128::from((i64::from(departure.bytes) + i64::from(overhead_bytes)).max(1) as u64 * 8);
            let begin = free.max(u128::from(at_ns) * u128::from(bps));
            free = begin + bits * 1_000_000_000;
            let exact_ns = free.div_ceil(u128::from(bps)) as u64;
            prop_assert_eq!(departure.due_ns, exact_ns);
        }
    }

    #[test]
    fn what_follows_is_told_with_the_bits_in_between(
        bps in 100_000_u64..1_000_000_000, loss in selection(), arrivals in arrivals()
    ) {
        let spec = PathSpec { rate: Some(Rate::Constant { bps }), loss, ..PathSpec::default() };
        let mut path = Path::new(spec, START_NS).expect("a path");
        let mut last_ns = None;
        for departure in carried(&mut path, &arrivals) {
            match departure.pace {
                Pace::Follows(bits) => {
                    let took_ns = departure.due_ns - last_ns.expect("there was one before");
                    prop_assert!((took_ns as f64 - bits as f64 * 1e9 / bps as f64).abs() <= 1.0);
                }
                Pace::Begins => {}
                Pace::Apart => prop_assert!(false, "each leaves in its turn"),
            }
            last_ns = Some(departure.due_ns);
        }
    }

    #[test]
    fn a_queue_never_holds_more_than_its_limit(
        bps in 100_000_u64..100_000_000, queue in queue(), arrivals in arrivals()
    ) {
        let limit = queue.limit;
        let spec = PathSpec { rate: Some(Rate::Constant { bps }), queue, ..PathSpec::default() };
        let mut path = Path::new(spec, START_NS).expect("a path");
        let times = arrival_times(&arrivals);
        for ((number, &(_, bytes)), &at_ns) in (1..).zip(&arrivals).zip(&times) {
            path.arrive(at_ns, number, bytes);
            match limit {
                Limit::Packets(most) => prop_assert!(path.queued() <= most),
                Limit::Bytes(most) => prop_assert!(path.queued_bytes() <= most),
                Limit::Time(_) => {}
            }
        }
        if let Limit::Time(most_ns) = limit {
            while let Some(departure) = path.depart(u64::MAX >> 1) {
                let transmission_ns = f64::from(departure.bytes) * 8e9 / bps as f64;
                let waited_ns = (departure.due_ns - times[departure.frame as usize - 1]) as f64 - transmission_ns;
                prop_assert!(waited_ns <= most_ns as f64 + 1.0, "{waited_ns} {most_ns}");
            }
        }
    }

    #[test]
    fn random_losses_do_not_depend_on_anything_else(
        loss in selection(), duplicate in selection(), seed: u64, arrivals in arrivals()
    ) {
        let plain = PathSpec { loss, seed, ..PathSpec::default() };
        let more = PathSpec { duplicate, delay_ns: 1000, ..plain.clone() };
        let mut of_both = [plain, more].map(|spec| {
            let mut path = Path::new(spec, START_NS).expect("a path");
            let mut numbers: Vec<u64> = carried(&mut path, &arrivals).iter().map(|d| d.frame).collect();
            numbers.dedup();
            numbers
        });
        of_both[1].dedup();
        prop_assert_eq!(&of_both[0], &of_both[1]);
    }

    #[test]
    fn a_change_loses_nothing(before in spec(true), after in spec(true), arrivals in arrivals()) {
        let mut path = Path::new(before, START_NS).expect("a path");
        let (first, second) = arrivals.split_at(arrivals.len() / 2);
        let mut now_ns = START_NS;
        let mut number = 0;
        let mut departed = Frames::new();
        for part in [first, second] {
            for &(gap_ns, bytes) in part {
                now_ns += gap_ns;
                number += 1;
                path.arrive(now_ns, number, bytes);
            }
            if number == first.len() as u64 {
                take_all(&mut path, now_ns, &mut departed);
                path.change(after.clone(), now_ns).expect("a path");
            }
        }
        take_all(&mut path, u64::MAX >> 1, &mut departed);
        let c = path.counters();
        prop_assert_eq!(path.held(), 0);
        prop_assert_eq!(c.arrived + c.duplicated, c.departed + c.lost + c.dropped_full + c.dropped_early);
        prop_assert!(departed.windows(2).all(|pair| pair[0].frame <= pair[1].frame));
    }
}
