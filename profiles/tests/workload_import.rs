//! Every form of a source that `workload import` reads, and what becomes of it. `UPDATE_EXPECTED=1` writes `expected.txt`.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::{fmt::Write as _, fs, io::BufReader, path::Path};

use gdrtune_profiles::workload::{
    Counting, Workload,
    import::{Import, Selection},
};

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workloads"))
}

/// What a file becomes: its communicators, and the workload of the first.
fn told(name: &str) -> String {
    let file = fs::File::open(folder().join(name)).unwrap();
    let mut import = Import::new();
    // A small buffer ends within everything.
    let summary = import.read(name, None, BufReader::with_capacity(61, file)).unwrap_or_else(|error| panic!("{error}"));
    let found = import.finish();
    let mut text = format!("{name}: {}, {} calls\n", summary.kind, summary.calls);
    for communicator in &found.communicators {
        let (ranks, alike, seen) = (communicator.ranks, communicator.alike, communicator.seen);
        let names = communicator.names.join(", ");
        writeln!(text, "  {ranks} ranks, {alike} alike, {seen} seen, {} calls: {names}", communicator.call_count())
            .unwrap();
    }
    let selection = Selection { communicators: Vec::new(), steps: None, points: 64, name: "w".to_owned() };
    let imported = found.workload(&selection).unwrap();
    assert_eq!(imported.workload.counting, Counting::CallsPerStep, "{name}");
    for (point, calls) in &imported.workload.calls {
        writeln!(text, "  {point} x{calls}").unwrap();
    }
    for (word, lines) in [("note", &imported.notes), ("left out", &imported.left_out)] {
        for line in lines {
            writeln!(text, "  {word}: {line}").unwrap();
        }
    }
    let written = imported.workload.to_toml(&imported.notes, "w.toml").unwrap();
    assert_eq!(Workload::parse(&written, "w.toml").unwrap(), imported.workload);
    text
}

#[test]
fn every_form_is_read() {
    let mut names: Vec<String> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != "README.md" && name != "expected.txt");
    names.sort();
    let readme = fs::read_to_string(folder().join("README.md")).unwrap();
    for name in &names {
        assert!(readme.contains(&format!("| `{name}` |")), "{name}: where its form is from");
    }
    let text: String = names.iter().map(|name| told(name)).collect();
    let path = folder().join("expected.txt");
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(&path).unwrap_or_default());
}

#[test]
fn files_of_several_ranks_count_a_call_once() {
    let name = "nccl-2.28-tensor-parallel.log";
    let text = fs::read_to_string(folder().join(name)).unwrap();
    let mut import = Import::new();
    for rank in 0..4 {
        let label = format!("{rank}: ");
        let own: String =
            text.lines().filter_map(|line| line.strip_prefix(&label)).flat_map(|line| [line, "\n"]).collect();
        import.read(&format!("{rank}.log"), None, own.as_bytes()).unwrap();
    }
    let mut together = Import::new();
    together.read(name, None, text.as_bytes()).unwrap();
    let counts = |import: Import| {
        let found = import.finish();
        found.communicators.iter().map(|c| (c.ranks, c.alike, c.seen, c.calls.clone())).collect::<Vec<_>>()
    };
    assert_eq!(counts(import), counts(together));
}
