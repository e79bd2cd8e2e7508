//! What the sub-commands do.

pub(crate) mod apply;
pub(crate) mod bench;
pub(crate) mod completions;
mod detach;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod emit;
pub(crate) mod explain;
pub(crate) mod gdr;
pub(crate) mod install;
pub(crate) mod lint;
pub(crate) mod man;
pub(crate) mod node;
mod offline;
mod page;
mod presets;
pub(crate) mod probe;
pub(crate) mod report;
pub(crate) mod runs;
pub(crate) mod start;
mod subject;
pub(crate) mod topo;
pub(crate) mod tune;
pub(crate) mod verify;
pub(crate) mod workload;

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::Path,
    time::Duration,
};

use crate::{
    BUILD_ID,
    cli::{HostArgs, LookArgs, MeasureArgs, NcclArgs},
    exit::{Exit, Failure},
    hosts::{self, Place, Surroundings},
    paths,
    profile_file::{self, Openable, ProfileFile},
    ui::{Charset, Mouse, Source, UiOptions, text::fit_lines},
};
use crossterm::terminal;
use gdrtune_fleet::FleetConfig;
use gdrtune_profiles::{
    diagnostic::printable,
    profile::Profile,
    size::parse_sizes,
    vocab::{DataType, Engine, Point},
};
use gdrtune_session::{
    cluster::{CallMode, ClusterBench, ClusterNote, pace::PaceConfig},
    connect::{ConnectError, Register},
    event::Record,
    open::{self, Admission, ClusterRequest, Measuring, Present, Watcher},
    output::{self, Existing},
    run::new_run_id,
    store::{self, OfProfileError},
};

/// Every collective at every size.
///
/// # Errors
/// Wrong use: a size that is no whole number of elements.
fn points(measure: &MeasureArgs) -> Result<Vec<Point>, Failure> {
    let sizes = parse_sizes(&measure.sizes.sizes, measure.sizes.factor).map_err(Failure::usage)?;
    whole_elements("--sizes", sizes.iter().copied(), measure.sizes.data_type)?;
    let at_sizes = |&collective| sizes.iter().map(move |&bytes| Point { collective, bytes });
    Ok(measure.collectives.iter().flat_map(at_sizes).collect())
}

/// Checks that every size, which `from` names, is a number of elements.
fn whole_elements(from: &str, sizes: impl IntoIterator<Item = u64>, data_type: DataType) -> Result<(), Failure> {
    let element = data_type.bytes();
    match sizes.into_iter().find(|size| *size == 0 || size % element != 0) {
        None => Ok(()),
        Some(size) => {
            let text = format!("{from}: {size} bytes are no whole number of {data_type} elements ({element} bytes)");
            Err(Failure::usage_text(text))
        }
    }
}

/// Reads a profile, its bytes too; what is odd in it goes to standard error.
///
/// # Errors
/// Wrong use: a file that is no profile, with the place.
fn read_profile(path: &Path) -> Result<ProfileFile, Failure> {
    let file = profile_file::read(path, Openable::Anything).map_err(Failure::usage)?;
    for diagnostic in &file.odd {
        writeln!(io::stderr(), "{diagnostic}")?;
    }
    Ok(file)
}

/// The records of a profile's run, where its store is here.
///
/// # Errors
/// As of [`store::read_run_of`]. Without a place for stores there is none.
fn records_of(profile: &Profile) -> Result<Vec<Record>, OfProfileError> {
    let run = &profile.run.id;
    let Ok(dir) = paths::runs_dir() else { return Err(OfProfileError::Absent { run: run.clone() }) };
    store::read_run_of(&store::path_of(&dir, run), run)
}

/// Where the workers find NCCL, if the user says so.
///
/// # Errors
/// Wrong use: options for NCCL with another engine, or a path that no message can carry.
fn nccl_library(measure: &MeasureArgs, args: &NcclArgs) -> Result<Option<String>, Failure> {
    let options = [
        ("--nccl", args.nccl.is_some()),
        ("--emulate-nodes", args.emulate_nodes),
        ("--graph", args.calls.graph),
        ("--register-buffers", args.calls.register_buffers),
    ];
    if let Some((option, _)) = options.iter().find(|(_, given)| *given && measure.engine != Engine::Nccl) {
        let engine = measure.engine;
        return Err(Failure::usage_text(format!("{option}: the {engine} engine has none: use --engine nccl")));
    }
    library_text(args.nccl.as_deref())
}

/// A path of NCCL as messages carry it.
fn library_text(path: Option<&Path>) -> Result<Option<String>, Failure> {
    let text = |path: &Path| path.to_str().map(str::to_owned);
    match path {
        None => Ok(None),
        Some(path) => text(path).map(Some).ok_or_else(|| Failure::usage_text("--nccl: the path is no UTF-8 text")),
    }
}

/// Where to measure and with what, as the command line says; warnings go to standard error.
///
/// # Errors
/// Wrong use.
fn cluster(hosts: &HostArgs, measure: &MeasureArgs, nccl: &NcclArgs) -> Result<ClusterRequest, Failure> {
    cluster_heard(hosts, measure, nccl, &announce)
}

/// The same; `hear` is told which hosts these are.
fn cluster_heard(
    hosts: &HostArgs,
    measure: &MeasureArgs,
    nccl: &NcclArgs,
    hear: &dyn Fn(&Place) -> io::Result<()>,
) -> Result<ClusterRequest, Failure> {
    if !measure.engine.is_real() {
        let engine = measure.engine;
        return Err(Failure::usage_text(format!(
            "--engine {engine}: nothing runs on hosts with it: use tune, or another engine"
        )));
    }
    let nccl_library = nccl_library(measure, nccl)?;
    // One rank for each GPU, as jobs run; several share one only where nodes are emulated.
    let gpus = if measure.engine == Engine::Nccl && !nccl.emulate_nodes { hosts::gpus(Path::new("/dev")) } else { 0 };
    let local_ranks = if gpus > 0 { gpus } else { hosts::LOCAL_RANKS };
    let place = hosts::resolve(hosts, local_ranks, Surroundings::Job)?;
    let of_site = place.nccl.clone().filter(|_| measure.engine == Engine::Nccl);
    Ok(ClusterRequest {
        engine: measure.engine,
        nccl_library: nccl_library.or(of_site),
        emulate_nodes: nccl.emulate_nodes,
        shared: measure.trial.shared,
        wait: measure.trial.wait(),
        worker_command: measure.trial.worker_command(),
        data_type: measure.sizes.data_type,
        calls: CallMode { graph: nccl.calls.graph, register_buffers: nccl.calls.register_buffers },
        ..cluster_at(place, hear)?
    })
}

/// How many hosts are needed, where it need not be all.
///
/// # Errors
/// Wrong use: more than there are.
fn min_nodes(wanted: Option<u32>, cluster: &ClusterRequest) -> Result<Option<u32>, Failure> {
    let hosts = cluster.hosts.len();
    match wanted {
        Some(least) if least as usize > hosts => {
            let are = if hosts == 1 { "is 1 host".to_owned() } else { format!("are {hosts} hosts") };
            Err(Failure::usage_text(format!("--min-nodes {least}: there {are}")))
        }
        _ => Ok(wanted),
    }
}

/// The native engine on `place`, with the defaults of everything else; `hear` is told which hosts these are.
fn cluster_at(place: Place, hear: &dyn Fn(&Place) -> io::Result<()>) -> Result<ClusterRequest, Failure> {
    hear(&place)?;
    Ok(ClusterRequest {
        build_id: BUILD_ID.to_owned(),
        executable: std::env::current_exe()?,
        hosts: place.hosts,
        slots: place.slots,
        launcher: place.launcher,
        fanout: place.fanout,
        environment: place.environment,
        remote_folder: place.remote_folder,
        agent_folder: place.agent_folder,
        engine: Engine::Native,
        nccl_library: None,
        admission: Admission::default(),
        emulate_nodes: false,
        shared: false,
        wait: Duration::ZERO,
        worker_command: Vec::new(),
        data_type: DataType::F32,
        calls: CallMode::default(),
    })
}

/// How agents are started on `place`; workers find NCCL at `library`, or where a job's loader would.
fn fleet_config(place: &Place, library: Option<&str>) -> io::Result<FleetConfig> {
    Ok(FleetConfig {
        fanout: place.fanout,
        agent_env: open::agent_environment(&place.environment, library),
        remote_folder: place.remote_folder.clone(),
        agent_folder: place.agent_folder.clone(),
        ..FleetConfig::new(BUILD_ID.to_owned(), std::env::current_exe()?, place.launcher.clone())
    })
}

/// Says which hosts these are where the user did not, and what is odd about them.
fn announce(place: &Place) -> io::Result<()> {
    if let Some(about) = &place.about {
        writeln!(io::stderr(), "gdrtune: {about}")?;
    }
    warn_of(place)
}

/// Says what is odd about the hosts.
fn warn_of(place: &Place) -> io::Result<()> {
    place.warnings.iter().try_for_each(|warning| writeln!(io::stderr(), "gdrtune: warning: {warning}"))
}

/// Hosts that cannot be used, with what can be done about it.
fn unusable(error: ConnectError) -> Failure {
    let hint = error.hint();
    let failure = Failure::new(Exit::Preflight, error);
    match hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// Lets `work` measure on the cluster, with nobody watching.
///
/// # Errors
/// Preflight: hosts that cannot be used.
fn with_bench<T>(
    cluster: &ClusterRequest,
    points: &[Point],
    pace: PaceConfig,
    work: impl FnOnce(&mut ClusterBench<'_>, &Present) -> T,
) -> Result<T, Failure> {
    with_bench_heard(cluster, points, pace, Box::new(|_| {}), work)
}

/// The same; `notes` hears what happens to the workers.
///
/// # Errors
/// Preflight: hosts that cannot be used.
fn with_bench_heard<T>(
    cluster: &ClusterRequest,
    points: &[Point],
    pace: PaceConfig,
    notes: Box<dyn FnMut(ClusterNote)>,
    work: impl FnOnce(&mut ClusterBench<'_>, &Present) -> T,
) -> Result<T, Failure> {
    let runtime = runtime()?;
    let measuring = Measuring { max_bytes: points.iter().map(|p| p.bytes).max().unwrap_or(0), pace };
    let register = Register { recorder: None, numbers: &[] };
    let watcher = Watcher { register, interrupted: &|| false, tell: &say, notes };
    // Nothing is stored under this id: it is what others are told who find the hosts in use.
    let run = new_run_id();
    open::with_cluster(runtime.handle(), cluster, &run, measuring, watcher, work).map_err(unusable)
}

/// Refuses a file of `option` that is there already, with the next step.
///
/// # Errors
/// Wrong use.
fn refuse_existing(option: &str, path: Option<&Path>, force: bool) -> Result<(), Failure> {
    let existing = if force { Existing::Replace } else { Existing::Refuse };
    match path.map(|path| output::refuse_existing(path, existing)) {
        Some(Err(error)) => {
            Err(Failure::usage(error).with_hint(format!("choose another file with {option}; --force replaces it")))
        }
        _ => Ok(()),
    }
}

/// Says something on standard error, where anybody listens.
fn say(text: &str) {
    writeln!(io::stderr(), "gdrtune: {}", printable(text)).ok();
}

/// Columns of standard output, where it has some: a terminal's, or those that the user names for a file (`COLUMNS`).
fn columns() -> Option<usize> {
    /// Fewer are no terminal that anybody reads tables on.
    const FEWEST: usize = 40;
    let of_terminal = || {
        let size = io::stdout().is_terminal().then(terminal::size)?.ok()?;
        Some(usize::from(size.0)).filter(|columns| 0 < *columns)
    };
    let named = || std::env::var("COLUMNS").ok()?.parse::<usize>().ok();
    of_terminal().or_else(named).map(|columns| columns.max(FEWEST))
}

/// Prints a text for people, in lines that fit where it is shown.
fn print_fitted(text: &str) -> io::Result<()> {
    let fitted = columns().map(|columns| fit_lines(text, columns));
    io::stdout().lock().write_all(fitted.as_deref().unwrap_or(text).as_bytes())
}

/// A tokio runtime for fleet, signals and the terminal UI. Two threads are plenty: measuring happens elsewhere.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// How the terminal UI looks: what the environment says, and what the user asks for.
fn ui_options(source: Source, look: &LookArgs) -> UiOptions {
    let options = UiOptions::from_environment(source, |name| std::env::var(name).ok());
    UiOptions {
        charset: if look.ascii { Charset::Ascii } else { options.charset },
        mouse: if look.no_mouse { Mouse::Free } else { options.mouse },
        theme: look.theme.unwrap_or(options.theme),
        ..options
    }
}
