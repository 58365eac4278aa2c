use proptest::prelude::*;

use super::*;

const ETHERNET: LinkType = LinkType(1);
const RAW_IP: LinkType = LinkType(101);

/// UDP from 192.0.2.1:1000 to 192.0.2.2:53, in Ethernet.
fn dns_query() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
    frame.extend([0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    frame.extend([0x03, 0xe8, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
    frame
}

/// The same with a VLAN tag.
fn tagged() -> Vec<u8> {
    let mut frame = dns_query();
    frame.splice(12..12, [0x81, 0x00, 0, 42]);
    frame
}

fn takes(expression: &str, frame: &[u8]) -> bool {
    Filter::compile(expression, ETHERNET).unwrap().matches(frame, frame.len() as u32)
}

const fn instruction(code: u16, jump_true: u8, jump_false: u8, k: u32) -> Instruction {
    Instruction { code, jump_true, jump_false, k }
}

const RETURN: Instruction = instruction(0x06, 0, 0, 1);

#[test]
fn expressions_mean_what_libpcap_says() {
    let (plain, vlan) = (dns_query(), tagged());
    for (expression, takes_plain, takes_tagged) in [
        ("", true, true),
        ("udp", true, false),
        ("udp port 53", true, false),
        ("udp src port 53", false, false),
        ("tcp", false, false),
        ("host 192.0.2.2 and not port 80", true, false),
        ("net 198.18.0.0/15", false, false),
        ("vlan", false, true),
        ("vlan 42 and udp port 53", false, true),
        ("vlan 43", false, false),
        ("ether src 02:00:00:00:00:01", true, true),
        ("less 46", true, false),
        ("greater 47", false, true),
        ("ip[8] = 64", true, false),
        ("udp[8:4] = 0x01020304", true, false),
    ] {
        assert_eq!(takes(expression, &plain), takes_plain, "{expression}, untagged");
        assert_eq!(takes(expression, &vlan), takes_tagged, "{expression}, tagged");
    }
}

#[test]
fn the_length_on_the_link_counts_and_not_what_was_kept() {
    let filter = Filter::compile("greater 1000", ETHERNET).unwrap();
    assert!(filter.matches(&dns_query(), 1514));
    assert!(!filter.matches(&dns_query(), 46));
}

#[test]
fn a_packet_cut_before_what_the_filter_asks_for_is_not_taken() {
    let filter = Filter::compile("udp port 53", ETHERNET).unwrap();
    assert!(filter.matches(&dns_query()[..38], 46));
    assert!(!filter.matches(&dns_query()[..37], 46));
}

#[test]
fn packets_without_ethernet_are_filtered_by_their_link_type() {
    let filter = Filter::compile("udp port 53", RAW_IP).unwrap();
    assert!(filter.matches(&dns_query()[14..], 32));
    assert!(!filter.matches(&dns_query(), 46));
}

#[test]
fn a_bad_expression_is_refused_in_the_words_of_libpcap() {
    let error = Filter::compile("tcp porrt 80", ETHERNET).unwrap_err();
    assert!(matches!(error, FilterError::Expression { .. }));
    let text = error.to_string();
    assert!(text.contains("tcp porrt 80") && text.contains("syntax error"), "{text}");
    assert!(Filter::compile("udp\0", ETHERNET).is_err());
}

#[test]
fn instructions_are_those_that_tcpdump_prints() {
    let expression = "vlan 42 and (tcp[13] & 7 != 0 or udp port 53) or ip6 net 2001:db8::/32";
    let printed = std::process::Command::new("tcpdump").args(["-y", "EN10MB", "-ddd", expression]).output();
    let Ok(printed) = printed else {
        eprintln!("skipped: tcpdump is not installed");
        return;
    };
    let ours: Vec<_> = libpcap::compile(expression, ETHERNET)
        .unwrap()
        .iter()
        .map(|i| format!("{} {} {} {}", i.code, i.jump_true, i.jump_false, i.k))
        .collect();
    let text = String::from_utf8(printed.stdout).unwrap();
    assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), ours);
}

#[test]
fn programs_that_could_leave_themselves_are_refused() {
    for (index, program) in [
        (0, vec![]),
        (0, vec![instruction(0x00, 0, 0, 1)]), // falls off the end
        (0, vec![instruction(0x05, 0, 0, 1), RETURN]), // jumps behind the end
        (0, vec![instruction(0x05, 0, 0, u32::MAX), RETURN]), // jumps backwards
        (0, vec![instruction(0x15, 0, 1, 1), RETURN]), // does so if not equal
        (1, vec![RETURN, instruction(0x60, 0, 0, 16), RETURN]), // memory beyond the end
        (1, vec![RETURN, instruction(0x02, 0, 0, 16), RETURN]), // the same, stored
        (0, vec![instruction(0x34, 0, 0, 0), RETURN]), // divides by zero
        (0, vec![instruction(0x64, 0, 0, 32), RETURN]), // shifts everything away
        (0, vec![instruction(0xffff, 0, 0, 0), RETURN]), // no such thing
        (0, vec![instruction(0x14 | 0x100, 0, 0, 1), RETURN]), // nor this
    ] {
        match Filter::from_instructions(&program) {
            Err(FilterError::Program { index: found, .. }) => assert_eq!(found, index, "{program:?}"),
            other => panic!("{program:?}: {other:?}"),
        }
    }
}

#[test]
fn dividing_by_an_index_of_zero_takes_no_packet() {
    let program = [instruction(0x00, 0, 0, 1), instruction(0x3c, 0, 0, 0), RETURN];
    assert!(!Filter::from_instructions(&program).unwrap().matches(&[], 0));
}

#[test]
fn loads_whose_place_overflows_take_no_packet() {
    let program = [instruction(0x01, 0, 0, u32::MAX), instruction(0x50, 0, 0, 1), RETURN];
    assert!(!Filter::from_instructions(&program).unwrap().matches(&[1, 2, 3], 3));
}

fn any_instruction() -> impl Strategy<Value = Instruction> {
    // Real opcodes lie below 0x100; small numbers reach memory, packet and short jumps.
    let k = prop_oneof![0_u32..20, any::<u32>()];
    (prop_oneof![0_u16..0xc0, any::<u16>()], 0_u8..6, 0_u8..6, k)
        .prop_map(|(code, yes, no, k)| instruction(code, yes, no, k))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_program_is_refused_or_ends(
        program in prop::collection::vec(any_instruction(), 0..40),
        data in prop::collection::vec(any::<u8>(), 0..80),
        original_len: u32,
    ) {
        // Arbitrary programs are mostly refused; instructions that stand alone are not.
        let alone: Vec<_> = program
            .iter()
            .copied()
            .filter(|i| Filter::from_instructions(&[*i, RETURN, RETURN, RETURN, RETURN, RETURN, RETURN]).is_ok())
            .chain([RETURN; 8])
            .collect();
        let whole = Filter::from_instructions(&program);
        for filter in [whole, Filter::from_instructions(&alone)].into_iter().flatten() {
            let first = filter.matches(&data, original_len);
            prop_assert_eq!(first, filter.matches(&data, original_len));
        }
    }
}
