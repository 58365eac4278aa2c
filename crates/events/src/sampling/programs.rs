//! The programs: loaded, attached to the events of connections, told which to sample, read.

use std::sync::Arc;

use aya::maps::{Array, HashMap, MapData, MapError, RingBuf};
use aya::{Btf, Ebpf, EbpfLoader, include_bytes_aligned};
use weir_tcp::watch::{Begun, MOST_CONNECTIONS};

use crate::error::{EventsError, missing};
use crate::program::{attach, netns};

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/samples.o"));

/// Tracepoints, and the program for each.
const PROGRAMS: [(&str, &str); 4] = [
    ("tcp_probe", "weir_comes"),
    ("tcp_rcv_space_adjust", "weir_reads"),
    ("tcp_retransmit_skb", "weir_repeats"),
    ("inet_sock_set_state", "weir_changes"),
];

/// More samples than the ring has room for: a reader is not kept busy by those that come meanwhile.
const MOST_AT_ONCE: usize = 1 << 15;

/// `WEIR_SAMPLED`.
const ROOM: usize = 1024;
const _: () = assert!(MOST_CONNECTIONS <= ROOM);

/// `struct weir_sampled`: when the next sample is due, how many found no room, the connection's number.
type Sampled = [u64; 3];

/// The running programs; gone when this is dropped.
pub struct Programs {
    _bpf: Ebpf,
    ring: RingBuf<MapData>,
    watched: HashMap<MapData, u64, Sampled>,
    begun: Arc<Array<MapData, u64>>,
}

impl Programs {
    /// Attaches the programs, which sample nothing yet. They count the connections that begin in the calling thread's
    /// network namespace.
    ///
    /// # Minimum kernel version
    /// 5.12, as for the programs that report events. With BTF and `CONFIG_BPF_EVENTS`.
    pub fn attach(period_ns: u64) -> Result<Self, EventsError> {
        let btf = Btf::from_sys_fs().map_err(|e| EventsError::NoBtf(e.into()))?;
        let mut bpf = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("samples_period_ns", &period_ns, true)
            .override_global("samples_netns", &netns()?, true)
            .load(OBJECT)
            .map_err(|e| EventsError::refused("load BPF maps")(e.into()))?;
        for (tracepoint, name) in PROGRAMS {
            attach(&mut bpf, tracepoint, &[name], &btf)?;
        }
        let mut take = |name: &'static str| bpf.take_map(name).ok_or_else(|| missing(name));
        let (ring, watched) = (take("samples_ring")?, take("samples_watched")?);
        let begun = take("samples_begun")?;
        let open = |e: MapError| EventsError::refused("open a BPF map")(e.into());
        Ok(Self {
            ring: RingBuf::try_from(ring).map_err(open)?,
            watched: HashMap::try_from(watched).map_err(open)?,
            begun: Arc::new(Array::try_from(begun).map_err(open)?),
            _bpf: bpf,
        })
    }

    /// Samples the connection with this cookie under this number, for the first time when something happens to it
    /// at `due_ns` or later.
    pub fn enter(&mut self, cookie: u64, number: u32, due_ns: u64) -> Result<(), EventsError> {
        let entered = self.watched.insert(cookie, [due_ns, 0, number.into()], 0);
        entered.map_err(|e| EventsError::refused("write a BPF map")(e.into()))
    }

    /// Stops sampling it.
    pub fn leave(&mut self, cookie: u64) -> Result<(), EventsError> {
        self.watched.remove(&cookie).map_err(|e| EventsError::refused("write a BPF map")(e.into()))
    }

    /// How many connections have begun so far.
    pub fn begun(&self) -> Begun {
        let begun = Arc::clone(&self.begun);
        Box::new(move || begun.get(&0, 0).ok())
    }

    /// Samples of it that found no room so far.
    pub fn missed(&self, cookie: u64) -> Result<u64, EventsError> {
        let [_, missed, _] =
            self.watched.get(&cookie, 0).map_err(|e| EventsError::refused("read a BPF map")(e.into()))?;
        Ok(missed)
    }

    /// Takes what was sampled since the last call, at most [`MOST_AT_ONCE`].
    pub fn read(&mut self, mut take: impl FnMut(&[u8])) {
        for _ in 0..MOST_AT_ONCE {
            let Some(item) = self.ring.next() else { break };
            take(&item);
        }
    }
}
