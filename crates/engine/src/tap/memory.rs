//! The rings as they lie in memory, shared with the kernel and with other processes.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::{CHUNK, CHUNK_STRIDE, Record, Ring};

/// A BPF array mapped as bytes.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value and stays valid wherever the value goes.
unsafe impl Send for Mapping {}
// SAFETY: everything shared in it is reached through atomics or not written while it is read.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(fd: impl AsFd, bytes: usize) -> io::Result<Self> {
        let fd = fd.as_fd().as_raw_fd();
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { start, bytes })
    }

    fn at(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(offset + bytes <= self.bytes);
        // SAFETY: within the mapping.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; nothing borrowed outlives this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The rings of all CPUs.
pub struct Rings {
    control: Mapping,
    memory: Mapping,
    cpus: usize,
    chunks: usize,
}

impl Rings {
    /// Maps the arrays behind the descriptors: `cpus` rings of `chunks` each.
    pub fn new(control: impl AsFd, memory: impl AsFd, cpus: usize, chunks: usize) -> io::Result<Self> {
        Ok(Self {
            control: Mapping::new(control, cpus * size_of::<Ring>())?,
            memory: Mapping::new(memory, cpus * chunks * CHUNK_STRIDE)?,
            cpus,
            chunks,
        })
    }

    pub const fn cpus(&self) -> usize {
        self.cpus
    }

    /// Bytes that a ring holds.
    pub const fn capacity(&self) -> u64 {
        self.chunks as u64 * CHUNK
    }

    fn word(&self, cpu: usize, offset: usize) -> &AtomicU64 {
        let at = self.control.at(cpu * size_of::<Ring>() + offset, 8);
        // SAFETY: eight bytes of the mapping at a multiple of eight, written by others atomically.
        unsafe { AtomicU64::from_ptr(at.cast()) }
    }

    /// Up to where the ring can be read.
    pub fn head(&self, cpu: usize) -> u64 {
        self.word(cpu, std::mem::offset_of!(Ring, head)).load(Ordering::Acquire)
    }

    /// Up to where it has been read.
    pub fn tail(&self, cpu: usize) -> u64 {
        self.word(cpu, std::mem::offset_of!(Ring, tail)).load(Ordering::Relaxed)
    }

    /// Gives everything before `tail` back to the writer; its frames reported so many more losses of each side.
    pub fn advance(&self, cpu: usize, tail: u64, told: [u64; 2]) {
        for (side, more) in told.into_iter().enumerate() {
            let word = self.word(cpu, std::mem::offset_of!(Ring, told) + 8 * side);
            // There is one reader: no other thread writes it.
            word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        }
        self.word(cpu, std::mem::offset_of!(Ring, tail)).store(tail, Ordering::Release);
    }

    /// Losses that the frames of a side before the tail reported.
    pub fn told(&self, cpu: usize, side: usize) -> u64 {
        self.word(cpu, std::mem::offset_of!(Ring, told) + 8 * side).load(Ordering::Relaxed)
    }

    /// Losses of a side that the next frame will report.
    pub fn untold(&self, cpu: usize, side: usize) -> u32 {
        let lost = self.word(cpu, std::mem::offset_of!(Ring, lost)).load(Ordering::Relaxed);
        let [a, b] = [0, 4].map(|at| u32::from_ne_bytes(std::array::from_fn(|i| lost.to_ne_bytes()[at + i])));
        [a, b][side]
    }

    /// Which chunk a position of a ring lies in.
    pub const fn chunk(&self, cpu: usize, position: u64) -> usize {
        cpu * self.chunks + (position / CHUNK) as usize % self.chunks
    }

    /// The record at a position between tail and head.
    pub fn record(&self, cpu: usize, position: u64) -> Record {
        let offset = self.chunk(cpu, position) * CHUNK_STRIDE + (position % CHUNK) as usize;
        let at = self.memory.at(offset, size_of::<Record>());
        // SAFETY: within the mapping; any bytes are a `Record`, and the writer is done with them.
        unsafe { at.cast::<Record>().read_unaligned() }
    }

    /// The bytes of the record at a position between tail and head.
    pub fn bytes(&self, cpu: usize, position: u64, captured: usize) -> &[u8] {
        let offset = self.chunk(cpu, position) * CHUNK_STRIDE + (position % CHUNK) as usize;
        let at = self.memory.at(offset + size_of::<Record>(), captured);
        // SAFETY: within the mapping. The writer does not touch what lies between tail and head, and the
        // tail is moved by the one reader alone, when it is through with the frame.
        unsafe { std::slice::from_raw_parts(at, captured) }
    }
}
