use super::*;
use crate::packet::{FragmentCounts, Reassembly};

const S: i64 = 1_000_000_000;
const RAW: LinkType = LinkType(101);

/// A fragment over IPv4 of what UDP ports 4000 and 4002 exchange: `offset` in bytes.
fn fragment(id: u16, offset: usize, more: bool, data: &[u8]) -> Vec<u8> {
    let cut = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
    let [[total_high, total_low], [id_high, id_low], [cut_high, cut_low]] =
        [20 + data.len() as u16, id, cut].map(u16::to_be_bytes);
    let head = [0x45, 0, total_high, total_low, id_high, id_low, cut_high, cut_low, 64, 17, 0, 0];
    [&head[..], &[192, 0, 2, 1, 192, 0, 2, 2], data].concat()
}

/// The same over IPv6.
fn fragment6(id: u8, offset: usize, more: bool, data: &[u8]) -> Vec<u8> {
    let [high, low] = (offset as u16 | u16::from(more)).to_be_bytes();
    ipv6(44, &[&[17, 0, high, low, 0, 0, 0, id], data].concat())
}

/// Speech of 100 bytes in UDP, cut after 40 and 80 bytes.
fn pieces() -> [(usize, bool, Vec<u8>); 3] {
    let whole = udp(4_000, 4_002, &(0..100).collect::<Vec<u8>>());
    [(0, true, whole[..40].to_vec()), (40, true, whole[40..80].to_vec()), (80, false, whole[80..].to_vec())]
}

fn put(reassembly: &mut Reassembly, time_ns: i64, data: &[u8]) -> Option<(u16, Vec<u8>, usize)> {
    match reassembly.decode(&Packet::new(time_ns, RAW, data)) {
        Decoded::Udp(found) => Some((found.dst_port, found.payload.to_vec(), found.payload_len)),
        Decoded::Fragment => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn fragments_are_put_together_in_whatever_order_they_come() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for version in [4, 6] {
            let mut reassembly = Reassembly::new();
            let found = order.map(|i| {
                let (offset, more, data) = &pieces()[i];
                let packet = match version {
                    4 => fragment(7, *offset, *more, data),
                    _ => fragment6(7, *offset, *more, data),
                };
                put(&mut reassembly, 0, &packet)
            });
            let speech: Vec<u8> = (0..100).collect();
            assert_eq!(found, [None, None, Some((4_002, speech, 100))], "{order:?} of version {version}");
            let expected = FragmentCounts { fragments: 3, datagrams: 1, ..FragmentCounts::default() };
            assert_eq!((reassembly.counts(), reassembly.unfinished()), (&expected, 0));
        }
    }
}

#[test]
fn datagrams_do_not_mix() {
    let mut reassembly = Reassembly::new();
    let [first, second, third] = pieces();
    for id in [1, 2] {
        assert_eq!(put(&mut reassembly, 0, &fragment(id, first.0, first.1, &first.2)), None);
        assert_eq!(put(&mut reassembly, 0, &fragment(id, second.0, second.1, &second.2)), None);
    }
    let elsewhere = fragment(1, third.0, third.1, &third.2);
    let packet = Packet { interface: 1, ..Packet::new(0, RAW, &elsewhere) };
    assert_eq!(reassembly.decode(&packet), Decoded::Fragment);
    assert_eq!(reassembly.unfinished(), 3);
    assert!(put(&mut reassembly, 0, &fragment(2, third.0, third.1, &third.2)).is_some());
    assert_eq!(reassembly.unfinished(), 2);
}

#[test]
fn a_fragment_that_comes_twice_counts_once() {
    let mut reassembly = Reassembly::new();
    let [first, second, third] = pieces();
    for (offset, more, data) in [&first, &first, &third, &first, &third] {
        assert_eq!(put(&mut reassembly, 0, &fragment(1, *offset, *more, data)), None);
    }
    assert_eq!(reassembly.counts().duplicates, 3);
    assert!(put(&mut reassembly, 0, &fragment(1, second.0, second.1, &second.2)).is_some());
}

#[test]
fn datagrams_of_fragments_that_overlap_are_thrown_away() {
    let [first, second, third] = pieces();
    let other = [9; 40].to_vec();
    for (offset, more, data) in [
        // Over the one before, over the one behind, in the same place, around both.
        (32, true, &second.2[..16]),
        (40, true, &[8; 48]),
        (0, true, &other[..]),
        (0, true, &[0; 88]),
        // Ends elsewhere, or goes on behind the end.
        (40, false, &second.2[..32]),
        (104, true, &second.2[..8]),
        (160, false, &second.2[..8]),
    ] {
        let mut reassembly = Reassembly::new();
        assert_eq!(put(&mut reassembly, 0, &fragment(1, first.0, first.1, &first.2)), None);
        assert_eq!(put(&mut reassembly, 0, &fragment(1, third.0, third.1, &third.2)), None);
        assert_eq!(put(&mut reassembly, 0, &fragment(1, offset, more, data)), None);
        // What would have completed it comes too late.
        assert_eq!(put(&mut reassembly, 0, &fragment(1, second.0, second.1, &second.2)), None);
        let counts = reassembly.counts();
        assert_eq!((counts.overlapping, counts.datagrams), (1, 0), "{offset}, {more}, {}", data.len());
        assert_eq!(reassembly.unfinished(), 0);
    }
}

#[test]
fn fragments_that_cannot_be_are_counted() {
    let mut reassembly = Reassembly::new();
    // Empty; no multiple of 8; beyond the greatest length of a datagram ("ping of death").
    for packet in
        [fragment(1, 8, true, &[]), fragment(1, 0, true, &[0; 12]), fragment(1, 65_528, false, &[0; 100])]
    {
        assert_eq!(put(&mut reassembly, 0, &packet), None);
    }
    assert_eq!((reassembly.counts().malformed, reassembly.unfinished()), (3, 0));
}

#[test]
fn a_datagram_that_takes_longer_than_30_s_is_given_up() {
    let mut reassembly = Reassembly::new();
    let [first, second, third] = pieces();
    put(&mut reassembly, 0, &fragment(1, first.0, first.1, &first.2));
    put(&mut reassembly, 30 * S, &fragment(1, second.0, second.1, &second.2));
    assert_eq!(put(&mut reassembly, 30 * S + 1, &fragment(1, third.0, third.1, &third.2)), None);
    assert_eq!((reassembly.counts().expired, reassembly.unfinished()), (1, 1));
}

#[test]
fn a_flood_of_fragments_takes_little_memory_and_is_counted() {
    let mut reassembly = Reassembly::new();
    for id in 0..60_000 {
        put(&mut reassembly, 0, &fragment(id, 0, true, &[0; 8]));
    }
    assert_eq!(reassembly.unfinished(), 1_024);
    assert_eq!(reassembly.counts().crowded_out, 60_000 - 1_024);
    let mut reassembly = Reassembly::new();
    for id in 0..1_000 {
        put(&mut reassembly, 0, &fragment(id, 8, true, &[0; 60_000]));
    }
    assert!(reassembly.unfinished() < 70, "4 MiB are enough for 69 of them");
    let mut reassembly = Reassembly::new();
    for i in 0..2_000 {
        put(&mut reassembly, 0, &fragment(1, 16 * i, true, &[0; 8]));
    }
    assert_eq!((reassembly.counts().crowded_out, reassembly.unfinished()), (1, 0));
}

#[test]
fn what_the_capture_cut_off_is_missing_and_the_length_known() {
    let mut reassembly = Reassembly::new();
    let [first, second, third] = pieces();
    put(&mut reassembly, 0, &fragment(1, first.0, first.1, &first.2));
    let cut = fragment(1, second.0, second.1, &second.2);
    let packet = Packet { original_len: 60, ..Packet::new(0, RAW, &cut[..30]) };
    assert_eq!(reassembly.decode(&packet), Decoded::Fragment);
    let found = put(&mut reassembly, 0, &fragment(1, third.0, third.1, &third.2));
    assert_eq!(found, Some((4_002, (0..42).collect(), 100)));
}

#[test]
fn a_mark_of_congestion_on_a_fragment_marks_the_datagram() {
    let mut reassembly = Reassembly::new();
    let [first, second, third] = pieces();
    let mut marked = fragment(1, second.0, second.1, &second.2);
    marked[1] = 3;
    put(&mut reassembly, 0, &marked);
    put(&mut reassembly, 0, &fragment(1, first.0, first.1, &first.2));
    let last = fragment(1, third.0, third.1, &third.2);
    match reassembly.decode(&Packet::new(0, RAW, &last)) {
        Decoded::Udp(datagram) => assert_eq!(datagram.ecn, 3),
        other => panic!("{other:?}"),
    }
}

#[test]
fn whole_packets_pass_as_they_are() {
    let packet = udp_over_ipv4(1, 2, b"speech");
    let mut reassembly = Reassembly::new();
    assert_eq!(put(&mut reassembly, 0, &packet), Some((2, b"speech".to_vec(), 6)));
    assert_eq!(reassembly.counts(), &FragmentCounts::default());
}

proptest::proptest! {
    /// However a datagram is cut, and in whatever order it comes, it is the same again.
    #[test]
    fn fragments_are_put_together(
        length in 1..3_000_usize,
        cuts in proptest::collection::btree_set(1..370_usize, 0..20),
        keys in proptest::collection::vec(proptest::prelude::any::<u32>(), 21),
    ) {
        let payload: Vec<u8> = (0..length).map(|i| (i * 7) as u8).collect();
        let whole = udp(1, 2, &payload);
        let inside = cuts.iter().map(|cut| cut * 8).filter(|cut| *cut < whole.len());
        let edges: Vec<usize> = std::iter::once(0).chain(inside).chain([whole.len()]).collect();
        let mut spans: Vec<_> = edges.windows(2).zip(&keys).map(|(w, key)| (*key, w[0], w[1])).collect();
        spans.sort_unstable();
        let mut reassembly = Reassembly::new();
        let mut found = Vec::new();
        for (_, from, to) in &spans {
            let packet = fragment(1, *from, *to < whole.len(), &whole[*from..*to]);
            found.extend(put(&mut reassembly, 0, &packet));
        }
        proptest::prop_assert_eq!(found, vec![(2, payload, length)]);
    }

    /// Fragments of all sorts never panic, and hold no more than they may.
    #[test]
    fn arbitrary_fragments_never_panic(
        fragments in proptest::collection::vec(
            (0..4_u16, 0..40_usize, proptest::prelude::any::<bool>(), 0..64_usize, 0..200_i64), 0..200),
    ) {
        let mut reassembly = Reassembly::new();
        for (id, offset, more, length, time) in fragments {
            let packet = fragment(id, offset * 8, more, &vec![0; length * 4]);
            let _ = reassembly.decode(&Packet::new(time * S, RAW, &packet));
        }
        proptest::prop_assert!(reassembly.unfinished() <= 4);
    }
}
