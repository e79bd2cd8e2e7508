//! Decides what is live, what is a comment, and what the comments say. It knows no format's syntax.

use super::{EmitError, EmitOptions, Format, choice_lists};
use crate::{
    install,
    knob::{self, Engines},
    profile::{Class, EnvSetting, Profile, Rule, Speedup},
    vocab::{Engine, Environment},
};

/// What a rule file for RCCL says that NCCL was measured for.
const NOT_RCCL: &str =
    "NOT MEASURED WITH RCCL: NCCL's times on other GPUs say nothing about it, and it replaces combinations by others";

/// Comments are cut here: NVIDIA's CSV reader takes the rest of a line over 255 bytes for a line of its own.
const LONGEST_COMMENT: usize = 200;
const TUNER_CONFIG_FILE: &str = "NCCL_TUNER_CONFIG_FILE";
/// What NCCL takes for its tuner plugin.
const PLUGIN_VARIABLE: &str = "NCCL_TUNER_PLUGIN";
/// Where our plugin looks for rules before it looks at [`TUNER_CONFIG_FILE`].
const RULES_VARIABLE: &str = "GDRTUNE_RULES";

/// What a format has to say.
pub(super) struct Plan<'a> {
    pub(super) profile: &'a Profile,
    pub(super) format: Format,
    /// Whether values that are set already are kept.
    pub(super) keep_set: bool,
    /// Whether the rules hold for the engine that reads the file.
    pub(super) rules_are_live: bool,
    /// Comment lines about the file, without a comment sign.
    pub(super) head: Vec<String>,
    pub(super) settings: Vec<Setting>,
}

/// One variable.
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) value: String,
    /// Whether it is set, or shown as a comment only.
    pub(super) is_live: bool,
    /// Comment lines about it, without a comment sign.
    pub(super) comments: Vec<String>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(profile: &'a Profile, format: Format, options: &EmitOptions) -> Result<Self, EmitError> {
        let engine = profile.run.engine;
        let is_measured = engine == Engine::Nccl && (format != Format::RcclCsv || is_of_amd(profile));
        let rules_are_live = is_measured || options.for_engine == Some(engine);
        let mut settings: Vec<Setting> =
            profile.env.iter().map(|setting| planned(profile, setting, rules_are_live)).collect();
        choice_lists::guard(profile, &mut settings);
        settings.extend(tuner_setting(profile, format, options, rules_are_live)?);
        settings.extend(install_settings(profile, format, options, rules_are_live)?);
        let mut remarks = Vec::new();
        if options.choice_lists && !format.is_rules() {
            choice_lists::add(profile, rules_are_live, &mut settings, &mut remarks);
        }
        let mut plan = Self { profile, format, keep_set: options.keep_set, rules_are_live, head: Vec::new(), settings };
        plan.head = plan.head_comments();
        plan.head.extend(remarks.iter().map(|remark| comment(remark)));
        Ok(plan)
    }

    fn head_comments(&self) -> Vec<String> {
        let Profile { cluster, run, rule, .. } = self.profile;
        let gpu = cluster.gpu.as_deref().map(|gpu| format!(", {gpu}")).unwrap_or_default();
        let nccl = cluster.nccl.as_deref().map(|version| format!(", NCCL {version}")).unwrap_or_default();
        let baseline = run.baseline.name();
        let mut head = vec![format!(
            "gdrtune settings for {}, {}{gpu}",
            counted(cluster.nodes, "node"),
            counted(cluster.ranks, "rank")
        )];
        let shapes = self.profile.rule_shapes();
        if shapes.iter().any(|shape| *shape != (cluster.nodes, cluster.ranks)) {
            let shapes: Vec<String> = shapes.iter().map(|(nodes, ranks)| format!("{nodes} with {ranks}")).collect();
            head.push(format!("rules hold for these nodes with ranks: {}", shapes.join(", ")));
        }
        head.extend(labels(self.profile).into_iter().map(str::to_owned));
        if self.format == Format::RcclCsv && run.engine == Engine::Nccl && !is_of_amd(self.profile) {
            head.push(NOT_RCCL.to_owned());
        }
        head.push(format!("measured with engine {}{nccl}; gdrtune {}", run.engine, run.tool));
        head.push(format!("run {}: workload {}, {} trials, baseline {baseline}", run.id, run.workload, run.trials));
        head.push(format!("cluster {}", cluster.fingerprint));
        head.extend(run.notes.iter().map(|note| format!("note: {note}")));
        head.push("on another cluster or NCCL version these are hints to measure, not settings".to_owned());
        if matches!(run.engine, Engine::Nccl | Engine::Native) {
            head.push("to re-check on these nodes: gdrtune verify profile.toml -w HOSTS".to_owned());
        }
        if !rule.is_empty() && !self.format.is_rules() {
            let file = Format::TunerCsv.file_name();
            let plugin = if run.engine == Engine::Nccl { " (gdrtune install brings one)" } else { "" };
            head.push(format!("rules by size ({}) are in {file}, for a tuner plugin{plugin}", rule.len()));
        }
        if !self.rules_are_live {
            head.push(match run.engine {
                Engine::Sim => {
                    "nothing of a simulation is live: emit with --for-engine sim to use it all the same".to_owned()
                }
                engine => {
                    format!(
                        "what holds for that engine only is commented out: emit with --for-engine {engine} to use it"
                    )
                }
            });
        }
        head.iter().map(|line| comment(line)).collect()
    }

    /// The comment lines about a rule.
    pub(super) fn rule_comment(profile: &Profile, rule: &Rule) -> String {
        let evidence = evidence(profile, &rule.speedup);
        comment(&format!("{evidence}; {:.1} us -> {:.1} us", rule.default_us, rule.tuned_us))
    }

    /// The settings that hold for the engine that reads the file.
    pub(super) fn live(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter().filter(|setting| setting.is_live)
    }

    /// What a file should set, for the comparison with what its grammar reads.
    pub(super) fn environment(&self) -> Environment {
        self.live().map(|setting| (setting.name.clone(), setting.value.clone())).collect()
    }

    /// The rules that hold for the engine that reads the file.
    pub(super) fn live_rules(&self) -> &'a [Rule] {
        if self.rules_are_live { &self.profile.rule } else { &[] }
    }

    /// The comments about the file, as lines that `#` begins.
    pub(super) fn head_text(&self) -> String {
        self.head.iter().flat_map(|line| ["# ", line, "\n"]).collect()
    }

    /// A text that sets nothing, and says why.
    pub(super) fn not_emitted(&self, error: &EmitError) -> String {
        let why = comment(&format!("NOT EMITTED, and nothing is set here: {error}"));
        format!("{}# {why}\n", self.head_text())
    }

    /// Holds what a grammar has read against what was meant.
    pub(super) fn expect_environment(&self, read: &Environment) -> Result<(), EmitError> {
        let expected = self.environment();
        if *read == expected {
            return Ok(());
        }
        Err(self.read_back_error(format!("`{read}` and not `{expected}`")))
    }

    pub(super) fn read_back_error(&self, cause: impl Into<String>) -> EmitError {
        EmitError::ReadBack { format: self.format, cause: cause.into() }
    }
}

/// What everything made from a profile says that was written before its run's A/B.
pub(crate) const fn unverified(engine: Engine) -> &'static str {
    if engine.is_real() {
        "NOT VERIFIED: written before the run's A/B, and speed-ups are estimates of its search; \
         gdrtune verify tells whether they hold"
    } else {
        // There is no cluster to measure on.
        "NOT VERIFIED: written before the run's A/B, and speed-ups are estimates of its search"
    }
}

/// What every file made from something else than NCCL on the real nodes carries.
pub(super) fn labels(profile: &Profile) -> Vec<&'static str> {
    let emulated = profile.run.emulated.then_some("EMULATED: several ranks stood in for nodes on one machine or GPU");
    let unverified = profile.run.unverified.then_some(unverified(profile.run.engine));
    profile.run.engine.label().into_iter().chain(emulated).chain(unverified).collect()
}

/// Whether the GPUs are those that RCCL runs on.
fn is_of_amd(profile: &Profile) -> bool {
    let names = |gpu: &String| gpu.contains("AMD") || gpu.contains("Instinct");
    profile.cluster.gpu.as_ref().is_some_and(names)
}

/// What a comment says of a debugging setting.
pub(super) fn debugging_comment(profile: &Profile) -> String {
    let version = profile.cluster.nccl.as_deref().map(|version| format!(" after {version}")).unwrap_or_default();
    comment(&format!("debugging setting: NCCL's guide says not to keep it; re-check it with every NCCL{version}"))
}

fn planned(profile: &Profile, setting: &EnvSetting, rules_are_live: bool) -> Setting {
    let EnvSetting { name, value, class, speedup, why } = setting;
    let is_native_only = knob::knob(name).is_some_and(|knob| knob.engines == Engines::Native);
    let evidence = speedup.as_ref().map(|speedup| evidence(profile, speedup));
    let mut comments = vec![evidence.unwrap_or_else(|| "not measured alone".to_owned())];
    comments.extend((!why.is_empty()).then(|| why.clone()));
    if *class == Class::Debugging {
        comments.push(debugging_comment(profile));
    }
    if is_native_only {
        comments.push("read by gdrtune's native engine only".to_owned());
    }
    let comments = comments.iter().map(|line| comment(line)).collect();
    // What an engine binds to (interfaces, HCAs) is of the real nodes, but for those that a simulation made up.
    let carries_over = !is_native_only && profile.run.engine != Engine::Sim;
    Setting { name: name.clone(), value: value.clone(), is_live: rules_are_live || carries_over, comments }
}

/// The setting that tells a tuner plugin where the rules are.
fn tuner_setting(
    profile: &Profile,
    format: Format,
    options: &EmitOptions,
    is_live: bool,
) -> Result<Option<Setting>, EmitError> {
    let Some(path) = &options.tuner_path else { return Ok(None) };
    let error = |cause| EmitError::TunerPath { format, path: path.escape_debug().to_string(), cause };
    if !path.starts_with('/') {
        return Err(error("a rank resolves it in its own working directory: give an absolute path"));
    }
    if path.contains(|c: char| c.is_control()) {
        return Err(error("it has a control character"));
    }
    if profile.env.iter().any(|setting| setting.name == TUNER_CONFIG_FILE) {
        return Err(error("the profile sets NCCL_TUNER_CONFIG_FILE already"));
    }
    let comments =
        vec!["rules by size for the tuner plugin, which has to be installed and named on its own".to_owned()];
    let setting = Setting { name: TUNER_CONFIG_FILE.to_owned(), value: path.clone(), is_live, comments };
    Ok((!profile.rule.is_empty()).then_some(setting))
}

/// The settings that make NCCL load our plugin, and the plugin read our rules, from where they are installed.
fn install_settings(
    profile: &Profile,
    format: Format,
    options: &EmitOptions,
    is_live: bool,
) -> Result<Vec<Setting>, EmitError> {
    let Some(folder) = &options.install_folder else { return Ok(Vec::new()) };
    if profile.rule.is_empty() || !is_live {
        return Ok(Vec::new());
    }
    let error = |cause| EmitError::InstallFolder { format, path: folder.escape_debug().to_string(), cause };
    install::check_path(folder).map_err(|cause| error(cause.to_owned()))?;
    let own = [PLUGIN_VARIABLE, RULES_VARIABLE, TUNER_CONFIG_FILE];
    if let Some(setting) = profile.env.iter().find(|setting| own.contains(&setting.name.as_str())) {
        return Err(error(format!("the profile sets {} itself", setting.name)));
    }
    let setting = |name: &str, file: &str, comment: &str| Setting {
        name: name.to_owned(),
        value: install::file_path(folder, file),
        is_live: true,
        comments: vec![comment.to_owned()],
    };
    Ok(vec![
        setting(PLUGIN_VARIABLE, install::PLUGIN_FILE, "gdrtune's tuner plugin, which prefers choices by its rules"),
        setting(RULES_VARIABLE, install::RULES_FILE, "its rules by size"),
    ])
}

pub(super) fn evidence(profile: &Profile, speedup: &Speedup) -> String {
    let Speedup { median, low, high, p_faster, repeats } = speedup;
    let processes = if profile.run.engine == Engine::Sim { "simulated processes" } else { "processes" };
    format!("{median:.3}x ({low:.3} to {high:.3}), P(faster) {p_faster:.3}, {repeats} {processes} per arm")
}

/// A number of things, whose name takes an `s` where they are several.
fn counted(number: u32, name: &str) -> String {
    format!("{number} {name}{}", if number == 1 { "" } else { "s" })
}

/// One comment line from any text: printable ASCII, short, and without a backslash at its end.
///
/// A profile's texts may hold line breaks (which would end the comment and begin a command) and terminal controls; and
/// systemd takes a comment that ends with a backslash to go on in the next line.
pub(super) fn comment(text: &str) -> String {
    let printable = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
    let mut line: String = text.chars().map(printable).take(LONGEST_COMMENT).collect();
    line.truncate(line.trim_end().len());
    if line.ends_with('\\') {
        line.pop();
        line.push('?');
    }
    line
}

/// Adds a line and its end.
pub(super) fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}
