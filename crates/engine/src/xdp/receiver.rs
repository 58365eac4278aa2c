//! The receiver: attached once, armed for each trial.

use std::io;

use aya::include_bytes_aligned;
use aya::programs::XdpMode;

use super::load::{Object, XdpError};
use crate::histogram::BUCKETS;
use crate::layout::{Arrival, RxBin, RxConfig, RxFlow, RxTotals};
use crate::mapped::Mapped;
use crate::outcome::{PacketLog, Received, add, join};
use crate::plan::{Plan, Side};
use crate::window::Window;

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/receiver.o"));
const PROGRAM: &str = "weir_receive";

/// The loaded and attached receiver; dropping it detaches it.
pub struct Receiver {
    /// Keeps the program attached.
    _object: Option<Object>,
    mode: &'static str,
    cpus: usize,
    config: Mapped<RxConfig>,
    flows: Mapped<RxFlow>,
    totals: Mapped<RxTotals>,
    histogram: Mapped<u64>,
    bins: Mapped<RxBin>,
    log: Mapped<Arrival>,
    logged: Mapped<u64>,
}

/// How long a receiver's log must be for each of `packets` to arrive, and some of them twice.
pub const fn log_room(packets: u64) -> usize {
    match packets {
        0 => 0,
        n => (n + n * 3 / 10 + 4096) as usize,
    }
}

impl Receiver {
    /// Loads the program with room for `plan` and this many logged arrivals, and attaches it: in the
    /// driver if it can, else in the kernel's generic hook. The calling thread must be in the
    /// receiver's namespace.
    ///
    /// # Minimum kernel version
    /// 5.12 (atomic operations that return a value), 5.9 (BPF links for XDP), 5.5 (mapped arrays).
    pub fn attach(plan: &Plan, log_room: usize, ifindex: u32, interface: &str) -> Result<Self, XdpError> {
        let (mut receiver, mut object) = Self::load(plan, log_room)?;
        let program = object.program(PROGRAM)?;
        receiver.mode = match program.attach_to_if_index(ifindex, XdpMode::Driver) {
            Ok(_) => "native",
            Err(_) => {
                program
                    .attach_to_if_index(ifindex, XdpMode::Skb)
                    .map_err(XdpError::program(format!("attach the XDP receiver to {interface}")))?;
                "generic"
            }
        };
        receiver._object = Some(object);
        Ok(receiver)
    }

    /// Loads the program without attaching it.
    fn load(plan: &Plan, log_room: usize) -> Result<(Self, Object), XdpError> {
        let cpus = possible_cpus().map_err(XdpError::system("read /sys/devices/system/cpu/possible"))?;
        let (n_flows, n_bins) = (plan.flows.len(), plan.n_bins() * cpus);
        let sizes = [
            ("rx_flows", n_flows),
            ("rx_totals", cpus),
            ("rx_histogram", BUCKETS * plan.n_windows()),
            ("rx_bins", n_bins),
            ("rx_log", log_room),
        ];
        let object = Object::load("receiver", OBJECT, PROGRAM, &sizes)?;
        let receiver = Self {
            _object: None,
            mode: "",
            cpus,
            config: object.array("rx_config", 1)?,
            flows: object.array("rx_flows", n_flows)?,
            totals: object.array("rx_totals", cpus)?,
            histogram: object.array("rx_histogram", BUCKETS * plan.n_windows())?,
            bins: object.array("rx_bins", n_bins)?,
            log: object.array("rx_log", log_room)?,
            logged: object.array("rx_logged", 1)?,
        };
        Ok((receiver, object))
    }

    /// Whether a plan fits into the maps as they were loaded.
    pub fn fits(&self, plan: &Plan, log_room: usize) -> bool {
        plan.flows.len() <= self.flows.len()
            && plan.n_bins() * self.cpus <= self.bins.len()
            && BUCKETS * plan.n_windows() <= self.histogram.len()
            && log_room <= self.log.len()
    }

    /// `native` or `generic`.
    pub const fn mode(&self) -> &'static str {
        self.mode
    }

    /// Zeroes everything for the probes of one trial that arrive at this side.
    pub fn clear(&mut self, plan: &Plan, side: Side) {
        self.disarm();
        // Answers have the numbers of what they answer.
        let elsewhere = |flow| plan.answers.is_none() && plan.side(flow) != side;
        let flows = (0..plan.flows.len())
            .map(|flow| RxFlow { elsewhere: elsewhere(flow).into(), ..RxFlow::default() });
        self.flows.fill(flows, plan.flows.len());
        self.logged.set(0, 0);
        self.totals.fill([], self.cpus);
        self.histogram.fill([], BUCKETS * plan.n_windows());
        self.bins.fill([], plan.n_bins() * self.cpus);
    }

    /// Starts counting, and answering if this side does; after `clear`.
    pub fn arm(&mut self, plan: &Plan, side: Side, window: Window) {
        self.config.set(0, window.rx_config(plan, side));
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

    /// Answers sent so far.
    pub fn answers(&self) -> u64 {
        (0..self.cpus).map(|cpu| self.totals.get(cpu).answers).sum()
    }

    /// What was counted; after `disarm`.
    pub fn received(&self, plan: &Plan) -> Received {
        let n_bins = plan.n_bins();
        let per_cpu = self.bins.read(n_bins * self.cpus);
        let bins = (0..n_bins)
            .map(|i| (0..self.cpus).map(|cpu| per_cpu[cpu * n_bins + i]).fold(RxBin::default(), add));
        let totals = self.totals.read(self.cpus);
        Received {
            totals: totals.into_iter().fold(RxTotals::default(), join),
            histogram: self.histogram.read(BUCKETS * plan.n_windows()),
            bins: bins.collect(),
            flows: self.flows.read(plan.flows.len()),
            dropped: 0,
            log: plan.media.is_some().then(|| self.logged()),
        }
    }

    fn logged(&self) -> PacketLog {
        let arrived = self.logged.get(0);
        let kept = arrived.min(self.log.len() as u64);
        let mut log = PacketLog::with_capacity(kept as usize);
        for index in 0..kept as usize {
            log.push(self.log.get(index));
        }
        log.missed = arrived - kept;
        log
    }
}

/// One more than the highest CPU number that can ever appear ("0-3,8" gives 9).
pub fn possible_cpus() -> io::Result<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = text.trim().rsplit([',', '-']).next().unwrap_or_default();
    last.parse::<usize>().map(|n| n + 1).map_err(|_| io::Error::other(format!("unexpected content {text:?}")))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use aya::programs::{TestRun, TestRunOptions};
    use weir_wire::{Addresses, Header, Kind, L4, Media, Probe, build, build_media};

    use super::*;
    use crate::account::Account;
    use crate::plan::{Answering, Entry, NEXT_FLOW, NO_PAYLOAD, NewFlows, Packet, Phase};
    use crate::schedule::tests::{calls, plan};
    use weir_clock::now_ns;

    const MAGIC: u16 = 0x5745;
    const XDP_DROP: u32 = 1;
    const XDP_REDIRECT: u32 = 4;

    /// A loaded receiver that is attached nowhere; `None`, with a message, without root.
    fn loaded(plan: &Plan, log_room: usize) -> Option<(Object, Receiver)> {
        // SAFETY: a plain system call.
        if unsafe { libc::geteuid() } != 0 {
            println!("skipped: loading BPF programs needs root");
            return None;
        }
        let (receiver, object) = Receiver::load(plan, log_room).expect("loads");
        Some((object, receiver))
    }

    fn addresses(ip: u8) -> Addresses {
        let (src_ip, dst_ip) = match ip {
            4 => (Ipv4Addr::new(198, 18, 0, 1).into(), Ipv4Addr::new(198, 19, 0, 1).into()),
            _ => (
                IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 1)),
                IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 2, 0, 0, 0, 1)),
            ),
        };
        Addresses { src_ip, dst_ip, src_port: 1024, dst_port: 7 }
    }

    fn header() -> Header {
        Header::new([2; 6], [4; 6], &addresses(4), L4::Udp).expect("same family")
    }

    /// A walk through the sequence numbers of three flows with every kind of step: on, back, the
    /// same, far ahead, far back; now and then a foreign magic, an unknown flow, an ether type that
    /// is no IP. `give` gets each probe and whether it is to be hidden so.
    fn walk(mut give: impl FnMut(Probe, bool)) {
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
            give(Probe { magic, flow, seq: *seq, time_ns: now_ns() }, i % 83 == 0);
        }
    }

    fn receive(object: &mut Object, frame: &[u8]) {
        let options = TestRunOptions { data_in: Some(frame), ..TestRunOptions::new() };
        object.program(PROGRAM).expect("there").test_run(options).expect("runs");
    }

    fn assert_same(counted: &Received, account: &Account) {
        assert!(counted.totals.probes > 1_000 && counted.totals.stray > 100);
        assert_eq!(counted.totals.probes, account.totals.probes);
        assert_eq!(counted.totals.stray, account.totals.stray);
        for (kernel, rust) in counted.flows.iter().zip(&account.flows) {
            let place = |f: &RxFlow| (f.received, f.duplicated, f.reordered, f.next_seq, f.window);
            assert_eq!(place(kernel), place(rust));
            assert!(kernel.elsewhere != 0 || kernel.duplicated > 0 && kernel.reordered > 0);
        }
        let total: u64 = counted.flows.iter().map(|f| f.received).sum();
        assert_eq!(counted.histogram.iter().sum::<u64>(), total);
        assert_eq!(counted.bins.iter().map(|b| b.received).sum::<u64>(), total);
    }

    #[test]
    fn the_xdp_receiver_counts_as_the_account_in_rust_does() {
        let entry = Entry { gap_ns: 1, gap_frac: 0, length: 60, flow: NEXT_FLOW };
        let phases = vec![Phase { end_ns: 60_000_000_000, first_entry: 0, n_entries: 1 }];
        let plan = plan(vec![entry], phases, 3, true);
        let Some((mut object, mut receiver)) = loaded(&plan, 0) else { return };
        receiver.clear(&plan, Side::Forward);
        receiver.arm(&plan, Side::Forward, Window::new(&plan, now_ns(), MAGIC));
        let mut account = Account::new(receiver.config.get(0));
        let header = header();
        walk(|probe, hidden| {
            let mut frame = [0; 60];
            assert!(build(&mut frame, &header, 0, &probe));
            if hidden {
                frame[12] = 0x88;
            }
            match weir_wire::find_probe(&frame, 0) {
                Some(probe) => account.arrive(&probe, now_ns()),
                None => account.stray(),
            }
            receive(&mut object, &frame);
        });
        let counted = receiver.received(&plan);
        assert_same(&counted, &account);
        assert_eq!(counted.log, None);
    }

    #[test]
    fn the_xdp_receiver_answers_the_first_packets_of_each_flow_and_every_new_flow() {
        for (ip, l4) in [(4, L4::Udp), (4, L4::Tcp), (6, L4::Udp), (6, L4::Tcp)] {
            let to = addresses(ip);
            let entry = Entry { gap_ns: 1, gap_frac: 0, length: 92, flow: NEXT_FLOW };
            let phases = vec![Phase { end_ns: 60_000_000_000, first_entry: 0, n_entries: 1 }];
            let mut plan = plan(vec![entry], phases, 2, true);
            let new_flows = NewFlows { hosts: 1, host: 1, ports: 1, port: 1 };
            plan.answers = Some(Answering { first: 2, new_flows: Some(new_flows) });
            let Some((mut object, mut receiver)) = loaded(&plan, 0) else { return };
            receiver.clear(&plan, Side::Forward);
            receiver.arm(&plan, Side::Forward, Window::new(&plan, now_ns(), MAGIC));
            let header = Header::new([2; 6], [4; 6], &to, l4).expect("same family");
            let back = Addresses {
                src_ip: to.dst_ip,
                dst_ip: to.src_ip,
                src_port: to.dst_port,
                dst_port: to.src_port,
            };
            let header_back = Header::new([4; 6], [2; 6], &back, l4).expect("same family");
            for (flow, seq, is_answered) in [(0, 0, true), (0, 1, true), (0, 2, false), (1, 7, true)] {
                let time_ns = now_ns();
                let probe = Probe { magic: MAGIC, flow, seq, time_ns };
                let mut frame = [0; 92];
                assert!(build(&mut frame, &header, 0, &probe));
                let mut output = vec![0; 2048];
                let options = TestRunOptions {
                    data_in: Some(&frame),
                    data_out: Some(&mut output),
                    ..TestRunOptions::new()
                };
                let ran = object.program(PROGRAM).expect("there").test_run(options).expect("runs");
                assert_eq!(ran.return_value, if is_answered { XDP_REDIRECT } else { XDP_DROP });
                if is_answered {
                    let answer = weir_wire::find_probe(&output[..92], 0).expect("carries a probe");
                    assert!(answer.time_ns > time_ns && (answer.flow, answer.seq) == (flow, seq));
                    let mut same = [0; 92];
                    assert!(build(&mut same, &header_back, 0, &answer));
                    assert_eq!(output[..92], same, "IPv{ip} {l4:?}");
                }
            }
            assert_eq!(receiver.answers(), 3);
        }
    }

    #[test]
    fn the_xdp_receiver_logs_packets_of_calls_as_the_account_in_rust_does() {
        let packet = |length, flow| (length, flow, Packet { payload: NO_PAYLOAD, ..Packet::default() });
        let lengths = [60, 97, 214];
        let mut plan = calls(vec![packet(60, 0), packet(97, 1), packet(214, 2)], vec![vec![]; 3], &[]);
        plan.bin_ns = 60_000_000;
        for side in [Side::Forward, Side::Back] {
            const ROOM: usize = 1_000; // too little for what comes forward
            let Some((mut object, mut receiver)) = loaded(&plan, ROOM) else { return };
            receiver.clear(&plan, side);
            receiver.arm(&plan, side, Window::new(&plan, now_ns(), MAGIC));
            let mut account = Account::new(receiver.config.get(0));
            account.expect_elsewhere(|flow| plan.side(flow) != side);
            let header = header();
            let media = Media { kind: Kind::Raw, header: &[], stamp: 0, marker: false, payload: &[] };
            walk(|probe, hidden| {
                let mut frame = vec![0; lengths[probe.flow as usize % 3]];
                assert!(build_media(&mut frame, &header, &media, &probe));
                if hidden {
                    frame[12] = 0x88;
                }
                match weir_wire::find_last_probe(&frame) {
                    Some(probe) => account.arrive(&probe, now_ns()),
                    None => account.stray(),
                }
                receive(&mut object, &frame);
            });
            let counted = receiver.received(&plan);
            assert_same(&counted, &account);
            let (log, expected) = (counted.log.expect("logged"), account.log.expect("logged"));
            assert_eq!((log.len(), log.len() as u64 + log.missed), (ROOM, expected.len() as u64));
            assert_eq!(log.flow, expected.flow[..ROOM]);
            assert_eq!(log.seq, expected.seq[..ROOM]);
            assert_eq!(log.sent_ns, expected.sent_ns[..ROOM]);
            assert!(log.arrival_ns.is_sorted() && log.arrival_ns[0] > log.sent_ns[0]);
        }
    }
}
