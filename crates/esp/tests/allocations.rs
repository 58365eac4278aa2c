//! Packets are handled without allocating.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use weir_esp::{Association, Inbound, Mode, Outbound, Slot, Suite};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts.
struct Counting;

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises; it came from the system's allocator.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// An IPv4 packet without anything in it but its length.
fn write_packet(packet: &mut [u8]) {
    packet.fill(0);
    packet[0] = 0x45;
    let len = u16::try_from(packet.len()).unwrap().to_be_bytes();
    packet[2..4].copy_from_slice(&len);
    packet[9] = 17;
}

#[test]
fn no_packet_allocates() {
    const START: usize = 100;
    const LEN: usize = 200;
    for suite in Suite::ALL {
        for mode in [
            Mode::Transport,
            Mode::Tunnel { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into() },
        ] {
            let association = Association {
                spi: 0x1000,
                suite,
                encryption_key: &[1; 36][..suite.encryption_key_lens()[0]],
                authentication_key: &[2; 36][..suite.authentication_key_len()],
                mode,
                udp: None,
                esn: suite.is_authenticated(),
            };
            let mut sender = Outbound::new(&association, &[3; 16]).unwrap();
            let mut receiver = Inbound::new(&association, 64).unwrap();
            let mut buffers = [[0; 512]; 20];
            buffers.iter_mut().for_each(|buffer| write_packet(&mut buffer[START..START + LEN]));
            let before = allocations();

            let [first, others @ ..] = &mut buffers;
            let sent = sender.encapsulate(first, START..START + LEN).unwrap();
            let mut slots =
                others.each_mut().map(|buffer| Slot { buffer, range: START..START + LEN, error: None });
            sender.encapsulate_each(&mut slots);
            receiver.decapsulate(&mut first[sent]).unwrap();
            for slot in &mut slots {
                receiver.decapsulate(&mut slot.buffer[slot.range.clone()]).unwrap();
            }

            assert_eq!(allocations() - before, 0, "{} {mode:?}", suite.name());
            assert_eq!(receiver.counts().accepted, 20);
        }
    }
}
