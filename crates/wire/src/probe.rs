//! The probe: what makes a packet of the test recognisable and measurable.

/// Length of a probe on the wire. 18 bytes fill the shortest UDP/IPv4 frame exactly.
pub const PROBE_LEN: usize = 18;

/// Magic, flow, sequence number and send time; big-endian and packed on the wire.
///
/// ```text
///  0      2             6             10                          18
///  +------+-------------+-------------+---------------------------+
///  | magic|    flow     |   sequence  |  send time (ns, monotonic) |
///  +------+-------------+-------------+---------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Differs from trial to trial, so that stragglers of an earlier one never count.
    pub magic: u16,
    /// Index of the flow.
    pub flow: u32,
    /// Counts up from 0 within the flow.
    pub seq: u32,
    /// Time of departure, CLOCK_MONOTONIC.
    pub time_ns: u64,
}

impl Probe {
    /// Reads the probe at the start of `bytes`; `None` when they are too few.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let b: &[u8; PROBE_LEN] = bytes.first_chunk()?;
        Some(Self {
            magic: u16::from_be_bytes([b[0], b[1]]),
            flow: u32::from_be_bytes([b[2], b[3], b[4], b[5]]),
            seq: u32::from_be_bytes([b[6], b[7], b[8], b[9]]),
            time_ns: u64::from_be_bytes([b[10], b[11], b[12], b[13], b[14], b[15], b[16], b[17]]),
        })
    }

    /// The probe's bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; PROBE_LEN] {
        let mut b = [0; PROBE_LEN];
        b[0..2].copy_from_slice(&self.magic.to_be_bytes());
        b[2..6].copy_from_slice(&self.flow.to_be_bytes());
        b[6..10].copy_from_slice(&self.seq.to_be_bytes());
        b[10..18].copy_from_slice(&self.time_ns.to_be_bytes());
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; PROBE_LEN] = [0x57, 0x45, 0, 0, 0, 7, 0, 0, 1, 0, 0, 0, 0, 1, 0x02, 0x03, 0x04, 0x05];
    const PROBE: Probe = Probe { magic: 0x5745, flow: 7, seq: 256, time_ns: 0x1_0203_0405 };

    #[test]
    fn emits_literal_bytes() {
        assert_eq!(PROBE.emit(), BYTES);
    }

    #[test]
    fn parses_what_it_emits() {
        assert_eq!(Probe::parse(&BYTES), Some(PROBE));
    }

    #[test]
    fn too_few_bytes_are_no_probe() {
        assert_eq!(Probe::parse(&BYTES[..17]), None);
    }
}
