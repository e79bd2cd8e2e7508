//! The search view: the heat map of a point, the environments, and the knobs, or as many of them as there is room for.

use ratatui::{buffer::Buffer, layout::Rect};

use super::{environments, heatmap};
use crate::ui::{
    state::State,
    tabs::search::{Part, places::SearchLayout},
    theme::Theme,
};

pub(super) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let layout = SearchLayout::of(state, area);
    // Where both are shown, the title of the one that the keys move in stands out.
    let has_both = layout.heat.is_some() && layout.environments.is_some();
    let focused = Theme { title: theme.focused, ..*theme };
    let of = |part: Part| if has_both && state.view.tabs.search.part == part { &focused } else { theme };
    if let Some(place) = layout.heat {
        heatmap::draw(state, of(Part::HeatMap), place, buffer);
    }
    if let Some(place) = layout.environments {
        environments::draw(state, of(Part::Environments), place, buffer);
    }
    if let Some(place) = layout.knobs {
        environments::draw_knobs(state, theme, place, buffer);
    }
}
