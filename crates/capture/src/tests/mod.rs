mod compressed;
mod hostile;
mod pcap;
mod pcapng;

use super::numbers::Order;
use super::*;

/// Times and contents.
type Packets = Vec<(i64, Vec<u8>)>;

/// All packets, then whether the file was cut short, or the message of the error.
fn read(file: &[u8]) -> (Packets, Result<bool, String>) {
    let mut packets = Vec::new();
    let mut capture = match open(file) {
        Ok(capture) => capture,
        Err(e) => return (packets, Err(e.to_string())),
    };
    loop {
        match capture.next_packet() {
            Ok(Some(packet)) => packets.push((packet.time_ns, packet.data.to_vec())),
            Ok(None) => return (packets, Ok(capture.cut_short())),
            Err(e) => return (packets, Err(e.to_string())),
        }
    }
}

fn words(order: Order, words: &[u32]) -> Vec<u8> {
    let bytes = |word: &u32| if order == Order::Little { word.to_le_bytes() } else { word.to_be_bytes() };
    words.iter().flat_map(bytes).collect()
}

/// A block of pcapng.
fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let length = 12 + body.len() as u32;
    [&words(order, &[kind, length]), body, &words(order, &[length])].concat()
}

/// An option, padded.
fn option(order: Order, code: u16, value: &[u8]) -> Vec<u8> {
    let head = match order {
        Order::Little => [code.to_le_bytes(), (value.len() as u16).to_le_bytes()],
        Order::Big => [code.to_be_bytes(), (value.len() as u16).to_be_bytes()],
    };
    let padding = value.len().next_multiple_of(4) - value.len();
    [&head.concat(), value, &[0; 3][..padding]].concat()
}

/// The beginning of a section of pcapng.
fn section(order: Order) -> Vec<u8> {
    block(order, 0x0a0d_0d0a, &words(order, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]))
}

/// An interface of Ethernet with these options.
fn interface(order: Order, options: &[u8]) -> Vec<u8> {
    let link = if order == Order::Little { 1 } else { 1 << 16 };
    block(order, 1, &[&words(order, &[link, 96]), options].concat())
}

/// A packet of 3 bytes at so many ticks.
fn packet(order: Order, interface: u32, ticks: u64, options: &[u8]) -> Vec<u8> {
    let head = words(order, &[interface, (ticks >> 32) as u32, ticks as u32, 3, 60]);
    block(order, 6, &[&head[..], &[9, 8, 7, 0], options].concat())
}

/// A section of one interface with these options, and one packet at so many ticks. The packet begins at 64
/// if there are none.
fn pcapng(order: Order, options: &[u8], ticks: u64) -> Vec<u8> {
    let custom = block(order, 0x0bad, &[0; 4]);
    [section(order), custom, interface(order, options), packet(order, 0, ticks, &[])].concat()
}

/// A pcap file, little-endian, µs: times in µs and frames.
pub fn pcap(link: u32, packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, link] {
        file.extend(word.to_le_bytes());
    }
    for (time_us, data) in packets {
        let words = [time_us / 1_000_000, time_us % 1_000_000, data.len() as u64, data.len() as u64];
        file.extend(words.iter().flat_map(|word| (*word as u32).to_le_bytes()));
        file.extend(data);
    }
    file
}
