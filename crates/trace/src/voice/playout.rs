//! An adaptive jitter buffer; `weirlab.quality.jitterbuffer.adaptive` says which, and what is not in the paper.

/// Algorithm 4 of Ramjee et al. 1994, whose units are samples at 8 kHz.
const GAIN: f64 = 0.125;
const MARGIN: f64 = 4.0;
const SPIKE_NS: f64 = 800.0 / 8.0 * 1e6;
const SPIKE_END_NS: f64 = 63.0 / 8.0 * 1e6;
/// Two consecutive packets sent this many packet times apart have silence between them.
const SPURT_GAP_PACKETS: f64 = 1.5;

/// A packet that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its place among the packets sent, 0 or more.
    pub number: i64,
    /// When it was sent.
    pub sent_ns: i64,
    /// How long it travelled, by two clocks that need not agree.
    pub transit_ns: i64,
}

/// Limits of the depth, and how often a buffer adjusts within speech.
#[derive(Clone, Copy, Debug)]
pub struct Depths {
    /// At least so deep.
    pub least_ns: f64,
    /// At most so deep.
    pub most_ns: f64,
    /// Time between adjustments.
    pub adjust_ns: f64,
}

/// The buffer of one stream.
#[derive(Clone, Debug)]
pub struct AdaptiveBuffer {
    depths: Depths,
    packet_ns: f64,
    mean: f64,
    deviation: f64,
    /// Transits of the last two packets, the later one first.
    last: Option<[f64; 2]>,
    slope: f64,
    spiking: bool,
    /// Play-out delays since `since_ns`, and before.
    play: [f64; 2],
    since_ns: f64,
    newest: (i64, f64),
}

impl AdaptiveBuffer {
    /// Of a stream of packets that last `packet_ns`.
    #[must_use]
    pub const fn new(packet_ns: f64, depths: Depths) -> Self {
        Self {
            depths,
            packet_ns,
            mean: 0.0,
            deviation: packet_ns / MARGIN,
            last: None,
            slope: 0.0,
            spiking: false,
            play: [0.0; 2],
            since_ns: f64::NEG_INFINITY,
            newest: (-1, f64::NEG_INFINITY),
        }
    }

    /// How long after its departure the packet is to be played, ns; packets come in the order of their arrival.
    pub fn play(&mut self, packet: Arrival) -> f64 {
        let (sent, transit) = (packet.sent_ns as f64, packet.transit_ns as f64);
        match self.last {
            Some(last) => self.observe(transit, last),
            None => self.mean = transit,
        }
        self.last = Some([transit, self.last.map_or(transit, |last| last[0])]);
        let (number, newest_sent) = self.newest;
        if packet.number > number {
            let steps = (packet.number - number) as f64;
            let silent = sent - newest_sent > SPURT_GAP_PACKETS * self.packet_ns * steps;
            if silent || sent - self.since_ns >= self.depths.adjust_ns {
                let depth = (MARGIN * self.deviation).max(self.depths.least_ns).min(self.depths.most_ns);
                self.play = [self.mean + depth, self.play[0]];
                self.since_ns = sent;
            }
            self.newest = (packet.number, sent);
        }
        // A packet from before the adjustment that arrives after it belongs to the old spurt.
        self.play[usize::from(sent < self.since_ns)]
    }

    fn observe(&mut self, transit: f64, [last, before_last]: [f64; 2]) {
        let change = transit - last;
        if self.spiking {
            self.slope = self.slope / 2.0 + (2.0 * transit - last - before_last).abs() / 8.0;
            self.spiking = self.slope > SPIKE_END_NS;
            if !self.spiking {
                // The packet that ends a spike updates neither average.
                return;
            }
        } else if change.abs() > 2.0 * self.deviation + SPIKE_NS {
            self.spiking = true;
            self.slope = 0.0;
        }
        self.mean = if self.spiking { self.mean + change } else { GAIN * transit + (1.0 - GAIN) * self.mean };
        self.deviation = GAIN * (transit - self.mean).abs() + (1.0 - GAIN) * self.deviation;
    }
}
