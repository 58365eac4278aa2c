//! Frames chosen by their numbers.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Numbers of frames: single ones, ranges, and every n-th.
///
/// As text, items with commas between them:
///
/// | item | frames |
/// |---|---|
/// | `5` | the fifth |
/// | `30-39` | ten of them |
/// | `/100` | 100, 200, 300 ... |
/// | `7/100` | 7, 107, 207 ... |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// In order, and apart from each other.
    ranges: Vec<(u64, u64)>,
    /// First and step.
    periods: Vec<(u64, u64)>,
}

/// Why a text is not a pattern.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{item:?} names no frames: expected 5, 30-39, /100 or 7/100, numbers from 1")]
pub struct PatternError {
    /// What was not understood.
    item: String,
}

impl Pattern {
    /// Whether frame `number` is among them; `cursor` starts at 0 and is for numbers that only grow.
    pub(crate) fn takes(&self, number: u64, cursor: &mut usize) -> bool {
        while self.ranges.get(*cursor).is_some_and(|&(_, last)| last < number) {
            *cursor += 1;
        }
        self.ranges.get(*cursor).is_some_and(|&(first, _)| first <= number)
            || self
                .periods
                .iter()
                .any(|&(first, step)| number >= first && (number - first).is_multiple_of(step))
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let (mut ranges, mut periods) = (Vec::new(), Vec::new());
        for item in text.split(',') {
            let wrong = || PatternError { item: item.trim().chars().take(80).collect() };
            let number = |text: &str| text.trim().parse::<u64>().ok().filter(|&n| n > 0).ok_or_else(wrong);
            if let Some((first, step)) = item.split_once('/') {
                let step = number(step)?;
                periods.push((if first.trim().is_empty() { step } else { number(first)? }, step));
            } else if let Some((first, last)) = item.split_once('-') {
                let (first, last) = (number(first)?, number(last)?);
                if last < first {
                    return Err(wrong());
                }
                ranges.push((first, last));
            } else {
                let number = number(item)?;
                ranges.push((number, number));
            }
        }
        ranges.sort_unstable();
        let mut apart: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match apart.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => apart.push((first, last)),
            }
        }
        Ok(Self { ranges: apart, periods })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self
            .ranges
            .iter()
            .map(|&(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
        let periods = self
            .periods
            .iter()
            .map(|&(first, step)| if first == step { format!("/{step}") } else { format!("{first}/{step}") });
        f.write_str(&ranges.chain(periods).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str, up_to: u64) -> Vec<u64> {
        let pattern: Pattern = text.parse().expect("a pattern");
        let mut cursor = 0;
        (1..=up_to).filter(|&number| pattern.takes(number, &mut cursor)).collect()
    }

    #[test]
    fn items_name_the_frames_that_the_table_says() {
        assert_eq!(taken("5", 10), [5]);
        assert_eq!(taken("3-5", 10), [3, 4, 5]);
        assert_eq!(taken("/4", 12), [4, 8, 12]);
        assert_eq!(taken("2/5", 13), [2, 7, 12]);
        assert_eq!(taken("17, 5,/100", 200), [5, 17, 100, 200]);
    }

    #[test]
    fn items_may_overlap_and_come_in_any_order() {
        assert_eq!(taken("9,2-4,3-6,7,1", 10), [1, 2, 3, 4, 5, 6, 7, 9]);
        assert_eq!("9,2-4,3-6,7,1".parse::<Pattern>().expect("a pattern").to_string(), "1-7,9");
    }

    #[test]
    fn what_names_no_frames_is_refused_by_its_item() {
        for (text, item) in [("", ""), ("5,,6", ""), ("0", "0"), ("/0", "/0"), ("7-5", "7-5"), ("1,x", "x")] {
            assert_eq!(text.parse::<Pattern>(), Err(PatternError { item: item.into() }));
        }
    }

    #[test]
    fn the_last_number_there_is_does_no_harm() {
        let text = format!("{0}-{0},1-{0}", u64::MAX);
        let pattern: Pattern = text.parse().expect("a pattern");
        assert!(pattern.takes(u64::MAX, &mut 0));
    }
}
