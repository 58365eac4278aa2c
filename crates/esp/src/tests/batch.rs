use proptest::prelude::*;

use super::{NATT, association, packet, roomy, sent, tunnel};
use crate::{EncapsulateError, Mode, Outbound, Slot, Suite};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn packets_encrypted_side_by_side_are_those_encrypted_one_by_one(
        suite in proptest::sample::select(&Suite::ALL[..]),
        longest in any::<bool>(),
        in_tunnel in any::<bool>(),
        natt in any::<bool>(),
        sizes in proptest::collection::vec(prop_oneof![0usize..64, 0usize..1500], 0..20),
    ) {
        let mode = if in_tunnel { tunnel(4) } else { Mode::Transport };
        let mut association = association(suite, mode, longest);
        association.udp = NATT.filter(|_| natt);
        let packets: Vec<_> = sizes.iter().map(|size| packet(4, 0, *size)).collect();

        let mut alone = Outbound::new(&association, &[5; 16]).unwrap();
        let expected: Vec<_> = packets.iter().map(|packet| sent(&mut alone, packet, 0).unwrap()).collect();

        let mut together = Outbound::new(&association, &[5; 16]).unwrap();
        let mut room: Vec<_> = packets.iter().map(|packet| roomy(&together, packet, 3)).collect();
        let mut slots: Vec<_> = room
            .iter_mut()
            .map(|(buffer, range)| Slot { buffer, range: range.clone(), error: None })
            .collect();
        together.encapsulate_each(&mut slots);
        let made: Vec<_> = slots.iter().map(|slot| slot.buffer[slot.range.clone()].to_vec()).collect();
        prop_assert_eq!(made, expected);
        prop_assert_eq!(together.sent(), alone.sent());
    }
}

#[test]
fn what_cannot_be_sent_keeps_nothing_else_from_being_sent() {
    let association = association(Suite::AesCbcHmacSha1, tunnel(4), false);
    let mut sender = Outbound::new(&association, &[5; 16]).unwrap();
    let (mut first, first_range) = roomy(&sender, &packet(4, 0, 160), 0);
    let mut second = vec![0x70; 100];
    let (mut third, third_range) = roomy(&sender, &packet(4, 0, 20), 0);
    let mut slots = [
        Slot { buffer: &mut first, range: first_range, error: None },
        Slot { buffer: &mut second, range: 60..80, error: None },
        Slot { buffer: &mut third, range: third_range, error: None },
    ];
    sender.encapsulate_each(&mut slots);
    let errors = slots.each_ref().map(|slot| slot.error);
    assert_eq!(errors, [None, Some(EncapsulateError::NotIp), None]);
    assert_eq!(slots[1].range, 60..80);
    assert_eq!(slots[1].buffer, [0x70; 100]);
    assert_eq!(sender.sent(), 2);
}
