//! Frames that leave a little early, so that they are on time on average.

/// Frames leave sooner by no more than this.
const MOST_NS: f64 = 500_000.0;
/// Beyond this, more lateness counts as this much: a host that stops the thread now and then is no reason to send
/// all other frames sooner (Huber, "Robust estimation of a location parameter", 1964).
const COUNTED_NS: f64 = 250_000.0;
/// How fast it follows, in frames.
const FRAMES: f64 = 1024.0;

/// How much sooner than they are due frames leave that a device holds up.
///
/// All frames that one interruption held up are due at one moment, but the host sends one after the other. If the
/// first were on time, all the others would be late: by 0.1 ms on average, if 100 take 2 µs each.
#[derive(Clone, Debug, Default)]
pub struct Lead {
    ns: f64,
}

impl Lead {
    /// In ns.
    pub const fn ns(&self) -> u64 {
        self.ns as u64
    }

    /// A frame that could leave sooner left at `left_ns`, and was due at `due_ns`.
    pub fn follow(&mut self, left_ns: u64, due_ns: u64) {
        let late_ns = left_ns as f64 - due_ns as f64;
        self.ns = (self.ns + late_ns.clamp(-COUNTED_NS, COUNTED_NS) / FRAMES).clamp(0.0, MOST_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEND_NS: u64 = 2_000;

    /// Bursts of 100 frames, each due at one moment, every 10 ms; how late every frame of the last ten left.
    fn lateness(lead: &mut Lead, stopped_ns: impl Fn(u64) -> u64) -> Vec<f64> {
        let mut late_ns = Vec::new();
        for burst in 1..=200 {
            let due_ns = burst * 10_000_000;
            let mut now_ns = due_ns - lead.ns() + stopped_ns(burst);
            for _ in 0..100 {
                now_ns += SEND_NS;
                lead.follow(now_ns, due_ns);
                if burst > 190 {
                    late_ns.push(now_ns as f64 - due_ns as f64);
                }
            }
        }
        late_ns
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn frames_of_bursts_are_on_time_on_average() {
        let late_ns = lateness(&mut Lead::default(), |_| 0);
        assert!(mean(&late_ns).abs() < 5_000.0, "{}", mean(&late_ns));
        assert!(late_ns.iter().all(|ns| ns.abs() < 120_000.0));
    }

    #[test]
    fn a_host_that_stops_the_thread_now_and_then_makes_few_frames_early() {
        let mut lead = Lead::default();
        lateness(&mut lead, |burst| if burst % 20 == 10 { 50_000_000 } else { 0 });
        // A twentieth of the frames count as 0.25 ms late each, the others are on time otherwise.
        assert!((90_000..130_000).contains(&lead.ns()), "{}", lead.ns());
    }

    #[test]
    fn no_frame_leaves_sooner_than_half_a_millisecond_before_its_time() {
        let mut lead = Lead::default();
        (0..100_000).for_each(|_| lead.follow(1_000_000_000, 0));
        assert_eq!(lead.ns(), 500_000);
        (0..100_000).for_each(|_| lead.follow(0, 1_000_000_000));
        assert_eq!(lead.ns(), 0);
    }
}
