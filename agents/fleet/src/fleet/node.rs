//! One node's task: launch, handshake, conversation, end. Owns the agent throughout.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, mpsc::Sender},
    time::Duration,
};

use futures_util::FutureExt;
use gdrtune_wire::{FromAgent, HEARTBEAT, Hello, SILENCE_LIMIT, ToAgent, codec};
use tokio::{
    io::AsyncWriteExt,
    sync::{Semaphore, mpsc::UnboundedReceiver, oneshot},
    time::{Instant, MissedTickBehavior, interval, sleep_until, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    FleetEvent, SHUTDOWN_GRACE,
    handshake::{Handshake, Introduced},
    link::{Link, Output, end_of},
};
use crate::{
    error::{LaunchError, LaunchErrorKind},
    hosts::Host,
    launcher::{AgentSpec, AgentStdin, Freshness, Launcher, Stage},
};

/// Time for the agent's output to end after it could not be written to: its last messages say more than a broken pipe.
const BROKEN_PIPE_GRACE: Duration = Duration::from_secs(1);
/// Time for a process to go by itself after its output has ended.
const EXIT_GRACE: Duration = Duration::from_secs(1);

/// What all launches of a fleet share. Gone, with the executable's bytes, when the last launch is over.
pub(super) struct Launching {
    pub(super) launcher: Arc<dyn Launcher>,
    pub(super) spec: AgentSpec,
    pub(super) hello: Hello,
    pub(super) window: Semaphore,
    pub(super) deadline: Duration,
}

/// What senders need to know of a node.
#[derive(Debug)]
pub(super) enum State {
    Connecting,
    Ready,
    Gone(String),
}

/// How a conversation ended.
enum Over {
    /// We ended it.
    Stopped,
    /// The agent's output ended.
    Ended,
    /// The agent is not to be reached, or not to be understood.
    Lost(String),
}

pub(super) struct NodeTask {
    pub(super) node: usize,
    pub(super) host: Host,
    pub(super) events: Sender<FleetEvent>,
    pub(super) state: Arc<Mutex<State>>,
    pub(super) stop: CancellationToken,
    pub(super) queue: UnboundedReceiver<Arc<[u8]>>,
}

impl NodeTask {
    /// Runs until the agent is gone. Reports on the launch once.
    pub(super) async fn run(mut self, launching: Arc<Launching>, report: oneshot::Sender<Result<(), LaunchError>>) {
        let launched = self.launch(&launching).await;
        drop(launching);
        let (link, introduced) = match launched {
            Ok(launched) => launched,
            Err(error) => {
                self.set_state(State::Gone(error.to_string()));
                self.emit(FleetEvent::Failed { node: self.node, error: error.clone() });
                // The fleet may have been dropped in the meantime.
                report.send(Err(error)).ok();
                return;
            }
        };
        self.set_state(State::Ready);
        let Introduced { hello, inventory } = introduced;
        self.emit(FleetEvent::Ready { node: self.node, hello, inventory });
        report.send(Ok(())).ok();

        let Link { stdin, mut output, mut errors, mut process } = link;
        let why = match self.converse(stdin, &mut output).await {
            Over::Stopped => None,
            Over::Lost(why) => Some(why),
            Over::Ended => {
                let ended = end_of(&mut *process, &mut errors).await;
                let words = errors.last_words();
                let words = if words.is_empty() { words } else { format!(": {words}") };
                Some(format!("its agent ended ({ended}){words}"))
            }
        };
        // No log line may come after the loss.
        errors.mute();
        if let Some(why) = why {
            self.set_state(State::Gone(format!("lost: {why}")));
            self.emit(FleetEvent::Lost { node: self.node, why });
        } else {
            self.set_state(State::Gone("shut down".to_owned()));
        }
        timeout(EXIT_GRACE, process.wait()).await.ok();
        process.close().await;
    }

    fn set_state(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    fn emit(&self, event: FleetEvent) {
        // Nobody may be listening any more; that is no reason to leave an agent behind.
        self.events.send(event).ok();
    }

    /// Launches in the node's turn; once more with a fresh executable where another build answers.
    async fn launch(&self, launching: &Launching) -> Result<(Link, Introduced), LaunchError> {
        // First the launcher's window: one that is waited for would take a place in the fleet's.
        let _own_turn = launching.launcher.turn(&self.host).await;
        // The window is never closed, and without a permit a launch would still be right.
        let _turn = launching.window.acquire().await.ok();
        self.emit(FleetEvent::Connecting { node: self.node });
        let deadline = Instant::now() + launching.deadline;
        let first = self.attempt(launching, Freshness::Reuse, deadline).await;
        match first {
            Err(error)
                if matches!(error.kind, LaunchErrorKind::BuildMismatch | LaunchErrorKind::Protocol)
                    && launching.launcher.can_replace() =>
            {
                self.emit(FleetEvent::Log { node: self.node, line: format!("uploading the agent again: {error}") });
                self.attempt(launching, Freshness::Replace, deadline).await
            }
            other => other,
        }
    }

    async fn attempt(
        &self,
        launching: &Launching,
        freshness: Freshness,
        deadline: Instant,
    ) -> Result<(Link, Introduced), LaunchError> {
        let stage = Stage::new();
        let start = launching.launcher.start(&self.host, &launching.spec, freshness, &stage);
        let launched = timeout_at(deadline, start).await.unwrap_or_else(|_elapsed| {
            let detail = format!("not ready within {} s, {}", launching.deadline.as_secs(), stage.get());
            let hint = "check the load on that host and the way to it, or allow more time";
            Err(LaunchError::new(&self.host.name, LaunchErrorKind::Timeout, detail, hint))
        })?;
        let mut link = Link::new(launched, self.node, self.events.clone());
        let handshake = Handshake {
            host: &self.host.name,
            ours: &launching.hello,
            deadline,
            limit: launching.deadline,
            stage: &stage,
            log: &|line| self.emit(FleetEvent::Log { node: self.node, line }),
        };
        match handshake.run(&mut link).await {
            Ok(introduced) => Ok((link, introduced)),
            Err(error) => {
                let Link { stdin, process, errors: _read_on, .. } = link;
                drop(stdin);
                process.close().await;
                Err(error)
            }
        }
    }

    /// Carries messages both ways until either side ends. The agent's input is closed at the end.
    async fn converse(&mut self, stdin: AgentStdin, output: &mut Output) -> Over {
        let Self { node, events, stop, queue, .. } = self;
        let passed_on = |message| pass_on(events, *node, message);
        let mut writing = std::pin::pin!(write(stdin, queue, stop).fuse());
        let mut broken_pipe = None;
        let mut deadline = Instant::now() + SILENCE_LIMIT;
        loop {
            // First of all, as the handshake may have read more than its own messages.
            if let Err(error) = take_messages(output, &passed_on) {
                return Over::Lost(format!("its agent sent nonsense: {error}"));
            }
            let read = tokio::select! {
                read = output.read() => read,
                // From here on only the agent's end is awaited, whatever it still says.
                () = stop.cancelled() => return drain(output, writing.as_mut(), &passed_on).await,
                Err(error) = &mut writing => {
                    broken_pipe = Some(error);
                    deadline = Instant::now() + BROKEN_PIPE_GRACE;
                    continue;
                }
                () = sleep_until(deadline) => match (output.read().now_or_never(), broken_pipe.take()) {
                    // Words that came while this task had no turn count as heard.
                    (Some(read), None) => read,
                    (_, Some(error)) => return Over::Lost(format!("its agent cannot be written to: {error}")),
                    (None, None) => return Over::Lost(format!("nothing heard from it for {} s", SILENCE_LIMIT.as_secs())),
                },
            };
            match read {
                Ok(true) => {}
                Ok(false) => return Over::Ended,
                Err(error) => return Over::Lost(format!("its agent cannot be read from: {error}")),
            }
            if broken_pipe.is_none() {
                deadline = Instant::now() + SILENCE_LIMIT;
            }
        }
    }
}

/// Writes out what is queued and reads on until the agent ends, within the grace.
async fn drain(
    output: &mut Output,
    writing: impl Future<Output = io::Result<()>>,
    passed_on: &(dyn Fn(FromAgent) + Sync),
) -> Over {
    let reading = async { while output.read().await.unwrap_or(false) && take_messages(output, passed_on).is_ok() {} };
    let writing = async {
        // An agent that cannot be written to is gone, which is what we want.
        writing.await.ok();
        std::future::pending::<()>().await;
    };
    let both = async {
        tokio::select! {
            () = reading => {}
            () = writing => {}
        }
    };
    timeout(SHUTDOWN_GRACE, both).await.ok();
    Over::Stopped
}

fn take_messages(output: &mut Output, passed_on: &(dyn Fn(FromAgent) + Sync)) -> Result<(), codec::CodecError> {
    while let Some(message) = output.next_message()? {
        passed_on(message);
    }
    Ok(())
}

fn pass_on(events: &Sender<FleetEvent>, node: usize, message: FromAgent) {
    let event = match message {
        FromAgent::Pong(_) => return,
        FromAgent::Log(line) => FleetEvent::Log { node, line },
        message => FleetEvent::Message { node, message },
    };
    events.send(event).ok();
}

/// Writes queued frames and heartbeats. When told to stop, writes the rest of the queue. Closes the agent's input by
/// dropping it: the streams of processes have no other way.
async fn write(
    mut stdin: AgentStdin,
    queue: &mut UnboundedReceiver<Arc<[u8]>>,
    stop: &CancellationToken,
) -> io::Result<()> {
    let mut heartbeat = interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut number = 0;
    loop {
        tokio::select! {
            frame = queue.recv() => match frame {
                Some(frame) => stdin.write_all(&frame).await?,
                None => return stdin.flush().await,
            },
            _ = heartbeat.tick() => {
                let frame = codec::encode(&ToAgent::Ping(number)).map_err(io::Error::other)?;
                number += 1;
                stdin.write_all(&frame).await?;
            }
            () = stop.cancelled() => break,
        }
        stdin.flush().await?;
    }
    while let Ok(frame) = queue.try_recv() {
        stdin.write_all(&frame).await?;
    }
    stdin.flush().await
}
