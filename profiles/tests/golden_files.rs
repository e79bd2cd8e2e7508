//! Every format's exact text for two example profiles. `UPDATE_GOLDEN=1` writes them anew; review the difference.

#![expect(clippy::unwrap_used, reason = "a test's helper fails the test")]

use std::{env, fs, path::PathBuf};

use gdrtune_profiles::{
    emit::{EmitOptions, Format, emit},
    profile::Profile,
    vocab::Engine,
};

fn golden(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", name].iter().collect()
}

fn profile(name: &str) -> Profile {
    Profile::parse(&fs::read_to_string(golden(name)).unwrap(), name).unwrap().0
}

fn check(name: &str, text: &str) {
    let path = golden(name);
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, text).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, stored, "{name} differs: run the test with UPDATE_GOLDEN=1 and review the change");
}

#[test]
fn a_measured_profile() {
    let options = EmitOptions { tuner_path: Some("/opt/gdrtune/nccl-tuner.csv".into()), ..EmitOptions::plain() };
    let profile = profile("nccl.toml");
    for format in Format::ALL {
        check(&format!("nccl.{}", format.file_name()), &emit(&profile, *format, &options).unwrap());
    }
    let keep_set = EmitOptions { keep_set: true, ..options };
    check("nccl.keep-set.profile.sh", &emit(&profile, Format::Sh, &keep_set).unwrap());
}

#[test]
fn a_profile_of_the_native_engine() {
    let profile = profile("native.toml");
    let for_native = EmitOptions { for_engine: Some(Engine::Native), ..EmitOptions::plain() };
    for format in Format::ALL {
        let file = format.file_name();
        check(&format!("native.{file}"), &emit(&profile, *format, &EmitOptions::plain()).unwrap());
        check(&format!("native.for-native.{file}"), &emit(&profile, *format, &for_native).unwrap());
    }
}
