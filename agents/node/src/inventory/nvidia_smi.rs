//! What `nvidia-smi` says about the processes on GPUs, where it sees every user's and `/proc` shows only our own; and about
//! NVLinks, clocks and modes, which no file tells. Knows nothing of who counts as a user.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::Path,
    time::{Duration, Instant},
};

use gdrtune_profiles::{
    grammar::{smi_log, smi_topo},
    topology::GpuPath,
};

use super::{device_users::printable, program};
use crate::agent::process::ChildSpec;

/// The program.
const PROGRAM: &str = "nvidia-smi";

/// Stands for a value that a GPU does not tell.
const NOT_TOLD: &str = "[N/A]";

/// Longest wait for all its answers. It takes about 0.1 s with persistence mode, and about a second per GPU without.
pub(super) const LIMIT: Duration = Duration::from_secs(5);

/// Columns of the GPUs; the first that this version knows. Drivers before 510 have no `compute_cap`.
const GPU_COLUMNS: [&str; 2] = ["index,uuid,compute_cap,name", "index,uuid,name"];

/// What it said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// The GPUs that this process may use, numbered by PCI address.
    pub(super) gpus: Vec<Gpu>,
    /// Processes with a compute context, one entry per GPU.
    pub(super) apps: Vec<App>,
    /// The way from each GPU to each GPU, where there are several.
    pub(super) gpu_paths: Vec<Vec<Option<GpuPath>>>,
    /// What it says of driver and GPUs in its log.
    pub(super) log: Option<smi_log::SmiLog>,
    /// Whether it told of processes.
    pub(super) tells_apps: bool,
    /// What it did not tell, and why.
    pub(super) problems: Vec<String>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gpu {
    pub(super) index: u32,
    pub(super) uuid: String,
    pub(super) model: String,
    /// CUDA compute capability, where it tells.
    pub(super) capability: Option<(u8, u8)>,
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
    let program = program::find(PROGRAM, search_path?)?;
    let environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let asker = Asker { program: &program, environment: &environment, until: Instant::now() + limit };
    let mut answer = Answer::default();
    if let Err(why) = asker.gpus_and_apps(&mut answer) {
        answer.problems.push(format!("{}: {why}", program.display()));
        return Some(answer);
    }
    answer.tells_apps = answer.problems.is_empty();
    if answer.gpus.len() > 1 {
        match asker.run(&["topo", "-m"]).and_then(|text| gpu_paths(&text)) {
            Ok(paths) => answer.gpu_paths = paths,
            Err(why) => answer.problems.push(format!("{} topo -m: {why}", program.display())),
        }
    }
    if !answer.gpus.is_empty() {
        let log = |text: String| smi_log::parse(&text, "its output").map_err(|error| error.to_string());
        match asker.run(&["-q", "-x"]).and_then(log) {
            Ok(log) => answer.log = Some(log),
            Err(why) => answer.problems.push(format!("{} -q -x: {why}", program.display())),
        }
    }
    Some(answer)
}

/// What `nvidia-smi -q -x` prints, where there is one that answers.
pub(super) fn log() -> Option<String> {
    let program = program::find(PROGRAM, std::env::var_os("PATH").as_deref()?)?;
    let environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    Asker { program: &program, environment: &environment, until: Instant::now() + LIMIT }.run(&["-q", "-x"]).ok()
}

/// Who asks the program, and until when.
struct Asker<'a> {
    program: &'a Path,
    environment: &'a BTreeMap<OsString, OsString>,
    until: Instant,
}

impl Asker<'_> {
    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let spec = ChildSpec { program: self.program, arguments: &arguments, environment: self.environment };
        program::run(&spec, self.until)
    }

    fn csv(&self, query: &str) -> Result<String, String> {
        self.run(&[query, "--format=csv,noheader"])
    }

    fn gpus_and_apps(&self, answer: &mut Answer) -> Result<(), String> {
        let [new, old] = GPU_COLUMNS.map(|columns| format!("--query-gpu={columns}"));
        // Some versions refuse an unknown column with code 0 and nothing on standard output.
        let text = match self.csv(&new) {
            Ok(text) if !text.trim().is_empty() => text,
            // One that hung is not asked again.
            Err(why) if self.until <= Instant::now() => return Err(why),
            first => match self.csv(&old) {
                Ok(text) => text,
                Err(why) => return Err(first.err().unwrap_or(why)),
            },
        };
        answer.gpus = answer.rows(&text, gpu);
        let apps = self.csv("--query-compute-apps=pid,gpu_uuid,process_name,used_memory")?;
        answer.apps = answer.rows(&apps, app);
        Ok(())
    }
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

/// `0, GPU-8f1c..., 9.0, NVIDIA H200`, or without the capability. The model may have commas of its own.
fn gpu(line: &str) -> Option<Gpu> {
    let (index, rest) = line.split_once(',')?;
    let (uuid, rest) = rest.split_once(',')?;
    let index = index.trim().parse().ok()?;
    let (capability, model) = match rest.split_once(',') {
        Some((word, model)) if word.trim() == NOT_TOLD => (None, model),
        Some((word, model)) => capability(word.trim()).map_or((None, rest), |found| (Some(found), model)),
        None => (None, rest),
    };
    Some(Gpu { index, uuid: uuid.trim().to_owned(), model: model.trim().to_owned(), capability })
}

/// `9.0`.
fn capability(word: &str) -> Option<(u8, u8)> {
    let (major, minor) = word.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// `4711, GPU-8f1c..., /usr/bin/python3, 512 MiB`. The name may have commas of its own.
fn app(line: &str) -> Option<App> {
    let (pid, rest) = line.split_once(',')?;
    let (uuid, rest) = rest.split_once(',')?;
    let (name, _memory) = rest.rsplit_once(',')?;
    let pid = pid.trim().parse().ok()?;
    Some(App { pid, gpu_uuid: uuid.trim().to_owned(), name: name.trim().to_owned() })
}

/// Whether this is a path of the program, for [`super::device_users`].
pub(super) fn base_name(name: &str) -> &str {
    Path::new(name).file_name().and_then(OsStr::to_str).unwrap_or(name)
}

#[cfg(test)]
pub(super) mod tests {
    use std::{fs, path::PathBuf, process::Command, thread};

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
'--query-gpu=index,uuid,compute_cap,name --format=csv,noheader')
  echo '0, GPU-a, 9.0, NVIDIA H200'; echo '1, GPU-b, [N/A], NVIDIA H200';;
'--query-compute-apps=pid,gpu_uuid,process_name,used_memory --format=csv,noheader')
  echo '7, GPU-a, /usr/bin/python3, 512 MiB'; echo '8, GPU-b, a, b, [N/A]';;
'topo -m') printf '\\tGPU0\\tGPU1\\tCPU Affinity\\nGPU0\\t X \\tNV18\\t0-7\\nGPU1\\tNV18\\t X \\t0-7\\n';;
'-q -x') printf '<nvidia_smi_log>\\n<cuda_version>12.4</cuda_version>\\n</nvidia_smi_log>\\n';;
*) exit 3;;
esac
",
            PATIENT,
        );
        assert_eq!(answer.problems, Vec::<String>::new());
        let gpu = |index, uuid: &str, capability| {
            let model = "NVIDIA H200".to_owned();
            Gpu { index, uuid: uuid.to_owned(), model, capability }
        };
        assert_eq!(answer.gpus, [gpu(0, "GPU-a", Some((9, 0))), gpu(1, "GPU-b", None)]);
        let app = |pid, uuid: &str, name: &str| App { pid, gpu_uuid: uuid.to_owned(), name: name.to_owned() };
        assert_eq!(answer.apps, [app(7, "GPU-a", "/usr/bin/python3"), app(8, "GPU-b", "a, b")]);
        let nv18 = Some(GpuPath::NvLinks(18));
        assert_eq!(answer.gpu_paths, [[None, nv18], [nv18, None]]);
        assert_eq!((answer.log.unwrap().cuda.as_str(), answer.tells_apps), ("12.4", true));
    }

    /// Drivers before 510, which either fail or say nothing; and a log that none of them has.
    #[test]
    fn an_old_driver_is_asked_for_what_it_knows() {
        for refusal in ["exit 2", "exit 0"] {
            let text = format!(
                "#!/bin/sh\ncase \"$1\" in *compute_cap*) echo 'Field \"compute_cap\" is not a valid field' >&2; {refusal};;\n\
                 --query-gpu=*) echo '0, GPU-a, A, B';; -q) echo unknown; exit 1;; esac\n"
            );
            let answer = answer_of(&text, PATIENT);
            let gpu = Gpu { index: 0, uuid: "GPU-a".to_owned(), model: "A, B".to_owned(), capability: None };
            assert_eq!((answer.gpus.as_slice(), answer.tells_apps, answer.log), (&[gpu][..], true, None));
            assert!(answer.problems[0].contains("-q -x: exit code 1: unknown"), "{:?}", answer.problems);
        }
    }

    #[test]
    fn nvlinks_that_are_not_told_leave_the_rest_as_it_is() {
        let log = "-q) printf '<nvidia_smi_log>\\n</nvidia_smi_log>\\n';;";
        let gpus = format!("case \"$1\" in {log} --query-gpu*) echo '0, GPU-a, A'; echo '1, GPU-b, A';; topo)");
        for (topo, problem) in [
            ("echo 'no such option'; exit 2", "topo -m: exit code 2: no such option"),
            ("echo 'Not supported'", "topo -m: its output:1: no table of GPUs"),
        ] {
            let answer = answer_of(&format!("#!/bin/sh\n{gpus} {topo};; esac\n"), PATIENT);
            assert_eq!((answer.gpus.len(), answer.gpu_paths.len(), answer.problems.len()), (2, 0, 1), "{answer:?}");
            assert!(answer.problems[0].contains(problem), "{answer:?}");
        }
        let one = format!("#!/bin/sh\ncase \"$1\" in {log} --query-gpu*) echo '0, GPU-a, A';; topo) exit 1;; esac\n");
        let one = answer_of(&one, PATIENT);
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
            ("#!/bin/sh\nexec head -c 5000000 /dev/zero\n", "prints more than 4194304 bytes"),
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
                    thread::sleep(Duration::from_millis(2));
                }
            }
        }
    }

    #[test]
    fn it_is_looked_for_in_absolute_folders_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let search = |folders: &[&str]| program::find(PROGRAM, &std::env::join_paths(folders).unwrap());
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
