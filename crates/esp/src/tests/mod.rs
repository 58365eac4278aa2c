#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod batch;
mod headers;
mod hostile;
mod rekey;
mod replay;
mod round_trips;
mod vectors;
mod wiping;

use std::ops::Range;

use weir_wire::{fold, ones_complement_sum};

use crate::{Association, EncapsulateError, Mode, Outbound, Suite, UdpPorts};

const KEY: [u8; 64] = {
    let mut key = [0; 64];
    let mut at = 0;
    while at < 64 {
        key[at] = at as u8 * 3 + 1;
        at += 1;
    }
    key
};

/// An association of 128 bits, or of the longest keys.
fn association(suite: Suite, mode: Mode, longest: bool) -> Association<'static> {
    let lens = suite.encryption_key_lens();
    let len = if longest { lens[lens.len() - 1] } else { lens[0] };
    Association {
        spi: 0x1234_5678,
        suite,
        encryption_key: &KEY[..len],
        authentication_key: &KEY[64 - suite.authentication_key_len()..],
        mode,
        udp: None,
        esn: false,
    }
}

fn tunnel(version: u8) -> Mode {
    let (source, destination) =
        if version == 4 { ("192.0.2.1", "192.0.2.2") } else { ("2001:db8::1", "2001:db8::2") };
    Mode::Tunnel { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
}

/// An IP packet with UDP and `payload` bytes, checksums of IP right.
fn packet(version: u8, traffic_class: u8, payload: usize) -> Vec<u8> {
    let len = 8 + payload;
    let mut made = if version == 4 {
        let mut header = vec![0x45, traffic_class, 0, 0, 0x12, 0x34, 0x40, 0, 63, 17, 0, 0];
        header.extend([10, 1, 0, 1, 10, 2, 0, 2]);
        header[2..4].copy_from_slice(&((20 + len) as u16).to_be_bytes());
        let sum = !fold(ones_complement_sum(&header).into());
        header[10..12].copy_from_slice(&sum.to_ne_bytes());
        header
    } else {
        let mut header = vec![0x60 | traffic_class >> 4, traffic_class << 4, 0x12, 0x34, 0, 0, 17, 63];
        header.extend([0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        header.extend([0x20, 1, 0xd, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        header[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        header
    };
    made.extend([0x4e, 0x20, 0x75, 0x30]);
    made.extend((len as u16).to_be_bytes());
    made.extend([0, 0]);
    made.extend((0..payload).map(|at| at as u8));
    made
}

/// Encapsulates in a buffer with just enough room, unless there is more.
fn sent(sender: &mut Outbound, packet: &[u8], more: usize) -> Result<Vec<u8>, EncapsulateError> {
    let (mut buffer, there) = roomy(sender, packet, more);
    let made = sender.encapsulate(&mut buffer, there)?;
    Ok(buffer[made].to_vec())
}

fn roomy(sender: &Outbound, packet: &[u8], more: usize) -> (Vec<u8>, Range<usize>) {
    let start = sender.headroom() + more;
    let mut buffer = vec![0xaa; start + packet.len() + sender.tailroom() + more];
    buffer[start..start + packet.len()].copy_from_slice(packet);
    (buffer, start..start + packet.len())
}

const NATT: Option<UdpPorts> = Some(UdpPorts { source: 4500, destination: 4500 });

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}
