//! The one place that decides what an agent does: takes events, answers the client, keeps the groups.
//!
//! Everything here runs on one thread, which never waits for a peer.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsStr,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender},
    time::{Duration, Instant},
};

use gdrtune_profiles::vocab::Engine;
use gdrtune_wire::{
    EndCause, FromAgent, FromWorker, GroupId, Hello, InstallOutcome, Inventory, LockOutcome, LockRequest, PROTOCOL,
    StartGroup, ToAgent, ToWorker,
    codec::{self, CodecError},
};
use rustix::process::Pid;

use super::{
    AgentConfig, EXIT_BROKEN_STREAM, EXIT_CLIENT_LOST, EXIT_MISMATCH,
    bundles::{BundleError, Bundles},
    environment::Variables,
    event::{Event, Heard, Serial, StreamEnd},
    group::Group,
    install, launch,
    log::{Level, Log},
    nccl_log::{self, NcclLogs, Need},
    node_lock::{self, Asked, NodeLock},
    outbox::{Outbox, OutboxError},
    process,
    reach::{self, Reach},
    watchdog::Watchdog,
};
use crate::{
    engine::nccl::PLUGIN_VARIABLE,
    inventory::{self, LOCK_VARIABLE},
};

/// File name of the tuner plugin: NCCL takes an absolute path whatever its name, and this is what users deploy.
const PLUGIN_FILE: &str = "libnccl-tuner-gdrtune.so";

/// Waiting bytes beyond which printed lines are dropped, so that results get through.
const NOISE_LIMIT_BYTES: usize = 1 << 20;

/// Time between two looks for orphans while there are some.
const SWEEP_INTERVAL: Duration = Duration::from_millis(10);

/// Time that workers may take to die when the agent ends, on top of their grace. What survives is stuck in the kernel and
/// has its signal pending.
const ENDING_LIMIT: Duration = Duration::from_secs(8);

/// Time without any event after which the groups are looked at all the same.
const IDLE_WAKEUP: Duration = Duration::from_secs(1);

/// The agent's state.
pub(super) struct Supervisor<'a> {
    config: &'a AgentConfig<'a>,
    client: Outbox,
    heard: Heard,
    /// Given to the threads of each worker.
    sender: SyncSender<Event>,
    log: &'a Log,
    environment: Variables,
    bundles: Bundles,
    groups: BTreeMap<GroupId, Group>,
    next_serial: u64,
    met_client: bool,
    dropped_lines: u64,
    /// Children that were there before us: the watchdog, and what an `exec` in a login shell leaves to us, its background
    /// jobs.
    strangers: HashSet<Pid>,
    sweep_at: Option<Instant>,
    ending: Option<Ending>,
    /// Given back last, when no worker is left.
    lock: Option<NodeLock>,
    reach: Reach,
}

#[derive(Debug, Clone, Copy)]
struct Ending {
    code: u8,
    until: Instant,
}

impl<'a> Supervisor<'a> {
    /// An agent that has said its preamble and nothing else.
    pub(super) fn new(
        config: &'a AgentConfig<'a>,
        client: Outbox,
        heard: Heard,
        sender: SyncSender<Event>,
        log: &'a Log,
    ) -> Self {
        Self {
            config,
            client,
            heard,
            sender,
            log,
            // The lock is the agent's own affair.
            environment: std::env::vars_os().filter(|(name, _)| name != LOCK_VARIABLE).collect(),
            bundles: Bundles::new(config.temporary_folder.clone()),
            groups: BTreeMap::new(),
            next_serial: 0,
            met_client: false,
            dropped_lines: 0,
            strangers: process::children(),
            sweep_at: None,
            ending: None,
            lock: None,
            reach: Reach::default(),
        }
    }

    /// Works until the agent is to end and its workers are gone. Returns the exit code.
    pub(super) fn run(&mut self, events: &Receiver<Event>, watchdog: &mut Watchdog) -> u8 {
        loop {
            let now = Instant::now();
            if let Err(error) = watchdog.beat(now) {
                self.log.write(Level::Warning, &format!("the watchdog is gone: {error}"));
            }
            let wakeup = self.next_wakeup(now).min(watchdog.next_beat());
            match events.recv_timeout(wakeup.saturating_duration_since(now)) {
                Ok(event) => self.handle(Instant::now(), event),
                Err(RecvTimeoutError::Timeout) => self.reap(Instant::now()),
                // Cannot be: we hold a sender ourselves. Without events there is nothing to supervise.
                Err(RecvTimeoutError::Disconnected) => self.begin_ending(now, EXIT_CLIENT_LOST, "event queue is gone"),
            }
            let now = Instant::now();
            self.check_client(now);
            self.tick(now);
            if let Some(ending) = self.ending
                && ((self.groups.is_empty() && self.sweep_at.is_none()) || ending.until <= now)
            {
                return ending.code;
            }
        }
    }

    /// Writes what still waits for the client, but no longer than `limit`.
    pub(super) fn close(&mut self, limit: Duration) {
        self.client.finish(limit);
    }

    fn next_wakeup(&self, now: Instant) -> Instant {
        let stalled = self.client.stalled_since().unwrap_or(now);
        let client_lost = self.heard.last().min(stalled) + self.config.silence_limit;
        let client = self.ending.map_or(client_lost, |ending| ending.until);
        let groups = self.groups.values().filter_map(|group| group.wakeup(now)).min();
        [groups, self.sweep_at].into_iter().flatten().fold(client.min(now + IDLE_WAKEUP), Instant::min)
    }

    fn handle(&mut self, now: Instant, event: Event) {
        match event {
            Event::Signal(libc::SIGCHLD) => self.reap(now),
            Event::Signal(signal) => {
                let code = u8::try_from(128 + signal).unwrap_or(EXIT_CLIENT_LOST);
                self.begin_ending(now, code, &format!("signal {signal}"));
            }
            Event::Client(message) if self.ending.is_none() => self.handle_client(now, message),
            Event::Client(_) => {}
            Event::ClientGone(end) => self.handle_client_end(now, &end),
            Event::Worker(serial, message) => self.handle_worker(now, serial, message),
            Event::WorkerStream(serial, end) => self.handle_stream_end(now, serial, &end),
            Event::Inventory(inventory) => self.send(&FromAgent::Inventory(inventory)),
            Event::Installation(outcome) => self.send(&FromAgent::Installation(outcome)),
            Event::Lock(Asked::Held(lock)) => {
                self.lock = Some(lock);
                self.send(&FromAgent::Lock(LockOutcome::Held));
            }
            Event::Lock(Asked::Other(outcome)) => self.send(&FromAgent::Lock(outcome)),
            Event::Dialled(outcomes) => self.send(&FromAgent::Dialled(outcomes)),
            Event::Swept(finds) => finds.iter().for_each(|find| self.log.write(Level::Info, find)),
        }
    }

    fn handle_client(&mut self, now: Instant, message: ToAgent) {
        if !self.met_client {
            return self.meet_client(now, &message);
        }
        match message {
            ToAgent::Hello(_) => self.refuse("a second hello: the conversation is open already".to_owned()),
            ToAgent::Ping(number) => self.send(&FromAgent::Pong(number)),
            ToAgent::Inventory => self.read_inventory(),
            ToAgent::StoreFiles { bundle, files } => match self.bundles.store(bundle, &files) {
                Ok(()) => self.send(&FromAgent::FilesStored { bundle }),
                Err(error) => self.refuse(format!("store bundle {bundle}: {error}")),
            },
            ToAgent::Start(start) => self.start_group(now, &start),
            ToAgent::ToWorkers { group, message } => self.send_to_workers(now, group, &message),
            ToAgent::Stop(group) => {
                // A group that is unknown has ended just before, and has been reported.
                if let Some(group) = self.groups.get_mut(&group) {
                    group.end_all(now, &EndCause::Stopped);
                }
            }
            ToAgent::Shutdown => self.begin_ending(now, 0, "shutdown"),
            ToAgent::Install(installation) => {
                let plugin = self.config.tuner_plugin.map(<[u8]>::to_vec);
                self.work_on_installation(move || install::install(&installation, plugin.as_deref()));
            }
            ToAgent::Uninstall { folder, force } => {
                self.work_on_installation(move || install::uninstall(&folder, force));
            }
            ToAgent::InspectInstallation { folder } => self.work_on_installation(move || install::inspect(&folder)),
            ToAgent::Lock(request) => self.ask_for_lock(request),
            ToAgent::Unlock => self.lock = None,
            ToAgent::Listen(request) => {
                let listening = self.reach.listen(now, &request);
                self.send(&FromAgent::Listening(listening));
            }
            ToAgent::Dial(request) => {
                if let Err(why) = reach::dial(request, self.sender.clone()) {
                    self.refuse(format!("dial other nodes: {why}"));
                }
            }
            ToAgent::Clock => self.send(&FromAgent::Clock(reach::clock_us())),
        }
    }

    fn meet_client(&mut self, now: Instant, message: &ToAgent) {
        self.met_client = true;
        let own = own_hello(self.config.build_id);
        self.send(&FromAgent::Hello(own.clone()));
        let ToAgent::Hello(theirs) = message else {
            return self.begin_ending(now, EXIT_MISMATCH, "the client's first message is no hello");
        };
        if (theirs.protocol, &theirs.build_id) != (own.protocol, &own.build_id) {
            let why = format!(
                "client is build {} (protocol {}), agent is build {} (protocol {})",
                theirs.build_id, theirs.protocol, own.build_id, own.protocol
            );
            return self.begin_ending(now, EXIT_MISMATCH, &why);
        }
        self.log.write(Level::Info, &format!("serving {} (pid {})", theirs.hostname, theirs.pid));
    }

    fn handle_client_end(&mut self, now: Instant, end: &StreamEnd) {
        match end {
            StreamEnd::Closed => self.begin_ending(now, EXIT_CLIENT_LOST, "end of input"),
            // Another build may not even agree on what a hello is. It can still read our build id in ours.
            StreamEnd::Broken(error) if !self.met_client => {
                self.met_client = true;
                self.send(&FromAgent::Hello(own_hello(self.config.build_id)));
                self.begin_ending(now, EXIT_MISMATCH, &format!("the client's hello cannot be read: {error}"));
            }
            StreamEnd::Broken(error) => self.begin_ending(now, EXIT_BROKEN_STREAM, &format!("broken input: {error}")),
        }
    }

    fn handle_worker(&mut self, now: Instant, serial: Serial, message: FromWorker) {
        let Some((group, worker)) = find(&mut self.groups, serial) else { return };
        worker.note_heard(now, &message);
        let rank = worker.rank;
        self.send_from_worker(group, rank, message);
    }

    fn handle_stream_end(&mut self, now: Instant, serial: Serial, end: &StreamEnd) {
        let Some((group, worker)) = find(&mut self.groups, serial) else { return };
        worker.note_stream_end();
        let rank = worker.rank;
        if let StreamEnd::Broken(error) = end {
            worker.terminate(now, self.config.kill_grace);
            let why = format!(
                "read its messages: {error}; something in the worker, or a worker command around it, writes to standard output"
            );
            self.send_from_worker(group, rank, FromWorker::Failed(why));
        }
    }

    fn send_from_worker(&mut self, group: GroupId, rank: u32, message: FromWorker) {
        let is_noise = matches!(message, FromWorker::Output(_));
        if is_noise && self.client.waiting_bytes() > NOISE_LIMIT_BYTES {
            self.dropped_lines += 1;
            return;
        }
        if self.dropped_lines > 0 && self.client.waiting_bytes() < NOISE_LIMIT_BYTES / 2 {
            let text = format!("{} lines of workers' output dropped: the client reads too slowly", self.dropped_lines);
            self.dropped_lines = 0;
            self.send(&FromAgent::Log(text));
        }
        self.send(&FromAgent::Worker { group, rank, message });
    }

    /// Puts our tuner plugin where NCCL finds it, once.
    fn provide_plugin(&mut self, engine: Engine) -> Result<(), BundleError> {
        let name = OsStr::new(PLUGIN_VARIABLE);
        let Some(plugin) = self.config.tuner_plugin else { return Ok(()) };
        if engine != Engine::Nccl || self.environment.contains_key(name) {
            return Ok(());
        }
        let path = self.bundles.store_own(PLUGIN_FILE, plugin)?;
        self.environment.insert(name.into(), path.into());
        Ok(())
    }

    /// The folder for the logs of a group that is to have some. Without one, workers of a live group know less of what ran.
    fn make_logs(&mut self, start: &StartGroup) -> Result<Option<NcclLogs>, BundleError> {
        let Some(need) = nccl_log::need(start) else { return Ok(None) };
        match self.bundles.make_folder(&format!("logs-{}", start.group.0)) {
            Ok(folder) => Ok(Some(NcclLogs::new(folder, need))),
            Err(error) if need == Need::Proof => Err(error),
            Err(error) => {
                self.log.write(Level::Warning, &format!("NCCL does not log in group {}: {error}", start.group.0));
                Ok(None)
            }
        }
    }

    fn read_inventory(&mut self) {
        let events = self.sender.clone();
        // A broken driver may let a read of its files hang for seconds.
        let started = super::spawn_thread("inventory", move || {
            let inventory: Inventory = inventory::read(std::path::Path::new("/"));
            // Fails only when the agent has ended.
            events.send(Event::Inventory(Box::new(inventory))).ok();
        });
        if let Err(error) = started {
            self.refuse(format!("read the inventory: {error}"));
        }
    }

    fn ask_for_lock(&mut self, request: LockRequest) {
        if self.lock.is_some() {
            return self.refuse("lock the node: it is locked already".to_owned());
        }
        let (events, folder) = (self.sender.clone(), self.config.lock_folder.clone());
        // Others may be looking, and the folder may lie on a file server that does not answer.
        let started = super::spawn_thread("lock", move || {
            // Fails only when the agent has ended.
            events.send(Event::Lock(node_lock::ask(&folder, &request))).ok();
        });
        if let Err(error) = started {
            self.send(&FromAgent::Lock(LockOutcome::Failed(format!("start a thread for it: {error}"))));
        }
    }

    fn work_on_installation(&mut self, work: impl FnOnce() -> InstallOutcome + Send + 'static) {
        let events = self.sender.clone();
        // The folder may lie on a file server that does not answer.
        let started = super::spawn_thread("installation", move || {
            // Fails only when the agent has ended.
            events.send(Event::Installation(work())).ok();
        });
        if let Err(error) = started {
            let why = format!("start a thread for it: {error}");
            self.send(&FromAgent::Installation(InstallOutcome::Failed(why)));
        }
    }

    fn start_group(&mut self, now: Instant, start: &StartGroup) {
        if self.groups.contains_key(&start.group) {
            return self.refuse(format!("start group {}: it runs already", start.group.0));
        }
        if start.ranks.is_empty() {
            return self.refuse(format!("start group {}: no rank is given", start.group.0));
        }
        if let Err(why) = self.provide_plugin(start.engine) {
            return self.refuse(format!("start group {}: {why}", start.group.0));
        }
        let logs = match self.make_logs(start) {
            Ok(logs) => logs,
            Err(why) => return self.refuse(format!("start group {}: {why}", start.group.0)),
        };
        let mut starter = launch::Launcher {
            config: self.config,
            environment: &self.environment,
            bundles: &mut self.bundles,
            events: &self.sender,
            logs: logs.as_ref(),
        };
        let launched = starter.start(now, start, &mut self.next_serial);
        for (rank, cause) in launched.failed {
            self.send(&FromAgent::WorkerEnded { group: start.group, rank, cause });
        }
        if !launched.workers.is_empty() {
            self.groups.insert(start.group, Group::new(launched.workers, self.config.kill_grace, logs));
        }
    }

    fn send_to_workers(&mut self, now: Instant, id: GroupId, message: &ToWorker) {
        if matches!(message, ToWorker::Init(_)) {
            return self.refuse(format!("pass an init to group {}: that is the agent's own message", id.0));
        }
        let Some(group) = self.groups.get_mut(&id) else {
            return self.refuse(format!("pass a message to group {}: it has no workers here", id.0));
        };
        match codec::encode(message) {
            Ok(frame) => group.send(now, &frame, message),
            Err(error) => self.refuse(format!("pass a message to group {}: {error}", id.0)),
        }
    }

    fn reap(&mut self, now: Instant) {
        for group in self.groups.values_mut() {
            if group.reap(now) {
                self.sweep_at = Some(now);
            }
        }
    }

    fn tick(&mut self, now: Instant) {
        let notices: Vec<String> = self.groups.values_mut().flat_map(|group| group.tick(now)).collect();
        for notice in notices {
            self.log.write(Level::Warning, &notice);
            self.send(&FromAgent::Log(notice));
        }
        self.reach.tick(now);
        self.sweep(now);
        let orphans_left = self.sweep_at.is_some();
        let mut ended = vec![];
        for (id, group) in &mut self.groups {
            ended.extend(group.take_ended(now, orphans_left).into_iter().map(|(rank, cause)| (*id, rank, cause)));
        }
        self.groups.retain(|_, group| !group.workers.is_empty());
        for (group, rank, cause) in ended {
            self.send(&FromAgent::WorkerEnded { group, rank, cause });
        }
    }

    /// Kills orphans, again and again until a look finds none: each one's children come to us in turn.
    fn sweep(&mut self, now: Instant) {
        if self.sweep_at.is_none_or(|at| now < at) {
            return;
        }
        let workers = self.groups.values().flat_map(|group| &group.workers);
        let mut known: HashSet<Pid> = workers.filter(|worker| !worker.is_reaped()).map(|worker| worker.pid).collect();
        known.extend(&self.strangers);
        self.sweep_at = (process::sweep_orphans(&known) > 0).then_some(now + SWEEP_INTERVAL);
    }

    fn check_client(&mut self, now: Instant) {
        if self.ending.is_some() {
            return;
        }
        let limit = self.config.silence_limit;
        if self.heard.last() + limit <= now {
            self.begin_ending(now, EXIT_CLIENT_LOST, &format!("client silent for {limit:?}"));
        } else if self.client.stalled_since().is_some_and(|since| since + limit <= now) {
            self.begin_ending(now, EXIT_CLIENT_LOST, &format!("client has read nothing for {limit:?}"));
        }
    }

    /// Ends every worker, then the agent. The first reason is the one that counts.
    fn begin_ending(&mut self, now: Instant, code: u8, why: &str) {
        if self.ending.is_some() {
            return;
        }
        self.log.write(Level::Info, &format!("ending: {why}"));
        for group in self.groups.values_mut() {
            group.end_all(now, &EndCause::Stopped);
        }
        // Also without a worker: an earlier one's orphans may be on their way to us.
        self.sweep_at = Some(now);
        self.ending = Some(Ending { code, until: now + self.config.kill_grace + ENDING_LIMIT });
    }

    fn refuse(&mut self, why: String) {
        self.send(&FromAgent::Refused { why });
    }

    fn send(&mut self, message: &FromAgent) {
        let sent = codec::encode(message).map(|frame| self.client.push(frame));
        match sent {
            // A client that has closed its end is found by its end of file.
            Ok(Ok(()) | Err(OutboxError::Closed)) => {}
            Ok(Err(error @ OutboxError::Full)) => {
                self.begin_ending(Instant::now(), EXIT_CLIENT_LOST, &format!("lost the client: {error}"));
            }
            Err(error) => self.log_oversized(&error),
        }
    }

    fn log_oversized(&mut self, error: &CodecError) {
        // Whoever waits for the message meets its deadline; the log says why.
        self.log.write(Level::Error, &format!("failed to send a message: {error}"));
    }
}

fn find(groups: &mut BTreeMap<GroupId, Group>, serial: Serial) -> Option<(GroupId, &mut super::worker::Worker)> {
    groups
        .iter_mut()
        .flat_map(|(id, group)| group.workers.iter_mut().map(|worker| (*id, worker)))
        .find(|(_, worker)| worker.serial == serial)
}

fn own_hello(build_id: &str) -> Hello {
    let root = std::path::Path::new("/");
    Hello {
        protocol: PROTOCOL,
        build_id: build_id.to_owned(),
        hostname: inventory::hostname(root),
        boot_id: inventory::boot_id(root),
        pid: std::process::id(),
    }
}
