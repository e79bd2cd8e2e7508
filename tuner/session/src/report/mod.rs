//! A run for people who were not there: one self-contained HTML file, Markdown, plots as SVG, and tables for other programs.
//!
//! Made from the records of a run alone, whatever measured it, so that a stored run has the same report for ever: no clock, no IO.
//! What a report says is in `page`, and what it looks like in the writers beside it, each of which escapes all that it writes.

mod block;
mod diagnosis;
mod heat;
mod html;
mod markdown;
mod nccl_tests;
mod page;
mod plot;
mod seen;
mod svg;
#[cfg(test)]
mod tests;

pub use self::diagnosis::Diagnosis;
pub(crate) use self::page::shape_words;
use self::{
    block::{Block, Page},
    seen::Seen,
};
use crate::event::Record;

/// Names of the files that a run writes beside its profile.
pub const HTML_FILE: &str = "report.html";
/// The same in Markdown.
pub const MARKDOWN_FILE: &str = "report.md";

/// Colours of pages and plots, by day and by night. The pairs of text and ground have a contrast of 4.5 at least (WCAG 2.1, 1.4.3), and
/// those of the plots of 3 (1.4.11); blue and orange are told apart by the colour-blind, too.
const STYLE_COLOURS: &str = include_str!("colours.css");
const STYLE_PAGE: &str = include_str!("page.css");
/// Of plots, on a page and in files; each colour is written twice, for programs that know no variables.
const STYLE_PLOT: &str = include_str!("plot.css");

/// What is to be told of a run.
#[derive(Debug)]
pub struct Report {
    seen: Seen,
    page: Page,
}

impl Report {
    /// The report of these records; none where they do not begin as a run. A run that goes on, or was killed, has one, too.
    pub fn of(records: &[Record]) -> Option<Self> {
        let seen = Seen::of(records)?;
        let page = page::page(&seen);
        Some(Self { seen, page })
    }

    /// The same with what doctor said of the run's hosts.
    #[must_use]
    pub fn with_doctor(mut self, diagnosis: Diagnosis) -> Self {
        self.seen.doctor = Some(diagnosis);
        Self { page: page::page(&self.seen), ..self }
    }

    /// Run id.
    pub fn run(&self) -> &str {
        &self.seen.started.run
    }

    /// One HTML file that needs nothing else.
    pub fn html(&self) -> String {
        html::write(&self.page)
    }

    /// The same as Markdown, but for the plots.
    pub fn markdown(&self) -> String {
        markdown::write(&self.page)
    }

    /// Names and texts of the plots as SVG files.
    pub fn plots(&self) -> Vec<(String, String)> {
        let imprint = page::imprint(&self.seen);
        let of = |block: &Block| match block {
            Block::Plots(plots) => plots.iter().map(|plot| (plot.name.clone(), plot.file(&imprint))).collect(),
            Block::Heat(heat) => vec![(heat.name.clone(), heat.file(&imprint))],
            _ => Vec::new(),
        };
        self.page.blocks.iter().flat_map(of).map(|(name, text)| (format!("{name}.svg"), text)).collect()
    }

    /// Median times in the columns of nccl-tests, for the default arm and for what was tuned.
    pub fn nccl_tests(&self) -> String {
        nccl_tests::write(&self.seen)
    }
}
