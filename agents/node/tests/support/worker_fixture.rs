//! A bare worker for tests, with `--ab DIR` as the real one has.
use std::process::ExitCode;

use gdrtune_node::worker::{WorkerArgs, run};

fn main() -> ExitCode {
    // A careless library: must not reach the frames.
    #[expect(clippy::print_stdout, reason = "stands for a library that prints")]
    if std::env::var_os("FIXTURE_PRINTS").is_some() {
        std::thread::spawn(|| {
            // What is printed before the worker takes over is nobody's mistake but this program's.
            let target = |descriptor: u32| std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok();
            while target(1) != target(2) {
                std::thread::yield_now();
            }
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
