//! The scenarios, and what is judged.

use woodlot_explore::{Model, Options, View, note, settle};
use woodlot_frame::atomics::{AtomicU16, AtomicU64, Ordering};
use woodlot_frame::{FrameId, Geometry, Order};

use crate::tags::Tags;

/// Frames of a world; all lie in one block of the largest order.
const FRAMES: usize = 4;
/// The number of the dead member. Living ones have the numbers 1, 2, …
const DEAD: u16 = 9;
/// Beside a number: a free has begun.
const FREEING: u16 = 1 << 15;

#[derive(Clone, Copy)]
struct Tiny;

impl Geometry for Tiny {
    const BASE_SHIFT: u32 = 12;
    const HUGE_ORDER: u32 = 1;
    const NAME: &'static str = "tiny";
    const TREE_HUGE: usize = 2;
}

/// The allocator and the tags.
struct World {
    row: AtomicU64,
    tags: [AtomicU16; FRAMES],
}

/// What a thread does.
#[derive(Clone, Copy)]
enum Op {
    /// Allocates a block of this order, and tags it.
    Alloc(u8),
    /// Frees what it has allocated, or half of it.
    Free(u8),
    /// Frees this frame, which the dead member has given away.
    FreeGiven(usize),
    /// Makes a block its own that the dead member has given away.
    Adopt(usize, u8),
    /// Releases the dead member.
    Release,
}

/// What a thread says: what it owns, and the frames of the call that it has under way, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Said {
    owns: u64,
    under_way: u64,
    /// The call under way is a release: it is in a block of the dead member's.
    releases: bool,
}

fn bits(first: usize, order: u8) -> u64 {
    ((1 << (1 << order)) - 1) << first
}

impl World {
    /// With these frames: allocated or not, and their tags.
    fn new(frames: [(bool, u16); FRAMES]) -> World {
        let row = (0..FRAMES).filter(|&at| frames[at].0).fold(0, |row, at| row | 1 << at);
        World { row: AtomicU64::new(row), tags: frames.map(|frame| AtomicU16::new(frame.1)) }
    }

    fn tags(&self) -> Tags<'_> {
        Tags::new(&self.tags, FrameId(0))
    }

    /// Takes the first free block.
    fn alloc(&self, order: u8) -> Option<usize> {
        let mut row = self.row.load(Ordering::SeqCst);
        loop {
            let firsts = (0..FRAMES).step_by(1 << order);
            let first = firsts.into_iter().find(|&first| row & bits(first, order) == 0)?;
            let taken = row | bits(first, order);
            match self.row.compare_exchange(row, taken, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Some(first),
                Err(now) => row = now,
            }
        }
    }

    /// Gives a block back, if all of it is allocated.
    fn free(&self, first: usize, order: u8) -> bool {
        let mut row = self.row.load(Ordering::SeqCst);
        while row & bits(first, order) == bits(first, order) {
            let free = row & !bits(first, order);
            match self.row.compare_exchange(row, free, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return true,
                Err(now) => row = now,
            }
        }
        false
    }

    /// Does what a member of this number does.
    fn run(&self, id: u16, ops: &[Op]) {
        let mut owns = 0;
        for op in ops {
            match *op {
                Op::Alloc(order) => {
                    // It may get any of them.
                    note(Said { owns, under_way: bits(0, 2), releases: false });
                    if let Some(first) = self.alloc(order) {
                        owns |= bits(first, order);
                        note(Said { owns, under_way: bits(first, order), releases: false });
                        self.tags().own(FrameId(first)..FrameId(first + (1 << order)), id);
                    }
                }
                // It may have got nothing.
                Op::Free(_) if owns == 0 => {}
                Op::Free(order) => {
                    let first = owns.trailing_zeros() as usize;
                    owns = self.free_tagged(id, owns, first, order);
                }
                Op::FreeGiven(frame) => owns = self.free_tagged(id, owns, frame, 0),
                Op::Adopt(first, order) => {
                    let row = |frame: FrameId| self.row.load(Ordering::SeqCst) & 1 << frame.0 != 0;
                    let block = FrameId(first)..FrameId(first + (1 << order));
                    let adopted = self.tags().adopt(&block, id, row);
                    owns |= ((1 << adopted) - 1) << first;
                }
                Op::Release => {
                    note(Said { owns, under_way: 0, releases: true });
                    let free = |first: FrameId, order: Order| {
                        assert!(self.free(first.0, order.0), "nobody else frees it");
                        true
                    };
                    self.tags().free_owned::<Tiny>(DEAD, free);
                }
            }
            settle(&[owns]);
            note(Said { owns, ..Said::default() });
        }
    }

    fn free_tagged(&self, id: u16, owns: u64, first: usize, order: u8) -> u64 {
        let block = FrameId(first)..FrameId(first + (1 << order));
        let owns = owns & !bits(first, order);
        note(Said { owns, under_way: bits(first, order), releases: false });
        let marked = self.tags().mark(&block, id);
        if marked == 1 << order {
            assert!(self.free(first, order), "nobody else frees it");
        } else {
            let is_free = |frame: FrameId| self.row.load(Ordering::SeqCst) & 1 << frame.0 == 0;
            self.tags().unmark(FrameId(first)..FrameId(first + marked), is_free);
        }
        owns
    }

    fn judge(&self, said: &[Said]) {
        let row = self.row.load(Ordering::SeqCst);
        let owned = said.iter().fold(0, |owned, said| {
            assert_eq!(owned & said.owns, 0, "two members own a frame");
            owned | said.owns
        });
        assert_eq!(owned & !row, 0, "a frame of a living member is free");
        let under_way = said.iter().fold(0, |all, said| all | said.under_way);
        let releases = said.iter().filter(|said| said.releases).count() as u32;
        let mut hidden = 0;
        for (at, tag) in self.tags.iter().enumerate() {
            let (tag, allocated) = (tag.load(Ordering::SeqCst), row & 1 << at != 0);
            let is_owned = tag != 0 && tag & FREEING == 0;
            assert!(allocated || !is_owned, "frame {at} is free and has the tag {tag}");
            let is_hidden = allocated && !is_owned && under_way & 1 << at == 0;
            hidden += is_hidden as u32;
        }
        assert!(hidden <= 2 * releases, "{hidden} frames are hidden by {releases} releases");
    }

    /// When all have returned.
    fn judge_end(&self, said: &[Said]) {
        self.judge(said);
        let owned = said.iter().fold(0, |all, said| all | said.owns);
        assert_eq!(self.row.load(Ordering::SeqCst), owned, "all else is free");
        for (at, tag) in self.tags.iter().enumerate() {
            let owner = said.iter().position(|said| said.owns & 1 << at != 0);
            let tag = tag.load(Ordering::SeqCst);
            let expected = owner.map_or(0, |owner| owner as u16 + 1);
            assert_eq!(if tag & FREEING == 0 { tag } else { 0 }, expected, "frame {at}");
        }
    }
}

/// Explores what these members do.
fn explore(name: &str, frames: [(bool, u16); FRAMES], threads: &'static [&'static [Op]]) {
    let world = World::new(frames);
    let options = Options::new().solo_progress(60).max_steps(400);
    woodlot_explore::scenario(name, 3_000_000, options, |model: &mut Model<'_>| {
        model.name("row", std::slice::from_ref(&world.row));
        model.name("tags", &world.tags);
        let world = &world;
        for (number, &ops) in threads.iter().enumerate() {
            model.thread(move || world.run(number as u16 + 1, ops));
        }
        let said = |view: &View<'_>| -> Vec<Said> {
            let last = |thread| {
                view.notes::<Said>(thread).last().map_or_else(Said::default, |&&said| said)
            };
            (0..threads.len()).map(last).collect()
        };
        model.invariant(move |view| world.judge(&said(view)));
        model.finally(move |view| world.judge_end(&said(view)));
    });
}

mod scenarios {
    use super::Op::{Adopt, Alloc, Free, FreeGiven, Release};
    use super::{DEAD, FREEING, explore};

    const OF_DEAD: (bool, u16) = (true, DEAD);
    const NEVER: (bool, u16) = (false, 0);
    /// Free, and last the dead member's.
    const FREED: (bool, u16) = (false, FREEING | DEAD);

    #[test]
    fn release_beside_calls() {
        let frames = [OF_DEAD, OF_DEAD, FREED, NEVER];
        explore("release beside calls", frames, &[&[Release], &[Alloc(0), Free(0), Alloc(0)]]);
    }

    #[test]
    fn release_beside_larger_blocks() {
        let frames = [OF_DEAD, OF_DEAD, FREED, FREED];
        explore(
            "release beside larger blocks",
            frames,
            &[&[Release], &[Alloc(1), Free(0), Free(0)]],
        );
    }

    #[test]
    fn two_release() {
        let frames = [OF_DEAD, OF_DEAD, OF_DEAD, FREED];
        explore("two release", frames, &[&[Release], &[Release, Alloc(0)]]);
    }

    #[test]
    fn release_beside_who_was_given_frames() {
        let frames = [OF_DEAD, OF_DEAD, NEVER, OF_DEAD];
        explore(
            "release beside who was given frames",
            frames,
            &[&[Release], &[FreeGiven(0), FreeGiven(1), Alloc(0)]],
        );
    }

    #[test]
    fn release_beside_who_adopts_frames() {
        let frames = [OF_DEAD, OF_DEAD, NEVER, OF_DEAD];
        explore("release beside who adopts frames", frames, &[&[Release], &[Adopt(0, 1), Free(0)]]);
    }

    #[test]
    fn two_release_beside_calls() {
        let frames = [OF_DEAD, OF_DEAD, FREED, FREED];
        explore(
            "two release beside calls",
            frames,
            &[&[Release], &[Release], &[Alloc(0), Free(0)]],
        );
    }

    #[test]
    fn three_at_once() {
        let frames = [OF_DEAD, OF_DEAD, FREED, FREED];
        explore(
            "three at once",
            frames,
            &[&[Release], &[Alloc(0), Free(0), Alloc(1)], &[Alloc(0)]],
        );
    }
}
