//! Owners against a naive model: a table of who owns each frame.

#[path = "common/between.rs"]
mod between;
mod common;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::thread;

use between::{Between, Step, dies, until_it_dies};
use common::{Buffer, G, config, die};
use fastrand::Rng;
use woodlot_frame::{
    AllocError, Base4K, Batch, Class, FrameAllocator, FrameId, FreeError, Geometry, HugeId, Init,
    Order, RangeRequest, Request, Slot, ZoneConfig, blocks, can_free_run,
};
use woodlot_llfree::{LLFree, Operation};
use woodlot_zone::{
    Check, End, Field, Intents, Layout, Member, Memory, Opened, Owners, OwnersError, PAGE, Repairs,
    Shared, Sweeper, Tagged, Zone, ZoneError, erase,
};

type Shared64<'b> = Zone<'b, G, Shared>;

const MEMBERS: usize = 5;

/// Memory for a zone of [`config`] with an owner table behind it.
fn buffer() -> Buffer {
    let zone = Layout::of::<G>(&config()).expect("a zone").len;
    Buffer::new(zone + Owners::len(&config(), MEMBERS).expect("a table"))
}

fn behind(buffer: &Buffer) -> Memory<'_> {
    let zone = Layout::of::<G>(&config()).expect("a zone").len;
    buffer.memory().behind(zone).expect("a page")
}

fn format(buffer: &Buffer) -> (Shared64<'_>, Owners<'_>) {
    // SAFETY: every test has a buffer to itself.
    unsafe {
        let zone = Zone::format(buffer.memory(), &config(), Init::Free, Shared);
        let owners = Owners::format::<G>(behind(buffer), &config(), MEMBERS);
        (zone.expect("a zone"), owners.expect("a table"))
    }
}

/// The same for a zone with intents.
fn buffer_with_intents() -> Buffer {
    let zone = Layout::with_intents::<G>(&config()).expect("a zone").len;
    Buffer::new(zone + Owners::len(&config(), MEMBERS).expect("a table"))
}

fn format_with_intents(buffer: &Buffer) -> (Zone<'_, G, Intents<Shared>>, Owners<'_>) {
    let len = Layout::with_intents::<G>(&config()).expect("a zone").len;
    let behind = buffer.memory().behind(len).expect("a page");
    // SAFETY: every test has a buffer to itself.
    unsafe {
        let zone = Zone::format(buffer.memory(), &config(), Init::Free, Intents(Shared));
        let owners = Owners::format::<G>(behind, &config(), MEMBERS);
        (zone.expect("a zone"), owners.expect("a table"))
    }
}

fn open(buffer: &Buffer) -> Result<Owners<'_>, OwnersError> {
    // SAFETY: every test has a buffer to itself.
    unsafe { Owners::open::<G>(behind(buffer), &config()) }
}

/// The right to sweep. Whoever had it is dead.
fn sweeper(owners: Owners<'_>) -> Sweeper<'_> {
    owners.sweeper(NonZeroU64::MIN, |_| true).expect("the other one is dead")
}

type Of<'z, 'b> = Tagged<'z, 'b, LLFree<'b, G>>;

/// The blocks that each member owns, by their first frames: the judge.
#[derive(Default)]
struct Model {
    owned: BTreeMap<usize, (u8, u16)>,
}

impl Model {
    fn owner(&self, frame: usize) -> Option<u16> {
        let (&first, &(order, id)) = self.owned.range(..=frame).next_back()?;
        (frame < first + (1 << order)).then_some(id)
    }

    fn frames(&self, id: u16) -> usize {
        self.owned.values().filter(|block| block.1 == id).map(|block| 1 << block.0).sum()
    }

    fn has(&mut self, blocks: impl IntoIterator<Item = (FrameId, Order)>, id: u16) {
        for (first, order) in blocks {
            let frames = first.0..first.0 + order.frames();
            assert!(frames.clone().all(|frame| self.owner(frame).is_none()), "it has an owner");
            self.owned.insert(first.0, (order.0, id));
        }
    }

    fn check(&self, zone: &Shared64<'_>, owners: Owners<'_>) {
        for frame in config().start.0..config().end().0 {
            let owner = owners.owner(FrameId(frame)).map(|member| member.id());
            assert_eq!(owner, self.owner(frame), "frame {frame}");
            let free = zone.is_free(FrameId(frame), Order::BASE);
            assert_eq!(free, owner.is_none(), "frame {frame}");
        }
        for member in owners.members() {
            assert_eq!(owners.owned_by(member), self.frames(member.id()));
        }
    }

    /// A call of `member`.
    fn call(&mut self, tagged: &Of<'_, '_>, rng: &mut Rng) {
        let (id, slot) = (tagged.member().id(), Slot(rng.usize(..config().slots)));
        let order = Order(if rng.bool() { 0 } else { rng.u8(..=G::MAX_ORDER as u8) });
        let request = Request::new(order, Class(rng.u8(..4)), slot);
        match rng.u8(..13) {
            0..=3 => {
                let frame = tagged.alloc(request).ok();
                self.has(frame.map(|frame| (frame, order)), id);
            }
            4 => {
                let mut out = [FrameId(0); 7];
                let count = tagged.alloc_batch(request, Batch::UpTo, &mut out).unwrap_or(0);
                self.has(out[..count].iter().map(|&frame| (frame, order)), id);
            }
            5 => {
                let run = RangeRequest::new(rng.usize(1..90), Class::MOVABLE, slot);
                let run = tagged.alloc_range(run).unwrap_or(FrameId(0)..FrameId(0));
                self.has(blocks::<G>(run), id);
            }
            6 => {
                let frame = FrameId(rng.usize(config().start.0..config().end().0));
                let taken = self.owner(frame.0).is_some();
                let at = tagged.alloc(Request::movable(Order(0), slot).at(frame));
                assert_eq!(at, if taken { Err(AllocError::InUse(frame)) } else { Ok(frame) });
                self.has(at.ok().map(|frame| (frame, Order(0))), id);
            }
            7 => self.free_together(tagged, slot, rng),
            8 => self.refused(tagged, slot, rng),
            9 => self.free_run(tagged, slot, rng),
            _ => self.free_one(tagged, slot, rng),
        }
    }

    /// Frees a block, often of another member, as a whole or half of it.
    fn free_one(&mut self, tagged: &Of<'_, '_>, slot: Slot, rng: &mut Rng) {
        let Some((&first, &(order, id))) = rng.choice(self.owned.iter()) else { return };
        self.owned.remove(&first);
        let freed = match order > 0 && rng.bool() {
            true => {
                self.owned.insert(first + (1 << (order - 1)), (order - 1, id));
                order - 1
            }
            false => order,
        };
        tagged.free(FrameId(first), Order(freed), slot).expect("it is allocated");
    }

    /// Frees all blocks of an order at once.
    fn free_together(&mut self, tagged: &Of<'_, '_>, slot: Slot, rng: &mut Rng) {
        let order = rng.u8(..3);
        let firsts = self.owned.iter().filter(|block| block.1.0 == order);
        let mut firsts: Vec<FrameId> = firsts.map(|(&first, _)| FrameId(first)).take(9).collect();
        let count = firsts.len();
        for first in &firsts {
            self.owned.remove(&first.0);
        }
        // The first one once more: it is free then.
        firsts.extend(firsts.first().copied());
        let freed = tagged.free_batch(&firsts, Order(order), slot);
        if let Err(error) = freed {
            assert_eq!((error.freed, error.cause), (count, FreeError::NotAllocated(firsts[0])));
        } else {
            assert_eq!(count, 0);
        }
    }

    /// Frees a block and some of what lies behind it, whoever has it, as one run; or all but the last frame.
    fn free_run(&mut self, tagged: &Of<'_, '_>, slot: Slot, rng: &mut Rng) {
        let Some(&start) = rng.choice(self.owned.keys()) else { return };
        let (mut end, mut last) = (start, 0);
        while let Some((order, id)) = self.owned.remove(&end) {
            (end, last) = (end + (1 << order), id);
            if rng.u8(..4) == 0 {
                break;
            }
        }
        if end > start + 1 && rng.bool() {
            end -= 1;
            self.owned.insert(end, (0, last));
        }
        tagged.free_range(FrameId(start)..FrameId(end), slot).expect("it is allocated");
    }

    /// A free that must be refused, and change nothing: of a block that is in part free.
    fn refused(&mut self, tagged: &Of<'_, '_>, slot: Slot, rng: &mut Rng) {
        let order = rng.u8(..=G::MAX_ORDER as u8);
        let first = rng.usize(..config().end().0) & !((1 << order) - 1);
        let mut frames = first..first + (1 << order);
        let free = frames.any(|frame| self.owner(frame).is_none());
        let block = (FrameId(first), Order(order));
        let result = tagged.can_free(block.0, block.1, slot);
        assert_eq!(result.is_err(), free, "{block:?}");
        if free {
            assert_eq!(tagged.free(block.0, block.1, slot), result, "{block:?}");
            let run = block.0..FrameId(first + (1 << order));
            let refused = tagged.free_range(run.clone(), slot);
            assert_eq!(refused, can_free_run(tagged.allocator(), run.clone(), slot), "{run:?}");
            assert!(refused.is_err(), "{run:?}");
            let reversed = tagged.free_range(run.end..run.start, slot);
            assert_eq!(reversed, Err(FreeError::Reversed(run.end)));
        }
        let bad = Slot(config().slots);
        if let Some((&first, &(order, _))) = self.owned.iter().next() {
            let free = tagged.free(FrameId(first), Order(order), bad);
            assert_eq!(free, Err(FreeError::BadSlot(bad)));
        }
    }
}

#[test]
fn tags_follow_a_naive_model() {
    for seed in 0..6 {
        let buffer = buffer();
        let (zone, owners) = format(&buffer);
        let (mut model, mut rng) = (Model::default(), Rng::with_seed(100 + seed));
        for round in 0..8 {
            let members: Vec<Member> =
                (0..3).map(|n| owners.join(round * 3 + n).expect("there is room")).collect();
            let all =
                members.iter().map(|&member| Tagged::new(&*zone, owners, member).expect("it fits"));
            let all: Vec<Of<'_, '_>> = all.collect();
            for call in 0..400 {
                model.call(&all[rng.usize(..3)], &mut rng);
                if call % 100 == 0 {
                    model.check(&zone, owners);
                }
            }
            owners.claim_slot(members[1], Slot(1)).expect("nobody has it");
            // One leaves, one dies, and the last one stays for this round.
            let [first, second, third] = &all[..] else { unreachable!() };
            let had = [first, second].map(|one| model.frames(one.member().id()));
            assert_eq!(first.leave(Slot(0)), Ok(had[0]));
            assert_eq!(third.release_owner(second.member(), Slot(2)), Ok(had[1]));
            let gone = |one: &Of<'_, '_>| Err(OwnersError::Gone(one.member()));
            assert_eq!(third.release_owner(second.member(), Slot(2)), gone(second));
            assert_eq!(first.leave(Slot(0)), gone(first));
            assert_eq!(owners.slot_owner(Slot(1)), None);
            model.owned.retain(|_, block| block.1 == third.member().id());
            model.check(&zone, owners);
            let had = model.frames(third.member().id());
            assert_eq!(third.leave(Slot(0)), Ok(had));
            model.owned.clear();
            assert_eq!(zone.stats().free_frames, config().frames);
        }
        assert_eq!(owners.members().count(), 0);
    }
}

#[test]
fn a_sweep_frees_all_but_what_is_kept() {
    let buffer = buffer();
    let (zone, owners) = format(&buffer);
    let (mut model, mut rng) = (Model::default(), Rng::with_seed(7));
    let members = [1, 2].map(|identity| owners.join(identity).expect("there is room"));
    let all = members.map(|member| Tagged::new(&*zone, owners, member).expect("it fits"));
    // In the tree of its own, which is wholly offline but for what follows.
    zone.offline(HugeId(40), 2).expect("all is free");
    (0..300).for_each(|_| model.call(&all[rng.usize(..2)], &mut rng));
    owners.claim_slot(members[0], Slot(2)).expect("nobody has it");
    // What was taken without a tag, as by a call that was cut off.
    let hidden = zone.alloc(Request::movable(Order(2), Slot(0))).expect("there is room");
    die(zone);
    let (zone, _) = common::open(&buffer, Check::Quick, Shared).expect("it opens");
    let owners = open(&buffer).expect("a table");
    let lost = model.frames(members[1].id()) + 4;
    let swept = sweeper(owners).sweep(&zone, |member| member.identity() == 1).expect("it fits");
    assert_eq!((swept.frames, swept.members), (lost, 1));
    assert!(zone.is_free(hidden, Order(2)));
    model.owned.retain(|_, block| block.1 == members[0].id());
    for frame in config().start.0..config().end().0 {
        assert_eq!(owners.owner(FrameId(frame)).map(|member| member.id()), model.owner(frame));
    }
    let free = config().frames - model.frames(members[0].id()) - 2 * G::HUGE_FRAMES;
    assert_eq!(zone.stats().free_frames, free);
    assert_eq!(owners.members().collect::<Vec<_>>(), [members[0]]);
    assert_eq!(owners.slot_owner(Slot(2)), None, "nobody uses the zone");
    let again = sweeper(owners).sweep(&zone, |_| true).expect("it fits");
    assert_eq!((again.frames, again.members), (0, 0), "once is enough");
    // Who is kept goes on.
    let kept = Tagged::new(&*zone, owners, members[0]).expect("it fits");
    zone.online(HugeId(40), 2).expect("they are offline");
    assert_eq!(kept.leave(Slot(0)), Ok(model.frames(members[0].id())));
    assert_eq!(zone.stats().free_frames, config().frames);
}

#[test]
fn frames_change_hands() {
    let buffer = buffer();
    let (zone, owners) = format(&buffer);
    let untagged = zone.alloc(Request::movable(Order(3), Slot(0))).expect("there is room");
    let [one, two] = [1, 2].map(|identity| owners.join(identity).expect("there is room"));
    let [one, two] = [one, two].map(|one| Tagged::new(&*zone, owners, one).expect("it fits"));
    let given = one.alloc(Request::movable(Order(4), Slot(0))).expect("there is room");
    let kept = one.alloc(Request::movable(Order(1), Slot(0))).expect("there is room");
    assert!(two.adopt(untagged..FrameId(untagged.0 + 8)));
    assert!(two.adopt(given..FrameId(given.0 + 16)));
    assert!(!two.adopt(config().end()..FrameId(config().end().0 + 1)));
    one.free(kept, Order(1), Slot(0)).expect("it is allocated");
    assert!(!two.adopt(kept..FrameId(kept.0 + 1)), "it is free");
    // It had an owner before, and is allocated by a call without tags.
    let again = zone.alloc(Request::movable(Order(1), Slot(0)).at(kept)).expect("it is free");
    assert!(!two.adopt(again..FrameId(again.0 + 2)), "its free may not have come to an end");
    assert_eq!(two.free(again, Order(1), Slot(0)), Err(FreeError::NotAllocated(again)));
    two.tag(again..FrameId(again.0 + 2));
    assert_eq!(two.release_owner(one.member(), Slot(0)), Ok(0), "all of it is the other one's");
    assert_eq!(two.leave(Slot(0)), Ok(26));
    assert_eq!(zone.stats().free_frames, config().frames);
}

#[test]
fn a_slot_belongs_to_one_member() {
    let buffer = buffer();
    let (zone, owners) = format(&buffer);
    let one = owners.join(0xa).expect("there is room");
    let two = owners.join(0xb).expect("there is room");
    let taken = |slot, by| Err(OwnersError::SlotTaken { slot, by: Some(by) });
    assert_eq!(owners.claim_slot(one, Slot(1)), Ok(()));
    assert_eq!(owners.claim_slot(two, Slot(1)), taken(Slot(1), 0xa));
    assert_eq!(owners.claim_slot(one, Slot(1)), taken(Slot(1), 0xa));
    assert_eq!(owners.claim_slot(two, Slot(3)), Err(OwnersError::BadSlot(Slot(3))));
    assert_eq!(
        [(); 3].map(|()| owners.claim_free_slot(two)),
        [Ok(Slot(0)), Ok(Slot(2)), Err(OwnersError::NoSlot)]
    );
    assert_eq!(owners.slot_owner(Slot(2)), Some(two));
    assert!(!owners.give_up_slot(one, Slot(2)) && owners.give_up_slot(two, Slot(2)));
    assert_eq!(owners.claim_slot(one, Slot(2)), Ok(()));
    let tagged = Tagged::new(&*zone, owners, two).expect("it fits");
    assert_eq!(tagged.release_owner(one, Slot(9)), Err(OwnersError::BadSlot(Slot(9))));
    assert_eq!(tagged.release_owner(one, Slot(0)), Ok(0));
    assert_eq!(owners.claim_slot(one, Slot(1)), Err(OwnersError::Gone(one)), "it is none any more");
    assert_eq!(owners.claim_slot(two, Slot(1)), Ok(()));
    let more: Vec<Result<Member, OwnersError>> = (0..5).map(|n| owners.join(n)).collect();
    assert_eq!(more[4], Err(OwnersError::Full));
    assert_ne!(more[0], Ok(one), "the entry is the same, and the member is not");
    assert_eq!(more[0].map(|member| member.id()), Ok(one.id()));
    assert_eq!(tagged.release_owner(one, Slot(0)), Err(OwnersError::Gone(one)));
    for (error, message) in [
        (taken(Slot(1), 0xa).unwrap_err(), "slot 1 is taken by the member with identity 0xa"),
        (OwnersError::Gone(one), "the member with identity 0xa has gone"),
        (
            OwnersError::BeingReleased { by: None },
            "the member is being released by a member that has just gone",
        ),
        (OwnersError::BadSlot(Slot(3)), "the zone has no slot 3"),
        (OwnersError::Page(ZoneError::Empty), "there is no owner table: its page is all zero"),
    ] {
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn a_table_that_is_not_what_it_must_be_is_refused() {
    let mut buffer = buffer();
    assert_eq!(open(&buffer).err(), Some(OwnersError::Page(ZoneError::Empty)));
    let (zone, owners) = format(&buffer);
    let other = LLFree::<Base4K>::NAME;
    assert_eq!(other, Tagged::<LLFree<'_, G>>::NAME);
    let me = owners.join(1).expect("there is room");
    let small = Buffer::new(1 << 20);
    let config_of_other = config().starting_at(FrameId(6));
    // SAFETY: the buffers are the test's.
    unsafe {
        let again = Owners::format::<G>(behind(&buffer), &config(), MEMBERS);
        assert_eq!(again.err(), Some(OwnersError::Page(ZoneError::Exists)));
        let other = Zone::<G, _>::format(small.memory(), &config_of_other, Init::Free, Shared);
        let other = other.expect("a zone");
        assert_eq!(Tagged::new(&*other, owners, me).err(), Some(OwnersError::OtherZone));
        assert_eq!(sweeper(owners).sweep(&other, |_| true), Err(OwnersError::OtherZone));
        let mismatch = Owners::open::<G>(behind(&buffer), &config_of_other);
        let field = Field::Start;
        let expected = OwnersError::Page(ZoneError::Mismatch { field, expected: 6, found: 5 });
        assert_eq!(mismatch.err(), Some(expected));
        let mismatch = Owners::open::<Base4K>(behind(&buffer), &config());
        let field = Field::BaseShift;
        let expected = OwnersError::Page(ZoneError::Mismatch { field, expected: 12, found: 16 });
        assert_eq!(mismatch.err(), Some(expected));
        let none = Owners::format::<G>(small.memory(), &config(), 0);
        assert_eq!(none.err(), Some(OwnersError::Members(0)));
        let none = Owners::format::<G>(small.memory(), &config(), 1 << 15);
        assert_eq!(none.err(), Some(OwnersError::Members(1 << 15)));
        let short = Owners::format::<G>(small.first(PAGE).expect("a page"), &config(), 9);
        assert!(matches!(short.err(), Some(OwnersError::Page(ZoneError::Short { .. }))));
        let zone_page = Owners::open::<G>(small.memory(), &config());
        assert!(matches!(
            zone_page.err(),
            Some(OwnersError::Page(ZoneError::Mismatch { field: Field::Magic, .. }))
        ));
    }
    let table = behind(&buffer);
    let short = buffer.first(zone.layout().len).and_then(|memory| memory.behind(zone.layout().len));
    assert!(matches!(short.err(), Some(ZoneError::Short { .. })));
    let misaligned = buffer.memory().behind(64);
    assert!(matches!(misaligned.err(), Some(ZoneError::Misaligned { .. })));
    let len = zone.layout().len;
    die((zone, table));
    // Any byte of what the checksum covers, and of the magic number.
    let image = buffer.image();
    let mut rng = Rng::with_seed(4);
    for at in 0..512 {
        buffer.set_image(&image);
        buffer.flip(len + at, rng.u8(1..));
        let refused = open(&buffer).err();
        assert!(matches!(refused, Some(OwnersError::Page(_))), "byte {at}: {refused:?}");
        // SAFETY: the buffer is the test's.
        let over = unsafe { Owners::format::<G>(behind(&buffer), &config(), MEMBERS) };
        assert_eq!(over.err(), refused, "it is not written over");
    }
    // SAFETY: as above.
    let anew = unsafe {
        erase(behind(&buffer), &Shared).expect("nothing fails");
        Owners::format::<G>(behind(&buffer), &config(), MEMBERS)
    };
    assert_eq!(anew.expect("a table").members().count(), 0, "what was there is gone");
}

/// No frame that is being freed or was just allocated has an owner.
#[test]
fn tags_are_marked_before_a_free_and_set_after_an_allocation() {
    let buffer = buffer();
    let (zone, owners) = format(&buffer);
    let nobody = |step, frame: FrameId, order: Order| {
        let owner =
            (frame.0..frame.0 + order.frames()).find_map(|frame| owners.owner(FrameId(frame)));
        assert_eq!(owner, None, "{step:?}: frame {frame} of {order} has an owner");
    };
    let between = Between { engine: &*zone, happens: &nobody };
    let [one, two] = [1, 2].map(|identity| owners.join(identity).expect("there is room"));
    let [one, two] = [one, two].map(|one| Tagged::new(&between, owners, one).expect("it fits"));
    for order in (0..=G::MAX_ORDER as u8).map(Order) {
        let request = Request::movable(order, Slot(0));
        let block = one.alloc(request).expect("there is room");
        one.free(block, order, Slot(0)).expect("it is allocated");
        let mut out = [FrameId(0); 3];
        assert_eq!(one.alloc_batch(request, Batch::All, &mut out), Ok(3));
        two.free(out[0], order, Slot(1)).expect("it is allocated");
        one.free_batch(&out[1..], order, Slot(0)).expect("they are allocated");
        let run = RangeRequest::new(order.frames() + 3, Class::MOVABLE, Slot(0));
        let run = one.alloc_range(run).expect("there is room");
        one.free_range(run, Slot(0)).expect("it is allocated");
        one.alloc(request).expect("there is room");
    }
    let left = (1 << (G::MAX_ORDER + 1)) - 1;
    assert_eq!(two.release_owner(one.member(), Slot(1)), Ok(left));
    assert_eq!(zone.stats().free_frames, config().frames);
}

/// Another member gets the frames before the call has returned that frees them.
#[test]
fn a_free_leaves_the_tags_of_the_next_owner_alone() {
    let buffer = buffer();
    let (zone, owners) = format(&buffer);
    let [one, two] = [1, 2].map(|identity| owners.join(identity).expect("there is room"));
    let taken = |step, frame, order| {
        if step == Step::Freed {
            let two = Tagged::new(&*zone, owners, two).expect("it fits");
            two.alloc(Request::movable(order, Slot(1)).at(frame)).expect("it is free");
        }
    };
    let between = Between { engine: &*zone, happens: &taken };
    let one = Tagged::new(&between, owners, one).expect("it fits");
    for order in (0..=G::MAX_ORDER as u8).map(Order) {
        let block = one.alloc(Request::movable(order, Slot(0))).expect("there is room");
        one.free(block, order, Slot(0)).expect("it is allocated");
        let all = block.0..block.0 + order.frames();
        assert!(all.clone().all(|frame| owners.owner(FrameId(frame)) == Some(two)), "{order}");
    }
}

/// Two frees of one frame, the second at once or later: the one that is refused does not make the frame its own again.
#[test]
fn a_refused_free_leaves_no_tag_on_a_free_frame() {
    for (order, at_once) in [(0, true), (1, true), (0, false), (1, false)] {
        let buffer = buffer();
        let (zone, owners) = format(&buffer);
        let twice = |step, frame, order| {
            if step == Step::Freeing && at_once {
                zone.free(frame, order, Slot(1)).expect("it is allocated");
            }
        };
        let between = Between { engine: &*zone, happens: &twice };
        let one = owners.join(1).expect("there is room");
        let one = Tagged::new(&between, owners, one).expect("it fits");
        let block = one.alloc(Request::movable(Order(order), Slot(0))).expect("there is room");
        if !at_once {
            zone.free(block, Order(order), Slot(1)).expect("it is allocated");
        }
        let refused = one.free(block, Order(order), Slot(0));
        assert_eq!(refused, Err(FreeError::NotAllocated(block)));
        assert_eq!(owners.owner(block), None);
    }
}

/// A block that a wrong free beside it makes the allocator refuse half-way, as
/// [a run](a_run_that_is_refused_half_way_keeps_its_marks).
#[test]
fn a_block_that_is_refused_half_way_keeps_its_marks() {
    for order in (1..=G::MAX_ORDER as u8).map(Order) {
        let buffer = buffer();
        let (zone, owners) = format(&buffer);
        let [one, two] = [1, 2].map(|identity| owners.join(identity).expect("there is room"));
        let half = Order(order.0 - 1);
        let wrong = |step, frame, _| {
            if step == Step::Freeing {
                zone.free(frame, order, Slot(1)).expect("it is allocated");
                zone.alloc(Request::movable(half, Slot(1)).at(frame)).expect("it is free");
            }
        };
        let between = Between { engine: &*zone, happens: &wrong };
        let freeing = Tagged::new(&between, owners, one).expect("it fits");
        let block = freeing.alloc(Request::movable(order, Slot(0))).expect("there is room");
        let refused = freeing.free(block, order, Slot(0));
        assert_eq!(refused, Err(FreeError::NotAllocated(block)), "{order}");
        assert_eq!(owners.owned_by(one), 0, "half of {order} is about to be the other's");
        let two = Tagged::new(&*zone, owners, two).expect("it fits");
        assert_eq!(two.release_owner(one, Slot(0)), Ok(0), "{order}");
        two.tag(block..FrameId(block.0 + half.frames()));
        assert_eq!(two.leave(Slot(0)), Ok(half.frames()), "{order}");
        assert_eq!(zone.stats().free_frames, config().frames, "{order}");
    }
}

/// The same of one block of a batch: those before it are free, those behind it are their owner's, and the record of the
/// slot names those that are free.
#[test]
fn of_a_batch_the_block_that_is_refused_half_way_keeps_its_marks() {
    for order in (1..=G::MAX_ORDER as u8).map(Order) {
        let buffer = buffer_with_intents();
        let (zone, owners) = format_with_intents(&buffer);
        let [one, two] = [1, 2].map(|identity| owners.join(identity).expect("there is room"));
        let (half, mut out) = (Order(order.0 - 1), [FrameId(0); 3]);
        let tagged = Tagged::new(&*zone, owners, one).expect("it fits");
        let request = Request::movable(order, Slot(0));
        assert_eq!(tagged.alloc_batch(request, Batch::All, &mut out), Ok(3));
        let wrong = |step, frame, _| {
            if step == Step::Freeing && frame == out[1] {
                zone.free(frame, order, Slot(1)).expect("it is allocated");
                zone.alloc(Request::movable(half, Slot(1)).at(frame)).expect("it is free");
            }
        };
        let between = Between { engine: &*zone, happens: &wrong };
        let freeing = Tagged::new(&between, owners, one).expect("it fits");
        let refused = freeing.free_batch(&out, order, Slot(0)).expect_err("one is not allocated");
        assert_eq!((refused.freed, refused.cause), (1, FreeError::NotAllocated(out[1])));
        let last = zone.last_operation(Slot(0)).expect("there was one");
        let named = zone.frames_of(last).map(|run| (run.start.0, run.count));
        let named: Vec<usize> = named.flat_map(|(start, count)| start..start + count).collect();
        let first: Vec<usize> = (out[0].0..out[0].0 + order.frames()).collect();
        assert_eq!((last.end, named), (End::Whole, first), "{order}");
        assert_eq!(owners.owned_by(one), order.frames(), "{order}");
        assert_eq!(owners.owner(out[2]), Some(one), "{order}");
        let two = Tagged::new(&*zone, owners, two).expect("it fits");
        assert_eq!(two.release_owner(one, Slot(0)), Ok(order.frames()), "{order}");
        two.tag(out[1]..FrameId(out[1].0 + half.frames()));
        assert_eq!(two.leave(Slot(0)), Ok(half.frames()), "{order}");
        assert_eq!(zone.stats().free_frames, config().frames, "{order}");
    }
}

/// Deaths between the two steps of a call hide its block, and nothing else, until a sweep; whether the member is
/// released or kept.
#[test]
fn a_death_in_the_middle_hides_one_block() {
    for dies_at in [Step::Allocated, Step::Freeing] {
        for order in (0..=G::MAX_ORDER as u8).map(Order) {
            die_in_the_middle(dies_at, order, false);
            die_in_the_middle(dies_at, order, true);
        }
    }
}

fn die_in_the_middle(dies_at: Step, order: Order, kept: bool) {
    let buffer = buffer();
    let (zone, owners) = format(&buffer);
    let [one, two] = [1, 2].map(|identity| owners.join(identity).expect("there is room"));
    let request = Request::movable(order, Slot(0));
    let death = |step, _, _| {
        if step == dies_at {
            dies();
        }
    };
    let between = Between { engine: &*zone, happens: &death };
    let living = Tagged::new(&*zone, owners, one).expect("it fits");
    let dying = Tagged::new(&between, owners, one).expect("it fits");
    let had = [(); 3].map(|()| living.alloc(request).expect("there is room"));
    until_it_dies(|| {
        let _ = dying.alloc(request);
        let _ = dying.free(had[0], order, Slot(0));
    });
    // Who died after an allocation had three blocks before; who died before a free had four, of which it marked one.
    let left = 3 * order.frames();
    if !kept {
        let survivor = Tagged::new(&*zone, owners, two).expect("it fits");
        assert_eq!(survivor.release_owner(one, Slot(1)), Ok(left), "{dies_at:?}, {order}");
    }
    let left = if kept { left } else { 0 };
    assert_eq!(zone.stats().free_frames + order.frames() + left, config().frames);
    let swept = sweeper(owners).sweep(&zone, |_| true).expect("it fits");
    assert_eq!((swept.frames, swept.members), (order.frames(), 0), "{dies_at:?}, {order}");
    assert_eq!(zone.stats().free_frames + left, config().frames);
}

/// What the slot of a member says that died after two of the four rows of a block of order 8.
struct CutOff {
    buffer: Buffer,
    block: FrameId,
}

const DEAD_SLOT: Slot = Slot(1);
const ROWS: ZoneConfig = ZoneConfig::new(Base4K::TREE_FRAMES, 3);

type WithIntents<'b> = Zone<'b, Base4K, Intents<Shared>>;

impl CutOff {
    /// Two members: the first one lives, the second one has [`DEAD_SLOT`].
    fn new() -> (Self, [Member; 2]) {
        let zone_len = Layout::with_intents::<Base4K>(&ROWS).expect("a zone").len;
        let table = Owners::len(&ROWS, MEMBERS).expect("a table");
        let mut this = CutOff { buffer: Buffer::new(zone_len + table), block: FrameId(0) };
        // SAFETY: the buffer is the test's.
        let (zone, owners) = unsafe {
            let medium = Intents(Shared);
            let zone = WithIntents::format(this.buffer.memory(), &ROWS, Init::Free, medium);
            (zone.expect("a zone"), Owners::format::<Base4K>(this.table(), &ROWS, MEMBERS))
        };
        let owners = owners.expect("a table");
        let members = [1, 2].map(|identity| owners.join(identity).expect("there is room"));
        owners.claim_slot(members[1], DEAD_SLOT).expect("nobody has it");
        let block = zone.alloc(Request::movable(Order(8), DEAD_SLOT)).expect("there is room");
        // The last row was not begun. The one before is in doubt, and has happened.
        zone.free(FrameId(block.0 + 192), Order(6), Slot(0)).expect("it is allocated");
        die(zone);
        let mut image = this.buffer.image();
        let layout = Layout::with_intents::<Base4K>(&ROWS).expect("a zone");
        let record = layout.durable.end - (ROWS.slots - DEAD_SLOT.0) * 4096;
        let header = (block.0 as u64) << 16 | 2 << 8 | 8 << 4 | 1 << 2 | 1;
        image[record..record + 8].copy_from_slice(&header.to_le_bytes());
        this.buffer.set_image(&image);
        this.block = block;
        (this, members)
    }

    fn table(&self) -> Memory<'_> {
        let zone = Layout::with_intents::<Base4K>(&ROWS).expect("a zone").len;
        self.buffer.memory().behind(zone).expect("a page")
    }

    /// Who survives, or comes later, without an opening.
    fn attach(&self) -> (WithIntents<'_>, Owners<'_>) {
        // SAFETY: the test has the buffer, and opens the zone only when this one is dropped.
        unsafe {
            let zone = Zone::attach(self.buffer.memory(), Some(&ROWS), Intents(Shared));
            let owners = Owners::open::<Base4K>(self.table(), &ROWS);
            (zone.expect("it is in use"), owners.expect("a table"))
        }
    }

    /// After the deaths of all: what was found, and the zone.
    fn open(&self) -> (WithIntents<'_>, Owners<'_>, Repairs) {
        // SAFETY: as above.
        let opened =
            unsafe { Zone::open(self.buffer.memory(), Some(&ROWS), Check::Quick, Intents(Shared)) };
        let (zone, Opened::Recovered { repairs, .. }) = opened.expect("it opens") else {
            panic!("it is recovered")
        };
        // SAFETY: as above.
        let owners = unsafe { Owners::open::<Base4K>(self.table(), &ROWS) };
        (zone, owners.expect("a table"), repairs)
    }
}

/// Who sweeps a zone that it has attached to leaves no record that speaks of frames which have new owners soon.
#[test]
fn a_sweep_resolves_what_a_death_has_cut_off() {
    let (cut_off, [living, _]) = CutOff::new();
    let (zone, owners) = cut_off.attach();
    let swept = sweeper(owners).sweep(&zone, |member| member == living).expect("it fits");
    assert_eq!((swept.frames, swept.members), (192, 1), "two rows, and the one in doubt");
    assert_eq!(zone.last_operation(DEAD_SLOT).map(|last| last.end), Some(End::CutOff));
    assert_eq!((zone.free_frames(), zone.stats().free_frames), (ROWS.frames, ROWS.frames));
    // The frames have a new owner, on another slot.
    let two = Tagged::new(&*zone, owners, living).expect("it fits");
    let again = Request::movable(Order(8), Slot(2)).at(cut_off.block);
    assert_eq!(two.alloc(again), Ok(cut_off.block));
    die(zone);
    let (zone, owners, repairs) = cut_off.open();
    assert_eq!((repairs.cut_off, repairs.released), (0, 0), "nothing is taken from it");
    assert_eq!(owners.owned_by(living), 256);
    assert_eq!(zone.stats().free_frames, ROWS.frames - 256);
    let two = Tagged::new(&*zone, owners, living).expect("it fits");
    assert_eq!(two.free(cut_off.block, Order(8), Slot(0)), Ok(()));
}

/// A sweep that dies after any of its steps is done again.
#[test]
fn a_sweep_that_stops_is_done_again() {
    let (cut_off, [living, _]) = CutOff::new();
    let (zone, owners) = cut_off.attach();
    let repairs = zone.resolve().expect("nothing fails");
    assert_eq!((repairs.cut_off, repairs.released), (1, 128));
    assert_eq!(zone.resolve(), Ok(Repairs::default()), "once is enough");
    assert_eq!(zone.stats().free_frames, ROWS.frames - 64);
    let swept = sweeper(owners).sweep(&zone, |member| member == living).expect("it fits");
    assert_eq!(swept.frames, 64, "the row in doubt");
    assert_eq!(zone.stats().free_frames, ROWS.frames);
}

/// What the record of a dead member's slot names, a release beside the living leaves alone: nobody gets it, so the next
/// opening takes it back; or the next owner of the slot overwrites the record, and a sweep finds it.
#[test]
fn a_release_leaves_what_a_record_names() {
    for reused in [false, true] {
        let (cut_off, [living, dead]) = CutOff::new();
        let (zone, owners) = cut_off.attach();
        let survivor = Tagged::new(&*zone, owners, living).expect("it fits");
        assert_eq!(survivor.release_owner(dead, Slot(0)), Ok(0));
        owners.claim_slot(living, DEAD_SLOT).expect("it was given free");
        let slot = if reused { DEAD_SLOT } else { Slot(2) };
        while survivor.alloc(Request::movable(Order::BASE, slot)).is_ok() {}
        let owned = owners.owned_by(living);
        assert!((0..192).all(|frame| owners.owner(FrameId(cut_off.block.0 + frame)).is_none()));
        die(zone);
        let (zone, owners, repairs) = cut_off.open();
        let released = if reused { 0 } else { 128 };
        assert_eq!(repairs.released, released);
        assert_eq!(owners.owned_by(living), owned);
        let swept = sweeper(owners).sweep(&zone, |member| member == living).expect("it fits");
        assert_eq!(swept.frames, 192 - released);
        assert_eq!(zone.stats().free_frames + owned, ROWS.frames, "nothing is lost");
    }
}

/// A member that dies while it releases another one is released itself; then the other one can be.
#[test]
fn a_release_that_stops_is_taken_over() {
    let buffer = buffer();
    let (zone, owners) = format(&buffer);
    let [one, two, three] = [1, 2, 3].map(|id| owners.join(id).expect("there is room"));
    let [first, second, third] =
        [one, two, three].map(|one| Tagged::new(&*zone, owners, one).expect("it fits"));
    let request = Request::movable(Order(2), Slot(0));
    for tagged in [first, second].iter().cycle().take(20) {
        tagged.alloc(request).expect("there is room");
    }
    let others = |step, _, _| {
        if step == Step::Freeing {
            let by = Some(two.identity());
            let refused = third.release_owner(one, Slot(0));
            assert_eq!(refused, Err(OwnersError::BeingReleased { by }));
            let joined = owners.join(4).expect("there is room");
            assert_ne!(joined.id(), one.id(), "its frames are not free yet");
            dies();
        }
    };
    let between = Between { engine: &*zone, happens: &others };
    let dying = Tagged::new(&between, owners, two).expect("it fits");
    until_it_dies(|| {
        let _ = dying.release_owner(one, Slot(0));
    });
    assert_eq!(third.release_owner(two, Slot(0)), Ok(40));
    assert!(owners.members().any(|member| member == one), "it can be released again");
    // One block was marked by the member that died in the middle.
    let released = third.release_owner(one, Slot(0)).expect("it is dead");
    let hidden = 40 - released;
    assert!((1..=1 << G::MAX_ORDER).contains(&hidden), "{hidden}");
    // A member that dies while it leaves is released like any other.
    let leaver = owners.join(5).expect("there is room");
    let happens = |step, _, _| {
        if step == Step::Freeing {
            dies()
        }
    };
    let between = Between { engine: &*zone, happens: &happens };
    let leaving = Tagged::new(&between, owners, leaver).expect("it fits");
    (0..3).for_each(|_| assert!(leaving.alloc(request).is_ok()));
    until_it_dies(|| assert!(leaving.leave(Slot(0)).is_ok()));
    assert!(owners.members().any(|member| member == leaver), "others find who died leaving");
    third.release_owner(leaver, Slot(0)).expect("it is dead");
    let swept = sweeper(owners).sweep(&zone, |member| member == three).expect("it fits");
    assert!(swept.frames >= hidden, "{swept:?}");
    assert_eq!((zone.stats().free_frames, swept.members), (config().frames, 1));
    assert_eq!(owners.members().collect::<Vec<_>>(), [three]);
}

/// What one call of the allocator does is one call of it with tags, too: so the record of a slot names all of it.
#[test]
fn a_batch_or_a_run_is_one_operation() {
    let buffer = buffer_with_intents();
    let (zone, owners) = format_with_intents(&buffer);
    let tagged = Tagged::new(&*zone, owners, owners.join(1).expect("there is room"));
    let tagged = tagged.expect("it fits");
    let named = || {
        let last = zone.last_operation(Slot(0)).expect("there was one");
        let frames = zone.frames_of(last).map(|run| run.count).sum::<usize>();
        (last.operation, last.end, frames)
    };
    for order in (0..=G::MAX_ORDER as u8).map(Order) {
        let mut out = [FrameId(0); 3];
        let request = Request::movable(order, Slot(0));
        assert_eq!(tagged.alloc_batch(request, Batch::All, &mut out), Ok(3));
        assert_eq!(named(), (Operation::Alloc, End::Whole, 3 * order.frames()));
        tagged.free_batch(&out, order, Slot(0)).expect("they are allocated");
        assert_eq!(named(), (Operation::Free, End::Whole, 3 * order.frames()));
    }
    for frames in [1, 7, 100] {
        let run = RangeRequest::new(frames, Class::MOVABLE, Slot(0));
        let run = tagged.alloc_range(run).expect("there is room");
        assert_eq!(named(), (Operation::Alloc, End::Whole, frames));
        tagged.free_range(run, Slot(0)).expect("it is allocated");
        assert_eq!(named(), (Operation::Free, End::Whole, frames));
    }
}

/// A run that is freed twice at once: the second one is refused, names the first frame that is being freed, and takes the
/// marks of no other call away.
#[test]
fn a_run_that_is_being_freed_is_refused() {
    let buffer = buffer();
    let (zone, owners) = format(&buffer);
    let [one, two] = [1, 2].map(|identity| owners.join(identity).expect("there is room"));
    let two = Tagged::new(&*zone, owners, two).expect("it fits");
    let run = RangeRequest::new(40, Class::MOVABLE, Slot(0));
    let tagged = Tagged::new(&*zone, owners, one).expect("it fits");
    let run = tagged.alloc_range(run).expect("there is room");
    let middle = FrameId(run.start.0 + 13)..FrameId(run.end.0 - 5);
    let again = |step, _, _| {
        if step == Step::Freeing {
            let refused = two.free_range(run.clone(), Slot(1));
            assert!(matches!(refused, Err(FreeError::NotAllocated(_))), "{refused:?}");
            assert_eq!(owners.owned_by(one), 40 - (middle.end.0 - middle.start.0));
        }
    };
    let between = Between { engine: &*zone, happens: &again };
    let freeing = Tagged::new(&between, owners, one).expect("it fits");
    freeing.free_range(middle.clone(), Slot(0)).expect("it is allocated");
    assert_eq!(two.release_owner(one, Slot(1)), Ok(18));
    assert_eq!(zone.stats().free_frames, config().frames);
}

/// A run that a wrong free beside it makes the allocator refuse half-way: its marks stay, for a frame of it that is
/// allocated may have been freed, and be another member's that has not come to its tag.
#[test]
fn a_run_that_is_refused_half_way_keeps_its_marks() {
    let buffer = buffer();
    let (zone, owners) = format(&buffer);
    let [one, two] = [1, 2].map(|identity| owners.join(identity).expect("there is room"));
    let tagged = Tagged::new(&*zone, owners, one).expect("it fits");
    let run = tagged.alloc_range(RangeRequest::new(40, Class::MOVABLE, Slot(0)));
    let run = run.expect("there is room");
    let got = run.start;
    let wrong = |step, frame, _| {
        if step == Step::Freeing && frame == got {
            zone.free_range(got..FrameId(got.0 + 8), Slot(1)).expect("it is allocated");
            let first = Request::movable(Order::BASE, Slot(1)).at(got);
            zone.alloc(first).expect("it is free");
        }
    };
    let between = Between { engine: &*zone, happens: &wrong };
    let freeing = Tagged::new(&between, owners, one).expect("it fits");
    let refused = freeing.free_range(run.clone(), Slot(0));
    assert!(matches!(refused, Err(FreeError::NotAllocated(_))), "{refused:?}");
    assert_eq!(
        (owners.owned_by(one), owners.owner(got)),
        (0, None),
        "it is about to be the other's"
    );
    // A release of the one takes nothing from the other, which comes to its tag.
    let two = Tagged::new(&*zone, owners, two).expect("it fits");
    assert_eq!(two.release_owner(one, Slot(0)), Ok(0));
    two.tag(got..FrameId(got.0 + 1));
    let swept = sweeper(owners).sweep(&zone, |_| true).expect("it fits");
    assert_eq!(swept.frames, 32, "what is left of the run");
    assert_eq!(zone.stats().free_frames, config().frames - 1);
    assert_eq!(two.leave(Slot(0)), Ok(1));
}

/// A member that dies after it has isolated a huge frame: a sweep ends that, and finds what is hidden there.
#[test]
fn a_sweep_ends_isolation() {
    let buffer = buffer();
    let (zone, owners) = format(&buffer);
    let [one, two] = [1, 2].map(|identity| owners.join(identity).expect("there is room"));
    let [one, two] = [one, two].map(|one| Tagged::new(&*zone, owners, one).expect("it fits"));
    let request = Request::movable(Order(1), Slot(0));
    // One that lies wholly in the zone.
    let huge = HugeId(config().start.huge::<G>().0 + 1);
    let at = |block: usize| request.at(FrameId(huge.first::<G>().0 + block * 2));
    one.alloc(at(0)).expect("it is free");
    two.alloc(at(1)).expect("it is free");
    // As a call that was cut off leaves them.
    zone.alloc(at(2)).expect("it is free");
    // That one, and one of which all is free.
    let isolated = [huge, HugeId(huge.0 + 1)];
    two.isolate(huge, 2).expect("neither is offline");
    let swept = sweeper(owners).sweep(&zone, |member| member == one.member()).expect("it fits");
    assert_eq!((swept.frames, swept.members), (4, 1));
    assert!(isolated.iter().all(|&huge| !zone.is_isolated(huge)));
    let stats = zone.stats();
    assert_eq!((stats.free_frames, stats.isolated_frames), (config().frames - 2, 0));
    assert_eq!(zone.free_frames(), stats.free_frames);
    assert_eq!(one.alloc(at(2)), Ok(FrameId(huge.first::<G>().0 + 4)), "it can be had again");
    assert_eq!(one.leave(Slot(0)), Ok(4));
    assert_eq!(zone.stats().free_frames, config().frames);
}

/// Two that attach, sweep and work in turns: of two who sweep only one has the right to, for as long as it has a call
/// under way. No sweep takes the batch of the other from it.
#[test]
fn two_sweepers_take_nothing_from_each_other() {
    let (cut_off, members) = CutOff::new();
    let work = |(zone, owners): (WithIntents<'_>, Owners<'_>), me: Member, slot: Slot| {
        let mut released = 0;
        let mut held: Vec<FrameId> = Vec::new();
        let by = NonZeroU64::new(me.identity()).expect("members count from one");
        for round in 0..50 {
            let sweeper = loop {
                match owners.sweeper(by, |_| false) {
                    Ok(sweeper) => break sweeper,
                    Err(refused) => {
                        assert_eq!(refused, OwnersError::BeingSwept { by: 3 - me.identity() });
                        thread::yield_now();
                    }
                }
            };
            released += sweeper.sweep(&zone, |_| true).expect("it fits").frames;
            assert_eq!(owners.owned_by(me), held.len(), "round {round}");
            let tagged = Tagged::new(&*zone, owners, me).expect("it fits");
            tagged.free_batch(&held, Order::BASE, slot).expect("all are the member's");
            held.resize(100, FrameId(0));
            let request = Request::movable(Order::BASE, slot);
            tagged.alloc_batch(request, Batch::All, &mut held).expect("there is room");
        }
        die(zone);
        (released, held)
    };
    let done = thread::scope(|scope| {
        let sweepers = [(members[0], Slot(0)), (members[1], Slot(2))];
        let attached = sweepers.map(|(me, slot)| (cut_off.attach(), me, slot));
        let sweepers = attached.map(|(zone, me, slot)| scope.spawn(move || work(zone, me, slot)));
        sweepers.map(|sweeper| sweeper.join().expect("it does not panic"))
    });
    assert_eq!(done.iter().map(|(released, _)| released).sum::<usize>(), 192, "once");
    let (zone, owners) = cut_off.attach();
    for (me, (_, held)) in members.into_iter().zip(done) {
        assert!(held.iter().all(|&frame| owners.owner(frame) == Some(me)));
    }
    assert_eq!(zone.stats().free_frames, ROWS.frames - 200);
    die(zone);
}

/// One has the right to sweep at a time. Who is dead has it no more, and takes it from nobody when it is gone.
#[test]
fn one_has_the_right_to_sweep() {
    let buffer = buffer();
    let (zone, owners) = format(&buffer);
    let [one, two] = [1, 2].map(|by| NonZeroU64::new(by).expect("it is not zero"));
    let first = owners.sweeper(one, |_| false).expect("nobody has it");
    let by = |refused: Result<Sweeper<'_>, OwnersError>| refused.expect_err("it is taken");
    for again in [one, two] {
        assert_eq!(by(owners.sweeper(again, |by| by == 2)), OwnersError::BeingSwept { by: 1 });
    }
    let second = owners.sweeper(two, |by| by == 1).expect("the first one is dead");
    zone.alloc(Request::movable(Order(3), Slot(0))).expect("there is room");
    assert_eq!(first.sweep(&zone, |_| true), Err(OwnersError::RightLost));
    assert_eq!(zone.stats().free_frames, config().frames - 8, "nothing is swept");
    drop(first);
    let open = open(&buffer).expect("it is there");
    assert_eq!(by(open.sweeper(one, |_| false)), OwnersError::BeingSwept { by: 2 });
    drop(second);
    drop(open.sweeper(one, |_| panic!("nobody has it")).expect("nobody has it"));
}

/// Who dies in a run, between its tags and the allocator, hides it; who dies among the tags hides what has none.
#[test]
fn a_death_in_a_run_hides_the_run() {
    for (dies_at, left_tagged) in [(Step::Allocated, 0), (Step::Freeing, 0), (Step::Freeing, 9)] {
        for kept in [false, true] {
            let buffer = buffer();
            let (zone, owners) = format(&buffer);
            let [one, two] = [1, 2].map(|identity| owners.join(identity).expect("there is room"));
            let death = |step, _, _| {
                if step == dies_at {
                    dies();
                }
            };
            let between = Between { engine: &*zone, happens: &death };
            let living = Tagged::new(&*zone, owners, one).expect("it fits");
            let dying = Tagged::new(&between, owners, one).expect("it fits");
            let request = RangeRequest::new(77, Class::MOVABLE, Slot(0));
            let run = living.alloc_range(request).expect("there is room");
            // As if it had died when all but so many tags were written.
            let freed = run.start..FrameId(run.end.0 - left_tagged);
            until_it_dies(|| {
                let _ = dying.alloc_range(request);
                let _ = dying.free_range(freed.clone(), Slot(0));
            });
            let owned = 77 + if dies_at == Step::Allocated { 0 } else { left_tagged };
            assert_eq!(owners.owned_by(one), owned, "{dies_at:?}");
            if !kept {
                let survivor = Tagged::new(&*zone, owners, two).expect("it fits");
                assert_eq!(survivor.release_owner(one, Slot(1)), Ok(owned), "{dies_at:?}");
            }
            let swept = sweeper(owners).sweep(&zone, |_| true).expect("it fits");
            assert_eq!((swept.frames, swept.members), (2 * 77 - owned, 0), "{dies_at:?}");
            let left = if kept { owned } else { 0 };
            assert_eq!(zone.stats().free_frames + left, config().frames);
        }
    }
}
