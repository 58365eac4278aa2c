//! A trial while it runs: sending, watching for an interruption, waiting for stragglers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use weir_wire::Header;

use super::{Endpoint, EngineError, Options, Programs, Sockets, within};
use crate::outcome::{Answers, Received, Sent};
use crate::packet;
use crate::plan::{Bodies, Plan, Side};
use crate::priority;
use crate::thread;
use crate::window::Window;
use weir_clock::now_ns;

/// Time between the decision to start and the first departure.
pub const SETTLE_NS: u64 = 5_000_000;
/// How often a running trial checks for an interruption and for stragglers.
const POLL: Duration = Duration::from_millis(10);

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
    let Programs { generator, receiver, back, .. } = programs;
    generator.prepare(plan, headers, bodies);
    receiver.clear(plan, Side::Forward);
    if let Some(back) = back {
        back.clear(plan, Side::Back);
    }
    let result = play_programs(programs, plan, &headers[0], magic, tx_ifindex, options, steady, caller);
    let Programs { generator, receiver, back, .. } = programs;
    receiver.disarm();
    if let Some(back) = back {
        back.disarm();
    }
    let window = result?;
    let mut received = receiver.received(plan);
    let sent = generator.sent(plan);
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
    Programs { generator, receiver, back, .. }: &mut Programs,
    plan: &Plan,
    header: &Header,
    magic: u16,
    tx_ifindex: u32,
    options: &Options,
    steady: Steady,
    caller: &mut dyn Caller,
) -> Result<Window, EngineError> {
    let stop = AtomicBool::new(false);
    let window = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            within(&options.tx, || {
                steady.apply();
                // Writing a long plan takes a while, and so may getting the CPU: the trial begins when all is
                // in place.
                let window = Window::new(plan, now_ns() + SETTLE_NS, magic);
                generator.arm(plan, header, tx_ifindex, window);
                receiver.arm(plan, Side::Forward, window);
                if let Some(back) = &mut *back {
                    back.arm(plan, Side::Back, window);
                }
                generator.play(plan, window.start_ns, &stop).map(|()| window)
            })
        });
        let stopped = watch(&sender, &stop, caller);
        let window = thread::join(sender)??;
        stopped.map(|()| window)
    })?;
    let progress = || match &*back {
        Some(back) if plan.answers.is_none() => sum(receiver.progress(), back.progress()),
        _ => receiver.progress(),
    };
    await_stragglers(plan, generator.sent(plan).expected(), progress, caller)?;
    if let (Some(back), true) = (&*back, plan.answers.is_some()) {
        await_stragglers(plan, receiver.answers(), || back.progress(), caller)?;
    }
    Ok(window)
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
            steady.apply();
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
        let stopped = watch(&sending, stop_sending, caller);
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

/// Waits for the sender; passes an interruption on to it.
fn watch<T>(
    sender: &ScopedJoinHandle<'_, T>,
    stop: &AtomicBool,
    caller: &mut dyn Caller,
) -> Result<(), EngineError> {
    while !sender.is_finished() {
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

/// How the sending thread keeps its CPU.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    pub cpu: Option<usize>,
    pub real_time: bool,
}

impl Steady {
    /// Pins the calling thread to its CPU and gives it priority there, as far as that is allowed; a
    /// late sender reports its lateness in its outcome anyway.
    fn apply(self) {
        if let Some(cpu) = self.cpu {
            let _ = thread::pin(cpu);
        }
        if !self.real_time || priority::raise(0).is_err() {
            let _ = thread::take_precedence();
        }
    }
}
