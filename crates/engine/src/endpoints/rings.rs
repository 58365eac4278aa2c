//! The rings of an `AF_XDP` socket (Documentation/networking/af_xdp.rst): each has one writer and one reader, and
//! the kernel is one of them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Memory that is unmapped when it is dropped.
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// Memory of this process alone, there from the beginning.
    pub fn anonymous(len: usize) -> io::Result<Self> {
        Self::new(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1, 0)
    }

    /// A part of what a socket shares.
    pub fn shared(socket: BorrowedFd<'_>, offset: libc::off_t, len: usize) -> io::Result<Self> {
        Self::new(len, libc::MAP_SHARED | libc::MAP_POPULATE, socket.as_raw_fd(), offset)
    }

    fn new(len: usize, flags: i32, fd: i32, offset: libc::off_t) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { start, len })
    }

    /// Its address.
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Its length in bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Where a part of it lies.
    ///
    /// # Panics
    /// The part does not lie within the mapping.
    pub fn part(&self, at: usize, len: usize) -> NonNull<u8> {
        assert!(at <= self.len && len <= self.len - at, "{len} bytes at {at} are outside of {}", self.len);
        // SAFETY: within the mapping.
        unsafe { self.start.add(at) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; nothing borrowed outlives this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A ring of `T`, of which this process is always the writer or always the reader.
pub struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// How far this process has got; the other side sees it after [`Ring::publish`] or [`Ring::release`].
    mine: u32,
    _mapping: Mapping,
}

impl<T: Copy> Ring<T> {
    /// The ring of `size` entries, a power of two, that lies where the kernel says.
    pub fn map(
        socket: BorrowedFd<'_>,
        page: libc::off_t,
        at: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        let entries_len = size as usize * size_of::<T>();
        let mapping = Mapping::shared(socket, page, at.desc as usize + entries_len)?;
        let counter = |at: u64| mapping.part(at as usize, size_of::<AtomicU32>()).cast();
        Ok(Self {
            producer: counter(at.producer),
            consumer: counter(at.consumer),
            entries: mapping.part(at.desc as usize, entries_len).cast(),
            size,
            mine: 0,
            _mapping: mapping,
        })
    }

    /// For the writer: how many entries there is room for.
    pub fn room(&self) -> u32 {
        self.size - self.waiting()
    }

    /// For the writer: enters one. The kernel must have read the previous entry at this place; it may report
    /// that later than that it has finished with the entry.
    pub fn push(&mut self, entry: T) {
        // SAFETY: within the ring; the kernel does not read it before it is published.
        unsafe { self.entry(self.mine).write(entry) };
        self.mine = self.mine.wrapping_add(1);
    }

    /// For the writer: shows the kernel what was entered.
    pub fn publish(&mut self) {
        // SAFETY: the counter lies in the mapping, aligned.
        unsafe { self.producer.as_ref() }.store(self.mine, Ordering::Release);
    }

    /// For the writer: how many entries the kernel has not taken yet.
    pub fn waiting(&self) -> u32 {
        self.mine.wrapping_sub(self.consumed())
    }

    /// For the reader: the next entry.
    pub fn take(&mut self) -> Option<T> {
        // SAFETY: the counter lies in the mapping, aligned.
        let produced = unsafe { self.producer.as_ref() }.load(Ordering::Acquire);
        if produced == self.mine {
            return None;
        }
        // SAFETY: within the ring; the kernel wrote it before it moved the counter.
        let entry = unsafe { self.entry(self.mine).read() };
        self.mine = self.mine.wrapping_add(1);
        Some(entry)
    }

    /// For the reader: gives the kernel back what was taken.
    pub fn release(&mut self) {
        // SAFETY: the counter lies in the mapping, aligned.
        unsafe { self.consumer.as_ref() }.store(self.mine, Ordering::Release);
    }

    fn consumed(&self) -> u32 {
        // SAFETY: the counter lies in the mapping, aligned.
        unsafe { self.consumer.as_ref() }.load(Ordering::Acquire)
    }

    /// # Safety
    /// Whoever uses the entry must own it by the ring's counters.
    unsafe fn entry(&self, number: u32) -> NonNull<T> {
        // SAFETY: below `size`, which is a power of two.
        unsafe { self.entries.add((number & (self.size - 1)) as usize) }
    }
}
