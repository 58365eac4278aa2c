//! Drives the generator: one schedule inside the program, played by calls from here.
//!
//! The program waits for each packet's departure itself, with bottom halves off. So a call
//! covers many packets only while the gaps are short; otherwise this side waits until
//! shortly before the departure and makes one call per packet.

use std::fs::File;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, Ordering};

use aya::include_bytes_aligned;
use aya::programs::{ProgramError, TestRun, TestRunAttrs, TestRunOptions, Xdp, XdpMode};
use weir_wire::Header;

use super::load::{Object, XdpError};
use super::media;
use crate::layout::{
    GenBin, GenBody, GenConfig, GenEntry, GenFlow, GenMedia, GenPhase, GenState, Look, MAX_PHASES, Slot,
    WATCHED,
};
use crate::mapped::Mapped;
use crate::outcome::Sent;
use crate::plan::{Bodies, Plan, Share, Side};
use crate::thread;
use crate::window::Window;
use weir_clock::{now_ns, wait_until};

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/generator.o"));
/// The same, for kernels whose structs cannot be read.
static BLIND: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/generator-blind.o"));
const PROGRAM: &str = "weir_generate";

/// Mean gaps up to this are waited for inside the kernel. It spins with bottom halves off,
/// which other work on this CPU tolerates for a millisecond. One call per packet instead would
/// make a page pool per packet, and the kernel keeps checking each pool whose page is still in
/// flight when the call ends for a second.
const KERNEL_GAP_NS: f64 = 1_000_000.0;
/// A call with one packet takes 11-15 µs to set up; begin this long before the departure.
const LEAD_NS: u64 = 40_000;
/// One call covers about this much time, so that an interruption is noticed soon.
const CALL_NS: f64 = 20e6;
/// One frame per batch costs about half a microsecond, and as much again to wake a receiver on
/// another CPU. For shorter gaps a batch takes more frames, whose time stamps are then early
/// by up to the batch's length: some 1.1 µs.
const BATCH_NS: f64 = 1_100.0;
/// Frames per batch when nothing is paced: amortises the flush, at the cost of time stamps
/// that are up to a batch early.
const UNPACED_BATCH: u32 = 64;
const UNPACED_CALL_PACKETS: u32 = 1 << 16;

/// Ends the sending of a generator from another thread.
pub struct Brake(Mapped<GenState>);

impl Brake {
    /// The call to the kernel that is under way generates nothing more.
    pub fn pull(&self) {
        self.0.word(offset_of!(GenState, done)).store(1, Ordering::Relaxed);
    }
}

/// The loaded generator.
pub struct Generator {
    object: Object,
    config: Mapped<GenConfig>,
    state: Mapped<GenState>,
    phases: Mapped<GenPhase>,
    entries: Mapped<GenEntry>,
    flows: Mapped<GenFlow>,
    bins: Mapped<GenBin>,
    /// Tasks to watch, and what was seen; `None` if the kernel does not permit it.
    sight: Option<(Mapped<u64>, Mapped<Look>)>,
    n_watched: usize,
    media: Mapped<GenMedia>,
    bodies: Mapped<GenBody>,
    slots: Mapped<Slot>,
    is_connected: bool,
    /// Bytes that a page has behind the longest frame: 1 if the program has to shorten every frame.
    spare: u16,
    /// About the plan in the maps: length of the longest frame, and the mean gap of each phase.
    longest: u16,
    gaps_ns: Vec<f64>,
    /// Keeps the private namespace alive in which the program is attached.
    _dispatcher: File,
}

impl Generator {
    /// Loads the program with room for `plan` and the bodies of its packets.
    ///
    /// `moves_frames`: the driver may put a header of its own in front of frames, as virtio_net does. Its page
    /// then comes back with a frame that begins earlier, and the kernel puts that right only if the program
    /// changes the frame's bounds (before Linux 6.4, `reset_ctx` in net/bpf/test_run.c).
    ///
    /// # Minimum kernel version
    /// 5.18 (BPF_F_TEST_XDP_LIVE_FRAMES, bpf_xdp_store_bytes).
    pub fn load(plan: &Plan, bodies: &Bodies, moves_frames: bool) -> Result<Self, XdpError> {
        let (n_entries, n_flows, n_bins) = (plan.entries.len(), plan.flows.len(), plan.n_bins());
        let (n_media, n_bodies, n_slots) = (bodies.of_entry.len(), bodies.bodies.len(), bodies.slots.len());
        let sizes = [
            ("gen_entries", n_entries),
            ("gen_flows", n_flows),
            ("gen_bins", n_bins),
            ("gen_media", n_media),
            ("gen_bodies", n_bodies),
            ("gen_slots", n_slots),
        ];
        let n_looks = if plan.windowed { n_bins + 2 } else { 1 };
        let looking = [&sizes[..], &[("gen_looks", n_looks)]].concat();
        let (mut object, sees) = match Object::load("generator", OBJECT, PROGRAM, &looking) {
            Ok(object) => (object, true),
            Err(_) => (Object::load("generator", BLIND, PROGRAM, &sizes)?, false),
        };
        let sight = if sees {
            Some((object.array("gen_tasks", WATCHED)?, object.array("gen_looks", n_looks)?))
        } else {
            None
        };
        let dispatcher = attach_aside(object.program(PROGRAM)?)?;
        Ok(Self {
            config: object.array("gen_config", 1)?,
            state: object.array("gen_state", 1)?,
            phases: object.array("gen_phases", MAX_PHASES)?,
            entries: object.array("gen_entries", n_entries)?,
            flows: object.array("gen_flows", n_flows)?,
            bins: object.array("gen_bins", n_bins)?,
            media: object.array("gen_media", n_media)?,
            bodies: object.array("gen_bodies", n_bodies)?,
            slots: object.array("gen_slots", n_slots)?,
            sight,
            n_watched: 0,
            is_connected: false,
            spare: moves_frames.into(),
            longest: 0,
            gaps_ns: Vec::new(),
            object,
            _dispatcher: dispatcher,
        })
    }

    /// Whether a plan fits into the maps as they were loaded.
    pub fn fits(&self, plan: &Plan, bodies: &Bodies) -> bool {
        plan.entries.len() <= self.entries.len()
            && plan.flows.len() <= self.flows.len()
            && plan.n_bins() <= self.bins.len()
            && self.sight.as_ref().is_none_or(|(_, looks)| !plan.windowed || plan.n_bins() + 2 <= looks.len())
            && bodies.of_entry.len() <= self.media.len()
            && bodies.bodies.len() <= self.bodies.len()
            && bodies.slots.len() <= self.slots.len()
    }

    /// Sets the interface, in the calling thread's namespace, by which packets of calls
    /// leave. Plain packets go to the sender's interface directly.
    pub fn connect(&mut self, side: Side, ifindex: u32) -> Result<(), XdpError> {
        self.object.set_device("gen_ports", side as u32, ifindex)?;
        self.is_connected = true;
        Ok(())
    }

    /// Whether interfaces are set for packets of calls.
    pub const fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// What ends the sending of the plan that is being played.
    pub fn brake(&self) -> Result<Brake, XdpError> {
        Ok(Brake(self.object.array("gen_state", 1)?))
    }

    /// From now on watches these tasks while it sends windowed plans.
    pub fn watch(&mut self, tasks: &[u64]) {
        self.n_watched = 0;
        if let Some((watched, _)) = &mut self.sight {
            self.n_watched = tasks.len().min(WATCHED);
            watched.fill(tasks[..self.n_watched].iter().copied(), WATCHED);
        }
    }

    /// Writes everything of a plan that does not depend on its start into the maps.
    pub fn prepare(&mut self, plan: &Plan, headers: &[Header], bodies: &Bodies) {
        let body_of = bodies.of_entry.iter().copied().chain(std::iter::repeat(0));
        let entries = plan.entries.iter().zip(body_of).map(|(e, body)| GenEntry {
            gap_ns: e.gap_ns,
            gap_frac: e.gap_frac,
            length: e.length,
            flow: e.flow,
            body,
        });
        self.entries.fill(entries, plan.entries.len());
        let flows = headers.iter().enumerate().map(|(i, header)| {
            let flow = GenFlow {
                header: *header.bytes(),
                l4_sum: header.l4_sum(),
                ip_sum: header.ip_sum(),
                ..GenFlow::default()
            };
            match &plan.media {
                Some(media) => media::with_header(flow, header.len(), &media.flows[i]),
                None => flow,
            }
        });
        self.flows.fill(flows, plan.flows.len());
        if let Some(media) = &plan.media {
            self.media.fill(media.packets.iter().map(media::entry), media.packets.len());
            self.bodies.fill(bodies.bodies.iter().copied(), bodies.bodies.len());
            self.slots.fill(bodies.slots.iter().copied(), bodies.slots.len());
        }
        self.bins.fill([], plan.n_bins());
        if let Some((_, looks)) = self.sight.as_mut().filter(|_| plan.windowed) {
            looks.fill([], plan.n_bins() + 2);
        }
        self.longest = plan.entries.iter().map(|e| e.length).max().unwrap_or(0);
        self.gaps_ns = plan.phases.iter().map(|phase| plan.mean_gap_ns(phase)).collect();
    }

    /// Makes the prepared plan of a share begin with its window; plain packets leave by `tx_ifindex`.
    pub fn arm(&mut self, share: &Share<'_>, header: &Header, tx_ifindex: u32, window: Window) {
        let plan = &*share.plan;
        self.config.set(
            0,
            GenConfig {
                start_ns: window.start_ns,
                record_start_ns: window.record_start_ns,
                record_end_ns: window.record_end_ns,
                catch_up_ns: plan.catch_up_ns,
                n_phases: plan.phases.len() as u32,
                n_flows: plan.n_known() as u32,
                tx_ifindex,
                header_len: header.len() as u32,
                input_len: self.input_len() as u32,
                bin_ns: plan.bin_ns,
                n_bins: plan.n_bins() as u32,
                magic: window.magic,
                paced: plan.paced.into(),
                ip: header.ip(),
                l4: header.l4().protocol(),
                skip: plan.skip,
                media: plan.media.is_some().into(),
                watched: if plan.windowed { self.n_watched as u8 } else { 0 },
                slip_most_ns: plan.slip_most_ns(),
                new_flow: plan.new_flow(),
                new_hosts: plan.new_flows().map_or(1, |new| new.hosts),
                new_host: plan.new_flows().map_or(0, |new| new.host),
                new_ports: plan.new_flows().map_or(1, |new| new.ports),
                new_port: plan.new_flows().map_or(0, |new| new.port),
                answered: plan.answers.is_some().into(),
                pad: [0; 3],
                first_flow: share.first_flow,
            },
        );
        let absolute = plan.phases.iter().map(|phase| GenPhase {
            end_ns: window.start_ns + phase.end_ns,
            first_entry: phase.first_entry,
            n_entries: phase.n_entries,
        });
        self.phases.fill(absolute, MAX_PHASES);
        self.state.set(0, GenState { next_ns: window.start_ns + share.offset_ns, ..GenState::default() });
    }

    /// Plays the prepared plan on the calling thread, which must be in the sender's
    /// namespace. Ends early when `stop` is set.
    pub fn play(&mut self, plan: &Plan, start_ns: u64, stop: &AtomicBool) -> Result<(), XdpError> {
        let frame = vec![0u8; self.input_len()];
        wait_until(start_ns.saturating_sub(LEAD_NS));
        while !stop.load(Ordering::Relaxed) {
            let state = self.state.get(0);
            let phase = state.phase as usize;
            let Some(&gap_ns) = self.gaps_ns.get(phase).filter(|_| state.done == 0) else {
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
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                (1, 1)
            };
            self.call(&frame, repeat, batch)?;
        }
        Ok(())
    }

    fn input_len(&self) -> usize {
        usize::from(self.longest) + usize::from(self.spare)
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
            // A signal ended the call early; the schedule is in the map, so continue from there.
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
        let flows = self.flows.read(plan.flows.len());
        let first_seq = plan.media.iter().flat_map(|_| flows.iter().map(|flow| flow.first_seq));
        Sent {
            recorded: state.sent_recorded,
            warmup: state.sent - state.sent_recorded,
            first_ns: state.first_ns,
            last_ns: state.last_ns,
            late_sum_ns: state.late_sum_ns,
            late_max_ns: state.late_max_ns,
            slipped_ns: state.slipped_ns,
            bins: self.bins.read(plan.n_bins()),
            looks: match &self.sight {
                Some((_, looks)) if plan.windowed && self.n_watched > 0 => looks.read(plan.n_bins() + 2),
                _ => Vec::new(),
            },
            n_watched: self.n_watched,
            first_seq: first_seq.collect(),
            flows: flows.iter().map(|flow| flow.sent).collect(),
            surplus: state.surplus,
            openings: flows
                .iter()
                .enumerate()
                .map(|(i, flow)| if i < plan.n_known() { flow.seq.min(1) } else { flow.seq })
                .map(u64::from)
                .sum(),
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
pub fn attach_aside(program: &mut Xdp) -> Result<File, XdpError> {
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
mod tests;
