//! What is fuzzed, with valid inputs to begin from.

use std::{
    collections::HashSet,
    net::{Ipv4Addr, SocketAddrV4},
};

use gdrtune_fleet::{
    hosts::{Allocation, HostError, HostList, MAX_HOSTS, fold, parse_file, parse_list},
    site::Site,
};
use gdrtune_profiles::vocab::{Collective, DataType, Environment, Point, ReduceOp};
use gdrtune_wire::{
    DeviceUser, DialFault, DialRequest, DialTarget, Dialled, FromAgent, FromWorker, GroupId, Hello, Inventory, Item,
    ItemOutcome, LockHolder, LockOutcome, LockRequest, PROTOCOL, Script, SessionKey, Times, ToAgent, ToWorker,
    UsedDevice,
    codec::{CodecError, Decoder, encode},
};
use serde::{Serialize, de::DeserializeOwned};

/// What came of an input.
pub(crate) enum Outcome {
    Refused,
    Read,
    /// A promise was broken.
    Broken(String),
}

pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
    pub(crate) dictionary: &'static [&'static str],
    pub(crate) run: fn(&[u8]) -> Outcome,
    /// Most memory for an input of so many bytes.
    pub(crate) memory: fn(usize) -> usize,
}

pub(crate) const TARGETS: [Target; 5] = [
    Target { name: "wire", seeds: frames, dictionary: &[], run: wire, memory: |length| (8 << 20) + 200 * length },
    Target { name: "hosts", seeds: host_lists, dictionary: HOST_WORDS, run: hosts, memory: of_hosts },
    Target { name: "hostfile", seeds: host_files, dictionary: HOST_WORDS, run: host_file, memory: of_hosts },
    Target { name: "site", seeds: sites, dictionary: SITE_WORDS, run: site, memory: of_hosts },
    Target { name: "slurm", seeds: allocations, dictionary: HOST_WORDS, run: slurm, memory: of_hosts },
];

/// [`MAX_HOSTS`] names of at most 253 bytes, as a host, as a name that was seen, and while they are multiplied; with the place
/// of each, or a warning.
fn of_hosts(length: usize) -> usize {
    MAX_HOSTS * 1500 + 200 * length
}

const HOST_WORDS: &[&str] = &[
    "[",
    "]",
    "-",
    ",",
    ":",
    "@",
    "#",
    "=",
    "\n",
    " ",
    "[1-65536]",
    "[01-04]",
    "[0-99999999999999999]",
    "slots=4",
    "max_slots=8",
    "port=22",
    "user=amy",
    "(x2)",
    "\u{e4}",
    "\0",
    "[1-300]",
];

const SITE_WORDS: &[&str] = &[
    "name = ",
    "hosts = ",
    "exclude = ",
    "ranks_per_node = ",
    "launcher = ",
    "launcher_cmd = ",
    "ssh_config = ",
    "fanout = ",
    "remote_dir = ",
    "agent_dir = ",
    "nccl = ",
    "[environment]\n",
    "\"",
    "'",
    "\"\"\"",
    "[",
    "]",
    "{",
    "}",
    "=",
    "\n",
    "\\u003b",
    "{host}",
    "{agent}",
    "{agent_line}",
    "[1-65536]",
    "9223372036854775807",
    "\u{e4}",
];

fn text(input: &[u8]) -> String {
    String::from_utf8_lossy(input).into_owned()
}

fn bytes(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn host_lists() -> Vec<Vec<u8>> {
    bytes(&["node[01-16]", "gpu-r[1-2]n[01,03-04],root@gpu7:8", "a,b,c", "n[098-101].rack[1-3]"])
}

fn host_files() -> Vec<Vec<u8>> {
    bytes(&[
        "node01 slots=4\nnode02 slots=4 max_slots=8 # ours\n\nroot@gpu[1-2] port=2222\n",
        "node[01-04]:8\n# nothing\nn5\r\nn6 user=amy ranks=2\n",
    ])
}

fn sites() -> Vec<Vec<u8>> {
    bytes(&[
        "name = \"alps\"\nhosts = [\"node[01-16]\", \"root@gpu7:8\"]\nexclude = 'node07'\nranks_per_node = 8\nfanout = 16\n\
         remote_dir = \"/scratch\"\nagent_dir = 'b'\nnccl = \"/n\"\n[environment]\nNCCL_SOCKET_IFNAME = \"=bond0\"\n",
        "hosts = \"vh[1-2]\"\nlauncher = \"exec\"\nlauncher_cmd = 'kubectl exec -i {host} -- {agent}'\nssh_config = \"c\"\n",
    ])
}

fn allocations() -> Vec<Vec<u8>> {
    bytes(&["gpu[01-04]\n8(x4)", "a,b[1-3]\n4(x2),3,1", "n1\n"])
}

/// What is promised of every list: as many hosts as are allowed, each once, names that no shell and no option can be made of,
/// and a folded form that says the same.
fn judge(list: Result<HostList, HostError>) -> Outcome {
    let Ok(list) = list else { return Outcome::Refused };
    let names: Vec<&str> = list.hosts.iter().map(|host| host.name.as_str()).collect();
    if names.len() > MAX_HOSTS || names.iter().collect::<HashSet<_>>().len() != names.len() {
        return Outcome::Broken(format!("{} hosts, or one of them twice", names.len()));
    }
    let plain = |name: &&str| {
        (1..=253).contains(&name.len())
            && !name.starts_with('-')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    if let Some(name) = names.iter().find(|name| !plain(name)) {
        return Outcome::Broken(format!("the name {name:?}"));
    }
    if !names.is_empty() && names.len() <= 500 {
        let folded = fold(&names);
        let again = parse_list("-w", &folded).map(|list| list.hosts.into_iter().map(|host| host.name).collect());
        if again.as_ref().ok().is_none_or(|again: &Vec<String>| *again != names) {
            return Outcome::Broken(format!("folded as {folded}: {again:?}"));
        }
    }
    Outcome::Read
}

fn hosts(input: &[u8]) -> Outcome {
    judge(parse_list("-w", &text(input)))
}

fn host_file(input: &[u8]) -> Outcome {
    judge(parse_file("hosts", &text(input)))
}

fn slurm(input: &[u8]) -> Outcome {
    let input = text(input);
    let (nodes, tasks) = input.split_once('\n').unwrap_or((&input, ""));
    let get = |name: &str| match name {
        "SLURM_JOB_ID" | "SLURM_NTASKS" => Some("7".to_owned()),
        "SLURM_JOB_NODELIST" => Some(nodes.to_owned()),
        "SLURM_TASKS_PER_NODE" => Some(tasks.to_owned()),
        _ => None,
    };
    match Allocation::from_environment(get) {
        Ok(Some(allocation)) => judge(Ok(allocation.hosts)),
        Ok(None) | Err(_) => Outcome::Refused,
    }
}

fn site(input: &[u8]) -> Outcome {
    match Site::parse(&text(input), "c.toml") {
        Ok(site) => match (judge(Ok(site.hosts)), judge(Ok(site.excluded))) {
            (Outcome::Broken(why), _) | (_, Outcome::Broken(why)) => Outcome::Broken(why),
            _ => Outcome::Read,
        },
        Err(error) if error.to_string().starts_with("c.toml:") => Outcome::Refused,
        Err(error) => Outcome::Broken(format!("an error without its place: {error}")),
    }
}

/// The first byte says whose stream it is and how it comes; the rest are frames, whose first length is put right for most.
fn wire(input: &[u8]) -> Outcome {
    let Some((&how, stream)) = input.split_first() else { return Outcome::Refused };
    let mut stream = stream.to_vec();
    if how & 4 != 0
        && let Some((head, body)) = stream.split_first_chunk_mut::<4>()
    {
        *head = (body.len() as u32).to_le_bytes();
    }
    let piece = [1, 7, 4096, MAX_PIECE][usize::from(how >> 4 & 3)];
    match how & 3 {
        0 => decode::<ToAgent>(&stream, piece),
        1 => decode::<FromAgent>(&stream, piece),
        2 => decode::<ToWorker>(&stream, piece),
        _ => decode::<FromWorker>(&stream, piece),
    }
}

/// Bytes that a reader feeds at once.
const MAX_PIECE: usize = 64 << 10;

fn decode<T: DeserializeOwned + Serialize>(stream: &[u8], piece: usize) -> Outcome {
    let mut decoder = Decoder::new();
    let mut count = 0;
    for bytes in stream.chunks(piece) {
        decoder.feed(bytes);
        loop {
            match decoder.next_message::<T>() {
                Ok(Some(message)) => {
                    count += 1;
                    match encode(&message) {
                        Ok(_) | Err(CodecError::TooLong(_)) => {}
                        Err(error) => return Outcome::Broken(format!("a message that cannot be written: {error}")),
                    }
                }
                Ok(None) => break,
                Err(_) if decoder.next_message::<T>().is_ok() => {
                    return Outcome::Broken("a broken stream that is whole again".to_owned());
                }
                Err(_) => return Outcome::Refused,
            }
        }
    }
    if count > 0 { Outcome::Read } else { Outcome::Refused }
}

/// Frames of every direction; the first byte is [`wire`]'s.
fn frames() -> Vec<Vec<u8>> {
    let with = |how: u8, frame: Result<Vec<u8>, CodecError>| [vec![how], frame.unwrap_or_default()].concat();
    let to_agent = to_agent().into_iter().map(|message| with(0x34, encode(&message)));
    let from_agent = from_agent().into_iter().map(|message| with(0x35, encode(&message)));
    let to_worker = [ToWorker::Run(script()), ToWorker::Connect { peers: vec![vec![1; 20]; 4] }, ToWorker::Quit];
    let to_worker = to_worker.into_iter().map(|message| with(0x36, encode(&message)));
    let from_worker = [item(), FromWorker::Bootstrap(vec![7; 30]), FromWorker::Failed("why".to_owned())];
    let from_worker = from_worker.into_iter().map(|message| with(0x37, encode(&message)));
    to_agent.chain(from_agent).chain(to_worker).chain(from_worker).collect()
}

fn hello() -> Hello {
    let (build_id, hostname, boot_id) = ("ab".to_owned(), "n1".to_owned(), "b".to_owned());
    Hello { protocol: PROTOCOL, build_id, hostname, boot_id, pid: 300 }
}

fn to_agent() -> Vec<ToAgent> {
    vec![
        ToAgent::Hello(hello()),
        ToAgent::Ping(300),
        ToAgent::StoreFiles { bundle: 1, files: vec![("a.env".to_owned(), vec![1, 2, 3]); 3] },
        ToAgent::ToWorkers { group: GroupId(5), message: ToWorker::Run(script()) },
        ToAgent::Uninstall { folder: "/opt/x".to_owned(), force: true },
        ToAgent::Dial(DialRequest {
            number: 1,
            key: SessionKey([7; 32]),
            targets: vec![
                DialTarget {
                    number: 2,
                    place: 1,
                    address: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 40_000)
                };
                3
            ],
            limit_ms: 3000,
        }),
        ToAgent::Lock(LockRequest { run: "r".to_owned(), client: 9, shared: false }),
    ]
}

fn from_agent() -> Vec<FromAgent> {
    let user = DeviceUser {
        pid: 7,
        user: "ann".to_owned(),
        command: "python3".to_owned(),
        devices: vec![UsedDevice::Gpu(1), UsedDevice::Hca("mlx5_0".to_owned())],
    };
    let site_env: Environment = [("NCCL_DEBUG", "INFO"), ("NCCL_IB_HCA", "=mlx5_0")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
        .collect();
    let inventory = Inventory { site_env, device_users: vec![user], cpus: 8, ..Inventory::default() };
    let holder = LockHolder { pid: 1, user: "u".to_owned(), run: "r".to_owned(), since_s: 5 };
    vec![
        FromAgent::Hello(hello()),
        FromAgent::Inventory(Box::new(inventory)),
        FromAgent::Worker { group: GroupId(5), rank: 3, message: item() },
        FromAgent::Dialled(vec![Dialled { number: 2, place: 1, outcome: Err(DialFault::NoRoute("none".to_owned())) }]),
        FromAgent::Log("a line".to_owned()),
        FromAgent::Lock(LockOutcome::InUse(vec![holder; 2])),
    ]
}

fn item() -> FromWorker {
    let times = Times {
        mean_us: 1.5,
        median_us: 1.0,
        min_us: 0.5,
        max_us: 2.0,
        cpu_us: 0.1,
        selected: None,
        checked: true,
        predictions: vec![],
    };
    FromWorker::Item { script: 1, item: 2, outcome: ItemOutcome::Timed(times) }
}

fn script() -> Script {
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
    Script { id: 1, items: vec![item; 3] }
}
