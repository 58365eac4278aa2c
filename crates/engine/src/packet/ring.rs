//! TPACKET_V2: frames that the kernel puts into shared memory one by one, each visible at once
//! (Documentation/networking/packet_mmap.rst). Version 3, which the recorder uses, hands over whole blocks,
//! up to milliseconds later.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::socket::{self, set_value};

const BLOCK_BYTES: usize = 1 << 20;
/// What lies in front of a frame: its header, a sockaddr_ll, and what the kernel leaves for alignment.
const HEAD_BYTES: usize = 128;
const SMALLEST_SLOT: usize = 2048;
const VLAN: u16 = 0x8100;
/// Where the sockaddr_ll begins: TPACKET_ALIGN(sizeof(struct tpacket2_hdr)).
const ADDRESS_AT: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);

/// A frame in the ring.
pub struct Packet<'a> {
    /// CLOCK_REALTIME.
    pub time_ns: u64,
    /// Length of the whole frame, without a tag that was taken out of it.
    pub len: usize,
    /// As much of it as there is room for.
    pub data: &'a [u8],
    /// The VLAN tag, which the kernel took out of the frame behind the addresses.
    pub tag: Option<[u8; 4]>,
    /// Whether this host sent it.
    pub is_outgoing: bool,
    /// Whether the sender left its checksum to hardware that is not there.
    pub is_unfinished: bool,
}

/// The slots, shared with the kernel.
pub struct Ring {
    start: NonNull<u8>,
    bytes: usize,
    slots: usize,
    slot_bytes: usize,
    next: usize,
}

impl Ring {
    /// A ring of `blocks` times [`BLOCK_BYTES`], with room for frames of `frame_bytes`; longer ones are cut.
    pub fn new(socket: &OwnedFd, frame_bytes: usize, blocks: usize) -> io::Result<Self> {
        let bytes = blocks * BLOCK_BYTES;
        let slot_bytes = (frame_bytes + HEAD_BYTES).next_power_of_two().clamp(SMALLEST_SLOT, BLOCK_BYTES);
        let slots = bytes / slot_bytes;
        socket::set(
            socket,
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            libc::tpacket_versions::TPACKET_V2 as i32,
        )?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: slot_bytes as u32,
            tp_frame_nr: slots as u32,
        };
        set_value(socket, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping at an address of the kernel's choice, of the size just set.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { start, bytes, slots, slot_bytes, next: 0 })
    }

    /// Hands the next frame to `take`, if there is one; returns whether there was.
    pub fn take<R>(&mut self, take: impl FnOnce(Packet<'_>) -> R) -> Option<R> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let result = take(self.packet());
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.slots;
        Some(result)
    }

    fn packet(&self) -> Packet<'_> {
        let slot = self.slot();
        // SAFETY: the slot is ours until its status says otherwise, and longer than both structures.
        let (head, address) = unsafe {
            let address = slot.add(ADDRESS_AT).cast::<libc::sockaddr_ll>().read_unaligned();
            (slot.cast::<libc::tpacket2_hdr>().read_unaligned(), address)
        };
        let begin = usize::from(head.tp_mac).min(self.slot_bytes);
        let captured = (head.tp_snaplen as usize).min(self.slot_bytes - begin);
        // SAFETY: within the slot, which nobody writes while it is ours.
        let data = unsafe { std::slice::from_raw_parts(slot.add(begin).as_ptr(), captured) };
        let has = |flag| head.tp_status & flag != 0;
        let tag = has(libc::TP_STATUS_VLAN_VALID).then(|| {
            let kind = if has(libc::TP_STATUS_VLAN_TPID_VALID) { head.tp_vlan_tpid } else { VLAN };
            let ([a, b], [c, d]) = (kind.to_be_bytes(), head.tp_vlan_tci.to_be_bytes());
            [a, b, c, d]
        });
        Packet {
            time_ns: u64::from(head.tp_sec) * 1_000_000_000 + u64::from(head.tp_nsec),
            len: head.tp_len as usize,
            data,
            tag,
            is_outgoing: address.sll_pkttype == libc::PACKET_OUTGOING,
            is_unfinished: has(libc::TP_STATUS_CSUMNOTREADY),
        }
    }

    fn slot(&self) -> NonNull<u8> {
        // SAFETY: `next` is below `slots`, and slots fill their blocks without a rest.
        unsafe { self.start.add(self.next * self.slot_bytes) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the word lies in the mapping, aligned; kernel and user space pass the slot by it.
        unsafe {
            let status = self.slot().add(offset_of!(libc::tpacket2_hdr, tp_status));
            AtomicU32::from_ptr(status.cast().as_ptr())
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; nothing borrowed outlives this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
