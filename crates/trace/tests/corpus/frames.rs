//! Packets and captures, put together byte by byte.

/// An option of a TCP header, or some.
pub type Options<'a> = &'a [u8];

/// IPv4 with this protocol, 192.0.2.1 to 192.0.2.2, or back.
pub fn ipv4(protocol: u8, back: bool, cut: u16, rest: &[u8]) -> Vec<u8> {
    let ([high, low], [cut_high, cut_low]) = ((20 + rest.len() as u16).to_be_bytes(), cut.to_be_bytes());
    let head = [0x45, 0, high, low, 0, 7, cut_high, cut_low, 64, protocol, 0, 0];
    let (src, dst) = if back { (2, 1) } else { (1, 2) };
    [&head[..], &[192, 0, 2, src, 192, 0, 2, dst], rest].concat()
}

/// IPv6 with this next header, 2001:db8::1 to 2001:db8::2.
pub fn ipv6(next: u8, rest: &[u8]) -> Vec<u8> {
    let [high, low] = (rest.len() as u16).to_be_bytes();
    let address = |last| [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    [&[0x60, 0, 0, 0, high, low, next, 64], &address(1)[..], &address(2), rest].concat()
}

/// A datagram of UDP.
pub fn udp(src_port: u16, dst_port: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len() as u16).to_be_bytes();
    [&src_port.to_be_bytes(), &dst_port.to_be_bytes(), &length[..], &[0, 0], payload].concat()
}

/// A segment of TCP, ports 40000 and 80, window 1000.
pub fn segment(back: bool, seq: u32, ack: u32, flags: u8, options: Options<'_>, payload: &[u8]) -> Vec<u8> {
    let (src, dst): (u16, u16) = if back { (80, 40_000) } else { (40_000, 80) };
    let ports = [src.to_be_bytes(), dst.to_be_bytes()].concat();
    let offset = (5 + options.len() as u8 / 4) << 4;
    let numbers = [seq.to_be_bytes(), ack.to_be_bytes()].concat();
    [&ports[..], &numbers, &[offset, flags, 3, 0xe8, 0, 0, 0, 0], options, payload].concat()
}

/// A frame of Ethernet around an IPv4 packet.
pub fn ethernet(ip: &[u8]) -> Vec<u8> {
    [&[2; 6][..], &[3; 6], &[8, 0], ip].concat()
}

/// A pcap file, little-endian, µs: times in µs and frames.
pub fn pcap(link: u32, packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut file: Vec<u8> = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, link]
        .iter()
        .flat_map(|word: &u32| word.to_le_bytes())
        .collect();
    for (time_us, data) in packets {
        let length = data.len() as u32;
        let words = [1_700_000_000 + time_us / 1_000_000, time_us % 1_000_000, length, length];
        file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        file.extend(data);
    }
    file
}
