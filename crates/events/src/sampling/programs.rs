//! The programs: loaded, told which connections to sample, run by a timer, read.

use std::io;
use std::net::{IpAddr, SocketAddr};

use aya::maps::{Array, MapData, MapError, RingBuf};
use aya::programs::perf_event::{
    PerfEvent, PerfEventConfig, PerfEventLinkId, PerfEventScope, SamplePolicy, SoftwareEvent,
};
use aya::programs::{Program, ProgramError, SchedClassifier, TestRun, TestRunOptions};
use aya::{Btf, Ebpf, EbpfLoader, include_bytes_aligned};
use weir_tcp::diag::Id;

use crate::error::{EventsError, missing};

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/samples.o"));

const TICK: &str = "weir_tick";
const ENTER: &str = "weir_enter";

/// The part of a period, in an interrupt, after which a round is broken off.
const BUDGET: u64 = 2;

/// More samples than the ring has room for: whoever reads is not kept by those that come meanwhile.
const MOST_AT_ONCE: usize = 1 << 15;

/// Bytes of `struct weir_wanted`.
const WANTED_BYTES: usize = 72;
/// In `struct __sk_buff`: the interface that a packet came from.
const IFINDEX: usize = 40;

/// What became of a connection that was to be sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// It is not there any more.
    Gone,
    /// It was sampled for the first time, and will be at each tick.
    Done,
    /// Its handshake is not over: ask again.
    Soon,
}

/// The programs; gone when this is dropped.
pub struct Programs {
    bpf: Ebpf,
    ring: RingBuf<MapData>,
    range: Array<MapData, u64>,
    period_ns: u64,
    timer: Option<PerfEventLinkId>,
}

impl Programs {
    /// Loads them, and finds out whether they may be run.
    ///
    /// # Minimum kernel version
    /// 5.12: atomic exchange in programs. With BTF and CONFIG_PERF_EVENTS.
    pub fn load(period_ns: u64) -> Result<Self, EventsError> {
        let btf = Btf::from_sys_fs().map_err(|e| EventsError::NoBtf(e.into()))?;
        let mut bpf = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("samples_budget_ns", &(period_ns / BUDGET), true)
            .load(OBJECT)
            .map_err(|e| EventsError::refused("load BPF maps")(e.into()))?;
        let loads = |e: ProgramError| EventsError::refused("read connections by BPF")(e.into());
        program::<PerfEvent>(&mut bpf, TICK)?.load().map_err(loads)?;
        program::<SchedClassifier>(&mut bpf, ENTER)?.load().map_err(loads)?;
        let mut take = |name: &'static str| bpf.take_map(name).ok_or_else(|| missing(name));
        let (ring, range) = (take("samples_ring")?, take("samples_range")?);
        let open = |e: MapError| EventsError::refused("open a BPF map")(e.into());
        let (ring, range) = (RingBuf::try_from(ring).map_err(open)?, Array::try_from(range).map_err(open)?);
        let mut made = Self { bpf, ring, range, period_ns, timer: None };
        // Whoever may not do this is told now.
        made.start()?;
        made.stop();
        Ok(made)
    }

    /// Has the timer run on the calling thread's CPU.
    pub fn start(&mut self) -> Result<(), EventsError> {
        self.stop();
        let timer = PerfEventConfig::Software(SoftwareEvent::CpuClock);
        let scope = PerfEventScope::AllProcessesOneCpu { cpu: current_cpu()? };
        let policy = SamplePolicy::Period(self.period_ns);
        let attached = program::<PerfEvent>(&mut self.bpf, TICK)?.attach(timer, scope, policy, false);
        self.timer = Some(attached.map_err(|e| EventsError::refused("run a program by a timer")(e.into()))?);
        Ok(())
    }

    /// Has the timer stand still.
    pub fn stop(&mut self) {
        if let Some(timer) = self.timer.take()
            && let Ok(program) = program::<PerfEvent>(&mut self.bpf, TICK)
        {
            let _ = program.detach(timer);
        }
    }

    /// Whether the timer runs.
    pub const fn is_running(&self) -> bool {
        self.timer.is_some()
    }

    /// Samples a connection of the calling thread's network namespace, under this number.
    pub fn enter(&mut self, number: u32, id: &Id) -> Result<Entered, EventsError> {
        let packet = wanted(number, id);
        let mut context = [0_u8; IFINDEX + 4];
        context[IFINDEX..].copy_from_slice(&id.interface.to_le_bytes());
        let options = TestRunOptions {
            data_in: Some(&packet),
            // Where the socket is bound to an interface, the kernel looks for it there alone.
            ctx_in: (id.interface > 1).then_some(&context[..]),
            ..TestRunOptions::new()
        };
        match program::<SchedClassifier>(&mut self.bpf, ENTER)?.test_run(options) {
            Ok(result) => Ok(match result.return_value {
                1 => Entered::Done,
                2 => Entered::Soon,
                _ => Entered::Gone,
            }),
            // The interface is gone, and the connection can send nothing any more: it is told as ended.
            Err(ProgramError::SyscallError(e)) if e.io_error.raw_os_error() == Some(libc::ENODEV) => {
                Ok(Entered::Gone)
            }
            Err(e) => Err(EventsError::refused("find a connection by BPF")(e.into())),
        }
    }

    /// Only connections with these numbers are still there: from `first`, up to before `end`.
    pub fn narrow(&mut self, first: u32, end: u32) -> Result<(), EventsError> {
        let both = u64::from(first) | u64::from(end) << 32;
        self.range.set(0, both, 0).map_err(|e| EventsError::refused("write a BPF map")(e.into()))
    }

    /// Takes what was sampled since the last time, at most [`MOST_AT_ONCE`].
    pub fn read(&mut self, mut take: impl FnMut(&[u8])) {
        for _ in 0..MOST_AT_ONCE {
            let Some(item) = self.ring.next() else { break };
            take(&item);
        }
    }
}

fn program<'a, P>(bpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut P, EventsError>
where
    &'a mut P: TryFrom<&'a mut Program>,
{
    bpf.program_mut(name).and_then(|program| program.try_into().ok()).ok_or_else(|| missing(name))
}

/// `struct weir_wanted`. The tuple is that of a packet that arrives: the other end comes first.
fn wanted(number: u32, id: &Id) -> [u8; WANTED_BYTES] {
    let octets = |end: SocketAddr| match end.ip().to_canonical() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let mut tuple = [octets(id.remote), octets(id.local)].concat();
    tuple.extend(id.remote.port().to_be_bytes());
    tuple.extend(id.local.port().to_be_bytes());
    let mut bytes = [0; WANTED_BYTES];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(16, &id.cookie.to_le_bytes());
    put(24, &number.to_le_bytes());
    put(28, &(tuple.len() as u32).to_le_bytes());
    put(32, &tuple);
    bytes
}

fn current_cpu() -> Result<u32, EventsError> {
    // SAFETY: plain system call.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).map_err(|_| EventsError::System {
        action: "find out which CPU this is",
        source: io::Error::last_os_error(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_asked_for_as_a_packet_of_it_would_arrive() {
        let id = Id {
            local: "[::ffff:192.0.2.1]:443".parse().unwrap(),
            remote: "198.51.100.7:40000".parse().unwrap(),
            interface: 0,
            cookie: 0x0102_0304_0506_0708,
        };
        let bytes = wanted(3, &id);
        assert_eq!(bytes[..16], [0; 16]);
        assert_eq!(bytes[16..32], [8, 7, 6, 5, 4, 3, 2, 1, 3, 0, 0, 0, 12, 0, 0, 0]);
        assert_eq!(bytes[32..44], [198, 51, 100, 7, 192, 0, 2, 1, 0x9c, 0x40, 0x01, 0xbb]);
        assert_eq!(bytes[44..], [0; 28]);
        let six = Id {
            local: "[2001:db8::1]:1".parse().unwrap(),
            remote: "[2001:db8::2]:2".parse().unwrap(),
            ..id
        };
        let bytes = wanted(0, &six);
        assert_eq!(bytes[28..32], [36, 0, 0, 0]);
        assert_eq!((bytes[47], bytes[63]), (2, 1));
        assert_eq!(bytes[64..68], [0, 2, 0, 1]);
    }
}
