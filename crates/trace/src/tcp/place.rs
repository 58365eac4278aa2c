//! Where on the path a capture was taken.
//!
//! A host answers itself in some tens of µs; everything else of a round trip is path. What is known:
//!
//! * the time from the point of capture to B and back: SYN to SYN/ACK, or the least time from data of A to
//!   its ACK;
//! * the time to A and back: SYN/ACK to ACK, or the least time from data of B to its ACK;
//! * packets longer than the peer's MSS: the network card cuts or joins them, so that they exist in hosts
//!   only.
//!
//! The rule: an end is *here* if its round trip takes at most 100 µs and no more than half of the other
//! one, or at most a twentieth of the other one (a slow or virtual host); with over-long packets the
//! nearer end is here. If neither is, and both round trips take more than 100 µs, the capture was taken
//! between them. Anything else stays unknown: a single direction, or two ends that are both near.
//!
//! A switch next to a host looks like the host. The counters do not depend on the place: order, options
//! and times of the packets decide (see `sender`), and these differ by themselves. At the sender a packet
//! sent again was seen before; behind the loss it only fills a gap.

use super::facts::{Place, Side};

const HOST_NS: u64 = 100_000;
/// A payload beyond the largest Ethernet frames in use.
const JUMBO_BYTES: u32 = 9_000;

/// Least round trips from the point of capture to `a` and to `b`, and the sides.
pub fn place(to_a_ns: Option<u64>, to_b_ns: Option<u64>, sides: &[Side; 2]) -> Place {
    let (Some(to_a), Some(to_b)) = (to_a_ns, to_b_ns) else { return Place::Unknown };
    let joined = is_joined(&sides[0], &sides[1]) || is_joined(&sides[1], &sides[0]);
    let is_here = |here: u64, there: u64| {
        (joined && here < there) || (here <= HOST_NS && here <= there / 2) || here <= there / 20
    };
    if is_here(to_a, to_b) {
        Place::AtA
    } else if is_here(to_b, to_a) {
        Place::AtB
    } else if !joined && to_a > HOST_NS && to_b > HOST_NS {
        Place::Between
    } else {
        Place::Unknown
    }
}

/// Whether `side` sent, or was seen to send, packets that no link carries.
fn is_joined(side: &Side, peer: &Side) -> bool {
    let mss = peer.options.and_then(|options| options.mss).map_or(JUMBO_BYTES, u32::from);
    side.payload_max > mss
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::SynOptions;

    fn side(payload_max: u32) -> Side {
        let options = Some(SynOptions { mss: Some(1_460), ..SynOptions::default() });
        Side { payload_max, options, ..Side::default() }
    }

    #[test]
    fn the_end_that_answers_at_once_is_here() {
        let sides = [side(1_448), side(1_448)];
        for (to_a, to_b, expected) in [
            (Some(20_000), Some(10_000_000), Place::AtA),
            (Some(10_000_000), Some(20_000), Place::AtB),
            (Some(400_000), Some(10_000_000), Place::AtA),
            (Some(3_000_000), Some(10_000_000), Place::Between),
            (Some(60_000), Some(70_000), Place::Unknown),
            (None, Some(10_000_000), Place::Unknown),
        ] {
            assert_eq!(place(to_a, to_b, &sides), expected, "{to_a:?} {to_b:?}");
        }
    }

    #[test]
    fn packets_longer_than_the_mss_exist_in_hosts_only() {
        let sides = [side(14_480), side(0)];
        assert_eq!(place(Some(3_000_000), Some(10_000_000), &sides), Place::AtA);
        assert_eq!(place(Some(70_000), Some(60_000), &sides), Place::AtB);
    }
}
