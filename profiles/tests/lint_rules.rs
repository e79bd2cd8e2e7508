//! Each rule of `lint` with a text that it fires on, and one of the same kind that it lets be; and what holds for any text.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use gdrtune_profiles::lint::{self, Finding, Format, Input, Kind, Options};
use proptest::prelude::*;
use serde_json::Value;

use Kind::{Dockerfile, Env, Kubernetes, NcclConf, Shell, TunerCsv};

/// A rule's id, the version of NCCL (0 is not known), the kind of file, what it fires on, and what not.
type Case = (&'static str, u16, Kind, &'static str, &'static str);

const STOCK: &str = "allreduce,0,9223372036854775807,ring,simple,8,-1,-1\n\
allgather,0,9223372036854775807,ring,simple,8,-1,-1\nreducescatter,0,9223372036854775807,ring,simple,8,-1,-1\n\
broadcast,0,9223372036854775807,ring,simple,8,-1,-1\nreduce,0,9223372036854775807,ring,simple,8,-1,-1\n";

const CASES: &[Case] = &[
    ("misspelt-variable", 0, Shell, "export NCCL_IB_HCAS=x", "export NCCL_GIN_TYPE=2 NCCL_HOME=/opt"),
    ("unknown-variable", 0, Env, "NCCL_QUITE_SOMETHING_ELSE=1", "NCCL_FASTRAK_NUM_FLOWS=2\nQUITE_SOMETHING_ELSE=1"),
    ("renamed-variable", 0, Shell, "export NCCL_MAX_NCHANNELS=8", "export NCCL_MAX_CTAS=8"),
    ("not-in-this-version", 26, Env, "NCCL_CTA_POLICY=ZERO", "NCCL_TUNER_PLUGIN=none"),
    (
        "measured-with-another-version",
        30,
        Shell,
        "# measured with engine nccl, NCCL 2.28.9; gdrtune",
        "# measured with engine nccl, NCCL 2.30.3; gdrtune",
    ),
    ("value-out-of-domain", 0, Env, "NCCL_CROSS_NIC=3", "NCCL_CROSS_NIC=2"),
    ("number-with-rest", 0, NcclConf, "NCCL_IB_TC=106x", "NCCL_IB_TC=0x6a"),
    ("empty-value", 0, Shell, "export NCCL_NET=", "export NCCL_NET=IB"),
    ("quoted-value", 0, NcclConf, "NCCL_NET='IB'", "NCCL_NET=IB"),
    ("quoted-value", 0, Shell, "export NCCL_NET=\"'IB'\"", "export NCCL_NET='IB'"),
    ("not-expanded", 0, Env, "NCCL_DEBUG_FILE=$HOME/nccl.%p", "NCCL_DEBUG_FILE=/tmp/nccl.%p"),
    ("not-expanded", 0, Shell, "export NCCL_TOPO_FILE=\"~/a.xml\"", "export NCCL_TOPO_FILE=~/a.xml"),
    ("relative-path", 0, Env, "NCCL_TOPO_FILE=topo.xml", "NCCL_TOPO_FILE=/etc/topo.xml"),
    (
        "debugging-variable",
        0,
        Shell,
        "# debug\nexport NCCL_NTHREADS=256",
        "# 3 % faster, measured with NCCL 2.28\nexport NCCL_NTHREADS=256",
    ),
    (
        "hard-export",
        0,
        Shell,
        "export NCCL_NET=IB NCCL_IB_SL=1 NCCL_IB_TC=2",
        ": ${NCCL_NET:=IB} ${NCCL_IB_SL:=1} ${NCCL_IB_TC:=2}\nexport NCCL_NET NCCL_IB_SL NCCL_IB_TC",
    ),
    ("algo-unserved", 0, Env, "NCCL_ALGO=Tree,NVLSTree", "NCCL_ALGO=allreduce:tree"),
    ("algo-for-all", 0, Shell, "export NCCL_ALGO=Ring,Tree", "export NCCL_ALGO=allreduce:ring"),
    ("algo-unknown", 0, Env, "NCCL_ALGO=allreduce:rings", "NCCL_ALGO=AllReduce:RING"),
    ("algo-new-grammar", 23, Env, "NCCL_ALGO=allreduce:ring", "NCCL_ALGO=ring"),
    ("algo-not-in-this-version", 22, Env, "NCCL_ALGO=pat,ring", "NCCL_ALGO=^pat"),
    ("ll128-forced", 0, Shell, "export NCCL_PROTO=ll,ll128", "export NCCL_PROTO=^LL128"),
    ("ll128-by-inversion", 0, Shell, "export NCCL_PROTO=allreduce:^Simple", "export NCCL_PROTO=^LL,LL128"),
    (
        "channels-reversed",
        0,
        Shell,
        "export NCCL_MIN_CTAS=8\nexport NCCL_MAX_CTAS=4",
        "NCCL_MIN_CTAS=8 srun a\nNCCL_MAX_CTAS=4 srun b",
    ),
    (
        "channels-reversed",
        0,
        Shell,
        "if a; then export NCCL_MIN_CTAS=8; fi\nexport NCCL_MAX_CTAS=4",
        "if a; then export NCCL_MIN_CTAS=8; else export NCCL_MAX_CTAS=4; fi",
    ),
    ("channels-above-32", 24, Shell, "export NCCL_MAX_CTAS=64", "export NCCL_MAX_CTAS=32"),
    ("buffsize-odd", 0, Env, "NCCL_BUFFSIZE=3000000", "NCCL_BUFFSIZE=8388608"),
    (
        "ll128-forced",
        0,
        Kubernetes,
        "command: [mpirun]\nargs:\n- -x\n- NCCL_PROTO=LL128",
        "args:\n- -x\n- NCCL_PROTO=^LL128",
    ),
    ("nvls-forced", 0, Env, "NCCL_MNNVL_ENABLE=1", "NCCL_MNNVL_ENABLE=2"),
    ("hca-prefix", 0, Env, "NCCL_IB_HCA=mlx5_1:1", "NCCL_IB_HCA=mlx5"),
    ("hca-exclude-prefix", 0, Env, "NCCL_IB_HCA=^mlx5_1", "NCCL_IB_HCA=^=mlx5_1"),
    ("hca-list", 0, Env, "NCCL_IB_HCA==mlx5_0:one", "NCCL_IB_HCA==mlx5_0:1"),
    ("hca-rails", 28, Env, "NCCL_IB_HCA==mlx5_0:1:0", "NCCL_IB_HCA==mlx5_0:1"),
    ("interface-prefix", 0, Env, "NCCL_SOCKET_IFNAME=eth0", "NCCL_SOCKET_IFNAME=eth"),
    ("interface-exclude-prefix", 0, Env, "NCCL_SOCKET_IFNAME=^eth0", "NCCL_SOCKET_IFNAME=^docker,lo"),
    ("interface-list", 0, Env, "NCCL_SOCKET_IFNAME=eth,", "NCCL_SOCKET_IFNAME=eth"),
    ("interface-local", 0, Env, "NCCL_SOCKET_IFNAME=lo", "NCCL_SOCKET_IFNAME=^lo"),
    ("transport-disabled", 0, Env, "NCCL_SHM_DISABLE=1", "NCCL_SHM_DISABLE=0"),
    ("level-digit", 0, Env, "NCCL_P2P_LEVEL=3", "NCCL_P2P_LEVEL=PHB"),
    ("gdr-level-extreme", 0, Env, "NCCL_NET_GDR_LEVEL=SYS", "NCCL_NET_GDR_LEVEL=PXB"),
    ("gid-index-fixed", 0, Env, "NCCL_IB_GID_INDEX=0", "NCCL_IB_GID_INDEX=-1"),
    ("net-mismatch-ignored", 0, Env, "NCCL_IGNORE_NET_MISMATCH=1", "NCCL_IGNORE_NET_MISMATCH=0"),
    ("graph-file", 0, Env, "NCCL_GRAPH_FILE=/a.xml", "NCCL_TOPO_FILE=/a.xml"),
    ("debug-log", 0, Shell, "NCCL_DEBUG=trace srun a", "export NCCL_DEBUG_FILE=/tmp/%p\nNCCL_DEBUG=info srun a"),
    ("debug-file-shared", 0, Env, "NCCL_DEBUG_FILE=/tmp/log", "NCCL_DEBUG_FILE=/dev/stderr"),
    ("set-twice", 0, Env, "NCCL_NET=IB\nNCCL_NET=Socket", "NCCL_NET=IB\nNCCL_NET=IB"),
    (
        "set-twice",
        0,
        Shell,
        "if a; then export NCCL_NET=IB; export NCCL_NET=Socket; fi",
        "if a; then export NCCL_NET=IB; else export NCCL_NET=Socket; fi",
    ),
    (
        "set-twice",
        0,
        Shell,
        "f() {\nexport NCCL_NET=IB\nexport NCCL_NET=Socket\n}",
        "case $a in\nx) export NCCL_NET=IB ;;\ny) export NCCL_NET=Socket ;;\nesac",
    ),
    (
        "set-twice",
        0,
        Kubernetes,
        "env:\n- name: NCCL_NET\n  value: IB\n- name: NCCL_NET\n  value: Socket",
        "env:\n- name: NCCL_NET\n  value: IB\nenv:\n- name: NCCL_NET\n  value: Socket",
    ),
    (
        "set-twice",
        0,
        Dockerfile,
        "FROM a\nENV NCCL_NET=IB\nENV NCCL_NET=Socket",
        "FROM a\nENV NCCL_NET=IB\nFROM b\nENV NCCL_NET=Socket",
    ),
    (
        "conflicting-settings",
        0,
        Env,
        "NCCL_P2P_DISABLE=1\nNCCL_P2P_LEVEL=NVL",
        "NCCL_P2P_DISABLE=0\nNCCL_P2P_LEVEL=NVL",
    ),
    (
        "too-many-sockets",
        0,
        Env,
        "NCCL_SOCKET_NTHREADS=16\nNCCL_NSOCKS_PERTHREAD=5",
        "NCCL_SOCKET_NTHREADS=16\nNCCL_NSOCKS_PERTHREAD=4",
    ),
    ("tuner-overridden", 0, Env, "NCCL_TUNER_PLUGIN=x\nNCCL_PROTO=LL", "NCCL_TUNER_PLUGIN=none\nNCCL_PROTO=LL"),
    (
        "tuner-not-named",
        0,
        Env,
        "NCCL_TUNER_CONFIG_FILE=/a.csv",
        "NCCL_TUNER_CONFIG_FILE=/a.csv\nNCCL_TUNER_PLUGIN=example",
    ),
    (
        "tuner-plugin-stub",
        27,
        Env,
        "NCCL_TUNER_PLUGIN=libnccl-tuner-example.so",
        "NCCL_TUNER_PLUGIN=/opt/libnccl-tuner-gdrtune.so",
    ),
    ("tuner-plugin-stub", 0, Env, "NCCL_TUNER_PLUGIN=/opt/libnccl-tuner-basic.so", "NCCL_TUNER_PLUGIN=example"),
    (
        "subsystems-without-log",
        0,
        Env,
        "NCCL_DEBUG=warn\nNCCL_DEBUG_SUBSYS=NET",
        "NCCL_DEBUG=INFO\nNCCL_DEBUG_SUBSYS=NET",
    ),
    ("host-id-fixed", 0, Shell, "export NCCL_HOSTID=a", "export NCCL_HOSTID=$(hostname)"),
    ("conf-file-in-conf", 0, NcclConf, "NCCL_CONF_FILE=/a", "#NCCL_CONF_FILE=/a"),
    ("differs-by-rank", 0, Env, "0: NCCL_NET=IB\n1: NCCL_NET=Socket", "0: NCCL_DEBUG=INFO\n1: NCCL_DEBUG=WARN"),
    ("value-by-rank", 0, Shell, "export NCCL_IB_HCA==mlx5_${LOCAL_RANK}", "export NCCL_DEBUG_FILE=/tmp/$SLURM_PROCID"),
    ("export-in-file", 0, NcclConf, "export NCCL_NET=IB", "NCCL_NET=export"),
    ("blank-at-equals", 0, NcclConf, "NCCL_NET =IB", "NCCL_NET=IB"),
    ("blank-at-equals", 0, Shell, "export NCCL_NET= IB", "export NCCL_NET=IB NCCL_IB_SL=1"),
    ("comment-not-alone", 0, NcclConf, " # a=b\nNCCL_NET=IB", " # c\n# a=b\nNCCL_NET=IB"),
    ("comment-not-alone", 0, Env, "NCCL_NET=IB # c", "NCCL_NET=IB\nOTHER=1 # c"),
    ("no-equals", 0, NcclConf, "NCCL_NET", "\n"),
    ("carriage-return", 0, Shell, "export NCCL_NET=IB\r\n", "echo a\r\n"),
    ("not-exported", 0, Shell, "NCCL_NET=IB\nsrun a", "NCCL_NET=IB\nexport NCCL_NET\nsrun a"),
    ("not-exported", 0, Shell, ": ${NCCL_NET:=IB}", "NCCL_NET=IB srun a"),
    (
        "slurm-export-comma",
        0,
        Shell,
        "srun --export=ALL,NCCL_IB_HCA==a,b c",
        "srun --export=\"ALL,NCCL_IB_HCA='=a,b'\" c",
    ),
    ("slurm-export-drops", 0, Shell, "sbatch --export NCCL_NET=IB a", "sbatch --export=ALL,NCCL_NET=IB a"),
    (
        "mpirun-not-forwarded",
        0,
        Shell,
        "export NCCL_NET=IB\nmpirun -x NCCL_IB_SL=1 a",
        "export NCCL_NET=IB\nmpirun -x PATH a",
    ),
    ("run-export", 0, Dockerfile, "RUN export NCCL_NET=IB", "ENV NCCL_NET=IB"),
    ("no-string", 0, Kubernetes, "- name: NCCL_NET\n  value: 1", "- name: NCCL_NET\n  value: IB"),
    ("csv-no-rule", 0, TunerCsv, "allreduce,0,1024,rink,simple,8,-1,-1", STOCK),
    (
        "csv-one-channel",
        0,
        TunerCsv,
        "allreduce,0,1024,ring,simple,-1,-1,-1",
        "# for gdrtune's tuner plugin\nallreduce,0,1024,ring,simple,-1,-1,-1",
    ),
    (
        "csv-sizes-uncovered",
        0,
        TunerCsv,
        "allreduce,0,1024,ring,simple,8,-1,-1",
        "# for libnccl-tuner-gdrtune.so\nallreduce,0,1024,ring,simple,8,-1,-1",
    ),
    ("csv-collectives-uncovered", 0, TunerCsv, "allreduce,0,9223372036854775807,ring,simple,8,-1,-1", STOCK),
    ("csv-never-matches", 0, TunerCsv, "allreduce,2,1,ring,simple,8,-1,-1", "allreduce,1,1,ring,simple,8,-1,-1"),
    (
        "csv-shadowed",
        0,
        TunerCsv,
        "allreduce,0,9,ring,simple,8,-1,-1\nallreduce,2,3,tree,ll,8,4,-1",
        "allreduce,0,9,nvls,simple,8,-1,-1\nallreduce,2,3,tree,ll,8,4,-1",
    ),
    ("csv-impossible", 0, TunerCsv, "broadcast,0,9,tree,ll,8,-1,-1", "allreduce,0,9,tree,ll,8,-1,-1"),
    ("csv-4g-bound", 0, TunerCsv, "reduce,0,4294967295,ring,ll,8,-1,-1", "reduce,0,4294967296,ring,ll,8,-1,-1"),
];

fn look(kind: Option<Kind>, minor: u16, text: &str) -> Vec<Finding> {
    let version = (minor != 0).then(|| format!("2.{minor}").parse().unwrap());
    lint::lint(&[Input { name: "f", text, kind }], &Options { version, exists: None, allow: &[] })
}

fn has(found: &[Finding], id: &str) -> bool {
    found.iter().any(|finding| finding.rule.id == id)
}

#[test]
fn every_rule_fires_and_lets_be() {
    for (id, minor, kind, fires, lets_be) in CASES {
        assert!(lint::rule(id).is_some(), "{id}");
        let found = look(Some(*kind), *minor, fires);
        assert!(has(&found, id), "{id} is silent on: {fires}\n{}", lint::render(&found, Format::Text));
        let found = look(Some(*kind), *minor, lets_be);
        assert!(!has(&found, id), "{id} fires on: {lets_be}\n{}", lint::render(&found, Format::Text));
    }
    for rule in lint::rules() {
        // The two that have tests of their own.
        let is_elsewhere = ["line-too-long", "file-missing"].contains(&rule.id);
        assert!(is_elsewhere || CASES.iter().any(|case| case.0 == rule.id), "{} has no case", rule.id);
    }
}

#[test]
fn long_lines_are_what_their_reader_takes_for_long() {
    for (kind, most, start) in
        [(NcclConf, 1023, "NCCL_NET="), (TunerCsv, 255 - 36, "allreduce,0,9,ring,simple,8,-1,-1,-1")]
    {
        let text = |count| format!("{start}{}", "1".repeat(count));
        assert!(!has(&look(Some(kind), 0, &text(most)), "line-too-long"), "{kind}");
        assert!(has(&look(Some(kind), 0, &text(most + 1)), "line-too-long"), "{kind}");
    }
}

#[test]
fn files_are_looked_for_only_where_asked() {
    let text = "NCCL_TOPO_FILE=/a.xml\nNCCL_CONF_FILE=/b.conf\n";
    let exists = |path: &str| path == "/b.conf";
    let input = [Input { name: "f", text, kind: Some(Env) }];
    let found = lint::lint(&input, &Options { version: None, exists: Some(&exists), allow: &[] });
    let lines: Vec<usize> = found.iter().filter(|f| f.rule.id == "file-missing").map(|f| f.line).collect();
    assert_eq!(lines, [1]);
    assert!(!has(&look(Some(Env), 0, text), "file-missing"));
}

#[test]
fn rules_can_be_allowed_for_a_line_or_altogether() {
    let (bad, allowed) = ("export NCCL_NET=\n", "# gdrtune-lint: allow other,empty-value\nexport NCCL_NET=\n");
    assert!(has(&look(Some(Shell), 0, bad), "empty-value"));
    assert!(!has(&look(Some(Shell), 0, allowed), "empty-value"));
    assert!(has(&look(Some(Shell), 0, &allowed.replace("empty-value", "no-equals")), "empty-value"));
    let options = Options { version: None, exists: None, allow: &["empty-value".to_owned()] };
    assert!(lint::lint(&[Input { name: "f", text: bad, kind: Some(Shell) }], &options).is_empty());
}

/// A file with two findings in two severities and a name that needs care.
fn two_findings() -> Vec<Finding> {
    let text = "NCCL_PROTO=LL128\nNCCL_IB_GID_INDEX=3\n";
    lint::lint(
        &[Input { name: "a dir/x,y%.env", text, kind: None }],
        &Options { version: None, exists: None, allow: &[] },
    )
}

#[test]
fn text_and_github_are_one_line_for_a_place() {
    let text = lint::render(&two_findings(), Format::Text);
    assert!(text.starts_with("a dir/x,y%.env:1: error: naming LL128 skips"), "{text}");
    assert!(text.contains("[ll128-forced]\n    fix: leave the variable out"), "{text}");
    let github = lint::render(&two_findings(), Format::Github);
    let lines: Vec<&str> = github.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("::error file=a dir/x%2Cy%25.env,line=1,title=ll128-forced::naming"), "{github}");
    assert!(lines[1].starts_with("::warning file=a dir/x%2Cy%25.env,line=2,title=gid-index-fixed::GID"), "{github}");
    let hostile = "NCCL_IB_HCA=mlx5_\u{1b}[31m\n";
    let shown = lint::render(&look(Some(Env), 0, hostile), Format::Text);
    assert!(!shown.is_empty() && !shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn json_has_one_object_for_a_finding() {
    let json = lint::render(&two_findings(), Format::Json);
    let objects: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 2);
    for key in ["file", "line", "rule", "severity", "message", "fix"] {
        assert!(objects.iter().all(|object| object.get(key).is_some_and(|value| !value.is_null())), "{key}");
    }
    assert_eq!((&objects[0]["rule"], &objects[0]["line"]), (&"ll128-forced".into(), &1.into()));
}

/// The required fields of sarif-schema-2.1.0.json, and that what refers to a rule finds it.
#[test]
fn sarif_has_what_its_schema_requires() {
    for findings in [two_findings(), Vec::new()] {
        let sarif: Value = serde_json::from_str(&lint::render(&findings, Format::Sarif)).unwrap();
        assert_eq!(sarif["version"], "2.1.0");
        let run = &sarif["runs"][0];
        assert_eq!(run["tool"]["driver"]["name"], "gdrtune");
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        let results = run["results"].as_array().unwrap();
        assert_eq!(results.len(), findings.len());
        for (result, finding) in results.iter().zip(&findings) {
            assert!(result["message"]["text"].as_str().is_some_and(|text| !text.is_empty()));
            assert_eq!(result["ruleId"], finding.rule.id);
            let rule_idx = result["ruleIndex"].as_u64().unwrap() as usize;
            assert_eq!(rules[rule_idx]["id"], finding.rule.id);
            assert!(["note", "warning", "error"].contains(&result["level"].as_str().unwrap()));
            let place = &result["locations"][0]["physicalLocation"];
            assert_eq!(place["region"]["startLine"], finding.line as u64);
            assert_eq!(place["artifactLocation"]["uri"], "a%20dir/x%2Cy%25.env");
        }
    }
}

/// `UPDATE_DOCS=1 cargo test` writes it.
#[test]
fn the_docs_list_the_rules_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/lint.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mark =
        "<!-- made from the table of rules: UPDATE_DOCS=1 cargo test -p gdrtune-profiles --test lint_rules -->\n";
    let (head, _) = text.split_once(mark).unwrap();
    let now = format!("{head}{mark}{}", lint::rules_markdown());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), now);
}

/// Pieces of scripts that set nothing of NCCL's, and end where a command ends.
fn harmless() -> impl Strategy<Value = String> {
    let pieces = [
        "# a comment with 'quotes and \"more\n",
        "\n",
        "echo 'two\nlines'\n",
        "echo \"a $(b \"c\" 'd)') e\"\n",
        "cat <<EOF | cat <<'END'\nNCCL_ALGO=Tree\nEOF\nexport NCCL_ALGO=Tree\nEND\n",
        "srun \\\n  --nodes=2 \\\n  a\n",
        "x=`echo \\`a\\`` ; y=${z:-'}'}\n",
        "[[ a =~ (b|c) ]] && { d; }\n",
        "for i in 1 2; do echo $i; done\n",
        "f() {\n  g\n}\n",
        "case $a in\n  b) c ;;\nesac\n",
        "cat <<< 'here' > out 2>&1 &\n",
        "echo \u{65e5}\u{672c}\u{8a9e}\n",
    ];
    proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..12).prop_map(|pieces| pieces.concat())
}

fn any_text() -> impl Strategy<Value = String> {
    let word = "[-A-Za-z_=:,;^$`'\"(){}<>#|&~%.0-9 \\\\\n\r\t]{0,12}|NCCL_(ALGO|PROTO|IB_HCA|DEBUG|NET)|=|export |: \"\\$\\{|srun --export=|<<E|allreduce,0,9,|env:|ENV |RUN |[0-9]: |\\PC{0,6}";
    proptest::collection::vec(word, 0..24).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn any_text_is_looked_at_and_findings_lie_in_it(text in any_text(), other in any_text()) {
        for kind in Kind::ALL.iter().copied().map(Some).chain([None]) {
            let inputs = [Input { name: "a", text: &text, kind }, Input { name: "b", text: &other, kind }];
            let version = "2.22".parse().ok();
            let found = lint::lint(&inputs, &Options { version, exists: Some(&|_| false), allow: &[] });
            for finding in &found {
                let text = if finding.file == "a" { &text } else { &other };
                prop_assert!(0 < finding.line && finding.line <= text.split('\n').count(), "{:?}", finding);
                prop_assert!(!finding.message.is_empty() && !finding.fix.is_empty());
            }
            for format in Format::ALL {
                drop(lint::render(&found, *format));
            }
        }
    }

    #[test]
    fn lines_are_exact_whatever_stands_before(before in harmless(), after in harmless()) {
        let text = format!("{before}export NCCL_PROTO=LL128\n{after}");
        let line = before.matches('\n').count() + 1;
        let found = look(Some(Shell), 0, &text);
        let places: Vec<(&str, usize)> = found.iter().map(|finding| (finding.rule.id, finding.line)).collect();
        prop_assert_eq!(places, [("ll128-forced", line)], "{}", text);
    }

    #[test]
    fn lines_of_plain_files_are_exact(count in 0_usize..40) {
        for (kind, filler, trap) in [
            (Env, "OTHER=1\n", "NCCL_PROTO=LL128\n"),
            (NcclConf, "# a\n", "NCCL_PROTO=LL128\n"),
            (Dockerfile, "ENV A=1 \\\n", "NCCL_PROTO=LL128\n"),
            (Kubernetes, "a: b\n", "NCCL_PROTO: LL128\n"),
        ] {
            let text = format!("{}{trap}{filler}", filler.repeat(count + 1));
            let lines: Vec<usize> = look(Some(kind), 0, &text).iter().map(|finding| finding.line).collect();
            prop_assert_eq!(lines, [count + 2], "{}", kind);
        }
    }
}
