use super::*;

const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
const SECOND_NS: i64 = 1_000_000_000;

fn packet(kind: u8, count: u8, words: &[u32]) -> Vec<u8> {
    let head = [0x80 | count, kind, 0, words.len() as u8];
    [&head[..], &words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>()].concat()
}

fn sender_report(source: u32, time: u32) -> Vec<u8> {
    packet(SENDER_REPORT, 0, &[source, time >> 16, time << 16, 0, 0, 0])
}

fn receiver_report(about: u32, fraction: u32, lost: i32, highest: u32, since: (u32, u32)) -> Vec<u8> {
    let losses = fraction << 24 | (lost as u32 & 0x00ff_ffff);
    packet(RECEIVER_REPORT, 1, &[9, about, losses, highest, 80, since.0, since.1])
}

fn put(store: &mut Store, bytes: &[u8], at_ns: i64, src: IpAddr, dst: IpAddr) {
    store.put(bytes, bytes.len(), at_ns, src, dst);
}

#[test]
fn a_round_trip_is_the_time_to_the_report_less_that_at_the_receiver() {
    let mut store = Store::default();
    put(&mut store, &sender_report(7, 0x1234_5678), 3 * SECOND_NS, A, B);
    let tenth_s = 6_554;
    put(&mut store, &receiver_report(7, 0, 0, 100, (0x1234_5678, tenth_s)), 34 * SECOND_NS / 10, B, A);
    let trips = store.of(7, A, B).unwrap().round_trips;
    assert_eq!((trips.count, trips.least_ns / 1_000_000), (1, 299));
    // Of a time that nobody sent, nothing follows.
    put(&mut store, &receiver_report(7, 0, 0, 100, (5, 0)), 4 * SECOND_NS, B, A);
    assert_eq!(store.of(7, A, B).unwrap().round_trips.count, 1);
}

fn captured(first: u16, count: u64) -> CapturedNumbers {
    CapturedNumbers { first, count, pauses: Pauses::default() }
}

#[test]
fn losses_are_those_between_the_first_report_and_the_last() {
    let mut store = Store::default();
    for (lost, highest) in [(-2, 1_000), (8, 1_250), (48, 1_500)] {
        put(&mut store, &receiver_report(7, 25, lost, highest, (0, 0)), 0, B, A);
    }
    let of = |first, count| store.of(7, A, B).unwrap().loss_ratio(captured(first, count));
    assert_eq!(of(980, 600), Some(0.1));
    assert_eq!(store.of(7, B, A), None);
    // As many came before the capture, or all.
    assert_eq!((of(1_250, 600), of(1_501, 600)), (None, None));
    assert!(store.of(7, A, B).unwrap().lost_others(captured(1_501, 600)));
}

#[test]
fn numbers_that_were_not_sent_are_no_losses_though_receivers_count_them() {
    let pauses = Pauses { count: 1, skipped: 600, from: 1_100, until: 1_700, ..Pauses::default() };
    let of = |reports: &[(i32, u32)]| {
        let mut store = Store::default();
        for &(lost, highest) in reports {
            put(&mut store, &receiver_report(7, 145, lost, highest, (0, 0)), 0, B, A);
        }
        let numbers = CapturedNumbers { first: 950, count: 1_650, pauses };
        store.of(7, A, B).unwrap().loss_ratio(numbers)
    };
    // 50 of 500 that were sent, all or some of them before the pause, or behind it; the same by a single report.
    assert_eq!(of(&[(0, 1_000), (0, 1_099), (650, 2_100)]), Some(0.1));
    assert_eq!(of(&[(0, 1_000), (9, 1_090)]), Some(0.1));
    assert_eq!(of(&[(600, 1_800), (650, 2_300)]), Some(0.1));
    assert_eq!(of(&[(655, 2_099)]), Some(0.1));
    // The receiver began anew, or reports end in the middle.
    assert_eq!((of(&[(0, 1_000), (50, 2_100)]), of(&[(0, 1_000), (50, 1_600)])), (None, None));
}

#[test]
fn one_report_counts_if_it_is_about_what_was_captured() {
    let of = |lost, highest, first, count| {
        let mut store = Store::default();
        put(&mut store, &receiver_report(7, 64, lost, highest, (0, 0)), 0, B, A);
        store.of(7, A, B).unwrap().loss_ratio(captured(first, count))
    };
    // A quarter of 2,000 since the receiver began.
    assert_eq!(of(500, 9_000, 7_001, 3_000), Some(0.25));
    // Only the last 400 of these, or none.
    assert_eq!(of(500, 9_000, 8_601, 3_000), None);
    assert_eq!(of(500, 9_000, 9_001, 3_000), None);
    // Of 8,000 only those 500 were lost.
    assert_eq!(of(500, 9_000, 1_001, 9_000), Some(0.0625));
    // The receiver has counted rounds, and the numbers begin anew within the capture.
    assert_eq!(of(500, 0x0003_0190, 63_937, 3_000), Some(0.25));
    // More copies than losses in all: when they were lost is not known.
    assert_eq!(of(-3, 9_000, 7_001, 3_000), None);
}

#[test]
fn extended_reports_have_the_round_trip_of_a_receiver_and_what_it_computed() {
    let mut store = Store::default();
    let time = packet(EXTENDED_REPORT, 0, &[9, 0x0400_0002, 0x0000_5678, 0x9abc_0000]);
    put(&mut store, &time, SECOND_NS, B, A);
    let answer = packet(EXTENDED_REPORT, 0, &[7, 0x0500_0003, 9, 0x5678_9abc, 0]);
    put(&mut store, &answer, SECOND_NS + 40_000_000, A, B);
    assert_eq!(store.of(9, B, A).unwrap().round_trips.least_ns, 40_000_000);
    let metrics = [7, 0x4020_0000, 0, 0x0096_0028, 0, 0x5f7f_2926, 0, 0];
    let words = [&[9, 0x0700_0008][..], &metrics].concat();
    put(&mut store, &packet(EXTENDED_REPORT, 0, &words), 2 * SECOND_NS, B, A);
    let claim = store.of(7, A, B).unwrap().claim.unwrap();
    assert_eq!((claim.loss_ratio, claim.discard_ratio), (0.25, 0.125));
    assert_eq!((claim.round_trip_ms, claim.end_system_ms), (150, 40));
    assert_eq!((claim.r, claim.mos_lq, claim.mos_cq), (Some(95), Some(4.1), Some(3.8)));
}

#[test]
fn encrypted_packets_are_counted_and_not_believed() {
    let mut store = Store::default();
    let encrypted = [&receiver_report(7, 200, 9, 10, (0, 0))[..], &[0x80, 0, 0, 1], &[0xaa; 10]].concat();
    put(&mut store, &encrypted, 0, B, A);
    assert_eq!((store.unreadable, store.of(7, A, B)), (1, None));
}
