//! Where frames are missing from a record.

/// What kept frames out of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// There was no room in the ring they are read from: the recorder, or its disk, was too slow.
    Ring,
    /// The disk refused them, for instance because it was full.
    Disk,
}

/// Frames of an interface that are not in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The interface, by its place in the source.
    pub interface: usize,
    /// Time of the last frame before, ns since 1970; the start of the record if there is none. If several
    /// CPUs copy, it is that of the CPU without room: frames of others may lie between.
    pub from_ns: i64,
    /// Time of the first frame after; at the end of the record, that of the last missing one, or the end.
    pub to_ns: i64,
    /// How many are missing.
    pub frames: u64,
    /// What kept them out.
    pub stage: Stage,
}

/// Gaps of one stage, in as many pieces as memory allows.
pub struct Gaps {
    stage: Stage,
    limit: usize,
    /// Per interface, in the order of time.
    lists: Vec<Vec<Gap>>,
    /// Gaps no farther apart than this are merged.
    apart_ns: i64,
}

/// Gaps remembered; beyond that neighbours are merged, even if there are frames between them.
const LIMIT: usize = 10_000;
const FIRST_APART_NS: i64 = 1_000_000;

impl Gaps {
    pub fn new(stage: Stage, interfaces: usize) -> Self {
        Self { stage, limit: LIMIT, lists: vec![Vec::new(); interfaces], apart_ns: 0 }
    }

    #[cfg(test)]
    pub fn with_limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Notes that `frames` of an interface are missing between two times.
    pub fn push(&mut self, interface: usize, from_ns: i64, to_ns: i64, frames: u64) {
        // Frames may be older than the record that they are the first of.
        let gap = Gap { interface, from_ns: from_ns.min(to_ns), to_ns, frames, stage: self.stage };
        append(&mut self.lists[interface], gap, self.apart_ns);
        while self.lists[interface].len() > self.limit {
            self.apart_ns = (self.apart_ns * 2).max(FIRST_APART_NS);
            let mut fewer = Vec::new();
            for gap in self.lists[interface].drain(..) {
                append(&mut fewer, gap, self.apart_ns);
            }
            self.lists[interface] = fewer;
        }
    }

    /// All of them, by interface and time.
    pub fn into_vec(self) -> Vec<Gap> {
        self.lists.into_iter().flatten().collect()
    }
}

fn append(list: &mut Vec<Gap>, mut gap: Gap, apart_ns: i64) {
    // It may begin before several of them.
    while let Some(last) = list.pop_if(|last| gap.from_ns.saturating_sub(last.to_ns) <= apart_ns) {
        gap.from_ns = gap.from_ns.min(last.from_ns);
        gap.to_ns = gap.to_ns.max(last.to_ns);
        gap.frames += last.frames;
    }
    list.push(gap);
}
