//! What a caller says: the zone it has, and the block it wants.

use core::ops::Range;

use crate::{Class, ClassPolicy, FrameId, HugeId, InitError, Order};

/// Which set of per-CPU state a call works on: usually the number of the CPU it runs on.
///
/// A slot is a locality hint, not an owner: two CPUs may use one slot at once, a call may be
/// interrupted and the interrupt handler use the same slot, and a frame may be freed through any.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Slot(pub usize);

/// Where a block, or a run of frames, is to lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// Wherever the allocator likes.
    #[default]
    Anywhere,
    /// At this frame and nowhere else. A block must be aligned to its order there.
    At(FrameId),
    /// Wholly inside these frames, wherever there. What lies outside the zone is left out.
    Within {
        /// The first frame.
        start: FrameId,
        /// The frame after the last.
        end: FrameId,
    },
}

impl Place {
    /// Inside a range of frames.
    pub const fn within(frames: Range<FrameId>) -> Place {
        Place::Within { start: frames.start, end: frames.end }
    }
}

/// A request for a block of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// How large.
    pub order: Order,
    /// What for.
    pub class: Class,
    /// For which CPU.
    pub slot: Slot,
    /// Where.
    pub place: Place,
}

impl Request {
    /// A block wherever the allocator likes.
    pub const fn new(order: Order, class: Class, slot: Slot) -> Request {
        Request { order, class, slot, place: Place::Anywhere }
    }

    /// A block whose frames can be moved: user memory, page cache.
    pub const fn movable(order: Order, slot: Slot) -> Request {
        Request::new(order, Class::MOVABLE, slot)
    }

    /// A block whose frames stay where they are: kernel objects, page tables, DMA buffers.
    pub const fn immovable(order: Order, slot: Slot) -> Request {
        Request::new(order, Class::IMMOVABLE, slot)
    }

    /// The same for another class.
    pub const fn class(self, class: Class) -> Request {
        Request { class, ..self }
    }

    /// The same for the block that begins at `frame`.
    pub const fn at(self, frame: FrameId) -> Request {
        Request { place: Place::At(frame), ..self }
    }

    /// The same for a block inside of `frames`: below 4 GiB, say. Such a block is searched for from
    /// the range's first frame on, in time linear in its huge frames.
    pub const fn within(self, frames: Range<FrameId>) -> Request {
        Request { place: Place::within(frames), ..self }
    }

    /// The same block as a run of frames.
    pub(crate) const fn as_range(self) -> RangeRequest {
        let Request { order, class, slot, place } = self;
        RangeRequest { frames: order.frames(), align: order, class, slot, place }
    }
}

/// A request for a run of frames, which may be of any length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeRequest {
    /// How many frames; at least one.
    pub frames: usize,
    /// The first frame's number is a multiple of this order's block size. The order may be above
    /// the geometry's largest.
    pub align: Order,
    /// What for.
    pub class: Class,
    /// For which CPU.
    pub slot: Slot,
    /// Where.
    pub place: Place,
}

impl RangeRequest {
    /// A run of `frames` frames, wherever the allocator finds one.
    pub const fn new(frames: usize, class: Class, slot: Slot) -> RangeRequest {
        RangeRequest { frames, align: Order::BASE, class, slot, place: Place::Anywhere }
    }

    /// The same, aligned to a block of `align`.
    pub const fn aligned(self, align: Order) -> RangeRequest {
        RangeRequest { align, ..self }
    }

    /// The same, beginning at `frame`.
    pub const fn at(self, frame: FrameId) -> RangeRequest {
        RangeRequest { place: Place::At(frame), ..self }
    }

    /// The same, inside of `frames`.
    pub const fn within(self, frames: Range<FrameId>) -> RangeRequest {
        RangeRequest { place: Place::within(frames), ..self }
    }
}

/// How many blocks a batch must yield.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batch {
    /// All that were asked for, or none.
    All,
    /// As many as there are, at least one.
    UpTo,
}

/// The zone that an allocator is to manage.
///
/// Neither end needs to be aligned to anything: frames outside `start .. start + frames` that
/// share a huge frame or tree with it are never handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneConfig {
    /// The first frame.
    pub start: FrameId,
    /// How many frames; at least one.
    pub frames: usize,
    /// How many slots; at least one. One for each CPU is best.
    pub slots: usize,
    /// The classes.
    pub classes: ClassPolicy,
    /// Of an allocator that keeps [intents](crate::Intents): how many writes of one batch the record of a slot names.
    /// At least 1; rounded up, so that the record fills its cache lines. Others do not look at it.
    pub record_room: usize,
}

impl ZoneConfig {
    /// The room of a record of one page, 4 KiB.
    pub const RECORD_ROOM: usize = 255;

    /// A zone of `frames` frames from frame zero with the shipped classes.
    pub const fn new(frames: usize, slots: usize) -> ZoneConfig {
        ZoneConfig {
            start: FrameId(0),
            frames,
            slots,
            classes: ClassPolicy::SHIPPED,
            record_room: Self::RECORD_ROOM,
        }
    }

    /// The same zone beginning at `start`.
    pub const fn starting_at(self, start: FrameId) -> ZoneConfig {
        ZoneConfig { start, ..self }
    }

    /// The same zone with other classes.
    pub const fn with_classes(self, classes: ClassPolicy) -> ZoneConfig {
        ZoneConfig { classes, ..self }
    }

    /// The same zone with records of another room, where it keeps [intents](crate::Intents): 16 bytes of each slot for
    /// each write.
    pub const fn with_record_room(self, record_room: usize) -> ZoneConfig {
        ZoneConfig { record_room, ..self }
    }

    /// How many writes of one batch a record really names: its [room](Self::record_room), and what fills up its last
    /// cache line.
    pub const fn record_entries(&self) -> usize {
        self.record_room.saturating_add(1).div_ceil(4).saturating_mul(4) - 1
    }

    /// Has the zone frames and slots, and no more of them than these?
    ///
    /// # Errors
    /// [`InitError::EmptyZone`], [`InitError::NoSlots`], [`InitError::TooManySlots`]; [`InitError::ZoneTooLarge`], also
    /// where the zone reaches beyond the end of the number space.
    pub const fn check(&self, max_frames: usize, max_slots: usize) -> Result<(), InitError> {
        if self.frames == 0 {
            return Err(InitError::EmptyZone);
        }
        if self.slots == 0 {
            return Err(InitError::NoSlots);
        }
        if self.slots > max_slots {
            return Err(InitError::TooManySlots);
        }
        if self.frames > max_frames || self.start.0.checked_add(self.frames).is_none() {
            return Err(InitError::ZoneTooLarge);
        }
        Ok(())
    }

    /// The frame after the last; saturates at the end of the number space.
    pub const fn end(&self) -> FrameId {
        FrameId(self.start.0.saturating_add(self.frames))
    }

    /// The frames of the zone.
    pub const fn range(&self) -> Range<FrameId> {
        self.start..self.end()
    }

    /// Does the block of `order` at `frame` lie inside the zone?
    #[inline]
    pub const fn contains(&self, frame: FrameId, order: Order) -> bool {
        frame.0 >= self.start.0
            && match frame.0.checked_add(order.frames()) {
                Some(end) => order.frames() != 0 && end <= self.start.0.saturating_add(self.frames),
                None => false,
            }
    }

    /// The huge frames that lie wholly inside the zone.
    pub const fn huge_range<G: crate::Geometry>(&self) -> Range<HugeId> {
        let first = self.start.0.div_ceil(G::HUGE_FRAMES);
        let end = self.end().0 >> G::HUGE_ORDER;
        HugeId(first)..HugeId(if end > first { end } else { first })
    }
}

/// What the frames of a new zone are, before the first call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Init {
    /// Every frame is free. Holes are then claimed with exact-frame requests, or taken offline.
    Free,
    /// Every frame is allocated; what exists is then freed, in blocks of any order. This is how a
    /// kernel hands over its boot memory: holes are simply never freed.
    Allocated,
    /// Whatever the durable part of the metadata says, after a shutdown or a crash. Everything
    /// else is recomputed from it, and any bytes at all are made consistent.
    Recover,
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_change_a_request_changes_that_alone() {
        let movable = Request::movable(Order(2), Slot(3));
        assert_eq!(movable, Request::new(Order(2), Class::MOVABLE, Slot(3)));
        assert_eq!(Request::immovable(Order(2), Slot(3)), movable.class(Class::IMMOVABLE));
        assert_eq!(movable.at(FrameId(8)), Request { place: Place::At(FrameId(8)), ..movable });
        let (start, end) = (FrameId(8), FrameId(64));
        let within = Place::Within { start, end };
        assert_eq!(movable.within(start..end), Request { place: within, ..movable });

        let run = RangeRequest::new(7, Class::HUGE, Slot(1));
        assert_eq!((run.frames, run.align, run.place), (7, Order::BASE, Place::Anywhere));
        assert_eq!(run.aligned(Order(4)), RangeRequest { align: Order(4), ..run });
        assert_eq!(run.at(start), RangeRequest { place: Place::At(start), ..run });
        assert_eq!(run.within(start..end), RangeRequest { place: within, ..run });
    }
}
