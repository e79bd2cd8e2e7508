//! Shape of the trees. Pure.
//!
//! Ranks are numbered from the root. Even lanes use a binary heap, odd lanes its mirror image, so that with two lanes or
//! more a rank that forwards in one tree is mostly a leaf of the other (the idea of NCCL's double binary trees).

/// A rank's neighbours in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Neighbours {
    /// Where results come from; `None` at the root.
    pub(super) parent: Option<u32>,
    /// Who reports here, in the order in which they are combined.
    pub(super) children: Vec<u32>,
}

/// Most children of a rank. NCCL's trees have up to three (`NCCL_MAX_TREE_ARITY`, `src/include/device.h`).
pub(super) const ARITY: u32 = 3;

/// Neighbours of `rank` in the tree of `lane` with this root.
pub(super) fn neighbours(rank: u32, world: u32, root: u32, lane: usize) -> Neighbours {
    let mirrored = lane % 2 == 1;
    let flip = |position: u32| if mirrored { (world - position) % world } else { position };
    let position = flip((rank + world - root) % world);
    let rank_at = |position: u32| (flip(position) + root) % world;
    Neighbours {
        parent: (position > 0).then(|| rank_at((position - 1) / ARITY)),
        children: (1..=ARITY).map(|k| position * ARITY + k).take_while(|&c| c < world).map(rank_at).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rank_hangs_on_the_root_and_both_ends_agree() {
        for world in 1..20 {
            for root in 0..world {
                for lane in 0..2 {
                    let all: Vec<_> = (0..world).map(|rank| neighbours(rank, world, root, lane)).collect();
                    let mut reached = BTreeSet::from([root]);
                    let mut frontier = vec![root];
                    while let Some(rank) = frontier.pop() {
                        for &child in &all[rank as usize].children {
                            assert_eq!(all[child as usize].parent, Some(rank), "world {world} root {root} lane {lane}");
                            assert!(reached.insert(child), "rank {child} has two parents");
                            frontier.push(child);
                        }
                    }
                    assert_eq!(reached.len(), world as usize);
                    assert_eq!(all[root as usize].parent, None);
                }
            }
        }
    }

    #[test]
    fn who_forwards_in_one_tree_is_a_leaf_of_the_other() {
        let forwards =
            |lane| -> Vec<u32> { (1..16).filter(|&rank| !neighbours(rank, 16, 0, lane).children.is_empty()).collect() };
        assert_eq!(forwards(0), [1, 2, 3, 4]);
        assert_eq!(forwards(1), [12, 13, 14, 15]);
    }
}
