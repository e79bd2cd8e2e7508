//! Reports of runs that were made up: what they say, that they are well-formed, and that nothing of a run's gets out of its place.

use std::{collections::BTreeSet, fmt::Write as _};

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Environment, Point, Protocol};
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::{Value, json};

use super::Report;
use crate::event::{Arm, Event, Record, Trial, TrialResult};

/// A name that would break out of anything.
const HOSTILE: &str =
    "</title><script>alert('1')</script>\"><img src=http://evil/x onerror=alert(2)>`|*[a](http://evil)\u{202e}\n# x";

fn event(value: Value) -> Event {
    serde_json::from_value(value).unwrap()
}

fn records(events: Vec<Event>) -> Vec<Record> {
    (0..).zip(events).map(|(seq, event)| Record { seq, t_ms: 100 * seq, event }).collect()
}

fn started(engine: &str, hosts: &str) -> Event {
    event(json!({
        "type": "run_started", "schema_version": 1, "run": "2026-11-29T14:02:11Z-7f3a", "tool": "0.1.0", "engine": engine,
        "hosts": hosts, "nodes": 4, "ranks": 32, "points": [], "seed": 7, "budget_s": 300.0, "workload": "default",
        "objective": "geomean",
    }))
}

fn point(bytes: u64) -> Point {
    Point { collective: Collective::AllReduce, bytes }
}

fn choice(channels: u16) -> Choice {
    Choice { algorithm: Algorithm::Tree, protocol: Protocol::Ll, channels }
}

fn trial(arm: Arm, point: Point, requested: Option<Choice>, time_us: f64) -> Event {
    let result = TrialResult::Timed {
        time_us,
        slowest_us: time_us,
        median_us: time_us,
        max_us: time_us,
        cpu_us: 1.0,
        busbw_gbs: 1.0,
        iterations: 20,
    };
    let environment = Environment::new();
    Event::Trial(Trial { trial: 0, arm, environment, point, requested, selected: None, process: 0, item: None, result })
}

fn failed(point: Point, requested: Choice, kind: &str, detail: &str) -> Event {
    event(json!({
        "type": "trial", "trial": 1, "arm": "search", "environment": {}, "point": point, "requested": requested, "selected": null,
        "process": 1, "result": {"outcome": "failed", "kind": kind, "detail": detail},
    }))
}

fn verdict(bytes: u64, (median, low, high): (f64, f64, f64), decision: &str) -> Event {
    event(json!({
        "type": "verdict", "point": point(bytes), "speedup": {"median": median, "low": low, "high": high, "p_faster": 0.99, "repeats": 9},
        "default_us": 100.0, "tuned_us": 100.0 / median, "decision": decision,
        "note": if decision == "too_noisy" { "spread 40 %, need about 300 s more" } else { "" },
    }))
}

fn node(index: u32, host: &str, model: &str) -> Vec<Event> {
    let facts = json!({
        "kernel": "6.8.0", "cpu_model": "AMD EPYC 9654", "cpus": 192, "numa_nodes": 2, "memory_bytes": 2_u64 << 40, "driver": "570.1",
        "gpus": [{"model": model}, {"model": model}],
        "hcas": (0..2).map(|n| json!({"name": format!("mlx5_{n}"), "ports": [
            {"port": 1, "state": "ACTIVE", "phys_state": "LinkUp", "link_layer": "InfiniBand", "rate": "400 Gb/sec (4X NDR)"},
        ]})).collect::<Vec<_>>(),
        "nets": [{"name": "eth0", "state": "up", "speed_mbps": 25_000, "mtu": 9000, "driver": "mlx5_core"}],
    });
    vec![
        event(json!({"type": "node", "index": index, "host": host, "state": "ready", "detail": ""})),
        event(json!({"type": "node_facts", "index": index, "host": host, "facts": {"own": facts}})),
    ]
}

fn profile() -> Value {
    let text = include_str!("../../../../profiles/tests/golden/nccl.toml");
    let (profile, _) = gdrtune_profiles::profile::Profile::parse(text, "golden").unwrap();
    serde_json::to_value(profile).unwrap()
}

/// A run with something in every section; `name` is in the place of every name.
fn run(engine: &str, name: &str) -> Vec<Record> {
    let mut events = vec![
        started(engine, name),
        event(json!({
            "type": "invoked", "args": ["tune", "-w", name], "dir": name, "inputs": [{"path": name, "sha256": "ab"}],
            "by": {"pid": 1, "host": name}, "out": {"is_new": true, "replaces": false, "token": 1}, "data_type": "float32",
        })),
    ];
    for (index, model) in [(0, "NVIDIA H200"), (1, name)] {
        events.extend(node(index, &format!("{name}{index}"), model));
    }
    events.extend([
        event(json!({"type": "slow_node", "index": 1, "host": name, "why": format!("4.1 GB/s: {name}")})),
        event(json!({"type": "site", "environments": [[name, {"NCCL_IB_HCA": name}]]})),
        event(json!({"type": "probed", "version": "2.28.9", "library": name, "device": "NVIDIA H200", "channels": 32, "gdr": "all"})),
        event(json!({
            "type": "space", "dimensions": {name: [null, name]}, "choices": [choice(1), choice(2)], "environments": 2, "name": name,
        })),
        event(json!({"type": "environment_started", "index": 0, "environment": {}, "why": name})),
    ]);
    for bytes in [1024, 65536, 1 << 20, 16 << 20] {
        let time = bytes as f64 / 100.0;
        events.extend([1.4, 1.5, 1.3, 1.4].map(|factor| trial(Arm::Default, point(bytes), None, factor * time)));
        events.extend([1.0, 1.2, 1.1].map(|factor| trial(Arm::Search, point(bytes), Some(choice(1)), factor * time)));
        events.push(trial(Arm::Search, point(bytes), Some(choice(2)), 3.0 * time));
        events.push(failed(point(bytes), choice(4), "hung", name));
    }
    let dropped = |channels: u16, why: &str| {
        event(
            json!({"type": "dropped", "environment": {}, "point": point(1024), "choice": choice(channels), "why": why}),
        )
    };
    events.extend([
        dropped(2, "3.00 times slower than the leader"),
        dropped(4, &format!("hung: {name}")),
        event(json!({"type": "environment_scored", "index": 0, "environment": {}, "score": 0.8, "note": name})),
        event(json!({"type": "environment_scored", "index": 1, "environment": {"A": name}, "score": null, "note": "no start"})),
        event(json!({"type": "importance", "knobs": [
            {"name": name, "best": name, "worst": null, "factor": 1.6, "low": 1.4, "high": 1.8, "effect": "mattered"},
        ]})),
        event(json!({"type": "wish", "question": 3, "wish": {"kind": "pin", "knob": name, "value": name}})),
        verdict(1024, (1.4, 1.3, 1.5), "ship"),
        verdict(65536, (1.01, 0.99, 1.03), "keep"),
        verdict(1 << 20, (0.9, 0.88, 0.93), "regression"),
        verdict(16 << 20, (1.2, 0.7, 1.9), "too_noisy"),
        event(json!({"type": "log", "level": "warn", "host": name, "text": format!("the default arm became 12 % slower {name}")})),
        event(json!({"type": "log", "level": "warn", "host": "n2", "text": format!("the default arm became 12 % slower {name}")})),
        event(json!({"type": "profile", "profile": profile(), "left_out": [format!("NCCL_BUFFSIZE=1 gained nothing {name}")]})),
        event(json!({"type": "written", "files": [name]})),
        event(json!({"type": "finished", "end": "tuned", "summary": format!("1 rule ships {name}")})),
    ]);
    records(events)
}

fn report(records: &[Record]) -> Report {
    Report::of(records).unwrap()
}

/// Parses as XML, which knows no forgiveness.
fn parsed(text: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// All that `text` would load, and all that could run.
fn requests(text: &str) -> Vec<String> {
    let document = parsed(text);
    let elements = document.descendants().filter(Node::is_element);
    let mut found = Vec::new();
    for element in elements {
        let name = element.tag_name().name();
        if matches!(
            name,
            "script" | "img" | "image" | "iframe" | "object" | "embed" | "use" | "base" | "form" | "foreignObject"
        ) {
            found.push(name.to_owned());
        }
        for attribute in element.attributes() {
            let (key, value) = (attribute.name(), attribute.value());
            let is_local = value.starts_with('#') || value.starts_with("data:");
            if key.starts_with("on")
                || (matches!(key, "src" | "href" | "srcset" | "action" | "poster" | "data") && !is_local)
            {
                found.push(format!("{name} {key}={value}"));
            }
            if matches!(key, "style") && value.contains("url(") {
                found.push(value.to_owned());
            }
        }
        let text = element.text().unwrap_or_default();
        if name == "style" && ["url(", "@import", "http", "expression"].iter().any(|word| text.contains(word)) {
            found.push(text.to_owned());
        }
    }
    found
}

#[test]
fn markdown_says_it_all() {
    insta::assert_snapshot!(report(&run("nccl", "n1")).markdown());
}

#[test]
fn nccl_tests_columns_are_those_of_nccl_tests() {
    insta::assert_snapshot!(report(&run("nccl", "n1")).nccl_tests());
}

#[test]
fn pages_and_plots_are_well_formed_and_ask_for_nothing() {
    for name in ["n1", HOSTILE] {
        for engine in ["nccl", "native", "sim"] {
            let report = report(&run(engine, name));
            assert_eq!(requests(&report.html()), [""; 0]);
            assert_eq!(report.plots().len(), 4);
            for (name, text) in report.plots() {
                assert!(requests(&text).is_empty(), "{name}");
            }
        }
    }
}

#[test]
fn hostile_names_stay_texts() {
    let report = report(&run("nccl", HOSTILE));
    let html = report.html();
    assert!(!html.contains("<script") && !html.contains("<img") && html.contains("&lt;script&gt;"));
    assert!(!html.contains('\u{202e}') && html.contains("\\u{202e}"));
    let document = parsed(&html);
    let scripts =
        document.descendants().filter(|node| node.is_text() && node.text().unwrap_or_default().contains("<script>"));
    assert!(scripts.count() > 10, "they are in the page as texts");
    let markdown = report.markdown();
    let mut fence = None;
    for line in markdown.lines() {
        assert!(!line.contains('\u{202e}'), "{line}");
        let is_fence = line.starts_with("```") && fence.is_none_or(|fence| fence == line);
        if is_fence {
            fence = if fence.is_some() { None } else { Some(line) };
        }
        if is_fence || fence.is_some() {
            continue;
        }
        // Outside of code, a tag has its backslash, and no heading is begun.
        let spans: String = line.split('`').step_by(2).collect();
        assert!(!line.starts_with("# x") && !spans.contains(" <script>"), "{line}");
    }
    assert!(markdown.contains("\\<script\\>"));
}

#[test]
fn a_page_can_be_found_ones_way_in_without_eyes() {
    let html = report(&run("nccl", "n1")).html();
    let document = parsed(&html);
    let all = |name: &'static str| document.descendants().filter(move |node| node.has_tag_name(name));
    assert_eq!(document.root_element().attribute("lang"), Some("en"));
    for table in all("table") {
        let has = |name: &str| table.descendants().any(|node| node.has_tag_name(name));
        assert!(has("caption") && has("thead"), "a table without a caption or heads");
        let heads = table.descendants().filter(|node| node.has_tag_name("th"));
        assert!(heads.clone().count() > 1 && heads.clone().all(|head| head.attribute("scope").is_some()));
    }
    let ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "an id is there twice");
    for link in all("a").filter_map(|node| node.attribute("href")) {
        assert!(ids.contains(&&link[1..]), "{link} leads nowhere");
    }
    assert_eq!(all("svg").count(), 3);
    for svg in all("svg") {
        let of = |name: &str| svg.children().find(|node| node.has_tag_name(name)).and_then(|node| node.attribute("id"));
        let (title, description) = (of("title").unwrap(), of("desc").unwrap());
        assert_eq!(svg.attribute("aria-labelledby"), Some(&*format!("{title} {description}")));
    }
    let levels: Vec<char> = document
        .descendants()
        .filter_map(|node| node.tag_name().name().strip_prefix('h').filter(|level| level.len() == 1)?.chars().next())
        .filter(char::is_ascii_digit)
        .collect();
    assert_eq!(levels[0], '1');
    assert!(
        levels.windows(2).all(|pair| pair[1] as u32 <= pair[0] as u32 + 1),
        "a level of headings is left out: {levels:?}"
    );
}

#[test]
fn what_was_not_measured_is_labelled_in_every_form() {
    for (engine, label) in [("sim", "SIMULATED"), ("replay", "REPLAYED"), ("native", "NOT MEASURED WITH NCCL")] {
        let mut records = run(engine, "n1");
        records.push(Record { seq: 999, t_ms: 1, event: Event::Emulated { why: "n1 and n2 are one machine".into() } });
        let report = report(&records);
        let texts = [report.html(), report.markdown(), report.nccl_tests()];
        for text in texts.into_iter().chain(report.plots().into_iter().map(|(_, text)| text)) {
            assert!(text.contains(label) && text.to_lowercase().contains("emulated nodes"), "{engine}: {text}");
        }
    }
}

#[test]
fn a_run_without_an_end_or_a_profile_has_a_report() {
    let all = run("nccl", "n1");
    for n_records in 1..all.len() {
        let report = report(&all[..n_records]);
        assert!(requests(&report.html()).is_empty());
        assert!(report.markdown().contains("**The run has not ended**"), "{n_records}");
    }
    assert!(Report::of(&all[1..]).is_none() && Report::of(&[]).is_none());
}

#[test]
fn what_was_not_verified_has_no_evidence_and_does_not_ship() {
    let mut records = run("nccl", "n1");
    records.retain(|record| !matches!(record.event, Event::Verdict { .. }));
    for record in &mut records {
        if let Event::Profile { profile, .. } = &mut record.event {
            profile.run.unverified = true;
        }
    }
    let text = report(&records).markdown();
    assert!(
        text.contains("> **Not verified:**") && text.contains("- Best so far, not verified: 3 settings, 2 rules"),
        "{text}"
    );
    let (settings, _) = text.split_once("## The profile").unwrap();
    for word in ["P(faster) |", "90 % interval |", "that ship", "| ships |"] {
        assert!(!settings.contains(word), "{word}: {settings}");
    }
}

#[test]
fn what_doctor_found_is_counted_and_no_trouble_is_left_out_silently() {
    let finding = |status: &str, id: usize| json!({"id": format!("check-{id}"), "status": status, "hosts": ["a"], "evidence": "seen", "fix": null});
    let findings = (0..70).map(|id| finding(["WARN", "PASS"][usize::from(id == 3)], id)).chain([finding("FAIL", 99)]);
    let diagnosis = serde_json::from_value(json!({"findings": findings.collect::<Vec<_>>()})).unwrap();
    let text = report(&run("nccl", "a")).with_doctor(diagnosis).markdown();
    assert!(text.contains("\n1 FAIL, 69 WARN, 1 PASS and 0 SKIP, as doctor said"), "{text}");
    let (first, last) = ("- **FAIL** `check-99` on `a`: seen\n- **WARN** `check-0`", "\n- and 10 more\n");
    assert!(text.contains(first) && text.contains(last), "{text}");
}

#[test]
fn times_of_other_nodes_are_not_in_the_result() {
    let mut records = run("nccl", "n1");
    let fewer = event(json!({
        "type": "node_set", "hosts": "n2", "nodes": 1, "ranks": 2,
        "left_out": [{"index": 0, "host": "n1", "why": "nothing heard"}],
    }));
    let later = [fewer, trial(Arm::Default, point(4096), None, 77.0)];
    records.extend(later.into_iter().map(|event| Record { seq: 1000, t_ms: 99_999, event }));
    let text = report(&records).nccl_tests();
    assert!(text.contains(" 77.00 ") && text.contains("1 nodes, 2 ranks") && !text.contains("140.00"), "{text}");
    assert!(report(&records).markdown().contains("> **Fewer hosts:** measured without n1 (nothing heard)."));
}

#[test]
fn shapes_have_names_and_plots_of_their_own() {
    let shape = |index: u32, nodes: u32| Event::Shape { index, of: 2, nodes, ranks: 2 * nodes };
    let events = vec![
        started("nccl", "n[1-4]"),
        shape(0, 4),
        trial(Arm::Default, point(1024), None, 10.0),
        trial(Arm::Default, point(4096), None, 20.0),
        shape(1, 2),
        trial(Arm::Default, point(1024), None, 5.0),
    ];
    let report = report(&records(events));
    let names: Vec<String> = report.plots().into_iter().map(|(name, _)| name).collect();
    let want = ["4nodes-8ranks-busbw", "4nodes-8ranks-latency", "2nodes-4ranks-busbw", "2nodes-4ranks-latency"];
    assert_eq!(names, want.map(|name| format!("allreduce-{name}.svg")));
    assert!(report.markdown().contains("### Shape: 2 nodes, 4 ranks"));
}

/// As the largest run that anybody is likely to make: 1,000 nodes that differ, seven collectives, many choices, a log that floods.
#[test]
fn a_hundred_thousand_trials_are_less_than_a_megabyte() {
    let mut events = vec![started("nccl", "n[0001-1000]")];
    for index in 0..1000 {
        let model = format!("NVIDIA H200 {}", index % 100);
        events.extend(node(index, &format!("n{:04}", (index * 7919) % 1000), &model));
    }
    let sizes: Vec<u64> = (3..33).map(|shift| 1 << shift).collect();
    let algorithms = [Algorithm::Tree, Algorithm::Ring, Algorithm::Nvls, Algorithm::NvlsTree, Algorithm::Pat];
    let mut n_trials = 0_u32;
    while n_trials < 100_000 {
        for (&collective, &bytes) in Collective::ALL.iter().flat_map(|c| sizes.iter().map(move |bytes| (c, bytes))) {
            let point = Point { collective, bytes };
            let (algorithm, channels) = (algorithms[n_trials as usize % 5], 1 << (n_trials / 5 % 6));
            let choice = Choice { algorithm, protocol: Protocol::ALL[n_trials as usize / 7 % 3], channels };
            events.push(trial(Arm::Default, point, None, f64::from(n_trials % 977) + 3.0));
            events.push(trial(Arm::Search, point, Some(choice), f64::from(n_trials % 991) + 1.0));
            n_trials += 2;
        }
        let mut text = format!("line {n_trials} ");
        (0..100).for_each(|n| write!(text, "{n} of a flood, ").unwrap());
        events.push(event(json!({"type": "log", "level": "warn", "host": format!("n{n_trials}"), "text": text})));
        let environment = json!({"NCCL_BUFFSIZE": n_trials.to_string(), "NCCL_IB_HCA": "x".repeat(2000)});
        events.push(event(
            json!({"type": "environment_scored", "index": n_trials, "environment": environment, "score": 0.9}),
        ));
    }
    for (collective, bytes) in Collective::ALL.iter().flat_map(|c| sizes.iter().map(move |bytes| (*c, *bytes))) {
        let mut verdict = verdict(bytes, (1.2, 1.1, 1.3), "too_noisy");
        if let Event::Verdict { point, .. } = &mut verdict {
            point.collective = collective;
        }
        events.push(verdict);
    }
    let report = report(&records(events));
    let (html, markdown) = (report.html(), report.markdown());
    assert!(html.len() < 1_000_000, "{} bytes of HTML", html.len());
    assert!(markdown.len() < 500_000, "{} bytes of Markdown", markdown.len());
    parsed(&html);
    println!("{} bytes of HTML, {} of Markdown", html.len(), markdown.len());
}

/// Relative luminance of `#rrggbb` or `#rgb` (WCAG 2.1).
fn luminance(colour: &str) -> f64 {
    let hex = colour.trim_start_matches('#');
    let hex: String = if hex.len() == 3 { hex.chars().flat_map(|c| [c, c]).collect() } else { hex.to_owned() };
    let channel = |at: usize| {
        let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
}

#[test]
fn colours_have_contrast_by_day_and_by_night() {
    let (day, night) = super::STYLE_COLOURS.split_once("@media").unwrap();
    for sheet in [day, night] {
        let colour = |name: &str| {
            let (_, after) = sheet.split_once(&format!("--{name}:")).unwrap();
            luminance(after.split([';', '}']).next().unwrap())
        };
        let contrast = |a: &str, b: &str| {
            let (a, b) = (colour(a), colour(b));
            (a.max(b) + 0.05) / (a.min(b) + 0.05)
        };
        let heat = ["h0", "h1", "h2", "h3", "h4"].map(|shade| (format!("{shade}t"), shade.to_owned()));
        let texts = [("fg", "bg"), ("fg", "soft"), ("dim", "bg"), ("link", "bg"), ("warn", "warnbg"), ("fg", "warnbg")];
        let texts = texts.map(|(text, ground)| (text.to_owned(), ground.to_owned()));
        for (text, ground) in texts.into_iter().chain(heat) {
            assert!(4.5 <= contrast(&text, &ground), "{text} on {ground}: {:.2}", contrast(&text, &ground));
        }
        assert!(3.0 <= contrast("base", "bg") && 3.0 <= contrast("tuned", "bg"));
    }
}
