//! Deaths in the middle of a claim of an isolated huge frame: who comes next has all of it.

#[path = "common/between.rs"]
#[allow(dead_code, reason = "only its deaths are of use here")]
mod between;
mod common;

use std::cell::Cell;
use std::num::NonZeroU64;
use std::ops::Range;

use between::{dies, until_it_dies};
use common::{Blocks, Buffer, G, config, judge};
use woodlot_frame::atomics::AtomicU64;
use woodlot_frame::{Claim, FrameAllocator, Geometry, HugeId, Init, Order, Persistence, Slot};
use woodlot_zone::{
    Check, Closed, Intents, Layout, Medium, Memory, NotDurable, Opened, Owners, Zone,
};

thread_local! {
    /// How many more of what a medium does until it dies.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// A medium that dies before it writes back, or waits for that.
#[derive(Clone, Copy)]
struct Dying;

impl Dying {
    fn step() {
        let left = LEFT.get();
        LEFT.set(left.wrapping_sub(1));
        if left == 0 {
            dies();
        }
    }
}

impl Persistence for Dying {
    const NAME: &'static str = "dying";

    fn detect() -> Option<Self> {
        Some(Self)
    }

    fn write_back(self, _: &AtomicU64) {
        Self::step();
    }

    fn fence(self) {
        Self::step();
    }
}

impl Medium for Dying {
    const MODEL: woodlot_zone::Persistence = woodlot_zone::Persistence::Adr;

    type WriteBack = Self;

    fn write_back(&self) -> Self {
        Self
    }

    fn persist(&self, _: Range<usize>, _: &[AtomicU64]) -> Result<(), NotDurable> {
        Ok(())
    }
}

/// The zone's memory, and a table's behind it.
struct Memories {
    buffer: Buffer,
    zone: usize,
}

impl Memories {
    /// For a zone of so many bytes.
    fn new(zone: usize) -> Self {
        let table = Owners::len(&config(), 1).expect("a table");
        Self { buffer: Buffer::new(zone + table), zone }
    }

    fn table(&self) -> Memory<'_> {
        self.buffer.memory().behind(self.zone).expect("a page")
    }

    fn format<M: Medium>(&self, medium: M) -> Zone<'_, G, M> {
        // SAFETY: the memory is the test's.
        unsafe { Zone::format(self.buffer.memory(), &config(), Init::Free, medium) }
            .expect("a zone")
    }
}

/// One that lies wholly in the zone.
fn claimed() -> HugeId {
    HugeId(config().start.huge::<G>().0 + 1)
}

/// Into how many parts a medium cuts a claim.
fn steps<M: Medium>(memories: &Memories, medium: M, claim: Claim) -> usize {
    let zone = memories.format(medium);
    zone.isolate(claimed(), 1).expect("it is free");
    LEFT.set(usize::MAX);
    zone.claim_isolated(claimed(), 1, claim).expect("it is empty");
    usize::MAX - LEFT.get()
}

/// Dies in each part of a claim, and has what comes then done.
fn die_in<M: Medium + Copy>(
    zone_len: usize,
    medium: M,
    claim: Claim,
    then: impl Fn(&Memories, Zone<'_, G, M>, usize),
) {
    let steps = steps(&Memories::new(zone_len), medium, claim);
    assert!(steps > 0, "the state is written back");
    for step in 0..steps {
        let memories = Memories::new(zone_len);
        let zone = memories.format(medium);
        zone.isolate(claimed(), 1).expect("it is free");
        LEFT.set(step);
        until_it_dies(|| _ = zone.claim_isolated(claimed(), 1, claim));
        LEFT.set(usize::MAX);
        then(&memories, zone, step);
    }
}

/// All that is not offline can be had.
fn all_can_be_had<M: Medium>(zone: &Zone<'_, G, M>, step: usize) {
    let stats = zone.stats();
    let offline = stats.offline_huge * G::HUGE_FRAMES;
    assert_eq!(stats.isolated_huge, 0, "step {step}");
    assert_eq!(
        (stats.free_frames, zone.free_frames()),
        (config().frames - offline, stats.free_frames)
    );
    judge(&**zone, &Blocks::new(), false);
    if zone.online(claimed(), 1).is_ok() {
        judge(&**zone, &Blocks::new(), true);
    }
}

fn sweep<M: Medium>(memories: &Memories, zone: &Zone<'_, G, M>) {
    // SAFETY: the memory is the test's.
    let owners = unsafe { Owners::format::<G>(memories.table(), &config(), 1) }.expect("a table");
    let sweeper = owners.sweeper(NonZeroU64::MIN, |_| true).expect("nobody sweeps");
    sweeper.sweep(zone, |_| true).expect("it fits");
}

fn swept<M: Medium + Copy>(zone_len: usize, medium: M) {
    for claim in [Claim::Block(Slot(0)), Claim::Offline] {
        die_in(zone_len, medium, claim, |memories, zone, step| {
            sweep(memories, &zone);
            all_can_be_had(&zone, step);
        });
    }
}

#[test]
fn a_sweep_ends_what_died_in_a_claim() {
    swept(Layout::of::<G>(&config()).expect("a zone").len, Dying);
    swept(Layout::with_intents::<G>(&config()).expect("a zone").len, Intents(Dying));
}

/// A close keeps what was claimed, and shows the rest.
#[test]
fn a_close_ends_what_died_in_a_claim() {
    let zone_len = Layout::of::<G>(&config()).expect("a zone").len;
    for claim in [Claim::Block(Slot(0)), Claim::Offline] {
        die_in(zone_len, Dying, claim, |memories, zone, step| {
            assert_eq!(zone.close(), Ok(Closed::Clean), "step {step}");
            // SAFETY: the memory is the test's.
            let opened = unsafe {
                Zone::open(memories.buffer.memory(), Some(&config()), Check::Quick, Dying)
            };
            let (zone, opened) = opened.expect("it opens");
            assert_eq!(opened, Opened::Clean);
            if claim != Claim::Offline {
                let first = claimed().first::<G>();
                zone.free(first, Order::huge::<G>(), Slot(0)).expect("it is claimed");
            }
            all_can_be_had(&zone, step);
        });
    }
}
