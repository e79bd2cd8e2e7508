//! Recorded trees from descriptions: `/sys` and `/proc` of a machine, of which a text file tells in a line per device.
//!
//! ```text
//! numa 0-1
//! driver 535.104.05
//! gpu 0000:15/01.0/16:00.0/17:00.0/18:00.0 numa=0 model="NVIDIA H100" link="32.0 GT/s PCIe x16" most="32.0 GT/s PCIe x16"
//! hca mlx5_0 0000:15/01.0/16:00.0/17:01.0/19:00.0 numa=0 port="ACTIVE LinkUp InfiniBand 400 Gb/sec (4X NDR)"
//! ```
//! The path is that of `/sys/devices`: domain and bus of the host bridge, then functions (`dd.f` on its own bus, `bb:dd.f`
//! below). `under=FOLDER` is what a hypervisor has above the host bridge. A GPU with `device=` in the place of a model has no driver.
//!
//! Words of a line `gpus` hold for all GPUs (`name=value`, as `nvidia-smi` prints the value: `memory`, `bar1`, `persistence`, `ecc`, `mig`,
//! `clocks` and `most_clocks` (SM, memory), `limits`, `fabric`, `architecture`, `cuda`, `iommu`), and a GPU's own ones before them; of such a machine the tree has
//! `nvidia-smi-q.xml`. `hcas` does the same for HCAs: `fw`, `board`, `kind`, `driver`, `pci`, `vfs`, `node_guid`, `lid`, `sm_lid`, `gid` and
//! `gid2` (index, address, kind, network device), `net` (name, state, speed, MTU), `counters` (name=value), and `relaxed=`, which only root reads. `bridges` has PCI's
//! numbers of all bridges, and with `acs=` what only root reads. `module NAME VERSION`, `cpu` and `file PATH TEXT` are what they say; `\n`
//! in a text is a line break.

use std::{cell::RefCell, fmt::Write as _, fs, os::unix::fs::symlink, path::Path};

/// Makes the tree that `description` tells of below `root`.
pub(crate) fn expand(description: &str, root: &Path) {
    let tree = Tree { root, log: RefCell::default() };
    let lines: Vec<Vec<String>> = description
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with('#'))
        .map(|(number, line)| shell_words::split(line).unwrap_or_else(|error| panic!("line {}: {error}", number + 1)))
        .collect();
    let of_all = |kind: &str| -> Vec<&str> {
        let line = lines.iter().filter(|words| words.first().is_some_and(|word| word == kind));
        line.flat_map(|words| words.iter().skip(1).map(String::as_str)).collect()
    };
    let (gpus, hcas, bridges) = (of_all("gpus"), of_all("hcas"), of_all("bridges"));
    for words in &lines {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [] | ["gpus" | "hcas" | "bridges", ..] => {}
            ["numa", list] => tree.file("sys/devices/system/node/has_cpu", list),
            ["driver", version] => tree.file("sys/module/nvidia/version", version),
            ["module", name] => tree.file(&format!("sys/module/{name}/initstate"), "live"),
            ["module", name, version] => tree.file(&format!("sys/module/{name}/version"), version),
            ["cpu", keys @ ..] => tree.cpu(keys),
            ["file", path, text] => tree.file(path, &text.replace("\\n", "\n")),
            ["gpu", path, keys @ ..] => tree.gpu(path, &[keys, &gpus].concat(), &bridges),
            ["hca", name, path, keys @ ..] => tree.hca(name, path, &[keys, &hcas].concat(), &bridges),
            ["net", name, path, keys @ ..] => tree.net(name, path, keys),
            other => panic!("{other:?}"),
        }
    }
    tree.write_log(of_all("driver").first().copied().unwrap_or_default(), get(&gpus, "cuda").unwrap_or_default());
}

fn get<'k>(keys: &[&'k str], name: &str) -> Option<&'k str> {
    keys.iter().find_map(|key| key.strip_prefix(name)?.strip_prefix('='))
}

struct Tree<'r> {
    root: &'r Path,
    /// What `nvidia-smi -q -x` says of the GPUs so far.
    log: RefCell<String>,
}

impl Tree<'_> {
    fn file(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the tree can be written");
        fs::write(path, format!("{text}\n")).expect("the tree can be written");
    }

    /// A relative link, as the kernel's are.
    fn link(&self, from: &str, to: &str) {
        let path = self.root.join(from);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the tree can be written");
        fs::create_dir_all(self.root.join(to)).expect("the tree can be written");
        symlink(format!("{}{to}", "../".repeat(from.matches('/').count())), path).expect("the tree can be written");
    }

    /// What `bridges` says of one at this folder.
    fn bridge(&self, folder: &str, address: &str, kind: u16, keys: &[&str]) {
        let (vendor, device) = get(keys, "pci").and_then(|numbers| numbers.split_once(':')).unwrap_or_default();
        for (name, text) in [("vendor", vendor), ("device", device)] {
            self.file(&format!("{folder}/{name}"), &format!("0x{text}"));
        }
        if let Some(acs) = get(keys, "acs") {
            let path = self.root.join(folder).join("config");
            fs::write(path, config_space(kind, 0, acs == "on")).expect("the tree can be written");
        }
        if !self.root.join(format!("sys/bus/pci/devices/{address}")).exists() {
            self.link(&format!("sys/bus/pci/devices/{address}"), folder);
        }
    }

    /// A PCI function; returns its folder and its address.
    fn pci(&self, path: &str, keys: &[&str], class: &str, vendor: &str, device: &str) -> (String, String) {
        let mut parts = path.split('/');
        let bridge = parts.next().expect("a host bridge");
        let (domain, bus) = bridge.split_once(':').expect("domain and bus");
        let above = get(keys, "under").map(|folder| format!("{folder}/")).unwrap_or_default();
        let (mut folder, mut address) = (format!("sys/devices/{above}pci{bridge}"), String::new());
        for part in parts {
            address = if part.contains(':') { format!("{domain}:{part}") } else { format!("{domain}:{bus}:{part}") };
            folder = format!("{folder}/{address}");
        }
        let numa = get(keys, "numa").unwrap_or("-1");
        for (name, text) in [("numa_node", numa), ("class", class), ("vendor", vendor), ("device", device)] {
            self.file(&format!("{folder}/{name}"), text);
        }
        for (key, which) in [("link", "current"), ("most", "max")] {
            if let Some((speed, width)) = get(keys, key).and_then(|link| link.rsplit_once(" x")) {
                self.file(&format!("{folder}/{which}_link_speed"), speed);
                self.file(&format!("{folder}/{which}_link_width"), width);
            }
        }
        self.link(&format!("sys/bus/pci/devices/{address}"), &folder);
        (folder, address)
    }

    /// The bridges above a device, in whose folder they are.
    fn bridges(&self, folder: &str, keys: &[&str]) {
        let (above, _) = folder.rsplit_once('/').expect("a folder");
        let is_address = |name: &str| name.matches(':').count() == 2 && name.contains('.');
        // A root port, then a switch's two ports in turn (PCI Express Base Specification, device/port type).
        let mut kinds = [4].into_iter().chain([5, 6].into_iter().cycle());
        for (at, _) in above.match_indices('/').chain([(above.len(), "")]) {
            let bridge = &above[..at];
            let address = bridge.rsplit('/').next().expect("a name");
            if !keys.is_empty() && is_address(address) {
                self.bridge(bridge, address, kinds.next().expect("it has no end"), keys);
            }
        }
    }

    fn gpu(&self, path: &str, keys: &[&str], bridges: &[&str]) {
        let device = format!("0x{}", get(keys, "device").unwrap_or("2330"));
        let (folder, address) = self.pci(path, keys, "0x030200", "0x10de", &device);
        self.bridges(&folder, bridges);
        if let Some(group) = get(keys, "iommu") {
            self.iommu(&folder, &address, group);
        }
        let Some(model) = get(keys, "model") else { return };
        let uuid = format!("GPU-{:08x}-0000-0000-0000-000000000000", fold(&address));
        self.file(
            &format!("proc/driver/nvidia/gpus/{address}/information"),
            &format!("Model: \t\t {model}\nGPU UUID: \t {uuid}"),
        );
        if get(keys, "memory").is_some() {
            self.log.borrow_mut().push_str(&log_of(&address, &uuid, model, keys));
        }
    }

    /// A group of its own, of this type.
    fn iommu(&self, folder: &str, address: &str, kind: &str) {
        let group = format!("sys/kernel/iommu_groups/{}", fold(address) % 512);
        self.file(&format!("{group}/type"), kind);
        self.link(&format!("{folder}/iommu_group"), &group);
    }

    fn write_log(&self, driver: &str, cuda: &str) {
        let gpus = self.log.borrow();
        if !gpus.is_empty() {
            let head = format!("<driver_version>{driver}</driver_version>\n<cuda_version>{cuda}</cuda_version>");
            self.file("nvidia-smi-q.xml", &format!("<nvidia_smi_log>\n{head}\n{gpus}</nvidia_smi_log>"));
        }
    }

    /// `vendor`, `model`, `implementer`, `sockets`, `smt`, `governor`, `driver`, `khz` (least, most, hardware's most).
    fn cpu(&self, keys: &[&str]) {
        const FOLDER: &str = "sys/devices/system/cpu";
        let mut text = String::new();
        for (key, name) in [("vendor", "vendor_id"), ("model", "model name"), ("implementer", "CPU implementer")] {
            if let Some(value) = get(keys, key) {
                writeln!(text, "{name}\t: {value}").expect("a string");
            }
        }
        self.file("proc/cpuinfo", text.trim_end());
        for socket in 0..get(keys, "sockets").and_then(|count| count.parse().ok()).unwrap_or(0) {
            self.file(&format!("{FOLDER}/cpu{socket}/topology/physical_package_id"), &format!("{socket}"));
        }
        let files = [
            ("smt", "smt/active"),
            ("governor", "cpufreq/policy0/scaling_governor"),
            ("driver", "cpu0/cpufreq/scaling_driver"),
        ];
        for (key, file) in files {
            if let Some(value) = get(keys, key) {
                self.file(&format!("{FOLDER}/{file}"), value);
            }
        }
        let names = ["scaling_min_freq", "scaling_max_freq", "cpuinfo_max_freq"];
        for (name, khz) in names.iter().zip(get(keys, "khz").unwrap_or_default().split_whitespace()) {
            self.file(&format!("{FOLDER}/cpu0/cpufreq/{name}"), khz);
        }
    }

    /// Its ports are `port=` and `port2=`: state, state of the link below, link layer, rate.
    fn hca(&self, name: &str, path: &str, keys: &[&str], bridges: &[&str]) {
        let (vendor, device) = get(keys, "pci").and_then(|numbers| numbers.split_once(':')).unwrap_or(("15b3", "1021"));
        let (folder, address) = self.pci(path, keys, "0x020700", &format!("0x{vendor}"), &format!("0x{device}"));
        self.bridges(&folder, bridges);
        if let Some(group) = get(keys, "iommu") {
            self.iommu(&folder, &address, group);
        }
        if let Some(relaxed) = get(keys, "relaxed") {
            // Payloads of 256 bytes and reads of 4096.
            let control = 0x5020 | if relaxed == "on" { 0x10 } else { 0 };
            fs::write(self.root.join(&folder).join("config"), config_space(0, control, false))
                .expect("the tree can be written");
        }
        let own = format!("{folder}/infiniband/{name}");
        for (number, key) in [(1, "port"), (2, "port2")] {
            let Some(port) = get(keys, key) else { continue };
            let words: Vec<&str> = port.splitn(4, ' ').collect();
            let [state, phys_state, link_layer, rate] = words.as_slice() else { panic!("{port}") };
            let (state, phys_state) = (format!("4: {state}"), format!("5: {phys_state}"));
            for (file, text) in
                [("state", &*state), ("phys_state", &*phys_state), ("link_layer", *link_layer), ("rate", *rate)]
            {
                self.file(&format!("{own}/ports/{number}/{file}"), text);
            }
        }
        self.hca_details(&own, &folder, keys);
        self.link(&format!("{own}/device"), &folder);
        self.link(&format!("sys/class/infiniband/{name}"), &own);
    }

    fn hca_details(&self, own: &str, folder: &str, keys: &[&str]) {
        let names = [("fw", "fw_ver"), ("board", "board_id"), ("kind", "hca_type"), ("node_guid", "node_guid")];
        let of_port = [("lid", "ports/1/lid"), ("sm_lid", "ports/1/sm_lid")];
        for (key, file) in names.into_iter().chain(of_port) {
            if let Some(text) = get(keys, key) {
                self.file(&format!("{own}/{file}"), text);
            }
        }
        for gid in ["gid", "gid2"].iter().filter_map(|key| get(keys, key)) {
            let words: Vec<&str> = gid.splitn(4, ' ').collect();
            let [index, address, net, kind] = words.as_slice() else { panic!("{gid}") };
            for (part, text) in [("gids", address), ("gid_attrs/ndevs", net), ("gid_attrs/types", kind)] {
                self.file(&format!("{own}/ports/1/{part}/{index}"), text);
            }
        }
        for counter in get(keys, "counters").unwrap_or_default().split_whitespace() {
            let (name, value) = counter.split_once('=').expect("a counter");
            self.file(&format!("{own}/ports/1/counters/{name}"), value);
        }
        if let Some(driver) = get(keys, "driver") {
            self.link(&format!("{folder}/driver"), &format!("sys/bus/pci/drivers/{driver}"));
        }
        if let Some((now, most)) = get(keys, "vfs").and_then(|vfs| vfs.split_once('/')) {
            self.file(&format!("{folder}/sriov_numvfs"), now);
            self.file(&format!("{folder}/sriov_totalvfs"), most);
        }
        if let Some(net) = get(keys, "net") {
            let words: Vec<&str> = net.split(' ').collect();
            let [name, state, speed, mtu] = words.as_slice() else { panic!("{net}") };
            self.net_in(folder, name, state, speed, mtu);
        }
    }

    /// Its keys are `state`, `speed` and `mtu`.
    fn net(&self, name: &str, path: &str, keys: &[&str]) {
        let (folder, _) = self.pci(path, keys, "0x020000", "0x8086", "0x15f3");
        let key = |name, usual| get(keys, name).unwrap_or(usual);
        self.net_in(&folder, name, key("state", "up"), key("speed", "-1"), key("mtu", "1500"));
    }

    fn net_in(&self, folder: &str, name: &str, state: &str, speed: &str, mtu: &str) {
        let own = format!("{folder}/net/{name}");
        for (file, text) in [("operstate", state), ("speed", speed), ("mtu", mtu)] {
            self.file(&format!("{own}/{file}"), text);
        }
        self.link(&format!("{own}/device"), folder);
        self.link(&format!("sys/class/net/{name}"), &own);
    }
}

/// A number that is another one for another address.
fn fold(address: &str) -> u32 {
    address.bytes().fold(7, |number, byte| number.wrapping_mul(31).wrapping_add(u32::from(byte)))
}

/// A GPU in the log, an element a line.
fn log_of(address: &str, uuid: &str, model: &str, keys: &[&str]) -> String {
    let key = |name| get(keys, name).unwrap_or("N/A");
    let (sm, memory) = key("clocks").split_once(' ').unwrap_or(("N/A", "N/A"));
    let (sm_most, memory_most) = key("most_clocks").split_once(' ').unwrap_or(("N/A", "N/A"));
    let limits = key("limits").split_whitespace().fold(String::new(), |mut text, name| {
        writeln!(text, "<clocks_event_reason_{name}>Active</clocks_event_reason_{name}>").expect("a string");
        text
    });
    let values = [
        ("product_name", model.to_owned()),
        ("product_architecture", key("architecture").to_owned()),
        ("persistence_mode", key("persistence").to_owned()),
        ("mig_mode/current_mig", key("mig").to_owned()),
        ("uuid", uuid.to_owned()),
        ("pci/pci_bus_id", format!("0000{address}")),
        ("fb_memory_usage/total", format!("{} MiB", key("memory"))),
        ("bar1_memory_usage/total", format!("{} MiB", key("bar1"))),
        ("compute_mode", "Default".to_owned()),
        ("ecc_mode/current_ecc", key("ecc").to_owned()),
        ("clocks/sm_clock", format!("{sm} MHz")),
        ("clocks/mem_clock", format!("{memory} MHz")),
        ("max_clocks/sm_clock", format!("{sm_most} MHz")),
        ("max_clocks/mem_clock", format!("{memory_most} MHz")),
        ("fabric/state", key("fabric").to_owned()),
    ];
    let mut text = format!("<gpu id=\"0000{address}\">\n<clocks_event_reasons>\n{limits}</clocks_event_reasons>\n");
    for (path, value) in values {
        match path.split_once('/') {
            None => writeln!(text, "<{path}>{value}</{path}>"),
            Some((above, name)) => writeln!(text, "<{above}>\n<{name}>{value}</{name}>\n</{above}>"),
        }
        .expect("a string");
    }
    text + "</gpu>\n"
}

/// What root reads of a device of this type, with this control word: capabilities of PCI Express and of access control services.
fn config_space(kind: u16, control: u16, acs: bool) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let words: [(usize, u16); 9] = [
        (0x06, 0x10),
        (0x34, 0x40),
        (0x40, 0x0010),
        (0x42, kind << 4 | 2),
        (0x48, control),
        (0x64, 0x40),
        (0x100, 0x0d),
        (0x102, 0x01),
        (0x106, if acs { 0x1d } else { 0 }),
    ];
    for (at, word) in words {
        bytes[at..at + 2].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}
