//! What the fuzz target `esp` does with its bytes, and what must hold whatever these are.
//!
//! `crates/esp/tests/corpus.rs` runs the same function over the committed seeds.

use aes::Aes128;
use aes::cipher::{BlockModeEncrypt, KeyIvInit};
use weir_esp::{
    Association, DecapsulateError, Inbound, Mode, Outbound, RekeyingInbound, RekeyingOutbound, SECRET_LEN,
    Slot, Suite, UdpPorts, spi_of,
};

const KEY: [u8; 36] = [0x5a; 36];
const SPI: u32 = 0x5a5a_5a5a;
const IV: [u8; 16] = [0x33; 16];
const SECRET: [u8; SECRET_LEN] = [0x77; SECRET_LEN];
/// Associations that a receiver has ready.
const AHEAD: u64 = 64;
/// IPv4 with UDP and four bytes.
const PACKET: [u8; 32] = [
    0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0xb7, 0xaf, 198, 18, 0, 1, 198, 19, 0, 1, 0x4e, 0x20, 0x75, 0x30,
    0, 12, 0, 0, 1, 2, 3, 4,
];

/// What to do with the bytes behind the first two, which choose: lower bits of the first the suite, the others
/// mode, UDP, extended numbers and IP version of the tunnel; the second what is done. How it ended.
pub fn esp(data: &[u8]) -> &'static str {
    let [choice, way, bytes @ ..] = data else { return "nothing" };
    let suite = Suite::ALL[usize::from(choice & 0x0f) % Suite::ALL.len()];
    let ends = if choice & 0x10 == 0 { ["192.0.2.1", "192.0.2.2"] } else { ["2001:db8::1", "2001:db8::2"] };
    let [source, destination] = ends.map(|end| end.parse().expect("an address"));
    let association = Association {
        spi: SPI,
        suite,
        encryption_key: &KEY[..suite.encryption_key_lens()[0]],
        authentication_key: &KEY[..suite.authentication_key_len()],
        mode: if choice & 0x20 == 0 { Mode::Tunnel { source, destination } } else { Mode::Transport },
        udp: (choice & 0x40 != 0).then(UdpPorts::default),
        esn: choice & 0x80 != 0 && suite.is_authenticated(),
    };
    match way % 4 {
        0 => received(&association, bytes),
        1 => unpacked(association, bytes),
        2 => there_and_back(&association, bytes),
        _ => rekeyed(&association, bytes),
    }
}

/// A packet that somebody sent.
fn received(association: &Association<'_>, bytes: &[u8]) -> &'static str {
    let mut receiver = Inbound::new(association, 64).expect("a good association");
    let mut packet = bytes.to_vec();
    let spi = spi_of(bytes);
    match receiver.decapsulate(&mut packet) {
        Ok(inside) => {
            assert_eq!(spi, Ok(SPI));
            assert!(inside.len() >= 20 && inside.end <= bytes.len());
            "accepted"
        }
        Err(error) => {
            let counts = receiver.counts();
            assert_eq!(counts.accepted, 0);
            if error == DecapsulateError::BadIcv {
                assert_eq!(packet, bytes, "nothing was decrypted");
            }
            "dropped"
        }
    }
}

/// A packet that decrypts to `bytes`: what only somebody with the key could send.
fn unpacked(association: Association<'_>, bytes: &[u8]) -> &'static str {
    let association = Association {
        suite: Suite::AesCbc,
        encryption_key: &KEY[..16],
        authentication_key: &[],
        udp: None,
        esn: false,
        ..association
    };
    let mut body = bytes[..bytes.len() / 16 * 16].to_vec();
    let (blocks, _) = aes::cipher::array::Array::slice_as_chunks_mut(&mut body);
    let key = KEY.first_chunk::<16>().expect("16 bytes");
    cbc::Encryptor::<Aes128>::new(key.into(), &IV.into()).encrypt_blocks(blocks);
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 50, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.extend(SPI.to_be_bytes());
    packet.extend(1u32.to_be_bytes());
    packet.extend(IV);
    packet.extend(body);
    let Ok(len) = u16::try_from(packet.len()) else { return "too long" };
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    received(&association, &packet)
}

/// A packet that we are to send, alone and in company.
fn there_and_back(association: &Association<'_>, bytes: &[u8]) -> &'static str {
    let mut sender = Outbound::new(association, &IV).expect("a good association");
    let start = sender.headroom();
    let mut buffer = vec![0; start + bytes.len() + sender.tailroom()];
    buffer[start..start + bytes.len()].copy_from_slice(bytes);
    let (mut one, mut other) = (buffer.clone(), buffer.clone());
    let Ok(sent) = sender.encapsulate(&mut buffer, start..start + bytes.len()) else {
        assert_eq!(sender.sent(), 0);
        return "not sent";
    };
    let mut packet = buffer[sent].to_vec();

    let mut together = Outbound::new(association, &IV).expect("a good association");
    let range = start..start + bytes.len();
    let mut slots = [
        Slot { buffer: &mut one, range: range.clone(), error: None },
        Slot { buffer: &mut other, range, error: None },
    ];
    together.encapsulate_each(&mut slots);
    assert_eq!(slots[0].buffer[slots[0].range.clone()], packet);
    assert_ne!(slots[1].buffer[slots[1].range.clone()], packet);

    let mut receiver = Inbound::new(association, 64).expect("a good association");
    let inside = match receiver.decapsulate(&mut packet) {
        // A packet without anything in it, which is what dummies are.
        Err(DecapsulateError::Dummy) => return "dummy",
        received => &packet[received.expect("what was sent is received")],
    };
    match association.mode {
        Mode::Tunnel { .. } => assert_eq!(inside, &bytes[..inside.len()]),
        // The checksum is right afterwards, whatever it was.
        Mode::Transport if inside[0] >> 4 == 4 => {
            assert_eq!(inside[..10], bytes[..10]);
            assert_eq!(inside[12..], bytes[12..inside.len()]);
        }
        Mode::Transport => assert_eq!(inside, &bytes[..inside.len()]),
    }
    "there and back"
}

/// Packets while keys change; of each, a byte says whether it is the first with new keys, and what becomes of it.
fn rekeyed(association: &Association<'_>, bytes: &[u8]) -> &'static str {
    let mut sender = RekeyingOutbound::new(association, &IV, &SECRET, None).expect("a good association");
    let mut receiver = RekeyingInbound::new(association, 64, &SECRET).expect("a good association");
    let start = sender.headroom();
    let mut unheard = 0;
    let mut end = "nothing";
    for fate in bytes {
        if fate & 1 != 0 {
            let before = sender.rekeys();
            sender.rekey();
            unheard += sender.rekeys() - before;
        }
        let mut buffer = vec![0; start + PACKET.len() + sender.tailroom()];
        buffer[start..start + PACKET.len()].copy_from_slice(&PACKET);
        let mut slots = [Slot { buffer: &mut buffer, range: start..start + PACKET.len(), error: None }];
        sender.encapsulate_each(&mut slots);
        assert_eq!(slots[0].error, None);
        let packet = slots[0].range.clone();
        let packet = &mut buffer[packet];
        match (fate >> 1) & 3 {
            0 => end = "lost",
            1 if association.suite.is_authenticated() => {
                let at = packet.len() - 1 - usize::from(fate >> 3) % 12;
                packet[at] ^= 1;
                let rekeys = receiver.rekeys();
                assert!(receiver.decapsulate(packet).is_err());
                assert_eq!(receiver.rekeys(), rekeys, "nobody else makes it follow");
                end = "changed";
            }
            _ => {
                assert_eq!(receiver.decapsulate(packet).is_ok(), unheard <= AHEAD);
                if unheard <= AHEAD {
                    unheard = 0;
                    end = "rekeyed";
                } else {
                    end = "lost for good";
                }
            }
        }
    }
    assert_eq!(receiver.counts().replayed + receiver.counts().too_old, 0);
    end
}
