//! Who gives and who receives: candidates in a row, from both ends of which two fingers go towards each other.
//!
//! ```text
//!   matching   │ pinned, fullest … emptiest │ fullest …… emptiest │ the target, if it is a range │
//!   fingers    │        the first huge frame ……… the last one     │ the target, if it is a range │
//!                receive ──►                             ◄── give
//! ```
//!
//! The order is all that the two manners differ in. *Size*: 16 bytes for each huge frame that is looked at. *Time*: a heap sort.

use woodlot_frame::{Geometry, HugeId};

use crate::target::Manner;

/// What a candidate is there for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Role {
    /// It has frames that do not move: it only receives.
    Pinned,
    /// It gives or receives.
    Either,
    /// It is in the target, and gives.
    Target,
}

/// A huge frame in a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    pub(crate) huge: HugeId,
    /// Its free frames when the plan was made; from when it is to be emptied on, its free frames then.
    pub(crate) free: u16,
    /// Frames that came into use after it was emptied, each time that it was.
    pub(crate) late: u16,
    pub(crate) role: Role,
    /// The compaction has it for itself.
    pub(crate) isolated: bool,
    /// The compaction has emptied it, and has not given it back in use.
    pub(crate) won: bool,
    /// It is allocated: the caller's, or to be.
    pub(crate) kept: bool,
}

impl Candidate {
    /// What memory for candidates is made of.
    pub const EMPTY: Candidate = Candidate {
        huge: HugeId(0),
        free: 0,
        late: 0,
        role: Role::Pinned,
        isolated: false,
        won: false,
        kept: false,
    };

    /// How many of its frames were in use.
    pub(crate) fn used<G: Geometry>(&self) -> usize {
        G::HUGE_FRAMES.saturating_sub(self.free.into())
    }

    /// Its turn to be emptied comes, for the first time or again, with so many frames in use.
    pub(crate) fn begins<G: Geometry>(&mut self, used: usize) {
        match self.won {
            true => self.late = self.late.saturating_add(used as u16),
            false => self.free = G::HUGE_FRAMES.saturating_sub(used) as u16,
        }
    }

    /// How many frames it held in all.
    pub(crate) fn held<G: Geometry>(&self) -> usize {
        self.used::<G>() + usize::from(self.late)
    }
}

/// Brings candidates into the order of a manner.
pub(crate) fn arrange(candidates: &mut [Candidate], manner: Manner) {
    match manner {
        Manner::Matching => sort(candidates, |one| (one.role, one.free as usize, one.huge.0)),
        Manner::Fingers => sort(candidates, |one| (one.role.max(Role::Either), 0, one.huge.0)),
    }
}

/// A heap sort: in place, and without the panics that the core library's sort can have.
fn sort<K: Ord>(candidates: &mut [Candidate], key: impl Fn(&Candidate) -> K) {
    let len = candidates.len();
    for root in (0..len >> 1).rev() {
        sift(candidates, root, len, &key);
    }
    for end in (1..len).rev() {
        exchange(candidates, 0, end);
        sift(candidates, 0, end, &key);
    }
}

/// Lets the candidate at `root` down to its place in the heap of the first `end`.
fn sift<K: Ord>(
    candidates: &mut [Candidate],
    mut root: usize,
    end: usize,
    key: &impl Fn(&Candidate) -> K,
) {
    let at = |candidates: &[Candidate], place: usize| candidates.get(place).map(key);
    loop {
        let left = 2 * root + 1;
        if left >= end {
            return;
        }
        let right = left + 1;
        let larger = right < end && at(candidates, right) > at(candidates, left);
        let child = if larger { right } else { left };
        if at(candidates, root) >= at(candidates, child) {
            return;
        }
        exchange(candidates, root, child);
        root = child;
    }
}

fn exchange(candidates: &mut [Candidate], one: usize, other: usize) {
    if let (Some(&first), Some(&second)) = (candidates.get(one), candidates.get(other)) {
        candidates.get_mut(one).into_iter().for_each(|place| *place = second);
        candidates.get_mut(other).into_iter().for_each(|place| *place = first);
    }
}

/// How many huge frames can be emptied at the most, were all frames that are not pinned single ones.
pub(crate) fn possible<G: Geometry>(candidates: &[Candidate]) -> usize {
    let free: usize = candidates.iter().map(|one| one.free as usize).sum();
    candidates.iter().filter(|one| one.role == Role::Either).count().min(free >> G::HUGE_ORDER)
}

/// The fewest frames that must be moved to empty `count` candidates: what the emptiest ones hold that are not empty.
pub(crate) fn fewest<G: Geometry>(candidates: &[Candidate], count: usize) -> usize {
    let gives = |one: &&Candidate| one.role == Role::Either && one.used::<G>() > 0;
    let givers = || candidates.iter().filter(gives);
    let count = count.min(givers().count());
    let below = |bound: usize| givers().filter(move |one| one.used::<G>() < bound);
    // The most that one of the emptiest `count` holds.
    let (mut most, mut too_many) = (0, G::HUGE_FRAMES + 1);
    while most + 1 < too_many {
        let middle = (most + too_many) >> 1;
        if below(middle).count() <= count {
            most = middle;
        } else {
            too_many = middle;
        }
    }
    let emptier = below(most).count();
    below(most).map(Candidate::used::<G>).sum::<usize>() + (count - emptier.min(count)) * most
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;
    use woodlot_frame::{Base4K, compaction_cost};

    fn candidates(free: &[u16]) -> Vec<Candidate> {
        let one = |(huge, &free)| Candidate {
            huge: HugeId(huge),
            free,
            role: Role::Either,
            ..Candidate::EMPTY
        };
        free.iter().enumerate().map(one).collect()
    }

    #[test]
    fn candidates_are_in_the_order_of_the_manner() {
        let mut random = fastrand::Rng::with_seed(1);
        for len in 0..200 {
            let mut some: Vec<_> = (0..len)
                .map(|huge| Candidate {
                    huge: HugeId(huge),
                    free: random.u16(0..=512),
                    role: [Role::Pinned, Role::Either, Role::Target][random.usize(0..3)],
                    ..Candidate::EMPTY
                })
                .collect();
            random.shuffle(&mut some);
            let mut expected = some.clone();
            expected.sort_by_key(|one| (one.role, one.free, one.huge));
            arrange(&mut some, Manner::Matching);
            assert_eq!(some, expected);
            expected.sort_by_key(|one| (one.role == Role::Target, one.huge));
            arrange(&mut some, Manner::Fingers);
            assert_eq!(some, expected);
        }
    }

    /// Tries every set of huge frames that could be emptied: the fewest moves for each number of them.
    fn by_force(free: &[u16], pinned: u32) -> Vec<Option<usize>> {
        let mut best = std::vec![None; free.len() + 1];
        let all: usize = free.iter().map(|&free| free as usize).sum();
        for set in 0u32..1 << free.len() {
            if set & pinned != 0 {
                continue;
            }
            let of = |place: &usize| set & (1 << place) != 0;
            let moves: usize =
                (0..free.len()).filter(of).map(|place| 512 - free[place] as usize).sum();
            let kept: usize = (0..free.len()).filter(of).map(|place| free[place] as usize).sum();
            if moves <= all - kept {
                let best = &mut best[set.count_ones() as usize];
                *best = Some(best.map_or(moves, |best: usize| best.min(moves)));
            }
        }
        best
    }

    #[test]
    fn no_set_of_huge_frames_is_cheaper_to_empty() {
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..2000 {
            let len = random.usize(1..=8);
            let free: Vec<u16> = (0..len).map(|_| random.u16(1..512)).collect();
            let pinned = random.u32(0..1 << len) & random.u32(0..1 << len);
            let mut some = candidates(&free);
            for (place, one) in some.iter_mut().enumerate() {
                one.role = if pinned & (1 << place) != 0 { Role::Pinned } else { Role::Either };
            }
            let best = by_force(&free, pinned);
            assert_eq!(possible::<Base4K>(&some), best.iter().rposition(Option::is_some).unwrap());
            for (count, &best) in best.iter().enumerate().take(possible::<Base4K>(&some) + 1) {
                assert_eq!(
                    Some(fewest::<Base4K>(&some, count)),
                    best,
                    "{free:?} {pinned:b} {count}"
                );
            }
            if pinned == 0 {
                let free: Vec<_> = free.iter().map(|&free| free as usize).collect();
                let possible = possible::<Base4K>(&some);
                assert_eq!(fewest::<Base4K>(&some, possible), compaction_cost::<Base4K>(&free));
            }
        }
    }
}
