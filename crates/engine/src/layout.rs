//! The structs of `bpf/weir.h`, field for field.

use std::mem::size_of;

pub const HEADER_MAX: usize = 80;
pub const MAX_PHASES: usize = 256;
/// Most tasks of the device that are watched.
pub const WATCHED: usize = 4;
pub const HIST_SUB: usize = 128;
pub const HIST_BUCKETS: usize = HIST_SUB * 28;
pub const SLOT_LEN: usize = 256;
/// Value of `impair`: numbered and counted, but not sent.
pub const LOSE: u8 = 0xff;
pub const WINDOW_BITS: u32 = 256;
pub const WINDOW_WORDS: usize = WINDOW_BITS as usize / 64;

/// Plain data: any bytes are a valid value, and no field is private to Rust.
///
/// # Safety
/// Implementors are `repr(C)`, made of integers and arrays of them, without padding.
pub unsafe trait Plain: Copy + Default {}

macro_rules! plain {
    ($($type:ty: $size:literal),+ $(,)?) => {$(
        // SAFETY: repr(C), integers only; explicit pad fields fill every gap (the size is
        // asserted in C as well).
        unsafe impl Plain for $type {}
        const _: () = assert!(size_of::<$type>() == $size);
    )+};
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct GenConfig {
    pub start_ns: u64,
    pub record_start_ns: u64,
    pub record_end_ns: u64,
    pub catch_up_ns: u64,
    pub n_phases: u32,
    pub n_flows: u32,
    pub tx_ifindex: u32,
    pub header_len: u32,
    pub input_len: u32,
    pub bin_ns: u32,
    pub n_bins: u32,
    pub magic: u16,
    pub paced: u8,
    pub ip: u8,
    pub l4: u8,
    pub skip: u8,
    pub media: u8,
    pub watched: u8,
    pub slip_most_ns: u32,
    pub new_flow: u32,
    pub new_hosts: u32,
    pub new_host: u32,
    pub new_ports: u16,
    pub new_port: u16,
    pub answered: u8,
    pub pad: [u8; 3],
    pub first_flow: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct GenPhase {
    pub end_ns: u64,
    pub first_entry: u32,
    pub n_entries: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct GenEntry {
    pub gap_ns: u32,
    pub gap_frac: u16,
    pub length: u16,
    pub flow: u32,
    pub body: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct GenMedia {
    pub stamp: u32,
    pub kind: u8,
    pub marker: u8,
    pub impair: u8,
    pub pad: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenBody {
    pub first_slot: u32,
    pub length: u16,
    pub sum: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slot {
    pub bytes: [u8; SLOT_LEN],
}

impl Default for Slot {
    fn default() -> Self {
        Self { bytes: [0; SLOT_LEN] }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct GenFlow {
    pub header: [u8; HEADER_MAX],
    pub l4_sum: u32,
    pub ip_sum: u32,
    pub seq: u32,
    pub first_seq: u32,
    pub sent: u64,
    pub app_sum: u32,
    pub app_len: u8,
    pub port: u8,
    pub pad: [u8; 2],
}

impl Default for GenFlow {
    fn default() -> Self {
        Self {
            header: [0; HEADER_MAX],
            l4_sum: 0,
            ip_sum: 0,
            seq: 0,
            first_seq: 0,
            sent: 0,
            app_sum: 0,
            app_len: 0,
            port: 0,
            pad: [0; 2],
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct GenState {
    pub next_ns: u64,
    pub sent: u64,
    pub sent_recorded: u64,
    pub late_sum_ns: u64,
    pub late_max_ns: u64,
    pub slipped_ns: u64,
    pub first_ns: u64,
    pub last_ns: u64,
    pub next_frac: u32,
    pub phase: u32,
    pub entry: u32,
    pub flow: u32,
    pub done: u32,
    pub errors: u32,
    pub surplus: i64,
    pub next_look_ns: u64,
    pub next_glance_ns: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenBin {
    pub sent: u64,
    pub late_max_ns: u64,
    pub glances: u32,
    pub others: u32,
}

/// What one of the device's threads had had by the time of a look.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTime {
    /// On its CPU.
    pub ran_ns: u64,
    /// Ready to run, while something else had the CPU.
    pub waited_ns: u64,
}

/// What the scheduler had counted when the sender looked.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// When it looked; 0 if it did not.
    pub at_ns: u64,
    /// Time that the hypervisor took from the sender's CPU so far.
    pub sender_stolen_ns: u64,
    /// The same for the device's CPU.
    pub device_stolen_ns: u64,
    /// Time, by the scheduler's clock, up to which that is known.
    pub device_clock_ns: u64,
    /// Threads that do the device's work.
    pub tasks: [TaskTime; WATCHED],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct RxConfig {
    pub record_start_ns: u64,
    pub record_end_ns: u64,
    pub n_flows: u32,
    pub bin_ns: u32,
    pub n_bins: u32,
    pub magic: u16,
    pub skip: u8,
    pub armed: u8,
    pub tail: u8,
    pub log: u8,
    pub pad: [u8; 2],
    pub windowed: u32,
    pub answers: u32,
    pub new_flow: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    pub flow: u32,
    pub seq: u32,
    pub sent_ns: u64,
    pub arrival_ns: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxFlow {
    pub received: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub delay_sum_ns: u64,
    pub delay_min_ns: u64,
    pub delay_max_ns: u64,
    pub ipdv_sum_ns: u64,
    pub ipdv_count: u64,
    pub jitter_q4: u64,
    pub last_transit_ns: i64,
    pub last_arrival_ns: u64,
    pub longest_gap_ns: u64,
    pub window: [u64; WINDOW_WORDS],
    pub next_seq: u32,
    pub elsewhere: u16,
    pub queue: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxTotals {
    pub probes: u64,
    pub stray: u64,
    pub first_arrival_ns: u64,
    pub last_arrival_ns: u64,
    pub longest_gap_ns: u64,
    pub last_probe_ns: u64,
    pub answers: u64,
    pub answers_recorded: u64,
    pub moved: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxBin {
    pub received: u64,
    pub delay_sum_ns: u64,
    pub delay_min_ns: u64,
    pub delay_max_ns: u64,
    pub ipdv_sum_ns: u64,
    pub ipdv_count: u64,
}

plain! {
    GenConfig: 96, GenPhase: 16, GenEntry: 16, GenMedia: 8, GenBody: 8, Slot: 256, GenFlow: 112,
    GenState: 112, GenBin: 24, Look: 96, RxConfig: 48, RxFlow: 136, RxTotals: 72, RxBin: 48, Arrival: 24, u64: 8,
}
