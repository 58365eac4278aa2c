//! Packets of calls as the generator reads them.

use weir_wire::{Kind, ones_complement_sum};

use crate::layout::{GenFlow, GenMedia, LOSE};
use crate::plan::{Impairment, MediaFlow, Packet, Side};

/// A flow with its application header behind the others, which end at `header_len`.
pub fn with_header(mut flow: GenFlow, header_len: usize, media: &MediaFlow) -> GenFlow {
    let app = &media.header[..media.header_len.into()];
    flow.header[header_len..header_len + app.len()].copy_from_slice(app);
    flow.app_sum = ones_complement_sum(app);
    flow.app_len = media.header_len;
    flow.port = if media.back { Side::Back } else { Side::Forward } as u8;
    flow
}

/// What varies from packet to packet.
pub fn entry(packet: &Packet) -> GenMedia {
    GenMedia {
        stamp: packet.stamp,
        kind: match packet.kind {
            Kind::Rtp => 1,
            Kind::Iax2Mini => 2,
            Kind::Iax2Meta => 3,
            Kind::Raw => 4,
        },
        marker: packet.marker.into(),
        impair: match packet.impairment {
            Impairment::None => 0,
            Impairment::Lose => LOSE,
            Impairment::Again(back) => back.get(),
        },
        pad: 0,
    }
}
