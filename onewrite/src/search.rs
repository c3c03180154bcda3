//! Where a block is looked for.
//!
//! ```text
//!   below a row's order                                rows, huge frames, pairs
//!
//!   the slot's row                   one write         the slot's child                        one write
//!   the hole that the slot has freed last, if it       the next huge frame; of rows, where     one write each
//!     is the only one of its child   one write           looks were in vain lately
//!   where no hole waits, the target's row              the last holes that the slot has freed
//!     behind the slot's              one write         the holes that other slots have left
//!   the next rows of the slot's target                 the fullest of the next few children
//!   the holes that other slots have left               the lowest that the slot has emptied
//!   the next huge frame, where looks were in vain      the next free child
//!     lately, and nothing was freed                    any free child, or any of the class
//!   the fullest into which the slot has freed lately,  any child at all
//!     if it is full
//!   the fullest of the next few children, or of those
//!   the next free child
//!   the lowest that the slot has emptied
//!   any free child, or any free row of the class
//!   any free row, any hole at all
//! ```
//!
//! Who keeps classes apart looks for its own class first, then for those that it fills up, then for free children, and only then for
//! all others ([`ClassPolicy`](woodlot_frame::ClassPolicy)). Nor is the target of another slot looked at before: what fills a child by turns
//! with others finds no room where it came from.
//!
//! Huge frames stay whole because the fullest are filled up, so that the others empty. Nobody knows which is the fullest.
//! A look around passes the next children of the slot's part of the zone, and of all of it where none of these has a block and is in use, so that slots
//! do not take each other's cache lines. Outside of its part, blocks of several frames come from trees in which no other slot allocates. It takes the fullest of the first few that have a block. It costs as much as some
//! allocations, and yields all that is free there. In a zone that is nearly full that is a single hole, often enough; but then
//! a hole that was just freed is as good. So a slot remembers the rows into which it has freed, and fills the last one again at
//! once if its huge frame is full otherwise; else, before it looks around, that of the last few whose huge frame is. If none is, it fills the fullest of them
//! where it is as full as any that the look around finds. Elsewhere it leaves the holes alone.
//! A free itself looks at nothing for that: what it would find is different from free to free, and no processor guesses it.
//!
//! Who frees elsewhere, as a daemon does that reclaims what others allocate, leaves holes to which it does not come back. A slot that remembers nothing that it has freed, and has grown, asks what others remember instead,
//! and [takes over](crate::slots::Slots::take_over) the oldest of it that is to be filled from one that has freed more than it has allocated. That takes a few cache lines for eight holes, and those of each hole. Were nobody to do so, each hole would be hunted alone,
//! by looks past hundreds of children, and each look in vain would break a huge frame.
//!
//! What a slot allocates beyond what it has freed goes away together, often enough: pages of one process, or of one file. Spread over the small holes of
//! many children it would leave some frames in each. So a slot that grows looks a little longer for a child of which half is free. A
//! slot that has freed here and there has [holes](crate::slots::Line::count_holes) of its own to fill: it takes the fullest child, until what it has allocated since would have filled them. So does one that has found no such child in many looks.
//!
//! A row of which the last frame is freed stays open, and counts as a free row: it may be broken again at once. Who needs
//! whole rows closes those that it takes.
//!
//! # Progress
//! Lock-free. A look around passes a bounded number of children. What comes last visits each tree seven times at most.

use core::ops::Range;

use woodlot_frame::atomics::{AtomicU64, fetch_to_write};
use woodlot_frame::{Geometry, MAX_CLASSES};

use crate::OneWrite;
use crate::child::Part;
use crate::hints::class_in;
use crate::isolate::is_isolated;
use crate::row::{self, Rows};
use crate::slots::{HOLES, NONE, ROWS, Site, TAKEN_OVER};
use crate::words::load;

/// Children, or trees of which hints say that there is nothing, that a look around passes at most; more of them where the fullest
/// child so far has more blocks than these. After each look in vain it is half as many, until a look finds something, unless a row into which
/// the slot has freed, for whatever class, waits to be filled again: who only allocates need not look. Where it would be no more than a tree, the look ends at the first free child.
const STEPS: usize = 1024;
/// Of so many rows into which the slot has freed it takes the one of the fullest child. A look around takes the fullest of so many children that have a block; of more where most of that is free, of fewer where it has fewer blocks ([`candidates`](OneWrite::candidates)).
const CANDIDATES: usize = 8;
/// Of a child of which all is free every so many-th block is worth the look at another child.
const YIELD: usize = 2;
/// A child of which no more than these frames are in use was freed as a whole: a kernel has a few of its own everywhere. With 16 of them churn of mixed orders
/// would forget what it fills next.
const LEFT: usize = 4;
/// A child is full when no more than a 32nd of it is free, 16 frames of 512. Were fewer asked for, holes would be hunted
/// one by one.
const FULL_SHARE: usize = 32;

/// A slot that grows passes so many more children for each block of the fullest, in search of one of which half is free; and so many at least, and at most.
const GROWS: (usize, [usize; 2]) = (4, [16, 128]);
/// A look in all of the zone ends behind so many children that were emptied: memory is not short then, and each costs a look at rows that another CPU may have
/// written. Were looks in the slot's own part to end so, too, section 5.6 of the paper would keep 96 % of the huge frames in place of 99.
const EMPTIED: usize = 40;

/// A row is opened for so many blocks at least; where it has fewer, more rows with it.
const OPENED: usize = 16;

/// What a look around has found.
#[derive(Default)]
struct Seen {
    /// The fullest child, and how many frames of it are free: not all.
    fullest: Option<(usize, usize)>,
    /// The first child of which all are.
    free: Option<usize>,
    /// A child with so many free frames came before any with fewer.
    room: usize,
}

impl Seen {
    /// The child with the least comes first.
    fn rank(&self, free: usize) -> (bool, usize) {
        (free < self.room, free)
    }
}

/// What is left of what was freed.
enum Left {
    /// Nothing that is to be filled.
    Nothing,
    /// Nothing for this block: for others, perhaps.
    ForOthers,
    /// Something for it: so many frames of the huge frame are free.
    ToFill(usize),
}

impl<G: Geometry> OneWrite<'_, G> {
    // ---- Below a row's order ----

    /// A block of `order`, below a row's, from the row into which the slot has freed last, if its child is nearly full otherwise.
    pub(crate) fn fill_again(&self, order: u32, site: Site<'_>) -> Option<usize> {
        let row = self.newest(site).filter(|&row| self.is_nearly_full(row, order))?;
        site.line.forget_newest::<ROWS>();
        self.take_in_row(row, order)
    }

    /// The row into which the slot has freed last, if its child is of the class.
    fn newest(&self, site: Site<'_>) -> Option<usize> {
        site.line.newest::<ROWS>().filter(|&row| self.is_of_class(row / G::ROWS, site))
    }

    /// From the row behind the slot's own, if both are of its target, unless another call changes that row.
    #[inline(always)]
    pub(crate) fn take_in_next_row<const ORDER: u32>(&self, site: Site<'_>) -> Option<usize> {
        let own = site.row(ORDER);
        let next = own.wrapping_add(1);
        let is_of_target = own / G::ROWS == site.target(ORDER) && !next.is_multiple_of(G::ROWS);
        if is_of_target { self.take_at_once(next, ORDER) } else { None }
    }

    /// From the slot's target, of the rows behind the slot's own.
    #[inline(always)]
    pub(crate) fn take_behind<const ORDER: u32>(&self, site: Site<'_>) -> Option<usize> {
        let target = site.target(ORDER);
        if target >= self.ground.children {
            return None;
        }
        let (own, first) = (site.row(ORDER), target * G::ROWS);
        let from = if own / G::ROWS == target { own + 1 } else { first };
        let behind = self.rows.get(from..first + G::ROWS)?;
        let has = |(_, bits): &(usize, &AtomicU64)| row::has_block(load(Some(bits)), ORDER);
        let (row, _) = (from..).zip(behind).find(has)?;
        self.take_in_row(row, ORDER)
    }

    /// A block of `order`, below a row's, that neither the slot's row has nor [`fill_again`](Self::fill_again) finds. Where nothing is left, the slot forgets its target.
    #[cold]
    #[inline(never)]
    pub(crate) fn find_bits(&self, order: u32, site: Site<'_>) -> Option<usize> {
        if !self.zone_may_have(order) && !self.zone_may_have(G::ROW_ORDER) {
            return None;
        }
        let found = self
            .take_in_child(site.target(order), order)
            .or_else(|| self.fill_for_others(order, site))
            .or_else(|| self.take_in_next(order, site))
            .or_else(|| self.take_around(order, site))
            .or_else(|| self.take_of_class(order, site))
            .or_else(|| self.take_of_others(order, site))
            .or_else(|| self.take_in_trees(order, site))
            .or_else(|| self.take_anywhere(order, site));
        if found.is_none() && site.target(order) != NONE {
            self.aims(site, order, NONE);
        }
        found
    }

    /// From a row into which another slot has freed, where this one remembers nothing that it has freed.
    fn fill_for_others(&self, order: u32, site: Site<'_>) -> Option<usize> {
        if self.newest(site).is_some() {
            return None;
        }
        let look = |row| {
            let (bits, child) = (self.bits(row), row / G::ROWS);
            let has = row::has_block(bits, order);
            if bits == 0 { Left::Nothing } else { self.left(child, has, order, site) }
        };
        self.take_left::<ROWS>(site, look, |row, free| self.take_in_hole(row, free, order, site))
    }

    /// From a row of a child of which so many frames are free: it is the slot's target from now on, too.
    fn take_in_hole(&self, row: usize, free: usize, order: u32, site: Site<'_>) -> Option<usize> {
        let offset = self.take_in_row(row, order)?;
        self.comes_to(row / G::ROWS, free, order, site);
        Some(offset)
    }

    /// From the next huge frame of the tree, if it is free, and where a search would end there: the slot's looks around were in vain lately, and
    /// it has freed nothing.
    fn take_in_next(&self, order: u32, site: Site<'_>) -> Option<usize> {
        let next = Self::behind(site)?;
        if site.cursor().1 > 0 || site.line.newest::<ROWS>().is_some() {
            return None;
        }
        let is_next = self.has_rows(next, G::HUGE_ORDER) && self.is_of_class(next, site);
        if is_next { self.take_in_found(next, G::HUGE_FRAMES, order, site) } else { None }
    }

    /// From the fullest of the next few children that the class fills up, which is the slot's target from now on; or from one of the last rows into which
    /// the slot has freed, if its child is as full.
    fn take_around(&self, order: u32, site: Site<'_>) -> Option<usize> {
        if site.line.newest::<ROWS>().is_some() {
            site.set_patience(STEPS);
        }
        let lately = self.fullest_freed(order, site);
        let fill = || {
            let (row, free) = lately?;
            self.take_in_hole(row, free, order, site)
        };
        // A hole that was left alone is better than a free child, and one of a full child than any look.
        let least = lately.map_or(G::HUGE_FRAMES, |(_, free)| free);
        if least <= Self::full(order)
            && let Some(offset) = fill()
        {
            return Some(offset);
        }
        let has = |child, states| self.has_bits(child, states, order);
        let home = Self::home(site);
        let seen = self.look_around(order, site, site.fills(), has);
        let fuller = seen.fullest.filter(|&(_, free)| seen.rank(free) < seen.rank(least));
        if fuller.is_none()
            && let Some(offset) = fill()
        {
            return Some(offset);
        }
        let free = || Some((self.next_free(home, order, site).or(seen.free)?, G::HUGE_FRAMES));
        let (child, free) = fuller.or(seen.fullest).or_else(free)?;
        self.take_in_found(child, free, order, site)
    }

    /// Looks at the last few rows into which the slot has freed, down to one whose child is full, and forgets them. Of those that have a block of `order`, the
    /// one whose child is the fullest, and how many frames of that are free. Behind a child that is free but for
    /// [a few frames](LEFT) all are forgotten, of whatever class: most of what was freed before it is free as well.
    fn fullest_freed(&self, order: u32, site: Site<'_>) -> Option<(usize, usize)> {
        let mut fullest = None;
        for _ in 0..CANDIDATES {
            let Some(row) = self.newest(site) else { break };
            site.line.forget_newest::<ROWS>();
            let Some(free) = self.free_beside(row) else { continue };
            if free + LEFT >= G::HUGE_FRAMES {
                site.line.forget_all();
            }
            let has = row::has_block(self.bits(row), order) && !self.isolates(row / G::ROWS);
            if has && fullest.is_none_or(|(_, least)| free < least) {
                fullest = Some((row, free));
                if free <= Self::full(order) {
                    break;
                }
            }
        }
        fullest
    }

    /// How many frames of a child are free whose rows are in these states, if it has a block of `order`.
    fn has_bits(&self, child: usize, states: u64, order: u32) -> Option<usize> {
        let free = self.free_counted(child, states);
        let has = free >> order != 0
            && (order == 0
                || free == G::HUGE_FRAMES
                || Self::free_closed(child, states) != 0
                || self.open_bits(child).any(|bits| row::has_block(bits, order)));
        has.then_some(free)
    }

    /// From a child that was looked for, of which so many frames are free: it is the slot's target from now on.
    fn take_in_found(
        &self,
        child: usize,
        free: usize,
        order: u32,
        site: Site<'_>,
    ) -> Option<usize> {
        self.comes_to(child, free, order, site);
        if free >= G::ROW_FRAMES {
            self.settles(site, child);
        }
        self.breaking(child, site, || self.take_in_child(child, order))
    }

    /// A child is the slot's target from now on. Others are to leave it alone, where that is worth two writes more: not for the few blocks of one that is full.
    #[inline(always)]
    fn comes_to(&self, child: usize, free: usize, order: u32, site: Site<'_>) {
        if free <= Self::full(order) {
            self.visits(site, order, child);
        } else {
            self.aims(site, order, child);
        }
    }

    /// From a free row of any child that is free, or of the class or one that it fills up.
    fn take_of_class(&self, order: u32, site: Site<'_>) -> Option<usize> {
        let child = self.free_or_filled(G::ROW_ORDER, site)?;
        self.take_in_found(child, G::HUGE_FRAMES, order, site)
    }

    /// From the fullest of the next few children of the other class to which the slot's class turns first.
    fn take_of_others(&self, order: u32, site: Site<'_>) -> Option<usize> {
        if self.fills_all(site) {
            return None;
        }
        let has = |child, states| self.has_bits(child, states, order);
        let (child, free) = self.look_around(order, site, MAX_CLASSES, has).fullest?;
        self.take_in_found(child, free, order, site)
    }

    /// A child of which so many frames are free is full, for a block of `order`: no search is worth while.
    pub(crate) const fn full(order: u32) -> usize {
        let (share, block) = (G::HUGE_FRAMES / FULL_SHARE, 1 << order);
        if share > block { share } else { block }
    }

    /// From any row of a child; from a free one only if there is no other.
    fn take_in_child(&self, child: usize, order: u32) -> Option<usize> {
        if child >= self.ground.children {
            return None;
        }
        let may_have = row::has_block(self.holes(child), order);
        let open = may_have.then(|| self.take_in_open(child, order)).flatten();
        open.or_else(|| self.open_in_child(child, order))
    }

    /// From an open row of a child that is in use in part; from a free one only if there is no other.
    fn take_in_open(&self, child: usize, order: u32) -> Option<usize> {
        let rows = self.open_rows(child);
        let mut empty = None;
        for row in rows.clone() {
            match self.bits(row) {
                bits if bits == G::ALL => _ = empty.get_or_insert(row),
                bits if !row::has_block(bits, order) => {}
                _ => match self.take_in_row(row, order) {
                    None => {}
                    found => return found,
                },
            }
        }
        // Another call may close the first one, and leave others.
        let first = empty?;
        rows.filter(|&row| row >= first).find_map(|row| self.take_in_row(row, order))
    }

    /// From a free row of a child that is not open. Of large blocks several rows are opened at once, as many as the child has side by
    /// side, until they have [`OPENED`] blocks.
    fn open_in_child(&self, child: usize, order: u32) -> Option<usize> {
        let most = (OPENED << order >> G::ROW_ORDER).clamp(1, G::ROWS).ilog2();
        loop {
            let whole = Part::whole::<G>(child);
            let states = self.states_to_take(whole);
            let part = (0..=most).rev().find_map(|k| whole.free_run(states, k))?;
            if self.open(part, 0, order) {
                return Some(part.offset::<G>());
            }
        }
    }

    /// From a free row of any child.
    fn take_in_trees(&self, order: u32, site: Site<'_>) -> Option<usize> {
        let take = |child| self.breaking(child, site, || self.take_in_child(child, order));
        let found = self.in_trees(site.cursor().0, G::ROW_ORDER, take)?;
        self.aims(site, order, found >> G::HUGE_ORDER);
        self.settles(site, found >> G::HUGE_ORDER);
        Some(found)
    }

    /// From any open row.
    fn take_anywhere(&self, order: u32, site: Site<'_>) -> Option<usize> {
        let take = |child| {
            let found = self.breaking(child, site, || self.take_in_child(child, order));
            if found.is_none() {
                self.child_has_none(child, order);
            }
            found
        };
        self.in_each(0, order, |tree| {
            self.children_of(tree).filter(|&child| self.may_have(child, order)).find_map(take)
        })
    }

    // ---- Whole rows ----

    /// The huge frame behind the one that the slot took last, if it is of the same tree.
    #[inline(always)]
    fn behind(site: Site<'_>) -> Option<usize> {
        let next = site.latest().wrapping_add(1);
        (!next.is_multiple_of(G::TREE)).then_some(next)
    }

    /// The next huge frame behind the one that the slot took last, if it is free and closed and of the same tree.
    #[inline(always)]
    pub(crate) fn take_next(&self, site: Site<'_>) -> Option<usize> {
        let next = Self::behind(site)?;
        self.take_closed(next)?;
        site.set_latest(next);
        Some(next)
    }

    /// The same of two.
    #[inline(always)]
    pub(crate) fn take_next_pair(&self, site: Site<'_>) -> Option<usize> {
        let next = (site.latest() | 1).wrapping_add(1);
        if next.is_multiple_of(G::TREE) || self.take_closed_pair(next).is_none() {
            return None;
        }
        site.set_latest(next + 1);
        Some(next)
    }

    /// The first 2^`k` rows of the next huge frame behind the one that the slot took last, if that is free and closed and of the same tree, and where a
    /// search would end there: the slot's looks around were in vain lately, and it has emptied none before. It is the slot's child from now on, and has no
    /// mark: others look elsewhere first.
    #[inline(always)]
    pub(crate) fn take_next_rows(&self, k: u32, site: Site<'_>) -> Option<usize> {
        let (next, lowest) = (Self::behind(site)?, site.line.lowest());
        if site.cursor().1 > 0 || lowest < next - 1 {
            return None;
        }
        if !self.is_of_class(next, site) {
            return None;
        }
        self.take_of_closed(Part::whole::<G>(next), Part::of::<G>(next, 0, 1 << k))?;
        self.has_class(next / G::TREE, site.class());
        site.line.set_lowest(lowest.max(next));
        site.set_latest(next);
        self.moves_on(site, next);
        Some(next)
    }

    /// A block of `order`, at least a row's, that is not in the slot's child.
    #[inline(never)]
    pub(crate) fn find_rows(&self, order: u32, site: Site<'_>) -> Option<usize> {
        if !self.zone_may_have(order) {
            return None;
        }
        let take = |child| self.breaking(child, site, || self.take_whole(child, order));
        let home = Self::home(site);
        let hole = if order < G::HUGE_ORDER { self.take_hole(order, site, take) } else { None };
        let own = hole.or_else(|| self.child_around(order, site).and_then(take));
        let found = own.or_else(|| {
            let found = self.in_trees(home, order, take)?;
            self.settles(site, found >> G::HUGE_ORDER);
            Some(found)
        })?;
        if order < G::HUGE_ORDER {
            self.aims(site, order, found >> G::HUGE_ORDER);
        }
        Some(found)
    }

    /// From a huge frame of which the slot, or another one, has freed the only rows that were free.
    fn take_hole(
        &self,
        order: u32,
        site: Site<'_>,
        take: impl Fn(usize) -> Option<usize>,
    ) -> Option<usize> {
        let look = |child| {
            let has = self.has_rows(child, order);
            let has_any = has || self.has_rows(child, G::ROW_ORDER);
            if has_any { self.left(child, has, order, site) } else { Left::Nothing }
        };
        for _ in 0..CANDIDATES {
            let Some(hole) = site.line.newest::<HOLES>() else { break };
            let found = match look(hole) {
                Left::ForOthers => break,
                Left::Nothing => None,
                Left::ToFill(_) => take(hole),
            };
            site.line.forget_newest::<HOLES>();
            if found.is_some() {
                return found;
            }
        }
        self.take_left::<HOLES>(site, look, |child, _| take(child))
    }

    /// The fullest of the next few children that the class fills up, or the next free one.
    fn child_around(&self, order: u32, site: Site<'_>) -> Option<usize> {
        let (mut free, home) = (None, Self::home(site));
        let look = |child, states| {
            Part::whole::<G>(child).free_run(states, order.saturating_sub(G::ROW_ORDER))?;
            Some(Self::free_closed(child, states))
        };
        if order < G::HUGE_ORDER {
            let seen = self.look_around(order, site, site.fills(), look);
            if let Some((child, _)) = seen.fullest {
                return Some(child);
            }
            free = seen.free;
        }
        if let Some(child) = self.next_free(home, order, site).or(free) {
            self.settles(site, child);
            return Some(child);
        }
        if order >= G::HUGE_ORDER || self.fills_all(site) {
            return None;
        }
        let child = self.free_or_filled(order, site).inspect(|&child| self.settles(site, child));
        child.or_else(|| Some(self.look_around(order, site, MAX_CLASSES, look).fullest?.0))
    }

    /// From a child, or of the largest order a pair that begins with it.
    #[inline(always)]
    pub(crate) fn take_whole(&self, child: usize, order: u32) -> Option<usize> {
        if order <= G::HUGE_ORDER {
            let part = self.take_rows(child, order - G::ROW_ORDER)?;
            return Some(part.offset::<G>());
        }
        let pair = child.is_multiple_of(2) && self.take_pair(child);
        pair.then_some(child << G::HUGE_ORDER)
    }

    // ---- What others have left ----

    /// From what was taken over from other slots. Where nothing of that is to be filled, these are asked for more by a slot that has grown: who frees what it has allocated, and
    /// allocates as much again, finds that by itself.
    fn take_left<const OF: usize>(
        &self,
        site: Site<'_>,
        look: impl Fn(usize) -> Left,
        take: impl Fn(usize, usize) -> Option<usize>,
    ) -> Option<usize> {
        let in_hand = || {
            (0..TAKEN_OVER).find_map(|nth| {
                let freed = match site.line.of_others::<OF>(nth) {
                    NONE => return None,
                    freed => freed,
                };
                let found = match look(freed) {
                    Left::ForOthers => return None,
                    Left::Nothing => None,
                    Left::ToFill(free) => take(freed, free),
                };
                site.line.forget_of_others::<OF>(nth);
                found
            })
        };
        let is_wanted = |freed| matches!(look(freed), Left::ToFill(_));
        in_hand().or_else(|| {
            let more = site.line.has_grown() && self.slots.take_over::<OF>(site.line, is_wanted);
            if more { in_hand() } else { None }
        })
    }

    /// Is a child that has something free to be filled by who comes across it, and by whom? Not if most of it is free, nor where another slot is at it.
    fn left(&self, child: usize, has: bool, order: u32, site: Site<'_>) -> Left {
        if child >= self.ground.children {
            return Left::Nothing;
        }
        let hint = self.hint(child);
        let free = self.free_beside(child * G::ROWS).filter(|&free| free <= G::HUGE_FRAMES / 2);
        let Some(free) = free.filter(|_| !is_isolated(hint)) else { return Left::Nothing };
        let is_own = class_in(hint) == site.class() && !Self::is_others(hint, child, site);
        let fits = is_own && (order == 0 || self.invites(child / G::TREE, order, site));
        if has && fits { Left::ToFill(free) } else { Left::ForOthers }
    }

    // ---- Which child ----

    /// Does the slot grow? Not while it has [holes](crate::slots::Line::count_holes) to fill, as many as its part of the zone has children. At most an eighth of
    /// that part is what it is told to have.
    fn grows(&self, site: Site<'_>) -> bool {
        let part = self.part_of(site).len();
        site.line.count_holes(part * (G::HUGE_FRAMES / 8)) < part
    }

    /// Looks around in the slot's part of the zone; where no child of it has a block and is not free, in all of the zone. Passes the next children that are no other slot's target, of classes to which the slot's turns before it has turned to `turn` others.
    /// `look` says of a child how many of its frames are free, if it has a block of `order`. The best is the fullest of the class to
    /// which the slot's turns first.
    fn look_around(
        &self,
        order: u32,
        site: Site<'_>,
        turn: usize,
        look: impl Fn(usize, u64) -> Option<usize>,
    ) -> Seen {
        let (home, zone) = (self.part_of(site), 0..self.ground.children);
        let (cursor, patience) = site.cursor();
        let from = if home.contains(&cursor) { cursor } else { home.start };
        let (mut seen, next) = self.look_in(&home, from, order, site, turn, &look);
        site.set_cursor(next);
        if seen.fullest.is_none() && home != zone {
            let (abroad, next) = self.look_in(&zone, site.line.abroad(), order, site, turn, &look);
            site.line.set_abroad(next);
            seen = Seen { free: seen.free.or(abroad.free), ..abroad };
        }
        site.set_patience(if seen.fullest.is_some() { STEPS } else { patience / 2 });
        seen
    }

    /// The same of the next children of a part of the zone, from this one on; and where the next look goes on.
    fn look_in(
        &self,
        part: &Range<usize>,
        mut child: usize,
        order: u32,
        site: Site<'_>,
        turn: usize,
        look: &impl Fn(usize, u64) -> Option<usize>,
    ) -> (Seen, usize) {
        let (patience, half, grows) = (site.cursor().1, G::HUGE_FRAMES / 2, self.grows(site));
        // Looks for rows are short enough.
        let may_give_up = order < G::ROW_ORDER;
        let room = if grows && !(may_give_up && site.line.gives_up()) { half } else { 0 };
        let (mut seen, mut has_room) = (Seen { room, ..Seen::default() }, false);
        let (mut candidates, mut first, mut emptied) = (0, MAX_CLASSES, 0);
        let mut offers = None;
        // Nobody looks longer for a few blocks than for many.
        let least = patience.clamp(G::TREE.min(STEPS), STEPS).min(2 * (G::HUGE_FRAMES >> order));
        let (mut steps, mut most) = (least, CANDIDATES);
        // A huge frame that another slot takes rows from, or frees, is half free now and then. Single frames fill it up all the same; blocks
        // of several frames do so in the slot's own part.
        let is_own = part.len() <= self.ground.part;
        let offered = |tree| match order {
            0 => self.offers(tree, order),
            order if order < G::ROW_ORDER && is_own => self.offers(tree, order),
            _ => self.invites(tree, order, site),
        };
        let (mut passed, mut left) = (0, part.len());
        while passed < steps && left > 0 {
            passed += 1;
            if child >= part.end {
                child = part.start;
            }
            let tree = child / G::TREE;
            if offers != Some(tree) {
                let fits = turn == MAX_CLASSES || self.tree_fits(tree, site);
                if !fits || !offered(tree) {
                    let behind = ((tree + 1) * G::TREE).min(part.end);
                    left = left.saturating_sub(behind - child);
                    child = behind;
                    continue;
                }
                offers = Some(tree);
            }
            left -= 1;
            let (hint, states) = (self.hint(child), self.states(child));
            let turns = site.turn(class_in(hint));
            let passes = turns < turn && turns <= first && !Self::is_others(hint, child, site);
            let free = match states {
                _ if is_isolated(hint) => None,
                0 => Some(G::HUGE_FRAMES),
                states if passes => look(child, states),
                _ => None,
            };
            if free == Some(G::HUGE_FRAMES) {
                seen.free.get_or_insert(child);
                emptied += usize::from(states != 0 && !is_own);
                if patience <= G::TREE || emptied >= EMPTIED {
                    child += 1;
                    break;
                }
            } else if let Some(free) = free {
                has_room |= free >= half;
                let is_roomy = free >= room;
                candidates += usize::from(is_roomy);
                if turns < first
                    || seen.fullest.is_none_or(|(_, best)| seen.rank(free) < seen.rank(best))
                {
                    first = turns;
                    seen.fullest = Some((child, free));
                    let blocks = free >> order;
                    most = Self::candidates(free, blocks);
                    steps = if is_roomy {
                        least.max(blocks)
                    } else {
                        least.min(passed + Self::more(blocks))
                    };
                }
                if turns == 0 && is_roomy && (free <= Self::full(order) || candidates >= most) {
                    break;
                }
            }
            child += 1;
        }
        if may_give_up && (has_room || grows && seen.fullest.is_some()) {
            site.line.looked_for_room(has_room);
        }
        (seen, child)
    }

    /// The slot's part of the zone.
    fn part_of(&self, site: Site<'_>) -> Range<usize> {
        let start = site.line.home();
        start..start.saturating_add(self.ground.part).min(self.ground.children)
    }

    /// Of how many children the fullest is taken, where the fullest so far has so many free frames, and blocks. Who fills one of which most is
    /// free, and that would soon be free otherwise, had better be sure that there is no other: its blocks pay for that. Of one that is half full they do not;
    /// and a few blocks do not pay for more looks than there are of them.
    fn candidates(free: usize, blocks: usize) -> usize {
        let worth = free * free / G::HUGE_FRAMES * blocks / (YIELD * G::HUGE_FRAMES);
        worth.max(blocks.clamp(2, CANDIDATES))
    }

    /// How many more children a slot that grows passes, where the fullest so far has so many blocks, and half of none is free.
    const fn more(blocks: usize) -> usize {
        let (each, [least, most]) = GROWS;
        match each * blocks {
            more if more < least => least,
            more if more > most => most,
            more => more,
        }
    }

    /// Any child that is free, or that the class fills up and that has a block of `order`, of rows, if there are other classes: of the trees in
    /// which no slot allocates, then of all.
    fn free_or_filled(&self, order: u32, site: Site<'_>) -> Option<usize> {
        if self.fills_all(site) {
            return None;
        }
        let own = site.cursor().0 / G::TREE;
        let trees = || (own..self.trees.len()).chain(0..own.min(self.trees.len()));
        let filled = |tree| {
            let fits = self.tree_may_have(tree, order) && self.tree_fits(tree, site);
            let has = |&child: &usize| self.class_fits(child, site) && self.has_rows(child, order);
            fits.then(|| self.children_of(tree).find(has)).flatten()
        };
        let free = |tree| {
            let has = |&child: &usize| self.has_rows(child, G::HUGE_ORDER);
            let may_have = self.tree_may_have(tree, G::HUGE_ORDER);
            may_have.then(|| self.children_of(tree).find(has)).flatten()
        };
        let either = |tree: usize| filled(tree).or_else(|| free(tree));
        let quiet = trees().filter(|&tree| !self.is_in_use(tree)).find_map(either);
        quiet.or_else(|| trees().find_map(either))
    }

    /// Where the slot took a free child last; before that, where its looks around begin, so that slots are apart: the first look
    /// leads all of them to whoever was there first.
    pub(crate) fn home(site: Site<'_>) -> usize {
        // Another call on the slot may drain it meanwhile.
        match site.latest() {
            NONE => site.cursor().0,
            latest => latest,
        }
    }

    /// A child of which every row is free; of the largest order one with which a pair begins. Rows come from the lowest that the slot has
    /// emptied; smaller blocks from the next of the tree, and from the lowest where that has none. So who frees what was allocated, and allocates
    /// again, stays in the same memory.
    fn next_free(&self, from: usize, order: u32, site: Site<'_>) -> Option<usize> {
        let whole = order.max(G::HUGE_ORDER);
        let next = || {
            let end = self.children_of(from / G::TREE).end;
            (from..end).find(|&child| self.has_rows(child, whole))
        };
        let lowest = || self.lowest_free(whole, site);
        if order < G::ROW_ORDER { next().or_else(lowest) } else { lowest().or_else(next) }
    }

    /// The lowest child that has a block of `order`, at least a huge frame, from the lowest on of which the slot has freed a row since it looked there:
    /// in the next few trees, but for those in which others allocate.
    fn lowest_free(&self, order: u32, site: Site<'_>) -> Option<usize> {
        let lowest = site.line.lowest();
        let first = lowest / G::TREE;
        let last = first.saturating_add((STEPS / G::TREE).max(1)).min(self.trees.len());
        // Other slots write to the line of a tree's word. In its own tree the slot asks the children. In one of the first two it mostly
        // settles, and so the line comes once, to be written.
        let own = site.latest() / G::TREE;
        let mut trees = (first..last).filter(|&tree| {
            if tree != own && tree - first < 2 {
                fetch_to_write(self.trees, tree);
            }
            tree == own || self.invites(tree, order, site)
        });
        let found = trees.find_map(|tree| {
            let Range { start, end } = self.children_of(tree);
            (start.max(lowest)..end).find(|&child| self.has_rows(child, order))
        });
        if first < last {
            site.line.set_lowest(found.unwrap_or(last * G::TREE));
        }
        found
    }

    /// Takes what there is of blocks of `order`, at least a row's: of this child's tree, from that child on, then of other trees.
    fn in_trees<T>(
        &self,
        child: usize,
        order: u32,
        take: impl Fn(usize) -> Option<T>,
    ) -> Option<T> {
        let own = child / G::TREE;
        let in_tree = |tree| {
            let from = if tree == own { child } else { tree * G::TREE };
            self.in_tree(from, order, &take)
        };
        self.in_one(own, order, in_tree).or_else(|| self.in_each(own, order, in_tree))
    }

    /// What `take` finds in the trees, from one on: in those in which no slot allocates, then in all. Others may say of a tree that
    /// there is something whenever this has found nothing; so each is visited twice at most, and none is left out for it.
    fn in_each<T>(&self, from: usize, order: u32, take: impl Fn(usize) -> Option<T>) -> Option<T> {
        let trees = || (from..self.trees.len()).chain(0..from.min(self.trees.len()));
        let mut left_to_others = false;
        let mut quiet = trees().filter(|&tree| {
            let in_use = self.tree_may_have(tree, order) && self.is_in_use(tree);
            left_to_others |= in_use;
            !in_use
        });
        let mut found = quiet.find_map(|tree| self.in_one(tree, order, &take));
        if found.is_none() && left_to_others {
            found = trees().find_map(|tree| self.in_one(tree, order, &take));
        }
        if found.is_none() {
            self.zone_has_none(order);
        }
        found
    }

    /// What `take` finds in a tree, if it may have a block of `order`.
    fn in_one<T>(&self, tree: usize, order: u32, take: impl Fn(usize) -> Option<T>) -> Option<T> {
        if !self.tree_may_have(tree, order) {
            return None;
        }
        let found = take(tree);
        if found.is_none() {
            self.tree_has_none(tree, order);
        }
        found
    }

    /// Takes what there is in the tree of this child, from it on: of children that are in use in part, if such have blocks of
    /// `order`, then of all.
    fn in_tree<T>(&self, child: usize, order: u32, take: impl Fn(usize) -> Option<T>) -> Option<T> {
        let Range { start, end } = self.children_of(child / G::TREE);
        let mut all = (child.max(start)..end).chain(start..child.min(end));
        if order >= G::HUGE_ORDER {
            return all.filter(|&child| self.has_rows(child, order)).find_map(take);
        }
        let broken = |&child: &usize| !self.has_rows(child, G::HUGE_ORDER);
        all.clone().filter(broken).find_map(&take).or_else(|| all.find_map(&take))
    }

    // ---- Whether there is a block ----

    /// Is a block of `order` free? As fast as an allocation.
    pub(crate) fn has(&self, order: u32) -> bool {
        if order < G::ROW_ORDER {
            return self.has(G::ROW_ORDER)
                || self.visit(order, |child| self.has_hole(child, order));
        }
        self.visit(order, |child| self.has_rows(child, order))
    }

    /// Has a child an open row with a free block of `order`? If not, its hint says so from now on.
    fn has_hole(&self, child: usize, order: u32) -> bool {
        let may = self.may_have(child, order);
        let has = may && self.open_bits(child).any(|bits| row::has_block(bits, order));
        if may && !has {
            self.child_has_none(child, order);
        }
        has
    }

    /// Does this hold of a child of a tree that may have a block of `order`?
    fn visit(&self, order: u32, has: impl Fn(usize) -> bool) -> bool {
        if !self.zone_may_have(order) {
            return false;
        }
        for tree in (0..self.trees.len()).filter(|&tree| self.tree_may_have(tree, order)) {
            if self.children_of(tree).any(&has) {
                return true;
            }
            self.tree_has_none(tree, order);
        }
        self.zone_has_none(order);
        false
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;

    use super::*;
    use crate::child::{self, FREE, OPEN, TAKEN};
    use crate::hints::TARGETS;
    use crate::slots::{IN_VAIN, ONE_IN};
    use woodlot_frame::atomics::Ordering::Relaxed;
    use woodlot_frame::{
        Base4K, Class, FrameAllocator, FrameId, HugeId, Init, Order, Owned, Request, Slot,
        ZoneConfig,
    };

    /// Trees of the zone: of 32 huge frames each.
    const TREES: usize = 4;
    const CHILDREN: usize = TREES * Base4K::TREE;
    /// How many children a look around passes here.
    const PATIENCE: usize = 64;

    type Zone = Owned<OneWrite<'static, Base4K>>;

    /// A zone with two slots that have holes to fill. One row of each of its huge frames is open.
    fn zone() -> Zone {
        let zone = growing();
        for slot in [0, 1] {
            let line = site(&zone, slot).line;
            (0..=CHILDREN).for_each(|row| line.freed::<ROWS>(row));
            line.forget_all();
        }
        zone
    }

    /// The same, and the slots grow.
    fn growing() -> Zone {
        let config = ZoneConfig::new(CHILDREN * Base4K::HUGE_FRAMES, 2);
        let zone = Zone::new(&config, Init::Free).expect("a zone");
        assert!((0..CHILDREN).all(|child| zone.open(Part::of::<Base4K>(child, 0, 1), 0, 0)));
        (0..TREES).for_each(|tree| zone.has_class(tree, Class::MOVABLE));
        zone
    }

    /// Where a slot allocates what can be moved.
    fn site(zone: &Zone, slot: usize) -> Site<'_> {
        zone.slots.site(slot, Class::MOVABLE).expect("a site")
    }

    /// What the first slot sees that looks around from a child on for a block of `order`: the fullest of its `free`, the
    /// children that it has looked at, and where it would go on.
    fn seen(
        zone: &Zone,
        from: usize,
        order: u32,
        free: impl Fn(usize) -> Option<usize>,
    ) -> (Seen, usize, usize) {
        let site = site(zone, 0);
        site.set_patience(PATIENCE);
        let looks = core::cell::Cell::new(0);
        let look = |child, _| {
            looks.set(looks.get() + 1);
            free(child)
        };
        let (seen, next) = zone.look_in(&(0..CHILDREN), from, order, site, site.fills(), &look);
        (seen, looks.get(), next)
    }

    /// A question is asked once of the rows: after that, hints answer.
    #[test]
    fn what_is_not_available_is_said_by_a_hint() {
        let config = ZoneConfig::new(CHILDREN * Base4K::HUGE_FRAMES, 1);
        let zone = Zone::new(&config, Init::Allocated).expect("a zone");
        for order in [0, 3, 6, 9] {
            assert!(!zone.is_available(Order(order)));
            assert!(!zone.zone_may_have(order.into()), "order {order} is looked for again");
        }
        zone.free(FrameId(64), Order(3), Slot(0)).expect("it is allocated");
        assert_eq!([0, 3, 4].map(|order| zone.is_available(Order(order))), [true, true, false]);
    }

    #[test]
    fn a_slot_looks_around_in_its_own_part_first_and_then_in_all() {
        let zone = zone();
        let part = CHILDREN / 2;
        for slot in [0, 1] {
            let (site, own) = (site(&zone, slot), slot * part..(slot + 1) * part);
            site.set_patience(PATIENCE);
            let looks = core::cell::Cell::new(0);
            let fullest = |has: &dyn Fn(usize) -> bool| {
                looks.set(0);
                let seen = zone.look_around(0, site, site.fills(), |child, _| {
                    assert!(looks.get() >= part || own.contains(&child), "first {child}");
                    looks.set(looks.get() + 1);
                    has(child).then_some(1)
                });
                seen.fullest
            };
            assert_eq!((fullest(&|_| true), looks.get()), (Some((own.start, 1)), 1));
            for child in [part - slot * part, 3 + part - slot * part] {
                site.line.set_abroad(child);
                assert_eq!(fullest(&|child| !own.contains(&child)), Some((child, 1)));
                assert_eq!((looks.get(), site.line.abroad()), (part + 1, child));
            }
        }
    }

    /// It leaves alone the trees in which others allocate; single frames it takes there, and blocks below a row in the slot's own part.
    #[test]
    fn a_look_around_leaves_the_trees_of_others_alone() {
        let zone = zone();
        zone.settles(site(&zone, 1), Base4K::TREE);
        let own = site(&zone, 0);
        for (order, in_part, in_all) in [(0, 1, 1), (3, 1, 2), (6, 2, 2), (8, 2, 2)] {
            let fullest = seen(&zone, Base4K::TREE, order, |_| Some(256)).0.fullest;
            assert_eq!(fullest, Some((in_all * Base4K::TREE, 256)), "order {order}");
            let part = Base4K::TREE..3 * Base4K::TREE;
            let (seen, _) =
                zone.look_in(&part, part.start, order, own, own.fills(), &|_, _| Some(256));
            assert_eq!(seen.fullest, Some((in_part * Base4K::TREE, 256)), "order {order}");
        }
        zone.settles(site(&zone, 0), Base4K::TREE);
        let fullest = seen(&zone, Base4K::TREE, 6, |_| Some(256)).0.fullest;
        assert_eq!(fullest, Some((Base4K::TREE, 256)));
    }

    #[test]
    fn rows_are_opened_for_sixteen_blocks_where_they_lie_side_by_side() {
        let config = ZoneConfig::new(2 * Base4K::HUGE_FRAMES, 1);
        for (order, rows) in [(0, 1), (2, 1), (3, 2), (4, 4), (5, 8)] {
            let zone = Zone::new(&config, Init::Free).expect("a zone");
            assert_eq!(zone.open_in_child(0, order), Some(0));
            assert_eq!(child::open_rows(zone.states(0)).count_ones(), rows, "order {order}");
        }
        let zone = Zone::new(&config, Init::Free).expect("a zone");
        for first in [3, 6] {
            assert!(zone.turn(Part::of::<Base4K>(0, first, 1), FREE, TAKEN));
        }
        let opened = [(); 3].map(|()| {
            let offset = zone.open_in_child(0, 5)?;
            Some((offset, child::open_rows(zone.states(0)).count_ones()))
        });
        assert_eq!(opened, [Some((0, 2)), Some((4 * 64, 4)), Some((2 * 64, 5))]);
    }

    #[test]
    fn the_next_huge_frame_is_of_the_same_tree() {
        let config = ZoneConfig::new(CHILDREN * Base4K::HUGE_FRAMES, 1);
        let zone = Zone::new(&config, Init::Free).expect("a zone");
        let site = site(&zone, 0);
        let behind = |latest| {
            site.set_latest(latest);
            [(); 2].map(|()| zone.take_next(site))
        };
        assert_eq!(behind(NONE), [None; 2]);
        assert_eq!(behind(Base4K::TREE - 3), [30, 31].map(Some));
        assert_eq!(behind(Base4K::TREE - 1), [None; 2]);
        let behind = |latest| {
            site.set_latest(latest);
            [(); 2].map(|()| zone.take_next_pair(site))
        };
        assert_eq!(behind(NONE), [None; 2]);
        assert_eq!(behind(2 * Base4K::TREE - 5), [60, 62].map(Some));
        assert_eq!(behind(2 * Base4K::TREE - 2), [None; 2]);
        let taken = (0..CHILDREN).filter(|&child| zone.states(child) != 0);
        assert!(taken.eq([30, 31, 60, 61, 62, 63]));
    }

    /// What keeps a slot, which has taken from the first huge frame and looked around in vain, from going on in the next one.
    const REFUSALS: [fn(&Zone); 5] = [
        |zone| site(zone, 0).set_patience(1),
        |zone| site(zone, 0).set_latest(Base4K::TREE - 1),
        |zone| zone.becomes(1, Class::IMMOVABLE),
        |zone| assert!(zone.isolate(HugeId(1), 1).is_ok()),
        |zone| assert!(zone.open(Part::of::<Base4K>(1, 0, 1), 0, 0)),
    ];

    /// Where a search would end there.
    #[test]
    fn rows_go_on_behind_the_last_huge_frame() {
        let config = ZoneConfig::new(CHILDREN * Base4K::HUGE_FRAMES, 1);
        let make = || {
            let zone = Zone::new(&config, Init::Free).expect("a zone");
            let next = zone.alloc(Request::movable(Order(8), Slot(0)));
            assert_eq!(next, Ok(FrameId(0)));
            site(&zone, 0).set_patience(0);
            zone
        };
        let zone = make();
        assert_ne!(zone.hint(0) & TARGETS, 0);
        let next = || zone.alloc(Request::movable(Order(8), Slot(0))).map(|frame| frame.0 / 256);
        assert_eq!([next(), next(), next(), next()], [1, 2, 3, 4].map(Ok));
        // It is the slot's without a mark, and leaves none behind.
        assert_eq!(
            ([0, 1, 2].map(|child| zone.hint(child) & TARGETS), site(&zone, 0).child()),
            ([0; 3], 2)
        );
        let emptied: fn(&Zone) = |zone| {
            site(zone, 0).set_latest(1);
            site(zone, 0).line.emptied(0);
        };
        for refused in REFUSALS.into_iter().chain([emptied]) {
            let zone = make();
            refused(&zone);
            assert_eq!(zone.take_next_rows(2, site(&zone, 0)), None);
        }
    }

    /// Likewise of smaller blocks: nobody looks around before the end of the tree.
    #[test]
    fn blocks_go_on_in_the_next_huge_frame() {
        let config = ZoneConfig::new(CHILDREN * Base4K::HUGE_FRAMES, 1);
        let make = || {
            let zone = Zone::new(&config, Init::Free).expect("a zone");
            for block in 0..16 {
                let next = zone.alloc(Request::movable(Order(5), Slot(0)));
                assert_eq!(next, Ok(FrameId(block * 32)));
            }
            site(&zone, 0).set_patience(0);
            zone
        };
        let zone = make();
        let cursor = site(&zone, 0).cursor();
        for block in 16..18 {
            let next = zone.alloc(Request::movable(Order(5), Slot(0)));
            assert_eq!(next, Ok(FrameId(block * 32)));
        }
        assert_eq!((site(&zone, 0).cursor(), site(&zone, 0).target(5)), (cursor, 1));
        assert_eq!([0, 1].map(|child| zone.hint(child) & TARGETS != 0), [false, true]);
        let freed: fn(&Zone) = |zone| assert_eq!(zone.free(FrameId(32), Order(5), Slot(0)), Ok(()));
        for refused in REFUSALS.into_iter().chain([freed]) {
            let zone = make();
            refused(&zone);
            assert_eq!(zone.take_in_next(5, site(&zone, 0)), None);
        }
        let zone = make();
        assert_eq!(zone.take_in_next(5, site(&zone, 0)), Some(512));
    }

    /// Of which nothing is left is forgotten only where nothing is left anywhere.
    #[test]
    fn a_slot_aims_at_none_where_there_is_nothing() {
        let zone = Zone::new(&ZoneConfig::new(512, 1), Init::Free).expect("a zone");
        let site = site(&zone, 0);
        let next = || zone.alloc(Request::movable(Order(5), Slot(0)));
        (0..16).for_each(|_| assert!(next().is_ok()));
        assert_eq!((site.target(5), zone.hint(0) & TARGETS != 0), (0, true));
        assert_eq!(next(), Err(woodlot_frame::AllocError::OutOfMemory));
        assert_eq!((site.target(5), zone.hint(0) & TARGETS), (NONE, 0));
    }

    #[test]
    fn the_next_rows_of_the_huge_frame_come_after_the_slots_row() {
        let config = ZoneConfig::new(2 * Base4K::HUGE_FRAMES, 1);
        let zone = Zone::new(&config, Init::Free).expect("a zone");
        let site = site(&zone, 0);
        assert!([0, 1].into_iter().all(|child| zone.open(Part::whole::<Base4K>(child), 0, 0)));
        zone.rows[2].store(1 << 63, Relaxed);
        zone.rows[4].store(0, Relaxed);
        let next = |row| {
            site.set_row(0, row);
            (zone.take_in_next_row::<0>(site), zone.take_behind::<0>(site))
        };
        assert_eq!([0, NONE].map(next), [(None, None); 2]);
        zone.aims(site, 0, 0);
        assert_eq!([0, 1].map(next), [(Some(64), Some(65)), (Some(191), Some(3 * 64))]);
        // Of no huge frame but the slot's target.
        let expected = [(None, Some(5 * 64)), (None, None), (None, Some(1))];
        assert_eq!([3, 7, 8].map(next), expected);
    }

    /// Where it has filled a hole, it goes on in its target.
    #[test]
    fn a_slot_leaves_a_huge_frame_that_became_anothers() {
        let config = ZoneConfig::new(3 * Base4K::HUGE_FRAMES, 2);
        for class in [Class::IMMOVABLE, Class::MOVABLE] {
            let zone = Zone::new(&config, Init::Free).expect("a zone");
            let alloc = |class, slot| {
                let request = Request { class, ..Request::movable(Order(0), Slot(slot)) };
                zone.alloc(request).expect("a frame").0
            };
            (0..=Base4K::HUGE_FRAMES).for_each(|_| _ = alloc(class, 0));
            assert_eq!(zone.free(FrameId(3), Order(0), Slot(0)), Ok(()));
            while alloc(class, 0) != 3 {}
            // Another slot empties it, and breaks it again.
            let mut first = (0..Base4K::HUGE_FRAMES).map(FrameId);
            assert!(first.all(|frame| zone.free(frame, Order(0), Slot(1)) == Ok(())));
            zone.breaking(0, site(&zone, 1), || zone.take_in_child(0, 0)).expect("a frame");
            zone.aims(site(&zone, 1), 0, 0);
            let others = (0..300).filter(|_| alloc(class, 0) < Base4K::HUGE_FRAMES).count();
            assert!(others <= Base4K::ROW_FRAMES, "{others} frames of another's huge frame");
        }
    }

    #[test]
    fn rows_that_are_in_use_are_filled_up_before_others_are_broken() {
        let zone = Zone::new(&ZoneConfig::new(512, 1), Init::Free).expect("a zone");
        assert!(zone.open(Part::of::<Base4K>(0, 0, 4), 0, 0));
        zone.rows[0].store(0, Relaxed);
        zone.rows[2].store(1 << 63, Relaxed);
        assert_eq!([(); 2].map(|()| zone.take_in_child(0, 0)), [Some(191), Some(64)]);
        // Where none has a block, one is opened.
        assert_eq!([(); 3].map(|()| zone.take_in_child(0, 5)), [96, 192, 224].map(Some));
        assert_eq!(zone.take_in_child(0, 5), Some(256));
        assert_eq!(zone.take_in_child(1, 0), None);
    }

    /// One look for a huge frame into which the slot has freed, and not one for each row.
    #[test]
    fn the_huge_frame_of_a_row_that_was_freed_is_filled_up() {
        const HUGE: usize = 8;
        let zone = Zone::new(&ZoneConfig::new(HUGE * Base4K::HUGE_FRAMES, 1), Init::Free);
        let (zone, request) = (zone.expect("a zone"), Request::movable(Order(0), Slot(0)));
        assert!((0..HUGE * Base4K::HUGE_FRAMES).all(|_| zone.alloc(request).is_ok()));
        for (huge, frames) in [(3, 2 * Base4K::ROW_FRAMES), (5, Base4K::ROW_FRAMES)] {
            let first = huge * Base4K::HUGE_FRAMES;
            let mut frames = (first..first + frames).map(FrameId);
            assert!(frames.all(|frame| zone.free(frame, Order(0), Slot(0)).is_ok()));
        }
        let site = site(&zone, 0);
        for huge in [5, 3, 3] {
            for _ in 0..Base4K::ROW_FRAMES {
                let frame = zone.alloc(request).expect("a frame");
                assert_eq!((frame.0 / Base4K::HUGE_FRAMES, site.target(0)), (huge, huge));
            }
        }
    }

    /// A zone all of which is allocated, but for so many frames from the first of each of these children on, which the slot has freed one after
    /// another.
    fn freed(holes: &[(usize, usize)]) -> Zone {
        let config = ZoneConfig::new(CHILDREN * Base4K::HUGE_FRAMES, 1);
        let zone = Zone::new(&config, Init::Allocated).expect("a zone");
        for &(child, frames) in holes {
            let first = child * Base4K::HUGE_FRAMES;
            let mut frames = (first..first + frames).map(FrameId);
            assert!(frames.all(|frame| zone.free(frame, Order(0), Slot(0)).is_ok()));
        }
        zone
    }

    #[test]
    fn a_full_child_into_which_the_slot_has_freed_is_filled_without_a_look() {
        let zone = freed(&[(3, 1), (4, 2), (6, 60), (2, 40)]);
        let site = site(&zone, 0);
        let cursor = site.cursor().0;
        assert_eq!(zone.take_around(0, site), Some(4 * Base4K::HUGE_FRAMES));
        assert_eq!((site.target(0), zone.hint(4) & TARGETS, site.cursor().0), (4, 0, cursor));
        // What was passed on the way is forgotten.
        assert_eq!(site.line.newest::<ROWS>(), Some(3 * Base4K::ROWS));
    }

    #[test]
    fn the_fullest_of_what_was_freed_has_a_block_and_is_one_of_the_last_few() {
        // The first is one too many.
        for (before, order) in [(1, 0), (1, 5), (17, 0), (32, 5)] {
            let holes: [_; CANDIDATES + 1] =
                core::array::from_fn(|n| n.checked_sub(1).map_or((20, before), |n| (n, 40 + n)));
            let zone = freed(&holes);
            let site = site(&zone, 0);
            assert_eq!(zone.fullest_freed(order, site), Some((0, 40)), "{before} {order}");
            assert_eq!(site.line.newest::<ROWS>(), Some(20 * Base4K::ROWS));
        }
        // One that is fuller has no block of so many frames.
        let zone = freed(&[(5, 64), (6, 40), (7, 20)]);
        assert_eq!(zone.fullest_freed(5, site(&zone, 0)), Some((6 * Base4K::ROWS, 40)));
        let zone = freed(&[(5, 31)]);
        assert_eq!(zone.fullest_freed(5, site(&zone, 0)), None);
    }

    #[test]
    fn what_was_freed_into_an_isolated_child_is_passed() {
        let zone = freed(&[(3, 2), (4, 1)]);
        assert_eq!(zone.isolate(HugeId(4), 1), Ok(()));
        let site = site(&zone, 0);
        assert_eq!(zone.fullest_freed(0, site), Some((3 * Base4K::ROWS, 2)));
    }

    #[test]
    fn what_was_freed_before_a_free_child_is_forgotten() {
        for (left, before) in [(0, None), (LEFT, None), (LEFT + 1, Some(4 * Base4K::ROWS))] {
            let zone = freed(&[(3, 20), (4, Base4K::HUGE_FRAMES - left), (5, 30)]);
            let site = site(&zone, 0);
            assert_eq!(zone.fullest_freed(0, site), Some((5 * Base4K::ROWS, 30)));
            // Seven rows were looked at besides: all of the child but its first, where it has not ended there.
            assert_eq!(site.line.newest::<ROWS>(), before, "{left} left");
        }
    }

    /// A zone of which the second slot has freed a block of `order` in each of the first huge frames, and the last one. All else is allocated. By what it has allocated besides that slot has
    /// freed `more` frames more than it has allocated, and the first slot has grown.
    fn freed_by_another(order: u32, more: usize) -> Zone {
        const LEFT: usize = 32;
        let config = ZoneConfig::new((LEFT + 2) * Base4K::HUGE_FRAMES, 2);
        let zone = Zone::new(&config, Init::Allocated).expect("a zone");
        let free = |child: usize, order: u32| {
            let frame = FrameId(child * Base4K::HUGE_FRAMES);
            assert_eq!(zone.free(frame, Order(order as u8), Slot(1)), Ok(()));
        };
        free(LEFT + 1, Base4K::HUGE_ORDER);
        (0..LEFT).for_each(|child| free(child, order));
        let count = |slot, frames| zone.line(Slot(slot)).expect("a slot").count(frames);
        count(1, more as isize - (Base4K::HUGE_FRAMES + (LEFT << order)) as isize);
        count(0, -1);
        zone
    }

    /// From which huge frame the first slot takes the next block of `order`.
    fn takes(zone: &Zone, order: u32) -> usize {
        let block = zone.alloc(Request::movable(Order(order as u8), Slot(0)));
        block.expect("a block").0 / Base4K::HUGE_FRAMES
    }

    /// Of rows and of smaller blocks: the order, and how many frames more the other slot has to free than to allocate.
    const SHRUNK: [(u32, usize); 4] = [(0, 256), (3, 256), (6, 32), (8, 32)];

    #[test]
    fn who_has_grown_fills_what_another_has_left_that_frees_more_than_it_allocates() {
        for (order, more) in SHRUNK {
            let zone = freed_by_another(order, more);
            assert!((0..24).all(|child| takes(&zone, order) == child), "order {order}");
            let changes: [fn(&Zone); 2] = [
                |zone| zone.line(Slot(1)).expect("a slot").count(-1),
                |zone| zone.line(Slot(0)).expect("a slot").count(1),
            ];
            for change in changes {
                let zone = freed_by_another(order, more);
                change(&zone);
                takes(&zone, order);
                let line = zone.line(Slot(0)).expect("a slot");
                let kept = |nth| [line.of_others::<ROWS>(nth), line.of_others::<HOLES>(nth)];
                assert!((0..TAKEN_OVER).all(|nth| kept(nth) == [NONE; 2]), "order {order}");
            }
        }
    }

    #[test]
    fn what_the_slot_itself_has_freed_comes_first_unless_it_is_of_another_class() {
        for (order, more) in SHRUNK {
            for class in [Class::MOVABLE, Class::IMMOVABLE] {
                let zone = freed_by_another(order, more);
                let frame = FrameId(32 * Base4K::HUGE_FRAMES + 256);
                assert_eq!(zone.free(frame, Order(order as u8), Slot(0)), Ok(()));
                zone.becomes(32, class);
                // It has grown all the same.
                zone.line(Slot(0)).expect("a slot").count(-(1 << order));
                let first = [(); 2].map(|()| takes(&zone, order));
                let own = [32, 0];
                assert_eq!(first, if class == Class::MOVABLE { own } else { [0, 1] }, "{order}");
            }
        }
    }

    #[test]
    fn who_remembers_what_it_has_freed_asks_nobody() {
        let zone = freed_by_another(0, 256);
        let line = zone.line(Slot(0)).expect("a slot");
        for frame in 32 * Base4K::HUGE_FRAMES + 64..33 * Base4K::HUGE_FRAMES {
            assert_eq!(zone.free(FrameId(frame), Order(0), Slot(0)), Ok(()));
            line.count(-1);
        }
        takes(&zone, 0);
        assert!((0..TAKEN_OVER).all(|nth| line.of_others::<ROWS>(nth) == NONE), "it has asked");
    }

    #[test]
    fn what_others_have_left_is_passed_where_it_is_not_to_be_filled() {
        for (order, more) in [(0, 1024), (6, 1024)] {
            let [block, beside] = [0, 256].map(|at| 7 * Base4K::HUGE_FRAMES + at);
            let free = |zone: &Zone, at: usize, order: u8| {
                assert_eq!(zone.free(FrameId(beside + at), Order(order), Slot(1)), Ok(()));
            };
            let half = |zone: &Zone| {
                free(zone, 0, 7);
                free(zone, 128, 6);
            };
            let nine = |zone: &Zone| [(); 9].map(|()| takes(zone, order));
            let zone = freed_by_another(order, more);
            half(&zone);
            // All of its holes are filled.
            assert_eq!(nine(&zone), [0, 1, 2, 3, 4, 5, 6, 7, 7], "order {order}");
            let changes: [&dyn Fn(&Zone); 5] = [
                &|zone| {
                    half(zone);
                    free(zone, 192, if order == 0 { 6 } else { 0 });
                },
                &|zone| zone.becomes(7, Class::IMMOVABLE),
                &|zone| zone.aims(site(zone, 1), order, 7),
                &|zone| assert_eq!(zone.isolate(HugeId(7), 1), Ok(())),
                &|zone| {
                    let request = Request::movable(Order(order as u8), Slot(1));
                    assert_eq!(zone.alloc(request.at(FrameId(block))), Ok(FrameId(block)));
                },
            ];
            for (n, change) in changes.into_iter().enumerate() {
                // Before it is taken over, and after it.
                for after in [false, true] {
                    let zone = freed_by_another(order, more);
                    let line = zone.line(Slot(0)).expect("a slot");
                    if after {
                        zone.slots.take_over::<ROWS>(line, |_| true);
                        zone.slots.take_over::<HOLES>(line, |_| true);
                    }
                    change(&zone);
                    assert_eq!(nine(&zone), [0, 1, 2, 3, 4, 5, 6, 8, 9], "{order}, {n}, {after}");
                    // What others may fill is kept.
                    let is_kept = (0..TAKEN_OVER).any(|nth| {
                        let of_others = (line.of_others::<ROWS>(nth), line.of_others::<HOLES>(nth));
                        of_others == (7 * Base4K::ROWS, NONE) || of_others == (NONE, 7)
                    });
                    assert_eq!(is_kept, after && [1, 2].contains(&n), "{order}, {n}, {after}");
                }
            }
        }
    }

    #[test]
    fn blocks_of_several_frames_are_not_taken_where_another_slot_allocates() {
        let zone = freed_by_another(0, 0);
        zone.settles(site(&zone, 1), 0);
        let left = |child, order| zone.left(child, true, order, site(&zone, 0));
        assert!(matches!(
            (left(0, 0), left(0, 3), left(0, 6)),
            (Left::ToFill(1), Left::ForOthers, Left::ForOthers)
        ));
        assert!(matches!((left(32, 3), left(32, 6)), (Left::ToFill(0), Left::ToFill(0))));
        assert!(matches!((left(34, 0), left(usize::MAX, 0)), (Left::Nothing, Left::Nothing)));
    }

    #[test]
    fn the_holes_that_a_slot_has_left_are_filled_one_after_the_other() {
        let config = ZoneConfig::new(6 * Base4K::HUGE_FRAMES, 1);
        let zone = Zone::new(&config, Init::Allocated).expect("a zone");
        let free = |child: usize, at: usize, order: u8| {
            let frame = FrameId(child * Base4K::HUGE_FRAMES + at);
            assert_eq!(zone.free(frame, Order(order), Slot(0)), Ok(()));
        };
        free(5, 0, 9);
        (0..4).for_each(|child| free(child, 64, 6));
        // One of which all is free now is no hole any more, and is not broken.
        [(0, 6), (128, 7), (256, 8)].into_iter().for_each(|(at, order)| free(3, at, order));
        assert_eq!([(); 3].map(|()| takes(&zone, 6)), [2, 1, 0]);
        assert_eq!(zone.stats().free_huge, 2);
    }

    #[test]
    fn who_finds_huge_frames_nowhere_near_goes_on_where_it_found_the_last() {
        let config = ZoneConfig::new(CHILDREN * Base4K::HUGE_FRAMES, 2);
        let zone = Zone::new(&config, Init::Allocated).expect("a zone");
        for child in [40, 100] {
            let frame = FrameId(child * Base4K::HUGE_FRAMES);
            assert_eq!(zone.free(frame, Order(9), Slot(1)), Ok(()));
        }
        let site = site(&zone, 0);
        site.line.set_lowest(NONE);
        site.set_latest(101);
        assert_eq!([(); 2].map(|()| takes(&zone, 9)), [100, 40]);
    }

    /// One slot allocates, another frees at random. Half a huge frame is left before it is told that others leave holes, and as much while it is full.
    #[test]
    fn huge_frames_are_kept_where_another_slot_frees() {
        const HUGE: usize = 128;
        for order in [0, 3, 6] {
            let config = ZoneConfig::new(HUGE * Base4K::HUGE_FRAMES, 2);
            let zone = Zone::new(&config, Init::Free).expect("a zone");
            let next = || zone.alloc(Request::movable(Order(order), Slot(0))).expect("a block");
            let blocks = (HUGE - 28) * (Base4K::HUGE_FRAMES >> order);
            let mut list = std::vec::Vec::from_iter((0..blocks).map(|_| next()));
            let mut random = fastrand::Rng::with_seed(27);
            for _ in 0..8 * blocks {
                let block = random.choice(&mut list).expect("one of many");
                assert_eq!(zone.free(*block, Order(order), Slot(1)), Ok(()));
                *block = next();
            }
            let kept = zone.stats().free_huge;
            assert!(kept >= 24, "order {order}: {kept} of 28");
        }
    }

    /// Of each kind, and for rows as well.
    #[test]
    fn a_full_child_gets_no_mark_and_the_one_before_loses_its_own() {
        let config = ZoneConfig::new(CHILDREN * Base4K::HUGE_FRAMES, 1);
        let zone = Zone::new(&config, Init::Free).expect("a zone");
        let site = site(&zone, 0);
        for (kind, order) in [0, 5, 6].into_iter().enumerate() {
            let full = OneWrite::<Base4K>::full(order);
            for (child, free, mark) in [(7, full + 1, true), (9, full, false), (7, 1, false)] {
                zone.comes_to(child, free, order, site);
                assert_eq!(site.targets()[kind], child);
                let marks = [7, 9].map(|child| zone.hint(child) & TARGETS != 0);
                assert_eq!(marks, [mark, false], "order {order}, {free} free");
            }
        }
    }

    #[test]
    fn a_look_around_takes_the_fullest_of_the_first_few() {
        let zone = zone();
        // The fullest comes third, and one that is fuller comes ninth.
        let free = |child| Some([40, 30, 20, 30, 40, 50, 60, 70, 17][child % 9]);
        let (found, looks, cursor) = seen(&zone, 0, 0, free);
        assert_eq!((found.fullest, found.free), (Some((2, 20)), None));
        assert_eq!((looks, cursor), (CANDIDATES, CANDIDATES - 1));
        // Those without a block are no candidates.
        let (found, looks, _) = seen(&zone, 0, 0, |child| (child % 2 == 1).then_some(40 - child));
        assert_eq!((found.fullest, looks), (Some((15, 25)), 2 * CANDIDATES));
    }

    /// The fullest of those that it passes; where there is none, the fullest child of these.
    #[test]
    fn a_slot_that_grows_goes_where_half_is_free() {
        let half = Base4K::HUGE_FRAMES / 2;
        // All have so many free frames, but for these; the slot begins at the first child.
        let fullest = |zone: &Zone, order, free, others: &[(usize, usize)]| {
            let (site, looks) = (site(zone, 0), core::cell::Cell::new(0));
            site.set_patience(CHILDREN);
            site.line.looked_for_room(true);
            let look = |child, _| {
                looks.set(looks.get() + 1);
                Some(others.iter().find(|&&(at, _)| at == child).map_or(free, |of| of.1))
            };
            let (found, _) = zone.look_in(&(0..CHILDREN), 0, order, site, site.fills(), &look);
            (found.fullest, looks.get())
        };
        let grows = growing();
        for (order, free, passed) in
            [(0, 1, 17), (0, 5, 21), (0, 16, 65), (2, 20, 21), (0, 40, 128)]
        {
            assert_eq!(fullest(&grows, order, free, &[]), (Some((0, free)), passed));
            let last = passed - 1;
            assert_eq!(fullest(&grows, order, free, &[(last, half)]).0, Some((last, half)));
            assert_eq!(fullest(&grows, order, free, &[(last, half - 1)]).0, Some((0, free)));
            assert_eq!(fullest(&grows, order, free, &[(passed, half)]).0, Some((0, free)));
        }
        // A fuller one is worth fewer, from there on.
        assert_eq!(fullest(&grows, 0, 16, &[(9, 1)]), (Some((9, 1)), 26));
        let roomy = [(7, 400), (9, half), (40, 300)];
        assert_eq!(fullest(&grows, 0, 30, &roomy), (Some((9, half)), CHILDREN));
        assert_eq!(fullest(&zone(), 0, 30, &roomy), (Some((0, 30)), CANDIDATES));
    }

    #[test]
    fn a_slot_that_finds_no_room_to_grow_takes_the_fullest_from_then_on() {
        let (grows, half) = (growing(), Base4K::HUGE_FRAMES / 2);
        // How many it passes of which so many frames are free, but for one.
        let passed = |zone: &Zone, other: (usize, usize)| {
            let (site, looks) = (site(zone, 0), core::cell::Cell::new(0));
            site.set_patience(CHILDREN);
            let look = |child, _| {
                looks.set(looks.get() + 1);
                Some(if child == other.0 { other.1 } else { 20 })
            };
            zone.look_in(&(0..CHILDREN), 0, 0, site, site.fills(), &look);
            looks.get()
        };
        let line = site(&grows, 0).line;
        for found in [1, CANDIDATES - 1] {
            assert!((0..IN_VAIN).all(|_| passed(&grows, (found, half - 1)) == 81));
            let mut less = (IN_VAIN..ONE_IN).map(|_| passed(&grows, (found, half - 1)));
            assert!(less.all(|passed| passed == CANDIDATES));
            // One look of many is as long as before.
            assert_eq!([(); 2].map(|()| passed(&grows, (found, half - 1))), [81, CANDIDATES]);
            // Until it comes across one. That one is not the fullest.
            assert_eq!(passed(&grows, (found, half)), CANDIDATES);
            assert_eq!(line.without_room(), 0);
            assert_eq!(passed(&grows, (found, half)), CHILDREN);
        }
        // Of more looks than can be counted, too.
        line.set_without_room(usize::MAX);
        assert!((0..2).all(|_| passed(&grows, (0, 20)) == CANDIDATES));
        // Who has holes to fill looks for none in vain, and comes across one all the same.
        let fills = zone();
        let line = site(&fills, 0).line;
        line.set_without_room(IN_VAIN);
        assert_eq!((passed(&fills, (1, half - 1)), line.without_room()), (CANDIDATES, IN_VAIN));
        assert_eq!((passed(&fills, (1, half)), line.without_room()), (CANDIDATES, 0));
    }

    #[test]
    fn looks_for_rows_and_looks_that_find_nothing_say_nothing_of_room() {
        let (zone, half) = (growing(), Base4K::HUGE_FRAMES / 2);
        let line = site(&zone, 0).line;
        let looks = |order, free: Option<usize>| {
            line.set_without_room(IN_VAIN);
            seen(&zone, 0, order, |_| free);
            line.without_room()
        };
        let looks = [(0, None), (6, Some(20)), (6, Some(half)), (5, Some(33)), (5, Some(half))]
            .map(|(order, free)| looks(order, free));
        assert_eq!(looks, [IN_VAIN, IN_VAIN, IN_VAIN, IN_VAIN + 1, 0]);
        // Nor are looks for rows given up.
        let fullest = [1, 6].map(|order| {
            line.set_without_room(IN_VAIN);
            seen(&zone, 0, order, |child| Some(if child == 3 { half } else { 64 })).0.fullest
        });
        assert_eq!(fullest, [Some((0, 64)), Some((3, half))]);
    }

    /// Though it has come across one.
    #[test]
    fn who_has_given_up_fills_a_small_hole() {
        for (looks, huge) in [(0, 6), (IN_VAIN, 3)] {
            let zone = freed(&[(3, 40), (6, 300)]);
            let site = site(&zone, 0);
            site.line.count(-400);
            site.line.set_without_room(looks);
            let found = zone.take_around(0, site).map(|offset| offset / Base4K::HUGE_FRAMES);
            assert_eq!((found, site.line.without_room()), (Some(huge), 0), "{looks}");
        }
    }

    #[test]
    fn a_slot_that_grows_leaves_a_small_hole_for_a_child_of_which_half_is_free() {
        let zone = freed(&[(3, 40), (6, 300)]);
        let found = zone.take_around(0, site(&zone, 0));
        assert_eq!(found.map(|offset| offset / Base4K::HUGE_FRAMES), Some(6));
    }

    /// From as many holes on as its part of the zone has children.
    #[test]
    fn who_has_holes_to_fill_is_not_growing() {
        let zone = growing();
        let (site, part) = (site(&zone, 0), CHILDREN / 2);
        assert_eq!((zone.ground.part, zone.grows(site)), (part, true));
        (0..part).for_each(|row| site.line.freed::<ROWS>(row));
        assert!(zone.grows(site), "the newest is at hand");
        site.line.freed::<ROWS>(part);
        assert!(!zone.grows(site));
        (0..part * Base4K::HUGE_FRAMES).for_each(|row| site.line.freed::<ROWS>(row));
        assert!(!zone.grows(site));
        site.line.count(-((part * (Base4K::HUGE_FRAMES / 8 - 1)) as isize));
        assert!(!zone.grows(site), "an eighth of its part is what it has left at most");
        site.line.count(-1);
        assert!(zone.grows(site));
    }

    #[test]
    fn a_look_around_stops_at_a_full_child_and_goes_on_there() {
        let zone = zone();
        let free = |child| Some(if child == 5 { 16 } else { 17 });
        let (found, looks, cursor) = seen(&zone, 0, 0, free);
        assert_eq!((found.fullest, looks, cursor), (Some((5, 16)), 6, 5));
        // What is one block is full, too.
        assert_eq!(seen(&zone, 0, 5, |_| Some(32)).1, 1);
        assert_eq!(seen(&zone, 0, 0, |_| Some(33)).1, CANDIDATES);
        // A few blocks are worth as many looks; a single one is worth two.
        let looks = [(5, 33), (5, 64), (3, 24), (3, 63), (3, 64), (1, 17)];
        let looks = looks.map(|(order, free)| seen(&zone, 0, order, |_| Some(free)).1);
        assert_eq!(looks, [2, 2, 3, 7, 8, 8]);
    }

    #[test]
    fn a_look_around_is_bounded_and_begins_anew_behind_the_last_child() {
        let zone = zone();
        let (found, looks, cursor) = seen(&zone, CHILDREN - 10, 0, |_| None);
        assert_eq!((found.fullest, looks, cursor), (None, PATIENCE, PATIENCE - 10));
        // Where most is free of all, it is longer: past all of these.
        let (found, looks, cursor) =
            seen(&zone, 0, 0, |child| (child % 2 == 1).then_some(400 + child));
        assert_eq!((found.fullest, looks, cursor), (Some((1, 401)), CHILDREN, CHILDREN));
        let (found, looks, cursor) = seen(&zone, 0, 0, |child| Some(350 + child % 2));
        assert_eq!((found.fullest, looks, cursor), (Some((0, 350)), 81, 80));
        // Of those that are half free it passes a few.
        assert_eq!(seen(&zone, 0, 1, |_| Some(256)).1, 16);
        // Nobody looks longer for eight blocks of 64 frames than at 16 children.
        assert_eq!(seen(&zone, 0, 6, |_| None).1, 16);
    }

    #[test]
    fn a_look_around_ends_where_it_began() {
        let zone = zone();
        let site = zone.slots.site(0, Class::IMMOVABLE).expect("a site");
        // All other trees are passed as a whole: nothing there is of the class.
        zone.children_of(1).for_each(|child| zone.becomes(child, Class::IMMOVABLE));
        for (from, part) in [(0, 0..CHILDREN), (40, 0..CHILDREN), (90, 20..CHILDREN - 20)] {
            let looks = core::cell::Cell::new(0);
            site.set_patience(PATIENCE);
            let _ = zone.look_in(&part, from, 0, site, site.fills(), &|_, _| {
                looks.set(looks.get() + 1);
                None
            });
            assert_eq!(looks.get(), Base4K::TREE, "from {from} of {part:?}");
        }
    }

    #[test]
    fn slots_allocate_in_children_and_trees_of_their_own() {
        let config = ZoneConfig::new(CHILDREN * Base4K::HUGE_FRAMES, 2);
        for order in [0, 3, 6, 9] {
            let zone = Zone::new(&config, Init::Free).expect("a zone");
            let alloc = |slot| zone.alloc(Request::movable(Order(order), Slot(slot))).ok();
            let child = |frame: FrameId| frame.0 / Base4K::HUGE_FRAMES;
            // By turns: the first of all leads nobody to it.
            for blocks in [1, (3 * Base4K::HUGE_FRAMES) >> order] {
                let lists = [0, 1].map(|_| core::cell::RefCell::new([FrameId(0); 3 * 512]));
                for n in 0..blocks {
                    for slot in [0, 1] {
                        lists[slot].borrow_mut()[n] = alloc(slot).expect("a block");
                    }
                }
                let [first, second] = lists.map(core::cell::RefCell::into_inner);
                let trees = |list: &[FrameId]| {
                    list.iter()
                        .fold(0u32, |trees, &frame| trees | 1 << (child(frame) / Base4K::TREE))
                };
                let [own, other] = [&first[..blocks], &second[..blocks]].map(trees);
                assert_eq!(own & other, 0, "order {order}, {blocks} blocks");
                for slot in [0, 1] {
                    for &frame in &[first, second][slot][..blocks] {
                        assert_eq!(zone.free(frame, Order(order), Slot(slot)), Ok(()));
                    }
                }
            }
        }
    }

    #[test]
    fn the_next_list_comes_from_where_the_last_was_freed() {
        // A list has more than two trees, and so have the rows and huge frames that the slot knows to have freed.
        const USED: usize = 2 * Base4K::TREE + 8;
        for (order, backwards) in
            [0, 3, 6, 9, 10].into_iter().zip([false, true].into_iter().cycle())
        {
            let config = ZoneConfig::new(4 * CHILDREN * Base4K::HUGE_FRAMES, 1);
            let zone = Zone::new(&config, Init::Free).expect("a zone");
            let mut ever = [false; 4 * CHILDREN];
            let mut list = [FrameId(0); USED * Base4K::HUGE_FRAMES];
            let list = &mut list[..(USED * Base4K::HUGE_FRAMES) >> order];
            for _ in 0..6 {
                for block in list.iter_mut() {
                    *block = zone.alloc(Request::movable(Order(order), Slot(0))).expect("a block");
                    ever[block.0 / Base4K::HUGE_FRAMES] = true;
                }
                if backwards {
                    list.reverse();
                }
                for &block in list.iter() {
                    assert_eq!(zone.free(block, Order(order), Slot(0)), Ok(()));
                }
            }
            let ever = ever.into_iter().filter(|&ever| ever).count();
            assert!(ever <= USED + Base4K::TREE, "order {order}: {ever}");
        }
    }

    #[test]
    fn no_tree_is_left_out_while_others_free_into_another() {
        let zone = zone();
        let other = site(&zone, 1);
        zone.settles(other, 2 * Base4K::TREE);
        let visits = [const { core::cell::Cell::new(0) }; TREES];
        // Whenever a search has found nothing in one of these trees, there is something, and it is gone before the next look.
        for order in [0, Base4K::ROW_ORDER] {
            let found = zone.in_each(1, order, |tree| {
                visits[tree].set(visits[tree].get() + 1);
                (tree == 2).then_some(tree)
            });
            assert_eq!(
                found,
                Some(2),
                "the only one with a block is the one in which a slot allocates"
            );
        }
        assert_eq!(visits.map(core::cell::Cell::into_inner), [2, 4, 2, 2]);
    }

    #[test]
    fn a_look_around_keeps_the_first_free_child_in_mind() {
        let zone = zone();
        [3, 6]
            .into_iter()
            .for_each(|child| assert!(zone.turn(Part::of::<Base4K>(child, 0, 1), OPEN, FREE)));
        let (found, looks, _) = seen(&zone, 0, 0, |_| None);
        assert_eq!((found.fullest, found.free, looks), (None, Some(3), PATIENCE - 2));
    }

    #[test]
    fn a_look_around_leaves_out_the_targets_of_others_and_trees_without_a_block() {
        let zone = zone();
        let [own, other] = [0, 1].map(|slot| site(&zone, slot));
        for child in zone.children_of(2) {
            assert!(zone.turn(Part::of::<Base4K>(child, 0, 1), OPEN, FREE));
            zone.rows[child * Base4K::ROWS].store(0, Relaxed);
            assert!(zone.turn_free(Part::whole::<Base4K>(child), TAKEN));
            zone.child_has_none(child, 0);
        }
        [0, Base4K::ROW_ORDER].into_iter().for_each(|order| zone.tree_has_none(2, order));
        for order in [0, Base4K::ROW_ORDER] {
            let may_have = [1, 2, 3].map(|tree| zone.tree_may_have(tree, order));
            assert_eq!(may_have, [true, false, true]);
        }
        let fullest = |from| {
            let free = |child| if child == 9 { 1 } else { [41, 40, 2, 30][child / 32] };
            seen(&zone, from, 0, |child| Some(free(child))).0.fullest
        };
        zone.aims(other, 0, 9);
        assert_eq!([5, 64].map(fullest), [Some((5, 41)), Some((96, 30))]);
        // Of larger blocks and of rows, too; and one's own is no other's.
        for order in [3, Base4K::ROW_ORDER] {
            zone.aims(other, order, 9);
            zone.aims(other, 0, NONE);
            assert_eq!(fullest(5), Some((5, 41)));
            zone.aims(own, order, 9);
            assert_eq!(fullest(5), Some((9, 1)));
            [own, other].into_iter().for_each(|site| zone.aims(site, order, NONE));
            assert_eq!(fullest(5), Some((9, 1)));
        }
        zone.aims(own, 0, 9);
        assert_eq!(fullest(5), Some((9, 1)));
        assert_eq!(zone.drain(Slot(0)), Ok(()));
        assert!(!OneWrite::<Base4K>::is_others(zone.hint(9), 9, other) && own.target(0) == NONE);
    }

    #[test]
    fn a_look_around_prefers_the_class_and_then_those_to_which_it_turns() {
        let zone = zone();
        let classes = [Class::HUGE, Class::IMMOVABLE, Class::LONG_LIVED, Class::MOVABLE];
        for (child, class) in classes.into_iter().enumerate() {
            zone.becomes(40 + child, class);
        }
        zone.becomes(20, Class::IMMOVABLE);
        let fullest = |class, turn: Option<usize>| {
            let site = zone.slots.site(0, class).expect("a site");
            site.set_cursor(40);
            site.set_patience(PATIENCE);
            let turn = turn.unwrap_or(site.fills());
            // The later ones are fuller.
            let found = zone.look_around(0, site, turn, |child, _| {
                (40..44).contains(&child).then(|| 60 - child)
            });
            found.fullest.map(|(child, _)| child)
        };
        assert_eq!(fullest(Class::MOVABLE, None), Some(43));
        assert_eq!(fullest(Class::IMMOVABLE, None), Some(41));
        for (child, class) in [(43, Class::HUGE), (41, Class::MOVABLE)] {
            zone.becomes(child, class);
        }
        // None of its own: movable frames turn to huge ones, immovable to long-lived ones, and to movable ones last.
        zone.becomes(41, Class::IMMOVABLE);
        assert_eq!(fullest(Class::MOVABLE, None), Some(43));
        zone.becomes(41, Class::MOVABLE);
        assert_eq!(fullest(Class::IMMOVABLE, None), Some(42));
        // One of the class comes before those that are fuller and come first.
        for (child, class) in [(40, Class::LONG_LIVED), (43, Class::IMMOVABLE)] {
            zone.becomes(child, class);
        }
        let site = zone.slots.site(0, Class::IMMOVABLE).expect("a site");
        site.set_cursor(40);
        let found = zone.look_around(0, site, site.fills(), |child, _| match child {
            40 => Some(10),
            43 => Some(30),
            _ => None,
        });
        assert_eq!(found.fullest, Some((43, 30)));
        for (child, class) in [(40, Class::HUGE), (43, Class::MOVABLE), (42, Class::MOVABLE)] {
            zone.becomes(child, class);
        }
        assert_eq!(fullest(Class::IMMOVABLE, None), None);
        assert_eq!(fullest(Class::IMMOVABLE, Some(MAX_CLASSES)), Some(40));
    }

    #[test]
    fn a_tree_may_have_more_children_than_a_look_around_passes() {
        #[derive(Clone, Copy)]
        struct Wide;

        impl Geometry for Wide {
            const BASE_SHIFT: u32 = 12;
            const HUGE_ORDER: u32 = 9;
            const TREE_HUGE: usize = 2 * STEPS;
            const NAME: &'static str = "wide";
        }

        let zone = ZoneConfig::new(4 * 512, 1);
        let zone = Owned::<OneWrite<Wide>>::new(&zone, Init::Free).expect("a zone");
        assert!(zone.alloc(Request::movable(Order(0), Slot(0))).is_ok());
    }

    /// Nor is a look worth its while behind many that were emptied.
    #[test]
    fn a_free_child_is_not_the_fullest() {
        let zone = zone();
        // The other slot's part of the zone.
        let part = CHILDREN / 2;
        let fullest = |free: usize| {
            let is_free = |child: usize| (part..part + free).contains(&child);
            let free = |child| Some(if is_free(child) { Base4K::HUGE_FRAMES } else { 7 });
            let (found, looks, _) = seen(&zone, part, 0, free);
            assert_eq!(found.free, Some(part));
            (found.fullest, looks)
        };
        assert_eq!(fullest(part), (None, EMPTIED));
        assert_eq!(fullest(EMPTIED), (None, EMPTIED));
        let behind = EMPTIED - 1;
        assert_eq!(fullest(behind), (Some((part + behind, 7)), behind + 1));
        // In its own part it passes any number of them.
        let (own, looks) = (site(&zone, 0), core::cell::Cell::new(0));
        own.set_patience(PATIENCE);
        let look = |_, _| {
            looks.set(looks.get() + 1);
            Some(Base4K::HUGE_FRAMES)
        };
        let (found, _) = zone.look_in(&(0..part), 0, 0, own, own.fills(), &look);
        assert_eq!((found.fullest, found.free, looks.get()), (None, Some(0), PATIENCE));
        // And of those that were never in use.
        let config = ZoneConfig::new(CHILDREN * Base4K::HUGE_FRAMES, 2);
        let never = Zone::new(&config, Init::Free).expect("a zone");
        let last = part + PATIENCE - 1;
        assert!(never.open(Part::of::<Base4K>(last, 0, 1), 0, 0));
        (0..TREES).for_each(|tree| never.has_class(tree, Class::MOVABLE));
        let (found, looks, _) = seen(&never, part, 0, |_| Some(7));
        assert_eq!((found.fullest, found.free, looks), (Some((last, 7)), Some(part), 1));
    }

    #[test]
    fn who_finds_nothing_looks_less_the_next_time() {
        let zone = zone();
        let site = site(&zone, 0);
        // The slot's part of the zone, and as much of all of it.
        let look = |free| {
            let looks = core::cell::Cell::new(0);
            zone.look_around(0, site, site.fills(), |_, _| {
                looks.set(looks.get() + 1);
                free
            });
            looks.get()
        };
        site.set_patience(PATIENCE);
        assert_eq!(
            [(); 3].map(|()| look(None)),
            [PATIENCE, Base4K::TREE, Base4K::TREE].map(|looks| 2 * looks)
        );
        assert_eq!(look(Some(Base4K::HUGE_FRAMES)), 2);
        assert_eq!(look(Some(1)), 1);
        assert_eq!(site.cursor().1, STEPS);
        // What was freed is worth a look.
        site.set_patience(0);
        assert!(zone.turn_free(Part::of::<Base4K>(8, 1, 1), TAKEN));
        assert_eq!(zone.free(FrameId(8 * 512 + 64), Order(0), Slot(0)), Ok(()));
        let _ = zone.take_around(0, site);
        assert_eq!(site.cursor().1, STEPS);
    }

    #[test]
    fn a_child_is_of_the_class_that_breaks_it() {
        let config = ZoneConfig::new(CHILDREN * Base4K::HUGE_FRAMES, 1);
        let zone = Zone::new(&config, Init::Free).expect("a zone");
        let [own, other] = [Class::IMMOVABLE, Class::LONG_LIVED]
            .map(|class| zone.slots.site(0, class).expect("a site"));
        let movable = site(&zone, 0);
        let take =
            |site| zone.breaking(5, site, || zone.take_in_child(5, 0)).map(|_| zone.class_of(5));
        assert_eq!(zone.breaking(5, own, || None::<()>).map(|()| zone.class_of(5)), None);
        assert_eq!((zone.class_of(5), zone.tree_fits(0, own)), (Class::MOVABLE, false));
        // It was free; then it is filled up; then it is broken by a class that does not fill it up.
        assert_eq!(take(movable), Some(Class::MOVABLE));
        assert_eq!(take(own), Some(Class::IMMOVABLE));
        assert!(zone.tree_fits(0, own) && !zone.tree_fits(1, own));
        assert_eq!(take(other), Some(Class::IMMOVABLE));
        assert_eq!(take(movable), Some(Class::IMMOVABLE));
        // One that is freed in parts is of the first class.
        assert_eq!(zone.take_whole(6, Base4K::HUGE_ORDER), Some(6 * 512));
        zone.becomes(6, Class::IMMOVABLE);
        assert_eq!(zone.free(FrameId(6 * 512), Order(0), Slot(0)), Ok(()));
        assert_eq!(zone.class_of(6), Class::MOVABLE);
    }

    #[test]
    fn a_hole_of_another_class_is_left_alone() {
        let config = ZoneConfig::new(2 * Base4K::HUGE_FRAMES, 1);
        let zone = Zone::new(&config, Init::Allocated).expect("a zone");
        let [movable, own] = [Class::MOVABLE, Class::IMMOVABLE]
            .map(|class| zone.slots.site(0, class).expect("a site"));
        assert_eq!(zone.free(FrameId(70), Order(0), Slot(0)), Ok(()));
        assert_eq!((zone.newest(own), zone.fill_again(0, own)), (None, None));
        assert_eq!(zone.newest(movable), Some(1));
        assert_eq!(zone.fill_again(0, movable), Some(70));
    }

    #[test]
    fn a_free_child_or_one_of_the_class_is_found_anywhere() {
        let zone = zone();
        let own = zone.slots.site(0, Class::IMMOVABLE).expect("a site");
        let find = || zone.free_or_filled(Base4K::ROW_ORDER, own);
        assert_eq!((find(), zone.free_or_filled(Base4K::ROW_ORDER, site(&zone, 0))), (None, None));
        zone.becomes(100, Class::LONG_LIVED);
        assert_eq!(find(), Some(100));
        assert!(zone.turn(Part::of::<Base4K>(70, 0, 1), OPEN, FREE));
        zone.rows[70 * Base4K::ROWS].store(0, Relaxed);
        assert_eq!(find(), Some(70));
    }
}
