//! Connections and streams that will be shown.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use weir_trace::tcp::Connection;
use weir_trace::voice::Measured;

/// A connection that is kept: packed, because most of its numbers are 0. As it is, it takes 1 kB.
#[derive(Deserialize, Serialize)]
pub struct Packed {
    link_bytes: u64,
    id: u32,
    facts: Box<[u8]>,
}

impl Packed {
    fn new(connection: &Connection) -> Self {
        let facts = postcard::to_allocvec(connection).expect("plain values can be packed");
        let link_bytes = connection.sides.iter().map(|side| side.link_bytes).sum();
        Self { link_bytes, id: connection.id, facts: facts.into_boxed_slice() }
    }

    pub fn facts(&self) -> Result<Connection, postcard::Error> {
        postcard::from_bytes(&self.facts)
    }

    /// Its number.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Gives it another number.
    pub fn renumber(&mut self, id: u32) -> Result<(), postcard::Error> {
        *self = Self::new(&Connection { id, ..self.facts()? });
        Ok(())
    }

    /// What decides which are kept.
    fn rank(&self) -> (Reverse<u64>, u64) {
        (Reverse(self.link_bytes), self.id.into())
    }
}

/// The connections with most bytes, and the streams with most packets.
pub struct Kept {
    connections: Most<Packed>,
    streams: Most<Measured>,
    /// Of all connections of a share.
    numbers: Option<Vec<u32>>,
}

impl Kept {
    /// Up to `most` of either kind; `numbered`: and the numbers of all connections.
    pub fn new(most: usize, numbered: bool) -> Self {
        let numbers = numbered.then(Vec::new);
        Self { connections: Most::new(most), streams: Most::new(most), numbers }
    }

    pub fn connection(&mut self, connection: &Connection) {
        if let Some(numbers) = &mut self.numbers {
            numbers.push(connection.id);
        }
        self.put(Packed::new(connection));
    }

    /// A connection that was packed before.
    pub fn put(&mut self, connection: Packed) {
        self.connections.put(connection, Packed::rank);
    }

    /// Of all connections, if they are a share.
    pub fn numbers(&mut self) -> Vec<u32> {
        self.numbers.take().unwrap_or_default()
    }

    pub fn stream(&mut self, stream: Measured) {
        self.streams.put(stream, packets);
    }

    /// The connections in the order of their first packets, and how many are left out.
    pub fn connections(&mut self) -> (Vec<Packed>, u64) {
        let (mut connections, left_out) = self.connections.take(Packed::rank);
        connections.sort_by_key(|connection| connection.id);
        (connections, left_out)
    }

    /// The streams in the order of their first packets, and how many are left out.
    pub fn streams(&mut self) -> (Vec<Measured>, u64) {
        let (mut streams, left_out) = self.streams.take(packets);
        streams.sort_by_key(|stream| (stream.order, stream.part));
        (streams, left_out)
    }
}

fn packets(stream: &Measured) -> (Reverse<u64>, u64) {
    (Reverse(stream.packets), stream.order)
}

/// The greatest of many.
struct Most<T> {
    most: usize,
    items: Vec<T>,
    seen: u64,
}

impl<T> Most<T> {
    const fn new(most: usize) -> Self {
        Self { most, items: Vec::new(), seen: 0 }
    }

    fn put(&mut self, item: T, rank: fn(&T) -> (Reverse<u64>, u64)) {
        self.seen += 1;
        self.items.push(item);
        // Twice as many before the smaller half goes, so that each costs little.
        if self.items.len() > self.most.saturating_mul(2).max(1 << 10) {
            self.cut(rank);
        }
    }

    /// What is kept, and how many were left out.
    fn take(&mut self, rank: fn(&T) -> (Reverse<u64>, u64)) -> (Vec<T>, u64) {
        self.cut(rank);
        let items = std::mem::take(&mut self.items);
        let left_out = self.seen - items.len() as u64;
        (items, left_out)
    }

    fn cut(&mut self, rank: fn(&T) -> (Reverse<u64>, u64)) {
        if self.items.len() > self.most {
            if self.most > 0 {
                self.items.select_nth_unstable_by_key(self.most - 1, rank);
            }
            self.items.truncate(self.most);
        }
    }
}
