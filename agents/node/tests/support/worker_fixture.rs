//! A bare worker for tests: `--ab DIR` as the real one has, and one rule for every file that says `ring`.
use std::process::ExitCode;

use gdrtune_node::{
    engine::RuleSource,
    worker::{WorkerArgs, run},
};
use gdrtune_profiles::vocab::{Algorithm, Choice, Point, Protocol};

struct Ring;

impl RuleSource for Ring {
    fn lookup(&self, _point: Point, _nodes: u32, _ranks: u32) -> Option<Choice> {
        Some(Choice { algorithm: Algorithm::Ring, protocol: Protocol::Simple, channels: 1 })
    }
}

fn read_rules(text: &str) -> Result<Box<dyn RuleSource>, String> {
    if text.contains("ring") { Ok(Box::new(Ring)) } else { Err("no rule names ring".to_owned()) }
}

fn main() -> ExitCode {
    // A careless library: must not reach the frames.
    #[expect(clippy::print_stdout, reason = "stands for a library that prints")]
    if std::env::var_os("FIXTURE_PRINTS").is_some() {
        std::thread::spawn(|| {
            loop {
                println!("printed by a library");
                std::thread::yield_now();
            }
        });
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ab = match arguments.as_slice() {
        [option, folder] if option == "--ab" => Some(folder.into()),
        _ => None,
    };
    run(&WorkerArgs { ab, read_rules })
}
