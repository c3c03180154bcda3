//! Stacks over an engine.

use core::fmt::{Display, Formatter, Result as Fmt};
use core::ptr::NonNull;

use woodlot_frame::atomics::AtomicU64;
use woodlot_frame::{Base4K, Slot};
use woodlot_llfree::LLFree;
use woodlot_stacks::{Arena, ArenaError, Found, FreeError, Shape, Stack, StackError};

use crate::kmem_vmblk::Space;

type Engine = LLFree<'static, Base4K>;
type Stacks = Arena<'static, Engine, Space>;

// Who has which stack is a division.
symbols! { cold stacks:
    shape(pages: usize, stacks: usize) -> Option<Shape> = Shape::new(pages, stacks);
    words(shape: Shape) -> usize = shape.words();
    addresses(shape: Shape) -> usize = shape.addresses();
    new(zone: &'static Engine, space: Space, base: NonNull<u8>, shape: Shape, words: &'static [AtomicU64])
        // SAFETY: never called.
        -> Result<Stacks, ArenaError> = unsafe { Arena::new(zone, space, base, shape, words) };
    alloc(stacks: &Stacks, slot: Slot) -> Result<Stack, StackError> = stacks.alloc(slot);
    free(stacks: &Stacks, bottom: NonNull<u8>, slot: Slot) -> Result<(), FreeError> =
        // SAFETY: as above.
        unsafe { stacks.free(bottom, slot) };
    trim(stacks: &Stacks, slot: Slot) -> usize = stacks.trim(slot);
    find(stacks: &Stacks, address: *const u8) -> Option<Found> = stacks.find(address);
    in_use(stacks: &Stacks) -> usize = stacks.in_use();
    alone(stacks: &Stacks) -> usize = stacks.alone();
    huge_frames(stacks: &Stacks) -> usize = stacks.huge_frames();
    top(stack: &Stack) -> NonNull<u8> = stack.top();
    show_arena_error(error: &ArenaError, f: &mut Formatter) -> Fmt = Display::fmt(error, f);
    show_stack_error(error: &StackError, f: &mut Formatter) -> Fmt = Display::fmt(error, f);
    show_free_error(error: &FreeError, f: &mut Formatter) -> Fmt = Display::fmt(error, f);
}
