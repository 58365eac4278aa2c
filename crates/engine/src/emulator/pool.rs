//! Memory for frames, used again and again.

use std::cell::RefCell;
use std::rc::Rc;

/// Sizes of buffers: powers of two from 64 to 64 Ki.
const CLASSES: usize = 11;
const SMALLEST_BITS: u32 = 6;

/// Where frames get their memory, and where it goes when they are dropped.
#[derive(Clone)]
pub struct Pool(Rc<RefCell<Shelves>>);

struct Shelves {
    free: [Vec<Box<[u8]>>; CLASSES],
    /// Bytes in buffers that frames hold.
    used_bytes: u64,
    most_bytes: u64,
}

/// A frame in a buffer of a [`Pool`].
pub struct Frame {
    buffer: Box<[u8]>,
    len: usize,
    /// Whether it was read before it had to leave.
    pub is_early: bool,
    pool: Pool,
}

impl Pool {
    /// Frames may take up to `most_bytes` together.
    pub fn new(most_bytes: u64) -> Self {
        Self(Rc::new(RefCell::new(Shelves { free: Default::default(), used_bytes: 0, most_bytes })))
    }

    /// A frame of `len` unspecified bytes; `None` if that is more than is left, or than a frame can have.
    pub fn take(&self, len: usize) -> Option<Frame> {
        let class = class(len)?;
        let mut shelves = self.0.borrow_mut();
        let bytes = 1 << (class as u32 + SMALLEST_BITS);
        if shelves.used_bytes + bytes > shelves.most_bytes {
            return None;
        }
        shelves.used_bytes += bytes;
        let buffer = shelves.free[class].pop().unwrap_or_else(|| vec![0; bytes as usize].into_boxed_slice());
        Some(Frame { buffer, len, is_early: false, pool: self.clone() })
    }
}

fn class(len: usize) -> Option<usize> {
    let class = len.max(1).next_power_of_two().trailing_zeros().saturating_sub(SMALLEST_BITS) as usize;
    (class < CLASSES).then_some(class)
}

impl Frame {
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.len]
    }
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Clone for Frame {
    /// For a duplicate, which is made even if the memory is used up.
    fn clone(&self) -> Self {
        let mut shelves = self.pool.0.borrow_mut();
        shelves.used_bytes += self.buffer.len() as u64;
        drop(shelves);
        Self { buffer: self.buffer.clone(), len: self.len, is_early: self.is_early, pool: self.pool.clone() }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut shelves = self.pool.0.borrow_mut();
        shelves.used_bytes -= buffer.len() as u64;
        if let Some(class) = class(buffer.len()) {
            shelves.free[class].push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_fit_their_frames_and_are_used_again() {
        let pool = Pool::new(1 << 20);
        for len in [0, 1, 64, 65, 1514, 65_536] {
            let mut frame = pool.take(len).expect("there is room");
            assert_eq!(frame.bytes_mut().len(), len);
            let place = frame.buffer.as_ptr();
            drop(frame);
            assert_eq!(pool.take(len).expect("there is room").buffer.as_ptr(), place);
        }
        assert!(pool.take(65_537).is_none());
        assert_eq!(pool.0.borrow().used_bytes, 0);
    }

    #[test]
    fn no_more_is_given_than_there_may_be_and_duplicates_count() {
        let pool = Pool::new(4096);
        let one = pool.take(2000).expect("there is room");
        let two = pool.take(2000).expect("there is room");
        assert!(pool.take(1).is_none());
        let copy = two.clone();
        drop(one);
        assert!(pool.take(1).is_none());
        drop((two, copy));
        assert_eq!(pool.0.borrow().used_bytes, 0);
    }

    #[test]
    fn a_duplicate_has_the_same_bytes_in_a_place_of_its_own() {
        let pool = Pool::new(4096);
        let mut frame = pool.take(3).expect("there is room");
        frame.bytes_mut().copy_from_slice(b"abc");
        let copy = frame.clone();
        frame.bytes_mut()[0] = b'x';
        assert_eq!(copy.bytes(), b"abc");
    }
}
