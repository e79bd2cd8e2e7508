//! Run ids: the start time in UTC and a random suffix, `2026-11-29T14:02:11Z-7f3a`. They sort by time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A new run id.
pub fn new_run_id() -> String {
    format!("{}-{:04x}", now(), rand::random::<u16>())
}

/// This moment in UTC.
#[expect(clippy::disallowed_methods, reason = "a name for people; a random part keeps ids apart")]
pub(super) fn now() -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    utc(since_epoch.as_secs())
}

/// Seconds since 1970 as `YYYY-MM-DDTHH:MM:SSZ`.
pub(crate) fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Civil date from days since 1970-01-01 (Howard Hinnant, "chrono-compatible low-level date algorithms").
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// When the run of an id began; `None` for what is no such id.
pub fn began_at(run: &str) -> Option<SystemTime> {
    let text = run.get(..20)?.strip_suffix('Z')?;
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hours, minutes, seconds) = (number(11..13)?, number(14..16)?, number(17..19)?);
    // The inverse of `utc`, by the same source: years begin in March.
    let (shifted_year, shifted_month) =
        if month < 3 { (year.checked_sub(1)?, month + 9) } else { (year, month.checked_sub(3)?) };
    let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
    let day_of_year = (153 * shifted_month + 2) / 5 + day.checked_sub(1)?;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * 146_097 + day_of_era).checked_sub(719_468)?;
    let since_epoch = Duration::from_secs(days * 86_400 + hours * 3_600 + minutes * 60 + seconds);
    // Only what `utc` would have written is an id.
    (utc(since_epoch.as_secs()).strip_suffix('Z') == Some(text)).then(|| UNIX_EPOCH + since_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc() {
        // `date -u -d @N +%FT%TZ`
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_795_960_931, "2026-11-29T14:02:11Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), text);
            assert_eq!(began_at(&format!("{text}-7f3a")), Some(UNIX_EPOCH + Duration::from_secs(seconds)));
        }
        for other in
            ["", "r1", "2026-13-29T14:02:11Z-7f3a", "2026-02-30T14:02:11Z", "1969-12-31T23:59:59Z", "日本語日本語日本"]
        {
            assert_eq!(began_at(other), None, "{other}");
        }
    }

    #[test]
    fn ids_sort_by_time_and_differ() {
        assert_eq!(new_run_id().len(), "2026-11-29T14:02:11Z-7f3a".len());
        assert!(new_run_id().as_str() > "2026-01-01");
    }
}
