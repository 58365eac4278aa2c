//! The TCP header of a packet, with the options that matter.

use super::facts::SynOptions;
use crate::capture::Packet;
use crate::packet::{Datagram, u16_at, u32_at};

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;

/// The IP header's codepoint "congestion experienced" (RFC 3168 section 5).
const CE: u8 = 3;
const FIXED_BYTES: usize = 20;
/// As many as fit without other options.
pub const MAX_BLOCKS: usize = 4;
const BLOCK_BYTES: usize = 8;
/// A larger shift is taken for this (RFC 7323 section 2.3).
const MAX_SHIFT: u8 = 14;

/// The parts of a segment that the analysis needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    pub time_ns: i64,
    pub seq: u32,
    pub ack: u32,
    /// As sent, not as captured.
    pub payload: u32,
    pub link_bytes: u32,
    /// Value and echo (RFC 7323), if there are any.
    timestamps: (u32, u32),
    pub flags: u8,
    /// As on the wire.
    pub window: u16,
    pub ip_id: u16,
    /// With the codepoint CE.
    pub marked: bool,
    offer: Offer,
    /// The option's value.
    sack: &'a [u8],
    /// What a device on the way has added to the numbers in the option.
    sack_shift: u32,
}

/// Which options are present, in one word: every packet has this, and few consumers look at more than one bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Offer(u32);

impl Offer {
    const MSS: u32 = 1 << 24;
    const SCALE: u32 = 1 << 25;
    const SACK: u32 = 1 << 26;
    const TIMESTAMPS: u32 = 1 << 27;
    /// The capture cut the list: there may be others.
    const CUT: u32 = 1 << 28;

    #[inline]
    const fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }
}

/// What a list of options holds.
#[derive(Default)]
struct Found<'a> {
    timestamps: (u32, u32),
    offer: Offer,
    sack: &'a [u8],
}

impl<'a> Segment<'a> {
    /// None if the capture cut the fixed part of the header.
    #[inline]
    pub fn parse(packet: &Packet<'_>, datagram: &Datagram<'a>) -> Option<Self> {
        let (head, options) = datagram.header.split_first_chunk::<FIXED_BYTES>()?;
        let found = if let Some(words) = options.first_chunk::<12>()
            && options.len() == 12
            && words.starts_with(&[1, 1, 8, 10])
        {
            // Nearly every segment has this: two times "no operation", then time stamps.
            let value = u32::from_be_bytes([words[4], words[5], words[6], words[7]]);
            let echo = u32::from_be_bytes([words[8], words[9], words[10], words[11]]);
            Found { timestamps: (value, echo), offer: Offer(Offer::TIMESTAMPS), sack: &[] }
        } else {
            let cut = FIXED_BYTES + options.len() < usize::from(head[12] >> 4) * 4;
            let mut found = read(options);
            found.offer.0 |= if cut { Offer::CUT } else { 0 };
            found
        };
        Some(Self {
            time_ns: packet.time_ns,
            seq: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
            ack: u32::from_be_bytes([head[8], head[9], head[10], head[11]]),
            payload: u32::try_from(datagram.payload_len).unwrap_or(u32::MAX),
            link_bytes: packet.original_len,
            timestamps: found.timestamps,
            flags: head[13],
            window: u16::from_be_bytes([head[14], head[15]]),
            ip_id: datagram.ip_id,
            marked: datagram.ecn == CE,
            offer: found.offer,
            sack: found.sack,
            sack_shift: 0,
        })
    }

    /// Whether `other` is this very packet, but for the sequence numbers.
    pub fn is_twin(&self, other: &Segment<'_>) -> bool {
        let fields = |s: &Segment<'_>| (s.flags, s.payload, s.window, s.ip_id, s.timestamps());
        fields(self) == fields(other)
    }

    /// The same with numbers as its sender wrote them, before a device on the way added `seq` and `ack` to them.
    pub fn shifted_back(&self, seq: u32, ack: u32) -> Self {
        Self { seq: self.seq.wrapping_sub(seq), ack: self.ack.wrapping_sub(ack), sack_shift: ack, ..*self }
    }

    /// The same without what it borrows; a SYN reports no blocks.
    pub fn detached(&self) -> Segment<'static> {
        Segment { sack: &[], ..*self }
    }

    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    #[inline]
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        self.offer.has(Offer::TIMESTAMPS).then_some(self.timestamps)
    }

    #[inline]
    pub fn is_first_syn(&self) -> bool {
        self.flags & (SYN | ACK | RST) == SYN
    }

    /// An ACK and nothing else.
    #[inline]
    pub fn is_pure_ack(&self) -> bool {
        self.payload == 0 && self.flags & (SYN | FIN | RST | ACK) == ACK
    }

    /// What a SYN offers; `None` if the capture cut the list before the window scale, which other
    /// numbers depend on.
    pub fn offer(&self) -> Option<SynOptions> {
        let has = |bit| self.offer.has(bit);
        (!has(Offer::CUT) || has(Offer::SCALE)).then(|| SynOptions {
            mss: has(Offer::MSS).then_some(self.offer.0 as u16),
            window_scale: has(Offer::SCALE).then_some((self.offer.0 >> 16) as u8),
            sack: has(Offer::SACK),
            timestamps: has(Offer::TIMESTAMPS),
        })
    }

    /// How many SACK blocks there are.
    #[inline]
    pub fn block_count(&self) -> usize {
        (self.sack.len() / BLOCK_BYTES).min(MAX_BLOCKS)
    }

    /// Left and right edges of the SACK blocks, in the order of the packet.
    pub fn blocks(&self) -> impl Iterator<Item = (u32, u32)> {
        let shift = self.sack_shift;
        let edge = move |block: &[u8], at| u32_at(block, at).map(|edge| edge.wrapping_sub(shift));
        let edges = move |block: &[u8]| edge(block, 0).zip(edge(block, 4));
        self.sack.chunks_exact(BLOCK_BYTES).take(MAX_BLOCKS).filter_map(edges)
    }
}

/// Reads options to their end, or to the first with a wrong length: what follows that cannot be decoded.
#[inline(never)]
fn read(mut rest: &[u8]) -> Found<'_> {
    let (mut found, mut offer) = (Found::default(), 0);
    while let Some((&kind, behind)) = rest.split_first() {
        if kind == 0 {
            break;
        }
        if kind == 1 {
            rest = behind;
            continue;
        }
        let Some(&len) = behind.first() else { break };
        let Some(value) = rest.get(2..usize::from(len)) else { break };
        match (kind, value.len()) {
            (2, 2) => {
                let mss = u32::from(u16_at(value, 0).unwrap_or(0));
                offer = offer & !0xffff | mss | Offer::MSS;
            }
            (3, 1) => offer = offer & !0xff_0000 | u32::from(value[0].min(MAX_SHIFT)) << 16 | Offer::SCALE,
            (4, 0) => offer |= Offer::SACK,
            (5, _) => found.sack = value,
            (8, 8) => {
                found.timestamps = u32_at(value, 0).zip(u32_at(value, 4)).unwrap_or_default();
                offer |= Offer::TIMESTAMPS;
            }
            _ => {}
        }
        rest = &rest[usize::from(len)..];
    }
    found.offer = Offer(offer);
    found
}
