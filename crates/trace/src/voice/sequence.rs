//! Sequence numbers and time stamps continued beyond their 16 and 32 bits.

/// RFC 3550 appendix A.1: a number this far ahead is not a gap, one this far back is not late.
const MAX_DROPOUT: u16 = 3_000;
const MAX_MISORDER: u16 = 100;
/// Longer gaps are not loss: the stream ended and began again (23 hours of 50 packets/s).
const MAX_GAP: f64 = 4_194_304.0;

/// The highest number so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    highest: i64,
}

impl Sequence {
    /// Begins with the first packet's own number.
    #[must_use]
    pub fn new(first: u16) -> Self {
        Self { highest: first.into() }
    }

    /// The place of a number; `None` if it is too far away.
    #[must_use]
    pub fn place(self, number: u16) -> Option<i64> {
        let ahead = number.wrapping_sub(self.highest as u16);
        if ahead < MAX_DROPOUT {
            Some(self.highest + i64::from(ahead))
        } else {
            let back = ahead.wrapping_neg();
            (back <= MAX_MISORDER).then(|| self.highest - i64::from(back))
        }
    }

    /// How many numbers a packet skips if it comes next and in order.
    #[must_use]
    pub const fn skipped_by(self, number: u16) -> u16 {
        number.wrapping_sub(self.highest as u16).wrapping_sub(1)
    }

    /// The place of a number that has one.
    #[must_use]
    pub fn place_near(self, number: u16) -> i64 {
        self.highest + i64::from(number.wrapping_sub(self.highest as u16).cast_signed())
    }

    /// The place behind so many numbers that were skipped.
    #[must_use]
    pub const fn after(self, skipped: i64) -> i64 {
        self.highest + 1 + skipped
    }

    /// Marks a place as used.
    pub fn advance(&mut self, place: i64) {
        self.highest = self.highest.max(place);
    }

    /// The place of a number after a gap in which about `expected` packets passed; `None` if the gap does not
    /// fit it.
    #[must_use]
    pub fn beyond(self, number: u16, expected: f64) -> Option<i64> {
        let gap = around(number.wrapping_sub(self.highest as u16), expected) as f64;
        // A tenth more or less: packets of a paused speaker are not sent, clocks differ.
        (gap <= MAX_GAP && (gap - expected).abs() <= (expected * 0.1).max(50.0))
            .then(|| self.highest + gap as i64)
    }
}

/// The number with these 16 low bits that is nearest to an expected one, and not less than they alone.
#[must_use]
pub fn around(low: u16, expected: f64) -> i64 {
    let rounds = ((expected - f64::from(low)) / 65_536.0).round().max(0.0);
    i64::from(low).saturating_add((rounds as i64).saturating_mul(65_536))
}

/// `stamp` as the number nearest to `last` with the same low 32 bits.
#[must_use]
pub fn extend(last: i64, stamp: u32) -> i64 {
    last.saturating_add(i64::from(stamp.wrapping_sub(last as u32).cast_signed()))
}

/// `stamp` as the number nearest to `near` with the same low 16 bits.
#[must_use]
pub fn extend16(near: i64, stamp: u16) -> i64 {
    near.saturating_add(i64::from(stamp.wrapping_sub(near as u16).cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_beyond_16_bits_and_back() {
        let mut sequence = Sequence::new(65_534);
        for (number, place) in [(65_535, 65_535), (0, 65_536), (2, 65_538), (1, 65_537), (65_535, 65_535)] {
            assert_eq!(sequence.place(number), Some(place));
            sequence.advance(place);
        }
        assert_eq!(Sequence::new(0).place(65_535), Some(-1));
    }

    #[test]
    fn what_is_too_far_away_has_no_place() {
        let sequence = Sequence::new(1_000);
        assert_eq!(sequence.place(3_999), Some(3_999));
        assert_eq!(sequence.place(4_000), None);
        assert_eq!(sequence.place(900), Some(900));
        assert_eq!(sequence.place(899), None);
    }

    #[test]
    fn a_long_gap_fits_the_time_it_took_or_is_none() {
        let sequence = Sequence::new(1_000);
        assert_eq!(sequence.beyond(6_000, 5_100.0), Some(6_000));
        assert_eq!(sequence.beyond(6_000, 70_000.0), Some(6_000 + 65_536));
        assert_eq!(sequence.beyond(6_000, 10.0), None);
    }

    #[test]
    fn time_stamps_go_on_beyond_their_bits() {
        assert_eq!(extend(0xffff_ffff, 159), 0x1_0000_0000 + 159);
        assert_eq!(extend(0x1_0000_0000, 0xffff_fff0), 0xffff_fff0);
        assert_eq!(extend16(65_530, 10), 65_546);
    }
}
