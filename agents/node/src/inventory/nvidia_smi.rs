//! What `nvidia-smi` says about the processes on GPUs, where it sees every user's and `/proc` shows only our own; and about
//! NVLinks, which no file tells.
//!
//! Starts the program without a shell, waits for it no longer than a deadline, and leaves nothing of it. Knows nothing of
//! who counts as a user.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::ChildStdout,
    thread,
    time::{Duration, Instant},
};

use gdrtune_profiles::{grammar::smi_topo, topology::GpuPath};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal},
};

use super::device_users::printable;
use crate::agent::process::{self, Child, ChildSpec, Status};

/// The program.
const PROGRAM: &str = "nvidia-smi";

/// Longest wait for all its answers. It takes about 0.1 s with persistence mode, and about a second per GPU without.
pub(super) const LIMIT: Duration = Duration::from_secs(5);

/// Most bytes of an answer: a line has about 100, so this is for thousands of processes.
const ANSWER_BYTES: usize = 1 << 20;

/// Time that the killed program may take to go away. Longer means stuck in the driver; the agent reaps it at its end.
const KILL_PATIENCE: Duration = Duration::from_millis(500);

/// Time between two looks whether it has ended.
const END_POLL: Duration = Duration::from_millis(2);

/// What it said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// The GPUs that this process may use, numbered by PCI address.
    pub(super) gpus: Vec<Gpu>,
    /// Processes with a compute context, one entry per GPU.
    pub(super) apps: Vec<App>,
    /// The way from each GPU to each GPU, where there are several.
    pub(super) gpu_paths: Vec<Vec<Option<GpuPath>>>,
    /// What it did not tell, and why.
    pub(super) problems: Vec<String>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gpu {
    pub(super) index: u32,
    pub(super) uuid: String,
    pub(super) model: String,
}

/// A process on a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct App {
    pub(super) pid: u32,
    pub(super) gpu_uuid: String,
    /// Path or name of its executable, as the driver knows it.
    pub(super) name: String,
}

/// Asks the program in the first absolute folder of `search_path` that has it. `None` where none has.
pub(super) fn ask(search_path: Option<&OsStr>, limit: Duration) -> Option<Answer> {
    let program = find(search_path?)?;
    let environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let until = Instant::now() + limit;
    let mut answer = Answer::default();
    for query in ["--query-gpu=index,uuid,name", "--query-compute-apps=pid,gpu_uuid,process_name,used_memory"] {
        let arguments = [query.into(), "--format=csv,noheader".into()];
        let spec = ChildSpec { program: &program, arguments: &arguments, environment: &environment };
        match run(&spec, until) {
            Ok(text) if query.starts_with("--query-gpu") => answer.gpus = answer.rows(&text, gpu),
            Ok(text) => answer.apps = answer.rows(&text, app),
            Err(why) => {
                answer.problems.push(format!("{}: {why}", program.display()));
                // A program that hung once is not asked again.
                return Some(answer);
            }
        }
    }
    if answer.gpus.len() > 1 {
        let spec = ChildSpec { program: &program, arguments: &["topo".into(), "-m".into()], environment: &environment };
        match run(&spec, until).and_then(|text| gpu_paths(&text)) {
            Ok(paths) => answer.gpu_paths = paths,
            Err(why) => answer.problems.push(format!("{} topo -m: {why}", program.display())),
        }
    }
    Some(answer)
}

/// The ways between GPUs in the output of `topo -m`.
fn gpu_paths(text: &str) -> Result<Vec<Vec<Option<GpuPath>>>, String> {
    let (machine, _) = smi_topo::parse(text, "its output").map_err(|error| error.to_string())?;
    Ok(machine.gpu_paths)
}

impl Answer {
    /// The lines that `parse` takes; the others are a problem.
    fn rows<T>(&mut self, text: &str, parse: impl Fn(&str) -> Option<T>) -> Vec<T> {
        let lines = || text.lines().filter(|line| !line.trim().is_empty());
        let mut strange = lines().filter(|line| parse(line).is_none());
        if let Some(first) = strange.next() {
            let count = strange.count() + 1;
            let shown = printable(first);
            self.problems.push(format!("{PROGRAM}: {count} lines have an unexpected form, the first is `{shown}`"));
        }
        lines().filter_map(parse).collect()
    }
}

/// `0, GPU-8f1c..., NVIDIA H200`.
fn gpu(line: &str) -> Option<Gpu> {
    let (index, rest) = line.split_once(',')?;
    let (uuid, model) = rest.split_once(',')?;
    let index = index.trim().parse().ok()?;
    Some(Gpu { index, uuid: uuid.trim().to_owned(), model: model.trim().to_owned() })
}

/// `4711, GPU-8f1c..., /usr/bin/python3, 512 MiB`. The name may have commas of its own.
fn app(line: &str) -> Option<App> {
    let (pid, rest) = line.split_once(',')?;
    let (uuid, rest) = rest.split_once(',')?;
    let (name, _memory) = rest.rsplit_once(',')?;
    let pid = pid.trim().parse().ok()?;
    Some(App { pid, gpu_uuid: uuid.trim().to_owned(), name: name.trim().to_owned() })
}

/// Relative folders are left out: what lies there depends on where the agent was started.
fn find(search_path: &OsStr) -> Option<PathBuf> {
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    std::env::split_paths(search_path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(PROGRAM))
        .find(is_program)
}

/// What the program prints, if it ends well before `until`. Nothing of it is left afterwards, unless it is stuck in the
/// kernel.
fn run(spec: &ChildSpec<'_>, until: Instant) -> Result<String, String> {
    let started = Instant::now();
    let Child { pid, stdin, stdout, stderr } = process::start(spec).map_err(|error| format!("start it: {error}"))?;
    drop(stdin);
    let result = read(stdout, until).and_then(|text| match wait(pid, until) {
        Some(Status::Exit(0)) => Ok(text),
        Some(Status::Exit(code)) => Err(format!("exit code {code}: {}", first_line(&text))),
        Some(Status::Signal(signal)) => Err(format!("ended by signal {signal}")),
        None => Err(String::new()),
    });
    drop(stderr);
    process::signal_group(pid, Signal::KILL);
    wait(pid, Instant::now() + KILL_PATIENCE);
    process::reap(pid);
    // An empty cause is the deadline, wherever it was met.
    result.map_err(|why| match why.as_str() {
        "" => format!("no answer within {:.1} s; it was killed", started.elapsed().as_secs_f64()),
        _ => why,
    })
}

fn first_line(text: &str) -> String {
    printable(text.trim().lines().next().unwrap_or("it says nothing"))
}

/// Everything until the end of the stream; an empty error is the deadline.
fn read(mut stdout: ChildStdout, until: Instant) -> Result<String, String> {
    let mut bytes = vec![];
    let mut buffer = vec![0; 64 << 10];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(String::new()),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(format!("wait for its answer: {error}")),
        }
        match stdout.read(&mut buffer) {
            Ok(0) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Ok(count) if bytes.len() + count <= ANSWER_BYTES => bytes.extend_from_slice(&buffer[..count]),
            Ok(_) => return Err(format!("prints more than {ANSWER_BYTES} bytes")),
            Err(error) => return Err(format!("read its answer: {error}")),
        }
    }
}

fn wait(pid: Pid, until: Instant) -> Option<Status> {
    loop {
        let end = process::peek_end(pid);
        if end.is_some() || until <= Instant::now() {
            return end;
        }
        thread::sleep(END_POLL);
    }
}

/// Whether this is a path of the program, for [`super::device_users`].
pub(super) fn base_name(name: &str) -> &str {
    Path::new(name).file_name().and_then(OsStr::to_str).unwrap_or(name)
}

#[cfg(test)]
pub(super) mod tests {
    use std::{fs, process::Command};

    use super::*;

    /// Writes an executable script, by another process: a file that this one has open for writing cannot be run, and any
    /// test's fork keeps it open for a moment.
    pub(crate) fn script(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join(PROGRAM);
        let status = Command::new("/bin/sh")
            .args(["-c", "printf '%s' \"$1\" >\"$0\" && chmod +x \"$0\""])
            .args([path.as_os_str(), OsStr::new(text)])
            .status();
        assert!(status.unwrap().success());
        path
    }

    fn answer_of(text: &str, limit: Duration) -> Answer {
        let folder = tempfile::tempdir().unwrap();
        script(folder.path(), text);
        ask(Some(folder.path().as_os_str()), limit).unwrap()
    }

    const PATIENT: Duration = Duration::from_secs(20);

    #[test]
    fn all_questions_are_asked_and_read() {
        let answer = answer_of(
            "#!/bin/sh
case \"$1 $2\" in
'--query-gpu=index,uuid,name --format=csv,noheader') echo '0, GPU-a, NVIDIA H200'; echo '1, GPU-b, NVIDIA H200';;
'--query-compute-apps=pid,gpu_uuid,process_name,used_memory --format=csv,noheader')
  echo '7, GPU-a, /usr/bin/python3, 512 MiB'; echo '8, GPU-b, a, b, [N/A]';;
'topo -m') printf '\\tGPU0\\tGPU1\\tCPU Affinity\\nGPU0\\t X \\tNV18\\t0-7\\nGPU1\\tNV18\\t X \\t0-7\\n';;
*) exit 3;;
esac
",
            PATIENT,
        );
        assert_eq!(answer.problems, Vec::<String>::new());
        let gpu = |index, uuid: &str| Gpu { index, uuid: uuid.to_owned(), model: "NVIDIA H200".to_owned() };
        assert_eq!(answer.gpus, [gpu(0, "GPU-a"), gpu(1, "GPU-b")]);
        let app = |pid, uuid: &str, name: &str| App { pid, gpu_uuid: uuid.to_owned(), name: name.to_owned() };
        assert_eq!(answer.apps, [app(7, "GPU-a", "/usr/bin/python3"), app(8, "GPU-b", "a, b")]);
        let nv18 = Some(GpuPath::NvLinks(18));
        assert_eq!(answer.gpu_paths, [[None, nv18], [nv18, None]]);
    }

    #[test]
    fn nvlinks_that_are_not_told_leave_the_rest_as_it_is() {
        let gpus = "case \"$1\" in --query-gpu*) echo '0, GPU-a, A'; echo '1, GPU-b, A';; topo)";
        for (topo, problem) in [
            ("echo 'no such option'; exit 2", "topo -m: exit code 2: no such option"),
            ("echo 'Not supported'", "topo -m: its output:1: no table of GPUs"),
        ] {
            let answer = answer_of(&format!("#!/bin/sh\n{gpus} {topo};; esac\n"), PATIENT);
            assert_eq!((answer.gpus.len(), answer.gpu_paths.len(), answer.problems.len()), (2, 0, 1), "{answer:?}");
            assert!(answer.problems[0].contains(problem), "{answer:?}");
        }
        let one =
            answer_of("#!/bin/sh\ncase \"$1\" in --query-gpu*) echo '0, GPU-a, A';; topo) exit 1;; esac\n", PATIENT);
        assert_eq!(one.problems, Vec::<String>::new(), "one GPU has no way to another");
    }

    #[test]
    fn what_goes_wrong_is_said_once() {
        for (text, problem) in [
            (
                "#!/bin/sh\necho 'NVIDIA-SMI has failed: no driver'; exit 9\n",
                "exit code 9: NVIDIA-SMI has failed: no driver",
            ),
            ("#!/bin/sh\nkill -9 $$\n", "ended by signal 9"),
            ("#!/nowhere/sh\n", "start it: No such file or directory"),
            ("#!/bin/sh\nexec head -c 2000000 /dev/zero\n", "prints more than 1048576 bytes"),
            ("#!/bin/sh\nexit 1\n", "exit code 1: it says nothing"),
        ] {
            let answer = answer_of(text, PATIENT);
            assert_eq!((answer.problems.len(), &answer.apps), (1, &vec![]), "{answer:?}");
            assert!(answer.problems[0].contains(problem), "{answer:?}");
        }
        let garbage = answer_of("#!/bin/sh\nprintf '\\033[2Jx,y,z\\nnonsense\\n\\n'\n", PATIENT);
        let lines = "nvidia-smi: 2 lines have an unexpected form, the first is `?[2Jx,y,z`";
        assert_eq!(garbage, Answer { problems: vec![lines.to_owned(); 2], ..Answer::default() });
    }

    #[test]
    fn one_that_hangs_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let pids = folder.path().join("pids");
        // The first one closes its output, so that only its end is awaited.
        for hang in ["exec >&-; sleep 1000", "sleep 1000"] {
            let text = format!("#!/bin/sh\nsleep 1000 &\necho $$ $! >'{}'\n{hang}\n", pids.display());
            script(folder.path(), &text);
            // Long enough for the script to write the file even on a busy machine.
            let answer = ask(Some(folder.path().as_os_str()), Duration::from_secs(2)).unwrap();
            assert!(answer.problems[0].contains("no answer within 2."), "{answer:?}");
            assert_eq!(answer.problems.len(), 1, "it is not asked again");
            for pid in fs::read_to_string(&pids).unwrap().split_whitespace() {
                let is_left = || {
                    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                    // The child's zombie is init's to reap.
                    !state.is_empty() && !state.contains(") Z ")
                };
                let until = Instant::now() + PATIENT;
                while is_left() {
                    assert!(Instant::now() < until, "{pid} is left");
                    thread::sleep(END_POLL);
                }
            }
        }
    }

    #[test]
    fn it_is_looked_for_in_absolute_folders_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let search = |folders: &[&str]| find(&std::env::join_paths(folders).unwrap());
        assert_eq!(search(&["", ".", "/nowhere", path]), None);
        fs::create_dir(folder.path().join(PROGRAM)).unwrap();
        assert_eq!(search(&[path]), None, "a folder of that name");
        fs::remove_dir(folder.path().join(PROGRAM)).unwrap();
        fs::write(folder.path().join(PROGRAM), "").unwrap();
        assert_eq!(search(&[path]), None, "not executable");
        let program = script(folder.path(), "");
        assert_eq!(search(&["", "relative", path]), Some(program));
        assert_eq!(ask(None, PATIENT), None);
        assert_eq!(ask(Some(OsStr::new("/nowhere")), PATIENT), None);
    }
}
