//! Names of files that follow one another.

use std::path::{Path, PathBuf};

/// What follows the stem: everything known of an extension, `.pcapng.zst` for instance.
fn split(name: &str) -> (&str, &str) {
    let bare = name.strip_suffix(".zst").unwrap_or(name);
    match bare.rfind('.') {
        Some(dot) if dot > 0 => name.split_at(dot),
        _ => name.split_at(bare.len()),
    }
}

/// The name of file `number` whose first frame came at `time_ns`.
pub fn rotated(path: &Path, number: usize, time_ns: i64) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, extension) = split(&name);
    path.with_file_name(format!("{stem}-{number:05}-{}{extension}", utc(time_ns)))
}

/// `20261121T165000`, in UTC.
fn utc(time_ns: i64) -> String {
    let seconds = time_ns.div_euclid(1_000_000_000);
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(day);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}", second / 3_600, second / 60 % 60, second % 60)
}

/// The Gregorian date of a day since 1970.
///
/// Years are counted from March, so that the leap day is the last of its year; 400 of them are 146,097 days.
fn date(days_since_1970: i64) -> (i64, i64, i64) {
    const MARCH_OF_YEAR_0: i64 = -719_468;
    const DAYS_IN_400_YEARS: i64 = 146_097;
    let days = days_since_1970 - MARCH_OF_YEAR_0;
    let (cycle, day) = (days.div_euclid(DAYS_IN_400_YEARS), days.rem_euclid(DAYS_IN_400_YEARS));
    // Without the leap days before it (one in 4 years, none in 100, the last one of the cycle).
    let year = (day - day / 1_460 + day / 36_524 - day / (DAYS_IN_400_YEARS - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, five months have 153 days, again and again.
    let month = (5 * day + 2) / 153;
    let first = (153 * month + 2) / 5;
    let (year, month_of_year) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    (400 * cycle + year, month_of_year, day - first + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_number_and_time_before_the_extension() {
        let time_ns = 1_795_279_800_000_000_000;
        for (path, expected) in [
            ("/a/x.pcapng", "/a/x-00001-20261121T165000.pcapng"),
            ("x.y.pcapng.zst", "x.y-00001-20261121T165000.pcapng.zst"),
            ("x", "x-00001-20261121T165000"),
            (".x", ".x-00001-20261121T165000"),
        ] {
            assert_eq!(rotated(Path::new(path), 1, time_ns), Path::new(expected));
        }
        assert_eq!(rotated(Path::new("x"), 123_456, 0), Path::new("x-123456-19700101T000000"));
    }

    #[test]
    fn dates_are_right_around_leap_days() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (10_956, (1999, 12, 31)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(days), expected);
        }
    }

    #[test]
    fn every_day_of_five_centuries_follows_the_one_before() {
        let length = |(year, month, _)| match month {
            2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        for day in 0..182_622 {
            let (year, month, of_month) = date(day);
            let next = match (month, of_month) {
                (12, 31) => (year + 1, 1, 1),
                (_, last) if last == length((year, month, last)) => (year, month + 1, 1),
                _ => (year, month, of_month + 1),
            };
            assert_eq!(date(day + 1), next);
        }
    }
}
