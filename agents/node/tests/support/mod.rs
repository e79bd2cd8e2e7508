//! A client for agents in tests: starts one, talks frames with it, and proves that nothing of it is left.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    fs::{self, File},
    io::{Read, Seek as _, Write as _},
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use gdrtune_profiles::vocab::{Collective, DataType, Engine, Environment, Point, ReduceOp};
use gdrtune_wire::{
    EndCause, FromAgent, FromWorker, GroupId, Hello, Item, PROTOCOL, Script, SessionKey, Settings, StartGroup, ToAgent,
    ToWorker, codec,
};
use rustix::process::{Pid, Signal};

/// Far beyond anything here; only a failure waits so long.
const PATIENCE: Duration = Duration::from_secs(10);

/// The fixture.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_gdrtune-agent-fixture");

/// A running agent with our end of its pipes.
pub(crate) struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    frames: Receiver<FromAgent>,
    mark: String,
    temporary: tempfile::TempDir,
    log: File,
}

/// An agent to be.
pub(crate) struct Builder {
    command: Command,
    mark: String,
    temporary: tempfile::TempDir,
    log: File,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self::with_command(Command::new(PROGRAM), &["agent"])
    }

    /// A command that becomes the fixture in the end.
    pub(crate) fn with_command(mut command: Command, arguments: &[&str]) -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        let temporary = tempfile::tempdir().unwrap();
        let log = tempfile::tempfile().unwrap();
        command
            .args(arguments)
            .env("FIXTURE_MARK", &mark)
            .env("TMPDIR", temporary.path())
            .env("GDRTUNE_LOCK_DIR", temporary.path().join("lock"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.try_clone().unwrap());
        Self { command, mark, temporary, log }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Starts it without a word.
    pub(crate) fn start(mut self) -> Agent {
        let mut child = self.command.spawn().unwrap();
        let (sender, frames) = mpsc::channel();
        let mut stdout = child.stdout.take().unwrap();
        thread::spawn(move || read_frames(&mut stdout, &sender));
        let stdin = child.stdin.take();
        Agent { child, stdin, frames, mark: self.mark, temporary: self.temporary, log: self.log }
    }

    /// Starts it and reads nothing that it says.
    pub(crate) fn start_unread(mut self) -> (Agent, std::process::ChildStdout) {
        let mut child = self.command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let stdin = child.stdin.take();
        let frames = mpsc::channel().1;
        (Agent { child, stdin, frames, mark: self.mark, temporary: self.temporary, log: self.log }, stdout)
    }

    /// Starts it and says hello.
    pub(crate) fn connect(self) -> Agent {
        let mut agent = self.start();
        agent.send(&ToAgent::Hello(hello("fixture", PROTOCOL)));
        assert!(matches!(agent.next(), FromAgent::Hello(own) if own.build_id == "fixture" && own.protocol == PROTOCOL));
        agent
    }
}

/// Waits until something holds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "not in time: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

impl Agent {
    pub(crate) fn send(&mut self, message: &ToAgent) {
        self.send_bytes(&codec::encode(message).unwrap());
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Sends a message that a dead agent does not get. Returns whether it went out.
    pub(crate) fn try_send(&mut self, message: &ToAgent) -> bool {
        self.stdin.as_mut().unwrap().write_all(&codec::encode(message).unwrap()).is_ok()
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn temporary_files(&self) -> usize {
        fs::read_dir(self.temporary.path()).unwrap().count()
    }

    /// Names of files of this kind in the agent's temporary folder, at any depth.
    pub(crate) fn temporary_files_named(&self, ending: &str) -> Vec<String> {
        let mut folders = vec![self.temporary.path().to_owned()];
        let mut names = vec![];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let name = entry.file_name().into_string().unwrap();
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                } else if name.ends_with(ending) {
                    names.push(name);
                }
            }
        }
        names.sort();
        names
    }

    pub(crate) fn start_group(&mut self, group: u32, ranks: &[u32], plan: &str) {
        self.send(&ToAgent::Start(start(group, ranks, plan)));
    }

    pub(crate) fn pass_on(&mut self, group: u32, message: ToWorker) {
        self.send(&ToAgent::ToWorkers { group: GroupId(group), message });
    }

    /// What the agent logged so far; fails where a line is no JSON object of ours.
    pub(crate) fn log(&mut self) -> String {
        let mut text = String::new();
        self.log.rewind().unwrap();
        self.log.read_to_string(&mut text).unwrap();
        for line in text.lines() {
            assert!(line.starts_with("{\"level\":\"") && line.ends_with("\"}"), "{line}");
        }
        text
    }

    /// The next message.
    pub(crate) fn next(&mut self) -> FromAgent {
        self.frames.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("no message from the agent: {error}"))
    }

    /// The first message that `pick` takes; others are skipped.
    pub(crate) fn wait_for<T>(&mut self, mut pick: impl FnMut(&FromAgent) -> Option<T>) -> T {
        let mut skipped = vec![];
        let until = Instant::now() + PATIENCE;
        loop {
            match self.frames.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(message) => match pick(&message) {
                    Some(picked) => return picked,
                    None => skipped.push(message),
                },
                Err(error) => panic!("the awaited message did not come ({error}), but {skipped:#?}"),
            }
        }
    }

    /// Waits until a worker has printed this line.
    pub(crate) fn wait_for_line(&mut self, line: &str) {
        self.wait_for(|message| match message {
            FromAgent::Worker { message: FromWorker::Output(text), .. } if text == line => Some(()),
            _ => None,
        });
    }

    /// Starts a group and takes it as far as connected.
    pub(crate) fn connect_group(&mut self, group: u32, ranks: &[u32], plan: &str) {
        self.start_group(group, ranks, plan);
        self.wait_for_each(group, ranks, |message| matches!(message, FromWorker::Bootstrap(_)));
        self.pass_on(group, ToWorker::Connect { peers: vec![vec![]; ranks.len()] });
        self.wait_for_each(group, ranks, |message| matches!(message, FromWorker::Connected { .. }));
    }

    /// Waits until each rank has said something of this kind.
    pub(crate) fn wait_for_each(&mut self, group: u32, ranks: &[u32], is_it: impl Fn(&FromWorker) -> bool) {
        let mut left = ranks.to_vec();
        while !left.is_empty() {
            let rank = self.wait_for(|message| match message {
                FromAgent::Worker { group: GroupId(id), rank, message } if *id == group && is_it(message) => {
                    Some(*rank)
                }
                FromAgent::WorkerEnded { .. } => panic!("{message:?}"),
                _ => None,
            });
            left.retain(|waiting| *waiting != rank);
        }
    }

    /// How each rank of the group ended, by rank. Fails where one is reported twice before the others.
    pub(crate) fn ends(&mut self, group: u32, count: usize) -> Vec<EndCause> {
        let mut ends = vec![];
        while ends.len() < count {
            ends.push(self.wait_for(|message| match message {
                FromAgent::WorkerEnded { group: GroupId(id), rank, cause } if *id == group => {
                    Some((*rank, cause.clone()))
                }
                _ => None,
            }));
        }
        ends.sort_by_key(|(rank, _)| *rank);
        assert!(ends.is_sorted_by(|a, b| a.0 < b.0), "a rank ended twice: {ends:?}");
        ends.into_iter().map(|(_, cause)| cause).collect()
    }

    /// Waits for the agent's end; a signal counts as its negative number.
    pub(crate) fn exit_code(&mut self) -> i32 {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or_else(|| -status.signal().unwrap());
            }
            assert!(Instant::now() < until, "the agent does not end");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Everything that the agent said until it closed its output.
    pub(crate) fn rest(&mut self) -> Vec<FromAgent> {
        let mut rest = vec![];
        loop {
            match self.frames.recv_timeout(PATIENCE) {
                Ok(message) => rest.push(message),
                Err(RecvTimeoutError::Disconnected) => return rest,
                Err(RecvTimeoutError::Timeout) => panic!("the agent's output does not end"),
            }
        }
    }

    /// Processes that have this agent's mark in their environment, dead ones not counted.
    pub(crate) fn marked_processes(&self) -> Vec<i32> {
        let wanted = format!("FIXTURE_MARK={}\0", self.mark).into_bytes();
        let has_mark = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.windows(wanted.len()).any(|window| window == wanted)
        };
        let entries = fs::read_dir("/proc").unwrap();
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter(has_mark).collect()
    }

    /// Waits until no marked process is left.
    pub(crate) fn assert_nothing_left(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = self.marked_processes();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "processes are left: {left:?}");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // A failed test must not leave what it found.
        for pid in self.marked_processes() {
            rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).ok();
        }
        self.child.wait().ok();
    }
}

fn read_frames(stdout: &mut impl Read, sender: &mpsc::Sender<FromAgent>) {
    let mut preamble = [0; 8];
    if stdout.read_exact(&mut preamble).is_err() {
        return;
    }
    assert_eq!(&preamble, codec::PREAMBLE);
    let mut decoder = codec::Decoder::new();
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = stdout.read(&mut buffer) {
        decoder.feed(&buffer[..count]);
        while let Some(message) = decoder.next_message().unwrap() {
            if sender.send(message).is_err() {
                return;
            }
        }
    }
    assert!(!decoder.has_partial());
}

pub(crate) fn hello(build_id: &str, protocol: u32) -> Hello {
    Hello { protocol, build_id: build_id.into(), hostname: "test".into(), boot_id: String::new(), pid: 1 }
}

/// A group of these ranks and one more, so that the last rank is never the world's last by accident.
pub(crate) fn start(group: u32, ranks: &[u32], plan: &str) -> StartGroup {
    StartGroup {
        group: GroupId(group),
        world: ranks.iter().max().map_or(1, |rank| rank + 1),
        nodes: 1,
        ranks: ranks.to_vec(),
        engine: Engine::Native,
        settings: Settings::Live(Environment::new().with("FIXTURE_PLAN", plan)),
        key: SessionKey([7; 32]),
        max_bytes: 1 << 20,
        deadline_ms: 60_000,
        emulate_nodes: false,
        register_buffers: false,
        worker_command: vec![],
        probe: None,
    }
}

pub(crate) fn script(id: u64, leases_ms: &[u64]) -> ToWorker {
    let item = |lease_ms: &u64| Item {
        point: Point { collective: Collective::AllReduce, bytes: 1024 },
        choice: None,
        data_type: DataType::F32,
        op: ReduceOp::Sum,
        root: 0,
        in_place: false,
        graph: false,
        check: true,
        warmup: 1,
        iterations: 5,
        lease_ms: *lease_ms,
    };
    ToWorker::Run(Script { id, items: leases_ms.iter().map(item).collect() })
}

/// Writes an executable script, by another process: a file that this one has open for writing cannot be run, and any
/// test's fork keeps it open for a moment.
pub(crate) fn write_script(path: &Path, text: &str) {
    let script = "printf '%s' \"$1\" >\"$0\" && chmod +x \"$0\"";
    let status = Command::new("/bin/sh").args(["-c", script]).arg(path).arg(text).status();
    assert!(status.unwrap().success());
}
