//! `gdrtune topo`: how the devices of hosts are wired, from their agents or from files.

mod inventory;
mod json;
pub(super) mod text;

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::Path,
};

use gdrtune_node::inventory::RecordError;
use gdrtune_profiles::{grammar::topo_file, json::document, topology::Machine};
use gdrtune_session::topology::{HostInventory, Survey, bindings, look, machine};
use gdrtune_wire::Inventory;

use crate::{
    cli::{TopoArgs, TopoFormat},
    exit::{Exit, Failure},
    hosts::{self, Surroundings},
};

/// Most bytes of a file. A dump of the largest machines has some 100 kB.
const FILE_BYTES: u64 = 16 << 20;

/// Ranks per host where nobody says: nothing runs.
const NO_RANKS: u32 = 1;

/// What was seen of a machine: all, or how it is wired.
enum Seen {
    Inventory(Box<Inventory>),
    Machine(Machine),
}

/// Machines by name, or why one was not seen.
type Looked = Vec<(String, Result<Seen, String>)>;

pub(crate) fn topo(args: &TopoArgs) -> Result<Exit, Failure> {
    if let Some(folder) = &args.record {
        return record(folder);
    }
    let looked: Looked = if args.from.is_empty() {
        on_hosts(args)?.into_iter().map(|(host, seen)| (host, seen.map(|all| Seen::Inventory(Box::new(all))))).collect()
    } else {
        from_files(args)?
    };
    let (mut seen, mut failed) = (Vec::new(), Vec::new());
    for (host, of_host) in looked {
        match of_host {
            Ok(of_host) => seen.push((host, of_host)),
            Err(why) => failed.push((host, why)),
        }
    }
    if seen.is_empty() {
        let reasons: Vec<String> = failed.into_iter().map(|(_, why)| why).collect();
        let text = format!("no host can be looked at: {}", reasons.join("; "));
        return Err(Failure::new(Exit::Preflight, anyhow::Error::msg(text)));
    }
    let printed = if args.inventory { inventories(seen, &failed, args.format)? } else { wiring(args, seen, &failed) };
    match args.format {
        TopoFormat::Text => super::print_fitted(&printed)?,
        TopoFormat::Json => io::stdout().lock().write_all(printed.as_bytes())?,
    }
    for (host, why) in &failed {
        super::say(&format!("{host}: {why}"));
    }
    Ok(if failed.is_empty() { Exit::Done } else { Exit::NodesLost })
}

fn wiring(args: &TopoArgs, seen: Vec<(String, Seen)>, failed: &[(String, String)]) -> String {
    let wired = |(host, seen): (String, Seen)| match seen {
        Seen::Inventory(inventory) => ((host, machine(&inventory)), Some(inventory)),
        Seen::Machine(machine) => ((host, machine), None),
    };
    let (machines, inventories): (Vec<_>, Vec<_>) = seen.into_iter().map(wired).unzip();
    let bindings = args.bindings.then(|| {
        let known = machines.iter().zip(&inventories);
        let known: Vec<_> =
            known.map(|((host, machine), inventory)| (host.as_str(), machine, inventory.as_deref())).collect();
        bindings::of_machines(&known)
    });
    let survey = Survey::of(machines);
    match args.format {
        TopoFormat::Text => text::text(&survey, bindings.as_ref(), super::columns()),
        TopoFormat::Json => document(&json::document(&survey, bindings.as_ref(), failed)),
    }
}

fn inventories(seen: Vec<(String, Seen)>, failed: &[(String, String)], format: TopoFormat) -> Result<String, Failure> {
    let whole = |(host, seen): (String, Seen)| match seen {
        Seen::Inventory(inventory) => Ok((host, *inventory)),
        Seen::Machine(_) => Err(Failure::usage_text(format!(
            "{host} tells only how a machine is wired: --inventory needs a folder with copies of its files, or hosts"
        ))),
    };
    let seen: Vec<(String, Inventory)> = seen.into_iter().map(whole).collect::<Result<_, _>>()?;
    Ok(match format {
        TopoFormat::Text => inventory::text(&seen),
        TopoFormat::Json => document(&inventory::document(&seen, failed).map_err(anyhow::Error::from)?),
    })
}

fn on_hosts(args: &TopoArgs) -> Result<Vec<HostInventory>, Failure> {
    let place = hosts::resolve(&args.hosts, NO_RANKS, Surroundings::Job)?;
    super::announce(&place)?;
    let runtime = super::runtime()?;
    // A signal ends this process as usual, and with it the agents, which end with their input.
    look(runtime.handle(), super::fleet_config(&place, None)?, &place.hosts, &|| false).map_err(super::unusable)
}

/// Every file must be one: whoever names it means it.
fn from_files(args: &TopoArgs) -> Result<Looked, Failure> {
    args.from.iter().map(|path| Ok((path.display().to_string(), Ok(from_file(path)?)))).collect()
}

fn from_file(path: &Path) -> Result<Seen, Failure> {
    let name = path.display().to_string();
    if path.is_dir() {
        return recorded(path);
    }
    let mut bytes = Vec::new();
    let read = if name == "-" {
        io::stdin().lock().take(FILE_BYTES + 1).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(FILE_BYTES + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| Failure::usage(anyhow::Error::from(error).context(format!("read {name}"))))?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(Failure::usage_text(format!("{name}: more than {} MiB: is it a topology?", FILE_BYTES >> 20)));
    }
    let (machine, odd) = topo_file::parse(&String::from_utf8_lossy(&bytes), &name)
        .map_err(|diagnostic| Failure::usage_text(diagnostic.to_string()))?;
    for diagnostic in &odd {
        super::say(&diagnostic.to_string());
    }
    Ok(Seen::Machine(machine))
}

/// Copies what an inventory reads of this machine.
fn record(folder: &Path) -> Result<Exit, Failure> {
    let written = gdrtune_node::inventory::record(Path::new("/"), folder).map_err(|error| match error {
        RecordError::Exists(_) => Failure::usage(error).with_hint("name a folder that is not there yet"),
        RecordError::Differs(_) => {
            Failure::new(Exit::Unexpected, error).with_hint("it may have changed meanwhile: run the command again")
        }
        RecordError::Io { .. } | RecordError::TooMuch => Failure::new(Exit::Unexpected, error),
    })?;
    let kib = written.bytes.div_ceil(1024);
    super::say(&format!("recorded this machine in {}: {} entries, {kib} KiB", folder.display(), written.entries));
    Ok(Exit::Done)
}

/// A folder with copies of a machine's files.
fn recorded(folder: &Path) -> Result<Seen, Failure> {
    let inventory = gdrtune_node::inventory::read_recorded(folder);
    let has_devices = !inventory.topology.gpus.is_empty() || !inventory.topology.hcas.is_empty();
    if !has_devices && !is_machine(folder, &inventory) {
        let text = format!(
            "{}: neither GPUs nor HCAs are in this folder: it needs a machine's sys/devices, sys/bus/pci, sys/class and \
             proc, links as links (as `cp -a` and `tar` keep them)",
            folder.display()
        );
        return Err(Failure::usage_text(text));
    }
    Ok(Seen::Inventory(Box::new(inventory)))
}

/// Whether a folder without GPUs and HCAs is a machine that has none, as `--record` writes it: all is there that would tell of them.
fn is_machine(folder: &Path, inventory: &Inventory) -> bool {
    // Copies that follow links have folders there, of which nobody knows what they are plugged into.
    let has_links = fs::read_dir(folder.join("sys/bus/pci/devices"))
        .is_ok_and(|devices| devices.flatten().all(|device| device.path().is_symlink()));
    has_links && !inventory.hostname.is_empty() && folder.join("sys/devices").is_dir()
}
