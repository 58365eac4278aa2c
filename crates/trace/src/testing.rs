//! Captures and packets for tests, built byte by byte.

/// A UDP datagram over IPv4 in an Ethernet frame.
pub fn udp_frame(src_port: u16, dst_port: u16, payload: &[u8]) -> Vec<u8> {
    [&[2; 6][..], &[3; 6], &[0x08, 0x00], &udp_over_ipv4(src_port, dst_port, payload)].concat()
}

/// The same from the IP header on; 192.0.2.1 to 192.0.2.2.
pub fn udp_over_ipv4(src_port: u16, dst_port: u16, payload: &[u8]) -> Vec<u8> {
    let udp = udp(src_port, dst_port, payload);
    let total = (20 + udp.len()) as u16;
    let head = [0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, 64, 17, 0, 0];
    [&head[..], &[192, 0, 2, 1], &[192, 0, 2, 2], &udp].concat()
}

/// A UDP header and its payload.
pub fn udp(src_port: u16, dst_port: u16, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    [&src_port.to_be_bytes()[..], &dst_port.to_be_bytes(), &len.to_be_bytes(), &[0, 0], payload].concat()
}

/// An RTP packet with 160 bytes of speech.
pub fn rtp(payload_type: u8, sequence: u16, timestamp: u32, ssrc: u32) -> Vec<u8> {
    let head = [0x80, payload_type];
    let numbers = [&sequence.to_be_bytes()[..], &timestamp.to_be_bytes(), &ssrc.to_be_bytes()].concat();
    [&head[..], &numbers, &[0xd5; 160]].concat()
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
