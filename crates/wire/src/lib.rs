//! Packet formats of Weir's test traffic: the probe that every packet carries, the headers
//! in front of it, and how to find the probe in a received frame. No I/O, no clock.
//!
//! Lengths here are without the frame check sequence, as software sees a frame.

mod checksum;
mod frame;
mod header;
mod media;
mod probe;

pub use checksum::{fold, ones_complement_sum};
pub use frame::{build, find_probe};
pub use header::{Addresses, Header, HeaderError, L4, MacAddr};
pub use media::{APP_HEADER_MAX, Kind, Media, build_media, find_last_probe};
pub use probe::{PROBE_LEN, Probe};

/// Length of an Ethernet header.
pub const ETHERNET_LEN: usize = 14;
/// Length of an IPv4 header without options.
pub const IPV4_LEN: usize = 20;
/// Length of an IPv6 header without extensions.
pub const IPV6_LEN: usize = 40;
/// Length of a UDP header.
pub const UDP_LEN: usize = 8;
/// Length of a TCP header without options.
pub const TCP_LEN: usize = 20;
