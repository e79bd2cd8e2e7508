//! The messages. Field order is the wire format (postcard), so no `skip_serializing_if` and no self-describing tricks.

use std::time::Duration;

use gdrtune_profiles::{
    install::Manifest,
    vocab::{Engine, Environment},
};
use serde::{Deserialize, Serialize};

use crate::{
    inventory::Inventory,
    probe::{ProbeOutcome, ProbeSetup, ProbeStep},
    reach::{DialRequest, Dialled, ListenRequest},
    script::{ItemOutcome, Script},
};

/// Changes whenever a message changes its meaning without changing its shape.
pub const PROTOCOL: u32 = 1;

/// How often each side says that it lives.
pub const HEARTBEAT: Duration = Duration::from_secs(3);

/// Silence after which the other side counts as lost. Half-open TCP never gives an end of file.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(12);

/// First message in each direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the sender.
    pub protocol: u32,
    /// Hash of the sources that the sender was built from.
    pub build_id: String,
    /// The sender's host name.
    pub hostname: String,
    /// Linux boot id of the sender's host; empty where it cannot be read.
    pub boot_id: String,
    /// Process id of the sender.
    pub pid: u32,
}

/// Names one set of workers: one environment, one communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupId(pub u32);

/// Key of one run that the native engine's data sockets demand of every peer. Never logged.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionKey(pub [u8; 32]);

impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionKey(..)")
    }
}

/// From gdrtune to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToAgent {
    /// Opens the conversation.
    Hello(Hello),
    /// Heartbeat; answered by [`FromAgent::Pong`].
    Ping(u64),
    /// Asks for [`FromAgent::Inventory`].
    Inventory,
    /// Stores files in a private directory of this agent, for workers that start from emitted files. Answered by
    /// [`FromAgent::FilesStored`].
    StoreFiles {
        /// Names the set.
        bundle: u32,
        /// Plain file names (no path separators) and contents.
        files: Vec<(String, Vec<u8>)>,
    },
    /// Starts the node's share of a group; each rank answers [`FromWorker::Bootstrap`].
    Start(StartGroup),
    /// Passes a message on to every worker of the group on this node.
    ToWorkers {
        /// The group.
        group: GroupId,
        /// What each of its workers gets.
        message: ToWorker,
    },
    /// Kills the group's workers now; each answers [`FromAgent::WorkerEnded`].
    Stop(GroupId),
    /// Ends the agent after its workers.
    Shutdown,
    /// Puts files into a folder, to stay; answered by [`FromAgent::Installation`], like the next two.
    Install(Box<Installation>),
    /// Removes what an installation put into a folder.
    Uninstall {
        /// Absolute path of the folder.
        folder: String,
        /// Also removes files that were changed since.
        force: bool,
    },
    /// Compares the files of an installation with its manifest.
    InspectInstallation {
        /// Absolute path of the folder.
        folder: String,
    },
    /// Takes the node's lock for a run; answered by [`FromAgent::Lock`].
    Lock(LockRequest),
    /// Gives the lock back. The agent's end does so, too.
    Unlock,
    /// Takes connections of other nodes' agents for a while; answered by [`FromAgent::Listening`]. Another request ends what
    /// the one before has opened.
    Listen(ListenRequest),
    /// Connects to other nodes' agents; answered by [`FromAgent::Dialled`].
    Dial(DialRequest),
    /// Asks for [`FromAgent::Clock`].
    Clock,
}

/// Who wants a node for itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRequest {
    /// The run's id, for people.
    pub run: String,
    /// Names the process that asks: its agents share the lock. A run that is resumed is another process, so agents of the
    /// earlier one that still live keep it out.
    pub client: u64,
    /// Takes the lock beside others. Later ones see it all the same.
    pub shared: bool,
}

/// What came of [`ToAgent::Lock`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockOutcome {
    /// The node is this client's.
    Held,
    /// Others hold it: an agent of each.
    InUse(Vec<LockHolder>),
    /// The lock could not be looked at, for this reason.
    Failed(String),
}

/// An agent of another gdrtune that holds a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    /// Its process id on the node.
    pub pid: u32,
    /// Name of its user, or `uid N`.
    pub user: String,
    /// Its run; empty where it cannot be read.
    pub run: String,
    /// Since when, in seconds since 1970 by the node's clock.
    pub since_s: u64,
}

/// What goes into a folder. The agent adds its own tuner plugin, and the manifest with the hash of every file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installation {
    /// Absolute path of the folder.
    pub folder: String,
    /// Plain file names and contents, in the order in which they are put in place.
    pub files: Vec<(String, Vec<u8>)>,
    /// Whether the tuner plugin goes with them.
    pub with_plugin: bool,
    /// The manifest without its files.
    pub manifest: Manifest,
    /// Replaces files that no installation put there, or that were changed since.
    pub force: bool,
}

/// What came of a request about an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstallOutcome {
    /// All files are in place.
    Installed {
        /// Their names.
        files: Vec<String>,
    },
    /// What was installed is gone, but for what is kept.
    Uninstalled {
        /// Names of the files that were removed.
        removed: Vec<String>,
        /// Files that are still there, and why each is.
        kept: Vec<String>,
    },
    /// What is there.
    Inspected {
        /// The manifest.
        manifest: Manifest,
        /// Files that are not as they were put there, and how each differs.
        findings: Vec<String>,
    },
    /// There is no installation in the folder.
    NotInstalled,
    /// Nothing was changed, for this reason.
    Failed(String),
}

/// A node's share of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StartGroup {
    /// The group.
    pub group: GroupId,
    /// Ranks in the whole group.
    pub world: u32,
    /// Nodes in the whole group.
    pub nodes: u32,
    /// The ranks that run here.
    pub ranks: Vec<u32>,
    /// What runs the collectives.
    pub engine: Engine,
    /// Where the workers take their settings from.
    pub settings: Settings,
    /// What data sockets demand of a peer.
    pub key: SessionKey,
    /// Largest buffer that a script of this group will use, in bytes.
    pub max_bytes: u64,
    /// Time from here to every rank's [`FromWorker::Connected`], in milliseconds; later the group is killed.
    pub deadline_ms: u64,
    /// Every rank poses as a node of its own, so that several can share one GPU. What they measure is *emulated*.
    pub emulate_nodes: bool,
    /// Whether buffers come from the library's own allocator and are registered with its communicator, so that it may
    /// use them without copies. A group whose library cannot do that does not start.
    pub register_buffers: bool,
    /// Words of a command that starts a worker, such as one in a container: [`crate::WorkerCommand`]. Empty starts it
    /// directly.
    pub worker_command: Vec<String>,
    /// Makes it a probe of RDMA instead: no engine runs.
    pub probe: Option<ProbeSetup>,
}

/// Where workers take their environment and rules from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settings {
    /// The node's environment as it is: the default arm.
    Site,
    /// Variables over the node's environment; choices come with each item.
    Live(Environment),
    /// The emitted files of a stored bundle alone: `worker --ab DIR` reads `profile.env` and `nccl-tuner.csv` there.
    Deployed {
        /// The bundle of [`ToAgent::StoreFiles`].
        bundle: u32,
    },
    /// The environment file of an installation over the node's environment, as a job that takes it has it. NCCL writes a
    /// log, and each rank reports what it says of tuner plugins.
    Installed {
        /// Absolute path of the folder.
        folder: String,
    },
}

/// From an agent to gdrtune.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromAgent {
    /// Answers [`ToAgent::Hello`].
    Hello(Hello),
    /// Answers [`ToAgent::Ping`] with its number.
    Pong(u64),
    /// What the node has.
    Inventory(Box<Inventory>),
    /// The files of a bundle are on disk.
    FilesStored {
        /// The bundle.
        bundle: u32,
    },
    /// A request could not be carried out.
    Refused {
        /// Which request, and why, for people.
        why: String,
    },
    /// A worker says something.
    Worker {
        /// Its group.
        group: GroupId,
        /// Its rank.
        rank: u32,
        /// What it says.
        message: FromWorker,
    },
    /// A worker's process group is gone and reaped. Sent once for every rank of a [`StartGroup`], whatever happens.
    WorkerEnded {
        /// Its group.
        group: GroupId,
        /// Its rank.
        rank: u32,
        /// Why it ended.
        cause: EndCause,
    },
    /// Something for the log.
    Log(String),
    /// Answers a request about an installation.
    Installation(InstallOutcome),
    /// Answers [`ToAgent::Lock`].
    Lock(LockOutcome),
    /// Answers [`ToAgent::Listen`]: the port of each address, in the order of the request, or why there is none.
    Listening(Result<Vec<u16>, String>),
    /// Answers [`ToAgent::Dial`], in the order of its targets.
    Dialled(Vec<Dialled>),
    /// What the node's clock says, in microseconds since 1970.
    Clock(u64),
}

/// Why a worker ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndCause {
    /// It was told to quit.
    Finished,
    /// [`ToAgent::Stop`] killed it.
    Stopped,
    /// It overran a deadline and was killed. A hang.
    Deadline {
        /// What it was doing, for people.
        during: String,
    },
    /// It ended by itself with this code.
    Exit(i32),
    /// A signal ended it.
    Signal(i32),
    /// It could not be started.
    NotStarted(String),
    /// It was killed because another rank of its group on this node had ended.
    PeerEnded,
}

/// From an agent to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    /// First message: who the worker is.
    Init(WorkerInit),
    /// Bootstrap bytes of every rank, in rank order; the worker connects and answers [`FromWorker::Connected`].
    Connect {
        /// What each rank sent as [`FromWorker::Bootstrap`].
        peers: Vec<Vec<u8>>,
    },
    /// Measures the items back to back; one [`FromWorker::Item`] each, then [`FromWorker::ScriptDone`].
    Run(Script),
    /// Ends the worker.
    Quit,
    /// Measures one way of a probe; answered by [`FromWorker::Probed`].
    Probe(ProbeStep),
}

/// Who a worker is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerInit {
    /// Its rank.
    pub rank: u32,
    /// Ranks in the group.
    pub world: u32,
    /// Nodes in the group (rules match on it).
    pub nodes: u32,
    /// What runs the collectives.
    pub engine: Engine,
    /// What data sockets demand of a peer.
    pub key: SessionKey,
    /// Largest buffer that a script will use, in bytes.
    pub max_bytes: u64,
    /// Time left for bootstrap and connect, in milliseconds.
    pub deadline_ms: u64,
    /// As [`StartGroup::register_buffers`].
    pub register_buffers: bool,
    /// As [`StartGroup::probe`].
    pub probe: Option<ProbeSetup>,
}

/// From a worker to its agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromWorker {
    /// Opaque bytes that the other ranks need to connect.
    Bootstrap(Vec<u8>),
    /// The communicator is up.
    Connected {
        /// Time from start to here, in microseconds.
        setup_us: u64,
        /// What the rank runs with.
        engine: Box<EngineReport>,
    },
    /// Result of one item of a script on this rank.
    Item {
        /// [`Script::id`].
        script: u64,
        /// Index into [`Script::items`].
        item: u32,
        /// What came of it.
        outcome: ItemOutcome,
    },
    /// All items of the script are done.
    ScriptDone {
        /// [`Script::id`].
        script: u64,
    },
    /// What came of a step of a probe.
    Probed {
        /// [`ProbeStep::number`].
        number: u32,
        /// What came of it.
        outcome: ProbeOutcome,
    },
    /// The engine failed; the worker ends after this. Says what was done, where, and what the engine said.
    Failed(String),
    /// A line that the worker or a library in it printed.
    Output(String),
    /// The library that the engine has loaded; comes before [`FromWorker::Bootstrap`]. Nothing where it is all our own.
    Library {
        /// Its version, such as `2.28.9`.
        version: String,
    },
    /// The engine found no way to a peer; [`FromWorker::Failed`] follows and says why.
    Unreached {
        /// The peer's rank.
        peer: u32,
    },
}

/// What a rank's engine runs with, as far as it can tell. Nothing for an engine that is all our own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineReport {
    /// Version of the library, such as `2.28.9`.
    pub version: Option<String>,
    /// Path of the library.
    pub library: Option<String>,
    /// Name of the GPU, such as `NVIDIA H200`.
    pub device: Option<String>,
    /// Most channels that a collective of this communicator can have.
    pub channels: Option<u16>,
    /// Connections to other nodes.
    pub network: Option<NetworkUse>,
    /// What the library's own log says of tuner plugins, a message each; where it logs for us.
    pub plugin_log: Vec<String>,
    /// Lines of that log that decide about GPU Direct RDMA, where some connection does without it.
    pub gdr_log: Vec<String>,
}

/// Connections of one rank over the network, by what the library says of each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkUse {
    /// Transports and devices, such as `NET/IB/0` or `NET/Socket/0`, each once.
    pub paths: Vec<String>,
    /// Connections that send.
    pub sends: u32,
    /// Those of them where the NIC reads GPU memory itself (`GDRDMA`).
    pub gdr_sends: u32,
    /// Connections that receive.
    pub receives: u32,
    /// Those of them where the NIC writes GPU memory itself.
    pub gdr_receives: u32,
}
