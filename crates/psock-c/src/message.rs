//! `struct msghdr`.

use std::{ptr, slice};

use libc::{iovec, msghdr};

use crate::failure::{Failure, Outcome};

/// Most bytes that one call with a message receives; a stream gives the rest to the next.
pub const MOST_MESSAGE_BYTES: usize = 1 << 20;
/// `IOV_MAX` of Linux (limits.h).
const MOST_BUFFERS: usize = 1024;

fn failed<T>(errno: libc::c_int) -> Outcome<T> {
    Err(Failure::new(errno))
}

/// A copy of the header, and its buffers.
///
/// # Errors
/// `EFAULT`, `EMSGSIZE`, `EINVAL` as sendmsg(2).
///
/// # Safety
/// `message` is null or a header whose buffers are `msg_iovlen` many.
pub unsafe fn read<'a>(message: *const msghdr) -> Outcome<(msghdr, &'a [iovec])> {
    if message.is_null() {
        return failed(libc::EFAULT);
    }
    // SAFETY: the caller's promise.
    let header = unsafe { message.read_unaligned() };
    let count = header.msg_iovlen;
    if count > MOST_BUFFERS {
        return failed(libc::EMSGSIZE);
    }
    if count == 0 {
        return Ok((header, &[]));
    }
    if header.msg_iov.is_null() {
        return failed(libc::EFAULT);
    }
    // SAFETY: the caller's promise.
    let buffers = unsafe { slice::from_raw_parts(header.msg_iov.cast_const(), count) };
    let sum = buffers.iter().try_fold(0_usize, |sum, buffer| sum.checked_add(buffer.iov_len));
    if sum.is_none_or(|sum| sum > isize::MAX.unsigned_abs()) {
        return failed(libc::EINVAL);
    }
    // Before anything has been sent or received.
    if buffers.iter().any(|buffer| buffer.iov_len > 0 && buffer.iov_base.is_null()) {
        return failed(libc::EFAULT);
    }
    Ok((header, buffers))
}

/// Puts bytes into the buffers of a message, which has neither an address nor control messages.
///
/// # Errors
/// As for [`read`].
///
/// # Safety
/// As for [`read`], which has accepted `message`; each buffer has its length, and all together have room.
pub unsafe fn write(message: *mut msghdr, mut bytes: &[u8]) -> Outcome<()> {
    // SAFETY: the caller's promise.
    let (mut header, buffers) = unsafe { read(message) }?;
    for buffer in buffers {
        let (now, later) = bytes.split_at(buffer.iov_len.min(bytes.len()));
        if !now.is_empty() {
            // SAFETY: the caller's promise.
            unsafe { ptr::copy_nonoverlapping(now.as_ptr(), buffer.iov_base.cast(), now.len()) };
        }
        bytes = later;
    }
    (header.msg_namelen, header.msg_controllen, header.msg_flags) = (0, 0, 0);
    // SAFETY: the caller's promise.
    unsafe { message.write_unaligned(header) };
    Ok(())
}
