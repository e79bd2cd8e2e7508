//! Agents in memory: a launcher whose agents are functions of this process.
#![expect(clippy::unwrap_used, reason = "only tests use this")]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use gdrtune_fleet::{
    LaunchError,
    hosts::Host,
    launcher::{AgentProcess, AgentSpec, Ended, Freshness, Launched, Launcher, Stage},
};
use gdrtune_wire::{FromAgent, ToAgent, codec};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    sync::watch,
};

use crate::messages::{BUILD, hello, inventory};

/// The far ends of an agent's streams.
pub(crate) struct Far {
    pub(crate) host: String,
    pub(crate) freshness: Freshness,
    pub(crate) stdin: DuplexStream,
    pub(crate) stdout: DuplexStream,
    pub(crate) stderr: DuplexStream,
    pub(crate) decoder: codec::Decoder,
}

impl Far {
    pub(crate) async fn say(&mut self, message: &FromAgent) {
        self.stdout.write_all(&codec::encode(message).unwrap()).await.ok();
    }

    /// The next message that is no heartbeat; heartbeats are answered. `None` is the end of input.
    pub(crate) async fn hear(&mut self) -> Option<ToAgent> {
        loop {
            match self.hear_all().await? {
                ToAgent::Ping(number) => self.say(&FromAgent::Pong(number)).await,
                message => return Some(message),
            }
        }
    }

    pub(crate) async fn hear_all(&mut self) -> Option<ToAgent> {
        let mut buffer = [0; 1024];
        loop {
            if let Some(message) = self.decoder.next_message().unwrap() {
                return Some(message);
            }
            let count = self.stdin.read(&mut buffer).await.ok()?;
            if count == 0 {
                return None;
            }
            self.decoder.feed(&buffer[..count]);
        }
    }

    pub(crate) async fn introduce(&mut self, build_id: &str) {
        self.stdout.write_all(codec::PREAMBLE).await.unwrap();
        assert!(matches!(self.hear().await, Some(ToAgent::Hello(_))));
        self.say(&FromAgent::Hello(hello(build_id))).await;
        if matches!(self.hear().await, Some(ToAgent::Inventory)) {
            self.say(&FromAgent::Inventory(inventory())).await;
        }
    }

    /// Lives until it is told to end.
    pub(crate) async fn serve(mut self) -> Ended {
        self.introduce(BUILD).await;
        while let Some(message) = self.hear().await {
            match message {
                ToAgent::Stop(group) => self.say(&FromAgent::Refused { why: format!("{group:?}") }).await,
                ToAgent::Shutdown => break,
                other => panic!("unexpected {other:?}"),
            }
        }
        Ended::Code(0)
    }
}

pub(crate) type Agent = Arc<dyn Fn(Far) -> BoxFuture<'static, Ended> + Send + Sync>;

pub(crate) fn agent<F: Future<Output = Ended> + Send + 'static>(
    run: impl Fn(Far) -> F + Send + Sync + 'static,
) -> Agent {
    Arc::new(move |far| Box::pin(run(far)))
}

pub(crate) struct Fake {
    pub(crate) agent: Agent,
    pub(crate) can_replace: bool,
    /// Agents that are being started or run.
    pub(crate) alive: Arc<AtomicUsize>,
}

impl std::fmt::Debug for Fake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fake")
    }
}

pub(crate) struct FakeProcess {
    task: tokio::task::JoinHandle<()>,
    ended: watch::Receiver<Option<Ended>>,
    alive: Arc<AtomicUsize>,
}

impl AgentProcess for FakeProcess {
    fn wait(&mut self) -> BoxFuture<'_, Ended> {
        Box::pin(async {
            let ended = self.ended.wait_for(Option::is_some).await.map(|ended| ended.clone());
            ended.ok().flatten().unwrap_or(Ended::Signal(9))
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { drop(self) })
    }
}

impl Drop for FakeProcess {
    fn drop(&mut self) {
        self.task.abort();
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Launcher for Fake {
    fn start<'a>(
        &'a self,
        host: &'a Host,
        _spec: &'a AgentSpec,
        freshness: Freshness,
        stage: &'a Stage,
    ) -> BoxFuture<'a, Result<Launched, LaunchError>> {
        stage.set("making it up");
        let (stdin, far_stdin) = tokio::io::duplex(1 << 10);
        let (far_stdout, stdout) = tokio::io::duplex(1 << 10);
        let (far_stderr, stderr) = tokio::io::duplex(1 << 10);
        let (end, ended) = watch::channel(None);
        let far = Far {
            host: host.name.clone(),
            freshness,
            stdin: far_stdin,
            stdout: far_stdout,
            stderr: far_stderr,
            decoder: codec::Decoder::new(),
        };
        self.alive.fetch_add(1, Ordering::SeqCst);
        let run = (self.agent)(far);
        let task = tokio::spawn(async move {
            end.send(Some(run.await)).ok();
        });
        let process = Box::new(FakeProcess { task, ended, alive: Arc::clone(&self.alive) });
        Box::pin(async move {
            Ok(Launched { stdin: Box::new(stdin), stdout: Box::new(stdout), stderr: Box::new(stderr), process })
        })
    }

    fn can_replace(&self) -> bool {
        self.can_replace
    }
}
