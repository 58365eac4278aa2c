//! What the RFCs print, byte by byte.

use super::{hex, tunnel};
use crate::transform::{Sealing, Transform};
use crate::{Association, DEFAULT_WINDOW, Inbound, Mode, Suite};

struct Vector {
    suite: Suite,
    encryption_key: &'static str,
    sequence: u64,
    esn: bool,
    /// SPI, lower half of the sequence number, IV.
    head: &'static str,
    /// With trailer.
    plaintext: &'static str,
    /// With integrity check value.
    sealed: &'static str,
}

/// RFC 3602, section 4, case 5: a ping in transport mode.
const CBC_TRANSPORT: Vector = Vector {
    suite: Suite::AesCbc,
    encryption_key: "90d382b4 10eeba7a d938c46c ec1a82bf",
    sequence: 1,
    esn: false,
    head: "00004321 00000001 e96e8c08 ab465763 fd098d45 dd3ff893",
    plaintext: "08000ebd a70a0000 8e9c083d b95b0700 08090a0b 0c0d0e0f 10111213 14151617
        18191a1b 1c1d1e1f 20212223 24252627 28292a2b 2c2d2e2f 30313233 34353637
        01020304 05060708 090a0b0c 0d0e0e01",
    sealed: "f663c25d 325c18c6 a9453e19 4e120849 a4870b66 cc6b9965 330013b4 898dc856
        a4699e52 3a55db08 0b59ec3a 8e4b7e52 775b07d1 db34ed9c 538ab50c 551b874a
        a269add0 47ad2d59 13ac19b7 cfbad4a6",
};

/// RFC 3602, section 4, case 7: a ping in a tunnel.
const CBC_TUNNEL: Vector = Vector {
    suite: Suite::AesCbc,
    encryption_key: "01234567 89abcdef 01234567 89abcdef",
    sequence: 2,
    esn: false,
    head: "00008765 00000002 f4e76524 4f6407ad f13dc138 0f673f37",
    plaintext: "45000054 09040000 4001f988 c0a87b03 c0a87bc8 08009f76 a90a0100 b49c083d
        02a20400 08090a0b 0c0d0e0f 10111213 14151617 18191a1b 1c1d1e1f 20212223
        24252627 28292a2b 2c2d2e2f 30313233 34353637 01020304 05060708 090a0a04",
    sealed: "773b5241 a4c44922 5e4f3ce5 ed611b0c 237ca96c f74a9301 3c1b0ea1 a0cf70f8
        e4ecaec7 8ac53aad 7a0f022b 859243c6 47752e94 a859352b 8a4d4d2d ecd136e5
        c177f132 ad3fbfb2 201ac990 4c74ee0a 109e0ca1 e4dfe9d5 a100b842 f1c22f0d",
};

/// draft-mcgrew-gcm-test-01, section 4. Its next headers are not those of a tunnel.
const GCM_128: Vector = Vector {
    suite: Suite::AesGcm,
    encryption_key: "feffe992 8665731c 6d6a8f94 67308308 cafebabe",
    sequence: 10,
    esn: false,
    head: "0000a5f8 0000000a facedbad decaf888",
    plaintext: "4500003e 698f0000 80114dcc c0a80102 c0a80101 0a980035 002a2343 b2d00100
        00010000 00000000 03736970 09637962 65726369 74790264 6b000001 00010001",
    sealed: "deb22cd9 b07c72c1 6e3a65be eb8df304 a5a5897d 33ae530f 1ba76d5d 114d2a5c
        3de81827 c10e9a4f 51330d0e ec416642 cfbb85a5 b47e48a4 ec3b9ba9 5d918bd1
        83b70d3a a8bc6ee4 c309e9d8 5a41ad4a",
};

const GCM_256: Vector = Vector {
    suite: Suite::AesGcm,
    encryption_key: "abbccdde f0011223 34455667 78899aab abbccdde f0011223 34455667 78899aab 11223344",
    sequence: 2,
    esn: false,
    head: "4a2cbfe3 00000002 01020304 05060708",
    plaintext: "45000030 69a64000 80062690 c0a80102 9389155e 0a9e008b 2dc57ee0 00000000
        70024000 20bf0000 020405b4 01010402 01020201",
    sealed: "ff425c9b 724599df 7a3bcd51 0194e00d 6a78107f 1b0b1cbf 06efae9d 65a5d763
        748a6379 85771d34 7f054565 9f14e99d ef842d8e b335f4ee cfdbf831 824b4c49
        15956c96",
};

const GCM_ESN: Vector = Vector {
    suite: Suite::AesGcm,
    encryption_key: "3de09874 b388e649 1988d0c3 607eae1f 57690e43",
    sequence: 0x1010_1010_1010_1010,
    esn: true,
    head: "42f67e3f 10101010 4e280000 a2fca1a3",
    plaintext: "4500003c 99c30000 8001cb7c 40679318 01010101 0800085c 02004300 61626364
        65666768 696a6b6c 6d6e6f70 71727374 75767761 62636465 66676869 01020201",
    sealed: "fba2caa4 853cf9f0 f22cb10d 86dd83b0 fec75691 cf1a04b0 0d1138ec 9c357917
        65acbd87 01ad7984 5bf9fe3f ba487bc9 1755e666 2b4c8d0d 1f5e2273 9530320a
        e0d731cc 978ecafa eae88f00 e80d6e48",
};

/// RFC 7634, appendix A.
const CHACHA20: Vector = Vector {
    suite: Suite::ChaCha20Poly1305,
    encryption_key: "80818283 84858687 88898a8b 8c8d8e8f 90919293 94959697 98999a9b 9c9d9e9f a0a1a2a3",
    sequence: 5,
    esn: false,
    head: "01020304 00000005 10111213 14151617",
    plaintext: "45000054 a6f20000 4001e778 c6336405 c0000205 08005b7a 3a080000 553bec10
        00073627 08090a0b 0c0d0e0f 10111213 14151617 18191a1b 1c1d1e1f 20212223
        24252627 28292a2b 2c2d2e2f 30313233 34353637 01020204",
    sealed: "24039428 b97f417e 3c13753a 4f05087b 67c352e6 a7fab1b9 82d466ef 407ae5c6
        14ee8099 d52844eb 61aa95df ab4c02f7 2aa71e7c 4c4f64c9 befe2fac c638e8f3
        cbec163f ac469b50 2773f6fb 94e664da 9165b828 29f641e0
        76aaa826 6b7fb0f7 b11b3699 07e1ad43",
};

const ALL: [&Vector; 6] = [&CBC_TRANSPORT, &CBC_TUNNEL, &GCM_128, &GCM_256, &GCM_ESN, &CHACHA20];

impl Vector {
    fn with<T>(&self, mode: Mode, use_it: impl FnOnce(&Association<'_>) -> T) -> T {
        let spi = u32::from_be_bytes(hex(self.head)[..4].try_into().unwrap());
        use_it(&Association {
            spi,
            suite: self.suite,
            encryption_key: &hex(self.encryption_key),
            authentication_key: &[],
            mode,
            udp: None,
            esn: self.esn,
        })
    }

    fn whole(&self) -> Vec<u8> {
        [hex(self.head), hex(self.sealed)].concat()
    }
}

#[test]
fn packets_are_sealed_as_printed() {
    for vector in ALL {
        let transform = vector.with(Mode::Transport, Transform::new);
        let mut esp = [hex(vector.head), hex(vector.plaintext)].concat();
        esp.resize(esp.len() + vector.suite.icv_len(), 0);
        transform.seal(Sealing { esp: &mut esp, sequence: vector.sequence });
        assert_eq!(esp, vector.whole());
    }
}

#[test]
fn printed_packets_are_opened() {
    for vector in ALL {
        let transform = vector.with(Mode::Transport, Transform::new);
        let mut esp = vector.whole();
        assert_eq!(transform.open(&mut esp, vector.sequence), Ok(()));
        let (head, plaintext) = (hex(vector.head), hex(vector.plaintext));
        assert_eq!(esp[head.len()..head.len() + plaintext.len()], plaintext);
    }
}

#[test]
fn the_whole_packet_of_rfc_3602_case_5_is_decapsulated() {
    let mut receiver = CBC_TRANSPORT.with(Mode::Transport, |a| Inbound::new(a, DEFAULT_WINDOW)).unwrap();
    let mut packet = [hex("4500007c 08f20000 4032f9a5 c0a87b03 c0a87b64"), CBC_TRANSPORT.whole()].concat();
    let inside = receiver.decapsulate(&mut packet).unwrap();
    let original = hex("45000054 08f20000 4001f9fe c0a87b03 c0a87b64");
    assert_eq!(packet[inside.clone()][..20], original);
    assert_eq!(packet[inside][20..], hex(CBC_TRANSPORT.plaintext)[..64]);
}

#[test]
fn the_whole_packet_of_rfc_3602_case_7_is_decapsulated() {
    let mut receiver = CBC_TUNNEL.with(tunnel(4), |a| Inbound::new(a, DEFAULT_WINDOW)).unwrap();
    let mut packet = [hex("4500008c 09050000 4032f91e c0a87b03 c0a87bc8"), CBC_TUNNEL.whole()].concat();
    let inside = receiver.decapsulate(&mut packet).unwrap();
    assert_eq!(packet[inside], hex(CBC_TUNNEL.plaintext)[..84]);
}

#[test]
fn the_tunnel_of_rfc_7634_is_decapsulated() {
    let mut receiver = CHACHA20.with(tunnel(4), |a| Inbound::new(a, DEFAULT_WINDOW)).unwrap();
    // 20 + 16 + 88 + 16 bytes.
    let mut packet = [hex("4500008c 23450000 40320000 cb007199 cb007105"), CHACHA20.whole()].concat();
    let inside = receiver.decapsulate(&mut packet).unwrap();
    assert_eq!(packet[inside], hex(CHACHA20.plaintext)[..84]);
}
