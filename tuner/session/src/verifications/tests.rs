use gdrtune_profiles::vocab::Collective;

use super::*;

fn profile() -> Profile {
    Profile::parse(include_str!("../../../../profiles/tests/golden/nccl.toml"), "golden").unwrap().0
}

/// Of these sizes and speed-ups, each with an interval of 1 % to both sides.
fn verification(day: u32, points: &[(u64, f64)]) -> Verification {
    let verified = |&(bytes, median): &(u64, f64)| VerifiedPoint {
        point: Point { collective: Collective::AllReduce, bytes },
        default_us: 100.0,
        profile_us: 100.0 / median,
        speedup: Speedup { median, low: median * 0.99, high: median * 1.01, p_faster: 0.99, repeats: 9 },
        decision: if median < 1.0 { Decision::Regression } else { Decision::Ship },
    };
    Verification {
        schema_version: SCHEMA_VERSION,
        id: format!("2026-11-{day:02}T00:00:00Z-0000"),
        run: "r1".into(),
        engine: Engine::Nccl,
        hosts: "n[1-4]".into(),
        nodes: 4,
        ranks: 32,
        nccl: None,
        pairs: 9,
        asked: None,
        differences: Vec::new(),
        failures: Vec::new(),
        points: points.iter().map(verified).collect(),
    }
}

#[test]
fn what_is_kept_is_found_by_what_the_profile_sets() {
    let dir = tempfile::tempdir().unwrap();
    let mut profile = profile();
    assert_eq!(kept(dir.path(), &profile).unwrap(), Verifications::default());
    let (first, second) = (verification(1, &[(1024, 1.1)]), verification(2, &[(1024, 0.9)]));
    keep(dir.path(), &profile, &second).unwrap();
    let path = keep(dir.path(), &profile, &first).unwrap();
    assert_eq!(kept(dir.path(), &profile).unwrap().all, [first.clone(), second.clone()]);
    assert!(second.has_regression() && !first.has_regression());
    profile.run.notes.push("comments change nothing".into());
    profile.rule[0].speedup.median = 9.0;
    assert_eq!(kept(dir.path(), &profile).unwrap().all.len(), 2);

    fs::write(path, "{").unwrap();
    fs::write(dir.path().join(settings_id(&profile)).join(".half.json.tmp"), "").unwrap();
    let rest = kept(dir.path(), &profile).unwrap();
    assert_eq!((rest.all, rest.unreadable.len()), (vec![second], 1));
    profile.rule[0].channels = Some(4);
    assert_eq!(kept(dir.path(), &profile).unwrap(), Verifications::default(), "other settings");
}

#[test]
fn an_older_or_newer_file_still_reads() {
    let text = r#"{"schema_version":1,"id":"i","run":"r","engine":"native","hosts":"a","nodes":1,"ranks":2,"pairs":9,"points":[],"new":1}"#;
    let read: Verification = serde_json::from_str(text).unwrap();
    assert_eq!((read.ranks, read.failures.len()), (2, 0));
}

#[test]
fn a_verification_answers_for_what_it_was_asked_alone() {
    let point = |collective, bytes| Point { collective, bytes };
    let points = [point(Collective::AllReduce, 1024), point(Collective::Broadcast, 4096)];
    let asked = Asked {
        points: points.into(),
        data_type: DataType::F32,
        emulated: false,
        graph: false,
        register_buffers: false,
    };
    let mut kept = verification(1, &[(1024, 1.1)]);
    assert!(!kept.answers(&asked, (4, 32), 9), "kept by an older version");
    kept.asked = Some(asked.clone());
    let read: Verification = serde_json::from_str(&serde_json::to_string(&kept).unwrap()).unwrap();
    assert!(read.answers(&asked, (4, 32), 9));
    let fewer = Asked { points: points[..1].iter().copied().collect(), ..asked.clone() };
    let others = [
        fewer,
        Asked { data_type: DataType::F16, ..asked.clone() },
        Asked { graph: true, ..asked.clone() },
        Asked { register_buffers: true, ..asked.clone() },
        Asked { emulated: true, ..asked.clone() },
    ];
    assert!(others.iter().all(|other| !read.answers(other, (4, 32), 9)));
    assert!(!read.answers(&asked, (2, 32), 9));
    kept.pairs = 3;
    assert!(kept.answers(&asked, (4, 32), 3) && !kept.answers(&asked, (4, 32), 9), "three pairs prove nothing");
    kept.pairs = 7;
    assert!(kept.answers(&asked, (4, 32), 9), "two pairs failed");
}

#[test]
fn drift_is_named_by_its_rule() {
    let profile = profile();
    for (gains, expected) in [
        (&[1.2][..], "too few"),
        (&[1.2, 1.2, 1.21], "steady"),
        (&[1.2, 1.1], "step -8"),
        (&[1.2, 1.19, 1.17, 1.16, 1.14], "trend -5 p 0.017"),
        (&[1.1, 1.12, 1.15, 1.16, 1.2], "trend 9 p 0.017"),
        // All in one direction, but by less than matters.
        (&[1.2, 1.201, 1.202, 1.203, 1.204], "steady"),
        (&[1.2, 1.1, 1.2, 1.1, 1.2, 1.1, 1.2], "steady"),
    ] {
        let all: Vec<Verification> = (1..).zip(gains).map(|(day, gain)| verification(day, &[(1024, *gain)])).collect();
        let courses = courses(&profile, &all);
        assert_eq!(courses.len(), 1);
        let percent = |change: f64| (change * 100.0).round();
        let shown = match courses[0].drift {
            Drift::TooFew => "too few".to_owned(),
            Drift::Steady => "steady".to_owned(),
            Drift::Step(change) => format!("step {}", percent(change)),
            Drift::Trend { change, p } => format!("trend {} p {p:.3}", percent(change)),
        };
        assert_eq!(shown, expected, "{gains:?}");
    }
}

#[test]
fn intervals_of_few_pairs_are_none() {
    let profile = profile();
    let mut all = [verification(1, &[(1024, 1.2)]), verification(2, &[(1024, 1.1)])];
    assert!(matches!(courses(&profile, &all)[0].drift, Drift::Step(_)));
    all[1].pairs = 4;
    assert_eq!(courses(&profile, &all)[0].drift, Drift::Steady);
}

#[test]
fn a_course_is_of_the_same_sizes_throughout() {
    let profile = profile();
    let all = [
        verification(1, &[(512, 9.0), (1024, 1.3), (4096, 1.2), (1 << 20, 1.5)]),
        verification(2, &[(4096, 1.2)]),
        verification(3, &[(1024, 1.1), (4096, 1.1)]),
    ];
    let courses = courses(&profile, &all);
    let shown: Vec<_> = courses.iter().map(|one| (one.sizes.clone(), one.steps.len(), one.left_out)).collect();
    // The second is of no rule: the profile's variables reach it.
    assert_eq!(shown, [(vec![1024, 4096], 2, 1), (vec![1 << 20], 1, 0)]);
    assert!(matches!((courses[0].of, courses[1].of), (Of::Rule(0, _), Of::Uncovered(Collective::AllReduce))));
    assert!((courses[0].steps[0].median - (1.3f64 * 1.2).sqrt()).abs() < 1e-9);
}

#[test]
fn a_verification_of_a_few_sizes_changes_no_course() {
    let profile = profile();
    let full = |day, gain| verification(day, &[(1024, gain), (4096, gain)]);
    let all = [full(1, 1.2), full(2, 1.2), verification(3, &[(4096, 0.7)])];
    let courses = courses(&profile, &all);
    assert_eq!((courses[0].sizes.as_slice(), courses[0].left_out), (&[1024, 4096][..], 1));
    assert_eq!(courses[0].drift, Drift::Steady);
}
