//! What a wrapper of an allocator passes on.

/// Inside an `impl FrameAllocator`, the methods that are named, as those of the field `$to`: for an allocator that does something of its
/// own in some calls, and in all others what the one within does.
///
/// A method that is not named and has a default does as the default says, not as the allocator within.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use woodlot_frame::{AllocError, FrameAllocator, FrameId, Request, Unsupported, forward};
///
/// /// An allocator that counts allocations.
/// struct Counting<A> {
///     zone: A,
///     allocations: AtomicUsize,
/// }
///
/// impl<A: FrameAllocator> FrameAllocator for Counting<A> {
///     type Geometry = A::Geometry;
///     const NAME: &'static str = A::NAME;
///     const UNSUPPORTED: Unsupported = A::UNSUPPORTED;
///
///     fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
///         self.allocations.fetch_add(1, Ordering::Relaxed);
///         self.zone.alloc(request)
///     }
///
///     forward!(zone: zone, free, can_free, drain, offline, online);
///     forward!(zone: isolate, unisolate, claim_isolated, is_isolated, frames_in_use, used_map);
///     forward!(zone: is_available, free_frames, stats, is_free, free_map, free_in_huge);
/// }
/// ```
#[macro_export]
macro_rules! forward {
    (@zone $to:tt) => {
        fn zone(&self) -> &$crate::ZoneConfig {
            self.$to.zone()
        }
    };
    (@classes $to:tt) => {
        fn classes(&self) -> &$crate::ClassPolicy {
            self.$to.classes()
        }
    };
    (@free $to:tt) => {
        fn free(
            &self,
            frame: $crate::FrameId,
            order: $crate::Order,
            slot: $crate::Slot,
        ) -> ::core::result::Result<(), $crate::FreeError> {
            self.$to.free(frame, order, slot)
        }
    };
    (@can_free $to:tt) => {
        fn can_free(
            &self,
            frame: $crate::FrameId,
            order: $crate::Order,
            slot: $crate::Slot,
        ) -> ::core::result::Result<(), $crate::FreeError> {
            self.$to.can_free(frame, order, slot)
        }
    };
    (@drain $to:tt) => {
        fn drain(&self, slot: $crate::Slot) -> ::core::result::Result<(), $crate::BadSlot> {
            self.$to.drain(slot)
        }
    };
    (@claim_isolated $to:tt) => {
        fn claim_isolated(
            &self,
            first: $crate::HugeId,
            count: usize,
            claim: $crate::Claim,
        ) -> ::core::result::Result<(), $crate::IsolateError> {
            self.$to.claim_isolated(first, count, claim)
        }
    };
    (@offline $to:tt) => { $crate::forward!(@run offline OfflineError $to); };
    (@online $to:tt) => { $crate::forward!(@run online OfflineError $to); };
    (@isolate $to:tt) => { $crate::forward!(@run isolate IsolateError $to); };
    (@unisolate $to:tt) => { $crate::forward!(@run unisolate IsolateError $to); };
    (@is_isolated $to:tt) => { $crate::forward!(@get is_isolated(huge: HugeId) -> bool, $to); };
    (@frames_in_use $to:tt) => { $crate::forward!(@get frames_in_use(huge: HugeId) -> usize, $to); };
    (@free_in_huge $to:tt) => { $crate::forward!(@get free_in_huge(huge: HugeId) -> usize, $to); };
    (@used_map $to:tt) => { $crate::forward!(@get used_map(frame: FrameId) -> u64, $to); };
    (@free_map $to:tt) => { $crate::forward!(@get free_map(frame: FrameId) -> u64, $to); };
    (@largest_at $to:tt) => { $crate::forward!(@get largest_at(frame: FrameId) -> Order, $to); };
    (@is_available $to:tt) => { $crate::forward!(@get is_available(order: Order) -> bool, $to); };
    (@free_frames $to:tt) => {
        fn free_frames(&self) -> usize {
            self.$to.free_frames()
        }
    };
    (@stats $to:tt) => {
        fn stats(&self) -> $crate::Stats {
            self.$to.stats()
        }
    };
    (@is_free $to:tt) => {
        fn is_free(&self, frame: $crate::FrameId, order: $crate::Order) -> bool {
            self.$to.is_free(frame, order)
        }
    };
    (@run $method:ident $error:ident $to:tt) => {
        fn $method(
            &self,
            first: $crate::HugeId,
            count: usize,
        ) -> ::core::result::Result<(), $crate::$error> {
            self.$to.$method(first, count)
        }
    };
    (@get $method:ident($of:ident: $type:ident) -> $answer:ty, $to:tt) => {
        fn $method(&self, $of: $crate::$type) -> $answer {
            self.$to.$method($of)
        }
    };
    ($to:tt: $($method:ident),+ $(,)?) => {
        $($crate::forward!(@$method $to);)+
    };
}
