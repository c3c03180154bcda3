//! Random allocations, frees, moves, refusals and cancellations, with the content of every frame checked.

mod world;

use woodlot_compact::{Candidate, Compaction, Manner, Setup, Step, Target};
use woodlot_frame::{Base4K, FrameAllocator, HugeId, Order};
use world::{COMPACT, Mood, Owner, RIVAL, Zone, zone};

const HUGES: usize = 16;

fn target(owner: &mut Owner) -> Target {
    match owner.random.u32(..4) {
        0 => {
            let start = owner.random.usize(..HUGES);
            Target::Range(HugeId(start)..HugeId(owner.random.usize(start + 1..=HUGES)))
        }
        1 => Target::Block(Order(owner.random.u8(9..12))),
        _ => Target::Huge(owner.random.usize(..HUGES)),
    }
}

/// What the program does next.
fn act(zone: &Zone, owner: &mut Owner, most: usize) {
    let used: usize = owner.blocks.values().map(|held| held.block.order.frames()).sum();
    if owner.random.usize(..2 * most) >= used {
        let order = match owner.random.u32(..16) {
            0 => Order(owner.random.u8(7..=9)),
            1..4 => Order(owner.random.u8(1..7)),
            _ => Order(0),
        };
        let pinned = owner.random.u32(..400) == 0;
        owner.alloc(zone, order, pinned);
    } else if let Some(id) = owner.any() {
        match owner.random.u32(..50) {
            0 => {
                owner
                    .blocks
                    .entry(id)
                    .and_modify(|held| held.pinned ^= true)
                    .or_insert_with(|| unreachable!())
                    .pinned
            }
            _ => {
                owner.free(zone, id);
                false
            }
        };
    }
}

/// Takes what a compaction has kept, writes to it, and frees it.
fn give_back(work: &Compaction, zone: &Zone, owner: &mut Owner) {
    for huge in work.kept() {
        let id = owner.take(huge.first::<Base4K>(), Order::huge::<Base4K>(), false);
        owner.free(zone, id);
    }
}

/// A history; how many huge frames were won, moves made, and compactions cancelled.
fn history(seed: u64) -> [usize; 3] {
    let zone = zone(HUGES);
    let mut owner = Owner::new(zone.zone().frames, seed);
    let most = zone.zone().frames * owner.random.usize(20..90) / 100;
    (0..2000).for_each(|_| act(&zone, &mut owner, most));
    owner.tells_pinned = owner.random.bool();
    let mut seen = [0; 3];
    for _ in 0..12 {
        owner.mood = Mood::Moody([0, 1, 20][owner.random.usize(..3)]);
        let mut memory = [vec![Candidate::EMPTY; HUGES], vec![Candidate::EMPTY; HUGES]];
        let mut works: Vec<Compaction> = Vec::new();
        for (slot, memory) in [COMPACT, RIVAL].into_iter().zip(&mut memory) {
            let manner = if owner.random.bool() { Manner::Matching } else { Manner::Fingers };
            let (target, keep) = (target(&mut owner), owner.random.bool());
            let setup = Setup { target, manner, slot, keep, price: usize::MAX };
            let regions = std::iter::once(zone.zone().huge_range::<Base4K>());
            works.extend(Compaction::plan(setup, memory, &*zone, &mut owner, regions));
        }
        let mut steps = owner.random.usize(..1200);
        while !works.is_empty() && steps > 0 {
            steps -= 1;
            let chosen = owner.random.usize(..works.len());
            if let Step::Done(_) = works[chosen].step(&*zone, &mut owner) {
                let work = works.swap_remove(chosen);
                give_back(&work, &zone, &mut owner);
                let report = work.report::<Base4K>();
                seen[0] += report.won;
                seen[1] += report.moves;
            }
            if owner.random.u32(..4) == 0 {
                act(&zone, &mut owner, most);
            }
            if owner.random.u32(..64) == 0 {
                owner.check();
            }
        }
        for mut work in works {
            work.cancel(&*zone);
            give_back(&work, &zone, &mut owner);
            seen[2] += 1;
        }
        owner.check_all(&zone);
    }
    seen
}

#[test]
fn no_frame_is_lost_doubled_or_torn() {
    let mut seen = [0; 3];
    for seed in 0..24 {
        let more = history(seed);
        seen.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }
    // The seeds are always the same, and so is what they reach.
    assert!(seen[0] > 100 && seen[1] > 10_000 && seen[2] > 20, "{seen:?}");
}
