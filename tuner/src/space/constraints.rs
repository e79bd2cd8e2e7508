//! Knobs that depend on each other: some are only searched where another has a value, some settings are not tried together.

use gdrtune_profiles::{bindings::Idle, setting::Values};

use super::Dimension;

/// What the knobs of a space say about each other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Constraints {
    /// A knob, and what another one must be set to. Elsewhere the first is left alone.
    pub conditions: Vec<(String, Values)>,
    /// What does nothing with some values of another knob, and is left alone there.
    pub idle: Vec<Idle>,
    /// Settings of which not all may hold at once.
    pub forbidden: Vec<Vec<Values>>,
}

impl Constraints {
    /// Whether knobs are independent.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty() && self.idle.is_empty() && self.forbidden.is_empty()
    }

    pub(super) fn canonical(&self, dimensions: &[Dimension], vector: &[usize]) -> Option<Vec<usize>> {
        let index = |(position, dimension): (usize, &Dimension)| {
            vector.get(position).copied().filter(|index| *index < dimension.values.len()).unwrap_or(0)
        };
        let mut vector: Vec<usize> = dimensions.iter().enumerate().map(index).collect();
        // Each pass sets at least one more index to 0: a chain of conditions ends, and so does a circle.
        while let Some(position) = self.inactive(dimensions, &vector) {
            vector[position] = 0;
        }
        let holds = |values: &Values| values.include(value(dimensions, &vector, &values.name));
        let is_forbidden = self.forbidden.iter().any(|settings| settings.iter().all(holds));
        (!is_forbidden).then_some(vector)
    }

    /// A knob that is set although it does nothing.
    fn inactive(&self, dimensions: &[Dimension], vector: &[usize]) -> Option<usize> {
        let holds = |values: &Values| values.include(value(dimensions, vector, &values.name));
        let unmet = self.conditions.iter().filter(|(_, when)| !holds(when)).map(|(name, _)| name);
        let idle = self.idle.iter().filter(|idle| holds(&idle.with) && holds(&idle.knob)).map(|idle| &idle.knob.name);
        unmet.chain(idle).find_map(|name| {
            let position = dimensions.iter().position(|dimension| dimension.name == *name)?;
            (vector[position] != 0).then_some(position)
        })
    }
}

/// The value of a variable at a vector.
fn value<'a>(dimensions: &'a [Dimension], vector: &[usize], name: &str) -> Option<&'a str> {
    let (dimension, index) = dimensions.iter().zip(vector).find(|(dimension, _)| dimension.name == name)?;
    dimension.values.get(*index)?.as_deref()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::space::Space;

    fn values(name: &str, values: &[&str]) -> Values {
        Values { name: name.to_owned(), values: values.iter().map(ToString::to_string).collect() }
    }

    /// A, B and C with the values 1 and 2 beside none; B where A is 2, C where B is set; not A=1 with D=1.
    fn space() -> Space {
        let dimension = |name: &str, count: usize| Dimension {
            name: name.to_owned(),
            values: std::iter::once(None).chain((1..=count).map(|value| Some(value.to_string()))).collect(),
        };
        Space {
            dimensions: vec![dimension("C", 2), dimension("A", 2), dimension("B", 2), dimension("D", 1)],
            constraints: Constraints {
                conditions: vec![("B".to_owned(), values("A", &["2"])), ("C".to_owned(), values("B", &[]))],
                forbidden: vec![vec![values("A", &["1"]), values("D", &[])]],
                ..Constraints::default()
            },
            ..Space::default()
        }
    }

    #[test]
    fn equal_environments_have_one_vector_and_forbidden_ones_none() {
        let space = space();
        for (vector, canonical) in [
            // Order: C A B D.
            (&[1, 2, 1, 1][..], Some([1, 2, 1, 1])),
            (&[1, 2, 0, 0], Some([0, 2, 0, 0])),
            (&[2, 1, 2, 0], Some([0, 1, 0, 0])),
            (&[2, 0, 2, 1], Some([0, 0, 0, 1])),
            (&[0, 1, 0, 1], None),
            // A forbidden setting that is only left alone.
            (&[2, 1, 2, 1], None),
            (&[9, 9], Some([0, 0, 0, 0])),
        ] {
            assert_eq!(space.canonical(vector), canonical.map(Vec::from), "{vector:?}");
        }
        // A=2: B none, or B 1 or 2 with three C each; times D. A none: times D. A=1 without D.
        assert_eq!(space.environments(), 7 * 2 + 2 + 1);
    }

    #[test]
    fn what_does_nothing_with_another_value_is_left_alone_there() {
        let mut space = space();
        let idle = Idle { with: values("A", &["1"]), knob: values("D", &[]) };
        space.constraints = Constraints { idle: vec![idle], ..Constraints::default() };
        assert_eq!(space.canonical(&[1, 1, 2, 1]), Some(vec![1, 1, 2, 0]), "the same environment");
        assert_eq!(space.canonical(&[1, 2, 2, 1]), Some(vec![1, 2, 2, 1]));
        assert_eq!(space.environments(), 3 * 3 * (2 + 1 + 2));
    }

    #[test]
    fn a_circle_of_conditions_ends() {
        let mut space = space();
        space.constraints.conditions = vec![("A".to_owned(), values("B", &[])), ("B".to_owned(), values("A", &[]))];
        assert_eq!(space.canonical(&[0, 1, 1, 0]), Some(vec![0, 1, 1, 0]));
        assert_eq!(space.canonical(&[0, 1, 0, 0]), Some(vec![0; 4]));
    }

    proptest! {
        #[test]
        fn a_canonical_vector_stays_and_means_one_environment(vector in proptest::collection::vec(0usize..3, 4)) {
            let space = space();
            if let Some(canonical) = space.canonical(&vector) {
                prop_assert_eq!(space.canonical(&canonical), Some(canonical.clone()));
                prop_assert_eq!(space.indices(&space.environment(&canonical)), Some(canonical));
            }
        }
    }

    #[test]
    fn without_constraints_every_vector_stands_for_itself() {
        let space = Space { constraints: Constraints::default(), ..space() };
        let all: BTreeSet<Vec<usize>> = (0..3).map(|c| space.canonical(&[c, 1, 2, 1]).unwrap()).collect();
        assert_eq!((all.len(), space.environments()), (3, 54));
    }
}
