//! Open connections: found by their ends, and ordered by how long they have been silent.

mod wire;

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::net::IpAddr;

use super::connection::{Interface, Open, Source};
use super::facts::{Endpoint, From};
use super::segment::Segment;
use crate::packet::Datagram;
pub use wire::hash;
use wire::{Ready, Wire};

/// Slots per page; pages never move, so growing needs no second copy.
const PAGE: usize = 1 << 10;
/// Most connections with one hash; more is an attack.
const MAX_CHAIN: usize = 32;
const NONE: u32 = u32::MAX;
const QUEUES: usize = 5;
/// Resolution of the order within a queue.
pub const COARSE_NS: u64 = 1_000_000_000;

/// A place for a connection.
#[derive(Debug)]
pub struct Slot {
    open: Option<Open>,
    hash: u64,
    /// When it was put at the end of its queue.
    queued_ns: i64,
    /// Next with the same hash, or next free slot.
    chain: u32,
    older: u32,
    newer: u32,
    queue: u8,
}

/// Where a connection stands in its queue.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    queue: u8,
    queued_ns: i64,
}

impl Place {
    /// Whether it should stand elsewhere now.
    #[inline]
    pub fn is_wrong_for(&self, open: &Open) -> bool {
        self.queue != open.phase() as u8 || self.queued_ns.abs_diff(open.last_ns) >= COARSE_NS
    }
}

/// Silent longest first.
#[derive(Clone, Copy, Debug)]
struct Queue {
    oldest: u32,
    newest: u32,
    len: usize,
}

/// All open connections.
#[derive(Debug)]
pub struct Table {
    heads: HashMap<u64, u32, BuildHasherDefault<Ready>>,
    pages: Vec<Vec<Slot>>,
    free: u32,
    queues: [Queue; QUEUES],
    len: usize,
    /// What was found last; most packets come in bursts.
    last: Last,
    /// What was found not long before that.
    lately: Box<[Lately; LATELY]>,
}

/// A connection, and the look of the packets last found for it. Its place does not depend on the current
/// packet: the processor looks there before it has finished comparing.
#[derive(Clone, Copy, Debug)]
struct Last {
    at: u32,
    wires: [Wire; 2],
}

impl Last {
    const NONE: Self = Self { at: NONE, wires: [Wire::NONE; 2] };
}

/// Places of what was found lately: some 100 KiB, which stay in the processor's cache.
const LATELY: usize = 2_048;

/// A direction of a connection that had a packet a short while ago.
#[derive(Clone, Copy, Debug)]
struct Lately {
    wire: Wire,
    at: u32,
    /// Of the connection, which may be gone.
    id: u32,
    from: From,
}

impl Table {
    pub fn new() -> Self {
        Self {
            heads: HashMap::default(),
            pages: Vec::new(),
            free: NONE,
            queues: [Queue { oldest: NONE, newest: NONE, len: 0 }; QUEUES],
            len: 0,
            last: Last::NONE,
            lately: Box::new([Lately { wire: Wire::NONE, at: NONE, id: 0, from: From::A }; LATELY]),
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn slot(&self, at: u32) -> &Slot {
        &self.pages[at as usize / PAGE][at as usize % PAGE]
    }

    #[inline]
    fn slot_mut(&mut self, at: u32) -> &mut Slot {
        &mut self.pages[at as usize / PAGE][at as usize % PAGE]
    }

    #[inline]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut Open> {
        self.slot_mut(at).open.as_mut()
    }

    /// The same, with its phase and time when it was put where it is in its queue.
    #[inline]
    pub fn queued_mut(&mut self, at: u32) -> Option<(&mut Open, Place)> {
        let slot = self.slot_mut(at);
        let place = Place { queue: slot.queue, queued_ns: slot.queued_ns };
        Some((slot.open.as_mut()?, place))
    }

    #[inline]
    pub fn get(&self, at: u32) -> Option<&Open> {
        self.slot(at).open.as_ref()
    }

    /// The connection of a packet, and which end sent it.
    #[inline]
    pub fn find(
        &mut self,
        interface: Interface,
        datagram: &Datagram<'_>,
        segment: &Segment<'_>,
    ) -> Option<(u32, From)> {
        let wire = Wire::of(interface, datagram);
        let Last { at, wires: [a, b] } = &self.last;
        let from = if wire.is(a) { From::A } else { From::B };
        if (wire.is(a) || wire.is(b)) && self.is_of(*at, from, &wire, datagram) {
            return Some((*at, from));
        }
        self.find_again(interface, datagram, segment, wire)
    }

    /// Whether a packet that looks like this belongs to this connection.
    #[inline]
    fn is_of(&self, at: u32, from: From, wire: &Wire, datagram: &Datagram<'_>) -> bool {
        wire.is_exact() || self.get(at).is_some_and(|open| sender_in(open, datagram) == Some(from))
    }

    #[inline(never)]
    fn find_again(
        &mut self,
        interface: Interface,
        datagram: &Datagram<'_>,
        segment: &Segment<'_>,
        wire: Wire,
    ) -> Option<(u32, From)> {
        let place = wire.place(LATELY);
        let known = self.lately[place];
        let is_known = wire.is(&known.wire)
            && self.get(known.at).is_some_and(|open| open.id == known.id)
            && self.is_of(known.at, known.from, &wire, datagram);
        let (at, from) = if is_known {
            (known.at, known.from)
        } else {
            let (at, from) = self.search(interface, datagram, segment)?;
            self.lately[place] = Lately { wire, at, id: self.get(at)?.id, from };
            (at, from)
        };
        if self.last.at != at {
            self.last = Last { at, ..Last::NONE };
        }
        self.last.wires[from as usize] = wire;
        Some((at, from))
    }

    /// Each direction of a connection has one source. One that was not seen yet may have another than its peer;
    /// the connection whose peer has the same one comes first.
    fn search(
        &mut self,
        interface: Interface,
        datagram: &Datagram<'_>,
        segment: &Segment<'_>,
    ) -> Option<(u32, From)> {
        let source = Source { interface, tags: datagram.tags };
        let mut at = *self.heads.get(&hash(datagram))?;
        let mut free = None;
        while at != NONE {
            let slot = self.slot(at);
            if let Some(open) = &slot.open
                && let Some(from) = sender_in(open, datagram)
            {
                let [own, peer] = [open.sources[from as usize], open.sources[1 - from as usize]];
                if own == Some(source) {
                    return Some((at, from));
                }
                let is_same = peer == Some(source);
                let fits = |peer: Source| peer.tags == source.tags || open.may_begin(from, segment);
                if own.is_none() && (is_same || (free.is_none() && peer.is_some_and(fits))) {
                    free = Some((at, from));
                }
            }
            at = slot.chain;
        }
        let (at, from) = free?;
        if let Some(open) = self.get_mut(at) {
            open.sources[from as usize] = Some(source);
        }
        Some((at, from))
    }

    /// One with the same hash that must be removed before another is inserted.
    pub fn crowded(&self, datagram: &Datagram<'_>) -> Option<u32> {
        let mut at = *self.heads.get(&hash(datagram))?;
        for _ in 1..MAX_CHAIN {
            at = self.slot(at).chain;
            if at == NONE {
                return None;
            }
        }
        Some(at)
    }

    /// Inserts the connection of `datagram`.
    pub fn put(&mut self, open: Open, datagram: &Datagram<'_>) -> u32 {
        let hash = hash(datagram);
        let (queue, queued_ns) = (open.phase() as u8, open.last_ns);
        let at = self.vacant();
        let chain = self.heads.insert(hash, at).unwrap_or(NONE);
        *self.slot_mut(at) =
            Slot { open: Some(open), hash, queued_ns, chain, older: NONE, newer: NONE, queue };
        self.append(at);
        self.len += 1;
        at
    }

    /// Removes a connection.
    pub fn take(&mut self, at: u32) -> Option<Open> {
        let (hash, next) = (self.slot(at).hash, self.slot(at).chain);
        let open = self.slot_mut(at).open.take()?;
        self.detach(at);
        match self.heads.get(&hash).copied() {
            Some(head) if head == at && next == NONE => {
                self.heads.remove(&hash);
            }
            Some(head) if head == at => {
                self.heads.insert(hash, next);
            }
            Some(mut before) => {
                while self.slot(before).chain != at && self.slot(before).chain != NONE {
                    before = self.slot(before).chain;
                }
                self.slot_mut(before).chain = next;
            }
            None => {}
        }
        self.slot_mut(at).chain = self.free;
        self.free = at;
        self.len -= 1;
        if self.last.at == at {
            self.last = Last::NONE;
        }
        Some(open)
    }

    /// Moves a connection that had a packet behind the others of its phase.
    pub fn touch(&mut self, at: u32) {
        let Some(open) = &self.slot(at).open else { return };
        let (queue, last_ns) = (open.phase() as u8, open.last_ns);
        if self.queues[usize::from(queue)].newest == at {
            return self.slot_mut(at).queued_ns = last_ns;
        }
        self.detach(at);
        let slot = self.slot_mut(at);
        (slot.queue, slot.queued_ns) = (queue, last_ns);
        self.append(at);
    }

    /// The connection of a phase that has been silent longest.
    pub fn oldest(&self, queue: usize) -> Option<u32> {
        Some(self.queues[queue].oldest).filter(|at| *at != NONE)
    }

    /// When it was put where it is in its queue; it has not been silent for [`COARSE_NS`] longer.
    pub fn queued_ns(&self, at: u32) -> i64 {
        self.slot(at).queued_ns
    }

    /// Connections of a phase.
    pub fn len_of(&self, queue: usize) -> usize {
        self.queues[queue].len
    }

    /// Any connection, in the order of their numbers.
    pub fn all(&self) -> Vec<u32> {
        let mut all: Vec<(u32, u32)> = (0..)
            .zip(self.pages.iter().flatten())
            .filter_map(|(at, slot)| Some((slot.open.as_ref()?.id, at)))
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(_, at)| at).collect()
    }

    fn vacant(&mut self) -> u32 {
        if self.free != NONE {
            let at = self.free;
            self.free = self.slot(at).chain;
            return at;
        }
        if self.pages.last().is_none_or(|page| page.len() == PAGE) {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        let full = (self.pages.len() - 1) * PAGE;
        let Some(page) = self.pages.last_mut() else { return NONE };
        let at = full + page.len();
        page.push(Slot {
            open: None,
            hash: 0,
            queued_ns: 0,
            chain: NONE,
            older: NONE,
            newer: NONE,
            queue: 0,
        });
        at as u32
    }

    fn append(&mut self, at: u32) {
        let queue = usize::from(self.slot(at).queue);
        self.queues[queue].len += 1;
        let newest = std::mem::replace(&mut self.queues[queue].newest, at);
        if newest == NONE {
            self.queues[queue].oldest = at;
        } else {
            self.slot_mut(newest).newer = at;
        }
        let slot = self.slot_mut(at);
        (slot.older, slot.newer) = (newest, NONE);
    }

    fn detach(&mut self, at: u32) {
        let slot = self.slot(at);
        let (queue, older, newer) = (usize::from(slot.queue), slot.older, slot.newer);
        self.queues[queue].len -= 1;
        if older == NONE {
            self.queues[queue].oldest = newer;
        } else {
            self.slot_mut(older).newer = newer;
        }
        if newer == NONE {
            self.queues[queue].newest = older;
        } else {
            self.slot_mut(newer).older = older;
        }
    }
}

/// Which end of `open` sent a packet, if it belongs to it at all.
#[inline]
fn sender_in(open: &Open, datagram: &Datagram<'_>) -> Option<From> {
    let is = |end: &Endpoint, addr: IpAddr, port: u16| end.port == port && end.addr == addr;
    if is(&open.a, datagram.src, datagram.src_port) && is(&open.b, datagram.dst, datagram.dst_port) {
        Some(From::A)
    } else if is(&open.b, datagram.src, datagram.src_port) && is(&open.a, datagram.dst, datagram.dst_port) {
        Some(From::B)
    } else {
        None
    }
}
