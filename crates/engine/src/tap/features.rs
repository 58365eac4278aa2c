//! What the kernel says an interface can do with XDP frames: the generic netlink family "netdev".

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::thread::check;

const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_XDP_ACT_NDO_XMIT: u64 = 4;
const NLMSG_HEADER: usize = size_of::<libc::nlmsghdr>();
const GENL_HEADER: usize = 4;

/// Whether XDP frames can be redirected into an interface of the calling thread's namespace; `None` where
/// the kernel does not report it (before Linux 6.3).
pub fn takes_frames(ifindex: u32) -> Option<bool> {
    let features = || -> io::Result<Option<u64>> {
        let socket = open()?;
        let name = attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0");
        let answer = ask(&socket, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, &name)?;
        let Some(family) = find(&answer, CTRL_ATTR_FAMILY_ID).and_then(|value| value.first_chunk().copied())
        else {
            return Ok(None);
        };
        let index = attribute(NETDEV_A_DEV_IFINDEX, &ifindex.to_ne_bytes());
        let answer = ask(&socket, u16::from_ne_bytes(family), NETDEV_CMD_DEV_GET, &index)?;
        let features =
            find(&answer, NETDEV_A_DEV_XDP_FEATURES).and_then(|value| value.first_chunk().copied());
        Ok(features.map(u64::from_ne_bytes))
    };
    features().ok().flatten().map(|features| features & NETDEV_XDP_ACT_NDO_XMIT != 0)
}

fn open() -> io::Result<OwnedFd> {
    // SAFETY: a plain system call.
    let fd =
        unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_GENERIC) };
    check(fd)?;
    // SAFETY: a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The attributes of the answer to a request.
fn ask(socket: &OwnedFd, family: u16, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    request.extend_from_slice(&((NLMSG_HEADER + GENL_HEADER + attributes.len()) as u32).to_ne_bytes());
    request.extend_from_slice(&family.to_ne_bytes());
    request.extend_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request.extend_from_slice(&[0; 8]); // sequence number and port: there is one request at a time
    request.extend_from_slice(&[command, 1, 0, 0]);
    request.extend_from_slice(attributes);
    let mut answer = vec![0u8; 8192];
    // SAFETY: both buffers are valid for their lengths. The kernel answers within the first call.
    let received = unsafe {
        let sent = libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0);
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), libc::MSG_DONTWAIT)
    };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    answer.truncate(received);
    let kind = answer.get(4..6).and_then(|bytes| bytes.first_chunk().copied()).map(u16::from_ne_bytes);
    if kind != Some(family) || received < NLMSG_HEADER + GENL_HEADER {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    Ok(answer.split_off(NLMSG_HEADER + GENL_HEADER))
}

/// The value of an attribute.
fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    while let Some((&[l0, l1, k0, k1], _)) = attributes.split_first_chunk() {
        let (length, kind) = (u16::from_ne_bytes([l0, l1]).into(), u16::from_ne_bytes([k0, k1]));
        let value = attributes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_behind_others_and_lengths_that_lie_end_the_search() {
        let mut bytes = attribute(2, b"netdev\0");
        bytes.extend(attribute(1, &[9, 0]));
        assert_eq!(find(&bytes, 1), Some(&[9, 0][..]));
        assert_eq!(find(&bytes, 7), None);
        assert_eq!(find(&[2, 0, 1, 0, 0, 0, 0, 0], 1), None);
        assert_eq!(find(&[200, 0, 1, 0], 1), None);
    }
}
