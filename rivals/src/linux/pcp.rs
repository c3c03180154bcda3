//! The lists of a slot: what was freed last is allocated first, and the zone lock is taken once a
//! batch (`struct per_cpu_pages`).
//!
//! ```text
//!                   alloc ▲ ▼ free              front: hot
//!   list of order, class  [ 7 ⇄ 3 ⇄ 9 ⇄ … ]
//!                   refill ▲ ▼ flush             end: in the order of the frames, cold
//! ```
//!
//! A slot's lock is only ever tried by allocations and frees: whoever finds it held goes to the
//! zone directly.

use woodlot_frame::atomics::{AtomicU32, Ordering::Relaxed};
use woodlot_frame::{Geometry, MAX_CLASSES};

use super::Linux;
use super::state::LISTED;
use crate::lock::{Held, SpinLock};

/// The orders that have lists (`PAGE_ALLOC_COSTLY_ORDER`), besides the huge order.
const SMALL_ORDERS: u32 = 4;
/// Lists by order of a slot.
const LISTS: u32 = SMALL_ORDERS + 1;
/// List heads of a slot.
pub(super) const HEADS: u32 = LISTS * MAX_CLASSES as u32;

/// Frames that a refill or a flush moves (`pcp->batch` of any zone from 1 GiB on).
const BATCH: u32 = 63;
/// Frames of small orders that a slot keeps; at this count it flushes a batch (`pcp->high`).
const HIGH: u32 = 6 * BATCH;
/// Huge frames that a slot keeps, and moves at once: two, as section 5.2 of the paper found.
const HUGE_BATCH: u32 = 2;

/// What a slot has besides its list heads, on its own cache line.
#[repr(align(64))]
pub(super) struct Pcp {
    lock: SpinLock,
    /// Frames in the lists of the small orders.
    small: AtomicU32,
    /// Blocks in the lists of the huge order.
    huge: AtomicU32,
    /// The page that is the head of the slot's first list; constant.
    heads: AtomicU32,
}

impl Pcp {
    pub(super) fn new(heads: u32) -> Self {
        Self { lock: SpinLock::new(), small: 0.into(), huge: 0.into(), heads: heads.into() }
    }

    /// About how many frames its lists have.
    pub(super) fn frames<G: Geometry>(&self) -> usize {
        self.small.load(Relaxed) as usize + self.huge.load(Relaxed) as usize * G::HUGE_FRAMES
    }

    /// The head of its list of an order that has one.
    #[inline(always)]
    fn list(&self, order: u32, class: u32) -> u32 {
        let row = if order < SMALL_ORDERS { order } else { SMALL_ORDERS };
        self.heads.load(Relaxed) + row * MAX_CLASSES as u32 + class
    }

    /// What counts an order's blocks, by how much each, and the count that is too many.
    #[inline(always)]
    fn counter(&self, order: u32) -> (&AtomicU32, u32, u32) {
        match order < SMALL_ORDERS {
            true => (&self.small, 1 << order, HIGH),
            false => (&self.huge, 1, HUGE_BATCH),
        }
    }
}

#[inline(always)]
fn add(count: &AtomicU32, n: u32) -> u32 {
    let now = count.load(Relaxed) + n;
    count.store(now, Relaxed);
    now
}

#[inline(always)]
fn subtract(count: &AtomicU32, n: u32) {
    count.store(count.load(Relaxed) - n, Relaxed);
}

/// How many blocks of `order` a refill brings.
fn batch(order: u32) -> u32 {
    if order < SMALL_ORDERS { BATCH >> order } else { HUGE_BATCH }
}

impl<G: Geometry, const PCP: bool> Linux<G, PCP> {
    /// Do slots have lists of this order?
    #[inline(always)]
    pub(super) fn has_lists(order: u32) -> bool {
        PCP && (order < SMALL_ORDERS || order == G::HUGE_ORDER)
    }

    /// Takes a block off a slot's list, which is refilled if it is empty; `None` where the list is
    /// busy or nothing is free (`rmqueue_pcplist`). The caller sets the block's state before
    /// anybody is told of it.
    #[inline(always)]
    pub(super) fn pop(&self, order: u32, class: u32, slot: usize) -> Option<u32> {
        let pcp = self.slot(slot);
        let held = pcp.lock.try_lock()?;
        let list = pcp.list(order, class);
        let mut page = self.pages.at(list).next();
        if page == list {
            self.refill(pcp, order, class, &held);
            page = self.pages.at(list).next();
            if page == list {
                return None;
            }
        }
        self.pages.remove(page);
        let (count, each, _) = pcp.counter(order);
        subtract(count, each);
        Some(page)
    }

    /// Puts a `LISTED` block on a slot's list, which is flushed if it is then too long; false where
    /// the list is busy (`free_unref_page`).
    #[inline(always)]
    pub(super) fn push(&self, page: u32, order: u32, slot: usize) -> bool {
        let pcp = self.slot(slot);
        let Some(held) = pcp.lock.try_lock() else { return false };
        self.pages.push_front(pcp.list(order, self.class_of(page)), page);
        let (count, each, high) = pcp.counter(order);
        if add(count, each) > high {
            self.flush(pcp, order, self.class_of(page), &held);
        }
        true
    }

    /// `rmqueue_bulk`.
    #[inline(never)]
    fn refill(&self, pcp: &Pcp, order: u32, class: u32, _: &Held<'_>) {
        let mut list = self.pages.append(pcp.list(order, class));
        let mut blocks = 0;
        let held = self.central.lock.lock();
        for _ in 0..batch(order) {
            let Some(page) = self.take(order, class, &held) else { break };
            self.pages.at(page).set_state(LISTED | order);
            list.push(page);
            blocks += 1;
        }
        self.count(-(i64::from(blocks) << order), &held);
        drop((held, list));
        let (count, each, _) = pcp.counter(order);
        add(count, blocks * each);
    }

    /// Gives a batch back, the coldest blocks first, beginning with the list that has just grown
    /// (`free_pcppages_bulk`).
    #[inline(never)]
    fn flush(&self, pcp: &Pcp, order: u32, class: u32, _: &Held<'_>) {
        let held = self.central.lock.lock();
        let mut blocks = batch(order);
        blocks -= self.flush_list(pcp, order, class, blocks, &held);
        let orders = if order < SMALL_ORDERS { 0..SMALL_ORDERS } else { order..order + 1 };
        let mut left = blocks << if order < SMALL_ORDERS { order } else { 0 };
        for order in orders {
            for class in 0..MAX_CLASSES as u32 {
                if left == 0 {
                    return;
                }
                let (_, each, _) = pcp.counter(order);
                let flushed = self.flush_list(pcp, order, class, left.div_ceil(each), &held);
                left = left.saturating_sub(flushed * each);
            }
        }
    }

    /// Gives up to `most` blocks of one list back, and says how many.
    fn flush_list(&self, pcp: &Pcp, order: u32, class: u32, most: u32, zone: &Held<'_>) -> u32 {
        let mut list = self.pages.pop_back(pcp.list(order, class));
        let mut flushed = 0;
        while flushed < most
            && let Some(page) = list.next()
        {
            self.merge(page, order, self.class_of(page), zone);
            flushed += 1;
        }
        drop(list);
        self.count(i64::from(flushed) << order, zone);
        let (count, each, _) = pcp.counter(order);
        subtract(count, flushed * each);
        flushed
    }

    /// Gives back all that a slot holds, waiting for its lock (`drain_pages`).
    pub(super) fn drain_slot(&self, slot: usize) {
        let pcp = self.slot(slot);
        let _held = pcp.lock.lock();
        if pcp.frames::<G>() == 0 {
            return;
        }
        let zone = self.central.lock.lock();
        for order in (0..SMALL_ORDERS).chain([G::HUGE_ORDER]).filter(|&o| Self::has_lists(o)) {
            for class in 0..MAX_CLASSES as u32 {
                self.flush_list(pcp, order, class, u32::MAX, &zone);
            }
        }
    }

    /// Gives back all that all slots hold (`drain_all_pages`). A slot that is busy is waited for.
    pub(super) fn drain_all(&self) {
        (0..self.zone.slots).for_each(|slot| self.drain_slot(slot));
    }
}
