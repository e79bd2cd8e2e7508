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

use std::{fs, os::unix::fs::symlink, path::Path};

/// Makes the tree that `description` tells of below `root`.
pub(crate) fn expand(description: &str, root: &Path) {
    let tree = Tree { root };
    for (number, line) in description.lines().enumerate() {
        let words = shell_words::split(line).unwrap_or_else(|error| panic!("line {}: {error}", number + 1));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [] => {}
            [first, ..] if first.starts_with('#') => {}
            ["numa", list] => tree.file("sys/devices/system/node/has_cpu", list),
            ["driver", version] => tree.file("sys/module/nvidia/version", version),
            ["gpu", path, keys @ ..] => tree.gpu(path, keys),
            ["hca", name, path, keys @ ..] => tree.hca(name, path, keys),
            ["net", name, path, keys @ ..] => tree.net(name, path, keys),
            other => panic!("line {}: {other:?}", number + 1),
        }
    }
}

fn get<'k>(keys: &[&'k str], name: &str) -> Option<&'k str> {
    keys.iter().find_map(|key| key.strip_prefix(name)?.strip_prefix('='))
}

struct Tree<'r> {
    root: &'r Path,
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

    fn gpu(&self, path: &str, keys: &[&str]) {
        let device = format!("0x{}", get(keys, "device").unwrap_or("2330"));
        let (_, address) = self.pci(path, keys, "0x030200", "0x10de", &device);
        if let Some(model) = get(keys, "model") {
            let text = format!("Model: \t\t {model}\nGPU UUID: \t GPU-{address}");
            self.file(&format!("proc/driver/nvidia/gpus/{address}/information"), &text);
        }
    }

    /// Its ports are `port=` and `port2=`: state, state of the link below, link layer, rate.
    fn hca(&self, name: &str, path: &str, keys: &[&str]) {
        let (folder, _) = self.pci(path, keys, "0x020700", "0x15b3", "0x1021");
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
        self.link(&format!("{own}/device"), &folder);
        self.link(&format!("sys/class/infiniband/{name}"), &own);
    }

    fn net(&self, name: &str, path: &str, keys: &[&str]) {
        let (folder, _) = self.pci(path, keys, "0x020000", "0x8086", "0x15f3");
        let own = format!("{folder}/net/{name}");
        self.file(&format!("{own}/operstate"), "up");
        self.link(&format!("{own}/device"), &folder);
        self.link(&format!("sys/class/net/{name}"), &own);
    }
}
