//! The structs of `bpf/tap.h`, field for field.

use crate::layout::Plain;

pub const MAGIC: u32 = 0x3250_4154;
pub const CHUNK: u64 = 256 << 10;
pub const SLACK: usize = 16 << 10;
/// Size of a chunk's element in the array.
pub const CHUNK_STRIDE: usize = CHUNK as usize + SLACK;
/// Bytes of each frame that are copied where the link needs the CPU for itself.
pub const PRESSED_BYTES: usize = 128;
/// Most bytes of a frame that fit into a record.
pub const MAX_BYTES: usize = SLACK - size_of::<Record>();

macro_rules! plain {
    ($($type:ty: $size:literal),+ $(,)?) => {$(
        // SAFETY: repr(C), integers only, pad fields fill every gap (the size is asserted in C too).
        unsafe impl Plain for $type {}
        const _: () = assert!(size_of::<$type>() == $size);
    )+};
}

/// In front of the bytes of each frame.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub time_ns: u64,
    pub length: u32,
    pub captured: u32,
    pub lost: u32,
    pub side: u32,
}

impl Record {
    /// Where the next record begins if this one begins at `position`.
    pub const fn next(&self, position: u64) -> u64 {
        let size = (size_of::<Self>() as u64 + self.captured as u64).next_multiple_of(8);
        let next = position + size;
        if next / CHUNK == position / CHUNK { next } else { next & !(CHUNK - 1) }
    }

    /// Whether a program can have written this.
    pub const fn is_sound(&self) -> bool {
        self.captured as usize <= MAX_BYTES && self.captured >= 1 && self.side < 2
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Ring {
    pub head: u64,
    pub pad0: [u64; 7],
    pub tail: u64,
    pub told: [u64; 2],
    pub pad1: [u64; 5],
    pub tail_seen: u64,
    pub lost: [u32; 2],
    pub pad2: [u64; 6],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Count {
    pub received: u64,
    pub bytes: u64,
    pub forwarded: u64,
    pub refused: u64,
    pub copied: u64,
    pub not_copied: u64,
    pub mirrored: u64,
    pub not_mirrored: u64,
    pub cut: u64,
    pub spared: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub side: [Count; 2],
    pub mirror_sent: u64,
    pub stamp_ns: u64,
    pub error: [i32; 3],
    pub pressed: [u32; 2],
    pub pad0: u32,
    pub flushed_ns: u64,
    pub pad1: [u64; 6],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Info {
    pub magic: u32,
    pub cpus: u32,
    pub chunks: u32,
    pub share_stamp: u32,
    pub name: [[u8; 16]; 2],
    pub mac: [[u8; 6]; 2],
    pub pad: u32,
    pub ports: [u32; 2],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Job {
    pub chunk: u32,
    pub at: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Mirror {
    pub next: u32,
    pub jobs: u32,
    pub input_len: u32,
    pub misfits: u32,
    pub mac: [u8; 6],
    pub pad: [u8; 2],
}

plain! { Record: 24, Ring: 192, Counts: 256, Info: 72, Job: 8, Mirror: 24 }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_reaches_the_end_of_its_chunk_is_followed_by_one_in_the_next() {
        let record = Record { captured: 1500, ..Record::default() };
        assert_eq!(record.next(0), 1528);
        assert_eq!(record.next(CHUNK - 1528), CHUNK);
        assert_eq!(record.next(CHUNK - 8), CHUNK);
        assert_eq!(record.next(7 * CHUNK - 1536), 7 * CHUNK - 8);
    }

    #[test]
    fn lengths_that_no_program_writes_are_not_sound() {
        let record = |captured, side| Record { captured, side, ..Record::default() };
        assert!(record(MAX_BYTES as u32, 1).is_sound());
        assert!(!record(MAX_BYTES as u32 + 1, 1).is_sound());
        assert!(!record(0, 0).is_sound());
        assert!(!record(60, 2).is_sound());
    }
}
