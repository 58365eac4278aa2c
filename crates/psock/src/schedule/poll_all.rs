//! The next block to whichever stream can take it, as published: the sum is the sum of the streams.

use super::{Choice, Path, Scheduler, StreamId, Work};

/// Of the streams that can take a block, the one that follows the last.
#[derive(Clone, Copy, Debug, Default)]
pub struct PollAll {
    last: Option<StreamId>,
}

impl Scheduler for PollAll {
    fn name(&self) -> &'static str {
        "poll-all"
    }

    fn choose(&mut self, _: &Work, paths: &[Path]) -> Option<Choice> {
        let mut ready = paths.iter().filter(|path| path.is_ready).map(|path| path.id);
        let next = ready.clone().find(|id| Some(*id) > self.last).or_else(|| ready.next())?;
        self.last = Some(next);
        Some(Choice::next(next))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MS, path, work};
    use super::*;

    #[test]
    fn whoever_can_takes_a_block_and_nobody_is_left_out() {
        let mut scheduler = PollAll::default();
        let mut paths = [path(0, true, MS, 1), path(1, false, MS, 1), path(2, true, 9 * MS, 1)];
        let mut next = |paths: &[Path]| scheduler.choose(&work(1), paths).map(|choice| choice.stream.0);
        assert_eq!([next(&paths), next(&paths), next(&paths)], [0, 2, 0].map(Some));
        paths[0].is_ready = false;
        assert_eq!([next(&paths), next(&paths)], [2, 2].map(Some));
        paths[2].is_ready = false;
        assert_eq!(next(&paths), None);
    }
}
