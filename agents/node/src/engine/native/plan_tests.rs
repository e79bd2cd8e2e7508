//! Plans of all ranks put together.

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::{Algorithm, Collective};
use proptest::prelude::*;

use super::*;

fn call() -> impl Strategy<Value = Call> {
    let collectives = proptest::sample::select(Collective::ALL.to_vec());
    let algorithms = prop_oneof![Just(Algorithm::Ring), Just(Algorithm::Tree)];
    (collectives, algorithms, 0usize..5000, 1u32..40, any::<u32>(), any::<bool>(), 1usize..9).prop_map(
        |(collective, algorithm, elements, world, root, in_place, lanes)| Call {
            collective,
            algorithm,
            bytes: elements * 4,
            element: 4,
            rank: 0,
            world,
            root: root % world,
            in_place: in_place && collective.has_choice(),
            lanes,
        },
    )
}

proptest! {
    #[test]
    fn both_ends_of_every_connection_agree(call in call()) {
        let mut sent = BTreeMap::new();
        let mut received = BTreeMap::new();
        let links: Vec<_> = (0..call.world).map(|rank| Call { rank, ..call }.plan().links()).collect();
        for rank in 0..call.world {
            let plan = Call { rank, ..call }.plan();
            for lane in &plan.lanes {
                for stream in &lane.sends {
                    let bytes: Vec<usize> = stream.segments.iter().map(|segment| segment.bytes).collect();
                    prop_assert!(sent.insert((rank, stream.peer, lane.lane), bytes).is_none(), "two streams one way");
                }
                for stream in &lane.receives {
                    let bytes: Vec<usize> = stream.segments.iter().map(|segment| segment.bytes).collect();
                    prop_assert!(received.insert((stream.peer, rank, lane.lane), bytes).is_none(), "two streams one way");
                }
            }
            for (peer, lane) in plan.links() {
                prop_assert!(links[peer as usize].contains(&(rank, lane)), "only one end wants a connection");
            }
        }
        prop_assert_eq!(sent, received);
    }

    #[test]
    fn everything_stays_inside_the_buffers(call in call(), rank in any::<u32>()) {
        let call = Call { rank: rank % call.world, ..call };
        let plan = call.plan();
        let is_inside = |place: Place, bytes: usize| bytes > 0 && place.start + bytes <= call.span();
        for lane in &plan.lanes {
            for segment in lane.receives.iter().flat_map(|stream| &stream.segments) {
                prop_assert!(is_inside(segment.target, segment.bytes));
                if let Action::Combine(operand) = segment.action {
                    prop_assert!(is_inside(operand, segment.bytes));
                    // The pump combines in place or between different areas.
                    prop_assert!(operand == segment.target || operand.area != segment.target.area);
                }
            }
            for segment in lane.sends.iter().flat_map(|stream| &stream.segments) {
                prop_assert!(is_inside(segment.source, segment.bytes));
            }
        }
        for copy in &plan.copies {
            prop_assert!(is_inside(copy.source, copy.bytes) && is_inside(copy.target, copy.bytes));
        }
    }
}

#[test]
fn a_ring_needs_two_neighbours_however_large_it_is() {
    let call = Call {
        collective: Collective::AllReduce,
        algorithm: Algorithm::Ring,
        bytes: 1 << 20,
        element: 4,
        rank: 5,
        world: 64,
        root: 0,
        in_place: false,
        lanes: 16,
    };
    assert_eq!(call.plan().links().len(), 2 * 16);
    let tree = Call { algorithm: Algorithm::Tree, ..call };
    assert!(tree.plan().links().len() <= 4 * 16);
}
