//! Who adds and removes one chunk of memory, as a whole and in halves.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use fastrand::Rng;
use shuttle::thread;
use woodlot_domains::{AddError, DomainId, Metadata, Present, RemoveError, Removed};
use woodlot_frame::{
    FrameAllocator, FrameId, Geometry, HugeId, METADATA_ALIGN, OfflineError, RawMetadata,
};

use crate::defect::Defect;
use crate::history::World;
use crate::made::{Geo, let_go};

const HUGE: usize = Geo::HUGE_FRAMES;

/// What has become of a huge frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Half {
    There,
    /// Removed, while the other half is there, or was when it went.
    Gone,
    /// Taken offline by the plugger.
    Offline,
}

/// The two halves of a chunk; `None`: there is no such memory.
pub struct Plugger<'w> {
    world: &'w World,
    first: HugeId,
    halves: Option<[Half; 2]>,
}

impl<'w> Plugger<'w> {
    /// Of the chunk with this number, which is not there.
    pub fn new(world: &'w World, chunk: usize) -> Self {
        Plugger { world, first: HugeId(2 * chunk), halves: None }
    }

    /// Adds, removes, takes offline and puts back, as often as it is told; then everything is there.
    pub fn work(mut self, times: usize, random: &mut Rng) {
        for _ in 0..times {
            let half = random.usize(..2);
            match self.halves {
                None => self.add(),
                Some(halves) => match (halves[half], random.u8(..4)) {
                    (Half::There, 0) => self.offline(half),
                    (Half::There, 1) => self.remove(half, 1),
                    (Half::There, _) if halves == [Half::There; 2] => self.remove(0, 2),
                    (Half::There, _) => {}
                    (Half::Gone, _) => self.add_half(half),
                    (Half::Offline, _) => self.online(half),
                },
            }
        }
        self.put_all();
    }

    /// Everything is there.
    fn put_all(&mut self) {
        while self.halves != Some([Half::There; 2]) {
            let Some(halves) = self.halves else {
                self.add();
                continue;
            };
            for (at, half) in halves.into_iter().enumerate() {
                match half {
                    Half::There => {}
                    Half::Gone => self.add_half(at),
                    Half::Offline => self.online(at),
                }
            }
        }
    }

    fn range(&self, half: usize, count: usize) -> Present {
        let first = FrameId((self.first.0 + half) * HUGE);
        Present::new(first..FrameId(first.0 + count * HUGE), DomainId(0))
    }

    fn mark(&self, half: usize, count: usize, is_there: bool) {
        let first = self.first.0 + half;
        let huge = first..first + count;
        huge.for_each(|huge| self.world.absent[huge].store(!is_there, SeqCst));
    }

    fn busy(&self) {
        self.world.figures.busy.fetch_add(1, Relaxed);
        thread::yield_now();
    }

    /// Adds memory; false: another call adds or removes some, or there are as many ranges as there is room for.
    fn added(&self, half: usize, count: usize) -> bool {
        let at = |at: usize| std::ptr::without_provenance_mut(at * METADATA_ALIGN);
        let size = self.world.machine.metadata_of(self.range(0, 2).range()).expect("it is small");
        // Nobody looks there.
        let metadata =
            RawMetadata { durable: (at(1), size.durable), volatile: (at(1 << 20), size.volatile) };
        self.mark(half, count, true);
        let added = self.world.call(|machine| {
            // SAFETY: no frame is looked at, and what the zone is made from it brings itself.
            unsafe { machine.add_range(self.range(half, count), Metadata::Given(metadata)) }
        });
        match added {
            Ok(()) => {
                self.world.figures.added.fetch_add(1, Relaxed);
                true
            }
            Err(AddError::Busy | AddError::TooManyRanges) => {
                self.busy();
                false
            }
            Err(error) => panic!("{error:?}, but nothing stands against it"),
        }
    }

    fn add(&mut self) {
        if self.added(0, 2) {
            self.halves = Some([Half::There; 2]);
        } else {
            self.mark(0, 2, false);
        }
    }

    fn set(&mut self, half: usize, to: Half) {
        self.halves.as_mut().expect("the other half is there")[half] = to;
    }

    fn add_half(&mut self, half: usize) {
        if self.added(half, 1) {
            self.set(half, Half::There);
        } else {
            self.mark(half, 1, false);
        }
    }

    fn remove(&mut self, half: usize, count: usize) {
        let range = self.range(half, count).range();
        match self.world.call(|machine| machine.remove_range(range.clone())) {
            Ok(removed) => {
                self.mark(half, count, false);
                let frames = range.start.0..range.end.0;
                let owned = frames.clone().find(|&frame| self.world.owned[frame].load(SeqCst));
                assert_eq!(owned, None, "a frame is removed, and allocated");
                self.world.figures.removed.fetch_add(1, Relaxed);
                (half..half + count).for_each(|half| self.set(half, Half::Gone));
                self.reclaim(removed);
            }
            Err(RemoveError::InUse(frame)) => {
                assert!(range.contains(&frame), "{frame} is not of {range:?}");
                self.world.figures.in_use.fetch_add(1, Relaxed);
            }
            Err(RemoveError::Busy) => self.busy(),
            Err(error) => panic!("{error:?}, but nothing stands against it"),
        }
    }

    /// Lets go of what a removal has taken away, if all of the chunk went.
    fn reclaim(&mut self, removed: Removed) {
        let halves = self.halves.expect("it was there");
        let is_gone = !halves.contains(&Half::There);
        assert_eq!(removed.zones(), usize::from(is_gone), "{halves:?}");
        if !is_gone {
            return;
        }
        let early = self.world.defect == Defect::ReclaimsTooEarly;
        // No call is under way with the lock held so.
        let quiet = (!early).then(|| self.world.grace.write().expect("nobody panics with it"));
        let_go(self.range(0, 1).start);
        // SAFETY: a defect apart, no call is under way.
        let reclaimed = unsafe { self.world.machine.reclaim(removed) };
        assert!(early || reclaimed.is_ok(), "nobody has the lock of hotplug");
        drop(quiet);
        self.world.figures.reclaimed.fetch_add(1, Relaxed);
        // What the plugger had offline went as well.
        self.mark(0, 2, false);
        self.halves = None;
    }

    fn offline(&mut self, half: usize) {
        let huge = HugeId(self.first.0 + half);
        if self.world.call(|machine| machine.offline(huge, 1)).is_ok() {
            self.mark(half, 1, false);
            self.set(half, Half::Offline);
        }
    }

    fn online(&mut self, half: usize) {
        let huge = HugeId(self.first.0 + half);
        self.mark(half, 1, true);
        match self.world.call(|machine| machine.online(huge, 1)) {
            Ok(()) => self.set(half, Half::There),
            Err(OfflineError::Busy) => {
                self.mark(half, 1, false);
                self.busy();
            }
            Err(error) => panic!("{error:?}, but it is offline"),
        }
    }
}
