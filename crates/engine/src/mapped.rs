//! BPF arrays mapped into memory (BPF_F_MMAPABLE, Linux 5.5): read and written without
//! system calls, while the program runs.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use crate::layout::Plain;

/// An array of `T` shared with the kernel.
pub struct Mapped<T> {
    start: NonNull<T>,
    len: usize,
    _owns: PhantomData<T>,
}

// SAFETY: the mapping belongs to this value and stays valid wherever the value goes.
unsafe impl<T: Plain> Send for Mapped<T> {}
// SAFETY: shared access only reads, through volatile loads.
unsafe impl<T: Plain> Sync for Mapped<T> {}

impl<T: Plain> Mapped<T> {
    /// Maps an array map of `len` elements of type `T`.
    pub fn new(fd: impl AsFd, len: usize) -> io::Result<Self> {
        // The kernel keeps array elements at multiples of eight bytes.
        const { assert!(size_of::<T>().is_multiple_of(8)) };
        let fd = fd.as_fd().as_raw_fd();
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len * size_of::<T>(),
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
        Ok(Self { start, len, _owns: PhantomData })
    }

    /// Reads one element; the kernel may be writing it, field by field.
    pub fn get(&self, index: usize) -> T {
        assert!(index < self.len);
        // SAFETY: within the mapping; any bytes are a `T`.
        unsafe { self.start.as_ptr().add(index).read_volatile() }
    }

    /// Writes one element.
    pub fn set(&mut self, index: usize, value: T) {
        assert!(index < self.len);
        // SAFETY: within the mapping.
        unsafe { self.start.as_ptr().add(index).write_volatile(value) }
    }

    /// A word of the first element, `offset` bytes from its beginning, that the kernel may write, too.
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(self.len > 0 && offset + size_of::<u32>() <= size_of::<T>());
        assert!(offset.is_multiple_of(align_of::<u32>()));
        // SAFETY: within the mapping, which is writable, and aligned.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().byte_add(offset).cast()) }
    }

    /// The first `n` elements; only while no program writes them.
    pub fn read(&self, n: usize) -> Vec<T> {
        assert!(n <= self.len);
        // SAFETY: within the mapping and initialised; the callers have stopped the writers.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), n) }.to_vec()
    }

    /// Writes elements from the first on, and zeros after them up to `n`.
    pub fn fill(&mut self, values: impl IntoIterator<Item = T>, n: usize) {
        let mut at = 0;
        for value in values {
            self.set(at, value);
            at += 1;
        }
        for index in at..n {
            self.set(index, T::default());
        }
    }

    /// Number of elements.
    pub const fn len(&self) -> usize {
        self.len
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; nothing borrowed outlives this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len * size_of::<T>()) };
    }
}
