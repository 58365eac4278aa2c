//! Drives the generator: one schedule inside the program, played by calls from here.
//!
//! The program waits for each packet's departure itself, with bottom halves off. So a call
//! covers many packets only while the gaps are short; otherwise this side waits until
//! shortly before the departure and makes one call per packet.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};

use aya::include_bytes_aligned;
use aya::programs::{ProgramError, TestRun, TestRunAttrs, TestRunOptions, Xdp, XdpMode};
use weir_wire::Header;

use super::load::{Object, XdpError};
use crate::clock::{now_ns, wait_until};
use crate::layout::{GenConfig, GenEntry, GenFlow, GenPhase, GenState, MAX_PHASES};
use crate::mapped::Mapped;
use crate::outcome::Sent;
use crate::plan::Plan;
use crate::thread;

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/generator.o"));
const PROGRAM: &str = "weir_generate";

/// Mean gaps up to here are waited for inside the kernel. It spins with bottom halves off,
/// which other work on this CPU bears for a millisecond. One call per packet instead would
/// make a page pool per packet, and each one whose page is still under way when the call ends
/// is looked after by the kernel for a second.
const KERNEL_GAP_NS: f64 = 1_000_000.0;
/// A call with one packet takes 11-15 µs to set up; begin this long before the departure.
const LEAD_NS: u64 = 40_000;
/// One call covers about this much time, so that an interruption is seen soon.
const CALL_NS: f64 = 20e6;
/// One frame per batch costs about half a microsecond, and as much again to wake a receiver on
/// another CPU. For shorter gaps a batch takes more frames, whose time stamps are then early
/// by up to the batch's length: some 1.1 µs.
const BATCH_NS: f64 = 1_100.0;
/// Frames per batch when nothing is paced: amortises the flush, at the cost of time stamps
/// that are up to a batch early.
const UNPACED_BATCH: u32 = 64;
const UNPACED_CALL_PACKETS: u32 = 1 << 16;

/// The loaded generator.
pub struct Generator {
    object: Object,
    config: Mapped<GenConfig>,
    state: Mapped<GenState>,
    phases: Mapped<GenPhase>,
    entries: Mapped<GenEntry>,
    flows: Mapped<GenFlow>,
    bins: Mapped<u64>,
    /// Keeps the private namespace alive in which the program is attached.
    _dispatcher: File,
}

/// When a trial happens, and what marks its packets.
#[derive(Clone, Copy)]
pub struct Window {
    pub start_ns: u64,
    pub record_start_ns: u64,
    pub record_end_ns: u64,
    pub magic: u16,
}

impl Generator {
    /// Loads the program with room for `plan`.
    ///
    /// # Minimum kernel version
    /// 5.18 (BPF_F_TEST_XDP_LIVE_FRAMES).
    pub fn load(plan: &Plan) -> Result<Self, XdpError> {
        let (n_entries, n_flows, n_bins) = (plan.entries.len(), plan.flows.len(), plan.n_bins());
        let sizes = [("gen_entries", n_entries), ("gen_flows", n_flows), ("gen_bins", n_bins)];
        let mut object = Object::load("generator", OBJECT, PROGRAM, &sizes)?;
        let dispatcher = attach_aside(object.program(PROGRAM)?)?;
        Ok(Self {
            config: object.array("gen_config", 1)?,
            state: object.array("gen_state", 1)?,
            phases: object.array("gen_phases", MAX_PHASES)?,
            entries: object.array("gen_entries", n_entries)?,
            flows: object.array("gen_flows", n_flows)?,
            bins: object.array("gen_bins", n_bins)?,
            object,
            _dispatcher: dispatcher,
        })
    }

    /// Whether a plan fits into the maps as they were loaded.
    pub fn fits(&self, plan: &Plan) -> bool {
        plan.entries.len() <= self.entries.len()
            && plan.flows.len() <= self.flows.len()
            && plan.n_bins() <= self.bins.len()
    }

    /// Writes a plan into the maps.
    pub fn prepare(&mut self, plan: &Plan, headers: &[Header], tx_ifindex: u32, window: Window) {
        let longest = plan.entries.iter().map(|e| e.length).max().unwrap_or(0);
        let header = &headers[0];
        self.config.set(
            0,
            GenConfig {
                start_ns: window.start_ns,
                record_start_ns: window.record_start_ns,
                record_end_ns: window.record_end_ns,
                catch_up_ns: plan.catch_up_ns,
                n_phases: plan.phases.len() as u32,
                n_flows: plan.flows.len() as u32,
                tx_ifindex,
                header_len: header.len() as u32,
                input_len: longest.into(),
                bin_ns: plan.bin_ns,
                n_bins: plan.n_bins() as u32,
                magic: window.magic,
                paced: plan.paced.into(),
                ip: header.ip(),
                l4: header.l4().protocol(),
                skip: plan.skip,
                pad: [0; 6],
            },
        );
        let absolute = plan.phases.iter().map(|phase| GenPhase {
            end_ns: window.start_ns + phase.end_ns,
            first_entry: phase.first_entry,
            n_entries: phase.n_entries,
        });
        self.phases.fill(absolute, MAX_PHASES);
        let entries = plan.entries.iter().map(|e| GenEntry {
            gap_ns: e.gap_ns,
            gap_frac: e.gap_frac,
            length: e.length,
            flow: e.flow,
            pad: 0,
        });
        self.entries.fill(entries, plan.entries.len());
        let flows = headers.iter().map(|header| GenFlow {
            header: *header.bytes(),
            l4_sum: header.l4_sum(),
            ip_sum: header.ip_sum(),
            ..GenFlow::default()
        });
        self.flows.fill(flows, plan.flows.len());
        self.bins.fill([], plan.n_bins());
        self.state.set(0, GenState { next_ns: window.start_ns, ..GenState::default() });
    }

    /// Plays the prepared plan on the calling thread, which must be in the sender's
    /// namespace. Ends early when `stop` is set.
    pub fn play(&mut self, plan: &Plan, start_ns: u64, stop: &AtomicBool) -> Result<(), XdpError> {
        let longest = plan.entries.iter().map(|e| e.length).max().unwrap_or(0);
        let frame = vec![0u8; longest.into()];
        let gaps: Vec<f64> = plan.phases.iter().map(|phase| plan.mean_gap_ns(phase)).collect();
        wait_until(start_ns.saturating_sub(LEAD_NS));
        while !stop.load(Ordering::Relaxed) {
            let state = self.state.get(0);
            let phase = state.phase as usize;
            let Some(&gap_ns) = gaps.get(phase).filter(|_| state.done == 0) else {
                return self.ended(state.errors);
            };
            let (repeat, batch) = if !plan.paced {
                (UNPACED_CALL_PACKETS, UNPACED_BATCH)
            } else if gap_ns <= KERNEL_GAP_NS {
                (((CALL_NS / gap_ns) as u32).max(1), batch_for(gap_ns))
            } else {
                let phase_end_ns = start_ns + plan.phases[phase].end_ns;
                let lead = state.next_ns.min(phase_end_ns).saturating_sub(LEAD_NS);
                if lead > now_ns() + 50_000_000 {
                    wait_until(now_ns() + 20_000_000); // look at `stop` now and then
                    continue;
                }
                wait_until(lead);
                (1, 1)
            };
            self.call(&frame, repeat, batch)?;
        }
        Ok(())
    }

    fn call(&mut self, frame: &[u8], repeat: u32, batch: u32) -> Result<(), XdpError> {
        let options = TestRunOptions {
            data_in: Some(frame),
            repeat,
            attrs: TestRunAttrs::new().xdp_live_frames(batch),
            ..TestRunOptions::new()
        };
        match self.object.program(PROGRAM)?.test_run(options) {
            Ok(_) => Ok(()),
            // A signal ended the call early; the schedule is in the map, so go on there.
            Err(ProgramError::SyscallError(e)) if e.io_error.raw_os_error() == Some(libc::EINTR) => Ok(()),
            Err(e) => Err(XdpError::program("run the XDP generator on live frames")(e)),
        }
    }

    fn ended(&self, errors: u32) -> Result<(), XdpError> {
        if errors == 0 {
            return Ok(());
        }
        let source = std::io::Error::other("the program gave up on a packet that did not fit its plan");
        Err(XdpError::System { action: "generate packets", source })
    }

    /// What was sent; after `play`.
    pub fn sent(&self, plan: &Plan) -> Sent {
        let state = self.state.get(0);
        Sent {
            recorded: state.sent_recorded,
            warmup: state.sent - state.sent_recorded,
            first_ns: state.first_ns,
            last_ns: state.last_ns,
            late_sum_ns: state.late_sum_ns,
            late_max_ns: state.late_max_ns,
            slipped_ns: state.slipped_ns,
            bins: self.bins.read(plan.n_bins()),
            flows: self.flows.read(plan.flows.len()).iter().map(|flow| flow.sent).collect(),
        }
    }
}

fn batch_for(gap_ns: f64) -> u32 {
    ((BATCH_NS / gap_ns).ceil() as u32).clamp(1, UNPACED_BATCH)
}

/// Attaches the program to the loopback interface of a namespace made for it alone, where no
/// packet ever passes.
///
/// A call with repeat > 1 puts its program into the kernel's XDP dispatcher, which rewrites
/// code and waits for every CPU: 24 ms. A program that is attached anywhere is there already.
fn attach_aside(program: &mut Xdp) -> Result<File, XdpError> {
    const LOOPBACK: u32 = 1;
    std::thread::scope(|scope| {
        let aside = scope.spawn(|| {
            let netns = thread::enter_private().map_err(XdpError::system("make a network namespace"))?;
            program
                .attach_to_if_index(LOOPBACK, XdpMode::Skb)
                .map_err(XdpError::program("attach the XDP generator to a private loopback"))?;
            Ok(netns)
        });
        aside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use weir_wire::{Addresses, L4, Probe, build, find_probe};

    use super::*;
    use crate::plan::{Entry, Macs, NEXT_FLOW, Phase};
    use crate::schedule::tests::plan;

    const MACS: Macs = Macs { src: [2, 0, 0, 0, 0, 1], dst: [2, 0, 0, 0, 0, 2] };
    const MAGIC: u16 = 0x5745;

    fn is_root() -> bool {
        // SAFETY: a plain system call.
        let root = unsafe { libc::geteuid() } == 0;
        if !root {
            println!("skipped: loading BPF programs needs root");
        }
        root
    }

    fn addresses(ip: u8) -> Addresses {
        let (src_ip, dst_ip) = match ip {
            4 => (IpAddr::V4(Ipv4Addr::new(198, 18, 3, 1)), IpAddr::V4(Ipv4Addr::new(198, 19, 0, 9))),
            _ => (
                IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 3, 1)),
                IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 2, 0, 0, 0, 9)),
            ),
        };
        Addresses { src_ip, dst_ip, src_port: 20_000, dst_port: 30_001 }
    }

    /// Runs the program once, not live, and returns the frame that it would have sent.
    fn frame(generator: &mut Generator, longest: u16) -> Vec<u8> {
        let input = vec![0; longest.into()];
        let mut output = vec![0; 2048];
        let options =
            TestRunOptions { data_in: Some(&input), data_out: Some(&mut output), ..TestRunOptions::new() };
        let program = generator.object.program(PROGRAM).expect("there");
        let result = program.test_run(options).expect("runs");
        const XDP_REDIRECT: u32 = 4;
        assert_eq!(result.return_value, XDP_REDIRECT);
        output.truncate(result.data_size_out as usize);
        output
    }

    #[test]
    fn frames_of_the_xdp_generator_are_those_of_the_wire_crate() {
        if !is_root() {
            return;
        }
        for (ip, l4, lengths, skip) in [
            (4, L4::Udp, [60, 60], 0),
            (4, L4::Udp, [1514, 60], 0),
            (4, L4::Udp, [210, 2044], 12),
            (4, L4::Tcp, [72, 512], 0),
            (6, L4::Udp, [80, 80], 0),
            (6, L4::Tcp, [92, 1500], 0),
        ] {
            let entries: Vec<Entry> = lengths
                .iter()
                .map(|&length| Entry { gap_ns: 0, gap_frac: 0, length, flow: NEXT_FLOW })
                .collect();
            let phases = vec![Phase { end_ns: 60_000_000_000, first_entry: 0, n_entries: 2 }];
            let mut plan = plan(entries, phases, 2, false);
            plan.flows = vec![addresses(ip); 2];
            plan.l4 = l4;
            plan.skip = skip;
            let headers = plan.headers(MACS).expect("valid plan");
            let start_ns = now_ns();
            let window = Window {
                start_ns,
                record_start_ns: start_ns,
                record_end_ns: start_ns + plan.duration_ns,
                magic: MAGIC,
            };
            let mut generator = Generator::load(&plan).expect("loads");
            generator.prepare(&plan, &headers, 1, window);
            for i in 0..4u32 {
                let sent = frame(&mut generator, lengths[0].max(lengths[1]));
                assert_eq!(sent.len(), usize::from(lengths[i as usize % 2]));
                let probe = find_probe(&sent, skip.into()).expect("carries a probe");
                let expected = Probe { magic: MAGIC, flow: i % 2, seq: i / 2, time_ns: probe.time_ns };
                assert_eq!(probe, expected);
                let mut same = vec![0; sent.len()];
                assert!(build(&mut same, &headers[i as usize % 2], skip.into(), &expected));
                assert_eq!(sent, same, "IPv{ip} {l4:?} {lengths:?}");
            }
            let sent = generator.sent(&plan);
            assert_eq!((sent.recorded, sent.flows, sent.bins.iter().sum()), (4, vec![2, 2], 4));
        }
    }

    #[test]
    fn short_gaps_get_longer_batches() {
        assert_eq!(batch_for(1_200.0), 1);
        assert_eq!(batch_for(1_000.0), 2);
        assert_eq!(batch_for(1.0), UNPACED_BATCH);
    }
}
