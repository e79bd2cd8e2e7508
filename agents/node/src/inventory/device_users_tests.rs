use std::{
    fs::File,
    os::unix::fs::{PermissionsExt as _, symlink},
    process::{Command, Stdio},
};

use super::{
    super::nvidia_smi::{App, Gpu},
    *,
};

/// The asking agent in recorded trees, a child of the shell 90 of init.
const AGENT: u32 = 100;

/// A recorded machine.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        machine.file("dev/nvidia0", "");
        machine.file(
            "etc/passwd",
            "root:x:0:0::/root:/bin/sh\nann:x:1000:100:Ann:/home/ann:/bin/sh\nbroken\n:x:1001:0:::\n",
        );
        machine.process(1, 0, 0, "systemd", &[]);
        machine.process(90, 1, 1000, "bash", &[]);
        machine.process(AGENT, 90, 1000, "gdrtune", &[]);
        machine
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn process(&self, pid: u32, parent: u32, uid: u32, name: &str, targets: &[&str]) {
        let status = format!("Name:\t{name}\nPid:\t{pid}\nPPid:\t{parent}\nUid:\t{uid}\t0\t0\t0\n");
        self.file(&format!("proc/{pid}/status"), &status);
        self.file(&format!("proc/{pid}/cmdline"), name);
        self.open(pid, targets);
    }

    fn open(&self, pid: u32, targets: &[&str]) {
        let folder = self.root().join(format!("proc/{pid}/fd"));
        fs::create_dir_all(&folder).unwrap();
        for (number, target) in targets.iter().enumerate() {
            symlink(target, folder.join(number.to_string())).unwrap();
        }
    }

    fn find(&self, nvidia_smi: Option<Answer>) -> Found {
        find(self.root(), &Asker { pid: AGENT, device_order: None, nvidia_smi })
    }
}

fn answer(gpus: &[(&str, &str)], apps: &[(u32, &str, &str)]) -> Answer {
    let gpu = |(index, (uuid, model)): (usize, &(&str, &str))| Gpu {
        index: index as u32,
        uuid: (*uuid).to_owned(),
        model: (*model).to_owned(),
        capability: None,
    };
    let app = |(pid, uuid, name): &(u32, &str, &str)| App {
        pid: *pid,
        gpu_uuid: (*uuid).to_owned(),
        name: (*name).to_owned(),
    };
    let (gpus, apps) = (gpus.iter().enumerate().map(gpu).collect(), apps.iter().map(app).collect());
    Answer { gpus, apps, tells_apps: true, ..Answer::default() }
}

fn lines(found: &Found) -> Vec<String> {
    let line = |user: &DeviceUser| {
        let devices: Vec<String> = user.devices.iter().map(ToString::to_string).collect();
        format!("{} {} {}: {}", user.pid, user.user, user.command, devices.join(", "))
    };
    found.users.iter().map(line).collect()
}

#[test]
fn open_device_files_tell_users() {
    let machine = Machine::new();
    machine.file("sys/class/infiniband_verbs/uverbs1/ibdev", "mlx5_1\n");
    for (pid, uid, name, targets) in [
        (200, 1000, "python3", &["/dev/null", "/dev/nvidia3", "/dev/nvidia0", "/dev/nvidia3", "/dev/nvidia-uvm"][..]),
        (201, 0, "ib_write_bw", &["/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1", "/dev/infiniband/rdma_cm"]),
        (202, 4711, "job", &["/dev/nvidia-uvm", "socket:[12]"]),
        (203, 1000, "vim", &["/dev/nvidiactl", "/home/dev/nvidia0", "/dev/nvidia0/x", "/dev/nvidia+1", "/dev/nvidia"]),
        (204, 1000, "other", &["/dev/nvidia-modeset", "/dev/infiniband/umad0", "/dev/nvidia99999999999", "pipe:[1]"]),
    ] {
        machine.process(pid, 1, uid, name, targets);
    }
    let found = machine.find(None);
    assert_eq!(
        lines(&found),
        [
            "200 ann python3: GPU 0, GPU 3",
            "201 root ib_write_bw: HCA mlx5_1, HCA uverbs0",
            "202 uid 4711 job: a GPU (/dev/nvidia-uvm)",
        ]
    );
    assert_eq!(found.unreadable, Vec::<String>::new());
}

#[test]
fn the_agents_family_and_bystanders_are_no_users() {
    let machine = Machine::new();
    let gpu = &["/dev/nvidia0"];
    for pid in [1, 90, AGENT] {
        machine.open(pid, gpu);
    }
    machine.process(101, AGENT, 1000, "gdrtune", gpu);
    machine.process(102, 101, 1000, "worker's child", gpu);
    machine.process(91, 90, 1000, "sibling", gpu);
    // The kernel's names end after 15 bytes.
    for (pid, name) in [(300, "nvidia-persiste"), (301, "nvidia-cuda-mps"), (302, "Xorg"), (303, "nv-hostengine")] {
        machine.process(pid, 1, 0, name, gpu);
    }
    machine.process(304, 1, 0, "nvidia-per", gpu);
    // The executable counts where it can be read: a name is anyone's to set.
    machine.process(305, 1, 0, "Xorg", gpu);
    symlink("/opt/job", machine.root().join("proc/305/exe")).unwrap();
    machine.process(306, 1, 0, "renamed", gpu);
    symlink("/usr/bin/nvidia-persistenced", machine.root().join("proc/306/exe")).unwrap();
    let users = lines(
        &machine.find(Some(answer(&[], &[(AGENT, "GPU-a", "x"), (999, "GPU-a", "/usr/bin/nvidia-cuda-mps-server")]))),
    );
    assert_eq!(users, ["91 ann sibling: GPU 0", "304 root nvidia-per: GPU 0", "305 root Xorg: GPU 0"]);
}

#[test]
fn parents_in_a_circle_end() {
    let machine = Machine::new();
    machine.process(200, 201, 0, "a", &["/dev/nvidia0"]);
    machine.process(201, 200, 0, "b", &[]);
    assert_eq!(lines(&machine.find(None)), ["200 root a: GPU 0"]);
}

#[test]
fn nvidia_smi_adds_other_users_and_numbers() {
    let machine = Machine::new();
    for (pci, minor, uuid) in
        [("0000:1a:00.0", 1, "GPU-a"), ("0000:3b:00.0", 0, "GPU-b"), ("0000:5e:00.0", 2, "GPU-far")]
    {
        let text = format!("Model: \t\t NVIDIA H200\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n");
        machine.file(&format!("proc/driver/nvidia/gpus/{pci}/information"), &text);
    }
    machine.process(200, 1, 1000, "python3", &["/dev/nvidia0", "/dev/nvidia2", "/dev/nvidia7"]);
    machine.process(201, 1, 0, "train", &[]);
    let apps = [(200, "GPU-a", "/usr/bin/python3"), (201, "GPU-b", "train"), (4711, "GPU-x", "/opt/a b/job")];
    let same = [("GPU-a", "H200"), ("GPU-b", "H200")];
    assert_eq!(
        lines(&machine.find(Some(answer(&same, &apps)))),
        [
            "200 ann python3: GPU 0, GPU 1, a GPU (/dev/nvidia2), a GPU (/dev/nvidia7)",
            "201 root train: GPU 1",
            "4711  job: a GPU (GPU-x)",
        ],
    );
    // CUDA may put the second one first.
    let mixed = answer(&[("GPU-a", "L4"), ("GPU-b", "H200")], &[(201, "GPU-b", "train")]);
    let asker = |device_order| Asker { pid: AGENT, device_order, nvidia_smi: Some(mixed.clone()) };
    for (order, device) in
        [(None, "a GPU (GPU-b)"), (Some("FASTEST_FIRST"), "a GPU (GPU-b)"), (Some("PCI_BUS_ID"), "GPU 1")]
    {
        let found = find(machine.root(), &asker(order.map(str::to_owned)));
        assert_eq!(lines(&found)[1], format!("201 root train: {device}"), "{order:?}");
    }
}

#[test]
fn names_reach_nobody_raw() {
    let machine = Machine::new();
    machine.process(200, 1, 1002, "\u{1b}[2Jx\u{202e}\\nUid:\t1000", &["/dev/nvidia0"]);
    machine.file("etc/passwd", "ev\u{1b}il:x:1002:0:::\n");
    machine.file("sys/class/infiniband_verbs/uverbs0/ibdev", "\u{7}m\n");
    machine.process(201, 1, 7, "x", &["/dev/infiniband/uverbs0"]);
    let long = "y".repeat(500);
    let found = machine.find(Some(answer(&[], &[(300, "GPU\u{1b}]0;", &long)])));
    let expected = [
        "200 ev?il ?[2Jx?\\nUid:?1000: GPU 0",
        "201 uid 7 x: HCA ?m",
        &format!("300  {}: a GPU (GPU?]0;)", &long[..64]),
    ];
    assert_eq!(lines(&found), expected);
}

#[test]
fn a_process_that_ends_during_the_scan_is_none() {
    let machine = Machine::new();
    // Its files were read, then it was gone; and one that was gone before its files were read.
    machine.open(200, &["/dev/nvidia0"]);
    fs::create_dir_all(machine.root().join("proc/201")).unwrap();
    machine.file("proc/202/fd", "a file where a folder was");
    machine.process(203, 1, 0, "garbled", &["/dev/nvidia0"]);
    machine.file("proc/203/status", "\n");
    let found = machine.find(None);
    assert_eq!(lines(&found), ["203  : GPU 0"], "one whose facts make no sense is there all the same");
    assert_eq!(found.unreadable, Vec::<String>::new());
}

#[test]
fn a_node_without_devices_is_not_searched() {
    let machine = Machine::new();
    fs::remove_dir_all(machine.root().join("dev")).unwrap();
    fs::remove_dir_all(machine.root().join("proc")).unwrap();
    assert_eq!(machine.find(None), Found::default());
    machine.file("dev/infiniband/uverbs0", "");
    let found = machine.find(None);
    assert!(found.unreadable[0].contains("proc: No such file"), "{found:?}");
}

/// Runs as another user where this one may read everything.
#[test]
fn what_others_hide_is_one_line() {
    let machine = Machine::new();
    for pid in 200..203 {
        machine.process(pid, 1, 0, "secret", &["/dev/nvidia0"]);
    }
    machine.file("proc/202/cmdline", "");
    let hidden: Vec<PathBuf> = (200..203).map(|pid| machine.root().join(format!("proc/{pid}/fd"))).collect();
    let set_mode = |mode| hidden.iter().for_each(|p| fs::set_permissions(p, fs::Permissions::from_mode(mode)).unwrap());
    set_mode(0o000);
    let is_hidden = fs::read_dir(&hidden[0]).is_err();
    let problems = Answer { problems: vec!["it hung".to_owned()], ..Answer::default() };
    let results = [None, Some(answer(&[], &[])), Some(problems)].map(|answer| machine.find(answer).unreadable);
    set_mode(0o700);
    if is_hidden {
        let gpus =
            "open files of 2 processes of others: those that use GPUs (nvidia-smi does not tell) and HCAs go unseen";
        let hcas = "open files of 2 processes of others: those that use HCAs go unseen";
        assert_eq!(results, [vec![gpus], vec![hcas], vec![gpus, "it hung"]]);
    } else {
        assert_eq!(results, [vec![], vec![], vec!["it hung"]], "root reads everything");
    }
}

#[test]
fn a_real_process_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["proc", "etc"] {
        symlink(Path::new("/").join(name), root.join(name)).unwrap();
    }
    fs::create_dir(root.join("dev")).unwrap();
    fs::write(root.join("dev/nvidia5"), "").unwrap();
    let device = File::open(root.join("dev/nvidia5")).unwrap();
    let mut holder = Command::new("sleep").arg("1000").stdin(Stdio::from(device)).spawn().unwrap();
    let ask = |pid| find(&root, &Asker { pid, device_order: None, nvidia_smi: None });
    // The test itself is its parent; ask as somebody who is no relative.
    let (as_stranger, as_parent) = (ask(u32::MAX), ask(std::process::id()));
    holder.kill().unwrap();
    holder.wait().unwrap();
    let user = as_stranger.users.iter().find(|user| user.pid == holder.id()).unwrap();
    assert_eq!((user.command.as_str(), &user.devices), ("sleep", &vec![UsedDevice::Gpu(5)]));
    assert!(!user.user.is_empty());
    assert_eq!(as_parent.users, []);
}
