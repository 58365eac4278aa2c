use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_wire::{
    Addresses, Kind, L4, Probe, build, build_media, find_last_probe, find_probe, fold, ones_complement_sum,
};

use super::*;
use crate::plan::{Answering, Entry, Impairment, Macs, NEXT_FLOW, NewFlows, Numbers, Packet, Phase};
use crate::schedule::tests::{calls, plan};

const MACS: Macs = Macs { src: [2, 0, 0, 0, 0, 1], dst: [2, 0, 0, 0, 0, 2] };
const MAGIC: u16 = 0x5745;

fn is_root() -> bool {
    // SAFETY: a plain system call.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        println!("skipped: loading BPF programs needs root");
    }
    root
}

fn addresses(ip: u8) -> Addresses {
    let (src_ip, dst_ip) = match ip {
        4 => (IpAddr::V4(Ipv4Addr::new(198, 18, 3, 1)), IpAddr::V4(Ipv4Addr::new(198, 19, 0, 9))),
        _ => (
            IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 3, 1)),
            IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 2, 0, 0, 0, 9)),
        ),
    };
    Addresses { src_ip, dst_ip, src_port: 20_000, dst_port: 30_001 }
}

const XDP_DROP: u32 = 1;
const XDP_REDIRECT: u32 = 4;

/// Runs the program once, not live, and returns the frame that it would have sent.
fn frame(generator: &mut Generator, longest: u16) -> Vec<u8> {
    let (action, frame) = run(generator, &vec![0; longest.into()]);
    assert_eq!(action, XDP_REDIRECT);
    frame
}

/// What the program does with a page that has these bytes, and what it makes of it.
fn run(generator: &mut Generator, input: &[u8]) -> (u32, Vec<u8>) {
    let mut output = vec![0; 2048];
    let options =
        TestRunOptions { data_in: Some(input), data_out: Some(&mut output), ..TestRunOptions::new() };
    let program = generator.object.program(PROGRAM).expect("there");
    let result = program.test_run(options).expect("runs");
    output.truncate(result.data_size_out as usize);
    (result.return_value, output)
}

#[test]
fn where_nobody_may_look_at_the_host_there_is_a_generator_that_does_not() {
    if is_root() {
        Object::load("generator", BLIND, PROGRAM, &[]).expect("loads");
    }
}

#[test]
fn frames_of_the_xdp_generator_are_those_of_the_wire_crate() {
    if !is_root() {
        return;
    }
    for (ip, l4, lengths, skip) in [
        (4, L4::Udp, [60, 60], 0),
        (4, L4::Udp, [1514, 60], 0),
        (4, L4::Udp, [210, 2044], 12),
        (4, L4::Tcp, [72, 512], 0),
        (6, L4::Udp, [80, 80], 0),
        (6, L4::Tcp, [92, 1500], 0),
    ] {
        let entries: Vec<Entry> =
            lengths.iter().map(|&length| Entry { gap_ns: 0, gap_frac: 0, length, flow: NEXT_FLOW }).collect();
        let phases = vec![Phase { end_ns: 60_000_000_000, first_entry: 0, n_entries: 2 }];
        let mut plan = plan(entries, phases, 2, false);
        plan.flows = vec![addresses(ip); 2];
        plan.l4 = l4;
        plan.skip = skip;
        let headers = plan.headers(MACS, None).expect("valid plan");
        let window = Window::new(&plan, now_ns(), MAGIC);
        let none = Bodies::default();
        let moves_frames = l4 == L4::Tcp;
        let mut generator = Generator::load(&plan, &none, moves_frames).expect("loads");
        generator.prepare(&plan, &headers, &none);
        generator.arm(&plan.shares(1)[0], &headers[0], 1, window);
        let page_len = lengths[0].max(lengths[1]) + u16::from(moves_frames);
        for i in 0..4u32 {
            let sent = frame(&mut generator, page_len);
            assert_eq!(sent.len(), usize::from(lengths[i as usize % 2]));
            let probe = find_probe(&sent, skip.into()).expect("carries a probe");
            let expected = Probe { magic: MAGIC, flow: i % 2, seq: i / 2, time_ns: probe.time_ns };
            assert_eq!(probe, expected);
            let mut same = vec![0; sent.len()];
            assert!(build(&mut same, &headers[i as usize % 2], skip.into(), &expected));
            assert_eq!(sent, same, "IPv{ip} {l4:?} {lengths:?}");
        }
        let sent = generator.sent(&plan);
        assert_eq!(
            (sent.recorded, sent.flows, sent.bins.iter().map(|bin| bin.sent).sum()),
            (4, vec![2, 2], 4)
        );
        generator.brake().expect("mapped").pull();
        assert_eq!(run(&mut generator, &vec![0; page_len.into()]).0, XDP_DROP);
    }
}

#[test]
fn probes_of_each_sender_carry_the_numbers_of_its_own_flows() {
    if !is_root() {
        return;
    }
    let entry = Entry { gap_ns: 1, gap_frac: 0, length: 60, flow: NEXT_FLOW };
    let phases = vec![Phase { end_ns: 60_000_000_000, first_entry: 0, n_entries: 1 }];
    let mut plan = plan(vec![entry], phases, 5, false);
    plan.flows = vec![addresses(4); 5];
    let headers = plan.headers(MACS, None).expect("valid plan");
    let none = Bodies::default();
    let mut seen = Vec::new();
    for share in plan.shares(2) {
        let mut generator = Generator::load(&share.plan, &none, false).expect("loads");
        let flows = share.plan.flows.len();
        generator.prepare(&share.plan, &headers[share.first_flow as usize..][..flows], &none);
        generator.arm(&share, &headers[0], 1, Window::new(&plan, now_ns(), MAGIC));
        seen.extend((0..flows).map(|_| find_probe(&frame(&mut generator, 60), 0).expect("a probe").flow));
        assert_eq!(generator.sent(&share.plan).flows, vec![1; flows]);
    }
    assert_eq!(seen, [0, 1, 2, 3, 4]);
}

#[test]
fn flows_of_tcp_that_are_answered_begin_with_syn_and_new_flows_have_sources_of_their_own() {
    if !is_root() {
        return;
    }
    for (ip, l4, length) in [(4, L4::Udp, 60), (4, L4::Tcp, 72), (6, L4::Udp, 80), (6, L4::Tcp, 92)] {
        let entry = |flow| Entry { gap_ns: 0, gap_frac: 0, length, flow };
        let entries = vec![entry(NEXT_FLOW), entry(1)];
        let phases = vec![Phase { end_ns: 60_000_000_000, first_entry: 0, n_entries: 2 }];
        let mut plan = plan(entries, phases, 2, false);
        let zero: IpAddr = match ip {
            4 => Ipv4Addr::UNSPECIFIED.into(),
            _ => Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 0).into(),
        };
        plan.flows = vec![addresses(ip), Addresses { src_ip: zero, src_port: 0, ..addresses(ip) }];
        plan.l4 = l4;
        let new_flows = NewFlows { hosts: 2, host: 0xc612_0302, ports: 2, port: 5_001 };
        plan.answers = Some(Answering { first: 0, new_flows: Some(new_flows) });
        let headers = plan.headers(MACS, None).expect("valid plan");
        let none = Bodies::default();
        let mut generator = Generator::load(&plan, &none, false).expect("loads");
        generator.prepare(&plan, &headers, &none);
        generator.arm(&plan.shares(1)[0], &headers[0], 1, Window::new(&plan, now_ns(), MAGIC));
        for (seq, (host, port)) in
            [(2, 5_001), (1, 5_001), (2, 5_000), (1, 5_000), (2, 5_001)].iter().enumerate()
        {
            let known = frame(&mut generator, length);
            let new = frame(&mut generator, length);
            let src_ip: IpAddr = match ip {
                4 => Ipv4Addr::new(198, 18, 3, *host).into(),
                _ => Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0xc612, 0x300 + u16::from(*host)).into(),
            };
            let own = Addresses { src_ip, src_port: *port, ..addresses(ip) };
            for (sent, flow, of, is_first) in [(known, 0, addresses(ip), seq == 0), (new, 1, own, true)] {
                let probe = find_probe(&sent, 0).expect("carries a probe");
                assert_eq!((probe.flow, probe.seq), (flow, seq as u32));
                let header = Header::new(MACS.src, MACS.dst, &of, l4).expect("same family");
                let l4_at = header.l4_at();
                let mut same = vec![0; sent.len()];
                assert!(build(&mut same, &header, 0, &probe));
                if l4 == L4::Tcp && is_first {
                    same[l4_at + 7] = 0;
                    same[l4_at + 11] = 0;
                    same[l4_at + 13] = 2;
                    same[l4_at + 16..l4_at + 18].copy_from_slice(&sent[l4_at + 16..l4_at + 18]);
                }
                assert_eq!(sent, same, "IPv{ip} {l4:?} {seq}");
                assert!(is_summed(&sent, &header));
            }
        }
    }
}

/// Whether the sum over the transport header, its payload and the pseudo header is right.
fn is_summed(frame: &[u8], header: &Header) -> bool {
    let l4_at = header.l4_at();
    let l4_len = u16::try_from(frame.len() - l4_at).expect("short").to_be_bytes();
    let parts: [&[u8]; 4] = [
        &frame[if header.ip() == 4 { 26..34 } else { 22..54 }],
        &[0, header.l4().protocol()],
        &l4_len,
        &frame[l4_at..],
    ];
    fold(parts.iter().map(|part| u64::from(ones_complement_sum(part))).sum()) == 0xffff
}

#[test]
fn packets_of_calls_of_the_xdp_generator_are_those_of_the_wire_crate() {
    if !is_root() {
        return;
    }
    let rtp = vec![0x80, 8, 0xff, 0xfe, 0xff, 0xff, 0xff, 0x00, 9, 8, 7, 6];
    let (mini, meta) = (vec![0x12, 0x34, 0, 0], vec![0, 0, 1, 1, 0, 0, 0, 0]);
    let speech: Vec<u8> = (0..160).map(|i| (i * 7 + 1) as u8).collect();
    let long: Vec<u8> = (0..1_300).map(|i| (i * 13 + 5) as u8).collect();
    let packet = |kind, stamp, payload, marker| Packet { stamp, payload, kind, marker, ..Packet::default() };
    let lose = Packet { impairment: Impairment::Lose, ..packet(Kind::Rtp, 480, 0, false) };
    let again = Packet {
        impairment: Impairment::Again(2.try_into().expect("not 0")),
        ..packet(Kind::Rtp, 320, 0, false)
    };
    // Frame length behind Ethernet and IP, so odd and even probes, room to spare, and bodies of
    // one slot, of several, of none; then what is lost and what comes twice.
    let packets = [
        (180, 0, packet(Kind::Rtp, 160, 0, true)),
        (180, 1, packet(Kind::Rtp, 0xffff_fff0, 0, false)),
        (181, 0, packet(Kind::Rtp, 320, 0, false)),
        (1_321, 1, packet(Kind::Rtp, 7, 1, true)),
        (8 + 4 + 33, 2, packet(Kind::Iax2Mini, 0x1_2345, 0xffff_ffff, false)),
        (8 + 12 + 160, 2, packet(Kind::Raw, 99, 0, true)),
        (8 + 8 + 18, 3, packet(Kind::Iax2Meta, 0x1_2345, 0xffff_ffff, false)),
        (1_308, 3, packet(Kind::Raw, 0, 1, false)),
        (26, 2, packet(Kind::Raw, 0, 0xffff_ffff, false)),
        (180, 0, lose),
        (180, 0, again),
    ];
    for (ip, headers_len) in [(4, 34u16), (6, 54)] {
        let lengthen = |&(len, flow, packet): &(u16, u32, Packet)| (len + headers_len, flow, packet);
        let entries: Vec<_> = packets.iter().map(lengthen).collect();
        let headers = vec![rtp.clone(), rtp.clone(), mini.clone(), meta.clone()];
        let mut fast = calls(entries.clone(), headers, &[&speech[..120], &long]);
        fast.flows = vec![addresses(ip); 4];
        let back = Macs { src: [2, 0, 0, 0, 0, 3], dst: [2, 0, 0, 0, 0, 4] };
        let headers = fast.headers(MACS, Some(back)).expect("valid plan");
        let bodies = Bodies::of(&fast, headers[0].len()).expect("small");
        let mut generator = Generator::load(&fast, &bodies, false).expect("loads");
        generator.connect(Side::Forward, 1).expect("loopback");
        generator.connect(Side::Back, 1).expect("loopback");
        generator.prepare(&fast, &headers, &bodies);
        // A start in the past: everything is due.
        let window = Window::new(&fast, now_ns() - 1_000_000_000, MAGIC);
        generator.arm(&fast.shares(1)[0], &headers[0], 1, window);
        let longest = entries.iter().map(|e| e.0).max().expect("some");
        let mut numbers = Numbers::new(4);
        for (i, &(length, flow, packet)) in entries.iter().enumerate() {
            let input = vec![0xee; longest.into()];
            let (action, sent) = run(&mut generator, &input);
            assert_eq!(action, if packet.impairment == Impairment::Lose { XDP_DROP } else { XDP_REDIRECT });
            assert_eq!(sent.len(), usize::from(length));
            let (seq, counts) = numbers.of(flow, packet.impairment);
            if counts {
                numbers.advance(flow);
            }
            let probe = find_last_probe(&sent).expect("carries a probe");
            assert_eq!(probe, Probe { magic: MAGIC, flow, seq, time_ns: probe.time_ns });
            let mut same = vec![0; sent.len()];
            let media = fast.media.as_ref().expect("calls").on_wire(i, flow as usize);
            assert!(build_media(&mut same, &headers[flow as usize], &media, &probe));
            assert_eq!(sent, same, "IPv{ip}, packet {i}");
        }
        let sent = generator.sent(&fast);
        assert_eq!((sent.recorded, sent.flows, sent.surplus), (10, vec![3, 2, 3, 2], 0));
        assert_eq!(sent.first_seq, [0; 4]);
    }
}

#[test]
fn short_gaps_get_longer_batches() {
    assert_eq!(batch_for(1_200.0), 1);
    assert_eq!(batch_for(1_000.0), 2);
    assert_eq!(batch_for(1.0), UNPACED_BATCH);
}
