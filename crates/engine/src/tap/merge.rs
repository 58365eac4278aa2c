//! The rings of all CPUs read as one, in the order of time.

use std::io;

use super::layout::Record;
use super::memory::Rings;
use weir_clock::now_ns;

/// The one reader of a set of rings; where it stops, the next one continues.
pub struct Merge {
    rings: Rings,
    cpus: Vec<Cpu>,
    /// The ring that is being read, and the time up to which it is ahead of the others.
    current: Option<(usize, u64)>,
}

/// Where the reader is in one ring.
#[derive(Clone, Copy, Default)]
struct Cpu {
    position: u64,
    head: u64,
    record: Record,
    /// Since the tail was moved.
    told: [u64; 2],
    /// Time of the last frame of each side; that of the beginning if there was none.
    last_ns: [u64; 2],
}

/// A frame and where it lies.
#[derive(Clone, Copy)]
pub struct Item {
    pub cpu: usize,
    pub position: u64,
    pub record: Record,
    /// Time of the previous frame of its side in its ring: losses happened since then.
    pub before_ns: u64,
}

impl Merge {
    /// Begins where the previous reader stopped.
    pub fn new(rings: Rings) -> Self {
        let last_ns = [now_ns(); 2];
        let begin = |cpu| {
            let (head, tail) = (rings.head(cpu), rings.tail(cpu));
            // No writer can have left such a tail: what is in the ring now cannot be told from old bytes.
            let is_sound = tail <= head && head - tail <= rings.capacity() && tail.is_multiple_of(8);
            let position = if is_sound { tail } else { head };
            Cpu { position, head: position, last_ns, ..Cpu::default() }
        };
        let cpus = (0..rings.cpus()).map(begin).collect();
        Self { rings, cpus, current: None }
    }

    pub const fn rings(&self) -> &Rings {
        &self.rings
    }

    /// Checks what has come.
    ///
    /// # Errors
    /// `InvalidData` if a record is invalid.
    pub fn refresh(&mut self) -> io::Result<()> {
        self.current = None;
        for index in 0..self.cpus.len() {
            let was_empty = self.cpus[index].position == self.cpus[index].head;
            self.cpus[index].head = self.rings.head(index);
            if was_empty {
                self.load(index)?;
            }
        }
        Ok(())
    }

    /// The next frame of all rings that was stamped before `horizon_ns`, of those that were there at the
    /// last `refresh`.
    ///
    /// # Errors
    /// `InvalidData` if a record is invalid.
    pub fn next(&mut self, horizon_ns: u64) -> io::Result<Option<Item>> {
        let (index, until_ns) = match self.current {
            Some(current) => current,
            None => match self.choose() {
                Some(chosen) => chosen,
                None => return Ok(None),
            },
        };
        let cpu = &mut self.cpus[index];
        let Cpu { position, record, .. } = *cpu;
        if record.time_ns >= horizon_ns {
            self.current = None;
            return Ok(None);
        }
        cpu.position = record.next(position);
        let side = record.side as usize;
        cpu.told[side] += u64::from(record.lost);
        let before_ns = std::mem::replace(&mut cpu.last_ns[side], record.time_ns);
        self.load(index)?;
        let cpu = &self.cpus[index];
        let goes_on = cpu.position != cpu.head && cpu.record.time_ns <= until_ns;
        self.current = goes_on.then_some((index, until_ns));
        Ok(Some(Item { cpu: index, position, record, before_ns }))
    }

    /// Since when frames of a side may have been lost that no frame has reported; `None`: there are none.
    pub fn untold_since_ns(&self, side: usize) -> Option<u64> {
        let cpus = self.cpus.iter().enumerate();
        cpus.filter(|&(index, _)| self.rings.untold(index, side) > 0).map(|(_, cpu)| cpu.last_ns[side]).min()
    }

    /// The ring with the oldest frame, and the oldest time of the others.
    fn choose(&self) -> Option<(usize, u64)> {
        let (mut first, mut until_ns) = (None, u64::MAX);
        let mut first_ns = u64::MAX;
        for (index, cpu) in self.cpus.iter().enumerate() {
            if cpu.position == cpu.head {
                continue;
            }
            if first.is_none() || cpu.record.time_ns < first_ns {
                until_ns = first_ns;
                (first, first_ns) = (Some(index), cpu.record.time_ns);
            } else {
                until_ns = until_ns.min(cpu.record.time_ns);
            }
        }
        first.map(|index| (index, until_ns))
    }

    fn load(&mut self, index: usize) -> io::Result<()> {
        let cpu = &mut self.cpus[index];
        if cpu.position == cpu.head {
            return Ok(());
        }
        cpu.record = self.rings.record(index, cpu.position);
        if cpu.record.is_sound() && cpu.record.next(cpu.position) <= cpu.head {
            return Ok(());
        }
        let Cpu { position, head, record, .. } = *cpu;
        cpu.position = head; // whoever asks again gets on
        let message = format!(
            "the ring of CPU {index} is damaged at byte {position} of {head}: a frame of {} bytes of side {}; \
             is there a second reader?",
            record.captured, record.side
        );
        Err(io::Error::new(io::ErrorKind::InvalidData, message))
    }

    /// The bytes of a frame that has not been given back yet.
    pub fn bytes(&self, item: &Item) -> &[u8] {
        self.rings.bytes(item.cpu, item.position, item.record.captured as usize)
    }

    /// Gives back all frames that were taken.
    pub fn give_back(&mut self) {
        for (index, cpu) in self.cpus.iter_mut().enumerate() {
            if cpu.position != self.rings.tail(index) {
                self.rings.advance(index, cpu.position, cpu.told);
                cpu.told = [0; 2];
            }
        }
    }
}
