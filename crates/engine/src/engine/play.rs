//! A trial while it runs: sending, watching for an interruption, waiting for stragglers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use weir_wire::Header;

use super::{Endpoint, EngineError, Options, Programs, Sockets, within};
use crate::outcome::{Answers, Received, Sent};
use crate::packet;
use crate::plan::{Bodies, Plan, Share, Side};
use crate::priority;
use crate::thread;
use crate::window::Window;
use crate::xdp::{Brake, Generator};
use weir_clock::now_ns;

/// Time between the decision to start and the first departure.
pub const SETTLE_NS: u64 = 5_000_000;
/// How often a running trial checks for an interruption and for stragglers.
const POLL: Duration = Duration::from_millis(10);
/// How often a thread looks whether another one is ready.
const BRIEF: Duration = Duration::from_micros(50);

type Played = (Sent, Received, Option<Answers>, Window);

/// What a running trial asks of whoever started it.
pub trait Caller {
    /// Whether the trial should stop; asked every few milliseconds.
    fn interrupted(&mut self) -> bool;

    /// Whether the device still holds packets; `None` if that is not known. Asked when no more packets arrive.
    fn holds(&mut self) -> Option<bool> {
        None
    }
}

/// Plays a plan with XDP programs that have room for it.
#[expect(clippy::too_many_arguments, reason = "called once")]
pub fn xdp(
    programs: &mut Programs,
    plan: &Plan,
    headers: &[Header],
    bodies: &Bodies,
    magic: u16,
    tx_ifindex: u32,
    options: &Options,
    steady: Steady,
    caller: &mut dyn Caller,
) -> Result<Played, EngineError> {
    let Programs { generators, receiver, back, .. } = programs;
    let shares = plan.shares(generators.len());
    for (generator, share) in generators.iter_mut().zip(&shares) {
        let own = &headers[share.first_flow as usize..][..share.plan.flows.len()];
        generator.prepare(&share.plan, own, bodies);
    }
    receiver.clear(plan, Side::Forward);
    if let Some(back) = back {
        back.clear(plan, Side::Back);
    }
    let result =
        play_programs(programs, plan, &shares, &headers[0], magic, tx_ifindex, options, steady, caller);
    let Programs { generators, receiver, back, .. } = programs;
    receiver.disarm();
    if let Some(back) = back {
        back.disarm();
    }
    let window = result?;
    let mut received = receiver.received(plan);
    let sent = sent(generators, &shares);
    let mut answers = None;
    if let Some(back) = back {
        let back = back.received(plan);
        if plan.answers.is_some() {
            answers = Some(Answers::of(&sent, &received.totals, &back, plan.n_known()));
        } else {
            received = received.merge(back, |flow| plan.side(flow) == Side::Back);
        }
    }
    Ok((sent, received, answers, window))
}

#[expect(clippy::too_many_arguments, reason = "called once")]
fn play_programs(
    Programs { generators, receiver, back, .. }: &mut Programs,
    plan: &Plan,
    shares: &[Share<'_>],
    header: &Header,
    magic: u16,
    tx_ifindex: u32,
    options: &Options,
    steady: Steady,
    caller: &mut dyn Caller,
) -> Result<Window, EngineError> {
    let (stop, begun) = (&AtomicBool::new(false), &OnceLock::new());
    let (steady_senders, senders) = (&AtomicUsize::new(0), shares.len());
    let brakes = generators.iter().map(Generator::brake).collect::<Result<Vec<_>, _>>()?;
    let mut receivers = Some((&mut *receiver, &mut *back));
    let playing = generators.iter_mut().zip(shares).enumerate();
    let window = std::thread::scope(|scope| {
        let mut sending = Vec::new();
        for (number, (generator, share)) in playing {
            let receivers = receivers.take();
            let send = move || {
                steady.apply(options.tx_cpus.get(number).copied());
                steady_senders.fetch_add(1, Ordering::SeqCst);
                if let Some((receiver, back)) = receivers {
                    pause_until(|| steady_senders.load(Ordering::SeqCst) == senders, stop);
                    // Writing a long plan takes a while, and so may getting the CPU: the trial begins when all is
                    // in place.
                    let window = Window::new(plan, now_ns() + SETTLE_NS, magic);
                    receiver.arm(plan, Side::Forward, window);
                    if let Some(back) = back {
                        back.arm(plan, Side::Back, window);
                    }
                    let _ = begun.set(window);
                }
                pause_until(|| begun.get().is_some(), stop);
                let Some(&window) = begun.get() else { return Ok(()) };
                generator.arm(share, header, tx_ifindex, window);
                generator.play(&share.plan, window.start_ns, stop)
            };
            sending.push(scope.spawn(move || {
                let played = within(&options.tx, send);
                // The others must not wait for one that fails, nor send without it.
                if !matches!(played, Ok(Ok(()))) {
                    stop.store(true, Ordering::Relaxed);
                }
                played
            }));
        }
        let is_over = || sending.iter().all(ScopedJoinHandle::is_finished);
        let stopped = watch(is_over, stop, caller).inspect_err(|_| brakes.iter().for_each(Brake::pull));
        for sender in sending {
            thread::join(sender)??;
        }
        stopped.and_then(|()| begun.get().copied().ok_or(EngineError::Interrupted))
    })?;
    let progress = || match &*back {
        Some(back) if plan.answers.is_none() => sum(receiver.progress(), back.progress()),
        _ => receiver.progress(),
    };
    await_stragglers(plan, sent(generators, shares).expected(), progress, caller)?;
    if let (Some(back), true) = (&*back, plan.answers.is_some()) {
        await_stragglers(plan, receiver.answers(), || back.progress(), caller)?;
    }
    Ok(window)
}

/// What all senders counted; after `play`.
fn sent(generators: &[Generator], shares: &[Share<'_>]) -> Sent {
    let parts = generators.iter().zip(shares).map(|(generator, share)| generator.sent(&share.plan));
    parts.reduce(Sent::merge).unwrap_or_default()
}

/// Waits for another thread, or until `stop` is set.
fn pause_until(condition: impl Fn() -> bool, stop: &AtomicBool) {
    while !condition() && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(BRIEF);
    }
}

/// Plays a plan over packet sockets.
pub fn packet(
    Sockets { forward, back }: &Sockets,
    plan: &Plan,
    headers: &[Header],
    magic: u16,
    options: &Options,
    steady: Steady,
    caller: &mut dyn Caller,
) -> Result<Played, EngineError> {
    let (stop_sending, stop_counting) = (&AtomicBool::new(false), &AtomicBool::new(false));
    let progress = &[packet::Progress::default(), packet::Progress::default()];
    let (receiver, back_receiver) = (&forward.1, back.as_ref().map(|sockets| &sockets.1));
    std::thread::scope(|scope| {
        // Getting the CPU may take the sender a while: the trial begins when it has it.
        let ((steadied, is_steady), (begin, begins)) = (mpsc::channel(), mpsc::channel());
        let sending = scope.spawn(move || {
            steady.apply(options.tx_cpus.first().copied());
            let _ = steadied.send(());
            let window = begins.recv().unwrap_or_else(|_| Window::new(plan, now_ns(), magic));
            forward.0.play(back.as_ref().map(|b| &b.0), plan, headers, window, stop_sending)
        });
        let _ = is_steady.recv();
        let window = Window::new(plan, now_ns() + SETTLE_NS, magic);
        let count = move |receiver: &'_ packet::Receiver, side: Side| {
            receiver.count(plan, side, window, &progress[side as usize], stop_counting)
        };
        let counting = scope.spawn(move || count(receiver, Side::Forward));
        let counting_back = back_receiver.map(|receiver| scope.spawn(move || count(receiver, Side::Back)));
        let _ = begin.send(window);
        let stopped = watch(|| sending.is_finished(), stop_sending, caller);
        let sent = thread::join(sending);
        let waited = match &sent {
            Ok(sent) if stopped.is_ok() => {
                let arrived = || sum(progress[0].read(), progress[1].read());
                await_stragglers(plan, sent.expected(), arrived, caller)
            }
            _ => Ok(()),
        };
        stop_counting.store(true, Ordering::Relaxed);
        let (received, received_back) = (thread::join(counting), counting_back.map(thread::join));
        stopped.and(waited)?;
        let error = |at: &Endpoint| {
            let interface = at.interface.clone();
            |source| EngineError::Socket { interface, source }
        };
        let sent = sent.map_err(error(&options.tx))?;
        let mut received = received.map_err(error(&options.rx))?;
        if let Some(back) = received_back {
            let back = back.map_err(error(&options.tx))?;
            received = received.merge(back, |flow| plan.side(flow) == Side::Back);
        }
        Ok((sent, received, None, window))
    })
}

/// Waits for the senders; passes an interruption on to them.
fn watch(is_over: impl Fn() -> bool, stop: &AtomicBool, caller: &mut dyn Caller) -> Result<(), EngineError> {
    while !is_over() {
        if caller.interrupted() {
            stop.store(true, Ordering::Relaxed);
            return Err(EngineError::Interrupted);
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Waits until every packet has come, or none has come for a while and the device holds none.
fn await_stragglers(
    plan: &Plan,
    sent: u64,
    progress: impl Fn() -> (u64, u64),
    caller: &mut dyn Caller,
) -> Result<(), EngineError> {
    let mut ended_ns = now_ns();
    let mut empty = false;
    loop {
        let (arrived, last_ns) = progress();
        if arrived >= sent {
            return Ok(());
        }
        let now = now_ns();
        let quiet = now.saturating_sub(last_ns.max(ended_ns)) >= plan.quiet_ns;
        if quiet || now >= ended_ns + plan.straggler_ns {
            match caller.holds() {
                None => return Ok(()),
                Some(false) if empty => return Ok(()),
                // What has just left the device may still be on its way to the receiver.
                Some(holds) => (empty, ended_ns) = (!holds, now),
            }
        }
        if caller.interrupted() {
            return Err(EngineError::Interrupted);
        }
        std::thread::sleep(POLL.min(Duration::from_nanos(plan.quiet_ns / 4 + 1)));
    }
}

/// Probes so far and the time of the last one, at two receivers.
fn sum(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0 + b.0, a.1.max(b.1))
}

/// How sending threads keep their CPUs.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    pub real_time: bool,
}

impl Steady {
    /// Pins the calling thread to `cpu` and gives it priority there, as far as that is allowed; a
    /// late sender reports its lateness in its outcome anyway.
    fn apply(self, cpu: Option<usize>) {
        if let Some(cpu) = cpu {
            let _ = thread::pin(cpu);
        }
        if !self.real_time || priority::raise(0).is_err() {
            let _ = thread::take_precedence();
        }
    }
}
