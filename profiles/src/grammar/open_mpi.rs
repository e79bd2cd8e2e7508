//! The two files that Open MPI's `mpirun` takes variables from: a tune file (`--tune`) and an application file (`--app`).
//!
//! Sources, both also tried with Open MPI 4.1.4: `orte/orted/orted_submit.c` (`parse_appfile`: `#` and `//` cut the line wherever
//! they stand, what is left is split at blanks, nothing is quoted); `opal/util/keyval_parse.c` and `mca_base_env_list` (a tune
//! file's `-x` variables are joined with `;`, so that a value with one ends there and takes the rest of the list with it); and of
//! 5, PRRTE's `src/mca/schizo/ompi/schizo_ompi.c` (`process_tune_files`: lines of 2047 bytes, quotes around a word are removed).
//! What the releases read differently is refused.

use super::is_variable_name;
use crate::vocab::Environment;

/// `fgets` into `char input[2048]` in PRRTE's `prte_schizo_base_getline`.
const LONGEST_TUNE_LINE: usize = 2047;
/// `fgets` into `char line[BUFSIZ]` in `parse_appfile`; glibc's `BUFSIZ` is 8192.
const LONGEST_APP_LINE: usize = 8191;

/// A line that `mpirun` would not read as it is meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct MpirunError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub cause: MpirunCause,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MpirunCause {
    /// Not `-x NAME=value`.
    #[error("`{0}` is not read here: write -x NAME=value")]
    OtherWord(String),
    /// A value that is cut, split or changed.
    #[error("the value of {name} {cause}")]
    Misread {
        /// The variable.
        name: String,
        /// How.
        cause: &'static str,
    },
    /// Set twice.
    #[error("{0} is set twice")]
    Repeated(String),
    /// A line that is split.
    #[error("the line is longer than {0} bytes")]
    TooLong(usize),
    /// No program.
    #[error("the line names no program")]
    NoProgram,
    /// No count.
    #[error("`{0}` is no number of processes")]
    Count(String),
}

/// Why a tune file cannot hold `value`; fits after "the value".
pub(crate) fn tune_refuses(value: &str) -> Option<&'static str> {
    if value.contains(';') {
        return Some("has a semicolon, which ends it in a tune file; an application file holds it");
    }
    if value.starts_with(['"', '\'']) || value.ends_with(['"', '\'']) {
        return Some("begins or ends with a quote: Open MPI 5 removes it, 4 keeps it");
    }
    no_word(value)
}

/// Why an application file cannot hold `value`; fits after "the value".
pub(crate) fn app_refuses(value: &str) -> Option<&'static str> {
    if value.contains('#') || value.contains("//") {
        return Some("has # or //, where mpirun cuts the line");
    }
    no_word(value)
}

fn no_word(value: &str) -> Option<&'static str> {
    if value.is_empty() {
        return Some("is empty, which mpirun does not hand on");
    }
    value
        .contains(|c: char| c.is_whitespace() || c.is_control())
        .then_some("has a blank, where mpirun splits the line: nothing is quoted there")
}

/// Reads a tune file of `-x` lines.
///
/// # Errors
/// [`MpirunError`] names the first line that sets no variable, or one that some release misreads.
pub fn parse_tune(text: &str) -> Result<Environment, MpirunError> {
    let mut environment = Environment::new();
    for (idx, line) in text.lines().enumerate() {
        let error = |cause| MpirunError { line: idx + 1, cause };
        if LONGEST_TUNE_LINE < line.len() {
            return Err(error(MpirunCause::TooLong(LONGEST_TUNE_LINE)));
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        // One option a line: only that survives both readers' ideas of what a comment is.
        let Some(assignment) = line.strip_prefix("-x ") else {
            return Err(error(MpirunCause::OtherWord(line.escape_debug().to_string())));
        };
        environment = with_variable(environment, assignment, tune_refuses).map_err(error)?;
    }
    Ok(environment)
}

/// One line of an application file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct App {
    /// How many processes run it.
    pub processes: u32,
    /// What they find set.
    pub environment: Environment,
    /// The program and its arguments.
    pub command: Vec<String>,
}

/// Reads an application file of lines `-np N [-x NAME=value]... PROGRAM [ARGUMENT]...`.
///
/// # Errors
/// [`MpirunError`] names the first line that is anything else.
pub fn parse_app(text: &str) -> Result<Vec<App>, MpirunError> {
    let mut apps = Vec::new();
    for (idx, line) in text.lines().enumerate() {
        let error = |cause| MpirunError { line: idx + 1, cause };
        if LONGEST_APP_LINE < line.len() {
            return Err(error(MpirunCause::TooLong(LONGEST_APP_LINE)));
        }
        let end = [line.find('#'), line.find("//")].into_iter().flatten().min().unwrap_or(line.len());
        let mut words = line[..end].split(' ').filter(|word| !word.is_empty());
        let Some(first) = words.next() else { continue };
        if first != "-np" {
            return Err(error(MpirunCause::OtherWord(first.escape_debug().to_string())));
        }
        let count = words.next().unwrap_or_default();
        let no_count = || error(MpirunCause::Count(count.escape_debug().to_string()));
        let processes = count.parse().ok().ok_or_else(no_count)?;
        let mut app = App { processes, environment: Environment::new(), command: Vec::new() };
        let mut next = words.next();
        while next == Some("-x") {
            let assignment = words.next().unwrap_or_default();
            app.environment = with_variable(app.environment, assignment, app_refuses).map_err(error)?;
            next = words.next();
        }
        app.command = next.into_iter().chain(words).map(str::to_owned).collect();
        if app.command.is_empty() {
            return Err(error(MpirunCause::NoProgram));
        }
        apps.push(app);
    }
    Ok(apps)
}

fn with_variable(
    environment: Environment,
    assignment: &str,
    refuses: fn(&str) -> Option<&'static str>,
) -> Result<Environment, MpirunCause> {
    let (name, value) = assignment.split_once('=').unwrap_or((assignment, ""));
    if !is_variable_name(name) {
        return Err(MpirunCause::OtherWord(assignment.escape_debug().to_string()));
    }
    if let Some(cause) = refuses(value) {
        return Err(MpirunCause::Misread { name: name.to_owned(), cause });
    }
    if environment.get(name).is_some() {
        return Err(MpirunCause::Repeated(name.to_owned()));
    }
    Ok(environment.with(name, value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tune_files_are_read_line_by_line() {
        let text = "# c\n\n-x NCCL_A==mlx5_0:1,mlx5_1:1\n-x NCCL_B=^docker\n-x NCCL_C=a#b//c\n";
        assert_eq!(parse_tune(text).unwrap().to_string(), "NCCL_A==mlx5_0:1,mlx5_1:1 NCCL_B=^docker NCCL_C=a#b//c");
        for (text, message) in [
            ("\nexport A=1", "line 2: `export A=1` is not read here: write -x NAME=value"),
            ("-x 1A=1", "line 1: `1A=1` is not read here: write -x NAME=value"),
            ("-x A", "line 1: the value of A is empty, which mpirun does not hand on"),
            (
                "-x A=a;b",
                "line 1: the value of A has a semicolon, which ends it in a tune file; an application file holds it",
            ),
            ("-x A=a b", "line 1: the value of A has a blank, where mpirun splits the line: nothing is quoted there"),
            ("-x A='a'", "line 1: the value of A begins or ends with a quote: Open MPI 5 removes it, 4 keeps it"),
            ("-x A=1\n-x A=1", "line 2: A is set twice"),
        ] {
            assert_eq!(parse_tune(text).unwrap_err().to_string(), message, "{text}");
        }
        assert!(parse_tune(&format!("-x A={}", "x".repeat(2043))).is_err(), "a line is 2047 bytes at most");
    }

    #[test]
    fn application_files_are_split_at_blanks_and_cut_at_comments() {
        let text = "# c\n-np 4  -x A=p;q -x B=\"x\" python3 train.py # --more\n-np 1 env // all\n";
        let apps = parse_app(text).unwrap();
        assert_eq!((apps[0].processes, apps[0].environment.to_string()), (4, "A=p;q B=\"x\"".into()));
        assert_eq!(apps[0].command, ["python3", "train.py"]);
        assert_eq!((apps[1].processes, apps[1].command.as_slice()), (1, &["env".to_owned()][..]));
        for (text, message) in [
            ("env", "line 1: `env` is not read here: write -x NAME=value"),
            ("\n-np x env", "line 2: `x` is no number of processes"),
            ("-np 1 -x A=1", "line 1: the line names no program"),
            ("-np 1 -x A=1#2 env", "line 1: the line names no program"),
            ("-np 1 -x A= env", "line 1: the value of A is empty, which mpirun does not hand on"),
            ("-np 1 -x A=1 -x A=2 env", "line 1: A is set twice"),
        ] {
            assert_eq!(parse_app(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_not_refused_is_read_back(value in "\\PC{0,20}|[a-z=,:^;#/'\" ]{0,12}") {
            if tune_refuses(&value).is_none() {
                let environment = parse_tune(&format!("# c\n-x A={value}\n-x B=1\n")).unwrap();
                prop_assert_eq!((environment.get("A"), environment.get("B")), (Some(value.as_str()), Some("1")));
            }
            if app_refuses(&value).is_none() {
                let apps = parse_app(&format!("# c\n-np 2 -x A={value} env\n")).unwrap();
                prop_assert_eq!(apps[0].environment.get("A"), Some(value.as_str()));
                prop_assert_eq!(&apps[0].command, &["env"]);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(?s).{0,80}|(-np |-x |A=|[1 #/;\na]){0,16}") {
            drop(parse_tune(&text));
            drop(parse_app(&text));
        }
    }
}
