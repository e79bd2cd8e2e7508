use std::os::unix::fs::{MetadataExt as _, symlink};

use gdrtune_profiles::install::{ENV_FILE, MANIFEST_FORMAT, RULES_FILE};

use super::*;

const PLUGIN: &[u8] = b"\x7fELF plugin";

fn installation(folder: &Path, files: &[(&str, &str)]) -> Installation {
    let file = |(name, text): &(&str, &str)| ((*name).to_owned(), text.as_bytes().to_vec());
    let manifest = Manifest {
        format: MANIFEST_FORMAT,
        gdrtune: "1".to_owned(),
        run: "run".to_owned(),
        path: folder.display().to_string(),
        labels: vec![],
        rules: 1,
        files: vec![],
    };
    let folder = folder.to_str().unwrap().to_owned();
    Installation { folder, files: files.iter().map(file).collect(), with_plugin: true, manifest, force: false }
}

fn usual(folder: &Path) -> Installation {
    installation(folder, &[(RULES_FILE, "rules"), (ENV_FILE, "A=1\n")])
}

fn failure(outcome: InstallOutcome) -> String {
    match outcome {
        InstallOutcome::Failed(why) => why,
        other => panic!("{other:?}"),
    }
}

fn must_install(installation: &Installation) {
    let outcome = install(installation, Some(PLUGIN));
    assert!(matches!(outcome, InstallOutcome::Installed { .. }), "{outcome:?}");
}

/// Names and contents, the manifest's left out; fails where a temporary file is left.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap_or_default()))
        .filter(|(name, _)| name != MANIFEST_FILE)
        .collect();
    all.sort();
    assert!(all.iter().all(|(name, _)| !name.starts_with('.')), "{all:?}");
    all
}

fn names(folder: &Path) -> Vec<String> {
    contents(folder).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn files_are_there_for_everybody_and_the_manifest_says_which() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("a b/$(touch x)");
    must_install(&usual(&folder));
    assert_eq!(names(&folder), [ENV_FILE, PLUGIN_FILE, RULES_FILE]);
    for (path, mode) in [("", 0o755), ("..", 0o755), (PLUGIN_FILE, 0o755), (RULES_FILE, 0o644), (MANIFEST_FILE, 0o644)]
    {
        assert_eq!(fs::metadata(folder.join(path)).unwrap().mode() & 0o777, mode, "{path}");
    }
    let InstallOutcome::Inspected { manifest, findings } = inspect(folder.to_str().unwrap()) else { panic!() };
    assert_eq!((manifest.files.len(), findings.len()), (3, 0));
    assert_eq!(manifest.sha256(RULES_FILE), Some(sha256(b"rules").as_str()));
}

#[test]
fn an_installation_is_replaced_as_a_whole() {
    let home = tempfile::tempdir().unwrap();
    must_install(&usual(home.path()));
    fs::write(home.path().join("theirs"), "x").unwrap();
    must_install(&usual(home.path()));
    // The next one has no plugin and no rules, and another file.
    let mut next = installation(home.path(), &[(ENV_FILE, "A=2\n"), ("gdrtune.sh", "export A=2\n")]);
    next.with_plugin = false;
    must_install(&next);
    assert_eq!(names(home.path()), [ENV_FILE, "gdrtune.sh", "theirs"]);
    assert_eq!(fs::read_to_string(home.path().join(ENV_FILE)).unwrap(), "A=2\n");
}

#[test]
fn changed_and_foreign_files_are_replaced_by_force_only() {
    let home = tempfile::tempdir().unwrap();
    let rules = home.path().join(RULES_FILE);
    fs::write(&rules, "somebody's own").unwrap();
    let why = failure(install(&usual(home.path()), Some(PLUGIN)));
    assert!(why.contains(RULES_FILE) && why.contains("--force"), "{why}");
    assert_eq!(contents(home.path()), [(RULES_FILE.to_owned(), b"somebody's own".to_vec())]);
    must_install(&Installation { force: true, ..usual(home.path()) });

    fs::write(&rules, "edited").unwrap();
    let next = installation(home.path(), &[(RULES_FILE, "new rules"), (ENV_FILE, "A=2\n")]);
    assert!(failure(install(&next, Some(PLUGIN))).contains("nccl-tuner.csv was changed"));
    assert_eq!(fs::read_to_string(home.path().join(ENV_FILE)).unwrap(), "A=1\n", "the old one is whole");
    must_install(&Installation { force: true, ..next.clone() });
    assert_eq!(fs::read_to_string(&rules).unwrap(), "new rules");

    // Also a file that the next installation would only remove.
    fs::write(&rules, "edited").unwrap();
    let without = installation(home.path(), &[(ENV_FILE, "A=3\n")]);
    assert!(failure(install(&without, Some(PLUGIN))).contains("nccl-tuner.csv was changed"));

    // Cut short after some files: what has the new contents already is no obstacle.
    fs::write(&rules, "newest").unwrap();
    must_install(&installation(home.path(), &[(RULES_FILE, "newest"), (ENV_FILE, "A=3\n")]));
}

#[test]
fn what_is_no_regular_file_is_never_replaced() {
    let home = tempfile::tempdir().unwrap();
    let target = home.path().join("target");
    fs::write(&target, "theirs").unwrap();
    for make in [
        |path: &Path, target: &Path| symlink(target, path).unwrap(),
        |path: &Path, _: &Path| fs::create_dir(path).unwrap(),
    ] {
        let folder = home.path().join("f");
        fs::create_dir(&folder).unwrap();
        make(&folder.join(RULES_FILE), &target);
        let request = Installation { force: true, ..usual(&folder) };
        assert!(failure(install(&request, Some(PLUGIN))).contains("is no regular file"));
        assert_eq!(names(&folder), [RULES_FILE]);
        fs::remove_file(folder.join(RULES_FILE)).or_else(|_| fs::remove_dir(folder.join(RULES_FILE))).unwrap();
        fs::remove_dir(folder).unwrap();
    }
    assert_eq!(fs::read_to_string(target).unwrap(), "theirs");
}

#[test]
fn a_failure_leaves_nothing_new_and_the_old_one_whole() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("file"), "").unwrap();
    for folder in ["file", "file/below"] {
        let why = failure(install(&usual(&home.path().join(folder)), Some(PLUGIN)));
        assert!(why.contains("is not a folder"), "{why}");
    }
    // A name as long as names can be leaves no room for its temporary one.
    let long = "x".repeat(250);
    let new = home.path().join("a/b");
    let why = failure(install(&installation(&new, &[(ENV_FILE, "A=1\n"), (&long, "")]), Some(PLUGIN)));
    assert!(why.starts_with("write ") && why.contains("name too long"), "{why}");
    assert!(!home.path().join("a").exists());

    must_install(&usual(&new));
    let before = contents(&new);
    let broken = installation(&new, &[(RULES_FILE, "new"), (ENV_FILE, "A=2\n"), (&long, "")]);
    failure(install(&broken, Some(PLUGIN)));
    assert_eq!(contents(&new), before);
}

#[test]
fn a_replacement_that_fails_half_way_puts_the_old_files_back() {
    let home = tempfile::tempdir().unwrap();
    must_install(&usual(home.path()));
    let before = contents(home.path());
    let next = installation(home.path(), &[(RULES_FILE, "new"), (ENV_FILE, "A=2\n"), ("third", "")]);
    let hashed = next.files.iter().map(|(name, bytes)| ManifestFile { name: name.clone(), sha256: sha256(bytes) });
    let manifest = Manifest { files: hashed.collect(), ..next.manifest.clone() };
    let old = look_at_old(home.path(), &manifest, false).unwrap();
    let mut change = Change { folder: home.path(), token: 1, old, staged: Vec::new() };
    for (name, bytes) in &next.files {
        change.stage(name, bytes).unwrap();
    }
    fs::remove_file(change.temporary("third")).unwrap();
    let error = change.commit(&manifest).unwrap_err().to_string();
    assert!(error.starts_with("replace ") && error.contains("third"), "{error}");
    assert_eq!(contents(home.path()), before);
}

#[test]
fn exactly_what_was_put_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("f");
    let path = folder.to_str().unwrap();
    assert_eq!(uninstall(path, false), InstallOutcome::NotInstalled);
    must_install(&usual(&folder));
    fs::remove_file(folder.join(PLUGIN_FILE)).unwrap();
    fs::write(folder.join("theirs"), "x").unwrap();
    fs::write(folder.join(RULES_FILE), "edited").unwrap();
    let InstallOutcome::Uninstalled { removed, kept } = uninstall(path, false) else { panic!() };
    assert_eq!(removed, [ENV_FILE]);
    assert!(kept.len() == 1 && kept[0].ends_with("nccl-tuner.csv was changed since it was installed"), "{kept:?}");
    assert_eq!(names(&folder), [RULES_FILE, "theirs"]);
    let InstallOutcome::Inspected { manifest, .. } = inspect(path) else { panic!() };
    assert_eq!(manifest.files.len(), 1, "what is kept is still known");

    let InstallOutcome::Uninstalled { removed, kept } = uninstall(path, true) else { panic!() };
    assert_eq!((removed, kept), (vec![RULES_FILE.to_owned(), MANIFEST_FILE.to_owned()], vec![]));
    assert_eq!(names(&folder), ["theirs"]);
    assert_eq!(inspect(path), InstallOutcome::NotInstalled);
    fs::remove_file(folder.join("theirs")).unwrap();
    must_install(&usual(&folder));
    uninstall(path, false);
    assert!(!folder.exists());
}

#[test]
fn findings_are_named() {
    let home = tempfile::tempdir().unwrap();
    must_install(&usual(home.path()));
    fs::write(home.path().join(RULES_FILE), "edited").unwrap();
    fs::remove_file(home.path().join(PLUGIN_FILE)).unwrap();
    let InstallOutcome::Inspected { findings, .. } = inspect(home.path().to_str().unwrap()) else { panic!() };
    assert_eq!(findings.len(), 2);
    assert!(findings[0].ends_with("libnccl-tuner-gdrtune.so is missing"), "{findings:?}");
    assert!(findings[1].ends_with("nccl-tuner.csv was changed since it was installed"), "{findings:?}");
}

#[test]
fn hostile_requests_and_manifests_touch_nothing() {
    for folder in ["", "rel", "./rel", "/a/../b", "/a\nb"] {
        assert!(failure(install(&usual(Path::new(folder)), Some(PLUGIN))).contains("cannot be installed to"));
        assert!(failure(uninstall(folder, true)).contains("cannot be installed to"));
        assert!(failure(inspect(folder)).contains("cannot be installed to"));
    }
    let home = tempfile::tempdir().unwrap();
    for name in ["../x", "/x", "a/b", ".."] {
        let request = installation(home.path(), &[(name, "")]);
        assert!(failure(install(&request, Some(PLUGIN))).ends_with("is no plain file name"));
    }
    assert_eq!(failure(install(&usual(home.path()), None)), "this agent carries no tuner plugin");
    assert!(names(home.path()).is_empty());

    let folder = home.path().join("f");
    must_install(&usual(&folder));
    fs::write(home.path().join("precious"), "x").unwrap();
    let text = fs::read_to_string(folder.join(MANIFEST_FILE)).unwrap();
    for evil in [text.replace(ENV_FILE, "../precious"), "{}".to_owned(), String::new()] {
        fs::write(folder.join(MANIFEST_FILE), evil).unwrap();
        assert!(failure(uninstall(folder.to_str().unwrap(), true)).contains("cannot be trusted"));
        assert!(failure(install(&usual(&folder), Some(PLUGIN))).contains("cannot be trusted"));
    }
    assert!(home.path().join("precious").exists() && folder.join(ENV_FILE).exists());
    must_install(&Installation { force: true, ..usual(&folder) });
}
