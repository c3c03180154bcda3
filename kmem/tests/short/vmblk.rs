//! The coalesce-to-vmblk layer: random calls judged by a naive model, and what is at its borders.

use std::collections::BTreeMap;
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::thread;

use woodlot_frame::{Construct, FrameAllocator, Init, Order, Owned, Request, Slot, ZoneConfig};
use woodlot_kmem::{
    Checked, Dope, Hooks, Kmem, Marks, Misuse, NoPages, NotMapped, Octaves, PAGE, PageId, Pages,
    VMBLK, Vmblks,
};

use crate::cpus::{caches, run_on};
use crate::space::{Space, dope};
use crate::{LLFree, Nbbs, calls};

/// Data pages of a vmblk of 4 MiB, and its pages of descriptors.
const DATA: usize = 1020;
const DESCRIPTORS: usize = 4;

/// Everything below the layer.
struct World<A = LLFree> {
    space: Space,
    zone: Owned<A>,
    dope: Vec<Dope>,
}

impl<A: FrameAllocator + Construct> World<A> {
    fn new(vmblks: usize, frames: usize) -> World<A> {
        let zone = Owned::new(&ZoneConfig::new(frames, 2), Init::Free).expect("a zone");
        World { space: Space::new(vmblks, frames), zone, dope: dope(vmblks) }
    }

    fn vmblks(&self) -> Vmblks<'_, A, &Space> {
        // SAFETY: the addresses and the frames are this test's.
        unsafe { Vmblks::new(&*self.zone, &self.space, self.space.start(), &self.dope) }
            .expect("it fits")
    }

    fn free_frames(&self) -> usize {
        self.zone.stats().free_frames
    }
}

/// Spans in use, by their first page, with their pages, and what each of these holds.
#[derive(Default)]
struct Model(BTreeMap<u32, (usize, u64)>);

impl Model {
    fn pages(&self) -> usize {
        self.0.values().map(|(pages, _)| pages).sum()
    }

    fn add(&mut self, vmblks: &impl Pages, first: PageId, count: usize, fill: u64) {
        let before = self.0.range(..first.0 + count as u32).next_back();
        assert!(
            before.is_none_or(|(&at, &(pages, _))| at + pages as u32 <= first.0),
            "{first:?} is in use already"
        );
        for page in words(vmblks, first, count) {
            // SAFETY: the page was just handed out.
            unsafe { page.write_volatile(fill) };
        }
        self.0.insert(first.0, (count, fill));
    }

    fn remove(&mut self, vmblks: &impl Pages, at: usize) -> (PageId, usize) {
        let (&first, &(count, fill)) = self.0.iter().nth(at).expect("there are more");
        self.0.remove(&first);
        for page in words(vmblks, PageId(first), count) {
            // SAFETY: the page is in use.
            assert_eq!(unsafe { page.read_volatile() }, fill, "{first}: somebody wrote there");
        }
        (PageId(first), count)
    }

    /// Does the layer have what this has?
    fn compare<A>(&self, world: &World<A>, vmblks: &Vmblks<'_, A, &Space>)
    where
        A: FrameAllocator + Construct,
    {
        vmblks.validate().expect("it is whole");
        let (stats, frames) = (vmblks.stats(), world.zone.zone().frames);
        assert_eq!(stats.pages - stats.free, self.pages(), "pages in use");
        assert_eq!(world.space.mapped(), self.pages() + stats.descriptor_pages, "mapped");
        assert_eq!(world.free_frames(), frames - world.space.mapped(), "free frames");
        let there = world.dope.len();
        let starts = (0..there).map(|at| world.space.start().as_ptr().wrapping_add(at * VMBLK));
        let parts = starts.filter(|&start| vmblks.find(start).is_some()).count();
        let pages = (stats.pages, stats.descriptor_pages);
        assert_eq!(pages, (parts * DATA, parts * DESCRIPTORS), "pages of vmblks");
        assert_eq!(self.0.is_empty(), parts == 0, "a vmblk is there because of a span");
    }
}

/// The last word of each page.
fn words(vmblks: &impl Pages, first: PageId, count: usize) -> impl Iterator<Item = *mut u64> {
    let last = PAGE / size_of::<u64>() - 1;
    let address = move |page| vmblks.address(first.plus(page)).as_ptr().cast::<u64>();
    (0..count).map(move |page| address(page).wrapping_add(last))
}

fn random_calls<A: FrameAllocator + Construct>(seed: u64) {
    let world = World::<A>::new(8, 6000);
    let vmblks = world.vmblks();
    let (mut random, mut model) = (fastrand::Rng::with_seed(seed), Model::default());
    let mut refused = 0;
    for call in 0..calls(500) as u64 {
        let cpu = random.usize(..2);
        if random.usize(..100) < 55 {
            let count = 1 << random.usize(..12);
            let count = random.usize(count / 2..=count).max(1);
            let align = PAGE << random.usize(..4);
            let before = (vmblks.stats().free, world.space.mapped());
            if random.usize(..10) == 0 {
                world.space.refuse_after(random.u32(..4), NotMapped::Undone);
            }
            match vmblks.alloc(count, align, cpu) {
                Ok(first) => {
                    assert_eq!(vmblks.address(first).as_ptr().addr() % align, 0, "seed {seed}");
                    model.add(&vmblks, first, count, call);
                }
                Err(NoPages) => {
                    refused += 1;
                    let after = (vmblks.stats().free, world.space.mapped());
                    assert_eq!(before, after, "seed {seed}, call {call}: it keeps something");
                }
            }
        } else if !model.0.is_empty() {
            let (first, count) = model.remove(&vmblks, random.usize(..model.0.len()));
            // SAFETY: the model has given it up.
            unsafe { vmblks.free(first, count, cpu) };
        }
        if call % 4 == 0 {
            model.compare(&world, &vmblks);
        }
    }
    assert!(refused > 0 || calls(500) < 500, "seed {seed}: nothing was ever refused");
    while !model.0.is_empty() {
        let (first, count) = model.remove(&vmblks, 0);
        // SAFETY: as above.
        unsafe { vmblks.free(first, count, 0) };
    }
    model.compare(&world, &vmblks);
    assert_eq!(vmblks.stats().made, vmblks.stats().returned);
}

#[test]
fn random() {
    (0..3).for_each(random_calls::<LLFree>);
    random_calls::<Nbbs>(3);
}

/// Fills the layer with spans of so many pages; frees them in the order that `next` chooses.
fn fill_and_free(world: &World, count: usize, mut next: impl FnMut(usize) -> usize) -> usize {
    let vmblks = world.vmblks();
    let mut spans: Vec<_> = std::iter::from_fn(|| vmblks.alloc(count, PAGE, 0).ok()).collect();
    let had = spans.len();
    while !spans.is_empty() {
        let span = spans.swap_remove(next(spans.len()));
        // SAFETY: it was handed out, and nobody uses it.
        unsafe { vmblks.free(span, count, 0) };
        vmblks.validate().expect("it is whole");
    }
    assert_eq!(vmblks.stats().pages, 0);
    assert_eq!(world.free_frames(), world.zone.zone().frames);
    had
}

#[test]
#[cfg_attr(miri, ignore = "minutes")]
fn every_address_can_be_had_in_any_size() {
    let world = World::<LLFree>::new(2, 4096);
    let mut random = fastrand::Rng::with_seed(1);
    let mut check = |count, expected| {
        let had = fill_and_free(&world, count, |len| random.usize(..len));
        assert_eq!(had, expected, "spans of {count} pages");
    };
    for count in [1, 3, 17, DATA] {
        check(count, 2 * (DATA / count));
    }
    check(DATA + 1, 1);
    check(2 * DATA, 1);
    check(2 * DATA + 1, 0);
    check(usize::MAX / PAGE, 0);
}

#[test]
fn what_a_frame_held_is_no_descriptor() {
    let world = World::<LLFree>::new(1, 64);
    let vmblks = world.vmblks();
    // In a descriptor this would be a free span of one page.
    let garbage = 1 << 32 | 4 << 8;
    let words = DESCRIPTORS * PAGE / size_of::<u64>();
    for _ in 0..8 {
        let first = vmblks.alloc(DESCRIPTORS, PAGE, 0).expect("room");
        vmblks.validate().expect("it is whole");
        let start = vmblks.address(first).cast::<u64>();
        // SAFETY: the pages were just handed out.
        (0..words).for_each(|word| unsafe { start.add(word).write_volatile(garbage) });
        // SAFETY: they were, and nobody uses them.
        unsafe { vmblks.free(first, DESCRIPTORS, 0) };
        // The next descriptors get other frames.
        world.zone.alloc(Request::immovable(Order::BASE, Slot(0))).expect("there are frames");
    }
}

#[test]
fn the_last_frame_can_be_had() {
    let world = World::<LLFree>::new(2, DESCRIPTORS + 40);
    assert_eq!(fill_and_free(&world, 1, |_| 0), 40);
    assert_eq!(fill_and_free(&world, 40, |_| 0), 1);
    assert_eq!(fill_and_free(&world, 41, |_| 0), 0);
    assert_eq!(fill_and_free(&World::<LLFree>::new(1, DESCRIPTORS), 1, |_| 0), 0);
}

/// An address space that does not end a mapping: the frames stay there, and nobody else is given the addresses.
#[test]
fn what_stays_mapped_keeps_its_frames() {
    let world = World::<LLFree>::new(1, 2048);
    let vmblks = world.vmblks();
    let keeper = vmblks.alloc(1, PAGE, 0).expect("there are frames");
    // Of the two calls for 40 pages the first one goes well.
    let stuck = vmblks.alloc(40, PAGE, 0).expect("there are frames");
    world.space.keep_after(1);
    // SAFETY: they were handed out, and nobody uses them.
    unsafe { vmblks.free(stuck, 40, 0) };
    let kept = DESCRIPTORS + 1 + 8;
    let now = || (vmblks.stats().stuck, world.space.mapped(), 2048 - world.free_frames());
    assert_eq!(now(), (8, kept, kept));
    assert_eq!(vmblks.validate(), Ok(()));
    let others: Vec<_> = std::iter::from_fn(|| vmblks.alloc(1, PAGE, 0).ok()).collect();
    assert_eq!(others.len(), DATA - 9, "all other addresses can be had");
    let is_stuck = |page: &PageId| (stuck.0 + 32..stuck.0 + 40).contains(&page.0);
    assert!(!others.iter().any(is_stuck));
    for page in others.into_iter().chain([keeper]) {
        // SAFETY: as above.
        unsafe { vmblks.free(page, 1, 0) };
    }
    assert_eq!(now(), (8, kept - 1, kept - 1));
    assert_eq!((vmblks.stats().returned, vmblks.validate()), (0, Ok(())));
}

/// The same of descriptors: of those of a vmblk that goes, and of those of one that is not made after all.
#[test]
fn descriptors_that_stay_mapped_are_lost_with_their_addresses() {
    let world = World::<LLFree>::new(2, 2048);
    let vmblks = world.vmblks();
    let page = vmblks.alloc(1, PAGE, 0).expect("there are frames");
    let address = vmblks.address(page).as_ptr();
    world.space.keep_after(1);
    // SAFETY: it was handed out, and nobody uses it.
    unsafe { vmblks.free(page, 1, 0) };
    let now = || (vmblks.stats().stuck, world.space.mapped(), 2048 - world.free_frames());
    assert_eq!(now(), (DESCRIPTORS, DESCRIPTORS, DESCRIPTORS));
    assert_eq!((vmblks.find(address), vmblks.stats().pages), (None, 0));
    let other = vmblks.alloc(1, PAGE, 0).expect("there are other addresses");
    assert!(vmblks.address(other).as_ptr().addr().abs_diff(address.addr()) >= VMBLK);
    assert_eq!(vmblks.validate(), Ok(()));
    // SAFETY: as above.
    unsafe { vmblks.free(other, 1, 0) };
    assert_eq!(now(), (DESCRIPTORS, DESCRIPTORS, DESCRIPTORS));
    // A span of which the second call is refused, and what the first one has mapped stays.
    world.space.refuse_after(2, NotMapped::Undone);
    world.space.keep_after(0);
    assert_eq!(vmblks.alloc(40, PAGE, 0), Err(NoPages));
    assert_eq!(now(), (DESCRIPTORS + 32, 2 * DESCRIPTORS + 32, 2 * DESCRIPTORS + 32));
    assert_eq!(vmblks.validate(), Ok(()));
}

/// An address space that maps a part of the frames, says so, and cannot undo it: of a span, and of descriptors.
#[test]
fn what_was_mapped_in_part_keeps_its_frames() {
    let world = World::<LLFree>::new(2, 2048);
    let vmblks = world.vmblks();
    let now = || (vmblks.stats().stuck, world.space.mapped(), 2048 - world.free_frames());
    // The last page of descriptors is none of what stays mapped, and its frame is lost too.
    world.space.refuse_after(0, NotMapped::Stuck);
    assert_eq!(vmblks.alloc(1, PAGE, 0), Err(NoPages));
    assert_eq!(now(), (DESCRIPTORS, DESCRIPTORS - 1, DESCRIPTORS));
    assert_eq!((vmblks.stats().pages, vmblks.validate()), (0, Ok(())));
    // Of three calls for 70 pages the second one stays; what the first one has mapped goes.
    let keeper = vmblks.alloc(1, PAGE, 0).expect("there are other addresses");
    world.space.refuse_after(1, NotMapped::Stuck);
    assert_eq!(vmblks.alloc(70, PAGE, 0), Err(NoPages));
    let used = 2 * DESCRIPTORS + 1 + 32;
    assert_eq!(now(), (DESCRIPTORS + 32, used - 2, used));
    assert_eq!(vmblks.validate(), Ok(()));
    // What the first one has mapped stays as well.
    world.space.refuse_after(1, NotMapped::Stuck);
    world.space.keep_after(0);
    assert_eq!(vmblks.alloc(70, PAGE, 0), Err(NoPages));
    assert_eq!(now(), (DESCRIPTORS + 96, used + 64 - 3, used + 64));
    assert_eq!(vmblks.validate(), Ok(()));
    let others: Vec<_> = std::iter::from_fn(|| vmblks.alloc(1, PAGE, 0).ok()).collect();
    assert_eq!(others.len(), DATA - 1 - 96, "all other addresses can be had");
    for page in others.into_iter().chain([keeper]) {
        // SAFETY: it was handed out, and nobody uses it.
        unsafe { vmblks.free(page, 1, 0) };
    }
    assert_eq!(now(), (DESCRIPTORS + 96, used + 60, used + 63));
    assert_eq!((vmblks.stats().free, vmblks.validate()), (DATA - 96, Ok(())));
}

#[test]
fn spans_are_aligned_as_far_as_there_is_room() {
    let world = World::<LLFree>::new(16, 4096);
    let vmblks = world.vmblks();
    for align in (0..5).map(|log| VMBLK << log) {
        let start = vmblks.alloc(5, align, 0);
        let expected = (0..16).map(|at| world.space.start().as_ptr().addr() + at * VMBLK);
        // The first 4 MiB are descriptors.
        let there = expected.skip(1).any(|address| address.is_multiple_of(align));
        assert_eq!(start.is_ok(), there, "{align:#x}");
        if let Ok(first) = start {
            assert_eq!(vmblks.address(first).as_ptr().addr() % align, 0, "it is not aligned");
            // SAFETY: it was handed out, and nobody uses it.
            unsafe { vmblks.free(first, 5, 0) };
        }
        vmblks.validate().expect("it is whole");
    }
    for align in [1, 16, PAGE / 2, PAGE, 64 * PAGE, 512 * PAGE] {
        let first = vmblks.alloc(9, align, 0).expect("there is room");
        assert_eq!(vmblks.address(first).as_ptr().addr() % align.max(PAGE), 0, "not aligned");
    }
    assert_eq!(vmblks.alloc(1, 1 << 62, 0), Err(NoPages));
    vmblks.validate().expect("it is whole");
}

#[test]
fn neighbours_are_coalesced_on_either_side() {
    let world = World::<LLFree>::new(1, 2048);
    let vmblks = world.vmblks();
    let spans: Vec<_> = (0..5).map(|_| vmblks.alloc(DATA / 5, PAGE, 0).expect("room")).collect();
    for order in [[1, 3, 2, 0], [2, 1, 3, 0], [3, 2, 1, 0], [0, 1, 2, 3]] {
        for span in order {
            // SAFETY: it was handed out, and nobody uses it.
            unsafe { vmblks.free(spans[span], DATA / 5, 0) };
            vmblks.validate().expect("it is whole");
        }
        let most = vmblks.alloc(DATA / 5 * 4, PAGE, 0).expect("they are one");
        assert_eq!(most, spans[0]);
        // SAFETY: as above.
        unsafe { vmblks.free(most, DATA / 5 * 4, 0) };
        for span in &spans[..4] {
            assert_eq!(vmblks.alloc(DATA / 5, PAGE, 0), Ok(*span));
        }
    }
}

#[test]
fn a_large_vmblk_serves_small_spans_too() {
    let world = World::<LLFree>::new(4, 6000);
    let vmblks = world.vmblks();
    let large = vmblks.alloc(2 * DATA, PAGE, 0).expect("room");
    assert_eq!(vmblks.stats().descriptor_pages, 2 * DESCRIPTORS);
    // SAFETY: it was handed out, and nobody uses it.
    unsafe { vmblks.free(large, 2 * DATA, 0) };
    let large = vmblks.alloc(2 * DATA - 1, PAGE, 0).expect("room");
    let small = vmblks.alloc(1, PAGE, 0).expect("room");
    assert_eq!(small, large.plus(2 * DATA - 1));
    for byte in [0, PAGE - 1] {
        let at = vmblks.address(small).as_ptr().wrapping_add(byte);
        assert_eq!(vmblks.find(at), Some((small, byte)));
    }
    // SAFETY: as above.
    unsafe { vmblks.free(large, 2 * DATA - 1, 0) };
    assert_eq!(vmblks.stats().free, 2 * DATA - 1);
    // SAFETY: as above.
    unsafe { vmblks.free(small, 1, 0) };
    assert_eq!(vmblks.stats().pages, 0);
}

#[test]
fn addresses_outside_are_nobodys() {
    let world = World::<LLFree>::new(2, 2048);
    let vmblks = world.vmblks();
    let start = world.space.start().as_ptr();
    assert_eq!(vmblks.find(start), None, "there is no vmblk yet");
    let page = vmblks.alloc(1, PAGE, 0).expect("room");
    assert_eq!(vmblks.find(vmblks.address(page).as_ptr()), Some((page, 0)));
    for at in [start.wrapping_sub(1), start.wrapping_add(VMBLK), start.wrapping_add(9 * VMBLK)] {
        assert_eq!(vmblks.find(at), None);
    }
    assert_eq!(vmblks.find(ptr::null_mut()), None);
    // SAFETY: it was handed out, and nobody uses it.
    unsafe { vmblks.free(page, 1, 0) };
    assert_eq!(vmblks.find(start), None, "the vmblk went back");
}

#[test]
fn what_does_not_fit_is_refused() {
    let world = World::<LLFree>::new(1, 64);
    let make = |base, dope| {
        // SAFETY: the addresses and the frames are this test's.
        unsafe { Vmblks::new(&*world.zone, &world.space, base, dope) }.is_some()
    };
    // SAFETY: there is room for one page more.
    assert!(!make(unsafe { world.space.start().add(PAGE) }, &world.dope));
    let used = dope(1);
    {
        // SAFETY: as above.
        let other = unsafe { Vmblks::new(&*world.zone, &world.space, world.space.start(), &used) };
        other.expect("it fits").alloc(1, PAGE, 0).expect("room");
    }
    assert!(!make(world.space.start(), &used), "a vmblk is there");
    assert!(make(world.space.start(), &world.dope));
}

#[test]
fn threads_share_the_layer() {
    let world = World::<LLFree>::new(6, 3000);
    let vmblks = world.vmblks();
    thread::scope(|scope| {
        for cpu in 0..4 {
            let vmblks = &vmblks;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(cpu);
                let mut model = Model::default();
                for call in 0..calls(400) as u64 {
                    let is_full = model.pages() > 600;
                    if !is_full && random.bool() {
                        let count = random.usize(1..100);
                        let first = vmblks.alloc(count, PAGE, cpu as usize).expect("room");
                        model.add(vmblks, first, count, cpu << 32 | call);
                    } else if !model.0.is_empty() {
                        let (first, count) = model.remove(vmblks, random.usize(..model.0.len()));
                        // SAFETY: the model has given it up.
                        unsafe { vmblks.free(first, count, cpu as usize) };
                    }
                }
                while !model.0.is_empty() {
                    let (first, count) = model.remove(vmblks, 0);
                    // SAFETY: as above.
                    unsafe { vmblks.free(first, count, cpu as usize) };
                }
            });
        }
    });
    Model::default().compare(&world, &vmblks);
}

/// A tag that says more pages than there are is a flaw, whatever number it is.
#[test]
fn a_span_that_ends_elsewhere_is_a_flaw() {
    let world = World::<LLFree>::new(1, 64);
    let vmblks = world.vmblks();
    let used = vmblks.alloc(1, PAGE, 0).expect("room");
    let free = used.plus(1);
    // Of 16 bytes the second eight say what the page is.
    let state = world.space.start().as_ptr().wrapping_add(free.0 as usize * 16 + 8).cast::<u64>();
    for count in [0, u64::from(u32::MAX), u64::from(u32::MAX) - 4] {
        // SAFETY: descriptors are mapped while the page is in use, and nobody else is here.
        let before = unsafe { state.replace(count << 32 | 4 << 8) };
        assert_eq!(vmblks.validate().expect_err("it is wrong").page, free, "{count} pages");
        // SAFETY: as above.
        unsafe { state.write(before) };
    }
    vmblks.validate().expect("it is whole");
    // SAFETY: the page is in use, and nobody uses it any more.
    unsafe { vmblks.free(used, 1, 0) };
}

/// A vmblk comes and goes, while somebody frees what lies in it and is nobody's.
#[test]
#[cfg_attr(miri, ignore = "addresses that are mapped")]
fn wrong_frees_beside_a_vmblk_that_goes() {
    let world = World::<LLFree>::new(1, 64);
    let marks: Vec<_> = (0..VMBLK / PAGE).map(|_| Marks::default()).collect();
    let hooks = Checked::new(Told::default(), &marks);
    let checked: Kmem<_, _, Octaves, _> = Kmem::new(caches::<2>(), world.vmblks(), hooks);
    let frees = calls(20_000);
    thread::scope(|scope| {
        scope.spawn(|| {
            run_on(0);
            for _ in 0..frees {
                let span = checked.alloc(2 * PAGE).expect("there is room");
                // SAFETY: it was just allocated.
                unsafe { checked.free(span, 2 * PAGE) };
            }
        });
        scope.spawn(|| {
            run_on(1);
            let wrong = world.space.start().as_ptr().wrapping_add((DESCRIPTORS + 1) * PAGE);
            let wrong = NonNull::new(wrong).expect("not null");
            // SAFETY: no block begins there, so that nothing is freed.
            (0..frees).for_each(|_| unsafe { checked.free_any(wrong) });
        });
    });
    let told = checked.hooks().hooks().0.lock().expect("nobody has panicked").len();
    assert_eq!(told, frees, "each wrong free is told of");
    assert!(world.space.mapped() == 0, "the vmblk is gone");
}

/// What was told.
#[derive(Default)]
struct Told(Mutex<Vec<Misuse>>);

impl Hooks for Told {
    fn misuse(&self, misuse: Misuse) {
        self.0.lock().expect("nobody has panicked").push(misuse);
    }
}
