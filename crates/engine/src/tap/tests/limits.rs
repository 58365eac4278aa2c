//! Where copies fall short: no time, no room, no end of losses.

use std::sync::atomic::Ordering::Relaxed;

use super::super::layout::Ring;
use super::super::merge::Merge;
use super::*;

/// In the future: no pause lies before the next frame, however slowly the test runs.
const NOW: i64 = -10_000_000_000;

fn mirrored(bench: &Bench, side: usize) -> (u64, u64, u64) {
    let counts = (0..bench.counts.len()).map(|cpu| bench.counts.get(cpu).side[side]);
    counts.fold((0, 0, 0), |(m, n, s), c| (m + c.mirrored, n + c.not_mirrored, s + c.spared))
}

#[test]
fn frames_for_the_mirror_are_whole_or_left_out_while_the_link_has_no_time_left() {
    let Some(mut bench) = Bench::new(4, 1_000) else { return };
    pinned(0);
    for length in [1_514, 60, 1_514] {
        bench.press(32, NOW);
        bench.receive(0, &frame(1, length));
    }
    bench.press(0, NOW);
    bench.receive(0, &frame(1, 1_514));
    assert_eq!(mirrored(&bench, 0), (2, 2, 2));
    let share = |map| bench.programs.share(map).expect("there");
    let rings = Rings::new(share("tap_m_rings"), share("tap_m_memory"), bench.counts.len(), 1).expect("maps");
    let mut merge = Merge::new(rings);
    merge.refresh().expect("sound");
    for length in [60, 1_514] {
        let record = merge.next(u64::MAX).expect("sound").expect("a frame").record;
        assert_eq!((record.length, record.captured), (length, length));
    }
    let counters = counters::sum(
        &(0..bench.counts.len()).map(|cpu| bench.counts.get(cpu)).collect::<Vec<_>>(),
        &ports(),
        Some(&Progress::default()),
        false,
    );
    assert_eq!((counters.mirror.not_sent, counters.mirror.waiting), (2, 2));
    assert!(counters.mirror.reason.contains("the link needed the CPU"), "{}", counters.mirror.reason);
}

#[test]
fn only_copies_that_were_made_count_as_cut() {
    let Some(mut bench) = Bench::new(1, 1_000) else { return };
    pinned(0);
    while bench.count(0).not_copied == 0 {
        bench.press(0, NOW);
        bench.receive(0, &frame(1, 1_514));
    }
    // Until not even short ones fit.
    let mut cut = 0;
    loop {
        bench.press(32, NOW);
        let before = bench.count(0).copied;
        bench.receive(0, &frame(1, 1_514));
        if bench.count(0).copied == before {
            break;
        }
        cut += 1;
    }
    assert_eq!(bench.count(0).cut, cut);
}

#[test]
fn losses_beyond_what_a_frame_can_tell_are_not_told_as_few() {
    let Some(mut bench) = Bench::new(1, 1_000) else { return };
    pinned(0);
    let mut source = bench.source();
    while bench.count(0).not_copied == 0 {
        bench.receive(0, &frame(1, 1_000));
    }
    let mut rings: Mapped<Ring> = Mapped::new(&bench.fds[2], bench.counts.len()).expect("maps");
    rings.set(0, Ring { lost: [u32::MAX, 0], ..rings.get(0) });
    bench.receive(0, &frame(1, 1_000));
    drain(&mut source);
    bench.receive(0, &frame(2, 60));
    assert_eq!(drain(&mut source)[0].lost_before, u32::MAX.into());
}

#[test]
fn a_loss_on_one_cpu_dates_back_to_the_last_copy_made_there() {
    let Some(mut bench) = Bench::new(1, MAX_BYTES) else { return };
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: one CPU only");
        return;
    }
    let mut source = bench.source();
    pinned(0);
    while bench.count(0).not_copied == 0 {
        bench.receive(0, &frame(0, 1_514));
    }
    pinned(1);
    bench.receive(0, &frame(1, 60));
    let taken = drain(&mut source);
    let [.., last_on_0, on_1] = &taken[..] else { panic!("{} frames", taken.len()) };
    assert_eq!((number(last_on_0), number(on_1)), (0, 1));
    // Before anybody can tell of it with a frame, too.
    assert_eq!(Source::lost_since_ns(&source, 0), Some(last_on_0.time_ns));
    pinned(0);
    bench.receive(0, &frame(2, 60));
    let next = drain(&mut source);
    assert!(next[0].lost_before > 0);
    assert_eq!(next[0].lost_since_ns, Some(last_on_0.time_ns));
    assert_eq!(Source::lost_since_ns(&source, 0), None);
}

#[test]
fn what_still_waits_for_the_mirror_at_the_end_is_not_sent() {
    let mirror = MirrorCounters { sent: 5, not_sent: 1, waiting: 3, reason: String::new() };
    let mut counters = Counters { mirror, ..Counters::default() };
    let ended = counters.clone().ended().mirror;
    assert_eq!((ended.sent, ended.not_sent, ended.waiting, &*ended.reason), (5, 4, 0, "the tap ended"));
    counters.mirror.reason = "the mirror's ring was full".into();
    assert_eq!(counters.ended().mirror.reason, "the mirror's ring was full");
}

#[test]
fn a_batch_that_the_kernel_refuses_does_not_end_the_mirror() {
    let Some(mut bench) = Bench::new(1, MAX_BYTES) else { return };
    pinned(0);
    for _ in 0..JOBS {
        bench.receive(0, &frame(1, 14));
    }
    bench.receive(0, &frame(2, 60));
    // One byte less than the kernel accepts.
    let memory = bench.programs.share("tap_m_memory").expect("there");
    let words = (size_of::<Record>() + 16) / 8;
    let mut lengths: Mapped<u64> = Mapped::new(&memory, JOBS * words).expect("maps");
    for index in 0..JOBS {
        lengths.set(index * words + 1, 14 | 13 << 32);
    }
    let rings = bench.programs.share("tap_m_rings").expect("there");
    let pump = Pump::start(Parts {
        rings: Rings::new(rings, memory, bench.counts.len(), 1).expect("maps"),
        counts: bench.programs.array("tap_counts", bench.counts.len()).expect("mapped"),
        programs: Arc::new(bench.programs),
        port: Port { name: "lo".into(), ..ports().into_iter().next().expect("two") },
        logger_mac: [9; 6],
        cpu: None,
        is_traced: true,
    })
    .expect("starts");
    wait_until(Duration::from_secs(20), || pump.progress.taken.load(Relaxed) > JOBS as u64);
    assert_eq!(pump.progress.taken.load(Relaxed), JOBS as u64 + 1);
    assert!(pump.is_running(), "{:?}", pump.progress.failure);
    assert_eq!(pump.progress.error.load(Relaxed), libc::EINVAL);
}

#[test]
fn a_small_share_of_the_ring_is_said_with_the_remedy() {
    assert_eq!(small_share(64 << 20, 16 << 20, 4), None);
    let said = small_share(64 << 20, 1 << 20, 64).expect("a sixty-fourth");
    assert!(
        said.contains("64 possible CPUs") && said.contains("1024 KiB") && said.contains("--ring"),
        "{said}"
    );
}

#[test]
fn a_privilege_is_named_only_where_one_is_missing() {
    let error = |code| TapError::System {
        action: "mirror to",
        interface: "wc".into(),
        source: std::io::Error::from_raw_os_error(code),
    };
    assert!(error(libc::EPERM).to_string().contains("mirror to wc (needs CAP_NET_RAW): "));
    assert!(error(libc::ENODEV).to_string().starts_with("cannot mirror to wc: "));
}

#[test]
fn frames_whose_fate_nothing_told_by_the_end_count_as_forwarded_and_are_said_to_be_assumed() {
    let side =
        |forwarded| SideCounters { received: 10, forwarded, not_forwarded: 2, ..SideCounters::default() };
    let counters = |sides| Counters { sides, ..Counters::default() };
    let told = counters([side(8), side(8)]);
    assert_eq!(told.clone().ended(), told);
    let ended = counters([side(8), side(5)]).ended();
    assert_eq!((&ended.sides[1], ended.assumed), (&side(8), true));
}
