//! The cluster view: which rows there are, where keys lead, and how it looks.

use std::time::{Duration, Instant};

use gdrtune_session::event::{FactsOf, NodeFacts, NodeState};
use ratatui::style::{Color, Modifier};

use super::*;
use crate::ui::{
    filter::Filter,
    run::node_groups::tests::facts,
    tabs::{self, Tab},
};

/// Events of a cluster under construction, in the cluster view.
struct Cluster(State);

impl Cluster {
    fn new(size: (u16, u16)) -> Self {
        let mut state = new_state(size);
        feed(&mut state, RECORDS.iter().take(1));
        state.view.tab = Tab::Cluster;
        Self(state)
    }

    fn tell(&mut self, event: Event) {
        update(&mut self.0, Input::Record(Arc::new(Record { seq: 0, t_ms: 1, event })));
    }

    fn node(&mut self, index: u32, host: &str, state: NodeState, detail: &str) {
        self.tell(Event::Node { index, host: host.to_owned(), state, detail: detail.to_owned() });
    }

    fn ready(&mut self, index: u32, facts: FactsOf) {
        let host = host(index);
        self.node(index, &host, NodeState::Ready, "224 CPUs, 2048G memory, eno1");
        self.tell(Event::NodeFacts { index, host, facts });
    }

    /// A node that is ready and differs from the first one.
    fn odd(&mut self, index: u32, change: impl Fn(&mut NodeFacts)) {
        let mut facts = facts();
        change(&mut facts);
        self.ready(index, FactsOf::Own(Box::new(facts)));
    }

    /// So many equal nodes.
    fn alike(size: (u16, u16), count: u32) -> Self {
        let mut cluster = Self::new(size);
        cluster.odd(0, |_| ());
        (1..count).for_each(|index| cluster.ready(index, FactsOf::Like(0)));
        cluster
    }

    /// Thirty-two nodes, of which some need a look.
    fn troubled(size: (u16, u16)) -> Self {
        let mut cluster = Self::alike(size, 32);
        cluster.odd(5, |facts| {
            facts.hcas[3].ports[0].rate = "100 Gb/sec (4X EDR)".into();
            facts.hcas[6].ports[0].state = "DOWN".into();
            facts.hcas[6].ports[0].phys_state = "Polling".into();
            facts.nets[0].state = "down".into();
            facts.unreadable = vec!["/sys/class/infiniband/mlx5_7/ports/1/rate: Permission denied".into()];
        });
        cluster.odd(7, |facts| facts.driver = "535.161.08".into());
        cluster.odd(8, |facts| facts.driver = "535.161.08".into());
        let why = "vh12 is slow: 4.1 GB/s with vh11 and vh13 where the others have 11.8 GB/s; try -x vh12".to_owned();
        cluster.tell(Event::SlowNode { index: 11, host: "vh12".into(), why });
        cluster.node(20, "vh21", NodeState::Failed, "vh21: Permission denied (publickey)");
        cluster.node(25, "vh26", NodeState::Lost, "nothing heard from it for 12 s");
        cluster.node(31, "vh32", NodeState::Connecting, "");
        cluster
    }

    fn cursor(&self) -> String {
        tabs::copied(&self.0).unwrap_or_default()
    }

    fn body(&self) -> Vec<String> {
        rows(&self.0).into_iter().skip(4).map(|row| row.trim_end().to_owned()).collect()
    }
}

fn host(index: u32) -> String {
    format!("vh{:02}", index + 1)
}

#[test]
fn screens_of_the_cluster() {
    for (columns, rows) in [(80, 24), (120, 40), (60, 15)] {
        let size = (columns, rows);
        let name = |what: &str| format!("cluster_{what}_{columns}x{rows}");
        insta::assert_snapshot!(name("troubled"), paint(&Cluster::troubled(size).0, Charset::Unicode));
        let mut open = Cluster::troubled(size);
        press(&mut open.0, "j j j m Enter j j");
        insta::assert_snapshot!(name("open"), paint(&open.0, Charset::Unicode));
        insta::assert_snapshot!(name("alike"), paint(&Cluster::alike(size, 28).0, Charset::Unicode));
    }
    let mut open = Cluster::troubled((80, 24));
    press(&mut open.0, "j j j Enter G m");
    insta::assert_snapshot!("cluster_ascii", paint(&open.0, Charset::Ascii));
    let text = rows_of(paint(&open.0, Charset::Ascii).buffer()).concat();
    assert!(text.is_ascii(), "{:?}", text.chars().find(|c| !c.is_ascii()));
}

#[test]
fn a_run_without_nodes_or_without_facts_says_so() {
    assert!(Cluster::new((80, 24)).body()[1].contains("no node yet"));
    let mut older = Cluster::new((80, 24));
    (0..3).for_each(|index| older.node(index, &host(index), NodeState::Ready, "8 CPUs, 16G memory, fast0"));
    assert!(
        older.body()[1].contains("▸ ✓ ready      3 nodes like vh01: 8 CPUs, 16G memory, fast0"),
        "{:#?}",
        older.body()
    );
    press(&mut older.0, "Enter j Enter j");
    assert_eq!(older.cursor(), "system  8 CPUs, 16G memory, fast0");
}

#[test]
fn hostile_and_wide_names_keep_their_columns() {
    let mut cluster = Cluster::alike((80, 24), 4);
    cluster.node(0, "日本語-ノード", NodeState::Lost, "gone");
    cluster.node(1, "vh\u{1b}[2J\n02", NodeState::Failed, "a\tb\u{7}c");
    cluster.node(2, &"x".repeat(300), NodeState::Failed, "why");
    insta::assert_snapshot!("cluster_hostile", paint(&cluster.0, Charset::Unicode));
    for _ in 0..4 {
        assert!(!cluster.cursor().chars().any(char::is_control), "{:?}", cluster.cursor());
        press(&mut cluster.0, "m j");
    }
    assert!(!rows(&cluster.0).concat().chars().any(char::is_control));
    let exported = tabs::exported(&cluster.0).unwrap().text;
    assert!(exported.lines().all(|line| !line.chars().any(char::is_control)), "{exported}");
}

#[test]
fn keys_lead_where_they_should() {
    let starts: &[(&str, &str)] = &[
        ("", "failed  vh21"),
        ("j", "lost  vh26"),
        ("j j", "slow  vh12"),
        ("Down Down Down", "differs  vh06"),
        ("j j j j", "differs  2 nodes like vh08: driver 535.161.08, most have 550.54.15"),
        ("G", "ready  25 nodes like vh01: 8 GPUs H200, 8 HCAs 400 Gb/s"),
        ("G g", "failed"),
        ("G k", "connecting  vh32"),
        ("k", "failed"),
        // A leaf has nothing below it.
        ("Enter j", "why  Permission denied (publickey)"),
        ("Enter j Enter Right", "why"),
        ("Enter j Left", "failed  vh21"),
        ("Enter j h h j", "lost"),
        // Right opens, then goes there; left folds, then goes up.
        ("G l j", "ready  vh01"),
        ("G l l", "ready  vh01"),
        ("G l l l l", "system  224 CPUs Xeon 8480C"),
        ("G l l l l h", "ready  vh01"),
        ("G l l l l h h h", "ready  25 nodes like vh01"),
        ("G l l j j Left", "ready  25 nodes"),
        ("G l G", "ready  vh31"),
        ("G Enter Enter G", "ready  25 nodes"),
        ("j j j l l j j j", "system"),
        ("j j j l l j j j j", "GPU 0  H200  NUMA 0  PIX mlx5_0  NODE mlx5_[1-3]  SYS mlx5_[4-7]  0000:09:00.0"),
        ("j j j l G k k k l", "not read"),
        // Marks.
        ("G m g '", "ready  25 nodes"),
        ("j m G '", "lost"),
        ("'", "failed"),
    ];
    for (keys, expected) in starts {
        let mut cluster = Cluster::troubled((80, 24));
        press(&mut cluster.0, keys);
        assert!(cluster.cursor().starts_with(expected), "{keys}: {}, not {expected}", cluster.cursor());
    }
}

#[test]
fn the_cursor_stays_with_its_row() {
    let mut cluster = Cluster::alike((80, 24), 6);
    cluster.odd(1, |facts| facts.driver = "535.1".into());
    press(&mut cluster.0, "Enter j j");
    let at = cluster.cursor();
    assert!(at.starts_with("system"), "{at}");
    // What comes first pushes it down.
    cluster.node(3, "vh04", NodeState::Lost, "gone");
    assert_eq!(cluster.cursor(), at);
    // A node that joins a group leaves the cursor to the group.
    press(&mut cluster.0, "h h");
    assert!(cluster.cursor().starts_with("differs  vh02"), "{}", cluster.cursor());
    cluster.node(4, "vh05", NodeState::Lost, "gone, too");
    cluster.odd(1, |_| ());
    assert!(cluster.cursor().starts_with("ready  4 nodes like vh01"), "{}", cluster.cursor());
}

#[test]
fn the_filter_sees_names_states_and_what_nodes_have() {
    for (filter, expected) in [
        ("vh06", &["differs    vh06"][..]),
        ("vh03", &["ready      vh03"]),
        ("HEARD", &["lost       vh26"]),
        ("100 gb/s", &["differs    vh06"]),
        ("535", &["differs    2 nodes like vh08"]),
        ("!h200", &["failed     vh21"]),
        ("nothing like it", &["no node has these words: Esc shows all"]),
    ] {
        let mut cluster = Cluster::troubled((120, 40));
        // A node that never answered has no facts.
        cluster.tell(Event::NodeFacts { index: 20, host: "vh21".into(), facts: FactsOf::Like(99) });
        tabs::set_filter(&mut cluster.0, Filter::new(filter));
        let body = cluster.body();
        assert!(body[0].contains(&format!("filter {filter}")), "{}", body[0]);
        let shown: Vec<&String> = body[1..body.len() - 1].iter().filter(|row| !row.is_empty()).collect();
        assert_eq!(shown.len(), expected.len(), "{filter}: {shown:#?}");
        assert!(shown.iter().zip(expected).all(|(row, expected)| row.contains(expected)), "{filter}: {shown:#?}");
    }
}

#[test]
fn marked_nodes_are_told_as_an_option_and_exported_alone() {
    let mut cluster = Cluster::troubled((120, 40));
    let all = tabs::exported(&cluster.0).unwrap();
    assert!(all.name.ends_with("-cluster.txt"), "{}", all.name);
    assert!(all.text.lines().filter(|line| line.contains("GPU 0")).count() == 32, "{}", all.text);
    press(&mut cluster.0, "j m j j m");
    assert!(cluster.body()[0].contains("2 marked: -x vh[06,26]"), "{}", cluster.body()[0]);
    let marked = tabs::exported(&cluster.0).unwrap().text;
    let nodes: Vec<&str> = marked.lines().filter(|line| !line.starts_with(' ')).collect();
    assert!(nodes.len() == 2 && nodes[0].starts_with("differs  vh06"), "{nodes:#?}");
    assert!(marked.contains("\n  mlx5_3:1  ACTIVE LinkUp  InfiniBand 100 Gb/s  others 400 Gb/s  NUMA 0"), "{marked}");
    press(&mut cluster.0, "G m G m");
    assert!(cluster.body()[0].contains("2 marked"), "marked and not any more: {}", cluster.body()[0]);
}

#[test]
fn styles_tell_what_words_and_symbols_tell_too() {
    let cluster = Cluster::troubled((120, 40));
    let backend = paint(&cluster.0, Charset::Unicode);
    let style = |row: usize, symbol: &str| {
        let y = 5 + row as u16;
        let x = (0..120).find(|x| backend.buffer().cell((*x, y)).unwrap().symbol() == symbol).unwrap();
        backend.buffer().cell((x, y)).unwrap().style()
    };
    assert_eq!([style(0, "✗").fg, style(1, "!").fg], [Some(Color::Red), Some(Color::Red)]);
    assert_eq!([style(2, "!").fg, style(3, "!").fg], [Some(Color::Magenta), Some(Color::Magenta)]);
    assert_eq!(style(6, "✓").fg, Some(Color::Green));
    assert!(style(0, "✗").add_modifier.contains(Modifier::REVERSED), "the cursor");
    assert!(!style(1, "!").add_modifier.contains(Modifier::REVERSED));
}

#[test]
fn a_frozen_display_shows_the_nodes_as_they_were() {
    let mut cluster = Cluster::alike((80, 24), 4);
    press(&mut cluster.0, "p");
    cluster.node(2, "vh03", NodeState::Lost, "gone");
    assert!(cluster.cursor().starts_with("ready  4 nodes"), "{}", cluster.cursor());
    press(&mut cluster.0, "p g");
    assert!(cluster.cursor().starts_with("lost  vh03"), "{}", cluster.cursor());
}

#[test]
fn no_size_breaks_the_view() {
    let mut cluster = Cluster::troubled((1, 1));
    for (columns, height) in (1..200).step_by(19).flat_map(|c| (1..60).step_by(7).map(move |h| (c, h))) {
        update(&mut cluster.0, Input::Resize(columns, height));
        for script in ["G", "Enter", "g", "PgDn", "h"] {
            press(&mut cluster.0, script);
            assert_eq!(rows(&cluster.0).len(), usize::from(height));
        }
    }
}

#[test]
fn a_thousand_nodes_are_neither_slow_to_take_nor_to_draw() {
    let begun = Instant::now();
    let mut cluster = Cluster::alike((200, 60), 1_000);
    (0..1_000).step_by(3).for_each(|index| cluster.odd(index, |facts| facts.kernel = format!("6.{index}")));
    let per_record = begun.elapsed() / 2_668;
    press(&mut cluster.0, "Enter G Enter G Enter G");
    let begun = Instant::now();
    let n_rows = tabs::cluster::rows(&cluster.0).len();
    let listed = begun.elapsed();
    let begun = Instant::now();
    let screen = rows(&cluster.0).concat();
    let drawn = begun.elapsed();
    assert!(1_000 < n_rows && screen.contains("vh999"), "{n_rows} rows: {screen}");
    // An unoptimized build on a loaded machine stays far below; what looks at all nodes for each record does not.
    assert!(per_record < Duration::from_millis(1), "{per_record:?} per record");
    assert!(listed < Duration::from_millis(100), "{listed:?} for {n_rows} rows");
    assert!(drawn < Duration::from_millis(500), "{drawn:?} per frame");
}
