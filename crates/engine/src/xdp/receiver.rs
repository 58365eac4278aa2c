//! The receiver: attached once, armed for each trial.

use std::io;

use aya::include_bytes_aligned;
use aya::programs::XdpMode;

use super::generator::Window;
use super::load::{Object, XdpError};
use crate::histogram::BUCKETS;
use crate::layout::{RxBin, RxConfig, RxFlow, RxTotals};
use crate::mapped::Mapped;
use crate::outcome::Received;
use crate::plan::Plan;

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/receiver.o"));
const PROGRAM: &str = "weir_receive";

/// The loaded and attached receiver; dropping it detaches it.
pub struct Receiver {
    _object: Object,
    mode: &'static str,
    cpus: usize,
    config: Mapped<RxConfig>,
    flows: Mapped<RxFlow>,
    totals: Mapped<RxTotals>,
    histogram: Mapped<u64>,
    bins: Mapped<RxBin>,
}

impl Receiver {
    /// Loads the program with room for `plan` and attaches it: in the driver if it can, else
    /// in the kernel's generic hook. The calling thread must be in the receiver's namespace.
    ///
    /// # Minimum kernel version
    /// 5.9 (BPF links for XDP), 5.5 (mapped arrays).
    pub fn attach(plan: &Plan, ifindex: u32, interface: &str) -> Result<Self, XdpError> {
        let cpus = possible_cpus().map_err(XdpError::system("read /sys/devices/system/cpu/possible"))?;
        let (n_flows, n_bins) = (plan.flows.len(), plan.n_bins() * cpus);
        let sizes = [
            ("rx_flows", n_flows),
            ("rx_totals", cpus),
            ("rx_histogram", BUCKETS * cpus),
            ("rx_bins", n_bins),
        ];
        let mut object = Object::load("receiver", OBJECT, PROGRAM, &sizes)?;
        let program = object.program(PROGRAM)?;
        let mode = match program.attach_to_if_index(ifindex, XdpMode::Driver) {
            Ok(_) => "native",
            Err(_) => {
                program
                    .attach_to_if_index(ifindex, XdpMode::Skb)
                    .map_err(XdpError::program(format!("attach the XDP receiver to {interface}")))?;
                "generic"
            }
        };
        Ok(Self {
            mode,
            cpus,
            config: object.array("rx_config", 1)?,
            flows: object.array("rx_flows", n_flows)?,
            totals: object.array("rx_totals", cpus)?,
            histogram: object.array("rx_histogram", BUCKETS * cpus)?,
            bins: object.array("rx_bins", n_bins)?,
            _object: object,
        })
    }

    /// Whether a plan fits into the maps as they were loaded.
    pub fn fits(&self, plan: &Plan) -> bool {
        plan.flows.len() <= self.flows.len() && plan.n_bins() * self.cpus <= self.bins.len()
    }

    /// `native` or `generic`.
    pub const fn mode(&self) -> &'static str {
        self.mode
    }

    /// Zeroes everything and starts counting the probes of one trial.
    pub fn arm(&mut self, plan: &Plan, window: Window) {
        self.disarm();
        self.flows.fill([], plan.flows.len());
        self.totals.fill([], self.cpus);
        self.histogram.fill([], BUCKETS * self.cpus);
        self.bins.fill([], plan.n_bins() * self.cpus);
        self.config.set(
            0,
            RxConfig {
                record_start_ns: window.record_start_ns,
                record_end_ns: window.record_end_ns,
                n_flows: plan.flows.len() as u32,
                bin_ns: plan.bin_ns,
                n_bins: plan.n_bins() as u32,
                magic: window.magic,
                skip: plan.skip,
                armed: 1,
            },
        );
    }

    /// Stops counting.
    pub fn disarm(&mut self) {
        self.config.set(0, RxConfig::default());
    }

    /// Probes so far, and when the last one came.
    pub fn progress(&self) -> (u64, u64) {
        let totals = (0..self.cpus).map(|cpu| self.totals.get(cpu));
        totals.fold((0, 0), |(n, last), t| (n + t.probes, last.max(t.last_probe_ns)))
    }

    /// What was counted; after `disarm`.
    pub fn received(&self, plan: &Plan) -> Received {
        let n_bins = plan.n_bins();
        let per_cpu = self.histogram.read(BUCKETS * self.cpus);
        let histogram =
            (0..BUCKETS).map(|i| (0..self.cpus).map(|cpu| per_cpu[cpu * BUCKETS + i]).sum()).collect();
        let per_cpu = self.bins.read(n_bins * self.cpus);
        let bins = (0..n_bins)
            .map(|i| (0..self.cpus).map(|cpu| per_cpu[cpu * n_bins + i]).fold(RxBin::default(), add));
        let totals = self.totals.read(self.cpus);
        Received {
            totals: totals.into_iter().fold(RxTotals::default(), join),
            histogram,
            bins: bins.collect(),
            flows: self.flows.read(plan.flows.len()),
            dropped: 0,
        }
    }
}

fn add(a: RxBin, b: RxBin) -> RxBin {
    RxBin {
        received: a.received + b.received,
        delay_sum_ns: a.delay_sum_ns + b.delay_sum_ns,
        delay_max_ns: a.delay_max_ns.max(b.delay_max_ns),
    }
}

/// The totals of two CPUs. A gap that began on one and ended on another is not seen as one,
/// so that the longest gap is that of any single receive queue.
fn join(a: RxTotals, b: RxTotals) -> RxTotals {
    let first = match (a.first_arrival_ns, b.first_arrival_ns) {
        (0, first) | (first, 0) => first,
        (a, b) => a.min(b),
    };
    RxTotals {
        probes: a.probes + b.probes,
        stray: a.stray + b.stray,
        first_arrival_ns: first,
        last_arrival_ns: a.last_arrival_ns.max(b.last_arrival_ns),
        longest_gap_ns: a.longest_gap_ns.max(b.longest_gap_ns),
        last_probe_ns: a.last_probe_ns.max(b.last_probe_ns),
        pad: [0; 2],
    }
}

/// One more than the highest CPU number that can ever appear ("0-3,8" gives 9).
fn possible_cpus() -> io::Result<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = text.trim().rsplit([',', '-']).next().unwrap_or_default();
    last.parse::<usize>().map(|n| n + 1).map_err(|_| io::Error::other(format!("unexpected content {text:?}")))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use aya::programs::{TestRun, TestRunOptions};
    use weir_wire::{Addresses, Header, L4, Probe, build};

    use super::*;
    use crate::account::Account;
    use crate::clock::now_ns;
    use crate::plan::{Entry, NEXT_FLOW, Phase};
    use crate::schedule::tests::plan;

    const MAGIC: u16 = 0x5745;

    /// A loaded receiver that is attached nowhere; `None`, said aloud, without root.
    fn loaded(plan: &Plan) -> Option<(Object, Receiver)> {
        // SAFETY: a plain system call.
        if unsafe { libc::geteuid() } != 0 {
            println!("skipped: loading BPF programs needs root");
            return None;
        }
        // The object that is run lends its maps to a receiver that holds another one.
        let cpus = possible_cpus().expect("sysfs");
        let sizes = [
            ("rx_flows", plan.flows.len()),
            ("rx_totals", cpus),
            ("rx_histogram", BUCKETS * cpus),
            ("rx_bins", plan.n_bins() * cpus),
        ];
        let object = Object::load("receiver", OBJECT, PROGRAM, &sizes).expect("loads");
        let receiver = Receiver {
            mode: "none",
            cpus,
            config: object.array("rx_config", 1).expect("map"),
            flows: object.array("rx_flows", plan.flows.len()).expect("map"),
            totals: object.array("rx_totals", cpus).expect("map"),
            histogram: object.array("rx_histogram", BUCKETS * cpus).expect("map"),
            bins: object.array("rx_bins", plan.n_bins() * cpus).expect("map"),
            _object: Object::load("receiver", OBJECT, PROGRAM, &sizes).expect("loads"),
        };
        Some((object, receiver))
    }

    #[test]
    fn the_xdp_receiver_counts_as_the_account_in_rust_does() {
        let entry = Entry { gap_ns: 1, gap_frac: 0, length: 60, flow: NEXT_FLOW };
        let phases = vec![Phase { end_ns: 60_000_000_000, first_entry: 0, n_entries: 1 }];
        let plan = plan(vec![entry], phases, 3, true);
        let Some((mut object, mut receiver)) = loaded(&plan) else { return };
        let start_ns = now_ns();
        let window = Window {
            start_ns,
            record_start_ns: start_ns,
            record_end_ns: start_ns + plan.duration_ns,
            magic: MAGIC,
        };
        receiver.arm(&plan, window);
        let mut account = Account::new(receiver.config.get(0));

        let to = Addresses {
            src_ip: IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)),
            dst_ip: IpAddr::V4(Ipv4Addr::new(198, 19, 0, 1)),
            src_port: 1024,
            dst_port: 7,
        };
        let header = Header::new([2; 6], [4; 6], &to, L4::Udp).expect("same family");
        // A walk through sequence numbers with every kind of step: on, back, the same, far ahead,
        // far back; now and then a foreign magic, an unknown flow, a frame without a probe.
        let mut seqs = [0u32; 3];
        let mut random = 12_345u64;
        for i in 0..4_000u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let dice = (random >> 33) as u32;
            let flow = dice % 3;
            let seq = &mut seqs[flow as usize];
            *seq = match dice / 3 % 20 {
                0 => *seq,
                1 | 2 => seq.saturating_sub(dice / 60 % 40),
                3 => *seq + dice / 60 % 400,
                4 => seq.saturating_sub(dice / 60 % 600),
                _ => *seq + 1,
            };
            let magic = if i % 97 == 0 { MAGIC + 1 } else { MAGIC };
            let flow = if i % 89 == 0 { 3 } else { flow };
            let probe = Probe { magic, flow, seq: *seq, time_ns: now_ns() };
            let mut frame = [0; 60];
            assert!(build(&mut frame, &header, 0, &probe));
            if i % 83 == 0 {
                frame[12] = 0x88; // no IP
            }
            match weir_wire::find_probe(&frame, 0) {
                Some(probe) => account.arrive(&probe, now_ns()),
                None => account.stray(),
            }
            let options = TestRunOptions { data_in: Some(&frame), ..TestRunOptions::new() };
            object.program(PROGRAM).expect("there").test_run(options).expect("runs");
        }

        let counted = receiver.received(&plan);
        assert!(counted.totals.probes > 3_000 && counted.totals.stray > 100);
        assert_eq!(counted.totals.probes, account.totals.probes);
        assert_eq!(counted.totals.stray, account.totals.stray);
        for (kernel, rust) in counted.flows.iter().zip(&account.flows) {
            let place = |f: &RxFlow| (f.received, f.duplicated, f.reordered, f.next_seq, f.window);
            assert_eq!(place(kernel), place(rust));
            assert!(kernel.duplicated > 0 && kernel.reordered > 0);
        }
        let total: u64 = counted.flows.iter().map(|f| f.received).sum();
        assert_eq!(counted.histogram.iter().sum::<u64>(), total);
        assert_eq!(counted.bins.iter().map(|b| b.received).sum::<u64>(), total);
    }
}
