//! A bare worker for tests, with `--ab DIR` as the real one has.
use std::process::ExitCode;

use gdrtune_node::worker::{WorkerArgs, run};

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
    run(&WorkerArgs { ab })
}
