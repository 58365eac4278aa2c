use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::Range;

use proptest::prelude::*;

use super::{NATT, association, packet, tunnel};
use crate::{DecapsulateError, RekeyingInbound, RekeyingOutbound, SECRET_LEN, Slot, Suite, UdpPorts, spi_of};

const SECRET: [u8; SECRET_LEN] = [0xa5; SECRET_LEN];
const FIRST_SPI: u32 = 0x1234_5678;
/// Generations that a receiver has ready.
const AHEAD: u64 = 64;

fn pair(
    suite: Suite,
    udp: Option<UdpPorts>,
    most: Option<u64>,
    secrets: [&[u8; SECRET_LEN]; 2],
) -> (RekeyingOutbound, RekeyingInbound) {
    let mut association = association(suite, tunnel(4), true);
    association.udp = udp;
    let most = most.map(|most| NonZeroU64::new(most).unwrap());
    let sender = RekeyingOutbound::new(&association, &[5; 16], secrets[0], most).unwrap();
    (sender, RekeyingInbound::new(&association, 64, secrets[1]).unwrap())
}

fn gcm() -> (RekeyingOutbound, RekeyingInbound) {
    pair(Suite::AesGcm, None, None, [&SECRET; 2])
}

fn clear(number: usize) -> Vec<u8> {
    packet(4, 0, number % 200)
}

/// Packets of these numbers, with ESP.
fn sent(sender: &mut RekeyingOutbound, numbers: Range<usize>) -> Vec<Vec<u8>> {
    let start = sender.headroom();
    let mut buffers: Vec<_> = numbers
        .map(|number| {
            let packet = clear(number);
            let mut buffer = vec![0; start + packet.len() + sender.tailroom()];
            buffer[start..start + packet.len()].copy_from_slice(&packet);
            (buffer, start..start + packet.len())
        })
        .collect();
    let mut slots: Vec<_> = buffers
        .iter_mut()
        .map(|(buffer, range)| Slot { buffer, range: range.clone(), error: None })
        .collect();
    sender.encapsulate_each(&mut slots);
    slots
        .iter()
        .map(|slot| {
            assert_eq!(slot.error, None);
            slot.buffer[slot.range.clone()].to_vec()
        })
        .collect()
}

fn received(receiver: &mut RekeyingInbound, packet: &[u8]) -> Result<Vec<u8>, DecapsulateError> {
    let mut packet = packet.to_vec();
    let inside = receiver.decapsulate(&mut packet)?;
    Ok(packet[inside].to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_is_lost_and_nobody_sends_too_much_while_keys_change(
        suite in proptest::sample::select(&Suite::ALL[..]),
        natt in any::<bool>(),
        most in proptest::option::of(1u64..20),
        batches in proptest::collection::vec((0usize..30, any::<bool>()), 1..12),
    ) {
        let (mut sender, mut receiver) = pair(suite, NATT.filter(|_| natt), most, [&SECRET; 2]);
        let mut by_spi = BTreeMap::new();
        let mut number = 0;
        for (len, on_demand) in batches {
            if on_demand {
                sender.rekey();
            }
            for (number, packet) in (number..).zip(sent(&mut sender, number..number + len)) {
                *by_spi.entry(spi_of(&packet).unwrap()).or_insert(0u64) += 1;
                prop_assert_eq!(received(&mut receiver, &packet), Ok(clear(number)));
            }
            number += len;
        }
        prop_assert_eq!(receiver.counts().accepted, number as u64);
        prop_assert_eq!(by_spi.values().sum::<u64>(), number as u64);
        prop_assert!(by_spi.values().all(|sent| *sent <= most.unwrap_or(u64::MAX)));
        // Those that were asked for behind the last packet have not come.
        prop_assert_eq!(by_spi.len() as u64, receiver.rekeys() + u64::from(number > 0));
        prop_assert!(sender.rekeys() - receiver.rekeys() <= 1);
        prop_assert_eq!(receiver.late(), 0);
    }
}

#[test]
fn an_association_sends_as_many_packets_as_it_may_and_then_the_next_one_does() {
    let (mut sender, _) = pair(Suite::AesCbcHmacSha1, None, Some(10), [&SECRET; 2]);
    let spis: Vec<_> = sent(&mut sender, 0..25).iter().map(|packet| spi_of(packet).unwrap()).collect();
    let expected = [(FIRST_SPI, 10), (FIRST_SPI + 2, 10), (FIRST_SPI + 4, 5)];
    assert_eq!(spis, expected.map(|(spi, times)| vec![spi; times]).concat());
    assert_eq!((sender.rekeys(), sender.sent()), (2, 5));
}

#[test]
fn packets_that_were_overtaken_by_new_keys_still_arrive() {
    let (mut sender, mut receiver) = gcm();
    let old = sent(&mut sender, 0..10);
    sender.rekey();
    let new = sent(&mut sender, 10..20);
    for packet in new.iter().chain(&old) {
        received(&mut receiver, packet).unwrap();
    }
    assert_eq!((receiver.rekeys(), receiver.late()), (1, 10));
    // Nothing twice, whichever association it belongs to.
    for packet in [&old[3], &new[3]] {
        assert_eq!(received(&mut receiver, packet), Err(DecapsulateError::Replayed(4)));
    }
    sender.rekey();
    received(&mut receiver, &sent(&mut sender, 20..21)[0]).unwrap();
    assert_eq!(received(&mut receiver, &old[3]), Err(DecapsulateError::WrongSpi(FIRST_SPI)));
    let counts = receiver.counts();
    assert_eq!((counts.accepted, counts.replayed, counts.foreign), (21, 2, 1));
}

#[test]
fn a_forged_packet_of_the_next_association_changes_nothing() {
    let (mut sender, mut receiver) = gcm();
    received(&mut receiver, &sent(&mut sender, 0..1)[0]).unwrap();
    let mut forged = sent(&mut sender, 1..2).remove(0);
    forged[20..24].copy_from_slice(&(FIRST_SPI + 2).to_be_bytes());
    assert_eq!(received(&mut receiver, &forged), Err(DecapsulateError::BadIcv));
    assert_eq!((receiver.rekeys(), receiver.counts().forged), (0, 1));
    received(&mut receiver, &sent(&mut sender, 2..3)[0]).unwrap();
}

#[test]
fn whole_associations_may_get_lost_up_to_those_that_are_ready() {
    for lost in [0, 1, AHEAD - 1, AHEAD] {
        let (mut sender, mut receiver) = gcm();
        received(&mut receiver, &sent(&mut sender, 0..1)[0]).unwrap();
        for _ in 0..lost {
            sender.rekey();
            sent(&mut sender, 1..2);
        }
        sender.rekey();
        let came = received(&mut receiver, &sent(&mut sender, 2..3)[0]);
        if lost < AHEAD {
            assert_eq!(came, Ok(clear(2)), "{lost}");
            assert_eq!(receiver.rekeys(), lost + 1);
        } else {
            assert!(matches!(came, Err(DecapsulateError::WrongSpi(_))), "{lost}");
        }
    }
}

#[test]
fn an_association_that_sent_nothing_is_not_replaced() {
    let (mut sender, mut receiver) = gcm();
    for _ in 0..100 {
        sender.rekey();
    }
    assert_eq!(sender.rekeys(), 0);
    received(&mut receiver, &sent(&mut sender, 0..1)[0]).unwrap();
}

#[test]
fn every_association_has_keys_of_its_own_that_only_the_secret_tells() {
    let (mut sender, _) = pair(Suite::AesGcmImplicitIv, None, Some(1), [&SECRET; 2]);
    // The same packet, every time with sequence number 1.
    let mut made: Vec<_> = (0..20).map(|_| sent(&mut sender, 7..8).remove(0)[28..].to_vec()).collect();
    made.sort();
    made.dedup();
    assert_eq!(made.len(), 20);

    let (mut sender, mut stranger) = pair(Suite::AesGcm, None, Some(1), [&SECRET, &[1; SECRET_LEN]]);
    let came: Vec<_> = sent(&mut sender, 0..2).iter().map(|packet| received(&mut stranger, packet)).collect();
    assert_eq!(came, [Ok(clear(0)), Err(DecapsulateError::BadIcv)]);
}
