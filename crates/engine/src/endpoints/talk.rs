//! An endpoint at work: one loop that receives, decapsulates and checks, and that builds, encapsulates and sends
//! what is due, each packet from beginning to end.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_esp::{Inbound, Outbound};

use super::calls::{Calls, Fault, Form, Script};
use super::port::{BATCH, Port};
use weir_clock::{now_ns, thread_cpu_ns};

/// The longest packet, with room in front and behind for ESP.
const ROOM: usize = 2048;

/// ESP at one endpoint.
pub struct Security {
    /// For what it sends.
    pub outbound: Outbound,
    /// For what it receives.
    pub inbound: Inbound,
}

/// When endpoints talk. CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// From then on.
    pub begins_ns: u64,
    /// How long one that has sent everything waits for what it has not heard yet.
    pub linger_ns: u64,
    /// The end in any case, also of one that does not get done with sending.
    pub ends_ns: u64,
}

/// What one endpoint did and heard. Times are CLOCK_MONOTONIC; those of packets are by call, then by sequence
/// number, and 0 where there was none.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// When it began to build each packet.
    pub sent_ns: Vec<u64>,
    /// When it had decapsulated and checked each packet of the other endpoint.
    pub heard_ns: Vec<u64>,
    /// Packets that never left: not taken by the system, or not encapsulated.
    pub refused: u64,
    /// Packets that came again.
    pub duplicated: u64,
    /// Packets that did not arrive as they were sent, or that ESP rejected.
    pub damaged: u64,
    /// Packets that belong to nobody here.
    pub foreign: u64,
    /// Shortest IP packet that arrived, with ESP.
    pub shortest_bytes: usize,
    /// Longest IP packet that arrived, with ESP.
    pub longest_bytes: usize,
    /// CPU time of its thread.
    pub cpu_ns: u64,
    /// Time of the turns in which packets were sent, handed to the system again, or received, as opposed to
    /// looking for some in vain.
    pub work_ns: u64,
    /// Turns of the loop.
    pub turns: u64,
}

/// One of the two endpoints.
pub struct Endpoint {
    script: Script,
    sends: Form,
    hears: Form,
    security: Option<Security>,
    buffer: Box<[u8; ROOM]>,
    packet_bytes: usize,
    headroom: usize,
    packets: usize,
    missing: usize,
    /// Packets that the port accepted and the system has not taken yet, by their places in the log.
    waiting: VecDeque<usize>,
    log: Log,
}

impl Endpoint {
    /// The endpoint with that number, 0 or 1; `sends` and `hears` are the forms of packets there and back.
    #[must_use]
    pub fn new(calls: &Calls, number: usize, sends: Form, hears: Form, security: Option<Security>) -> Self {
        let all = calls.count() * calls.packets as usize;
        Self {
            script: Script::new(calls, number),
            sends,
            hears,
            headroom: security.as_ref().map_or(0, |security| security.outbound.headroom()),
            security,
            buffer: Box::new([0; ROOM]),
            packet_bytes: calls.packet_bytes(),
            packets: calls.packets as usize,
            missing: all,
            waiting: VecDeque::new(),
            log: Log { sent_ns: vec![0; all], heard_ns: vec![0; all], ..Log::default() },
        }
    }

    /// Talks until everything was sent and heard, the time is over, or `stop` is set.
    ///
    /// # Errors
    /// The port does not work any more.
    pub fn talk<P: Port>(mut self, port: &mut P, span: Span, stop: &AtomicBool) -> io::Result<Log> {
        let Span { begins_ns, linger_ns, mut ends_ns } = span;
        let cpu_ns = thread_cpu_ns();
        let mut is_said = false;
        loop {
            let turn_ns = now_ns();
            let heard = port.receive(&mut |packet| self.hear(packet))?;
            let was_waiting = !self.waiting.is_empty();
            let said = self.say(port, begins_ns)?;
            self.log.turns += 1;
            let now = now_ns();
            if heard + said > 0 || was_waiting {
                self.log.work_ns += now - turn_ns;
            }
            if !is_said && self.script.next().is_none() {
                is_said = true;
                ends_ns = ends_ns.min(now + linger_ns);
            }
            if (is_said && self.missing == 0 && self.waiting.is_empty())
                || now >= ends_ns
                || stop.load(Ordering::Relaxed)
            {
                break;
            }
            let next_ns = self.script.next().map_or(ends_ns, |due| begins_ns + due.after_ns);
            port.give_way(now, next_ns);
            if heard + said == 0 {
                port.wait(next_ns)?;
            }
        }
        for place in self.waiting {
            self.log.sent_ns[place] = 0;
            self.log.refused += 1;
        }
        self.log.cpu_ns = thread_cpu_ns() - cpu_ns;
        Ok(self.log)
    }

    /// Sends what is due, at most [`BATCH`] packets; how many.
    fn say<P: Port>(&mut self, port: &mut P, begins_ns: u64) -> io::Result<usize> {
        let mut said = 0;
        while said < BATCH
            && let Some(due) = self.script.next()
        {
            let now = now_ns();
            if begins_ns + due.after_ns > now {
                break;
            }
            self.script.advance();
            said += 1;
            let start = self.headroom;
            let clear = start..start + self.packet_bytes;
            let with_checksum = P::ADDS_CHECKSUM || self.security.is_some();
            self.sends.write(&mut self.buffer[clear.clone()], due.call, due.number, with_checksum);
            let made = match &mut self.security {
                None => Some(clear),
                Some(security) => security.outbound.encapsulate(&mut self.buffer[..], clear).ok(),
            };
            let accepted = match made {
                Some(made) => port.send(&self.buffer[made])?,
                None => false,
            };
            if accepted {
                let place = due.call as usize * self.packets + due.number as usize;
                self.log.sent_ns[place] = now;
                self.waiting.push_back(place);
            } else {
                self.log.refused += 1;
            }
        }
        if !self.waiting.is_empty() {
            let left = port.flush()?;
            self.waiting.drain(..self.waiting.len().saturating_sub(left));
        }
        Ok(said)
    }

    fn hear(&mut self, packet: &mut [u8]) {
        let len = packet.len();
        let inside = match &mut self.security {
            None => 0..len,
            Some(security) => match security.inbound.decapsulate(packet) {
                Ok(inside) => inside,
                Err(_) => {
                    self.log.damaged += 1;
                    return;
                }
            },
        };
        match self.hears.read(&packet[inside]) {
            Err(Fault::Foreign) => self.log.foreign += 1,
            Err(Fault::Damaged) => self.log.damaged += 1,
            Ok((call, number)) => {
                let log = &mut self.log;
                log.longest_bytes = log.longest_bytes.max(len);
                log.shortest_bytes = if log.shortest_bytes == 0 { len } else { log.shortest_bytes.min(len) };
                let heard_ns = &mut log.heard_ns[call as usize * self.packets + number as usize];
                if *heard_ns == 0 {
                    *heard_ns = now_ns();
                    self.missing -= 1;
                } else {
                    log.duplicated += 1;
                }
            }
        }
    }
}
