//! Calls over ports in memory, and what endpoints make of packets that are not theirs.

use std::collections::VecDeque;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use proptest::prelude::*;
use weir_esp::{Association, DEFAULT_WINDOW, Inbound, Mode, Outbound, Suite, UdpPorts};

use super::calls::{Calls, CallsError, Due, Fault, Form, MOST_PACKETS, Script};
use super::port::{BATCH, Port};
use super::talk::{Endpoint, Log, Security, Span};
use super::{EndpointsError, Interface, Options, Outcome, Place, Way, both};
use weir_clock::now_ns;

const HERE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// Longer than any test: endpoints end because everything has come.
const NEVER_NS: u64 = 1 << 60;

fn from(begins_ns: u64, linger_ns: u64) -> Span {
    Span { begins_ns, linger_ns, ends_ns: NEVER_NS }
}

fn calls(phases_ns: [Vec<u64>; 2], packets: u32) -> Calls {
    Calls { period_ns: 1_000_000, packets, payload_bytes: 160, payload_type: 0, stamp_units: 160, phases_ns }
}

#[test]
fn packets_are_due_in_order_of_time_in_every_period() {
    let mut script = Script::new(&calls([vec![700, 100, 400], vec![0, 0, 0]], 2), 0);
    let mut due = Vec::new();
    while let Some(next) = script.next() {
        due.push(next);
        script.advance();
    }
    let of = |after_ns, call, number| Due { after_ns, call, number };
    let expected = [
        of(100, 1, 0),
        of(400, 2, 0),
        of(700, 0, 0),
        of(1_000_100, 1, 1),
        of(1_000_400, 2, 1),
        of(1_000_700, 0, 1),
    ];
    assert_eq!(due, expected);
}

#[test]
fn calls_that_cannot_be_are_refused_with_the_reason() {
    let good = calls([vec![0], vec![1]], 1);
    assert_eq!(good.validate(), Ok(()));
    let refused = |change: fn(&mut Calls)| {
        let mut calls = good.clone();
        change(&mut calls);
        calls.validate()
    };
    assert_eq!(refused(|calls| calls.packets = 0), Err(CallsError::Nothing));
    assert_eq!(refused(|calls| calls.phases_ns[1].push(0)), Err(CallsError::Unequal(1, 2)));
    assert_eq!(refused(|calls| calls.phases_ns[1][0] = 1_000_000), Err(CallsError::Phase(1_000_000)));
    let many = MOST_PACKETS + 1;
    assert_eq!(refused(|calls| calls.packets = MOST_PACKETS + 1), Err(CallsError::Packets(many)));
    assert_eq!(refused(|calls| calls.payload_bytes = 1201), Err(CallsError::Payload(1201)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_packet_says_which_one_it_is_and_any_other_bit_makes_it_another(
        call in 0_u32..50, number in 0_u32..50, with_checksum: bool, bit: prop::sample::Index,
    ) {
        let calls = calls([vec![0; 50], vec![0; 50]], 50);
        let form = Form::new(&calls, HERE, THERE);
        let mut packet = vec![0; calls.packet_bytes()];
        form.write(&mut packet, call, number, with_checksum);
        prop_assert_eq!(form.read(&packet), Ok((call, number)));
        // From the addresses on; the system, or the port past it, checks the header before them.
        let bit = bit.index((packet.len() - 12) * 8) + 12 * 8;
        // The length in UDP's header is covered by its checksum alone.
        prop_assume!(with_checksum || !(24 * 8..28 * 8).contains(&bit));
        packet[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(form.read(&packet).is_err());
    }
}

#[test]
fn a_packet_of_other_calls_is_foreign_and_a_short_one_too() {
    let calls = calls([vec![0; 2], vec![0; 2]], 4);
    let form = Form::new(&calls, HERE, THERE);
    let mut packet = vec![0; calls.packet_bytes()];
    Form::new(&calls, THERE, HERE).write(&mut packet, 0, 0, true);
    assert_eq!(form.read(&packet), Err(Fault::Foreign));
    form.write(&mut packet, 2, 0, true);
    assert_eq!(form.read(&packet), Err(Fault::Foreign));
    form.write(&mut packet, 0, 4, true);
    assert_eq!(form.read(&packet), Err(Fault::Foreign));
    assert_eq!(form.read(&packet[..39]), Err(Fault::Foreign));
}

type Queue = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// What happens to the packet with that number on its way: what arrives instead of it.
type Fate = fn(usize, Vec<u8>) -> Vec<Vec<u8>>;

/// One end of a cable in memory.
struct Cable {
    sends: Queue,
    hears: Queue,
    fate: Fate,
    sent: usize,
    /// It takes so many packets between two flushes.
    room: usize,
    used: usize,
    /// How many packets it lets leave with the flush of that number.
    leaves: fn(usize) -> usize,
    flushes: usize,
    accepted: VecDeque<Vec<u8>>,
}

fn cable(fate: Fate, room: usize) -> [Cable; 2] {
    let [there, back] = [Queue::default(), Queue::default()];
    let end = |sends: &Queue, hears: &Queue| Cable {
        sends: sends.clone(),
        hears: hears.clone(),
        fate,
        sent: 0,
        room,
        used: 0,
        leaves: |_| BATCH,
        flushes: 0,
        accepted: VecDeque::new(),
    };
    [end(&there, &back), end(&back, &there)]
}

impl Port for Cable {
    const ADDS_CHECKSUM: bool = true;

    fn receive(&mut self, take: &mut dyn FnMut(&mut [u8])) -> io::Result<usize> {
        let mut hears = self.hears.lock().unwrap_or_else(PoisonError::into_inner);
        let taken: Vec<_> = (0..BATCH).map_while(|_| hears.pop_front()).collect();
        drop(hears);
        let count = taken.len();
        taken.into_iter().for_each(|mut packet| take(&mut packet));
        Ok(count)
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<bool> {
        if self.used == self.room {
            return Ok(false);
        }
        self.used += 1;
        self.accepted.push_back(packet.to_vec());
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<usize> {
        self.used = 0;
        let leave = (self.leaves)(self.flushes).min(self.accepted.len());
        self.flushes += 1;
        for packet in self.accepted.drain(..leave) {
            let arrived = (self.fate)(self.sent, packet);
            self.sent += 1;
            self.sends.lock().unwrap_or_else(PoisonError::into_inner).extend(arrived);
        }
        Ok(self.accepted.len())
    }

    fn wait(&mut self, _: u64) -> io::Result<()> {
        std::thread::yield_now();
        Ok(())
    }

    fn give_way(&mut self, _: u64, _: u64) {}
}

fn security(suite: Suite, tunnel: bool, sender: usize) -> Security {
    let key = [7; 64];
    let association = |number: usize| {
        let [source, destination] = if number == 0 { [HERE, THERE] } else { [THERE, HERE] };
        Association {
            spi: 0x1000 + number as u32,
            suite,
            encryption_key: &key[..suite.encryption_key_lens()[0]],
            authentication_key: &key[..suite.authentication_key_len()],
            mode: if tunnel {
                Mode::Tunnel { source: source.into(), destination: destination.into() }
            } else {
                Mode::Transport
            },
            udp: Some(UdpPorts::default()),
            esn: false,
        }
    };
    Security {
        outbound: Outbound::new(&association(sender), &[3; 16]).expect("a valid association"),
        inbound: Inbound::new(&association(1 - sender), DEFAULT_WINDOW).expect("a valid association"),
    }
}

fn endpoint(calls: &Calls, secured: Option<(Suite, bool)>, number: usize) -> Endpoint {
    let forms = [Form::new(calls, HERE, THERE), Form::new(calls, THERE, HERE)];
    let [sends, hears] = if number == 0 {
        forms
    } else {
        let [there, back] = forms;
        [back, there]
    };
    Endpoint::new(calls, number, sends, hears, secured.map(|(suite, tunnel)| security(suite, tunnel, number)))
}

/// Lets two endpoints talk over a cable until both have heard everything; when they began, and their logs.
fn talk(calls: &Calls, secured: Option<(Suite, bool)>) -> (u64, [Log; 2]) {
    let stop = &AtomicBool::new(false);
    let begins_ns = now_ns();
    let mut ends = cable(all_pass, BATCH);
    let logs = std::thread::scope(|scope| {
        let mut number = 0;
        let threads = ends.each_mut().map(|end| {
            let endpoint = endpoint(calls, secured, number);
            number += 1;
            scope.spawn(move || endpoint.talk(end, from(begins_ns, NEVER_NS), stop).expect("memory works"))
        });
        threads.map(crate::thread::join)
    });
    (begins_ns, logs)
}

/// Lets the first endpoint send everything, and then the second one hear what came of it: their logs.
fn talk_one_way(calls: &Calls, secured: Option<(Suite, bool)>, fate: Fate, room: usize) -> [Log; 2] {
    let stop = &AtomicBool::new(false);
    let mut number = 0;
    cable(fate, room).map(|mut end| {
        let endpoint = endpoint(calls, secured, number);
        number += 1;
        // It ends behind its last packet.
        endpoint.talk(&mut end, from(now_ns(), 0), stop).expect("memory works")
    })
}

fn all_pass(_: usize, packet: Vec<u8>) -> Vec<Vec<u8>> {
    vec![packet]
}

#[test]
fn every_packet_of_every_call_is_heard_in_every_suite_and_mode() {
    let calls = calls([vec![0, 300_000, 600_000], vec![100_000, 200_000, 900_000]], 5);
    let with_esp = Suite::ALL.into_iter().flat_map(|suite| [Some((suite, false)), Some((suite, true))]);
    for secured in with_esp.chain([None]) {
        let (_, logs) = talk(&calls, secured);
        for (log, other) in logs.iter().zip(logs.iter().rev()) {
            assert_eq!(log.sent_ns.len(), 15);
            for (sent, heard) in log.sent_ns.iter().zip(&other.heard_ns) {
                assert!(0 < *sent && sent <= heard, "{secured:?}");
            }
            let faults = [log.refused, log.duplicated, log.damaged, log.foreign];
            assert_eq!(faults, [0; 4], "{secured:?}");
            assert_eq!(log.shortest_bytes, log.longest_bytes);
            assert_eq!(log.longest_bytes == calls.packet_bytes(), secured.is_none());
            assert!(log.work_ns > 0 && log.turns > 0);
        }
    }
}

#[test]
fn packets_are_not_sent_before_they_are_due() {
    let calls = calls([vec![0, 500_000], vec![250_000, 999_999]], 4);
    let (begins_ns, logs) = talk(&calls, None);
    for (log, phases) in logs.iter().zip(&calls.phases_ns) {
        for (call, phase) in (0..).zip(phases) {
            for number in 0..calls.packets {
                let due_ns = begins_ns + phase + u64::from(number) * calls.period_ns;
                assert!(log.sent_ns[calls.place(call, number)] >= due_ns);
            }
        }
    }
}

#[test]
fn what_happens_on_the_way_is_counted() {
    fn fate(number: usize, mut packet: Vec<u8>) -> Vec<Vec<u8>> {
        match number {
            // Lost, twice, damaged, of somebody else.
            1 => vec![],
            2 => vec![packet.clone(), packet],
            3 => {
                *packet.last_mut().expect("it is not empty") ^= 1;
                vec![packet]
            }
            4 => vec![vec![0; 20]],
            _ => vec![packet],
        }
    }
    let calls = calls([vec![0], vec![0]], 8);
    let [sender, receiver] = talk_one_way(&calls, None, fate, BATCH);
    assert!(sender.sent_ns.iter().all(|sent| *sent > 0));
    let counted = [receiver.refused, receiver.duplicated, receiver.damaged, receiver.foreign];
    assert_eq!(counted, [0, 1, 1, 1]);
    let lost: Vec<_> = (0..8).filter(|&at| receiver.heard_ns[at] == 0).collect();
    assert_eq!(lost, [1, 3, 4]);
}

#[test]
fn esp_lets_nothing_through_that_was_changed_or_came_before() {
    fn fate(number: usize, mut packet: Vec<u8>) -> Vec<Vec<u8>> {
        match number {
            1 => vec![packet.clone(), packet],
            2 => {
                *packet.last_mut().expect("it is not empty") ^= 1;
                vec![packet]
            }
            _ => vec![packet],
        }
    }
    let calls = calls([vec![0], vec![0]], 4);
    let [_, receiver] = talk_one_way(&calls, Some((Suite::AesGcm, false)), fate, BATCH);
    assert_eq!([receiver.duplicated, receiver.damaged, receiver.foreign], [0, 2, 0]);
    let lost: Vec<_> = (0..4).filter(|&at| receiver.heard_ns[at] == 0).collect();
    assert_eq!(lost, [2]);
}

#[test]
fn packets_for_which_there_is_no_room_are_refused_and_counted() {
    // All are due at once, and the cable takes two of a batch.
    let calls = calls([vec![0; 3], vec![0; 3]], 1);
    let [sender, receiver] = talk_one_way(&calls, None, all_pass, 2);
    assert_eq!(sender.refused, 1);
    assert_eq!(sender.sent_ns.iter().map(|sent| *sent > 0).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(receiver.heard_ns.iter().map(|heard| *heard > 0).collect::<Vec<_>>(), [true, true, false]);
}

/// What the first endpoint logs, and what arrives, if the first end of the cable lets packets leave like this.
fn talk_refused(packets: u32, linger_ns: u64, leaves: fn(usize) -> usize) -> (Log, usize) {
    // All are due at once, and everything from the other end is there already.
    let calls = calls([vec![0; 3], vec![0; 3]], packets);
    let [mut near, mut far] = cable(all_pass, BATCH);
    near.leaves = leaves;
    let stop = AtomicBool::new(false);
    endpoint(&calls, None, 1).talk(&mut far, from(1, 0), &stop).expect("memory works");
    let log = endpoint(&calls, None, 0).talk(&mut near, from(1, linger_ns), &stop).expect("memory works");
    let arrived = far.hears.lock().unwrap_or_else(PoisonError::into_inner).len();
    (log, arrived)
}

#[test]
fn packets_that_the_system_takes_late_are_sent() {
    // It takes none of them, then two, then the rest.
    let (log, arrived) = talk_refused(1, NEVER_NS / 2, |flush| [0, 2].get(flush).copied().unwrap_or(BATCH));
    assert_eq!((log.refused, arrived), (0, 3));
    assert!(log.sent_ns.iter().all(|sent| *sent > 0));
}

#[test]
fn handing_packets_to_the_system_again_is_work() {
    const LASTS_NS: u64 = 1_000_000;
    // Nothing is due or heard any more when it takes them.
    let (log, arrived) = talk_refused(1, NEVER_NS / 2, |flush| {
        let begins_ns = now_ns();
        while flush > 0 && now_ns() < begins_ns + LASTS_NS {}
        if flush > 0 { BATCH } else { 0 }
    });
    assert_eq!((log.turns, arrived), (2, 3));
    assert!(log.work_ns >= LASTS_NS);
}

#[test]
fn packets_that_the_system_never_takes_are_refused_and_counted() {
    // It takes one packet, which is the first one.
    let (log, arrived) = talk_refused(2, 0, |flush| usize::from(flush == 0));
    assert_eq!((log.refused, arrived), (5, 1));
    assert_eq!(log.sent_ns.iter().filter(|sent| **sent > 0).count(), 1);
}

#[test]
fn endpoints_end_when_they_are_told_to() {
    let calls = calls([vec![0], vec![0]], MOST_PACKETS);
    let [mut near, _] = cable(all_pass, BATCH);
    let stop = AtomicBool::new(true);
    let span = from(now_ns(), NEVER_NS);
    let log = endpoint(&calls, None, 0).talk(&mut near, span, &stop).expect("memory works");
    assert_eq!(log.turns, 1);
}

#[test]
fn endpoints_that_do_not_get_done_end_when_their_time_is_over() {
    let calls = calls([vec![0], vec![0]], MOST_PACKETS);
    let [mut near, _] = cable(all_pass, BATCH);
    // The time was over before anything was sent: there is one turn.
    let span = Span { begins_ns: 0, linger_ns: 0, ends_ns: 1 };
    let stop = AtomicBool::new(false);
    let log = endpoint(&calls, None, 0).talk(&mut near, span, &stop).expect("memory works");
    assert_eq!(log.turns, 1);
    assert_eq!(log.sent_ns.iter().filter(|sent| **sent > 0).count(), BATCH);
}

/// Two threads that talk over a cable, on CPUs with these numbers.
fn both_on(
    cpus: [usize; 2],
    calls: &Calls,
    is_over: &mut dyn FnMut() -> bool,
) -> Result<Outcome, EndpointsError> {
    let place = |address, cpu| Place {
        interface: Interface { netns: None, interface: String::new() },
        mac: [2; 6],
        address,
        cpu,
    };
    let options = Options {
        way: Way::Sockets,
        real_time: false,
        places: [place(HERE, cpus[0]), place(THERE, cpus[1])],
        calls,
        associations: None,
        iv_key: [0; 16],
        // A packet that is lost fails the test in the end.
        linger_ns: 60_000_000_000,
    };
    let endpoints = [endpoint(calls, None, 0), endpoint(calls, None, 1)];
    both(&options, endpoints, &mut cable(all_pass, BATCH), is_over)
}

#[test]
fn both_threads_begin_together_and_end_when_everything_is_heard() {
    let calls = calls([vec![0, 1], vec![2, 3]], 3);
    let outcome = both_on([0, 0], &calls, &mut || false).expect("CPU 0 is there");
    for log in outcome.logs {
        assert!(log.sent_ns.iter().chain(&log.heard_ns).all(|time| *time >= outcome.begins_ns));
    }
}

#[test]
fn a_cpu_that_does_not_exist_ends_both_threads() {
    let calls = calls([vec![0], vec![0]], MOST_PACKETS);
    match both_on([0, usize::MAX], &calls, &mut || false) {
        Err(EndpointsError::Cpu { cpu, .. }) => assert_eq!(cpu, usize::MAX),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_interruption_ends_both_threads() {
    let calls = calls([vec![0], vec![0]], MOST_PACKETS);
    let ended = both_on([0, 0], &calls, &mut || true);
    assert!(matches!(ended, Err(EndpointsError::Interrupted)), "{ended:?}");
}
