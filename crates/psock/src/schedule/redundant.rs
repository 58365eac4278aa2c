//! Every block on every stream, for few and urgent bytes: the first copy to arrive counts.

use super::{Choice, Path, Scheduler, Work, fastest};

/// A new block goes by the stream with the shortest round-trip time, and by all others as soon as they can.
///
/// The delay is that of the fastest path at each moment, and a path that fails costs nothing. The throughput is
/// that of one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Redundant;

impl Scheduler for Redundant {
    fn name(&self) -> &'static str {
        "redundant"
    }

    fn choose(&mut self, _: &Work, paths: &[Path]) -> Option<Choice> {
        let (_, ready) = fastest(paths);
        ready.map(|path| Choice::next(path.id))
    }

    fn copies(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MS, path, work};
    use super::*;

    #[test]
    fn a_new_block_goes_by_the_fastest_stream_that_is_ready() {
        let paths = [path(0, true, 9 * MS, 1), path(1, false, MS, 1), path(2, true, 3 * MS, 1)];
        assert_eq!(Redundant.choose(&work(1), &paths), Some(Choice::next(paths[2].id)));
        assert_eq!(Redundant.choose(&work(1), &paths[1..2]), None);
        assert!(Redundant.copies());
    }
}
