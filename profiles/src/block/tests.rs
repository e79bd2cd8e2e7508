use proptest::prelude::*;

use super::*;
use crate::lint::Kind;

const TEXT: &str = "# about\n\nexport NCCL_IB_HCA='=mlx5_0:1'\n";

/// Kinds of scripts as sites have them: `|` marks where the block belongs.
const SCRIPTS: &[(Place, &str)] = &[
    (Place::Batch, "#!/bin/bash\n#SBATCH -N 4\n#SBATCH --ntasks-per-node=8\n|\nmodule load nccl\nsrun ./train\n"),
    (Place::Batch, "#!/bin/bash\n# of the lab\n\n#SBATCH -N 4\n|# says what it does\nsrun ./train\n#SBATCH -n 1\n"),
    (Place::Batch, "#!/bin/bash -l\n#SBATCH -N 2\n|srun ./train <<EOF\nGET /\r\nEOF\n"),
    (Place::Batch, "#!/bin/sh\n#SBATCH -N 1\n|##SBATCH -n 3\nset -eu\n\n# no line break at the end\nsrun ./train"),
    (Place::Batch, "#!/bin/bash\n\t# tabs\n#SBATCH\t-N 1\n|\tsrun\ta\n"),
    (Place::Shell, "#!/bin/sh\n|echo hi\n"),
    (Place::Shell, "#!/bin/sh\n# licence\n# more of it\n|\n# about echo\necho hi\n"),
    (Place::Shell, "#!/bin/sh\n|# about echo\necho hi\n"),
    (Place::Shell, "|export PATH=/opt/bin:$PATH\n"),
    (Place::Shell, "|\n\nexport A=1\n"),
    (Place::Shell, "\u{feff}#!/bin/bash\n|cat <<EOF\n# gdrtune: begin\nEOF\n"),
    (Place::Shell, "|"),
    (Place::Shell, "#!/bin/bash|"),
    (Place::Shell, "#!/bin/bash\n#PBS -l nodes=2\n#BSUB -n 2\n|mpirun ./x\n"),
    (Place::NcclConf, "# site's\n# own\n|\nNCCL_DEBUG=WARN\n"),
    (Place::NcclConf, "|NCCL_DEBUG=WARN"),
    (Place::Env, "A=1\nB=2\n|"),
    (Place::Env, "A=1\nB=2|"),
    (Place::NcclConf, "# site's\r\n|\r\nNCCL_DEBUG=WARN\r\n"),
    (Place::Env, "A=1\r\nB=2\r\n|"),
    (Place::Dockerfile, "FROM a\r\n|RUN x\r\n"),
    (Place::Dockerfile, "# syntax=docker/dockerfile:1\nFROM a AS b\nRUN x\n\nFROM \\\n  c\n|ENV Z=1\nRUN y"),
    (
        Place::Dockerfile,
        "FROM a\n|RUN <<EOF cat <<-'X'\nFROM no\nEOF\nFROM no\nX\nRUN echo \\\n  # FROM comment\n  FROM no\nCMD [\"x\"]\n",
    ),
    (Place::Dockerfile, "ARG V=1\nfrom a:${V}|"),
];

fn put_in(bytes: &[u8], place: Place) -> Vec<u8> {
    apply(bytes, place, TEXT, "f").unwrap()
}

#[test]
fn a_block_goes_where_it_belongs_and_out_again() {
    assert!(20 <= SCRIPTS.len());
    for (place, marked) in SCRIPTS {
        let (before, after) = marked.split_once('|').unwrap();
        let script = format!("{before}{after}");
        let with = put_in(script.as_bytes(), *place);
        let found = find(&with, "f").unwrap().unwrap();
        assert!(with.starts_with(before.as_bytes()), "{script:?}");
        assert!(with.ends_with(after.as_bytes()), "{script:?}");
        // An unended last line gets a line break before the block.
        let gap = found.bytes.start - before.len();
        assert!(gap == 0 || before.len() + gap == found.bytes.start && after.is_empty(), "{script:?}");
        assert_eq!(state(*place, Some(&found), TEXT), State::Current, "{script:?}");
        assert_eq!(put_in(&with, *place), with, "a second time changes nothing: {script:?}");
        assert_eq!(remove(&with, &found), script.as_bytes(), "{script:?}");
        let is_crlf = before.contains("\r\n") && place.takes_crlf();
        let lines_of_block = String::from_utf8(with[found.bytes.clone()].to_vec()).unwrap();
        assert_eq!(lines_of_block.contains("\r\n"), is_crlf, "{script:?}");
        assert_eq!(
            lines_of_block.matches('\n').count() - lines_of_block.matches("\r\n").count() > 0,
            !is_crlf || !script.ends_with('\n')
        );
    }
}

#[test]
fn an_update_changes_the_block_alone() {
    for (place, marked) in SCRIPTS {
        let script = marked.replace('|', "");
        let with = put_in(script.as_bytes(), *place);
        let other = apply(&with, *place, "export NCCL_NET='IB'\n", "f").unwrap();
        let found = find(&other, "f").unwrap().unwrap();
        assert_eq!(state(*place, Some(&found), TEXT), State::Stale);
        assert_eq!(state(*place, Some(&found), "export NCCL_NET='IB'\n"), State::Current);
        assert_eq!(remove(&other, &found), script.as_bytes(), "{script:?}");
    }
}

#[test]
fn edits_by_hand_are_seen() {
    let with = String::from_utf8(put_in(b"#!/bin/sh\n", Place::Shell)).unwrap();
    let of_place = |place, text: &str| state(place, find(text.as_bytes(), "f").unwrap().as_ref(), TEXT);
    let of = |text: &str| of_place(Place::Shell, text);
    assert_eq!(of("#!/bin/sh\n"), State::Missing);
    assert_eq!(of(&with), State::Current);
    assert_eq!(of(&with.replace("mlx5_0:1", "mlx5_1:1")), State::Edited);
    assert_eq!(of(&with.replace("# about\n", "# about \n")), State::Edited);
    let crlf = with.replace('\n', "\r\n");
    assert_eq!(of_place(Place::Env, &crlf), State::Current, "an editor's line breaks are no edit");
    assert_eq!(of_place(Place::NcclConf, &crlf), State::Stale, "NCCL before 2.30 takes them as part of the value");
    let mended = apply(crlf.as_bytes(), Place::NcclConf, TEXT, "f").unwrap();
    assert_eq!(of_place(Place::NcclConf, &String::from_utf8(mended).unwrap()), State::Current);
    assert_eq!(of(&format!("echo\n{with}")), State::Current, "lines may move");
}

#[test]
fn marks_that_do_not_pair_are_errors_with_their_line() {
    let with = String::from_utf8(put_in(b"", Place::Shell)).unwrap();
    let (begin, end) = (with.lines().next().unwrap(), END);
    for (text, message) in [
        (
            format!("x\n{begin}\n"),
            "f:2: the managed block that begins here has no end mark (`# gdrtune: end of managed block`)",
        ),
        (
            format!("{begin}\n{begin}\n{end}\n"),
            "f:2: a managed block begins within that of line 1: an end mark is missing, or the marks are nested",
        ),
        (
            format!("{with}{with}"),
            "f:6: a second managed block begins here, after that of line 1: take one of them out by hand",
        ),
        (format!("x\n\n{end}\n"), "f:3: a managed block ends here that never began"),
        ("a\nb\0\n".to_owned(), "f:2: a NUL byte: the file is no text in an encoding with ASCII in it (UTF-16?)"),
    ] {
        assert_eq!(find(text.as_bytes(), "f").unwrap_err().to_string(), message);
        assert_eq!(apply(text.as_bytes(), Place::Shell, TEXT, "f").unwrap_err().to_string(), message);
    }
    let no_place = |text: &str| apply(text.as_bytes(), Place::Dockerfile, TEXT, "f").unwrap_err().to_string();
    assert_eq!(no_place("RUN x\n"), "f:1: there is no FROM, and ENV comes after one");
    assert!(
        no_place("# syntax=x\n# escape=`\nFROM a\n").starts_with("f:2: the Dockerfile has another escape character")
    );
}

#[test]
fn a_script_with_carriage_returns_is_refused_at_its_line() {
    let refusal = |script: &str| apply(script.as_bytes(), Place::Shell, TEXT, "f").map_err(|error| error.to_string());
    let why = "the line ends in CRLF: a shell takes the carriage return as part of the last word, in the block as well";
    assert_eq!(refusal("#!/bin/sh\r\necho\r\n"), Err(format!("f:1: {why}")));
    assert_eq!(refusal("#!/bin/sh\ncat <<EOF\nx\r\nEOF\necho\r\n"), Err(format!("f:5: {why}")));
    assert!(refusal("#!/bin/sh\ncat <<EOF\nx\r\nEOF\n").is_ok(), "it is data there");
    // An editor made them after the block was put in.
    let with = String::from_utf8(put_in(b"#!/bin/sh\n", Place::Shell)).unwrap().replace('\n', "\r\n");
    let found = find(with.as_bytes(), "f").unwrap();
    let error = check_place(with.as_bytes(), Place::Shell, found.as_ref(), "f").unwrap_err();
    assert_eq!(error.to_string(), format!("f:1: {why}"));
    assert_eq!(remove(with.as_bytes(), &found.unwrap()), b"#!/bin/sh\r\n", "it can be taken out all the same");
}

#[test]
fn a_block_that_nobody_reads_is_an_error() {
    let block = String::from_utf8(put_in(b"", Place::Shell)).unwrap();
    let document = |line| Some(format!("it is in the here-document of line {line}, which this script does not run"));
    let never = |line| Some(format!("it is in a branch that never runs, after the `false` of line {line}"));
    let exit = |line| Some(format!("it is below the `exit` of line {line}, which ends the script"));
    let exec = |line| Some(format!("it is below the `exec` of line {line}, which ends the script"));
    let subshell = |line| Some(format!("it is in a subshell, which ends in line {line} and starts no program before"));
    let docker = |what: &str, line| Some(format!("it is in the {what} that begins in line {line}"));
    for (place, script, expected) in [
        (Place::Shell, "cat <<EOF\n@EOF\n", document(1)),
        (Place::Batch, "set -e\nsbatch <<-'X' >log\n#!/bin/sh\n@echo\n\tX\n", document(2)),
        (Place::Shell, "cat <<A <<B\nA\n@B\n", document(1)),
        (Place::Shell, "x=$((1<<2)); ((y = x << 3))\n((a) ; (b))\n@3\n", None),
        (Place::Shell, "cat <<<EOF\n@EOF\n", None),
        (Place::Shell, "if false; then\n@fi\n", never(1)),
        (Place::Shell, "if false\nthen\n:\nelse\n@fi\n", None),
        (Place::Shell, "if x; then :\nelif false; then\nif y; then\n@fi\nfi\n", never(2)),
        (Place::Shell, "while false; do\n@done\n", never(1)),
        (Place::Shell, "if false; then :\nfi\n@", None),
        (Place::Shell, "srun x\nexit $?\n@", exit(2)),
        (Place::Shell, "a || exit 1\nb &&\n\n  exit\nif c; then exit; fi\n@", None),
        (Place::Shell, "f() { exit 1; }\nfunction g {\n exit 1\n}\nfunction h() {\n exit\n}\n( exit 2 )\n@", None),
        (Place::Shell, "case x in\n a) exit ;;\n (b) exit ;;\nesac\n{ exit; } || b\ntrap exit INT\n@", None),
        (Place::Shell, "x | exit\nexec srun x\n@", exec(2)),
        (Place::Shell, "A=1 exec -a y /bin/x >log\n@", exec(1)),
        (Place::Shell, "exec >log 2>&1\nexec 3<>f {fd}>g &>h\nexec > >(tee log) 2>&1\n@srun x\n", None),
        (Place::Shell, "exec x &\na || exec y\nif b; then exec z; fi\nf() { exec z; }\n(exec z)\n@srun x\n", None),
        (Place::Shell, "(\nsrun x\n@echo\n) >log\nsrun x\n", subshell(9)),
        (Place::Shell, "(\n@srun x\n)\n", None),
        (Place::Shell, "f()\n{\n@}\nA=(x\ny)\nf\n", None),
        (Place::Shell, "case x in\n(a) b ;;\nc)\n@ ;;\nesac\nsrun x\n", None),
        (Place::Dockerfile, "FROM a\nRUN <<E sh\n@E\n", docker("here-document of the instruction", 2)),
        (Place::Dockerfile, "FROM a\nRUN a \\\n@  b\n", docker("instruction", 2)),
        (Place::Dockerfile, "FROM a\n@RUN a\n", None),
    ] {
        let with = script.replace('@', &block);
        let found = find(with.as_bytes(), "f").unwrap().unwrap();
        let expected = expected.map(|why| format!("f:{}: the managed block does nothing here: {why}", found.lines.0));
        let told = check_place(with.as_bytes(), place, Some(&found), "f").err().map(|error| error.to_string());
        assert_eq!(told, expected, "{script:?}");
        assert_eq!(
            apply(with.as_bytes(), place, TEXT, "f").err().map(|error| error.to_string()),
            expected,
            "{script:?}"
        );
    }
}

#[test]
fn kinds_of_files_are_told_or_refused() {
    for (name, text, expected) in [
        ("job.sbatch", "#!/bin/bash\n#SBATCH -N 1\n", Ok(Place::Batch)),
        ("env.sh", "export A=1\n", Ok(Place::Shell)),
        ("run", "#!/usr/bin/env -S bash -l\n", Ok(Place::Shell)),
        ("nccl.conf", "", Ok(Place::NcclConf)),
        ("x.env", "A=1\n", Ok(Place::Env)),
        ("Dockerfile", "FROM a\n", Ok(Place::Dockerfile)),
        ("x.csh", "setenv A 1\n", Err("it is for csh")),
        ("x", "#!/bin/tcsh\nsetenv A 1\n", Err("it is for tcsh")),
        ("x.py", "#!/usr/bin/env python3\n", Err("it is no kind of file")),
        ("x.yaml", "kind: Pod\n", Err("a manifest takes no block")),
        ("x.csv", "allreduce,0,8,ring,ll,1,1,1\n", Err("a tuner CSV is emitted whole")),
    ] {
        let place = Place::of(name, text, None);
        match expected {
            Ok(expected) => assert_eq!(place, Ok(expected), "{name}"),
            Err(why) => assert!(place.as_ref().is_err_and(|error| error.starts_with(why)), "{name}: {place:?}"),
        }
    }
    assert_eq!(
        Place::of("x.py", "#!/usr/bin/env python3\n", Some(Kind::Shell)).unwrap_err().split(',').next(),
        Some("it is for python3")
    );
}

#[test]
fn lines_that_set_the_same_are_told_with_whose_value_counts() {
    let told = |place: Place, script: &str, block: &str| -> Vec<String> {
        let with = String::from_utf8(apply(script.as_bytes(), place, block, "f").unwrap()).unwrap();
        let found = find(with.as_bytes(), "f").unwrap().unwrap();
        conflicts(&with, place, &found, "f").iter().map(|conflict| conflict.told.to_string()).collect()
    };
    let shell = "#!/bin/sh\nNCCL_IB_HCA=mlx5_1 srun x\nexport NCCL_IB_HCA==mlx5_1\n: \"${NCCL_IB_HCA:=x}\"\nexport NCCL_NET=IB\n";
    assert_eq!(
        told(Place::Shell, shell, TEXT),
        [
            "f:7: warning: this command gets another NCCL_IB_HCA than the block sets",
            "f:8: warning: NCCL_IB_HCA is set here again: this value counts, not the block's",
        ]
    );
    let before = "#!/bin/sh\nexport NCCL_IB_HCA=x\n# gdrtune: begin of managed block, sha256 0;\n# gdrtune: end of managed block\n";
    assert_eq!(
        told(Place::Shell, before, TEXT),
        ["f:2: warning: NCCL_IB_HCA is set here, before the block, whose value counts after it"]
    );
    let keep = ": \"${NCCL_IB_HCA:=x}\"; export NCCL_IB_HCA\n";
    assert_eq!(
        told(Place::Shell, before, keep),
        ["f:2: warning: NCCL_IB_HCA is set here, before the block, which keeps this value"]
    );
    assert_eq!(
        told(Place::NcclConf, "# c\n\nNCCL_NET=IB\n", "NCCL_NET=Socket\n"),
        ["f:6: warning: NCCL_NET is set here again: NCCL keeps the first value, which is the block's"]
    );
    assert_eq!(
        told(Place::Dockerfile, "FROM a\nENV NCCL_NET=IB\n", "ENV NCCL_NET=\"Socket\"\n"),
        ["f:5: warning: NCCL_NET is set here again: this value counts, not the block's"]
    );
}

#[test]
fn lines_that_take_variables_of_the_block_away_are_told() {
    const BLOCK: &str = "export NCCL_IB_HCA='=mlx5_0'\nexport GDRTUNE_NATIVE_NSOCKS=4\n";
    let told = |after: &str| -> Vec<String> {
        let text =
            [b"#!/bin/sh\n".as_slice(), &apply(b"", Place::Shell, BLOCK, "f").unwrap(), after.as_bytes()].concat();
        let (text, found) = (String::from_utf8(text.clone()).unwrap(), find(&text, "f").unwrap().unwrap());
        let all = conflicts(&text, Place::Shell, &found, "f");
        assert!(all.iter().all(|conflict| conflict.beats_block), "{after}: {all:?}");
        all.into_iter().map(|conflict| conflict.told.message).collect()
    };
    let (hca, both) = ("NCCL_IB_HCA", "NCCL_IB_HCA, GDRTUNE_NATIVE_NSOCKS");
    let all_gone = format!("{both} are taken away here: what is started below does not get the block's values");
    let gone = format!("{hca} is taken away here: what is started below does not get the block's value");
    let not_got = |names: &str| format!("this command does not get the block's {names}");
    let other = |name: &str| format!("this command gets another {name} than the block sets");
    for (after, expected) in [
        ("unset NCCL_IB_HCA\nsrun x\n", vec![gone.clone()]),
        ("if a; then unset -v A NCCL_IB_HCA; fi\nsrun x\n", vec![gone.clone()]),
        ("unset ${!NCCL_*}\nunset \"${!NCCL_IB@}\"\nsrun x\n", vec![gone.clone(); 2]),
        (
            "unset NCCL_IB_HCA GDRTUNE_NATIVE_NSOCKS\nsrun x\n",
            vec![gone.clone(), gone.replace(hca, "GDRTUNE_NATIVE_NSOCKS")],
        ),
        ("export -n NCCL_IB_HCA\nsrun x\n", vec![gone.clone()]),
        ("unset ${!N*} ${!*}\nsrun x\n", vec![gone.clone(), all_gone]),
        ("unset -f NCCL_IB_HCA\nunset NCCL_IB $NAME\nsrun env A=1 x\nsrun which env\n", vec![]),
        (
            "export GDRTUNE_NATIVE_NSOCKS=9\nsrun x\n",
            vec!["GDRTUNE_NATIVE_NSOCKS is set here again: this value counts, not the block's".to_owned()],
        ),
        ("srun -n 8 env -C / NCCL_IB_HCA=x y\n", vec![other(hca)]),
        ("timeout 10 srun --export=ALL,NCCL_IB_HCA=x y\nNCCL_IB_HCA=x nohup mpirun y\n", vec![other(hca); 2]),
        ("srun /usr/bin/env -i A=1 x\nenv - x\n", vec![not_got(both); 2]),
        (
            "srun env -u NCCL_IB_HCA --unset=GDRTUNE_NATIVE_NSOCKS x\n",
            vec![not_got(hca), not_got("GDRTUNE_NATIVE_NSOCKS")],
        ),
        ("env -i NCCL_IB_HCA=x mpirun y\n", vec![other(hca), not_got("GDRTUNE_NATIVE_NSOCKS")]),
        (
            "srun --export=NONE x\nsrun --export=A,NCCL_IB_HCA y\nsrun --export=ALL,A=1 z\nsrun --export=$L z\n",
            vec![not_got(both), not_got("GDRTUNE_NATIVE_NSOCKS")],
        ),
    ] {
        assert_eq!(told(after), expected, "{after}");
    }
}

#[test]
fn a_block_below_the_last_launcher_is_told() {
    let told = |before: &str, after: &str| -> Vec<String> {
        let text = [before.as_bytes(), &put_in(b"", Place::Shell), after.as_bytes()].concat();
        let (text, found) = (String::from_utf8(text.clone()).unwrap(), find(&text, "f").unwrap().unwrap());
        conflicts(&text, Place::Shell, &found, "f").iter().map(|conflict| conflict.told.to_string()).collect()
    };
    let below = |line: usize, last: usize| {
        vec![format!(
            "f:{line}: warning: the block is below line {last}, the last that starts a job: none gets what it sets"
        )]
    };
    assert_eq!(told("#!/bin/sh\nsrun a\nexec 2>log\nmpirun b\n", "wait\necho done; exit 0\n"), below(5, 4));
    assert_eq!(told("env A=1 torchrun x.py\n", ""), below(2, 1));
    for launcher in [
        "timeout 10 srun x",
        "timeout -k 5s --signal KILL -- 1h srun x",
        "A=1 nohup /usr/bin/nice -n 5 env B=1 stdbuf -oL mpirun x",
        "exec 3>log; numactl -N 0 --membind=0 taskset -c 0-3 torchrun x.py",
        "setsid srun x &",
    ] {
        assert_eq!(told(&format!("{launcher}\n"), ""), below(2, 1), "{launcher}");
    }
    for (before, after) in [
        ("", "srun x\n"),
        ("srun hostname\n", "python train.py\n"),
        ("run() { srun x; }\n", "run\n"),
        ("while a; do\nsrun x\n", "done\n"),
        ("echo srun\n", ""),
        ("timeout srun x\n", ""),
        ("nohup\n", "timeout 10 srun x\n"),
    ] {
        assert_eq!(told(before, after), Vec::<String>::new(), "{before}{after}");
    }
}

#[test]
fn differences_are_as_diff_writes_them() {
    let shown = |old: &str, new: &str| String::from_utf8(unified("f", old.as_bytes(), new.as_bytes())).unwrap();
    assert_eq!(shown("a\n", "a\n"), "");
    assert_eq!(
        shown("1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\nx\n5\n6\n7\n8\n"),
        "--- f\n+++ f\n@@ -2,6 +2,7 @@\n 2\n 3\n 4\n+x\n 5\n 6\n 7\n"
    );
    assert_eq!(shown("", "x\n"), "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+x\n");
    assert_eq!(
        shown("a", "a\nb"),
        "--- f\n+++ f\n@@ -1,1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n\\ No newline at end of file\n"
    );
}

proptest! {
    #[test]
    fn any_file_gets_its_block_and_gives_it_back(
        bytes in prop_oneof![
            proptest::collection::vec(1_u8.., 0..200),
            proptest::collection::vec(proptest::sample::select(b"#!\n\r\t \\FROM<SBATCH\xff".to_vec()), 0..80),
        ],
        text in "([ -~]{0,20}\n){0,4}",
        place in proptest::sample::select(vec![Place::Shell, Place::Batch, Place::NcclConf, Place::Env, Place::Dockerfile]),
    ) {
        if let Ok(with) = apply(&bytes, place, &text, "f") {
            let found = find(&with, "f").unwrap().unwrap();
            prop_assert_eq!(state(place, Some(&found), &text), State::Current);
            prop_assert_eq!(&apply(&with, place, &text, "f").unwrap(), &with);
            prop_assert_eq!(remove(&with, &found), bytes.clone());
            let updated = apply(&with, place, TEXT, "f").unwrap();
            let found = find(&updated, "f").unwrap().unwrap();
            prop_assert_eq!(remove(&updated, &found), bytes);
        } else {
            let has_crlf = matches!(place, Place::Shell | Place::Batch) && bytes.windows(2).any(|pair| pair == b"\r\n");
            prop_assert!(has_crlf || place == Place::Dockerfile, "only a Dockerfile may have no place for it");
        }
    }

    #[test]
    fn any_difference_is_one_that_patch_takes(old in "([ab]\n){0,8}[ab]?", new in "([ab]\n){0,8}[ab]?") {
        let difference = String::from_utf8(unified("f", old.as_bytes(), new.as_bytes())).unwrap();
        prop_assert_eq!(difference.is_empty(), old == new);
        // The lines without the added ones are the old text's, and the other way round.
        let side = |sign: char| -> Vec<&str> {
            let body = difference.lines().skip(3).filter(|line| !line.starts_with('\\'));
            body.filter(|line| line.starts_with([' ', sign])).map(|line| &line[1..]).collect()
        };
        let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
        for (sign, text) in [('-', &old), ('+', &new)] {
            let lines = lines(text);
            prop_assert!(lines.windows(side(sign).len().max(1)).any(|window| window == side(sign)) || side(sign).is_empty());
        }
    }
}
