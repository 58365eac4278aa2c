//! Memory, time-outs and hostile input.

use super::*;

fn syn(time_ns: i64, port: u16) -> Made {
    Made { ports: (port, 80), ..packet(time_ns, From::A, 1_000, 0, 0).flags(SYN) }
}

#[test]
fn a_scan_gives_up_the_oldest_connection_beyond_the_cap() {
    let options = Options { max_connections: 100, ..Options::default() };
    let packets: Vec<_> = (0..1_000).map(|port| syn(i64::from(port), port)).collect();
    let (rows, counts) = counted(options, &packets);
    assert_eq!((rows.connections.len(), counts.evicted), (1_000, 900));
    let ids: Vec<_> = rows.connections.iter().map(|connection| connection.id).collect();
    assert_eq!(ids, (0..1_000).collect::<Vec<_>>());
    assert_eq!((rows.connections[0].end, rows.connections[999].end), (End::Idle, End::Open));
}

#[test]
fn connections_with_state_are_bounded_by_themselves() {
    let options = Options { max_states: 10, ..Options::default() };
    let mut packets: Vec<_> = (0..20).map(|port| syn(0, port)).collect();
    packets.extend((0..50).map(|port| Made { ports: (port, 443), ..a(i64::from(port), 1, 10) }));
    let mut analyzer = Analyzer::new(options, Rows::default());
    for made in &packets {
        put(&mut analyzer, made);
    }
    assert_eq!((analyzer.open_connections(), analyzer.counts().evicted), (30, 40));
}

#[test]
fn connections_that_are_over_go_before_those_that_go_on() {
    let options = Options { max_states: 10, ..Options::default() };
    let fin = |n: u16, from| Made {
        ports: (n, 80),
        ..packet(i64::from(n) * MS, from, 100, 100, 0).flags(FIN | ACK)
    };
    let mut packets = vec![Made { ports: (9_000, 80), ..a(0, 1, 10) }];
    packets.extend((1..100).flat_map(|n| [fin(n, From::A), fin(n, From::B)]));
    packets.push(Made { ports: (9_000, 80), ..a(200 * MS, 11, 10) });
    let (rows, counts) = counted(options, &packets);
    assert_eq!((rows.connections.len(), counts.evicted), (100, 90));
    assert_eq!(rows.connections.iter().find(|c| c.id == 0).map(|c| c.sides[0].unique_bytes), Some(20));
}

#[test]
fn what_one_direction_alone_sent_is_hardly_remembered() {
    let options = Options { max_outstanding: 10_000, ..Options::default() };
    let alone = |port: u16| (0..1_000).map(move |n| Made { ports: (port, 80), ..a(0, n * MSS, MSS) });
    let packets: Vec<_> = (0..100).flat_map(alone).chain(handshake(1_000)).collect();
    let seen = [a(30 * MS, 1_001, MSS), a(31 * MS, 2_001, MSS), b(50 * MS, 2_001)];
    let (rows, counts) = counted(options, &[packets, seen.to_vec()].concat());
    assert_eq!(counts.forgotten, 0);
    assert_eq!(rows.rtts.len(), 1);
}

/// Many small segments sent again at once, many times.
#[test]
fn segments_sent_again_in_one_become_one() {
    let mut packets = handshake(1_000);
    packets.extend((0..60_000).map(|n| a(30 * MS, 1_001 + n, 1)));
    packets.extend((0..3_000).map(|n| a(60 * MS + n, 1_001, 60_000).ip_id(1 + n as u16)));
    packets.push(b(90 * MS, 61_001));
    let mut analyzer = Analyzer::new(Options::default(), Rows::default());
    for made in &packets {
        put(&mut analyzer, made);
    }
    let (rows, counts) = analyzer.finish();
    assert_eq!((rows.connections[0].sides[0].retransmissions.total, counts.forgotten), (3_000, 0));
    assert_eq!(rows.rtts.len(), 0);
}

#[test]
fn silent_connections_are_given_away_while_the_capture_goes_on() {
    let mut analyzer = Analyzer::new(Options::default(), Rows::default());
    put(&mut analyzer, &syn(0, 1));
    put(&mut analyzer, &Made { ports: (2, 80), ..a(0, 1, 10) });
    put(&mut analyzer, &syn(302_000 * MS, 3));
    assert_eq!(analyzer.open_connections(), 2);
    put(&mut analyzer, &syn(8_200_000 * MS, 4));
    let ends: Vec<_> = analyzer.sink().connections.iter().map(|c| (c.id, c.end)).collect();
    assert_eq!(ends, [(0, End::Idle), (2, End::Idle), (1, End::Idle)]);
}

#[test]
fn a_connection_lives_as_long_as_hosts_wait_before_they_ask_for_it() {
    let mut packets = handshake(1_000);
    packets.extend([a(30 * MS, 1_001, MSS), b(50 * MS, 2_001)]);
    packets.extend([a(7_200_060 * MS, 2_000, 0), b(7_200_080 * MS, 2_001)]);
    let rows = analysed(&packets);
    assert_eq!((rows.connections.len(), rows.connections[0].sides[0].keep_alives), (1, 1));
}

#[test]
fn ports_used_after_the_wait_of_a_closed_connection_are_another_one() {
    let fin = |time_ns, from, seq, ack| packet(time_ns, from, seq, ack, 0).flags(FIN | ACK);
    let mut packets = handshake(1_000);
    packets.extend([fin(40 * MS, From::A, 1_001, 5_001), fin(60 * MS, From::B, 5_001, 1_002)]);
    packets.push(a(241_000 * MS, 70_000, 10));
    let rows = analysed(&packets);
    assert_eq!(rows.connections.len(), 2);
    assert_eq!((rows.connections[0].end, rows.connections[1].begin), (End::Closed, Begin::Middle));
}

#[test]
fn segments_that_nobody_acknowledges_do_not_pile_up() {
    let options = Options { max_outstanding: 100, ..Options::default() };
    let data: Vec<_> = (0..500).map(|n| a(30 * MS + i64::from(n), 1_001 + n * MSS, MSS)).collect();
    let (rows, counts) = counted(options, &[handshake(1_000), data].concat());
    assert_eq!(counts.forgotten, 400);
    assert_eq!(rows.connections[0].sides[0].unique_bytes, 500_000);
    assert_eq!(rows.connections[0].sides[0].flight_max, 500_000);
}

#[test]
fn an_ack_beyond_any_window_is_not_believed() {
    let packets = [handshake(1_000), vec![b(30 * MS, 2_000_000_000), b(31 * MS, 1_001)]].concat();
    let (rows, counts) = counted(Options::default(), &packets);
    assert_eq!((counts.impossible_acks, rows.connections[0].sides[0].unseen_bytes), (1, 0));
}

#[test]
fn a_header_that_the_capture_cut_is_counted_and_one_cut_in_its_options_is_used() {
    let mut analyzer = Analyzer::new(Options::default(), Rows::default());
    let made = a(0, 1, 10).timestamps(1, 2);
    let header = made.header();
    for len in 0..=header.len() {
        let datagram = Datagram {
            src: Ipv4Addr::LOCALHOST.into(),
            dst: Ipv4Addr::LOCALHOST.into(),
            src_port: 1,
            dst_port: 2,
            tags: Tags::default(),
            point: 0,
            ecn: 0,
            ip_id: 0,
            header: &header[..len],
            payload: &[],
            payload_len: 10,
        };
        analyzer.put(&captured(0, 0, 60), &datagram);
    }
    assert_eq!((analyzer.counts().truncated, analyzer.counts().segments), (20, header.len() as u64 - 19));
}

#[test]
fn the_same_direction_on_two_interfaces_is_two_connections() {
    let on = |interface, made: Made| Made { interface, ..made };
    let mut packets = Vec::new();
    for made in handshake(1_000) {
        // A router that captures on both: in by one, out by the other.
        let (first, second) = if made.from == From::A { (1, 2) } else { (2, 1) };
        packets.extend([on(first, made.clone()), on(second, made)]);
    }
    let rows = analysed(&packets);
    assert_consistent(&rows);
    let seen: Vec<_> = rows.connections.iter().map(|c| (c.interface.0, c.sides[1].packets)).collect();
    assert_eq!(seen, [(1, 1), (2, 1)]);
    assert!(rows.connections.iter().all(|c| c.sides[0].retransmissions.total == 0));
}

#[test]
fn a_bridge_that_records_each_direction_where_it_comes_in_has_one_connection() {
    let packets: Vec<_> =
        handshake(1_000).into_iter().map(|made| Made { interface: made.from as u32, ..made }).collect();
    let rows = analysed(&packets);
    assert_eq!(rows.connections.len(), 1);
    assert_eq!(rows.connections[0].begin, Begin::Handshake);
}

#[test]
fn option_lists_that_lie_end_where_they_do() {
    let lies: [&[u8]; 6] =
        [&[5, 255, 1, 1], &[5, 0, 1, 1], &[5, 1, 1, 1], &[8, 10, 1, 1], &[5, 3, 9, 2], &[1, 1, 1, 5]];
    for lie in lies {
        let (rows, counts) = counted(Options::default(), &[a(0, 1, 10).options(lie)]);
        assert_eq!((counts.segments, counts.truncated), (1, 0));
        assert_eq!((rows.segments[0].payload_bytes, rows.sacks.len()), (10, 0), "{lie:?}");
    }
}

#[test]
fn refused_connections_are_bounded_by_themselves() {
    let options = Options { max_refused: 10, ..Options::default() };
    let refused = |n: u16| {
        let time_ns = i64::from(n) * 1_000;
        let rst = packet(time_ns + 100, From::B, 0, 1_001, 0).flags(RST | ACK);
        [syn(time_ns, n), Made { ports: (n, 80), ..rst }]
    };
    let packets: Vec<_> = (1..=50).flat_map(refused).collect();
    let mut analyzer = Analyzer::new(options, Rows::default());
    for made in &packets {
        put(&mut analyzer, made);
    }
    assert_eq!((analyzer.open_connections(), analyzer.counts().evicted), (10, 40));
    let (rows, _) = analyzer.finish();
    assert!(rows.connections.iter().all(|one| (one.begin, one.end) == (Begin::Syn, End::Reset)));
    assert_eq!(rows.connections.len(), 50);
}

/// A hundred thousand connections of a scan are kept until they are shown.
#[test]
fn a_connection_without_data_packs_into_250_bytes() {
    let (rows, _) =
        counted(Options::default(), &[syn(0, 1), Made { ports: (1, 80), ..b(300, 1_001).flags(RST | ACK) }]);
    let connection = &rows.connections[0];
    let packed = postcard::to_allocvec(connection).unwrap();
    assert!(packed.len() < 250, "{}", packed.len());
    assert_eq!(&postcard::from_bytes::<Connection>(&packed).unwrap(), connection);
}

/// A SYN alone must stay small: a scan leaves a million of them.
#[test]
fn a_lone_syn_takes_less_than_300_bytes() {
    // Beside its slot there is an entry in the table of hashes, which is between half and nearly full.
    let entry = 17 * 2;
    assert!(size_of::<table::Slot>() + entry < 300, "{}", size_of::<table::Slot>());
}
