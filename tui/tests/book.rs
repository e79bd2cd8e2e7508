//! The manual in `docs/`: its commands are run as they stand there, what they print is what it shows, and what it says of names,
//! codes, links and messages is true.

mod common;
#[path = "common/markdown.rs"]
mod markdown;

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use common::{
    GDRTUNE, cluster::in_sandbox, gdrtune, gdrtune_processes, output, root, slurm::in_slurm_sandbox, stderr, stdout,
    stripped_copy, wait_until,
};
use gdrtune_profiles::emit::Format;
use markdown::{Block, Mark, blocks, console};

/// Chapters whose commands need nothing but this machine.
const HERE: [&str; 15] = [
    "tuning.md",
    "engines.md",
    "runs.md",
    "questions.md",
    "formats.md",
    "apply.md",
    "workloads.md",
    "lint.md",
    "doctor.md",
    "fabric.md",
    "roce.md",
    "troubleshooting.md",
    "exit-codes.md",
    "statistics.md",
    "profile-file.md",
];
/// Chapters that tests below run in surroundings of their own.
const ELSEWHERE: [&str; 3] = ["tutorial.md", "first-cluster.md", "slurm.md"];
/// What stands between the outputs of two blocks.
const END: &str = "@@book";

/// A fresh home with the executable on its search path, and the sources beside it as where the reader stands.
struct Reader {
    home: tempfile::TempDir,
}

impl Reader {
    /// One who needs no hosts.
    fn new() -> Self {
        Self::with_executable(|bin| symlink(GDRTUNE, bin.join("gdrtune")).expect("a link"))
    }

    /// One whose executable is uploaded to hosts.
    fn with_hosts() -> Self {
        Self::with_executable(|bin| {
            stripped_copy(bin);
        })
    }

    fn with_executable(put: impl FnOnce(&Path)) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        fs::create_dir(home.path().join("bin")).expect("a folder");
        put(&home.path().join("bin"));
        for folder in ["testenv", "profiles", "tui", "benches"] {
            symlink(root().join(folder), home.path().join(folder)).expect("a link");
        }
        Self { home }
    }

    fn path(&self) -> &Path {
        self.home.path()
    }

    /// Runs the marked blocks of a chapter one after the other, in one shell. What was not as the chapter says; empty where all was.
    fn follow(&self, chapter: &str) -> String {
        let blocks = blocks(&docs().join(chapter));
        let steps = steps(&blocks);
        let mut shell = Command::new("bash");
        shell.args(["-c", &script(&steps)]).stdin(Stdio::null());
        let mut settings = gdrtune(self.path());
        settings.env_remove("GDRTUNE_STATE_DIR");
        shell.env_clear().envs(settings.get_envs().filter_map(|(name, value)| Some((name, value?))));
        // The sandbox's own place for virtual hosts: without it, several readers would have one.
        shell.envs(std::env::var_os("TESTENV_DIR").map(|folder| ("TESTENV_DIR", folder)));
        let path = std::env::var("PATH").unwrap_or_default();
        shell.env("PATH", format!("{}:{path}", self.path().join("bin").display())).env("LANG", "C.UTF-8");
        let done = output(shell.current_dir(self.path()));
        judge(&steps, &stdout(&done)) + &stderr(&done)
    }
}

/// Something that is done, and what must come of it.
struct Step<'a> {
    place: &'a str,
    shell: String,
    output: Vec<String>,
    /// The exit code; [`None`] where the next step shows it.
    exit: Option<i32>,
}

fn steps(blocks: &[Block]) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for block in blocks {
        let place = block.place.as_str();
        let step = |shell, output, exit| Step { place, shell, output, exit };
        match &block.mark {
            Some(Mark::File(name)) => {
                let shell =
                    format!("mkdir -p \"$(dirname '{name}')\"; cat > '{name}' <<'{END}'\n{}\n{END}", block.text);
                steps.push(step(shell, Vec::new(), Some(0)));
            }
            Some(Mark::Run { exit }) if block.language == "console" => {
                let typed = console(&block.text);
                for (at, (command, output)) in typed.iter().enumerate() {
                    let exit = match typed.get(at + 1) {
                        None => Some(*exit),
                        Some((next, _)) => (next != "echo $?").then_some(0),
                    };
                    steps.push(step(command.clone(), output.clone(), exit));
                }
            }
            // The first command that fails ends the shell.
            Some(Mark::Run { .. }) => steps.push(step(format!("set -e\n{}\nset +e", block.text), Vec::new(), Some(0))),
            Some(Mark::Parse(_)) | None => {}
        }
    }
    steps
}

fn script(steps: &[Step<'_>]) -> String {
    let step = |step: &Step<'_>| {
        let shell = &step.shell;
        format!("(exit $book_status)\n{shell}\nbook_status=$?; printf '\\n{END} %d\\n' $book_status\n")
    };
    format!("exec 2>&1\nbook_status=0\n{}", steps.iter().map(step).collect::<String>())
}

/// What is not as the book says.
fn judge(steps: &[Step<'_>], printed: &str) -> String {
    let mut wrong = Vec::new();
    let mut rest = printed;
    for Step { place, shell, output: shown, exit } in steps {
        let Some((output, after)) = rest.split_once(&format!("\n{END} ")) else {
            wrong.push(format!("{place}: ended within\n{shell}\nwith\n{rest}"));
            break;
        };
        let (code, after) = after.split_once('\n').unwrap_or((after, ""));
        rest = after;
        if exit.is_some_and(|exit| code != exit.to_string()) {
            wrong.push(format!("{place}: code {code} of\n{shell}\n{output}"));
        } else if !shown.is_empty() && !fits(shown, output.trim_end()) {
            wrong.push(format!("{place}: {shell}\n-- shown\n{}\n-- printed\n{output}", shown.join("\n")));
        }
    }
    wrong.iter().map(|line| [line, "\n\n"].concat()).collect()
}

/// Whether an output is what was shown: a line `...` stands for any lines, `...` within a line for any text.
fn fits(shown: &[String], output: &str) -> bool {
    let output: Vec<&str> = output.lines().map(str::trim_end).collect();
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    lines_fit(&shown, &output)
}

fn lines_fit(shown: &[&str], output: &[&str]) -> bool {
    match shown.split_first() {
        None => output.is_empty(),
        Some((&"...", rest)) => (0..=output.len()).any(|left_out| lines_fit(rest, &output[left_out..])),
        Some((line, rest)) => {
            output.split_first().is_some_and(|(first, others)| line_fits(line, first) && lines_fit(rest, others))
        }
    }
}

fn line_fits(shown: &str, line: &str) -> bool {
    let Some((begin, rest)) = shown.split_once("...") else { return shown == line };
    let Some(line) = line.strip_prefix(begin) else { return false };
    (0..=line.len()).filter(|at| line.is_char_boundary(*at)).any(|at| line_fits(rest, &line[at..]))
}

fn docs() -> PathBuf {
    root().join("docs")
}

/// Names of the chapters.
fn chapters() -> Vec<String> {
    let files = fs::read_dir(docs()).expect("docs").map(|entry| entry.expect("a file").path());
    let chapters = files.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
    let name = |path: PathBuf| path.file_name().expect("a file").to_string_lossy().into_owned();
    let mut names: Vec<String> = chapters.map(name).collect();
    names.sort();
    names
}

fn read(name: &str) -> String {
    fs::read_to_string(docs().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Files of a run besides the emitted ones.
const OWN_FILES: [&str; 5] = ["profile.toml", "choices.json", "summary.md", "report.html", "report.md"];

#[test]
fn the_tutorial_makes_a_verified_profile_in_every_format() {
    let reader = Reader::new();
    let wrong = reader.follow("tutorial.md");
    assert!(wrong.is_empty(), "{wrong}");
    let dir = reader.path().join("gdrtune-demo");
    let emitted = Format::ALL.iter().map(|format| format.file_name());
    for name in emitted.chain(OWN_FILES) {
        assert!(dir.join(name).is_file(), "{name} is missing");
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), Format::ALL.len() + OWN_FILES.len(), "no temporary file is left");
    let summary = fs::read_to_string(dir.join("summary.md")).unwrap();
    assert!(summary.contains("loopback"), "says what it was measured on: {summary}");

    // What `emit` makes of the profile is what the run wrote.
    for format in Format::ALL {
        let name = format.file_name();
        let profile = "gdrtune-demo/profile.toml";
        let emitted = output(gdrtune(reader.path()).args(["emit", profile, "--format", format.name()]));
        assert!(emitted.status.success(), "{format}: {}", stderr(&emitted));
        assert_eq!(stdout(&emitted), fs::read_to_string(dir.join(name)).unwrap(), "{format}");
    }

    // Nothing of the runs is left running.
    let home = reader.path().display().to_string();
    wait_until("no process of the demo is left", Duration::from_secs(5), || gdrtune_processes(&home).is_empty());
}

#[test]
fn the_commands_of_chapters_that_need_no_hosts() {
    // Each reader has a home of its own.
    let wrong: String = thread::scope(|scope| {
        let readers = HERE.map(|chapter| scope.spawn(move || Reader::new().follow(chapter)));
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn from_no_hosts_to_a_tuned_profile_by_the_chapter_on_the_first_cluster() {
    in_sandbox("from_no_hosts_to_a_tuned_profile_by_the_chapter_on_the_first_cluster", || {
        let reader = Reader::with_hosts();
        let wrong = reader.follow("first-cluster.md");
        assert!(wrong.is_empty(), "{wrong}");
        let profile = fs::read_to_string(reader.path().join("tuned/profile.toml")).unwrap();
        let (profile, _) = gdrtune_profiles::profile::Profile::parse(&profile, "profile.toml").unwrap();
        assert_eq!(profile.environment().get("NCCL_SOCKET_IFNAME"), Some("=railA"));
    });
}

#[test]
fn the_commands_of_the_chapter_on_slurm() {
    in_slurm_sandbox("the_commands_of_the_chapter_on_slurm", || {
        let wrong = Reader::with_hosts().follow("slurm.md");
        assert!(wrong.is_empty(), "{wrong}");
    });
}

#[test]
fn every_block_of_shell_has_a_mark_and_every_marked_chapter_is_run() {
    let is_run = |block: &Block| matches!(block.mark, Some(Mark::Run { .. } | Mark::File(_)));
    for chapter in chapters() {
        let blocks = blocks(&docs().join(&chapter));
        for block in blocks.iter().filter(|block| block.is_shell()) {
            assert!(
                block.mark.is_some(),
                "{}: `<!-- book: run -->` or `<!-- book: parse, WHY -->` is missing",
                block.place
            );
        }
        let known = HERE.iter().chain(&ELSEWHERE).any(|name| **name == chapter);
        assert_eq!(blocks.iter().any(is_run), known, "{chapter} has commands that no test runs, or none that it could");
    }
}

#[test]
fn what_is_shown_must_fit() {
    let shown = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    for (pattern, text, does_fit) in [
        ("a\nb", "a\nb", true),
        ("a\nb", "a\nb\nc", false),
        ("a\n...", "a", true),
        ("...\nc", "a\nb\nc", true),
        ("...\nc", "a\nb", false),
        ("run ...: 4 of ... done", "run x-1: 4 of 7 done", true),
        ("run ...: 4 of ... done", "run x-1: 5 of 7 done", false),
        ("...x", "axbx", true),
    ] {
        assert_eq!(fits(&shown(pattern), text), does_fit, "{pattern:?} {text:?}");
    }
}

/// Targets of the links in a text, and the files that it names as being beside it.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// The anchor that GitHub and mdBook make of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_lead_somewhere_and_no_chapter_is_left_out() {
    let files = chapters().into_iter().map(|name| docs().join(name)).chain([root().join("README.md")]);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for target in links(&text).filter(|target| !target.contains("://")) {
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let to = if path.is_empty() { file.clone() } else { file.parent().unwrap().join(path) };
            assert!(to.exists(), "{}: no {target}", file.display());
            if !heading.is_empty() {
                let headings = fs::read_to_string(&to).unwrap();
                let mut headings =
                    headings.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#'));
                assert!(headings.any(|line| anchor(line) == heading), "{}: no heading of {target}", file.display());
            }
        }
    }
    let listed = |name: &str| links(&read(name)).map(str::to_owned).collect::<BTreeSet<_>>();
    let all: BTreeSet<String> = chapters().into_iter().filter(|name| name != "SUMMARY.md").collect();
    assert_eq!(listed("SUMMARY.md"), all);
    for name in all.iter().filter(|name| *name != "README.md") {
        assert!(listed("README.md").contains(name), "docs/README.md does not list {name}");
    }
}

#[test]
fn every_format_has_its_row() {
    let text = read("formats.md");
    for format in Format::ALL {
        let row = format!("| `{}` | `{}` |", format.name(), format.file_name());
        assert!(text.contains(&row), "{row}");
    }
}

#[test]
fn every_field_of_a_profile_has_its_row() {
    let source = fs::read_to_string(root().join("profiles/src/profile.rs")).unwrap();
    let (structs, _) = source.split_once("impl Profile {").unwrap();
    let of_profile = &structs[structs.find("pub struct Profile {").unwrap()..];
    let lines = of_profile.lines().filter_map(|line| line.strip_prefix("    pub ")?.split_once(": "));
    let fields: BTreeSet<&str> = lines.map(|(name, _)| name).filter(|name| !name.contains('(')).collect();
    assert!(fields.contains("p_faster") && fields.contains("notes"), "{fields:?}");
    let text = read("profile-file.md");
    for field in fields {
        // Tables are headings of their own.
        let is_told = text.contains(&format!("`{field}`")) || text.contains(&format!("[{field}]"));
        assert!(is_told, "{field}");
    }
}

/// Every source file of the libraries and the program, with the breaks of long texts taken out.
fn sources() -> String {
    fn add(folder: &Path, text: &mut String) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("a file").path();
            if path.is_dir() && !path.ends_with("target") && !path.ends_with("tests") {
                add(&path, text);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                text.push_str(&fs::read_to_string(&path).expect("text"));
            }
        }
    }
    let mut text = String::new();
    for folder in ["profiles", "agents", "tuner", "tui"] {
        add(&root().join(folder), &mut text);
    }
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |before, line| before + line.trim_start())
}

#[test]
fn the_messages_of_the_chapter_on_troubleshooting_are_ones_that_gdrtune_has() {
    let sources = sources();
    let text = read("troubleshooting.md");
    let messages: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect();
    assert!(messages.len() >= 25, "{messages:?}");
    for message in messages {
        let is_rest = |c: char| c.is_whitespace() || ":;,".contains(c);
        for part in message.split("...").map(|part| part.trim_matches(is_rest)).filter(|part| part.len() > 3) {
            assert!(sources.contains(part), "no message has `{part}` of `{message}`");
        }
    }
}
