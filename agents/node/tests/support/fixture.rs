//! A real agent with short limits, and workers that misbehave as their plan says. For tests only.
//!
//! `FIXTURE_PLAN` holds `rank=word+word;rank=word`; a rank without an entry behaves well. See [`Plan`] for the words.
#![expect(clippy::print_stderr, reason = "it plays a worker whose libraries print")]

use std::{
    env,
    io::{self, Read as _, Write as _},
    process::{Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use gdrtune_node::agent::{self, AgentConfig};
use gdrtune_wire::{FromWorker, ItemOutcome, Script, ToWorker, WorkerInit, codec};

fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some("agent") => run_agent(),
        Some("watchdog") => match env::args().nth(2).and_then(|text| text.parse().ok()) {
            Some(interval_ms) => agent::watch(Duration::from_millis(interval_ms)),
            None => fail("no interval"),
        },
        Some("worker") => Worker::new().run(),
        Some("daemon") => {
            start_self("sleeper");
            ExitCode::SUCCESS
        }
        Some("sleeper") => sleep_in_own_session(),
        Some("nested") => {
            start_self("sleeper");
            sleep_in_own_session()
        }
        other => fail(&format!("unknown role {other:?}")),
    }
}

fn run_agent() -> ExitCode {
    let build_id = env::var("FIXTURE_BUILD").unwrap_or_else(|_| "fixture".to_owned());
    let milliseconds = |name: &str, default| {
        Duration::from_millis(env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default))
    };
    agent::run(&AgentConfig {
        tuner_plugin: None,
        worker_program: env::var_os("FIXTURE_PROGRAM").map(Into::into),
        silence_limit: milliseconds("FIXTURE_SILENCE_MS", 60_000),
        stuck_limit: milliseconds("FIXTURE_STUCK_MS", 60_000),
        kill_grace: milliseconds("FIXTURE_GRACE_MS", 200),
        ..AgentConfig::product(&build_id, &[])
    })
}

/// Leaves every group and session that could be killed as a whole, and lives on.
fn sleep_in_own_session() -> ExitCode {
    match rustix::process::setsid() {
        Ok(_) => hang_after("sleeper ready"),
        Err(error) => fail(&format!("setsid: {error}")),
    }
}

struct Worker {
    decoder: codec::Decoder,
    plan: Vec<String>,
}

/// What a word of the plan asks for.
struct Plan;

impl Plan {
    const IGNORE_TERM: &str = "ignore-term";
    const DAEMON: &str = "daemon";
    const NESTED: &str = "nested";
    const SESSION: &str = "session";
    const HANG_AT_START: &str = "hang-at-start";
    const HANG_IN_CONNECT: &str = "hang-in-connect";
    /// `hang-at-item:N` takes the index of the item.
    const HANG_AT_ITEM: &str = "hang-at-item:";
    /// `exit-at-item:N` takes the index of the item, too; the code is 3.
    const EXIT_AT_ITEM: &str = "exit-at-item:";
    const CRASH: &str = "crash";
    const EXIT: &str = "exit";
    const STDERR_FLOOD: &str = "stderr-flood";
    const FRAME_FLOOD: &str = "frame-flood";
    const GARBAGE: &str = "garbage";
    const DEAF_TO_QUIT: &str = "deaf-to-quit";
    const NEVER_READ: &str = "never-read";
}

impl Worker {
    fn new() -> Self {
        Self { decoder: codec::Decoder::new(), plan: vec![] }
    }

    fn run(mut self) -> ExitCode {
        let Some(ToWorker::Init(init)) = self.next() else { return fail("the first message is no init") };
        self.plan = plan_of(init.rank);
        if self.wants(Plan::IGNORE_TERM) {
            ignore_term();
        }
        if self.wants(Plan::SESSION) {
            start_self("sleeper");
        }
        if self.wants(Plan::NESTED) {
            start_self("nested");
        }
        if self.wants(Plan::DAEMON) {
            start_self("daemon");
        }
        if let Some(code) = self.misbehave_at_start() {
            return code;
        }
        say(&FromWorker::Bootstrap(introduction(&init).into_bytes()));
        if self.wants(Plan::NEVER_READ) {
            return hang_after("deaf");
        }
        while let Some(message) = self.next() {
            match message {
                ToWorker::Connect { .. } if self.wants(Plan::HANG_IN_CONNECT) => return hang_after("connecting"),
                ToWorker::Connect { .. } => say(&FromWorker::Connected { setup_us: 1, engine: Box::default() }),
                ToWorker::Run(script) => {
                    if let Some(code) = self.run_script(&script) {
                        return code;
                    }
                }
                ToWorker::Quit if self.wants(Plan::DEAF_TO_QUIT) => return hang_after("quitting"),
                ToWorker::Quit => return ExitCode::SUCCESS,
                ToWorker::Init(_) => return fail("a second init"),
                ToWorker::Probe(_) => return fail("a probe's step"),
            }
        }
        ExitCode::SUCCESS
    }

    fn misbehave_at_start(&self) -> Option<ExitCode> {
        if self.wants(Plan::STDERR_FLOOD) {
            let lines = vec!["noise"; 1000].join("\n") + "\n";
            (0..100).for_each(|_| eprint!("{lines}"));
            print_line("flood ends");
        }
        if self.wants(Plan::HANG_AT_START) {
            return Some(hang_after("hanging"));
        }
        if self.wants(Plan::CRASH) {
            print_line("about to crash");
            std::process::abort();
        }
        if self.wants(Plan::EXIT) {
            eprint!("last words");
            return Some(ExitCode::from(3));
        }
        if self.wants(Plan::GARBAGE) {
            write_out(&[0xff; 64]);
            return Some(hang_after("wrote garbage"));
        }
        while self.wants(Plan::FRAME_FLOOD) {
            say(&FromWorker::Bootstrap(vec![7; 1 << 16]));
        }
        None
    }

    fn run_script(&self, script: &Script) -> Option<ExitCode> {
        for item in 0..script.items.len() as u32 {
            if self.wants(&format!("{}{item}", Plan::HANG_AT_ITEM)) {
                return Some(hang_after("hanging in an item"));
            }
            if self.wants(&format!("{}{item}", Plan::EXIT_AT_ITEM)) {
                return Some(ExitCode::from(3));
            }
            let outcome = ItemOutcome::Unsupported("fixture".to_owned());
            say(&FromWorker::Item { script: script.id, item, outcome });
        }
        say(&FromWorker::ScriptDone { script: script.id });
        None
    }

    fn wants(&self, word: &str) -> bool {
        self.plan.iter().any(|planned| planned == word)
    }

    fn next(&mut self) -> Option<ToWorker> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(message) = self.decoder.next_message().ok()? {
                return Some(message);
            }
            match io::stdin().read(&mut buffer).ok()? {
                0 => return None,
                count => self.decoder.feed(&buffer[..count]),
            }
        }
    }
}

fn plan_of(rank: u32) -> Vec<String> {
    let plan = env::var("FIXTURE_PLAN").unwrap_or_default();
    let entry = plan.split(';').filter_map(|entry| entry.split_once('=')).find(|(r, _)| *r == rank.to_string());
    entry.map(|(_, words)| words.split('+').map(str::to_owned).collect()).unwrap_or_default()
}

/// What tests check about how a worker was started.
fn introduction(init: &WorkerInit) -> String {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let shown = env::var("FIXTURE_SHOWN").unwrap_or_default();
    format!("{}/{} {} shown={shown} args={}", init.rank, init.world, init.engine, arguments.join(" "))
}

fn say(message: &FromWorker) {
    match codec::encode(message) {
        Ok(frame) => write_out(&frame),
        Err(error) => drop(fail(&error.to_string())),
    }
}

fn write_out(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    // A closed pipe shows as end of input.
    out.write_all(bytes).and_then(|()| out.flush()).ok();
}

fn start_self(role: &str) {
    let result = env::current_exe().and_then(|program| {
        let mut child = Command::new(program).arg(role).stdin(Stdio::null()).spawn()?;
        if role == "daemon" { child.wait().map(drop) } else { Ok(()) }
    });
    if let Err(error) = result {
        fail(&format!("start {role}: {error}"));
    }
}

/// Says so on standard error, which tests wait for, and never returns.
fn hang_after(text: &str) -> ExitCode {
    print_line(text);
    loop {
        thread::park();
    }
}

/// Prints a line as a whole, so that processes who share the stream do not mix theirs.
fn print_line(text: &str) {
    io::stderr().write_all(format!("{text}\n").as_bytes()).ok();
}

fn fail(text: &str) -> ExitCode {
    print_line(&format!("fixture: {text}"));
    ExitCode::from(99)
}

#[expect(unsafe_code, reason = "the standard library has no signal dispositions")]
fn ignore_term() {
    // SAFETY: `SIG_IGN` is a valid disposition.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
}
