//! An `AF_XDP` socket with its memory: frames to and from one queue of an interface, past the system's protocols.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::rings::{Mapping, Ring};
use crate::packet::socket;
use crate::thread::check;

/// Room for a frame.
pub const FRAME_BYTES: usize = 2048;
/// Frames that may wait to be received, and as many that may be on their way out.
const FRAMES: u32 = 2048;
/// Longest that the kernel would poll on behalf of the socket, in µs. It is asked not to block, and then polls
/// once; anything above zero switches polling on.
const BUSY_POLL_US: i32 = 20;
const BUSY_POLL_BUDGET: i32 = 64;
/// Bytes of frames on their way, as the kernel counts them.
const SEND_BUFFER_BYTES: i32 = 16 << 20;
/// Attempts in a row to make the kernel take what is to be sent, [`BATCH`](super::port::BATCH) frames each.
const TRIES: u32 = 256;
/// How long a closed socket may hold a queue, and the time between attempts to get it.
const LET_GO: Duration = Duration::from_secs(5);
const ASK_AGAIN: Duration = Duration::from_millis(5);

// linux/include/uapi/asm-generic/socket.h, Linux 5.11.
const SO_PREFER_BUSY_POLL: i32 = 69;
const SO_BUSY_POLL_BUDGET: i32 = 70;

/// The socket.
pub struct Xsk {
    fd: OwnedFd,
    memory: Mapping,
    fill: Ring<u64>,
    completion: Ring<u64>,
    rx: Ring<libc::xdp_desc>,
    tx: Ring<libc::xdp_desc>,
    /// Frames to be used for sending.
    free: Vec<u64>,
}

// SAFETY: its memory belongs to the socket, which is used by one thread at a time.
unsafe impl Send for Xsk {}

impl Xsk {
    /// Opens a socket on a queue of an interface of the calling thread's namespace. Frames come once it is in
    /// the map of an XDP program there.
    ///
    /// # Minimum kernel version
    /// 5.4; 5.11 for preferred busy polling.
    pub fn open(ifindex: u32, queue: u32) -> io::Result<Self> {
        // SAFETY: plain system call; the descriptor is owned by nobody else yet.
        let fd = unsafe {
            let fd = libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            check(fd)?;
            OwnedFd::from_raw_fd(fd)
        };
        let memory = Mapping::anonymous(2 * FRAMES as usize * FRAME_BYTES)?;
        // SAFETY: all zeros is a valid registration; what matters follows.
        let mut registration: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
        registration.addr = memory.address();
        registration.len = memory.len() as u64;
        registration.chunk_size = FRAME_BYTES as u32;
        socket::set_structure(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)?;
        for ring in
            [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING]
        {
            socket::set(&fd, libc::SOL_XDP, ring, FRAMES as i32)?;
        }
        // SAFETY: the kernel writes these structures, for which all zeros is valid.
        let at: libc::xdp_mmap_offsets = unsafe { ask(&fd, libc::XDP_MMAP_OFFSETS) }?;
        let mut fill = Ring::map(fd.as_fd(), libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, &at.fr, FRAMES)?;
        let completion =
            Ring::map(fd.as_fd(), libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t, &at.cr, FRAMES)?;
        let rx = Ring::map(fd.as_fd(), libc::XDP_PGOFF_RX_RING, &at.rx, FRAMES)?;
        let tx = Ring::map(fd.as_fd(), libc::XDP_PGOFF_TX_RING, &at.tx, FRAMES)?;
        let frame = |number: u32| u64::from(number) * FRAME_BYTES as u64;
        (0..FRAMES).for_each(|number| fill.push(frame(number)));
        fill.publish();
        // If the kernel lacks one of these, interrupts serve the queue: slower, and reported (`polls`).
        let _ = socket::set(&fd, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, 1);
        let _ = socket::set(&fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, BUSY_POLL_US);
        let _ = socket::set(&fd, libc::SOL_SOCKET, SO_BUSY_POLL_BUDGET, BUSY_POLL_BUDGET);
        let _ = socket::set(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER_BYTES);
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            // Neither copy nor zero-copy mode is required: the kernel takes the better one that the driver has.
            sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
            sxdp_ifindex: ifindex,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        bind(&fd, &address)?;
        let free = (FRAMES..2 * FRAMES).map(frame).collect();
        Ok(Self { fd, memory, fill, completion, rx, tx, free })
    }

    /// Whether the driver uses the socket's memory itself; otherwise the kernel copies every frame.
    pub fn is_zero_copy(&self) -> io::Result<bool> {
        // SAFETY: the kernel writes this structure, for which all zeros is valid.
        let options: libc::xdp_options = unsafe { ask(&self.fd, libc::XDP_OPTIONS) }?;
        Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// Whether the socket's owner serves the queue by polling. The kernel knows which queue that is from the
    /// first frame on.
    pub fn polls(&self) -> bool {
        let (mut napi, mut len) = (0_u32, size_of::<u32>() as libc::socklen_t);
        // SAFETY: `napi` is an integer of that length that lives through the call.
        let status = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_INCOMING_NAPI_ID,
                (&raw mut napi).cast(),
                &raw mut len,
            )
        };
        status == 0
            && napi != 0
            && socket::get(&self.fd, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL).is_ok_and(|on| on != 0)
    }

    /// Hands received frames to `take`, at most `most`; returns how many there were.
    pub fn receive(&mut self, most: usize, take: &mut dyn FnMut(&mut [u8])) -> usize {
        let mut taken = 0;
        while taken < most
            && let Some(described) = self.rx.take()
        {
            let frame = self.memory.part(described.addr as usize, described.len as usize);
            // SAFETY: a part of the memory that the kernel has given to us, until it is put into the fill ring.
            take(unsafe { std::slice::from_raw_parts_mut(frame.as_ptr(), described.len as usize) });
            // There are as many places in this ring as there are frames.
            self.fill.push(described.addr - described.addr % FRAME_BYTES as u64);
            taken += 1;
        }
        if taken > 0 {
            self.rx.release();
            self.fill.publish();
        }
        taken
    }

    /// Has `write` fill a frame, whose length it returns and which leaves with the next [`Xsk::flush`]; false
    /// if no frame is free.
    pub fn send(&mut self, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        if self.free.is_empty() {
            self.reclaim();
        }
        if self.tx.room() == 0 {
            return false;
        }
        let Some(address) = self.free.pop() else { return false };
        let frame = self.memory.part(address as usize, FRAME_BYTES);
        // SAFETY: a frame of ours until it is put into the ring.
        let len = write(unsafe { std::slice::from_raw_parts_mut(frame.as_ptr(), FRAME_BYTES) });
        debug_assert!(len <= FRAME_BYTES);
        self.tx.push(libc::xdp_desc { addr: address, len: len as u32, options: 0 });
        true
    }

    /// Has the kernel send what is in the ring, and looks for received frames on the way; returns how many
    /// frames it has not taken yet. They stay in the ring, in order, for the next call.
    pub fn flush(&mut self) -> io::Result<usize> {
        self.tx.publish();
        for _ in 0..TRIES {
            // SAFETY: sends no bytes of ours: what is to be sent is in the ring.
            let status = unsafe {
                libc::sendto(
                    self.fd.as_raw_fd(),
                    std::ptr::null(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null(),
                    0,
                )
            };
            tolerated(status)?;
            self.reclaim();
            if self.tx.waiting() == 0 {
                break;
            }
        }
        Ok(self.tx.waiting() as usize)
    }

    /// Has the kernel check once for received frames, on this CPU.
    pub fn poll(&self) -> io::Result<()> {
        // SAFETY: receives no bytes: what has come is in the ring.
        let status = unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        match tolerated(status) {
            // Kernels before 5.11 do not check; interrupts serve the queue.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
            looked => looked,
        }
    }

    fn reclaim(&mut self) {
        let before = self.free.len();
        while let Some(address) = self.completion.take() {
            self.free.push(address);
        }
        if self.free.len() > before {
            self.completion.release();
        }
    }
}

/// Binds the socket. An earlier socket of the same queue may be closed and still hold it: the kernel lets go of the
/// queue later (`xp_release_deferred`).
fn bind(fd: &OwnedFd, address: &libc::sockaddr_xdp) -> io::Result<()> {
    let until = Instant::now() + LET_GO;
    loop {
        // SAFETY: `address` is a sockaddr_xdp of the size given.
        let bound = check(unsafe {
            libc::bind(
                fd.as_raw_fd(),
                (&raw const *address).cast(),
                size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
            )
        });
        match bound {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => {
                std::thread::sleep(ASK_AGAIN);
            }
            bound => return bound.map(drop),
        }
    }
}

impl AsFd for Xsk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// There is nothing to receive, or no room to send: both pass.
fn tolerated(status: isize) -> io::Result<()> {
    if status >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => Ok(()),
        _ => Err(error),
    }
}

/// An option of the socket.
///
/// # Safety
/// `T` is the structure of that option, and all zeros is a valid one.
unsafe fn ask<T>(fd: &OwnedFd, option: i32) -> io::Result<T> {
    // SAFETY: by the caller; the length says the structure's size.
    unsafe {
        let mut value: T = std::mem::zeroed();
        let mut len = size_of::<T>() as libc::socklen_t;
        check(libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            option,
            (&raw mut value).cast(),
            &raw mut len,
        ))?;
        Ok(value)
    }
}
