//! The hosts of a Slurm allocation, as its environment names them (`salloc(1)`, OUTPUT ENVIRONMENT VARIABLES).

use super::{HostError, HostList, Place, parse::parse_list, parse::parse_slots};

const NODE_LIST: &str = "SLURM_JOB_NODELIST";
const TASKS: &str = "SLURM_TASKS_PER_NODE";
/// Set only where the user said how many tasks there are. Without, `SLURM_TASKS_PER_NODE` is a guess of Slurm's, such as
/// the number of cores.
const ASKED: [&str; 2] = ["SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"];

/// A Slurm allocation that this process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Its job's number.
    pub job: String,
    /// Its hosts in Slurm's order, with the tasks per node that were asked for, if any were.
    pub hosts: HostList,
}

impl Allocation {
    /// Reads the variables of an allocation, where there is one. `get` gives a variable that is set.
    ///
    /// # Errors
    /// [`HostError`] where they are not as Slurm writes them, with the variable as the source.
    pub fn from_environment(get: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, HostError> {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let (Some(job), Some(nodes)) = (get("SLURM_JOB_ID"), get(NODE_LIST)) else { return Ok(None) };
        let mut hosts = parse_list(&format!("${NODE_LIST}"), &nodes)?;
        let tasks = get(TASKS).filter(|_| ASKED.iter().any(|name| get(name).is_some()));
        if let Some(tasks) = tasks {
            let counts = parse_tasks(&tasks, hosts.hosts.len())?;
            for (host, count) in hosts.hosts.iter_mut().zip(counts) {
                host.slots = Some(count);
            }
        }
        Ok(Some(Self { job, hosts }))
    }
}

/// Reads `4(x2),3`: 4, 4 and 3.
fn parse_tasks(text: &str, nodes: usize) -> Result<Vec<u32>, HostError> {
    let wrong = |offset: usize, problem: String, expected: String| HostError {
        place: Place { source: format!("${TASKS}"), line: 1, column: offset + 1 },
        problem,
        expected,
    };
    let mut counts = Vec::new();
    let mut offset = 0;
    for item in text.split(',') {
        let (number, times) = match item.split_once("(x") {
            None => (item, Some(1)),
            Some((number, times)) => (number, times.strip_suffix(')').and_then(|times| times.parse::<usize>().ok())),
        };
        let times = times.filter(|times| (1..=nodes - counts.len()).contains(times)).ok_or_else(|| {
            wrong(offset, format!("{item:?} as tasks per node"), format!("counts such as 4(x2),3 for {nodes} nodes"))
        })?;
        let count = parse_slots(number, offset).map_err(|fault| wrong(fault.offset, fault.problem, fault.expected))?;
        counts.extend(std::iter::repeat_n(count, times));
        offset += item.chars().count() + 1;
    }
    if counts.len() < nodes {
        let expected = format!("counts such as 4(x2),3 for {nodes} nodes");
        return Err(wrong(0, format!("{text:?} for {} nodes", counts.len()), expected));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Allocation>, HostError> {
        Allocation::from_environment(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn hosts_and_tasks_are_read() {
        let job = ("SLURM_JOB_ID", "7");
        for (variables, expected) in [
            // What salloc of Slurm 22.05 sets for -N3, for -N3 --ntasks-per-node=2, and for -N3 -n6.
            (vec![(NODE_LIST, "vh[1-3]"), (TASKS, "1(x3)")], "vh1 vh2 vh3"),
            (
                vec![(NODE_LIST, "vh[1-3]"), (TASKS, "2(x3)"), ("SLURM_NTASKS_PER_NODE", "2"), ("SLURM_NTASKS", "6")],
                "vh1:2 vh2:2 vh3:2",
            ),
            (vec![(NODE_LIST, "vh[1-3]"), (TASKS, "4,1(x2)"), ("SLURM_NTASKS", "6")], "vh1:4 vh2:1 vh3:1"),
            (vec![(NODE_LIST, "a[01,03],b7"), (TASKS, "4(x2),3"), ("SLURM_NTASKS", "11")], "a01:4 a03:4 b7:3"),
            (vec![(NODE_LIST, "a"), ("SLURM_NTASKS", "2")], "a"),
        ] {
            let variables = [vec![job], variables].concat();
            let Allocation { job, hosts } = read(&variables).unwrap().unwrap();
            let hosts = hosts
                .hosts
                .iter()
                .map(|host| host.slots.map_or(host.name.clone(), |slots| format!("{}:{slots}", host.name)));
            assert_eq!((job.as_str(), hosts.collect::<Vec<_>>().join(" ").as_str()), ("7", expected));
        }
    }

    #[test]
    fn without_a_job_there_is_no_allocation() {
        for variables in
            [&[][..], &[("SLURM_JOB_ID", "7")], &[(NODE_LIST, "a")], &[("SLURM_JOB_ID", ""), (NODE_LIST, "a")]]
        {
            assert_eq!(read(variables), Ok(None), "{variables:?}");
        }
    }

    #[test]
    fn what_slurm_does_not_write_is_refused() {
        for (nodes, tasks, expected) in [
            ("a[1-", "1", "$SLURM_JOB_NODELIST:1:2: '[' is never closed"),
            ("a[1-2]", "x", "$SLURM_TASKS_PER_NODE:1:1: \"x\" as slots"),
            (
                "a[1-2]",
                "1",
                "$SLURM_TASKS_PER_NODE:1:1: \"1\" for 1 nodes; expected counts such as 4(x2),3 for 2 nodes",
            ),
            ("a[1-2]", "1(x3)", "$SLURM_TASKS_PER_NODE:1:1: \"1(x3)\" as tasks per node"),
            ("a[1-2]", "1,2,3", "$SLURM_TASKS_PER_NODE:1:5: \"3\" as tasks per node"),
            ("a[1-2]", "1,0", "$SLURM_TASKS_PER_NODE:1:3: \"0\" as slots"),
            ("a[1-2]", "1(x99999999999999999999)", "$SLURM_TASKS_PER_NODE:1:1:"),
        ] {
            let error = read(&[("SLURM_JOB_ID", "7"), (NODE_LIST, nodes), (TASKS, tasks), ("SLURM_NTASKS", "2")]);
            let error = error.unwrap_err().to_string();
            assert!(error.starts_with(&format!("read hosts: {expected}")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn tasks_read_back_as_slurm_writes_them(counts in prop::collection::vec((1_u32..300, 1_usize..40), 1..20)) {
            let text: Vec<String> = counts.iter().map(|&(count, times)| {
                if times == 1 { count.to_string() } else { format!("{count}(x{times})") }
            }).collect();
            let all: Vec<u32> = counts.iter().flat_map(|&(count, times)| std::iter::repeat_n(count, times)).collect();
            prop_assert_eq!(parse_tasks(&text.join(","), all.len()).unwrap(), all);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9(x),]{0,30}|.{0,30}", nodes in 1_usize..9) {
            if let Ok(counts) = parse_tasks(&text, nodes) {
                prop_assert_eq!(counts.len(), nodes);
            }
        }
    }
}
