//! The programs: loaded, attached to the tracepoints, read.

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;

use aya::maps::{Array, MapData, RingBuf};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader, include_bytes_aligned};
use weir_tcp::watch::End;

use crate::error::{EventsError, missing};
use crate::event::Event;

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/events.o"));

/// Tracepoints, and the programs for each: the first one that the kernel accepts is used.
const PROGRAMS: [(&str, &[&str]); 3] = [
    ("inet_sock_set_state", &["weir_state"]),
    ("tcp_probe", &["weir_received"]),
    ("tcp_retransmit_skb", &["weir_again", "weir_again_old"]),
];

/// More events than the ring has room for: a reader is not kept busy by those that come meanwhile.
const MOST_AT_ONCE: usize = 1 << 17;

/// The running programs; gone when this is dropped.
pub struct Programs {
    _bpf: Ebpf,
    ring: RingBuf<MapData>,
    lost: Array<MapData, u64>,
}

impl Programs {
    /// Attaches the programs. From now on they report on the connections in the calling thread's network namespace
    /// that have these two ends, in either order.
    ///
    /// # Minimum kernel version
    /// 5.12: `bpf_get_socket_cookie` in tracing programs. With BTF and CONFIG_BPF_EVENTS.
    pub fn attach(ends: (End, End)) -> Result<Self, EventsError> {
        let ends = [ends.0, ends.1];
        let port = ends.map(|end| u32::from(end.port));
        let has_address = ends.map(|end| u32::from(end.address.is_some()));
        let words: Vec<u32> = ends.iter().flat_map(|end| words(end.address)).collect();
        let mut bpf = EbpfLoader::new()
            .override_global("events_netns", &netns()?, true)
            .override_global("events_port", &port[..], true)
            .override_global("events_has_address", &has_address[..], true)
            .override_global("events_address", &words[..], true)
            .load(OBJECT)
            .map_err(|e| EventsError::refused("load BPF maps")(e.into()))?;
        let btf = Btf::from_sys_fs().map_err(|e| EventsError::NoBtf(e.into()))?;
        for (tracepoint, names) in PROGRAMS {
            attach(&mut bpf, tracepoint, names, &btf)?;
        }
        let mut take = |name: &'static str| bpf.take_map(name).ok_or_else(|| missing(name));
        let (ring, lost) = (take("events_ring")?, take("events_lost")?);
        let open = |e: aya::maps::MapError| EventsError::refused("open a BPF map")(e.into());
        Ok(Self {
            ring: RingBuf::try_from(ring).map_err(open)?,
            lost: Array::try_from(lost).map_err(open)?,
            _bpf: bpf,
        })
    }

    /// Takes what has happened since the last call, at most [`MOST_AT_ONCE`].
    pub fn read(&mut self, mut take: impl FnMut(Event)) {
        for _ in 0..MOST_AT_ONCE {
            let Some(item) = self.ring.next() else { break };
            if let Some(event) = Event::parse(&item) {
                take(event);
            }
        }
    }

    /// Events that found no room so far.
    pub fn lost(&self) -> Result<u64, EventsError> {
        self.lost.get(&0, 0).map_err(|e| EventsError::refused("read a BPF map")(e.into()))
    }
}

/// The inode of the calling thread's network namespace.
pub fn netns() -> Result<u32, EventsError> {
    let netns = std::fs::metadata("/proc/thread-self/ns/net")
        .map_err(|source| EventsError::System { action: "read the network namespace", source })?;
    Ok(netns.ino() as u32)
}

/// An address as four words in network byte order, IPv4 as IPv6 maps it.
fn words(address: Option<IpAddr>) -> [u32; 4] {
    let octets = match address {
        None => [0; 16],
        Some(IpAddr::V4(v4)) => v4.to_ipv6_mapped().octets(),
        Some(IpAddr::V6(v6)) => v6.octets(),
    };
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(octets.chunks_exact(4)) {
        *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    words
}

/// Attaches the first of these programs that the kernel accepts.
pub fn attach(
    bpf: &mut Ebpf,
    tracepoint: &'static str,
    names: &[&'static str],
    btf: &Btf,
) -> Result<(), EventsError> {
    let mut refused = None;
    for name in names {
        let program = bpf.program_mut(name).map(<&mut BtfTracePoint>::try_from);
        let Some(Ok(program)) = program else { return Err(missing(name)) };
        match program.load(tracepoint, btf) {
            Ok(()) => {
                let attached = program.attach().map(drop);
                return attached
                    .map_err(|e| EventsError::refused(format!("attach to {tracepoint}"))(e.into()));
            }
            Err(e) => {
                let action = format!("run a program at its tracepoint {tracepoint}");
                refused.get_or_insert_with(|| EventsError::refused(action)(e.into()));
            }
        }
    }
    Err(refused.unwrap_or_else(|| missing(tracepoint)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_compared_as_they_are_on_the_wire() {
        let found = words("192.0.2.1".parse().ok()).map(u32::to_le_bytes).concat();
        assert_eq!(found, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1]);
        assert_eq!(words("2001:db8::1".parse().ok()), [0xb80d_0120, 0, 0, 0x0100_0000]);
        assert_eq!(words(None), [0; 4]);
    }
}
