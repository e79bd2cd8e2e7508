//! The agent with workers of the NCCL engine: what it has NCCL log, and for how long.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{fs, os::unix::fs::symlink, path::Path};

use gdrtune_profiles::vocab::{Algorithm, Choice, Engine, Environment, Protocol};
use gdrtune_wire::{
    EndCause, EngineReport, FromAgent, FromWorker, ItemOutcome, Settings, StartGroup, ToAgent, ToWorker,
};

use crate::support::{Agent, Builder, script, start};

/// An agent whose workers are real ones, on stand-ins for CUDA and NCCL in this folder, with the real plugin.
fn agent_with_nccl(folder: &Path) -> Agent {
    let built = std::env::current_exe().unwrap();
    for (library, name) in [
        ("gdrtune_standin_cuda", "libcuda.so"),
        ("gdrtune_standin_nccl", "libnccl.so.2"),
        ("gdrtune_nccl_tuner", "libnccl-tuner-gdrtune.so"),
    ] {
        symlink(built.with_file_name(format!("lib{library}.so")), folder.join(name)).unwrap();
    }
    let plugin = folder.join("libnccl-tuner-gdrtune.so");
    Builder::new()
        .env("FIXTURE_PROGRAM", env!("CARGO_BIN_EXE_gdrtune-worker-fixture"))
        .env("LD_LIBRARY_PATH", folder.to_str().unwrap())
        .env("GDRTUNE_TUNER_PLUGIN", plugin.to_str().unwrap())
        .env("STANDIN_NCCL_GDR", "1")
        .connect()
}

/// Takes two ranks of NCCL as far as connected, and returns what they run with.
fn connect_nccl(agent: &mut Agent, group: u32, settings: Settings) -> Vec<EngineReport> {
    let like = start(group, &[0, 1], "");
    agent.send(&ToAgent::Start(StartGroup { engine: Engine::Nccl, settings, nodes: 2, emulate_nodes: true, ..like }));
    let mut peers = vec![vec![]; 2];
    for _ in 0..2 {
        let (rank, bytes) = agent.wait_for(|message| match message {
            FromAgent::Worker { rank, message: FromWorker::Bootstrap(bytes), .. } => Some((*rank, bytes.clone())),
            _ => None,
        });
        peers[rank as usize] = bytes;
    }
    agent.pass_on(group, ToWorker::Connect { peers });
    let report = |message: &FromAgent| match message {
        FromAgent::Worker { message: FromWorker::Connected { engine, .. }, .. } => Some((**engine).clone()),
        _ => None,
    };
    vec![agent.wait_for(report), agent.wait_for(report)]
}

#[test]
fn an_installation_is_logged_even_where_its_jobs_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = agent_with_nccl(folder.path());
    let plugin = folder.path().join("libnccl-tuner-gdrtune.so").display().to_string();
    let environment = format!("NCCL_TUNER_PLUGIN={plugin}\nNCCL_DEBUG=WARN\nNCCL_DEBUG_FILE=/nowhere/log\n");
    fs::write(folder.path().join("gdrtune.env"), environment).unwrap();
    let installed = Settings::Installed { folder: folder.path().to_str().unwrap().to_owned() };
    for report in connect_nccl(&mut agent, 1, installed) {
        let loaded = format!("Successfully loaded external tuner plugin {plugin}");
        assert!(report.plugin_log.contains(&loaded), "{:?}", report.plugin_log);
    }
    assert_eq!(agent.temporary_files_named(".log"), ["rank-0.log", "rank-1.log"]);
    agent.send(&ToAgent::Shutdown);
    assert_eq!(agent.exit_code(), 0);
}

#[test]
fn nccl_logs_in_live_groups_alone_and_as_long_as_they_live() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = agent_with_nccl(folder.path());
    let live = || Settings::Live(Environment::new());
    for report in connect_nccl(&mut agent, 1, live()) {
        assert_eq!((report.channels, report.network.map(|network| network.gdr_receives)), (Some(2), Some(2)));
    }
    assert_eq!(agent.temporary_files_named(".log"), ["rank-0.log", "rank-1.log"]);
    // The default arm beside it stands for a job.
    for report in connect_nccl(&mut agent, 2, Settings::Site) {
        assert_eq!((report.channels, report.network), (None, None));
    }
    // A site that logs itself keeps its own way.
    let own = Settings::Live(Environment::new().with("NCCL_DEBUG", "WARN"));
    for report in connect_nccl(&mut agent, 3, own) {
        assert_eq!((report.channels, report.network), (None, None));
    }
    assert_eq!(agent.temporary_files_named(".log").len(), 2);
    let choice = Choice { algorithm: Algorithm::Tree, protocol: Protocol::Ll, channels: 8 };
    let ToWorker::Run(mut asked) = script(1, &[60_000]) else { panic!("no script") };
    asked.items[0].choice = Some(choice);
    agent.pass_on(1, ToWorker::Run(asked));
    let selected = agent.wait_for(|message| match message {
        FromAgent::Worker { rank: 0, message: FromWorker::Item { outcome: ItemOutcome::Timed(times), .. }, .. } => {
            times.selected
        }
        _ => None,
    });
    assert_eq!(selected, Choice { channels: 2, ..choice }, "the communicator has no more");
    agent.pass_on(1, ToWorker::Quit);
    assert_eq!(agent.ends(1, 2), [EndCause::Finished, EndCause::Finished]);
    assert_eq!(agent.temporary_files_named(".log"), Vec::<String>::new());
    agent.send(&ToAgent::Shutdown);
    assert_eq!(agent.exit_code(), 0);
}
