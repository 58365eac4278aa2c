use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::{AssociationError, MAX_WINDOW, Refusal, Window};

/// What RFC 4303 says, with everything remembered.
#[derive(Default)]
struct Model {
    size: u64,
    came: BTreeSet<u64>,
}

impl Model {
    fn check(&self, number: u64) -> Result<(), Refusal> {
        let highest = self.came.last().copied().unwrap_or(0);
        if self.size == 0 {
            Ok(())
        } else if number == 0 || number + self.size <= highest {
            Err(Refusal::TooOld)
        } else if self.came.contains(&number) {
            Err(Refusal::Replayed)
        } else {
            Ok(())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_window_refuses_what_the_model_refuses(
        size in prop_oneof![Just(0usize), 1usize..300, Just(64), Just(1024)],
        start in prop_oneof![Just(0u64), 0u64..200, Just(u32::MAX.into()), Just(u64::MAX / 2)],
        steps in proptest::collection::vec(
            prop_oneof![4 => -70i64..70, 2 => -400i64..400, 1 => -5_000i64..5_000], 1..400),
    ) {
        let mut window = Window::new(size).unwrap();
        let mut model = Model { size: size as u64, ..Model::default() };
        for step in steps {
            let number = window.highest().max(start).saturating_add_signed(step);
            let expected = model.check(number);
            prop_assert_eq!(window.check(number), expected, "{}", number);
            if expected.is_ok() {
                window.mark(number);
                model.came.insert(number);
            }
            prop_assert_eq!(window.highest(), model.came.last().copied().unwrap_or(0));
        }
    }

    #[test]
    fn extended_numbers_are_found_from_their_lower_half(
        size in prop_oneof![1usize..300, Just(64), Just(MAX_WINDOW)],
        highest in prop_oneof![
            0u64..100,
            (1u64..4).prop_flat_map(|high| (high << 32) - 200..(high << 32) + 200),
            any::<u64>().prop_map(|n| n >> 1),
        ],
        ahead in prop_oneof![0u64..100, 0u64..(1 << 31)],
        behind in 0u64..MAX_WINDOW as u64,
    ) {
        let mut window = Window::new(size).unwrap();
        window.mark(highest);
        // Any number that is not too old, and far fewer than 2³² ahead.
        let late = highest.saturating_sub(behind % size as u64);
        for number in [highest + ahead, late] {
            prop_assert_eq!(window.extended(number as u32), Some(number));
        }
    }
}

#[test]
fn a_number_from_before_the_first_is_none() {
    let window = Window::new(64).unwrap();
    assert_eq!(window.extended(u32::MAX), None);
    assert_eq!(window.extended(1), Some(1));
}

#[test]
fn the_last_round_of_extended_numbers_does_not_begin_anew() {
    let mut window = Window::new(64).unwrap();
    window.mark(u64::MAX - 5);
    assert_eq!(window.extended(u32::MAX), Some(u64::MAX));
    assert_eq!(window.extended(3), None);
}

#[test]
fn zero_is_never_let_through() {
    let mut window = Window::new(64).unwrap();
    assert_eq!(window.check(0), Err(Refusal::TooOld));
    window.mark(5);
    assert_eq!(window.check(0), Err(Refusal::TooOld));
}

#[test]
fn the_widest_window_is_as_wide_as_told_and_no_wider_one_is_made() {
    let mut window = Window::new(MAX_WINDOW).unwrap();
    window.mark(1);
    window.mark(MAX_WINDOW as u64);
    assert_eq!(window.check(1), Err(Refusal::Replayed));
    assert_eq!(window.check(2), Ok(()));
    window.mark(MAX_WINDOW as u64 + 1);
    assert_eq!(window.check(1), Err(Refusal::TooOld));
    assert_eq!(window.check(2), Ok(()));
    assert_eq!(Window::new(MAX_WINDOW + 1).unwrap_err(), AssociationError::Window(MAX_WINDOW + 1));
}
