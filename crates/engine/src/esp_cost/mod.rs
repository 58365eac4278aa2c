//! What a packet of speech costs with ESP: to encapsulate it, to decapsulate it, and to hand it to its call.
//!
//! A round handles a set of packets, each in a buffer of its own; only that is timed, not what is set up for it.

mod endpoint;

use std::hint::black_box;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use endpoint::Endpoint;
use weir_esp::{
    Association, AssociationError, DEFAULT_WINDOW, DecapsulateError, EncapsulateError, Inbound, Mode,
    Outbound, Slot, Suite,
};
use weir_wire::UDP_LEN;

/// Room around and for a packet.
const BUFFER: usize = 2048;
/// Where a packet in the clear begins in its buffer.
pub const START: usize = 128;
/// Of every association.
pub const KEY: [u8; 36] = [0x5a; 36];
/// Lengths of IP packets in the clear, with UDP.
pub const SIZES: std::ops::RangeInclusive<usize> = 64..=1500;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostWay {
    /// One packet after the other is encapsulated.
    Out,
    /// Eight at a time.
    OutEach,
    /// Its headers are written before, with those of UDP.
    OutUdp,
    /// The same without UDP.
    OutRtp,
    /// Decapsulated.
    In,
    /// And handed to its call by its UDP port.
    InUdp,
    /// Without UDP, by its synchronization source.
    InRtp,
    /// With UDP, through a queue between the layers.
    InLayers,
    /// With UDP, through a socket of the system.
    InSystem,
}

impl CostWay {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Out,
        Self::OutEach,
        Self::OutUdp,
        Self::OutRtp,
        Self::In,
        Self::InUdp,
        Self::InRtp,
        Self::InLayers,
        Self::InSystem,
    ];

    /// As in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::OutEach => "out-each",
            Self::OutUdp => "out-udp",
            Self::OutRtp => "out-rtp",
            Self::In => "in",
            Self::InUdp => "in-udp",
            Self::InRtp => "in-rtp",
            Self::InLayers => "in-layers",
            Self::InSystem => "in-system",
        }
    }

    /// The way called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }

    const fn has_udp(self) -> bool {
        !matches!(self, Self::OutRtp | Self::InRtp)
    }
}

/// Why there is no time.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    /// Keys or numbers that ESP refuses.
    #[error(transparent)]
    Association(#[from] AssociationError),
    /// A packet that cannot be encapsulated.
    #[error(transparent)]
    Encapsulate(#[from] EncapsulateError),
    /// A packet that cannot be decapsulated.
    #[error(transparent)]
    Decapsulate(#[from] DecapsulateError),
    /// The sockets on the loopback interface.
    #[error("sockets on the loopback interface")]
    Socket(#[from] io::Error),
    /// It came out different.
    #[error("a packet did not come out as it went in")]
    Damaged,
    /// Shorter or longer than a packet of speech can be here.
    #[error("packets of {0} bytes: 64 to 1500 are possible")]
    Size(usize),
}

/// The buffers of a round, and the endpoint that takes the packets.
pub struct PacketSet {
    buffers: Vec<Vec<u8>>,
    endpoint: Endpoint,
}

impl PacketSet {
    /// Room for so many packets: a few stay in the CPU's caches, many do not.
    pub fn new(packets: usize) -> Result<Self, CostError> {
        Ok(Self { buffers: vec![vec![0x5a; BUFFER]; packets], endpoint: Endpoint::new()? })
    }

    /// The buffers themselves.
    pub fn buffers_mut(&mut self) -> &mut [Vec<u8>] {
        &mut self.buffers
    }

    /// Packets of speech of `size` bytes with UDP, and where they are in their buffers.
    pub fn fill(&mut self, size: usize, has_udp: bool) -> Range<usize> {
        let there = START..START + if has_udp { size } else { size - UDP_LEN };
        for (number, buffer) in self.buffers.iter_mut().enumerate() {
            buffer[there.clone()].fill(0x5a);
            endpoint::write(&mut buffer[there.clone()], number, has_udp);
        }
        there
    }
}

/// The associations of a suite in one mode, whose numbers go on from round to round.
pub struct EspCost {
    senders: Vec<Outbound>,
    receivers: Vec<Inbound>,
    /// Whose turn it is next.
    turn: usize,
}

impl EspCost {
    /// `associations` are used in turn, which is what many flows cost.
    pub fn new(suite: Suite, is_tunnel: bool, associations: usize) -> Result<Self, CostError> {
        let mode = if is_tunnel {
            Mode::Tunnel { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into() }
        } else {
            Mode::Transport
        };
        let of = |number| Association {
            spi: 0x1000 + number as u32,
            suite,
            encryption_key: &KEY[..suite.encryption_key_lens().first().copied().unwrap_or_default()],
            authentication_key: &KEY[..suite.authentication_key_len()],
            mode,
            udp: None,
            esn: false,
        };
        let senders = (0..associations).map(|number| Outbound::new(&of(number), &[1; 16]));
        let receivers = (0..associations).map(|number| Inbound::new(&of(number), DEFAULT_WINDOW));
        Ok(Self {
            senders: senders.collect::<Result<_, _>>()?,
            receivers: receivers.collect::<Result<_, _>>()?,
            turn: 0,
        })
    }

    /// ns per packet in one round, with packets of `size` bytes in the clear; those without UDP are shorter by it.
    pub fn round(&mut self, way: CostWay, size: usize, set: &mut PacketSet) -> Result<f64, CostError> {
        if !SIZES.contains(&size) {
            return Err(CostError::Size(size));
        }
        let there = set.fill(size, way.has_udp());
        let packets = set.buffers.len();
        let lasted = match way {
            CostWay::Out => self.sent(set, &there, |_, _| ()),
            CostWay::OutUdp => self.sent(set, &there, |packet, number| endpoint::write(packet, number, true)),
            CostWay::OutRtp => {
                self.sent(set, &there, |packet, number| endpoint::write(packet, number, false))
            }
            CostWay::OutEach => self.sent_each(set, &there),
            CostWay::In => self.taken(set, &there, |_, packet| {
                black_box(packet);
                Ok(())
            }),
            CostWay::InUdp => self.taken(set, &there, Endpoint::take_udp),
            CostWay::InRtp => self.taken(set, &there, Endpoint::take_rtp),
            CostWay::InLayers => self.taken(set, &there, Endpoint::take_by_layers),
            CostWay::InSystem => self.taken(set, &there, Endpoint::take_by_system),
        }?;
        self.turn += packets;
        Ok(lasted.as_nanos() as f64 / packets as f64)
    }

    fn sender(&mut self, number: usize) -> &mut Outbound {
        let associations = self.senders.len();
        &mut self.senders[(self.turn + number) % associations]
    }

    fn receiver(&mut self, number: usize) -> &mut Inbound {
        let associations = self.receivers.len();
        &mut self.receivers[(self.turn + number) % associations]
    }

    /// Packet by packet, each prepared before.
    fn sent(
        &mut self,
        set: &mut PacketSet,
        there: &Range<usize>,
        prepare: impl Fn(&mut [u8], usize),
    ) -> Result<Duration, CostError> {
        let begun = Instant::now();
        for (number, buffer) in set.buffers.iter_mut().enumerate() {
            prepare(&mut buffer[there.clone()], number);
            black_box(self.sender(number).encapsulate(buffer, there.clone())?);
        }
        Ok(begun.elapsed())
    }

    fn sent_each(&mut self, set: &mut PacketSet, there: &Range<usize>) -> Result<Duration, CostError> {
        let mut slots: Vec<_> =
            set.buffers.iter_mut().map(|buffer| Slot { buffer, range: there.clone(), error: None }).collect();
        let begun = Instant::now();
        for (number, group) in slots.chunks_mut(8).enumerate() {
            self.sender(number).encapsulate_each(group);
        }
        let lasted = begun.elapsed();
        slots.into_iter().find_map(|slot| slot.error).map_or(Ok(lasted), |error| Err(error.into()))
    }

    /// Decapsulates packet by packet, and has each taken before the next.
    fn taken(
        &mut self,
        set: &mut PacketSet,
        there: &Range<usize>,
        take: impl Fn(&mut Endpoint, &[u8]) -> Result<(), CostError>,
    ) -> Result<Duration, CostError> {
        let mut sent = there.clone();
        for (number, buffer) in set.buffers.iter_mut().enumerate() {
            sent = self.sender(number).encapsulate(buffer, there.clone())?;
        }
        let begun = Instant::now();
        for (number, buffer) in set.buffers.iter_mut().enumerate() {
            let packet = &mut buffer[sent.clone()];
            let inside = self.receiver(number).decapsulate(packet)?;
            take(&mut set.endpoint, &packet[inside])?;
        }
        Ok(begun.elapsed())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn every_way_takes_some_time_with_every_suite_and_mode() {
        let mut set = PacketSet::new(4).unwrap();
        for suite in Suite::ALL {
            for is_tunnel in [false, true] {
                let mut cost = EspCost::new(suite, is_tunnel, 2).unwrap();
                for way in CostWay::ALL {
                    for size in [64, 200, 1400] {
                        assert!(cost.round(way, size, &mut set).unwrap() > 0.0, "{way:?} {size}");
                    }
                    assert_eq!(CostWay::from_name(way.name()), Some(way));
                }
            }
        }
    }

    #[test]
    fn a_packet_that_no_speech_has_is_refused() {
        let mut set = PacketSet::new(1).unwrap();
        let mut cost = EspCost::new(Suite::AesGcm, false, 1).unwrap();
        assert!(matches!(cost.round(CostWay::Out, 63, &mut set), Err(CostError::Size(63))));
        assert!(matches!(cost.round(CostWay::Out, 1501, &mut set), Err(CostError::Size(1501))));
    }
}
