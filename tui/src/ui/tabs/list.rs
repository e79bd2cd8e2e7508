//! A cursor in a list of rows.

/// A movement of the cursor, or of what is scrolled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Motion {
    Up(usize),
    Down(usize),
    Top,
    Bottom,
}

impl Motion {
    /// Where it leads from a row of a list of `n_rows`; 0 where there are none.
    pub(crate) fn from(self, row: usize, n_rows: usize) -> usize {
        let last = n_rows.saturating_sub(1);
        match self {
            Self::Up(rows) => row.min(last).saturating_sub(rows),
            Self::Down(rows) => row.saturating_add(rows).min(last),
            Self::Top => 0,
            Self::Bottom => last,
        }
    }
}

/// The first row to show of a list of `n_rows` in `n_visible` lines, near `top`, so that `cursor` can be seen.
pub(crate) fn visible_top(top: usize, cursor: usize, n_rows: usize, n_visible: usize) -> usize {
    let last_top = n_rows.saturating_sub(n_visible);
    let lowest = (cursor + 1).saturating_sub(n_visible);
    top.clamp(lowest, cursor.max(lowest)).min(last_top)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn motions_stay_in_the_list() {
        for (motion, row, n_rows, expected) in [
            (Motion::Up(1), 0, 5, 0),
            (Motion::Up(2), 9, 5, 2),
            (Motion::Down(3), 3, 5, 4),
            (Motion::Down(usize::MAX), 3, 5, 4),
            (Motion::Top, 3, 5, 0),
            (Motion::Bottom, 0, 5, 4),
            (Motion::Bottom, 0, 0, 0),
            (Motion::Down(1), 0, 0, 0),
        ] {
            assert_eq!(motion.from(row, n_rows), expected, "{motion:?} from {row} of {n_rows}");
        }
    }

    #[test]
    fn the_cursor_can_be_seen_and_the_list_moves_as_little_as_it_must() {
        for (top, cursor, n_rows, n_visible, expected) in [
            (0, 0, 10, 4, 0),
            (0, 3, 10, 4, 0),
            (0, 4, 10, 4, 1),
            (5, 4, 10, 4, 4),
            (9, 9, 10, 4, 6),
            (3, 0, 2, 4, 0),
            (0, 0, 0, 4, 0),
            (2, 3, 10, 0, 4),
        ] {
            assert_eq!(visible_top(top, cursor, n_rows, n_visible), expected, "{top} {cursor} {n_rows} {n_visible}");
        }
    }
}
