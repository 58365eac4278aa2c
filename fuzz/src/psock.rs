//! What the fuzz target `psock` does with its bytes, and what must hold whatever these are.
//!
//! `crates/psock/tests/hostile.rs` runs the same function over random bytes and over the committed seeds.

use weir_psock::schedule::{PathStats, SCHEDULERS, StreamId, scheduler};
use weir_psock::session::{Config, Read, Session};
use weir_psock::wire::{Frame, HEADER_BYTES, Hello, Initiator, Reason, Responder};

const MEMORY_BYTES: usize = 4096;
const BLOCK_BYTES: usize = 256;
const MOST_STREAMS: usize = 4;

/// Commands made of bytes, and a session that they are for.
struct Play<'a> {
    bytes: &'a [u8],
    session: Session,
    streams: Vec<StreamId>,
    now_ns: u64,
    read_bytes: u64,
}

/// Both sides of a greeting whose other side is made of `data`.
fn greet(data: &[u8]) {
    if let Some((hello, rest)) = data.split_first_chunk()
        && let Ok(hello) = Hello::parse(hello)
    {
        let responder = Responder::open(b"token", hello, [3; 16]);
        assert!(rest.first_chunk().is_none_or(|proof| responder.verify(proof).is_err()));
    }
    let Some((reply, rest)) = data.split_first_chunk() else { return };
    let Ok(proved) = Initiator::open(b"token", [1; 16], [2; 16]).prove(reply) else { return };
    // Nobody can guess a proof.
    assert!(rest.first_chunk().is_none_or(|welcome| proved.welcomed(welcome).is_err()));
}

/// Lets a peer that knows the key do what `data` says; the first byte chooses the scheduler, and whether streams are
/// coupled. How it ended.
pub fn psock(data: &[u8]) -> &'static str {
    greet(data);
    let Some((choice, bytes)) = data.split_first() else { return "nothing" };
    let name = SCHEDULERS[usize::from(*choice) % SCHEDULERS.len()];
    let config = Config {
        receive_bytes: MEMORY_BYTES,
        send_bytes: MEMORY_BYTES,
        block_bytes: BLOCK_BYTES as u32,
        is_fair: choice & 0x80 != 0,
        ..Config::default()
    };
    let session = Session::new(config, scheduler(name).expect("a scheduler of that name"));
    let mut play = Play { bytes, session, streams: Vec::new(), now_ns: 0, read_bytes: 0 };
    while !play.bytes.is_empty() {
        play.step();
        play.check();
    }
    match play.session.failure() {
        Some(_) => "failed",
        None if play.session.is_finished() => "finished",
        None => "open",
    }
}

impl Play<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        u64::from(u16::from_le_bytes([self.byte(), self.byte()]))
    }

    fn part(&mut self, len: usize) -> Vec<u8> {
        let (part, rest) = self.bytes.split_at(len.min(self.bytes.len()));
        self.bytes = rest;
        part.to_vec()
    }

    fn stream(&mut self) -> Option<StreamId> {
        let choice = usize::from(self.byte());
        if self.streams.is_empty() { None } else { Some(self.streams[choice % self.streams.len()]) }
    }

    fn hear(&mut self, bytes: &[u8]) {
        let Some(id) = self.stream() else { return };
        let heard = self.session.input(id, bytes, self.now_ns);
        assert_eq!(heard.err(), self.session.failure());
    }

    fn step(&mut self) {
        match self.byte() % 16 {
            0 => {
                let len = usize::from(self.byte());
                let raw = self.part(len);
                self.hear(&raw);
            }
            1 | 2 => {
                let (offset, len) = (self.number(), u32::from(self.byte()) + 1);
                let mut frame = Frame::Data { offset, len }.emit().to_vec();
                frame.resize(HEADER_BYTES + len as usize, 0x55);
                self.hear(&frame);
            }
            3 | 4 => {
                let frame = Frame::Ack { next: self.number(), limit: self.number() };
                self.hear(&frame.emit());
            }
            5 => {
                let frame = Frame::End { total: self.number() };
                self.hear(&frame.emit());
            }
            6 => {
                let frame = Frame::Ping { number: self.number() };
                self.hear(&frame.emit());
            }
            7 => {
                let frame = Frame::Pong { number: self.now_ns.saturating_sub(self.number()) };
                self.hear(&frame.emit());
            }
            8 => {
                let bytes = vec![0xaa; self.number() as usize % (2 * MEMORY_BYTES)];
                let _ = self.session.write(&bytes);
            }
            9 => {
                let mut into = vec![0; self.number() as usize % (2 * MEMORY_BYTES)];
                if let Ok(Read::Bytes(len)) = self.session.read(&mut into) {
                    self.read_bytes += len as u64;
                }
            }
            10 | 11 => {
                self.now_ns += self.number() * 1_000_000;
                self.session.drive(self.now_ns);
                while let Some(dead) = self.session.take_dead() {
                    self.streams.retain(|id| *id != dead);
                }
            }
            12 => {
                if self.streams.len() < MOST_STREAMS {
                    self.streams.extend(self.session.attach(self.now_ns));
                }
            }
            13 => {
                if let Some(id) = self.stream() {
                    self.session.detach(id);
                    self.streams.retain(|other| *other != id);
                }
            }
            14 => {
                let taken = self.number() as usize;
                if let Some(id) = self.stream() {
                    let acked_bytes = self.number();
                    self.session.sent(id, taken);
                    self.session.set_writable(id);
                    let stats = PathStats {
                        acked_bytes,
                        unacked_bytes: acked_bytes % 7,
                        sacked_bytes: acked_bytes % 5,
                        srtt_ns: acked_bytes << 10,
                        mss_bytes: acked_bytes % 3,
                        cwnd_bytes: acked_bytes,
                        ssthresh_bytes: (acked_bytes % 11) << 12,
                        retransmitted_segments: acked_bytes % 5,
                        ..PathStats::default()
                    };
                    self.session.set_stats(id, stats, self.now_ns);
                    assert!(self.session.pacing_bytes_per_s(id).is_none_or(|rate| rate > 0));
                }
            }
            _ => match self.byte() % 8 {
                0 => self.session.finish(),
                1 => self.hear(&Frame::Abort { reason: Reason::Closed }.emit()),
                2 => self.session.abort(),
                _ => {}
            },
        }
    }

    fn check(&self) {
        let totals = self.session.totals();
        let memory = MEMORY_BYTES as u64;
        assert!(totals.received_bytes - self.read_bytes + totals.reorder_bytes <= memory, "{totals:?}");
        assert!(totals.written_bytes - totals.acknowledged_bytes <= memory, "{totals:?}");
        for id in &self.streams {
            // A block and its header, what may precede it, and an abort.
            let most = BLOCK_BYTES + 12 * HEADER_BYTES;
            assert!(self.session.pending(*id).len() <= most, "{}", self.session.pending(*id).len());
        }
    }
}
