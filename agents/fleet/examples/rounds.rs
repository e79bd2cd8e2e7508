//! What a round of messages costs the coordinator: a script to every node, a result from each. The agents are simulated, over
//! pipes in memory and on a thread of their own, so that the coordinator's processor time can be told from theirs.
//!
//! ```text
//! cargo run --release -p gdrtune-fleet --example rounds -- [AGENTS [ROUNDS]]       default: 1000 agents, 200 rounds
//! ```
//!
//! Prints, per round, the wall time and the processor time of the coordinator's threads (that of the fleet's tasks and that of
//! the session, which sends and takes the results). Ends with 1 where that is over 1 ms per 100 agents.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark that cannot go on ends; figures are its output"
)]

use std::{
    process::ExitCode,
    sync::{
        Arc,
        mpsc::{self, Receiver},
    },
    thread,
    time::Instant,
};

use futures_util::future::BoxFuture;
use gdrtune_fleet::{
    Fleet, FleetConfig, FleetEvent, LaunchError, LauncherKind,
    hosts::Host,
    launcher::{AgentProcess, AgentSpec, Ended, Freshness, Launched, Launcher, Stage},
};
use gdrtune_profiles::vocab::{Collective, DataType, Point, ReduceOp};
use gdrtune_wire::{
    FromAgent, FromWorker, GroupId, Hello, Item, ItemOutcome, PROTOCOL, Script, Times, ToAgent, ToWorker,
    codec::{Decoder, PREAMBLE, encode},
};
use rustix::time::{ClockId, clock_gettime};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    runtime::{Builder, Handle, Runtime},
    task::JoinHandle,
};

const BUILD: &str = "simulated";
/// Capacity of a pipe of the kernel's (`pipe(7)`).
const PIPE_BYTES: usize = 64 << 10;
/// Most processor time of the coordinator's per round and 100 agents, in microseconds.
const LIMIT_US: f64 = 1000.0;

/// Starts agents that are tasks of another thread.
#[derive(Debug)]
struct Simulated(Handle);

struct Task(JoinHandle<()>);

impl AgentProcess for Task {
    fn wait(&mut self) -> BoxFuture<'_, Ended> {
        Box::pin(async {
            (&mut self.0).await.ok();
            Ended::Code(0)
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.0.abort();
        Box::pin(async {})
    }
}

impl Launcher for Simulated {
    fn start<'a>(
        &'a self,
        _host: &'a Host,
        _spec: &'a AgentSpec,
        _freshness: Freshness,
        _stage: &'a Stage,
    ) -> BoxFuture<'a, Result<Launched, LaunchError>> {
        let (stdin, far_stdin) = tokio::io::duplex(PIPE_BYTES);
        let (far_stdout, stdout) = tokio::io::duplex(PIPE_BYTES);
        let process = Box::new(Task(self.0.spawn(serve(far_stdin, far_stdout))));
        let stderr = Box::new(tokio::io::empty());
        Box::pin(async move { Ok(Launched { stdin: Box::new(stdin), stdout: Box::new(stdout), stderr, process }) })
    }
}

/// An agent whose worker has every result at once.
async fn serve(mut input: DuplexStream, mut output: DuplexStream) {
    let hello = Hello {
        protocol: PROTOCOL,
        build_id: BUILD.to_owned(),
        hostname: "simulated".to_owned(),
        boot_id: String::new(),
        pid: 1,
    };
    output.write_all(PREAMBLE).await.unwrap();
    let mut decoder = Decoder::new();
    let mut buffer = vec![0; PIPE_BYTES];
    loop {
        while let Some(message) = decoder.next_message().unwrap() {
            let answer = match message {
                ToAgent::Hello(_) => FromAgent::Hello(hello.clone()),
                ToAgent::Inventory => FromAgent::Inventory(Box::default()),
                ToAgent::Ping(number) => FromAgent::Pong(number),
                ToAgent::ToWorkers { group, message: ToWorker::Run(script) } => {
                    let outcome = ItemOutcome::Timed(times());
                    FromAgent::Worker {
                        group,
                        rank: 0,
                        message: FromWorker::Item { script: script.id, item: 0, outcome },
                    }
                }
                ToAgent::Shutdown => return,
                other => panic!("unexpected {other:?}"),
            };
            if output.write_all(&encode(&answer).unwrap()).await.is_err() {
                return;
            }
        }
        match input.read(&mut buffer).await {
            Ok(count) if count > 0 => decoder.feed(&buffer[..count]),
            _ => return,
        }
    }
}

fn times() -> Times {
    Times {
        mean_us: 120.5,
        median_us: 119.0,
        min_us: 110.0,
        max_us: 190.0,
        cpu_us: 80.0,
        selected: None,
        checked: true,
        predictions: vec![],
    }
}

fn script(id: u64) -> ToAgent {
    let item = Item {
        point: Point { collective: Collective::AllReduce, bytes: 1 << 20 },
        choice: None,
        data_type: DataType::F32,
        op: ReduceOp::Sum,
        root: 0,
        in_place: false,
        graph: false,
        check: true,
        warmup: 5,
        iterations: 20,
        lease_ms: 1000,
    };
    ToAgent::ToWorkers { group: GroupId(1), message: ToWorker::Run(Script { id, items: vec![item] }) }
}

/// Runs a tokio runtime of one thread, for good.
fn on_its_own_thread() -> Handle {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let runtime: Runtime = Builder::new_current_thread().enable_all().build().unwrap();
        sender.send(runtime.handle().clone()).unwrap();
        runtime.block_on(std::future::pending::<()>());
    });
    receiver.recv().unwrap()
}

/// Processor time of the calling thread, in microseconds.
fn thread_us() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Processor time of a runtime's one thread, in microseconds.
fn runtime_us(runtime: &Handle) -> f64 {
    let (sender, receiver) = mpsc::channel();
    runtime.spawn(async move { sender.send(thread_us()).unwrap() });
    receiver.recv().unwrap()
}

/// One script to every node, and a result from each.
fn round(fleet: &Fleet, events: &Receiver<FleetEvent>, agents: usize, id: u64) {
    for node in 0..agents {
        fleet.send(node, &script(id)).unwrap();
    }
    let mut left = agents;
    while left > 0 {
        match events.recv().unwrap() {
            FleetEvent::Message {
                message: FromAgent::Worker { message: FromWorker::Item { script, .. }, .. }, ..
            } => {
                assert_eq!(script, id);
                left -= 1;
            }
            other => panic!("unexpected {other:?}"),
        }
    }
}

fn main() -> ExitCode {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|text| text.parse().unwrap()).collect();
    let (agents, rounds) = (numbers.first().copied().unwrap_or(1000), numbers.get(1).copied().unwrap_or(200));
    let (coordinator, simulated) = (on_its_own_thread(), on_its_own_thread());
    let mut config = FleetConfig::new(BUILD, "/dev/null", LauncherKind::Other(Arc::new(Simulated(simulated))));
    config.fanout = agents;
    let hosts = (0..agents).map(|number| Host::named(format!("n{number}"))).collect();
    let (sender, events) = mpsc::channel();
    let begun = Instant::now();
    let (give, take) = mpsc::channel();
    coordinator.spawn(async move { give.send(Fleet::connect(config, hosts, sender).await).unwrap() });
    let fleet = take.recv().unwrap().unwrap();
    assert!(fleet.failures().is_empty(), "{:?}", fleet.failures());
    println!("SIMULATED: {agents} agents in memory; connected in {:.0} ms", begun.elapsed().as_secs_f64() * 1e3);
    while events.try_recv().is_ok() {}

    round(&fleet, &events, agents, 0);
    let (begun, session, tasks) = (Instant::now(), thread_us(), runtime_us(&coordinator));
    for id in 1..=rounds {
        round(&fleet, &events, agents, id as u64);
    }
    let per_round = 1.0 / rounds as f64;
    let (session, tasks) = ((thread_us() - session) * per_round, (runtime_us(&coordinator) - tasks) * per_round);
    let wall = begun.elapsed().as_secs_f64() * 1e6 * per_round;
    let per_hundred = (session + tasks) * 100.0 / agents as f64;
    println!("per round: wall {wall:.0} us; coordinator's own: session {session:.0} us, fleet {tasks:.0} us");
    println!("coordinator's own per round and 100 agents: {per_hundred:.0} us (limit {LIMIT_US:.0} us)");
    let (done, ended) = mpsc::channel();
    coordinator.spawn(async move {
        fleet.shutdown().await;
        done.send(()).unwrap();
    });
    ended.recv().unwrap();
    if per_hundred < LIMIT_US { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
