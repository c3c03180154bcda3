//! Refusals for want of memory, judged when the history is over and everything is known.
//!
//! ```text
//!   call            ├──── alloc(order 2): out of memory ────┤
//!   others      ├─ free A ─┤      ├─ alloc B ─┤
//!   moments         │  A?  │  A   │    A, B?   │     A      │     free blocks of order 2
//! ```
//!
//! At a moment a frame counts as in use if it is somebody's, if a free of it is under way (it may not
//! have happened yet), and if an allocation is under way that will be answered with it (it may have
//! happened already). An answer "out of memory" stands if, between the call and the answer,
//!
//! 1. there was a moment at which no suitable block was left: then some order of the calls under way
//!    runs out of memory there;
//! 2. or a moment at which calls under way could *keep* all that was left: an allocation that takes a
//!    block, finds it part of another one and lets go; credits on their way from a child to a
//!    reservation. How much that is, an engine says in its documentation: [`Hides`];
//! 3. or what was left had *moved*: of the blocks that were free all the time there were no more than
//!    the calls meanwhile could keep, or move: an allocation of LLFree moves the credits of the child that
//!    it leaves and of the one that it comes to, and a search may meet each where it is not. A search that
//!    goes through a zone once finds what is free all the time, and not what became free behind it while
//!    what lay before it was taken. It is more than an allocator should allow itself that promises
//!    linearisable answers; ours promise only that nothing is missed while no other call is under way.
//!    The figures say how often it was so.
//!
//! With no other call under way there is no allowance at all; with some of them it ends where more blocks
//! (LLFree: more huge frames, two for each block that they allocate) are free all the time than they are.
//!
//! A run that is being claimed may have as many frames as it is long, one after the other, and gives them back
//! where one of its blocks was in the way. Of a run that was refused the places for it are counted, as far as
//! they lie apart: one of them is enough, so what was claimed of the run itself is not counted as in use.
//!
//! Sound: a call that is answered between two moments is counted at both; nothing is assumed of
//! when a call takes effect. Not vacuous: two of the engines in `defects` give up too early, and are
//! found by this.

use std::ops::{AddAssign, Range};

use woodlot_frame::{Order, ZoneConfig};

use crate::ledger::{Call, Judged, Passing, Refusal};

/// What a call under way may keep from others besides the blocks that it is answered with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hides {
    /// The block that it tries to take, or one whose release a slot has put off and any call ends, and
    /// the blocks that lie in it or around it: NBBS.
    Block,
    /// What is free in one huge frame: LLFree, by the heading *Progress* of its documentation. The one-write engine, too,
    /// though by that heading one of its calls may hide what becomes free in a tree: no history has needed that.
    Child,
}

/// How many refusals there were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refusals {
    /// All.
    pub judged: usize,
    /// Those that stand by what calls under way may have kept.
    pub kept: usize,
    /// Those that stand only because what was free moved.
    pub moved: usize,
}

impl AddAssign for Refusals {
    fn add_assign(&mut self, other: Self) {
        self.judged += other.judged;
        self.kept += other.kept;
        self.moved += other.moved;
    }
}

/// A refusal whose call is under way.
struct Open<'a> {
    call: usize,
    refusal: &'a Refusal,
    /// At some moment nothing was left.
    empty: bool,
    /// At some moment what was left could be kept by others.
    kept: bool,
    /// The calls under way at some moment, itself included.
    together: Vec<usize>,
    /// How often each frame was in use, added up over the moments.
    used: Vec<u32>,
}

/// Judges every refusal of a history.
///
/// # Errors
/// The first that does not stand.
pub fn judge(
    config: &ZoneConfig,
    huge_frames: usize,
    hides: Hides,
    calls: &[Call],
) -> Judged<Refusals> {
    let mut refusals = Refusals::default();
    if calls.iter().all(|call| call.refused.is_none()) {
        return Ok(refusals);
    }
    let mut moments = vec![(0, false); 2 * calls.len()];
    for (number, call) in calls.iter().enumerate() {
        moments[call.begin] = (number, true);
        moments[call.end] = (number, false);
    }
    let mut zone = Zone { first: config.start.0, used: vec![0; config.frames], huge_frames, hides };
    let mut under_way: Vec<usize> = Vec::new();
    let mut open: Vec<Open<'_>> = Vec::new();
    for (number, begins) in moments {
        let call = &calls[number];
        if begins {
            call.gained.iter().for_each(|block| zone.count(block.range(), 1));
            under_way.push(number);
            open.extend(call.refused.as_ref().map(|refusal| Open {
                call: number,
                refusal,
                empty: false,
                kept: false,
                together: Vec::new(),
                used: vec![0; config.frames],
            }));
        } else {
            if let Some(at) = open.iter().position(|open| open.call == number) {
                refusals += zone.answer(&open.swap_remove(at), calls)?;
            }
            call.released.iter().for_each(|block| zone.count(block.range(), -1));
            under_way.retain(|&other| other != number);
        }
        for open in open.iter_mut().filter(|open| !open.empty) {
            zone.look(open, &under_way, calls);
        }
    }
    Ok(refusals)
}

/// Which frames are in use at a moment, or may be.
struct Zone {
    first: usize,
    /// How many blocks a frame may lie in.
    used: Vec<u32>,
    huge_frames: usize,
    hides: Hides,
}

impl Zone {
    fn count(&mut self, frames: Range<usize>, change: i32) {
        for used in &mut self.used[frames.start - self.first..frames.end - self.first] {
            *used = used.checked_add_signed(change).expect("what is freed was allocated");
        }
    }

    /// One more moment of a call that is refused.
    fn look(&self, open: &mut Open<'_>, under_way: &[usize], calls: &[Call]) {
        let left = self.left(open.refusal, &self.used);
        open.empty = left == 0;
        open.kept |= left <= self.keep(open, under_way, calls);
        open.used.iter_mut().zip(&self.used).for_each(|(sum, used)| *sum += used);
        for &number in under_way {
            if !open.together.contains(&number) {
                open.together.push(number);
            }
        }
    }

    /// The call is answered: does the refusal stand?
    fn answer(&self, open: &Open<'_>, calls: &[Call]) -> Judged<Refusals> {
        let mut refusals = Refusals { judged: 1, kept: 0, moved: 0 };
        match open {
            Open { empty: true, .. } => {}
            Open { kept: true, .. } => refusals.kept = 1,
            _ if self.left(open.refusal, &open.used) <= self.moved(open, calls) => {
                refusals.moved = 1;
            }
            _ => {
                let together: Vec<_> = open.together.iter().map(|&number| &calls[number]).collect();
                return Err(format!(
                    "{:?} was refused, but was there all the time. The calls meanwhile: {together:?}",
                    open.refusal
                ));
            }
        }
        Ok(refusals)
    }

    /// How many blocks, or huge frames with blocks, are suitable where frames are in use so often.
    fn left(&self, refusal: &Refusal, used: &[u32]) -> usize {
        let is_free = |frames: Range<usize>| {
            let used = used.get(frames.start - self.first..frames.end - self.first);
            used.is_some_and(|used| used.iter().all(|&count| count == 0))
        };
        match refusal {
            Refusal::Frames(frames) => usize::from(is_free(frames.clone())),
            Refusal::Memory(order) => {
                let size = order.frames();
                let first = self.first.next_multiple_of(size);
                let all = (first..self.first + used.len()).step_by(size);
                let free = all.filter(|&frame| is_free(frame..frame + size));
                let (mut last, unit) = (None, self.unit(*order));
                let units = free.map(|frame| frame / unit);
                units.filter(|&unit| last.replace(unit) != Some(unit)).count()
            }
            Refusal::Run { frames, align, window } => self.places(*frames, *align, window, used),
        }
    }

    /// How many places for a run there are in a window, of which a call under way keeps one with what is
    /// hidden by it: they lie apart, with LLFree in different huge frames.
    fn places(&self, frames: usize, align: Order, window: &Range<usize>, used: &[u32]) -> usize {
        let apart = match self.hides {
            Hides::Block => 1,
            Hides::Child => self.huge_frames,
        };
        let (mut start, mut count) = (window.start, 0);
        loop {
            start = start.next_multiple_of(align.frames());
            if start + frames > window.end {
                return count;
            }
            let in_use = |frame: &usize| used[frame - self.first] > 0;
            start = match (start..start + frames).rev().find(in_use) {
                Some(taken) => taken + 1,
                None => {
                    count += 1;
                    (start + frames).next_multiple_of(apart)
                }
            };
        }
    }

    /// How many of those the calls beside a refused one may have kept from it, one now and another then.
    fn moved(&self, open: &Open<'_>, calls: &[Call]) -> usize {
        let moves = |&number: &usize| match (calls[number].passing, self.hides) {
            _ if number == open.call => self.keep(open, &[number], calls),
            (Passing::Blocks(_, count), Hides::Child) => {
                2 * (calls[number].gained.len() + count).max(1)
            }
            (Passing::Run(frames), Hides::Child) => 2 * touched(frames, self.huge_frames),
            _ => self.keep(open, &[number], calls),
        };
        open.together.iter().map(moves).sum()
    }

    /// In what blocks of an order are counted: a call may keep as much as that.
    fn unit(&self, order: Order) -> usize {
        match self.hides {
            Hides::Block => order.frames(),
            Hides::Child => order.frames().max(self.huge_frames),
        }
    }

    /// How many of those these calls may keep.
    fn keep(&self, open: &Open<'_>, under_way: &[usize], calls: &[Call]) -> usize {
        let keeps = |&number: &usize| match (calls[number].passing, open.refusal) {
            (passing, refusal) if number != open.call => self.others(passing, refusal),
            // Of a batch the refused call itself has all but the last.
            (Passing::Blocks(of, count), Refusal::Memory(_)) if count > 1 => {
                self.others(Passing::Blocks(of, count - 1), open.refusal)
            }
            // What a refused run had and gave back is nowhere said to be in use.
            _ => 0,
        };
        under_way.iter().map(keeps).sum()
    }

    /// How many of those a call beside the refused one may keep.
    fn others(&self, passing: Passing, refusal: &Refusal) -> usize {
        let unit = match (refusal, self.hides) {
            (Refusal::Frames(_), _) => return usize::from(!self.only_looks(passing)),
            (Refusal::Memory(order), _) => self.unit(*order),
            (Refusal::Run { .. }, Hides::Child) => self.huge_frames,
            (Refusal::Run { frames, .. }, Hides::Block) => *frames,
        };
        let are_aligned = !matches!((refusal, self.hides), (Refusal::Run { .. }, Hides::Block));
        match passing {
            _ if self.only_looks(passing) => 0,
            Passing::Blocks(of, count) if are_aligned => {
                (count * of.frames().div_ceil(unit)).max(1)
            }
            Passing::Blocks(of, count) => (count * touched(of.frames(), unit)).max(1),
            Passing::Run(run) => touched(run, unit),
            Passing::Looks => 1,
        }
    }

    /// Any call of NBBS may have in hand a release that a slot has put off.
    fn only_looks(&self, passing: Passing) -> bool {
        passing == Passing::Looks && self.hides == Hides::Child
    }
}

/// In how many units of so many frames a run of frames lies, at most, wherever it begins.
fn touched(frames: usize, unit: usize) -> usize {
    1 + frames.saturating_sub(1).div_ceil(unit)
}

#[cfg(test)]
mod tests {
    use woodlot_frame::FrameId;

    use super::*;
    use crate::ledger::Block;

    /// Calls on a zone of four frames in huge frames of two, from what each does from when to when.
    fn call(begin: usize, end: usize) -> Call {
        let (gained, released) = (Vec::new(), Vec::new());
        Call { begin, end, passing: Passing::Blocks(Order(0), 1), gained, released, refused: None }
    }

    fn gets(begin: usize, end: usize, frame: usize, order: u8) -> Call {
        let passing = Passing::Blocks(Order(order), 1);
        Call { gained: vec![Block(FrameId(frame), Order(order))], passing, ..call(begin, end) }
    }

    fn frees(begin: usize, end: usize, frame: usize, order: u8) -> Call {
        Call { released: vec![Block(FrameId(frame), Order(order))], ..call(begin, end) }
    }

    fn fails(begin: usize, end: usize, order: u8) -> Call {
        let refused = Some(Refusal::Memory(Order(order)));
        Call { refused, passing: Passing::Blocks(Order(order), 1), ..call(begin, end) }
    }

    fn judged(hides: Hides, calls: &[Call]) -> Option<Refusals> {
        judge(&ZoneConfig::new(4, 1), 2, hides, calls).ok()
    }

    const BOTH: [Hides; 2] = [Hides::Block, Hides::Child];
    const STANDS: Option<Refusals> = Some(Refusals { judged: 1, kept: 0, moved: 0 });
    const KEPT: Option<Refusals> = Some(Refusals { judged: 1, kept: 1, moved: 0 });
    const MOVED: Option<Refusals> = Some(Refusals { judged: 1, kept: 0, moved: 1 });

    #[test]
    fn alone_it_must_be_exact() {
        for hides in BOTH {
            assert_eq!(judged(hides, &[gets(0, 1, 0, 1), gets(2, 3, 2, 0), fails(4, 5, 0)]), None);
            assert_eq!(judged(hides, &[gets(0, 1, 0, 2), fails(2, 3, 0)]), STANDS);
            // Two frames are free, but no block of two.
            let apart = [gets(0, 1, 0, 0), gets(2, 3, 2, 0), fails(4, 5, 1)];
            assert_eq!(judged(hides, &apart), STANDS);
        }
    }

    #[test]
    fn a_free_under_way_may_not_have_happened() {
        for hides in BOTH {
            let all = gets(0, 1, 0, 2);
            assert_eq!(judged(hides, &[all.clone(), frees(2, 5, 0, 2), fails(3, 4, 0)]), STANDS);
            assert_eq!(judged(hides, &[all.clone(), frees(3, 4, 0, 2), fails(2, 5, 0)]), STANDS);
            assert_eq!(judged(hides, &[all, frees(2, 3, 0, 2), fails(4, 5, 0)]), None);
        }
    }

    #[test]
    fn an_allocation_under_way_may_have_happened() {
        for hides in BOTH {
            assert_eq!(judged(hides, &[gets(0, 3, 0, 2), fails(1, 2, 0)]), STANDS);
            assert_eq!(judged(hides, &[gets(2, 3, 0, 2), fails(0, 1, 0)]), None);
        }
    }

    #[test]
    fn a_call_under_way_keeps_so_much_and_no_more() {
        // One frame is left, and another call looks for one.
        let left = |frames: &[usize]| {
            let mut calls: Vec<_> =
                (0..4).filter(|frame| !frames.contains(frame)).enumerate().collect();
            let at = 2 * calls.len();
            let mut list: Vec<_> =
                calls.drain(..).map(|(n, frame)| gets(2 * n, 2 * n + 1, frame, 0)).collect();
            list.extend([call(at, at + 3), fails(at + 1, at + 2, 0)]);
            list
        };
        assert_eq!(judged(Hides::Block, &left(&[1])), KEPT);
        assert_eq!(judged(Hides::Block, &left(&[0, 1])), None);
        assert_eq!(judged(Hides::Child, &left(&[0, 1])), KEPT);
        assert_eq!(judged(Hides::Child, &left(&[1, 2])), MOVED);
    }

    #[test]
    fn a_call_moves_two_huge_frames_for_each_block() {
        // All is free, and another call looks for a block, or has begun a batch.
        let judged = |huge: usize, blocks| {
            let passing = Passing::Blocks(Order(0), blocks);
            let calls = [Call { passing, ..call(0, 3) }, fails(1, 2, 0)];
            judge(&ZoneConfig::new(2 * huge, 1), 2, Hides::Child, &calls).ok()
        };
        assert_eq!([judged(1, 1), judged(2, 1), judged(3, 1)], [KEPT, MOVED, None]);
        assert_eq!([judged(3, 3), judged(6, 3), judged(7, 3)], [KEPT, MOVED, None]);
    }

    #[test]
    fn what_is_free_may_move() {
        let passes = |call: Call| Call { passing: Passing::Looks, ..call };
        // The first two frames are taken, the search passes them, they become free, and the last two
        // are taken.
        let moves = |order| {
            let first = passes(gets(0, 1, 0, 1));
            let frees = passes(frees(3, 4, 0, 1));
            [first, fails(2, 7, 0), frees, passes(gets(5, 6, 2, order))]
        };
        assert_eq!(judged(Hides::Child, &moves(1)), MOVED);
        assert_eq!(judged(Hides::Child, &moves(0)), None);
        // Any call may have the release of the frame in hand that was free all the time.
        assert_eq!(judged(Hides::Block, &moves(0)), MOVED);
    }

    #[test]
    fn a_batch_under_way_has_all_but_its_last() {
        let batch = |wanted| Call { passing: Passing::Blocks(Order(0), wanted), ..fails(0, 1, 0) };
        assert_eq!(judged(Hides::Block, &[batch(5)]), KEPT);
        assert_eq!(judged(Hides::Block, &[batch(4)]), None);
    }

    #[test]
    fn certain_frames_are_refused_while_they_are_in_use() {
        let fails = |begin, end| Call { refused: Some(Refusal::Frames(2..4)), ..call(begin, end) };
        for hides in BOTH {
            assert_eq!(judged(hides, &[gets(0, 1, 3, 0), fails(2, 3)]), STANDS);
            assert_eq!(judged(hides, &[gets(0, 1, 0, 1), fails(2, 3)]), None);
            assert_eq!(judged(hides, &[call(0, 3), fails(1, 2)]), KEPT);
        }
    }

    fn no_run(begin: usize, end: usize, frames: usize, window: Range<usize>) -> Call {
        let refused = Some(Refusal::Run { frames, align: Order(0), window });
        Call { refused, passing: Passing::Run(frames), ..call(begin, end) }
    }

    #[test]
    fn a_run_alone_must_be_exact() {
        let taken = |frame| gets(0, 1, frame, 0);
        for hides in BOTH {
            assert_eq!(judged(hides, &[taken(3), no_run(2, 3, 3, 0..4)]), None);
            assert_eq!(judged(hides, &[taken(1), no_run(2, 3, 3, 0..4)]), STANDS);
            assert_eq!(judged(hides, &[taken(1), no_run(2, 3, 2, 0..4)]), None);
            assert_eq!(judged(hides, &[taken(1), no_run(2, 3, 2, 0..3)]), STANDS);
        }
    }

    #[test]
    fn a_call_under_way_keeps_places_that_lie_apart() {
        // All is free, and another call looks for a frame.
        let judged = |hides, run, zone| {
            let calls = [call(0, 3), no_run(1, 2, run, 0..zone)];
            judge(&ZoneConfig::new(zone, 1), 2, hides, &calls).ok()
        };
        assert_eq!([judged(Hides::Block, 3, 5), judged(Hides::Block, 3, 6)], [KEPT, None]);
        // Two frames that another call has may lie in two runs.
        let pair = |run, zone| {
            let passing = Passing::Blocks(Order(1), 1);
            let calls = [Call { passing, ..call(0, 3) }, no_run(1, 2, run, 0..zone)];
            judge(&ZoneConfig::new(zone, 1), 2, Hides::Block, &calls).ok()
        };
        assert_eq!([pair(3, 6), pair(3, 9), pair(1, 3)], [KEPT, None, None]);
        // What is free in a huge frame of two.
        assert_eq!([judged(Hides::Child, 1, 2), judged(Hides::Child, 1, 4)], [KEPT, MOVED]);
        assert_eq!([judged(Hides::Child, 3, 6), judged(Hides::Child, 1, 6)], [KEPT, None]);
    }

    #[test]
    fn a_run_under_way_keeps_what_it_touches() {
        // All is free, and another call claims a run.
        let judged = |hides, run, zone| {
            let calls = [Call { passing: Passing::Run(run), ..call(0, 3) }, fails(1, 2, 1)];
            judge(&ZoneConfig::new(zone, 1), 2, hides, &calls).ok()
        };
        for hides in BOTH {
            assert_eq!([judged(hides, 1, 2), judged(hides, 2, 4), judged(hides, 4, 6)], [KEPT; 3]);
        }
        assert_eq!([judged(Hides::Block, 1, 4), judged(Hides::Block, 2, 6)], [None; 2]);
        assert_eq!([judged(Hides::Child, 1, 4), judged(Hides::Child, 1, 6)], [MOVED, None]);
    }
}
