//! TPACKET_V3: blocks of packets that the kernel fills in shared memory (Linux 3.2,
//! Documentation/networking/packet_mmap.rst).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::packet::socket::{self, set_value};

const BLOCK_BYTES: usize = 1 << 20;
/// 4 GiB.
const MAX_BLOCKS: usize = 4_096;
/// A block that is not full is handed over after this.
pub const RETIRE_AFTER: Duration = Duration::from_millis(10);
/// Only has to divide a block in version 3.
const FRAME_BYTES: usize = 2048;
/// The kernel takes a VLAN tag out of the frame; this much room in front of it lets it come back.
const TAG_BYTES: usize = 4;
const ADDRESSES_BYTES: usize = 12;
const VLAN: u16 = 0x8100;
/// Where the sockaddr_ll of a packet begins, behind its header: TPACKET_ALIGN(sizeof(struct tpacket3_hdr)).
const ADDRESS_AT: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);

/// A frame in the ring.
pub struct Packet<'a> {
    pub time_ns: i64,
    pub original_len: u32,
    pub is_outgoing: bool,
    pub data: &'a [u8],
}

/// The blocks, shared with the kernel.
pub struct Ring {
    start: NonNull<u8>,
    blocks: usize,
    next: usize,
}

// SAFETY: the mapping belongs to this value and stays valid wherever the value goes.
unsafe impl Send for Ring {}

impl Ring {
    pub fn new(socket: &OwnedFd, bytes: usize) -> io::Result<Self> {
        let blocks = (bytes / BLOCK_BYTES).clamp(2, MAX_BLOCKS);
        socket::set(
            socket,
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            libc::tpacket_versions::TPACKET_V3 as i32,
        )?;
        socket::set(socket, libc::SOL_PACKET, libc::PACKET_RESERVE, TAG_BYTES as i32)?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME_BYTES as u32,
            tp_frame_nr: frames(blocks),
            tp_retire_blk_tov: RETIRE_AFTER.as_millis() as u32,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set_value(socket, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping at an address of the kernel's choice, of the size just set.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                blocks * BLOCK_BYTES,
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
        Ok(Self { start, blocks, next: 0 })
    }

    /// Whether the kernel has handed over a block.
    pub fn has_block(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Whether packets were lost before those of the block, since the count was last read.
    pub fn is_losing(&self) -> bool {
        self.status().load(Ordering::Relaxed) & libc::TP_STATUS_LOSING != 0
    }

    /// Takes the packets of the front block, and gives it back.
    pub fn take_block(&mut self, take: &mut dyn FnMut(Packet<'_>)) -> io::Result<()> {
        debug_assert!(self.has_block());
        // SAFETY: the block is ours until its status says otherwise, and the union has one member.
        let head = unsafe { (*self.block().cast::<libc::tpacket_block_desc>().as_ptr()).hdr.bh1 };
        let mut at = head.offset_to_first_pkt as usize;
        for _ in 0..head.num_pkts {
            let Some(next) = self.take_packet(at, take) else {
                return Err(io::Error::other("the kernel's ring of packets makes no sense"));
            };
            at += next;
        }
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        Ok(())
    }

    /// The packet at `at` of the front block, and the distance to the next one; `None` beyond the block.
    fn take_packet(&self, at: usize, take: &mut dyn FnMut(Packet<'_>)) -> Option<usize> {
        let fits = |end: usize| end <= BLOCK_BYTES;
        if !fits(at + ADDRESS_AT + size_of::<libc::sockaddr_ll>()) {
            return None;
        }
        // SAFETY: inside the block, as just checked.
        let (head, address) = unsafe {
            let packet = self.block().add(at);
            let address = packet.add(ADDRESS_AT).cast::<libc::sockaddr_ll>();
            (packet.cast::<libc::tpacket3_hdr>().read_unaligned(), address.read_unaligned())
        };
        let (mut begin, mut len) = (at + usize::from(head.tp_mac), head.tp_snaplen as usize);
        if !fits(begin + len) || begin < at + TAG_BYTES {
            return None;
        }
        let has_tag = head.tp_status & libc::TP_STATUS_VLAN_VALID != 0 && len >= ADDRESSES_BYTES;
        if has_tag {
            begin -= TAG_BYTES;
            len += TAG_BYTES;
        }
        // SAFETY: inside the block, which nobody else writes while it is ours; the tag goes into the room
        // reserved in front of the frame.
        let data = unsafe { std::slice::from_raw_parts_mut(self.block().add(begin).as_ptr(), len) };
        if has_tag {
            let knows_kind = head.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let kind = if knows_kind { head.hv1.tp_vlan_tpid } else { VLAN };
            data.copy_within(TAG_BYTES..TAG_BYTES + ADDRESSES_BYTES, 0);
            data[12..14].copy_from_slice(&kind.to_be_bytes());
            data[14..16].copy_from_slice(&(head.hv1.tp_vlan_tci as u16).to_be_bytes());
        }
        take(Packet {
            time_ns: i64::from(head.tp_sec) * 1_000_000_000 + i64::from(head.tp_nsec),
            original_len: head.tp_len + if has_tag { TAG_BYTES as u32 } else { 0 },
            is_outgoing: address.sll_pkttype == libc::PACKET_OUTGOING,
            data,
        });
        Some(head.tp_next_offset as usize)
    }

    fn block(&self) -> NonNull<u8> {
        // SAFETY: `next` is below `blocks`.
        unsafe { self.start.add(self.next * BLOCK_BYTES) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the word lies in the mapping, aligned; kernel and user space pass the block by it.
        unsafe {
            let descriptor = self.block().cast::<libc::tpacket_block_desc>().as_ptr();
            AtomicU32::from_ptr(&raw mut (*descriptor).hdr.bh1.block_status)
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; nothing borrowed outlives this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.blocks * BLOCK_BYTES) };
    }
}

/// What the kernel needs besides the number of blocks.
const fn frames(blocks: usize) -> u32 {
    (blocks * (BLOCK_BYTES / FRAME_BYTES)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_ring_has_frames_in_all_of_its_blocks() {
        assert_eq!(frames(MAX_BLOCKS), 2_097_152);
        assert_eq!(frames(2), 1_024);
    }
}
