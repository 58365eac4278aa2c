//! Changes of the codec within a stream: packets of a new payload type wait until it is clear that they go on.

use super::track::Raw;

/// Packets of a new type in a row that make a change.
const GO_ON: usize = 16;
/// Of their steps, so many in a hundred move the time stamp, which telephone events and pictures do not.
const MOVING_PERCENT: usize = 75;
/// A type that has moved so often is one of speech.
const SPEECH_STEPS: u32 = 5;

/// Follows the payload types of a stream.
#[derive(Debug, Default)]
pub struct Changes {
    current: Option<Current>,
    /// Types whose time stamps do not follow the packets, a bit each.
    others: u128,
    /// Packets of another type, and late ones of this type between them.
    held: Vec<Raw>,
}

/// The type of the speech until now.
#[derive(Clone, Copy, Debug)]
struct Current {
    payload_type: u8,
    /// How often its time stamps have moved.
    steps: u32,
    stamp: u32,
}

/// What becomes of a packet, once packets that were held have been released.
#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    /// It belongs to the stream.
    Stays,
    /// It is held.
    Waits,
    /// With the packets of another type among these, of which it is the last, that type took the place of this one.
    Changes(u8, Vec<Raw>),
}

impl Changes {
    /// The next packet: what is released, and what becomes of it.
    #[inline]
    pub fn put(&mut self, raw: &Raw) -> (Vec<Raw>, Fate) {
        let (payload_type, stamp) = (raw.header.payload_type, raw.header.timestamp);
        match &mut self.current {
            Some(current) if current.payload_type == payload_type => {
                current.steps = current.steps.saturating_add(u32::from(current.stamp != stamp));
                current.stamp = stamp;
                if self.held.first().is_some_and(|first| raw.header.precedes(&first.header)) {
                    self.held.push(*raw);
                    return (Vec::new(), Fate::Waits);
                }
                (std::mem::take(&mut self.held), Fate::Stays)
            }
            Some(_) if self.others >> payload_type & 1 == 0 => self.hold(raw),
            Some(_) => (std::mem::take(&mut self.held), Fate::Stays),
            None => {
                self.current = Some(Current { payload_type, steps: 0, stamp });
                (Vec::new(), Fate::Stays)
            }
        }
    }

    /// The packets that are held; nothing comes any more.
    pub fn rest(&mut self) -> Vec<Raw> {
        std::mem::take(&mut self.held)
    }

    #[cold]
    fn hold(&mut self, raw: &Raw) -> (Vec<Raw>, Fate) {
        let payload_type = raw.header.payload_type;
        if self.held.first().is_some_and(|first| first.header.payload_type != payload_type) {
            return (std::mem::replace(&mut self.held, vec![*raw]), Fate::Waits);
        }
        self.held.push(*raw);
        let new: Vec<_> = self.held.iter().filter(|each| each.header.payload_type == payload_type).collect();
        if new.len() < GO_ON {
            return (Vec::new(), Fate::Waits);
        }
        let moving = new.windows(2).filter(|p| p[0].header.timestamp != p[1].header.timestamp).count();
        let goes_on = moving * 100 >= (new.len() - 1) * MOVING_PERCENT;
        let mut held = std::mem::take(&mut self.held);
        if !goes_on {
            self.others |= 1 << payload_type;
            held.pop();
            return (held, Fate::Stays);
        }
        let now = Current { payload_type, steps: moving as u32, stamp: raw.header.timestamp };
        match self.current.replace(now) {
            Some(before) if before.steps >= SPEECH_STEPS => {
                (Vec::new(), Fate::Changes(before.payload_type, held))
            }
            _ => {
                held.pop();
                (held, Fate::Stays)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rtp::Header;
    use super::*;

    fn raw(number: u16, payload_type: u8, timestamp: u32) -> Raw {
        let header = Header {
            marker: false,
            payload_type,
            sequence: number,
            timestamp,
            ssrc: 1,
            payload_bytes: 160,
            datagram_bytes: 172,
        };
        Raw { arrival_ns: i64::from(number) * 20_000_000, header }
    }

    /// Types of packets, and whether their stamps move: numbers of the packets that stay, and of those that changed.
    fn followed(packets: &[(u8, bool)]) -> (Vec<u16>, Vec<u16>) {
        let (mut changes, mut stamp, mut stay, mut changed) = (Changes::default(), 0, Vec::new(), Vec::new());
        for (number, (payload_type, moves)) in (0..).zip(packets) {
            stamp += 160 * u32::from(*moves);
            let packet = raw(number, *payload_type, stamp);
            let (released, fate) = changes.put(&packet);
            stay.extend(released.iter().map(|each| each.header.sequence));
            match fate {
                Fate::Stays => stay.push(number),
                Fate::Waits => {}
                Fate::Changes(_, held) => changed.extend(held.iter().map(|each| each.header.sequence)),
            }
        }
        stay.extend(changes.rest().iter().map(|each| each.header.sequence));
        (stay, changed)
    }

    #[test]
    fn a_type_that_goes_on_with_moving_stamps_is_a_change() {
        let packets = [[(9, true); 20].to_vec(), [(8, true); 16].to_vec()].concat();
        assert_eq!(followed(&packets), ((0..20).collect(), (20..36).collect()));
    }

    #[test]
    fn a_few_packets_of_another_type_stay_in_their_order() {
        let packets =
            [vec![(0, true); 9], vec![(13, true); 15], vec![(101, true); 2], vec![(0, true); 9]].concat();
        assert_eq!(followed(&packets), ((0..35).collect(), vec![]));
    }

    #[test]
    fn a_late_packet_of_the_old_type_neither_prevents_a_change_nor_belongs_to_the_new_one() {
        let mut changes = Changes::default();
        let order = (0..20).chain(21..24).chain([20]).chain(24..40);
        let packets = order.map(|n: u16| raw(n, if n < 21 { 9 } else { 8 }, u32::from(n) * 160));
        let fates: Vec<_> = packets.map(|packet| changes.put(&packet)).collect();
        let (_, Fate::Changes(9, held)) = &fates[36] else { panic!("a change") };
        let types = held.iter().map(|each| each.header.payload_type);
        assert_eq!(types.collect::<Vec<_>>(), [[8; 3].to_vec(), vec![9], [8; 13].to_vec()].concat());
    }

    #[test]
    fn telephone_events_are_no_change_however_long() {
        let packets = [vec![(0, true); 20], vec![(101, false); 60], vec![(0, true); 20]].concat();
        assert_eq!(followed(&packets), ((0..100).collect(), vec![]));
    }

    #[test]
    fn speech_after_nothing_but_events_is_no_change() {
        let packets = [vec![(101, false); 20], vec![(0, true); 20]].concat();
        assert_eq!(followed(&packets), ((0..40).collect(), vec![]));
    }
}
