//! Blocks in turn, as published: the sum is n times the slowest stream.

use super::{Choice, Path, Scheduler, StreamId, Work};

/// The streams take a block each in turn; the next one waits until its stream can take it.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin {
    last: Option<StreamId>,
}

impl Scheduler for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn choose(&mut self, _: &Work, paths: &[Path]) -> Option<Choice> {
        let after = |path: &&Path| Some(path.id) > self.last;
        let turn = paths.iter().find(after).or_else(|| paths.first())?;
        if !turn.is_ready {
            return None;
        }
        self.last = Some(turn.id);
        Some(Choice::next(turn.id))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MS, path, work};
    use super::*;

    #[test]
    fn streams_take_turns_and_a_slow_one_holds_the_others_up() {
        let mut scheduler = RoundRobin::default();
        let mut paths = [path(1, true, MS, 1), path(4, true, MS, 1), path(6, true, MS, 1)];
        let mut next = |paths: &[Path]| scheduler.choose(&work(1), paths).map(|choice| choice.stream.0);
        assert_eq!([next(&paths), next(&paths), next(&paths), next(&paths)], [1, 4, 6, 1].map(Some));
        paths[1].is_ready = false;
        assert_eq!([next(&paths), next(&paths)], [None, None]);
        assert_eq!(next(&[paths[0], paths[2]]), Some(6), "the stream whose turn it was is gone");
    }
}
