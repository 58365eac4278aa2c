use proptest::prelude::*;

use super::{NATT, association, packet, sent, tunnel};
use crate::transform::{HEAD_LEN, Sealing, Transform};
use crate::{Association, DecapsulateError, Inbound, Mode, Outbound, Suite, spi_of};

/// A packet with a right integrity check value around any plaintext, trailer included.
fn forged(association: &Association<'_>, plaintext: &[u8]) -> Vec<u8> {
    let suite = association.suite;
    let mut esp = association.spi.to_be_bytes().to_vec();
    esp.extend(1u32.to_be_bytes());
    esp.resize(HEAD_LEN + suite.iv_len(), 0x33);
    esp.extend(plaintext);
    esp.resize(esp.len() + suite.icv_len(), 0);
    Transform::new(association).seal(Sealing { esp: &mut esp, sequence: 1 });
    let mut wire = packet(4, 0, 0);
    wire.truncate(20);
    wire[9] = 50;
    wire[2..4].copy_from_slice(&((20 + esp.len()) as u16).to_be_bytes());
    wire.extend(esp);
    wire
}

fn received(mode: Mode, plaintext: &[u8]) -> Result<Vec<u8>, DecapsulateError> {
    let association = association(Suite::AesGcm, mode, false);
    let mut wire = forged(&association, plaintext);
    let inside = Inbound::new(&association, 64).unwrap().decapsulate(&mut wire)?;
    Ok(wire[inside].to_vec())
}

#[test]
fn padding_is_checked() {
    assert_eq!(received(Mode::Transport, &[9, 9, 0, 17]).unwrap()[20..], [9, 9]);
    assert_eq!(received(Mode::Transport, &[9, 1, 1, 17]).unwrap()[20..], [9]);
    assert_eq!(received(Mode::Transport, &[9, 2, 1, 17]), Err(DecapsulateError::BadPadding));
    assert_eq!(received(Mode::Transport, &[1, 3, 2, 17]), Err(DecapsulateError::BadPadding));
    assert_eq!(received(Mode::Transport, &[1, 2, 2, 17]).unwrap()[20..], []);
    assert_eq!(received(Mode::Transport, &[1, 2, 3, 17]), Err(DecapsulateError::BadPadding));
    assert_eq!(received(Mode::Transport, &[1, 2, 255, 17]), Err(DecapsulateError::BadPadding));
    let longest: Vec<u8> = (1..=255).chain([255, 17, 0]).collect();
    assert_eq!(received(Mode::Transport, &longest[..256]), Err(DecapsulateError::BadPadding));
    let longest: Vec<u8> = [7, 7, 7].into_iter().chain(1..=255).chain([255, 17]).collect();
    assert_eq!(received(Mode::Transport, &longest).unwrap()[20..], [7, 7, 7]);
}

#[test]
fn a_dummy_is_discarded() {
    assert_eq!(received(Mode::Transport, &[0, 0, 0, 59]), Err(DecapsulateError::Dummy));
    assert_eq!(received(tunnel(4), &[0, 0, 0, 59]), Err(DecapsulateError::Dummy));
}

#[test]
fn padding_that_hides_the_length_of_the_inner_packet_is_taken_off() {
    let inner = packet(4, 0, 10);
    let hidden = [&inner[..], &[0; 100], &[0, 4]].concat();
    assert_eq!(received(tunnel(4), &hidden).unwrap(), inner);
}

#[test]
fn a_tunnel_carries_packets_of_the_version_that_it_tells() {
    let (four, six) = (packet(4, 0, 10), packet(6, 0, 10));
    let ends = |packet: &[u8], next| [packet, &[0, next]].concat();
    assert_eq!(received(tunnel(4), &ends(&four, 4)).unwrap(), four);
    assert_eq!(received(tunnel(4), &ends(&six, 41)), Ok(six.clone()));
    for (packet, next) in [(&four, 41), (&six, 4), (&four, 1), (&four, 17)] {
        assert_eq!(received(tunnel(4), &ends(packet, next)), Err(DecapsulateError::BadPayload(next)));
    }
    let mut short = four.clone();
    short[3] = 200;
    assert_eq!(received(tunnel(4), &ends(&short, 4)), Err(DecapsulateError::BadPayload(4)));
    assert_eq!(received(tunnel(4), &[1, 2, 2, 4]), Err(DecapsulateError::BadPayload(4)));
}

#[test]
fn what_is_not_for_us_is_told_apart() {
    let mut association = association(Suite::AesGcm, tunnel(4), false);
    let plain = sent(&mut Outbound::new(&association, &[0; 16]).unwrap(), &packet(4, 0, 20), 0).unwrap();
    association.udp = NATT;
    let in_udp = sent(&mut Outbound::new(&association, &[0; 16]).unwrap(), &packet(4, 0, 20), 0).unwrap();
    let mut receiver = Inbound::new(&association, 64).unwrap();
    let udp = |payload: &[u8]| {
        let mut made = packet(4, 0, payload.len());
        made[28..].copy_from_slice(payload);
        made
    };
    assert_eq!(receiver.decapsulate(&mut plain.clone()), Err(DecapsulateError::NotEsp));
    assert_eq!(receiver.decapsulate(&mut udp(&[0xff])), Err(DecapsulateError::Keepalive));
    assert_eq!(receiver.decapsulate(&mut udp(&[0, 0, 0, 0, 1, 2])), Err(DecapsulateError::Ike));
    assert_eq!(receiver.decapsulate(&mut udp(&[1, 2])), Err(DecapsulateError::Truncated));
    let other = DecapsulateError::WrongSpi(0x0102_0304);
    assert_eq!(receiver.decapsulate(&mut udp(&[1, 2, 3, 4, 5, 6, 7, 8])), Err(other));
    assert_eq!(receiver.decapsulate(&mut [0x20; 40]), Err(DecapsulateError::NotIp));
    assert!(receiver.decapsulate(&mut in_udp.clone()).is_ok());
    let counts = receiver.counts();
    assert_eq!((counts.accepted, counts.foreign, counts.malformed), (1, 4, 2));
    assert_eq!(spi_of(&plain), Ok(association.spi));
    assert_eq!(spi_of(&in_udp), Ok(association.spi));
    assert_eq!(spi_of(&packet(4, 0, 0)), Err(DecapsulateError::Truncated));
}

#[test]
fn packets_too_short_or_of_broken_blocks_are_refused_before_any_key_is_used() {
    for suite in Suite::ALL {
        let association = association(suite, tunnel(4), false);
        let mut sender = Outbound::new(&association, &[0; 16]).unwrap();
        let whole = sent(&mut sender, &packet(4, 0, 20), 0).unwrap();
        for len in 20..whole.len() {
            let mut cut = whole[..len].to_vec();
            cut[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            let mut receiver = Inbound::new(&association, 64).unwrap();
            let error = receiver.decapsulate(&mut cut).unwrap_err();
            let body =
                len.checked_sub(20 + HEAD_LEN + suite.iv_len() + suite.icv_len()).filter(|len| *len >= 2);
            match body {
                None => assert_eq!(error, DecapsulateError::Truncated),
                Some(body) if body % suite.align() != 0 => {
                    assert_eq!(error, DecapsulateError::Misaligned(suite.align()));
                }
                Some(_) if suite.is_authenticated() => assert_eq!(error, DecapsulateError::BadIcv),
                Some(_) => {}
            }
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_fail(
        suite in proptest::sample::select(&Suite::ALL[..]),
        natt in any::<bool>(),
        in_tunnel in any::<bool>(),
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
        version in prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()],
    ) {
        if let Some(first) = bytes.first_mut() {
            *first = version;
        }
        let mut association = association(suite, if in_tunnel { tunnel(4) } else { Mode::Transport }, false);
        association.udp = NATT.filter(|_| natt);
        let _ = spi_of(&bytes);
        let _ = sent(&mut Outbound::new(&association, &[0; 16]).unwrap(), &bytes, 0);
        let _ = Inbound::new(&association, 64).unwrap().decapsulate(&mut bytes);
    }

    #[test]
    fn no_plaintext_makes_it_fail(
        in_tunnel in any::<bool>(),
        mut plaintext in proptest::collection::vec(any::<u8>(), 1..60),
        next in prop_oneof![Just(4u8), Just(41), any::<u8>()],
        padding in 0u8..8,
    ) {
        plaintext.truncate(plaintext.len() / 4 * 4);
        if let [first, .., last_but_one, last] = &mut plaintext[..] {
            (*last_but_one, *last) = (padding, next);
            *first = if next == 4 { 0x45 } else { 0x60 };
            let mode = if in_tunnel { tunnel(4) } else { Mode::Transport };
            if let Ok(inside) = received(mode, &plaintext) {
                prop_assert!(inside.len() >= 20);
            }
        }
    }
}
