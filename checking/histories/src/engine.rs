//! The engines, made from words: a checker's atomics are no plain memory.

use std::marker::PhantomData;

use woodlot_frame::atomics::Ordering::Relaxed;
use woodlot_frame::atomics::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
use woodlot_frame::{Geometry, Init, Persistence, Volatile, ZoneConfig};
use woodlot_llfree::{LLFree, Line, Parts, RecordLine, TreeStates, Tuning};
use woodlot_nbbs::{Form, Nbbs};
use woodlot_onewrite::{Lengths, OneWrite};

use crate::exhaustion::Hides;
use crate::reclaim::Called;

/// A geometry with huge frames of 2^`H` base frames and trees of `T` huge frames.
#[derive(Clone, Copy, Debug)]
pub struct Tiny<const H: u32, const T: usize>;

impl<const H: u32, const T: usize> Geometry for Tiny<H, T> {
    const BASE_SHIFT: u32 = 12;
    const HUGE_ORDER: u32 = H;
    const NAME: &'static str = "tiny";
    const TREE_HUGE: usize = T;
}

/// An engine for any geometry.
pub trait Family: 'static {
    /// The words of a zone.
    type Words: Sync;
    /// The allocator on them.
    type Zone<'a, G: Geometry>: Called<Geometry = G>;
    /// Does it reclaim?
    const RECLAIMS: bool;
    /// What one of its calls may keep from others while it is under way.
    const HIDES: Hides;

    /// Words for a zone, all zero.
    fn words<G: Geometry>(config: &ZoneConfig) -> Self::Words;

    /// Makes the allocator; frees reserve after so many in a row, where the engine has that.
    fn zone<'a, G: Geometry>(
        words: &'a Self::Words,
        config: &ZoneConfig,
        init: Init,
        reserve_after_frees: u8,
    ) -> Self::Zone<'a, G>;
}

fn zeros<W: Default>(count: usize) -> Vec<W> {
    std::iter::repeat_with(W::default).take(count).collect()
}

/// LLFree.
pub struct OfLLFree;

/// The words of an LLFree zone.
pub struct LLFreeWords {
    rows: Vec<AtomicU64>,
    states: Vec<TreeStates>,
    totals: Vec<AtomicU64>,
    slots: Vec<AtomicU64>,
    masks: Vec<AtomicU64>,
    leaves: Vec<AtomicU64>,
    trees: Vec<Line<AtomicU64>>,
    children: Vec<AtomicU32>,
    intents: Vec<RecordLine>,
}

impl LLFreeWords {
    /// Words for a zone, all zero; with records, if `P` has intents.
    pub fn new<G: Geometry, P: Persistence>(config: &ZoneConfig) -> LLFreeWords {
        let lengths = Parts::lengths::<G>(config).expect("plans have legal zones");
        let [rows, states, totals, slots, masks, leaves, trees, children] = lengths;
        LLFreeWords {
            rows: zeros(rows),
            states: zeros(states),
            totals: zeros(totals),
            slots: zeros(slots),
            masks: zeros(masks),
            leaves: zeros(leaves),
            trees: zeros(trees),
            children: zeros(children),
            intents: zeros(Parts::records::<P>(config).expect("plans have legal zones")),
        }
    }

    /// The words as the allocator takes them.
    pub fn parts(&self) -> Parts<'_> {
        Parts {
            rows: &self.rows,
            states: &self.states,
            totals: &self.totals,
            slots: &self.slots,
            masks: &self.masks,
            leaves: &self.leaves,
            trees: &self.trees,
            children: &self.children,
            intents: &self.intents,
        }
    }

    /// The words that outlive a crash.
    pub fn durable(&self) -> impl Iterator<Item = &AtomicU64> {
        let states = self.states.iter().flat_map(|line| &line.0);
        self.rows.iter().chain(states).chain(self.records())
    }

    /// The words of the records of all slots.
    pub fn records(&self) -> impl Iterator<Item = &AtomicU64> {
        self.intents.iter().flat_map(|line| line.as_flattened())
    }

    /// What a crash leaves of a zone's words; in the others is anything.
    pub fn after_a_crash<G: Geometry, P: Persistence>(&self, config: &ZoneConfig) -> LLFreeWords {
        let left = Self::new::<G, P>(config);
        let forgotten =
            [&left.totals, &left.slots, &left.masks, &left.leaves].into_iter().flatten();
        let forgotten = forgotten.chain(left.trees.iter().map(|entry| &entry.0));
        forgotten.for_each(|word| word.store(0xa5a5_a5a5_a5a5_a5a5, Relaxed));
        left.children.iter().for_each(|word| word.store(0xa5a5_a5a5, Relaxed));
        left.durable()
            .zip(self.durable())
            .for_each(|(to, from)| to.store(from.load(Relaxed), Relaxed));
        left
    }
}

impl Family for OfLLFree {
    type Words = LLFreeWords;
    type Zone<'a, G: Geometry> = LLFree<'a, G>;
    const RECLAIMS: bool = true;
    const HIDES: Hides = Hides::Child;

    fn words<G: Geometry>(config: &ZoneConfig) -> LLFreeWords {
        LLFreeWords::new::<G, Volatile>(config)
    }

    fn zone<'a, G: Geometry>(
        words: &'a LLFreeWords,
        config: &ZoneConfig,
        init: Init,
        reserve_after_frees: u8,
    ) -> LLFree<'a, G> {
        let mut tuning = Tuning::DEFAULT;
        tuning.reserve_after_frees = reserve_after_frees;
        LLFree::from_parts(config, tuning, words.parts(), init).expect("the words suffice")
    }
}

/// NBBS in one of its forms.
pub struct OfNbbs<F>(PhantomData<F>);

/// The words of an NBBS zone.
pub struct NbbsWords<F: Form> {
    cells: Vec<F::Atom>,
    slots: Vec<AtomicU64>,
    spent: Vec<AtomicU8>,
}

impl<F: Form<Atom: Default>> Family for OfNbbs<F> {
    type Words = NbbsWords<F>;
    type Zone<'a, G: Geometry> = Nbbs<'a, G, F>;
    const RECLAIMS: bool = false;
    const HIDES: Hides = Hides::Block;

    fn words<G: Geometry>(config: &ZoneConfig) -> NbbsWords<F> {
        let lengths = woodlot_nbbs::Parts::<F>::lengths::<G>(config);
        let [cells, slots, spent] = lengths.expect("plans have legal zones");
        NbbsWords { cells: zeros(cells), slots: zeros(slots), spent: zeros(spent) }
    }

    fn zone<'a, G: Geometry>(
        words: &'a NbbsWords<F>,
        config: &ZoneConfig,
        init: Init,
        _: u8,
    ) -> Nbbs<'a, G, F> {
        let NbbsWords { cells, slots, spent } = words;
        let parts = woodlot_nbbs::Parts { cells, slots, spent };
        Nbbs::from_parts(config, parts, init).expect("the words suffice")
    }
}

/// The one-write engine.
pub struct OfOneWrite;

/// The words of a zone of the one-write engine.
pub struct OneWriteWords {
    rows: Vec<AtomicU64>,
    states: Vec<AtomicU64>,
    flags: Vec<AtomicU64>,
    slots: Vec<AtomicU64>,
    trees: Vec<AtomicU64>,
    hints: Vec<AtomicU16>,
}

impl Family for OfOneWrite {
    type Words = OneWriteWords;
    type Zone<'a, G: Geometry> = OneWrite<'a, G>;
    const RECLAIMS: bool = true;
    const HIDES: Hides = Hides::Child;

    fn words<G: Geometry>(config: &ZoneConfig) -> OneWriteWords {
        let lengths = Lengths::of::<G>(config).expect("plans have legal zones");
        OneWriteWords {
            rows: zeros(lengths.rows),
            states: zeros(lengths.states),
            flags: zeros(lengths.flags),
            slots: zeros(lengths.slots),
            trees: zeros(lengths.trees),
            hints: zeros(lengths.hints),
        }
    }

    fn zone<'a, G: Geometry>(
        words: &'a OneWriteWords,
        config: &ZoneConfig,
        init: Init,
        _: u8,
    ) -> OneWrite<'a, G> {
        let OneWriteWords { rows, states, flags, slots, trees, hints } = words;
        let parts = woodlot_onewrite::Parts { rows, states, flags, slots, trees, hints };
        OneWrite::from_parts(config, parts, init).expect("the words suffice")
    }
}
