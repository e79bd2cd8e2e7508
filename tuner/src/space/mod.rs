//! What can be searched: dimensions of the environment, and choices per collective.
//!
//! The first value of every dimension is what runs when the search changes nothing. What is to be searched comes from a
//! space file ([`Selection`]); what the engine, the path or the library does not have is left out, and said. Must not
//! measure or search; a space is data.

mod build;
mod constraints;
mod native;
mod nccl;
mod pin;

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::{
    bindings::Bindings,
    setting::Values,
    space::Selection,
    vocab::{Choice, Collective, Engine, Environment},
};

pub use self::{
    build::{Built, LeftOut},
    constraints::Constraints,
    nccl::{NcclFacts, Transport},
    pin::{ChoicePin, Pin, PinError, Pins, check_pin},
};

/// Vectors up to this many are looked at one by one to count environments.
const MOST_COUNTED: usize = 1_000;

/// One process-level knob and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dimension {
    /// Variable name.
    pub name: String,
    /// Values; `None` leaves the variable as the site has it. Never empty.
    pub values: Vec<Option<String>>,
}

/// Everything that a search may choose from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Space {
    /// Process-level knobs.
    pub dimensions: Vec<Dimension>,
    /// Choices per collective, in order of preference at ties. A collective without choices is tuned by its
    /// environment only.
    pub choices: BTreeMap<Collective, Vec<Choice>>,
    /// What knobs say about each other.
    pub constraints: Constraints,
}

/// What is known of the cluster and wanted by the user.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// What will run.
    pub engine: Engine,
    /// Nodes.
    pub nodes: u32,
    /// Ranks over all nodes.
    pub ranks: u32,
    /// What a job can be bound to there.
    pub bindings: Bindings,
    /// Collectives of the workload.
    pub collectives: Vec<Collective>,
    /// Most channels that a choice may have.
    pub max_channels: u16,
    /// What is to be searched, where it is there.
    pub selection: Selection,
    /// Values that the user wants searched beside those.
    pub adds: Vec<Values>,
    /// Variables that the user fixed.
    pub pins: BTreeMap<String, String>,
    /// What the user took out: a variable, `VARIABLE=value`, an algorithm or a protocol.
    pub excludes: BTreeSet<String>,
    /// Variables whose value, the site's or none, must stay as it is.
    pub forced: BTreeSet<String>,
    /// What the engine said.
    pub nccl: NcclFacts,
}

/// A space that could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// Only some engines have a space of their own.
    #[error("the {0} engine brings its own space: take it from the grid or the cluster file")]
    Engine(Engine),
    /// What runs when nothing is changed must be allowed.
    #[error("the settings that are fixed are forbidden together by the space: {0}")]
    Forbidden(Environment),
}

impl Space {
    /// Number of values of each dimension.
    pub fn shape(&self) -> Vec<usize> {
        self.dimensions.iter().map(|dimension| dimension.values.len()).collect()
    }

    /// Number of environments, saturating. Where some vectors are equal or forbidden and there are over
    /// a thousand, it is that of vectors.
    pub fn environments(&self) -> usize {
        let shape = self.shape();
        let vectors = shape.iter().copied().fold(1, usize::saturating_mul);
        if self.constraints.is_empty() || MOST_COUNTED < vectors {
            return vectors;
        }
        let vector = |number: usize| -> Vec<usize> {
            let mut rest = number;
            let digit = |values: &usize| {
                let index = rest % values;
                rest /= values;
                index
            };
            shape.iter().map(digit).collect()
        };
        (0..vectors).filter_map(|number| self.canonical(&vector(number))).collect::<BTreeSet<_>>().len()
    }

    /// The one vector that stands for all that are the same environment; `None` where the space forbids it.
    ///
    /// A knob that is searched only where another has certain values is left alone elsewhere. Missing or too large
    /// indices take the first value, as in [`Self::environment`].
    pub fn canonical(&self, vector: &[usize]) -> Option<Vec<usize>> {
        self.constraints.canonical(&self.dimensions, vector)
    }

    /// The environment of an index vector. Missing or too large indices take the first value.
    pub fn environment(&self, indices: &[usize]) -> Environment {
        let value = |(position, dimension): (usize, &Dimension)| {
            let index = indices.get(position).copied().unwrap_or(0);
            let value = dimension.values.get(index).or_else(|| dimension.values.first())?;
            value.clone().map(|value| (dimension.name.clone(), value))
        };
        self.dimensions.iter().enumerate().filter_map(value).collect()
    }

    /// The index vector of an environment; `None` if it is not part of the space.
    pub fn indices(&self, environment: &Environment) -> Option<Vec<usize>> {
        let known = |name: &str| self.dimensions.iter().any(|dimension| dimension.name == name);
        if !environment.iter().all(|(name, _)| known(name)) {
            return None;
        }
        let index = |dimension: &Dimension| {
            let wanted = environment.get(&dimension.name);
            dimension.values.iter().position(|value| value.as_deref() == wanted)
        };
        self.dimensions.iter().map(index).collect()
    }
}

fn dimension(name: &str, values: impl IntoIterator<Item = String>) -> Dimension {
    Dimension { name: name.to_owned(), values: std::iter::once(None).chain(values.into_iter().map(Some)).collect() }
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::{
        bindings::{Node, ceilings::Ceilings},
        space::SpaceFile,
        topology::{Address, Gpu, Hca, Interface, Machine, Port},
        vocab::{Algorithm, PcieDistance, Protocol},
    };
    use proptest::prelude::*;

    use super::*;

    /// Two nodes with these interfaces, a GPU, and HCAs `mlx5_N`, of which the first is at the GPU's switch, and the others across
    /// sockets.
    pub(super) fn bindings(interfaces: &[&str], hcas: usize) -> Bindings {
        let port = Port { number: 1, state: "ACTIVE".into(), link_layer: "InfiniBand".into(), rate: "400 Gb/s".into() };
        let hca = |at| Hca { name: format!("mlx5_{at}"), ports: vec![port.clone()], ..Hca::default() };
        let distance = |at| Some(if at == 0 { PcieDistance::Pix } else { PcieDistance::Sys });
        let machine = |host: u8| {
            let interface = |(at, name): (usize, &&str)| Interface {
                name: (*name).to_owned(),
                is_loopback: false,
                addresses: vec![Address { ip: [10, 0, at as u8, host].into(), prefix: Some(24) }],
            };
            Machine {
                gpus: vec![Gpu::default()],
                hcas: (0..hcas).map(hca).collect(),
                to_hcas: vec![(0..hcas).map(distance).collect()],
                interfaces: interfaces.iter().enumerate().map(interface).collect(),
                ..Machine::default()
            }
        };
        let machines = [machine(1), machine(2)];
        let nodes = [Node::whole("n1", &machines[0]), Node::whole("n2", &machines[1])];
        Bindings::of(&nodes, &Ceilings::default())
    }

    fn facts(interfaces: &[&str]) -> Facts {
        Facts {
            engine: Engine::Native,
            nodes: 4,
            ranks: 4,
            bindings: bindings(interfaces, 0),
            collectives: Collective::ALL.to_vec(),
            max_channels: 4,
            selection: SpaceFile::preset(SpaceFile::STANDARD).unwrap().selection,
            adds: Vec::new(),
            pins: BTreeMap::new(),
            excludes: BTreeSet::new(),
            forced: BTreeSet::new(),
            nccl: NcclFacts::default(),
        }
    }

    fn values<'a>(space: &'a Space, name: &str) -> Vec<Option<&'a str>> {
        let dimension = space.dimensions.iter().find(|dimension| dimension.name == name);
        dimension.map(|d| d.values.iter().map(Option::as_deref).collect()).unwrap_or_default()
    }

    #[test]
    fn the_native_space_follows_collectives_and_interfaces() {
        let space = Space::build(&facts(&["eth0", "ib0"])).unwrap().space;
        assert_eq!(values(&space, "NCCL_SOCKET_IFNAME"), [None, Some("=eth0"), Some("=ib0")]);
        assert_eq!(values(&space, "GDRTUNE_NATIVE_NSOCKS"), [None, Some("2"), Some("4")]);
        let counts: Vec<usize> = Collective::ALL.iter().map(|c| space.choices.get(c).map_or(0, Vec::len)).collect();
        // ring and tree, 3 protocols, channels 1, 2 and 4; no tree for all-gather and reduce-scatter.
        assert_eq!(counts, [18, 9, 9, 18, 18, 0, 0]);
        let three = Space::build(&facts(&["a", "b", "c"])).unwrap().space;
        assert!(values(&three, "NCCL_SOCKET_IFNAME").contains(&Some("=a,c")));
        assert_eq!(
            values(&Space::build(&facts(&["only"])).unwrap().space, "NCCL_SOCKET_IFNAME"),
            Vec::<Option<&str>>::new()
        );
    }

    #[test]
    fn pins_and_excludes_shape_the_space() {
        let mut wanted = facts(&["eth0", "ib0"]);
        wanted.pins = [("NCCL_SOCKET_IFNAME".into(), "=ib0".into()), ("OTHER".into(), "1".into())].into();
        wanted.excludes = ["tree", "ll128", "GDRTUNE_NATIVE_NSOCKS", "GDRTUNE_NATIVE_CHUNKSIZE=65536"]
            .map(str::to_owned)
            .into_iter()
            .collect();
        let space = Space::build(&wanted).unwrap().space;
        let first = space.environment(&[0; 3]);
        assert_eq!(first.to_string(), "NCCL_SOCKET_IFNAME==ib0 OTHER=1");
        assert_eq!(space.shape(), [1, 3, 1]);
        assert!(
            space.choices.values().flatten().all(|c| c.algorithm == Algorithm::Ring && c.protocol != Protocol::Ll128)
        );
        let before = space.shape();
        wanted.excludes.insert("nvls".to_owned());
        assert_eq!(Space::build(&wanted).unwrap().space.shape(), before, "what is not there is out already");
    }

    #[test]
    fn other_engines_are_refused() {
        let error = Space::build(&Facts { engine: Engine::Sim, ..facts(&[]) }).unwrap_err();
        assert_eq!(error, SpaceError::Engine(Engine::Sim));
    }

    proptest! {
        #[test]
        fn indices_and_environments_are_two_names_of_one_thing(seed in proptest::collection::vec(0usize..50, 3)) {
            let space = Space::build(&facts(&["a", "b", "c"])).unwrap().space;
            let indices: Vec<usize> = space.shape().iter().zip(seed).map(|(values, i)| i % values).collect();
            let environment = space.environment(&indices);
            prop_assert_eq!(space.indices(&environment), Some(indices));
            prop_assert_eq!(space.indices(&environment.with("UNKNOWN", "1")), None);
        }
    }
}
