//! Times all-reduce (float32, sum, out of place) on local ranks and prints "bytes microseconds choice" lines, the twin of
//! `benches/openmpi/allreduce.c`.
//!
//! `allreduce MIN_BYTES MAX_BYTES [BUDGET_MS [RANKS [CHOICE...]]]`; a choice is `default` or such as `ring/ll/2`. Each rank
//! is a worker process of its own, as in the product; this process plays the agent.
#![expect(clippy::print_stdout, reason = "its table is its purpose")]

use std::{
    error::Error,
    io::{Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
};

use gdrtune_node::worker::{WorkerArgs, run};
use gdrtune_profiles::vocab::{Choice, Collective, DataType, Engine, Point, ReduceOp};
use gdrtune_wire::{
    FromWorker, Item, ItemOutcome, Script, SessionKey, ToWorker, WorkerInit,
    codec::{Decoder, encode},
};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Time for start-up and for each item, in milliseconds.
const LEASE_MS: u64 = 60_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "worker") {
        return run(&WorkerArgs::default());
    }
    match bench(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A rank's process, and the two ends to it.
struct Rank {
    process: Child,
    to: ChildStdin,
    from: ChildStdout,
    decoder: Decoder,
}

impl Rank {
    fn start(init: WorkerInit) -> Outcome<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (to, from) = (process.stdin.take().ok_or("no pipe")?, process.stdout.take().ok_or("no pipe")?);
        let mut rank = Self { process, to, from, decoder: Decoder::new() };
        rank.send(&ToWorker::Init(init))?;
        Ok(rank)
    }

    fn send(&mut self, message: &ToWorker) -> Outcome<()> {
        Ok(self.to.write_all(&encode(message)?)?)
    }

    fn receive(&mut self) -> Outcome<FromWorker> {
        let mut bytes = [0; 4096];
        loop {
            match self.decoder.next_message()? {
                Some(FromWorker::Failed(why)) => return Err(why.into()),
                Some(message) => return Ok(message),
                None => {}
            }
            let length = self.from.read(&mut bytes)?;
            if length == 0 {
                return Err("a worker ended".into());
            }
            self.decoder.feed(&bytes[..length]);
        }
    }
}

fn bench(arguments: &[String]) -> Outcome<()> {
    let number = |index: usize, default: u64| arguments.get(index).map_or(Ok(default), |text| text.parse());
    let (low, high, budget_ms, world) = (number(0, 1024)?, number(1, 64 << 20)?, number(2, 200)?, number(3, 4)?);
    let choices: Vec<Option<Choice>> = match arguments.get(4..) {
        Some(list @ [_, ..]) => list.iter().map(|text| parse_choice(text)).collect::<Outcome<_>>()?,
        _ => vec![None],
    };
    let mut ranks = connect(world as u32, high)?;
    let mut bytes = low.max(4);
    while bytes <= high {
        for &choice in &choices {
            let once = measure(&mut ranks, bytes, choice, (1, 3))?.0;
            let iterations = (budget_ms as f64 * 1e3 / once.max(1.0)).clamp(5.0, 20_000.0) as u32;
            let (mean, ran) = measure(&mut ranks, bytes, choice, (iterations / 10 + 1, iterations))?;
            println!("{bytes} {mean:.2} {ran}");
        }
        bytes *= 4;
    }
    for rank in &mut ranks {
        rank.send(&ToWorker::Quit)?;
        rank.process.wait()?;
    }
    Ok(())
}

fn parse_choice(text: &str) -> Outcome<Option<Choice>> {
    if text == "default" {
        return Ok(None);
    }
    let [algorithm, protocol, channels] = text.split('/').collect::<Vec<_>>()[..] else {
        return Err(format!("`{text}` is no choice: write such as ring/ll/2").into());
    };
    let (algorithm, protocol) = (algorithm.parse()?, protocol.parse()?);
    Ok(Some(Choice { algorithm, protocol, channels: channels.parse()? }))
}

fn connect(world: u32, max_bytes: u64) -> Outcome<Vec<Rank>> {
    let mut key = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
    let init = |rank| WorkerInit {
        rank,
        world,
        nodes: 1,
        engine: Engine::Native,
        key: SessionKey(key),
        max_bytes,
        deadline_ms: LEASE_MS,
    };
    let mut ranks = (0..world).map(|rank| Rank::start(init(rank))).collect::<Outcome<Vec<_>>>()?;
    let mut peers = Vec::new();
    for rank in &mut ranks {
        let FromWorker::Bootstrap(blob) = rank.receive()? else { return Err("no bootstrap".into()) };
        peers.push(blob);
    }
    for rank in &mut ranks {
        rank.send(&ToWorker::Connect { peers: peers.clone() })?;
    }
    for rank in &mut ranks {
        let FromWorker::Connected { .. } = rank.receive()? else { return Err("not connected".into()) };
    }
    Ok(ranks)
}

/// Mean time of the first rank, and what it ran.
fn measure(
    ranks: &mut [Rank],
    bytes: u64,
    choice: Option<Choice>,
    (warmup, iterations): (u32, u32),
) -> Outcome<(f64, String)> {
    let item = Item {
        point: Point { collective: Collective::AllReduce, bytes },
        choice,
        data_type: DataType::F32,
        op: ReduceOp::Sum,
        root: 0,
        in_place: false,
        check: true,
        warmup,
        iterations,
        lease_ms: LEASE_MS,
    };
    for rank in &mut *ranks {
        rank.send(&ToWorker::Run(Script { id: 0, items: vec![item.clone()] }))?;
    }
    let mut results = Vec::new();
    for rank in &mut *ranks {
        match rank.receive()? {
            FromWorker::Item { outcome: ItemOutcome::Timed(times), .. } => results.push(times),
            other => return Err(format!("{other:?}").into()),
        }
        rank.receive()?;
    }
    let first = results.first().ok_or("no ranks")?;
    Ok((first.mean_us, first.selected.map_or_else(|| "-".to_owned(), |choice| choice.to_string())))
}
