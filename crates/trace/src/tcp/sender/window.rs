//! The window that one end advertises.

use super::super::segment::{RST, SYN, Segment};
use super::{Sender, elapsed};

/// What a packet says about the window of its sender.
#[derive(Clone, Copy, Debug)]
pub struct Advertised {
    /// Scaled.
    pub window: u32,
    /// As it was before.
    pub unchanged: bool,
    /// The SYN of the advertising end was seen.
    pub syn_seen: bool,
}

impl Sender {
    /// A packet's window, scaled.
    #[inline]
    pub fn scaled(&self, segment: &Segment<'_>) -> u32 {
        // The window of a SYN is never scaled (RFC 7323 section 2.2).
        u32::from(segment.window) << if segment.has(SYN) { 0 } else { self.shift }
    }

    /// Takes the window that a packet advertises.
    #[inline]
    pub fn advertise(&mut self, segment: &Segment<'_>) -> Advertised {
        let window = self.scaled(segment);
        let found = Advertised { window, unchanged: self.window == Some(window), syn_seen: self.syn_seen };
        if segment.has(SYN) {
            self.window = Some(window);
            return found;
        }
        if segment.has(RST) {
            return found;
        }
        let side = &mut self.side;
        side.window = Some(side.window.map_or((window, window), |(a, b)| (a.min(window), b.max(window))));
        match (window, self.zero_since) {
            (0, None) => {
                side.zero_windows += 1;
                self.zero_since = Some(segment.time_ns);
            }
            (1.., Some(since)) => {
                side.zero_window_ns = side.zero_window_ns.saturating_add(elapsed(since, segment.time_ns));
                self.zero_since = None;
            }
            _ => {}
        }
        self.window = Some(window);
        found
    }

    #[inline]
    pub fn window_is_closed(&self) -> bool {
        self.zero_since.is_some()
    }
}
