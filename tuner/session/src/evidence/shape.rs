//! Which job shapes a run has times of, and what is said of another one.

use std::fmt;

use crate::event::{Event, Record};

/// A job shape that has no times.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no times of {}: there are those of {}{}", Shown(*.wanted), list(.measured), near(*.wanted, .measured))]
pub struct OtherShape {
    /// Nodes, and ranks over all of them, that were asked for.
    pub wanted: (u32, u32),
    /// Those that were measured.
    pub measured: Vec<(u32, u32)>,
}

/// Checks that a job shape is one of those that were measured.
///
/// # Errors
/// [`OtherShape`]
pub fn check_shape(wanted: (u32, u32), measured: &[(u32, u32)]) -> Result<(), OtherShape> {
    if measured.contains(&wanted) {
        return Ok(());
    }
    let mut measured = measured.to_vec();
    measured.sort_unstable();
    measured.dedup();
    Err(OtherShape { wanted, measured })
}

/// A shape as `--shape` takes it, where every node has as many ranks.
struct Shown((u32, u32));

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            (nodes, ranks) if 0 < nodes && ranks.is_multiple_of(nodes) => write!(f, "{nodes}x{}", ranks / nodes),
            (nodes, ranks) => write!(f, "{nodes} nodes with {ranks} ranks"),
        }
    }
}

fn list(shapes: &[(u32, u32)]) -> String {
    let names: Vec<String> = shapes.iter().map(|shape| Shown(*shape).to_string()).collect();
    if names.is_empty() { "no shape".to_owned() } else { names.join(", ") }
}

/// The shape that is meant where nodes and ranks of a node changed places. Another number is another shape, however like it its name
/// is: no other one is guessed.
fn near((nodes, ranks): (u32, u32), measured: &[(u32, u32)]) -> String {
    let of_node = ranks.checked_div(nodes).filter(|of_node| of_node.checked_mul(nodes) == Some(ranks));
    let swapped = of_node.map(|of_node| (of_node, ranks)).filter(|shape| measured.contains(shape));
    swapped.map(|shape| format!("; did you mean `{}`?", Shown(shape))).unwrap_or_default()
}

/// Nodes and ranks of the shapes that a run tunes, in that order, or of the only one, which is what is left of its nodes.
pub fn shapes(records: &[Record]) -> Vec<(u32, u32)> {
    let (mut named, mut whole) = (Vec::new(), None);
    for record in records {
        match record.event {
            Event::Shape { nodes, ranks, .. } if !named.contains(&(nodes, ranks)) => named.push((nodes, ranks)),
            Event::RunStarted { nodes, ranks, .. } => whole = Some((nodes, ranks)),
            Event::NodeSet { nodes, ranks, .. } => {
                named.clear();
                whole = Some((nodes, ranks));
            }
            _ => {}
        }
    }
    if named.is_empty() { whole.into_iter().collect() } else { named }
}

/// The job shapes that a run has times of: [`shapes`], and of emulated nodes, each rank may pose as one.
pub fn measured_shapes(records: &[Record]) -> Vec<(u32, u32)> {
    let mut shapes = shapes(records);
    if let [(_, ranks)] = shapes[..]
        && records.iter().any(|record| matches!(record.event, Event::Emulated { .. }))
    {
        shapes.push((ranks, ranks));
    }
    shapes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_that_was_not_measured_is_refused_with_those_that_were() {
        let shape = |nodes, ranks| Event::Shape { index: 0, of: 2, nodes, ranks };
        let set = |nodes, ranks| Event::NodeSet { hosts: "a".into(), nodes, ranks, left_out: Vec::new() };
        let of = |events: Vec<Event>| {
            let records: Vec<Record> = (0..).zip(events).map(|(seq, event)| Record { seq, t_ms: 0, event }).collect();
            measured_shapes(&records)
        };
        assert_eq!(of(vec![shape(4, 32), shape(2, 16)]), [(4, 32), (2, 16)]);
        assert_eq!(of(vec![shape(4, 32), set(3, 24), shape(3, 24)]), [(3, 24)]);
        assert_eq!(of(vec![set(1, 4), Event::Emulated { why: String::new() }]), [(1, 4), (4, 4)]);
        assert_eq!(of(Vec::new()), []);
        let measured = [(4, 32), (1, 6), (4, 32), (2, 5)];
        assert_eq!(check_shape((2, 5), &measured), Ok(()));
        for (wanted, expected) in [
            // Names that are alike are not shapes that are alike.
            ((4, 36), "no times of 4x9: there are those of 1x6, 2 nodes with 5 ranks, 4x8"),
            ((8, 32), "no times of 8x4: there are those of 1x6, 2 nodes with 5 ranks, 4x8; did you mean `4x8`?"),
            ((64, 640), "no times of 64x10: there are those of 1x6, 2 nodes with 5 ranks, 4x8"),
        ] {
            assert_eq!(check_shape(wanted, &measured).unwrap_err().to_string(), expected);
        }
        assert_eq!(check_shape((1, 1), &[]).unwrap_err().to_string(), "no times of 1x1: there are those of no shape");
    }
}
