//! The programs run one frame at a time, attached nowhere, and the ring as they leave it.

mod limits;

use std::os::fd::AsRawFd;
use std::time::Duration;

use aya::programs::{TestRun, TestRunOptions};

use super::layout::{Count, Record};
use super::merge::Merge;
use super::programs::{Programs, Setup};
use super::*;
use crate::record::{Direction, Frame, Source};
use weir_clock::now_ns;

const XDP_REDIRECT: u32 = 4;

/// A loaded bridge from the loopback interface to itself, and its rings.
struct Bench {
    programs: Programs,
    fds: Vec<OwnedFd>,
    counts: Mapped<Counts>,
}

impl Bench {
    /// `None`, said aloud, without root.
    fn new(chunks: usize, snap: usize) -> Option<Self> {
        // SAFETY: a plain system call.
        if unsafe { libc::geteuid() } != 0 {
            println!("skipped: loading BPF programs needs root");
            return None;
        }
        let cpus = possible_cpus().expect("known");
        let setup = Setup {
            cpus,
            chunks: Some(chunks),
            mirror_chunks: Some(1),
            jobs: JOBS,
            snap,
            link_first: true,
            ifindex: [1, 1, 1],
            netns: 0,
        };
        let mut programs = Programs::load(&setup).expect("loads");
        programs.connect([1, 1, 1]).expect("loopback is there");
        programs.array::<Info>("tap_info", 1).expect("mapped").set(0, info(&ports(), cpus, chunks));
        let fds = RING_MAPS.map(|map| programs.share(map).expect("shared")).into();
        let counts = programs.array("tap_counts", cpus).expect("mapped");
        Some(Self { programs, fds, counts })
    }

    fn source(&self) -> RingSource {
        let fds: Vec<_> = self.fds.iter().map(AsRawFd::as_raw_fd).collect();
        RingSource::open(&fds).expect("a ring")
    }

    /// Lets a frame come in.
    fn receive(&mut self, side: usize, frame: &[u8]) {
        let program = self.programs.xdp(["weir_tap_a", "weir_tap_b"][side]).expect("there");
        let options = TestRunOptions { data_in: Some(frame), ..TestRunOptions::new() };
        assert_eq!(program.test_run(options).expect("runs").return_value, XDP_REDIRECT);
    }

    /// As after so many full flushes in a row of what came in at A, the last one `ago_ns` ago.
    fn press(&mut self, flushes: u32, ago_ns: i64) {
        let flushed_ns = now_ns().saturating_add_signed(-ago_ns);
        for cpu in 0..self.counts.len() {
            let counts = Counts { pressed: [flushes, 0], flushed_ns, stamp_ns: 0, ..self.counts.get(cpu) };
            self.counts.set(cpu, counts);
        }
    }

    fn count(&self, side: usize) -> Count {
        (0..self.counts.len()).map(|cpu| self.counts.get(cpu).side[side]).fold(
            Count::default(),
            |mut sum, c| {
                sum.received += c.received;
                sum.copied += c.copied;
                sum.not_copied += c.not_copied;
                sum.cut += c.cut;
                sum
            },
        )
    }
}

fn ports() -> [Port; 2] {
    ["left", "right"].map(|name| Port {
        name: name.into(),
        ifindex: 1,
        mac: [2, 0, 0, 0, 0, name.len() as u8],
        promiscuous: None,
    })
}

/// A frame that tells its number and length.
fn frame(number: u32, length: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..length).map(|i| (i as u32 * 7 + number) as u8).collect();
    frame[..4].copy_from_slice(&number.to_be_bytes());
    frame
}

struct Taken {
    time_ns: i64,
    side: usize,
    length: u32,
    lost_before: u64,
    lost_since_ns: Option<i64>,
    data: Vec<u8>,
}

fn drain(source: &mut RingSource) -> Vec<Taken> {
    let mut taken = Vec::new();
    let mut take = |frame: Frame<'_>| {
        assert_eq!(frame.direction, Direction::Inbound);
        taken.push(Taken {
            time_ns: frame.time_ns,
            side: frame.interface,
            length: frame.original_len,
            lost_before: frame.lost_before,
            lost_since_ns: frame.lost_since_ns,
            data: frame.data.to_vec(),
        });
    };
    // Longer than the time in which frames of other CPUs are waited for.
    while source.read(Duration::from_millis(2), &mut take).expect("reads") > 0 {}
    taken
}

fn number(taken: &Taken) -> u32 {
    u32::from_be_bytes(taken.data[..4].try_into().expect("four bytes"))
}

#[test]
fn copies_are_cut_to_their_headers_while_the_link_has_no_time_left() {
    let Some(mut bench) = Bench::new(4, 1_000) else { return };
    let mut source = bench.source();
    // Seconds in the future: no pause, however slowly this test runs.
    let (soon, before) = (-10_000_000_000, 1_000_000);
    for (flushes, ago_ns, side, length) in [
        (31, soon, 0, 1_514),
        (32, soon, 0, 1_514),
        (32, soon, 0, 100),
        (32, soon, 1, 1_514),
        (32, before, 0, 1_514),
    ] {
        bench.press(flushes, ago_ns);
        bench.receive(side, &frame(1, length));
    }
    let taken = drain(&mut source);
    let sizes: Vec<_> = taken.iter().map(|t| (t.data.len(), t.length)).collect();
    assert_eq!(sizes, [(1_000, 1_514), (PRESSED_BYTES, 1_514), (100, 100), (1_000, 1_514), (1_000, 1_514)]);
    assert_eq!((bench.count(0).cut, bench.count(1).cut), (1, 0));
    assert_eq!((bench.count(0).copied, bench.count(1).copied), (4, 1));
}

#[test]
fn frames_of_every_length_come_out_of_the_ring_as_they_came_in() {
    let Some(mut bench) = Bench::new(32, MAX_BYTES) else { return };
    let mut source = bench.source();
    let lengths: Vec<usize> = (14..=1514).chain([2000, 3000, 3400]).collect();
    for (i, &length) in lengths.iter().enumerate() {
        bench.receive(i % 2, &frame(i as u32, length));
    }
    let taken = drain(&mut source);
    assert_eq!(taken.len(), lengths.len());
    for (i, (taken, &length)) in taken.iter().zip(&lengths).enumerate() {
        assert_eq!((taken.side, taken.length, taken.lost_before), (i % 2, length as u32, 0));
        assert!(taken.data == frame(i as u32, length), "frame {i} of {length} bytes");
    }
    assert!(taken.is_sorted_by_key(|taken| taken.time_ns));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let age_ns = now.as_nanos() as i64 - taken[0].time_ns;
    assert!((0..60_000_000_000).contains(&age_ns), "{age_ns}");
}

#[test]
fn frames_are_cut_to_the_length_that_is_asked_for() {
    let Some(mut bench) = Bench::new(1, 96) else { return };
    let mut source = bench.source();
    bench.receive(1, &frame(1, 1514));
    bench.receive(1, &frame(2, 60));
    let taken = drain(&mut source);
    assert_eq!((taken[0].length, &taken[0].data[..]), (1514, &frame(1, 1514)[..96]));
    assert_eq!((taken[1].length, taken[1].data.len()), (60, 60));
}

#[test]
fn a_ring_that_is_read_goes_round_and_round_without_loss() {
    let Some(mut bench) = Bench::new(1, MAX_BYTES) else { return };
    let mut source = bench.source();
    let length = |number: u32| 60 + (number as usize * 379) % 1455;
    let mut expected = 0;
    while expected < 2_000 {
        for number in expected..expected + 100 {
            bench.receive(0, &frame(number, length(number)));
        }
        for taken in drain(&mut source) {
            assert_eq!(number(&taken), expected);
            assert!(taken.data == frame(expected, length(expected)) && taken.lost_before == 0);
            expected += 1;
        }
    }
    assert_eq!(bench.count(0).not_copied, 0);
    assert_eq!(source.lost(), [0, 0]);
}

#[test]
fn a_full_ring_drops_copies_counts_them_per_side_and_locates_the_gap() {
    let Some(mut bench) = Bench::new(1, MAX_BYTES) else { return };
    pinned(0);
    let mut source = bench.source();
    for number in 0..400 {
        bench.receive(number as usize % 4 / 3, &frame(number, 1514));
    }
    let kept = drain(&mut source).len() as u64;
    // A record is 1,544 bytes; one that begins in a chunk may end behind it.
    assert_eq!(kept, CHUNK.div_ceil(1_544));
    for side in [0, 1] {
        let count = bench.count(side);
        assert_eq!(count.received, [300, 100][side]);
        assert_eq!(count.received, count.copied + count.not_copied);
    }
    for side in [0, 1, 0, 1] {
        bench.receive(side, &frame(0, 60));
    }
    let lost: Vec<_> = drain(&mut source).iter().map(|taken| (taken.side, taken.lost_before)).collect();
    let not_copied = [0, 1].map(|side| bench.count(side).not_copied);
    assert_eq!(lost, [(0, not_copied[0]), (1, not_copied[1]), (0, 0), (1, 0)]);
    assert_eq!(not_copied[0] + not_copied[1], 400 - kept);
    assert_eq!(source.lost(), not_copied);
}

#[test]
fn a_reader_goes_on_where_the_one_before_it_stopped_or_was_killed() {
    let Some(mut bench) = Bench::new(1, MAX_BYTES) else { return };
    pinned(0);
    for number in 0..10 {
        bench.receive(0, &frame(number, 100));
    }
    let mut first = bench.source();
    assert_eq!(drain(&mut first).len(), 10);
    for number in 10..300 {
        bench.receive(0, &frame(number, 1514));
    }
    let lost = bench.count(0).not_copied;
    assert!(lost > 0);
    // Killed in the middle: it has taken frames, and given none back.
    let mut killed =
        Merge::new(Rings::new(&bench.fds[2], &bench.fds[3], bench.counts.len(), 1).expect("maps"));
    killed.refresh().expect("sound");
    assert!(killed.next(u64::MAX).expect("sound").is_some());
    drop((first, killed));

    let mut second = bench.source();
    let taken = drain(&mut second);
    assert_eq!(number(&taken[0]), 10);
    assert_eq!(taken.len() as u64, 290 - lost);
    assert_eq!(second.lost(), [lost, 0]);
    bench.receive(0, &frame(300, 60));
    let last = drain(&mut second);
    assert_eq!((number(&last[0]), last[0].lost_before), (300, lost));
    assert_eq!(bench.source().lost(), [0, 0]);
}

#[test]
fn rings_of_two_cpus_are_read_in_the_order_of_time() {
    let Some(mut bench) = Bench::new(4, MAX_BYTES) else { return };
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: one CPU only");
        return;
    }
    let mut source = bench.source();
    for number in 0..400u32 {
        if number % 7 == 0 {
            pinned(number as usize / 7 % 2);
        }
        bench.receive(0, &frame(number, 60));
    }
    let per_cpu: Vec<_> = (0..2).map(|cpu| bench.counts.get(cpu).side[0].copied).collect();
    assert!(per_cpu.iter().all(|&copied| copied > 100), "{per_cpu:?}");
    let numbers: Vec<_> = drain(&mut source).iter().map(number).collect();
    assert_eq!(numbers, Vec::from_iter(0..400));
}

#[test]
fn bytes_that_are_no_record_end_the_reading_with_an_error() {
    let Some(mut bench) = Bench::new(1, MAX_BYTES) else { return };
    pinned(0);
    bench.receive(0, &frame(1, 60));
    let mut source = bench.source();
    let at = std::mem::offset_of!(Record, captured);
    let mut memory: Mapped<u64> = Mapped::new(&bench.fds[3], 8).expect("maps");
    memory.set(at / 8, 0xffff_ffff_0000_003c);
    let error = source.read(Duration::from_millis(2), &mut |_| panic!("no frame")).expect_err("damaged");
    assert!(error.to_string().contains("CPU 0 is damaged at byte 0"), "{error}");
}

#[test]
fn the_mirrors_program_builds_frames_out_of_its_ring_whatever_the_page_held_before() {
    let Some(mut bench) = Bench::new(1, 96) else { return };
    pinned(0);
    let lengths = [60, 1514, 61, 3072];
    for (number, &length) in lengths.iter().enumerate() {
        bench.receive(number % 2, &frame(number as u32, length));
    }
    let (rings, memory) = (bench.programs.share("tap_m_rings"), bench.programs.share("tap_m_memory"));
    let rings =
        Rings::new(rings.expect("there"), memory.expect("there"), bench.counts.len(), 1).expect("maps");
    let mut merge = Merge::new(rings);
    merge.refresh().expect("sound");
    let mut jobs: Mapped<layout::Job> = bench.programs.array("tap_jobs", lengths.len()).expect("mapped");
    for index in 0..lengths.len() {
        let item = merge.next(u64::MAX).expect("sound").expect("one for each frame");
        let chunk = merge.rings().chunk(item.cpu, item.position) as u32;
        jobs.set(index, layout::Job { chunk, at: item.position as u32 });
    }
    let mut state = bench.programs.array("tap_mirror", 1).expect("mapped");
    let all = lengths.len() as u32;
    state.set(0, layout::Mirror { jobs: all, input_len: 3072, mac: [9; 6], ..layout::Mirror::default() });
    for (number, &length) in lengths.iter().enumerate() {
        let mut built = vec![0; 4096];
        let page = vec![0xaa; 3072];
        let options =
            TestRunOptions { data_in: Some(&page), data_out: Some(&mut built), ..TestRunOptions::new() };
        let result = bench.programs.sender().expect("there").test_run(options).expect("runs");
        assert_eq!(result.return_value, XDP_REDIRECT);
        let mut expected = frame(number as u32, length);
        expected[..6].fill(9);
        assert!(built[..result.data_size_out as usize] == expected, "frame {number}");
    }
    assert_eq!((state.get(0).next, state.get(0).misfits), (all, 0));
}

#[test]
fn descriptors_of_something_else_are_refused() {
    let Err(error) = RingSource::open(&[]) else { panic!("opened") };
    assert!(error.to_string().contains("four file descriptors, not 0"));
    assert!(RingSource::open(&[-1, -1, -1, -1]).is_err());
}

#[test]
fn one_interface_cannot_be_two_ends() {
    let mut options = TapOptions {
        link_first: true,
        netns: None,
        interfaces: ["a".into(), "b".into()],
        ring: true,
        mirror: Some(MirrorOptions { interface: "b".into(), logger_mac: [2; 6], cpu: None }),
        ring_bytes: 1 << 20,
        snap_bytes: 100,
        mode: Mode::Auto,
    };
    assert!(matches!(Tap::open(&options), Err(TapError::Same { interface }) if interface == "b"));
    options.mirror = None;
    options.snap_bytes = 0;
    assert!(matches!(Tap::open(&options), Err(TapError::Option(_))));
}

#[test]
fn rings_are_powers_of_two_and_at_least_a_chunk() {
    assert_eq!(chunks(64 << 20, 2), 128);
    assert_eq!(chunks(100 << 20, 3), 128);
    assert_eq!(chunks(0, 8), 1);
}

/// Moves this thread, and the programs it runs, to a CPU.
fn pinned(cpu: usize) {
    thread::pin(cpu).expect("a CPU");
}
