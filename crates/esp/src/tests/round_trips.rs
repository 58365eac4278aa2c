use proptest::prelude::*;

use super::{NATT, association, packet, roomy, sent, tunnel};
use crate::{
    Association, DEFAULT_WINDOW, DecapsulateError, EncapsulateError, Inbound, Mode, Outbound, Suite, spi_of,
};

/// What a packet of this length is to have around it (RFC 4303, 2).
fn expected_len(association: &Association<'_>, packet: &[u8]) -> usize {
    let suite = association.suite;
    let header = if packet[0] >> 4 == 4 { 20 } else { 40 };
    let (front, protected) = match association.mode {
        Mode::Transport => (header, packet.len() - header),
        Mode::Tunnel { source, .. } => (if source.is_ipv4() { 20 } else { 40 }, packet.len()),
    };
    let natt = if association.udp.is_some() { 8 } else { 0 };
    let body = (protected + 2).div_ceil(suite.align()) * suite.align();
    front + natt + 8 + suite.iv_len() + body + suite.icv_len()
}

fn modes() -> impl Strategy<Value = Mode> {
    proptest::sample::select(vec![Mode::Transport, tunnel(4), tunnel(6)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_was_sent_is_received(
        suite in proptest::sample::select(&Suite::ALL[..]),
        longest in any::<bool>(),
        mode in modes(),
        version in prop_oneof![Just(4u8), Just(6u8)],
        natt in any::<bool>(),
        esn in any::<bool>(),
        before in prop_oneof![Just(0u64), 0u64..1 << 31, Just((1 << 32) - 1), Just(7 << 32)],
        size in prop_oneof![0usize..64, 0usize..1500, Just(9000)],
        traffic_class in any::<u8>(),
        more in 0usize..20,
    ) {
        let mut association = association(suite, mode, longest);
        association.udp = NATT.filter(|_| natt);
        association.esn = esn && suite.is_authenticated();
        let before = if association.esn { before } else { before.min(1 << 31) };
        let packet = packet(version, traffic_class, size);

        let mut sender = Outbound::new(&association, &[9; 16]).unwrap().resumed(before);
        let mut wire = sent(&mut sender, &packet, more).unwrap();
        prop_assert_eq!(wire.len(), expected_len(&association, &packet));
        prop_assert_eq!(spi_of(&wire), Ok(association.spi));

        let mut receiver = Inbound::new(&association, DEFAULT_WINDOW).unwrap().resumed(before);
        let inside = receiver.decapsulate(&mut wire).unwrap();
        prop_assert_eq!(&wire[inside], &packet[..]);
        prop_assert_eq!(receiver.highest(), before + 1);
        prop_assert_eq!(receiver.counts().accepted, 1);
    }

    #[test]
    fn a_changed_bit_is_noticed_and_nothing_is_decrypted(
        suite in proptest::sample::select(&Suite::ALL[1..]),
        mode in modes(),
        esn in any::<bool>(),
        size in 0usize..200,
        place in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let mut association = association(suite, mode, false);
        association.esn = esn;
        let packet = packet(4, 0, size);
        let mut sender = Outbound::new(&association, &[9; 16]).unwrap();
        let mut wire = sent(&mut sender, &packet, 0).unwrap();
        let esp_at = match mode {
            Mode::Tunnel { source, .. } if source.is_ipv6() => 40,
            _ => 20,
        };
        let at = esp_at + place.index(wire.len() - esp_at);
        wire[at] ^= 1 << bit;
        let changed = wire.clone();

        let mut receiver = Inbound::new(&association, DEFAULT_WINDOW).unwrap();
        let error = receiver.decapsulate(&mut wire).unwrap_err();
        // The SPI tells which association; a number may be one from before the window.
        let expected = match at - esp_at {
            0..4 => matches!(error, DecapsulateError::WrongSpi(_)),
            4..8 => matches!(error, DecapsulateError::BadIcv | DecapsulateError::TooOld(_)),
            _ => error == DecapsulateError::BadIcv,
        };
        prop_assert!(expected, "{error:?} at {at}");
        prop_assert_eq!(wire, changed);
        prop_assert_eq!(receiver.highest(), 0, "a forged packet moves no window");
    }
}

#[test]
fn packets_may_come_in_any_order_within_the_window_and_once() {
    let association = association(Suite::AesGcm, tunnel(4), false);
    let mut sender = Outbound::new(&association, &[9; 16]).unwrap();
    let wire: Vec<_> = (0..100).map(|_| sent(&mut sender, &packet(4, 0, 20), 0).unwrap()).collect();
    let mut receiver = Inbound::new(&association, 64).unwrap();
    let mut receive = |number: usize| receiver.decapsulate(&mut wire[number - 1].clone()).map(drop);
    assert_eq!(receive(90), Ok(()));
    assert_eq!(receive(90), Err(DecapsulateError::Replayed(90)));
    assert_eq!(receive(27), Ok(()));
    assert_eq!(receive(26), Err(DecapsulateError::TooOld(26)));
    assert_eq!(receive(28), Ok(()));
    assert_eq!(receive(100), Ok(()));
    assert_eq!(receive(28), Err(DecapsulateError::TooOld(28)));
    let counts = receiver.counts();
    assert_eq!((counts.accepted, counts.replayed, counts.too_old), (4, 1, 2));
}

#[test]
fn without_a_window_copies_are_let_through() {
    for (suite, window) in [(Suite::AesGcm, 0), (Suite::AesCbc, 64)] {
        let association = association(suite, tunnel(4), false);
        let mut sender = Outbound::new(&association, &[9; 16]).unwrap();
        let wire = sent(&mut sender, &packet(4, 0, 20), 0).unwrap();
        let mut receiver = Inbound::new(&association, window).unwrap();
        for _ in 0..3 {
            assert!(receiver.decapsulate(&mut wire.clone()).is_ok());
        }
    }
}

#[test]
fn a_receiver_with_another_key_takes_nothing() {
    for suite in &Suite::ALL[1..] {
        let ours = association(*suite, tunnel(4), false);
        let mut theirs = ours;
        let keys = [[0x55; 36], [0x66; 36]];
        theirs.encryption_key = &keys[0][..ours.encryption_key.len()];
        theirs.authentication_key = &keys[1][..ours.authentication_key.len()];
        let mut sender = Outbound::new(&ours, &[9; 16]).unwrap();
        let mut wire = sent(&mut sender, &packet(4, 0, 20), 0).unwrap();
        let mut receiver = Inbound::new(&theirs, 64).unwrap();
        assert_eq!(receiver.decapsulate(&mut wire), Err(DecapsulateError::BadIcv), "{}", suite.name());
        assert_eq!(receiver.counts().forged, 1);
    }
}

#[test]
fn the_upper_half_of_an_extended_number_is_authenticated() {
    for suite in &Suite::ALL[1..] {
        let mut association = association(*suite, tunnel(4), false);
        association.esn = true;
        let mut sender = Outbound::new(&association, &[9; 16]).unwrap().resumed(3 << 32);
        let wire = sent(&mut sender, &packet(4, 0, 20), 0).unwrap();
        let mut receiver = Inbound::new(&association, 64).unwrap();
        // It believes to be three rounds earlier.
        assert_eq!(receiver.decapsulate(&mut wire.clone()), Err(DecapsulateError::BadIcv));
        let mut receiver = receiver.resumed(3 << 32);
        assert!(receiver.decapsulate(&mut wire.clone()).is_ok());
    }
}

#[test]
fn initialization_vectors_are_never_the_same_and_depend_on_their_key() {
    let association = association(Suite::AesCbcHmacSha1, tunnel(4), false);
    let mut seen = std::collections::BTreeSet::new();
    for key in 0..4u8 {
        let mut sender = Outbound::new(&association, &[key; 16]).unwrap();
        for _ in 0..100 {
            let wire = sent(&mut sender, &packet(4, 0, 20), 0).unwrap();
            assert!(seen.insert(wire[28..44].to_vec()));
        }
    }
}

#[test]
fn no_number_is_used_twice() {
    let mut association = association(Suite::AesGcm, tunnel(4), false);
    for (esn, last) in [(false, u64::from(u32::MAX)), (true, u64::MAX)] {
        association.esn = esn;
        let mut sender = Outbound::new(&association, &[9; 16]).unwrap().resumed(last - 1);
        assert!(sent(&mut sender, &packet(4, 0, 20), 0).is_ok());
        assert_eq!(sent(&mut sender, &packet(4, 0, 20), 0), Err(EncapsulateError::Exhausted));
        assert_eq!(sender.sent(), last);
    }
}

#[test]
fn a_buffer_without_room_is_told_how_much_and_left_alone() {
    let association = association(Suite::AesCbcHmacSha1, tunnel(4), false);
    let mut sender = Outbound::new(&association, &[9; 16]).unwrap();
    let packet = packet(4, 0, 160);
    for (front, behind) in [(sender.headroom() - 1, 40), (sender.headroom(), 15), (0, 0)] {
        let mut buffer = vec![0xaa; front + packet.len() + behind];
        let there = front..front + packet.len();
        buffer[there.clone()].copy_from_slice(&packet);
        let before = buffer.clone();
        // This one needs 2 bytes of padding, a trailer of 2, a code of 12; the longest 13 more.
        let error = sender.encapsulate(&mut buffer, there).unwrap_err();
        assert_eq!(error, EncapsulateError::NoRoom { head: 20 + 8 + 16, tail: 15 + 2 + 12 });
        assert_eq!(buffer, before);
    }
    assert_eq!(sender.sent(), 0);
    let (mut buffer, there) = roomy(&sender, &packet, 0);
    assert!(sender.encapsulate(&mut buffer, there).is_ok());
}

#[test]
fn associations_that_cannot_be_are_refused() {
    let good = association(Suite::AesCbcHmacSha1, Mode::Transport, false);
    let refused = |change: fn(&mut Association<'static>)| {
        let mut bad = good;
        change(&mut bad);
        let error = Outbound::new(&bad, &[0; 16]).map(drop).unwrap_err();
        assert_eq!(Inbound::new(&bad, 64).map(drop), Err(error));
        error.to_string()
    };
    assert!(refused(|a| a.spi = 255).contains("SPI 255"));
    assert!(refused(|a| a.encryption_key = &[0; 24]).contains("16 or 32 bytes"));
    assert!(refused(|a| a.authentication_key = &[0; 16]).contains("20 bytes, not 16"));
    assert!(refused(|a| a.suite = Suite::AesGcm).contains("20 or 36"));
    assert!(
        refused(|a| a.mode = Mode::Tunnel { source: [1, 2, 3, 4].into(), destination: [0u16; 8].into() })
            .contains("different IP versions")
    );
    let unauthenticated = refused(|a| {
        (a.suite, a.authentication_key, a.esn) = (Suite::AesCbc, &[], true);
    });
    assert!(unauthenticated.contains("need an authenticated suite"));
}
