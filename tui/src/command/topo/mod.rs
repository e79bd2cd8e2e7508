//! `gdrtune topo`: how the devices of hosts are wired, from their agents or from files.

mod json;
pub(super) mod text;

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use gdrtune_node::inventory;
use gdrtune_profiles::{grammar::topo_file, topology::Machine};
use gdrtune_session::topology::{HostTopology, Survey, bindings, look, machine};

use crate::{
    cli::{TopoArgs, TopoFormat},
    exit::{Exit, Failure},
    hosts::{self, Surroundings},
};

/// Most bytes of a file. A dump of the largest machines has some 100 kB.
const FILE_BYTES: u64 = 16 << 20;

/// Ranks per host where nobody says: nothing runs.
const NO_RANKS: u32 = 1;

pub(crate) fn topo(args: &TopoArgs) -> Result<Exit, Failure> {
    let seen = if args.from.is_empty() { on_hosts(args)? } else { from_files(args)? };
    let (mut machines, mut failed) = (Vec::new(), Vec::new());
    for (host, seen) in seen {
        match seen {
            Ok(machine) => machines.push((host, machine)),
            Err(why) => failed.push((host, why)),
        }
    }
    if machines.is_empty() {
        let reasons: Vec<String> = failed.into_iter().map(|(_, why)| why).collect();
        let text = format!("no host can be looked at: {}", reasons.join("; "));
        return Err(Failure::new(Exit::Preflight, anyhow::Error::msg(text)));
    }
    let bindings = args.bindings.then(|| bindings::of_machines(&machines));
    let survey = Survey::of(machines);
    let printed = match args.format {
        TopoFormat::Text => text::text(&survey, bindings.as_ref()),
        TopoFormat::Json => format!("{:#}\n", json::document(&survey, bindings.as_ref(), &failed)),
    };
    io::stdout().lock().write_all(printed.as_bytes())?;
    for (host, why) in &failed {
        super::say(&format!("{host}: {why}"));
    }
    Ok(if failed.is_empty() { Exit::Done } else { Exit::NodesLost })
}

fn on_hosts(args: &TopoArgs) -> Result<Vec<HostTopology>, Failure> {
    let place = hosts::resolve(&args.hosts, NO_RANKS, Surroundings::Job)?;
    super::announce(&place)?;
    let runtime = super::runtime()?;
    // A signal ends this process as usual, and with it the agents, which end with their input.
    look(runtime.handle(), super::fleet_config(&place, None)?, &place.hosts, &|| false).map_err(super::unusable)
}

/// Every file must be one: whoever names it means it.
fn from_files(args: &TopoArgs) -> Result<Vec<HostTopology>, Failure> {
    args.from.iter().map(|path| Ok((path.display().to_string(), Ok(from_file(path)?)))).collect()
}

fn from_file(path: &Path) -> Result<Machine, Failure> {
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
    Ok(machine)
}

/// A folder with copies of a machine's files.
fn recorded(folder: &Path) -> Result<Machine, Failure> {
    let machine = machine(&inventory::read_recorded(folder));
    if machine.gpus.is_empty() && machine.hcas.is_empty() {
        let text = format!(
            "{}: neither GPUs nor HCAs are in this folder: it needs a machine's sys/devices, sys/bus/pci, sys/class and \
             proc/driver/nvidia, links as links (as `cp -a` and `tar` keep them)",
            folder.display()
        );
        return Err(Failure::usage_text(text));
    }
    Ok(machine)
}
