//! A profile as lines of text: what it is of, its environment and rules, and the evidence of each.

use gdrtune_profiles::{
    emit::labels,
    profile::{Baseline, Class, Profile, Speedup},
    size::Size,
};

use crate::ui::text::{microseconds, ratio, shape, width, wrap};

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// Of a section, or the head of a table.
    Title,
    /// What must not be missed: how it was measured, what is odd.
    Warning,
    Plain,
    Dim,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageLine {
    pub(crate) kind: LineKind,
    pub(crate) text: String,
}

/// A profile that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProfilePage {
    /// The file.
    pub(crate) path: String,
    pub(crate) lines: Vec<PageLine>,
}

impl ProfilePage {
    /// The page of a profile; `odd` is what was odd about its text.
    pub(crate) fn new(path: String, profile: &Profile, odd: &[String]) -> Self {
        let mut page = Self { path, lines: Vec::new() };
        page.head(profile, odd);
        page.environment(profile);
        page.rules(profile);
        page
    }

    /// The lines of the page, those that are wider than `columns` broken.
    pub(crate) fn wrapped(&self, columns: usize) -> Vec<PageLine> {
        let pieces = |line: &PageLine| {
            if width(&line.text) <= columns {
                return vec![line.text.clone()];
            }
            let n_blanks = line.text.len() - line.text.trim_start().len();
            let indent = |index: usize| " ".repeat(if index == 0 { n_blanks } else { n_blanks + 2 });
            let parts = wrap(&line.text, columns.saturating_sub(n_blanks + 2));
            parts.iter().enumerate().map(|(index, part)| format!("{}{part}", indent(index))).collect()
        };
        let of = |line: &PageLine| {
            pieces(line).into_iter().map(|text| PageLine { kind: line.kind, text }).collect::<Vec<_>>()
        };
        self.lines.iter().flat_map(of).collect()
    }

    fn add(&mut self, kind: LineKind, text: impl Into<String>) {
        self.lines.push(PageLine { kind, text: text.into() });
    }

    fn head(&mut self, profile: &Profile, odd: &[String]) {
        for label in labels(profile) {
            self.add(LineKind::Warning, format!("! {label}"));
        }
        for text in profile.run.notes.iter().chain(odd) {
            self.add(LineKind::Warning, format!("! {text}"));
        }
        let baseline = match profile.run.baseline {
            Baseline::Site => "the site's environment",
            Baseline::Stock => "nothing set",
        };
        let (cluster, run) = (&profile.cluster, &profile.run);
        let with = [cluster.gpu.clone(), cluster.nccl.as_ref().map(|version| format!("NCCL {version}"))];
        let size = shape(cluster.nodes, cluster.ranks);
        let all: Vec<String> = [size].into_iter().chain(with.into_iter().flatten()).collect();
        self.add(LineKind::Plain, format!("cluster   {}", all.join(", ")));
        self.add(LineKind::Plain, format!("engine    {}, against {baseline}", run.engine));
        self.add(LineKind::Plain, format!("run       {}, workload {}, {} trials", run.id, run.workload, run.trials));
        self.add(LineKind::Dim, format!("          gdrtune {}, cluster {}", run.tool, cluster.fingerprint));
    }

    fn environment(&mut self, profile: &Profile) {
        self.add(LineKind::Plain, "");
        self.add(LineKind::Dim, "evidence: speed-up with its 90 % interval, how sure it is, processes per arm");
        self.add(LineKind::Plain, "");
        self.add(LineKind::Title, format!("Environment ({})", profile.env.len()));
        if profile.env.is_empty() {
            self.add(LineKind::Dim, "none: no variable earned its place");
        }
        for setting in &profile.env {
            self.add(LineKind::Plain, format!("{}={}", setting.name, setting.value));
            let class = match setting.class {
                Class::System => "",
                Class::Debugging => "; of NCCL's debugging class",
            };
            let evidence = match &setting.speedup {
                Some(speedup) => evidence(speedup),
                None => "not measured alone".to_owned(),
            };
            self.add(LineKind::Dim, format!("  {evidence}{class}"));
        }
    }

    fn rules(&mut self, profile: &Profile) {
        self.add(LineKind::Plain, "");
        self.add(LineKind::Title, format!("Rules ({})", profile.rule.len()));
        if profile.rule.is_empty() {
            self.add(LineKind::Dim, "none: the engine's own choices are best");
        }
        for rule in &profile.rule {
            let sizes = match rule.bytes.max {
                Some(max) => format!("{} to {}", Size(rule.bytes.min), Size(max)),
                None => format!("{} and above", Size(rule.bytes.min)),
            };
            let shape = shape(rule.nodes, rule.ranks);
            let choice = rule.choice();
            self.add(LineKind::Plain, format!("{:<13} {sizes:<16} {choice:<20} {shape}", rule.collective.name()));
            let times = format!("{} to {} us", microseconds(rule.default_us), microseconds(rule.tuned_us));
            self.add(LineKind::Dim, format!("  {times}, {}", evidence(&rule.speedup)));
        }
    }
}

/// `1.21x [1.17-1.25], P(faster) 100.0 %, 9 per arm`.
fn evidence(speedup: &Speedup) -> String {
    let Speedup { median, low, high, p_faster, repeats } = speedup;
    format!("{} [{low:.2}-{high:.2}], P(faster) {:.1} %, {repeats} per arm", ratio(*median), p_faster * 100.0)
}
