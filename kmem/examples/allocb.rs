//! The buffers of STREAMS: a message block, a data block and a buffer, linked and handed out as a unit.
//!
//! ```text
//!   message block ──► data block ──► buffer        one unit, which stays linked while it is free
//!        ▲                ▲
//!        │           message block                 of `dupb`: another reference to the same data
//!   its first 16 bytes link messages in a queue; in a free unit they are the cache's
//! ```
//!
//! 1. `references` counts the message blocks of a data block.
//! 2. A unit is freed whole, with its links as they were made, when the last message block of its data block is.
//!
//! Run it with `cargo run -p woodlot-kmem --example allocb`. Sections 2.1, 2.2 and 3.1 of the paper.

use std::cell::UnsafeCell;
use std::error::Error;
use std::ptr::{NonNull, null_mut};

use woodlot_frame::atomics::{AtomicU32, Ordering};
use woodlot_frame::{Base4K, FrameAllocator, Init, Owned, ZoneConfig};
use woodlot_kmem::{
    Build, Cookie, Cpus, Descriptor, Direct, Guarded, Kmem, Objects, Octaves, PAGE,
};
use woodlot_llfree::LLFree;

type Zone = LLFree<'static, Base4K>;
type Heap<'a> = Kmem<Guarded<OneCpu, 1>, Direct<'a, Zone>, Octaves>;

/// A machine with one CPU and no interrupts.
struct OneCpu;

// SAFETY: nothing else runs on the CPU.
unsafe impl Cpus for OneCpu {
    type State = ();

    fn enter(&self) -> (usize, ()) {
        (0, ())
    }

    fn leave(&self, (): ()) {}
}

/// A message block. What was sent lies between `read` and `write`.
#[repr(C)]
struct Message {
    /// The messages of a queue are linked by these two.
    next: *mut Message,
    before: *mut Message,
    read: *mut u8,
    write: *mut u8,
    data: NonNull<Data>,
}

impl Message {
    /// A message block of a data block, in no queue.
    fn new(read: *mut u8, write: *mut u8, data: NonNull<Data>) -> Message {
        Message { next: null_mut(), before: null_mut(), read, write, data }
    }
}

/// A data block.
struct Data {
    buffer: NonNull<u8>,
    /// Which buffer it is.
    kind: usize,
    /// Message blocks that refer to it.
    references: AtomicU32,
    /// The one that was made with it.
    unit: NonNull<Message>,
}

/// Bytes of the buffers.
const BUFFERS: [usize; 4] = [64, 256, 1024, 4096];

const MESSAGE: Cookie<Octaves> = Cookie::of::<{ size_of::<Message>() }>();
const DATA: Cookie<Octaves> = Cookie::of::<{ size_of::<Data>() }>();

/// What makes units.
struct Units<'a> {
    heap: &'a Heap<'a>,
    /// How many there are.
    made: AtomicU32,
}

// SAFETY: a unit consists of three blocks of the heap, which are nobody else's until they are freed.
unsafe impl Build for Units<'_> {
    type Object = Message;
    const KINDS: usize = BUFFERS.len();
    const TARGET: usize = 8;

    fn make(&self, kind: usize) -> Option<NonNull<Message>> {
        let bytes = *BUFFERS.get(kind)?;
        let (heap, sizes) = (self.heap, [size_of::<Message>(), size_of::<Data>(), bytes]);
        let parts = sizes.map(|bytes| heap.alloc(bytes));
        let [Some(unit), Some(data), Some(buffer)] = parts else {
            for (part, bytes) in parts.into_iter().zip(sizes) {
                // SAFETY: it was just allocated with this size.
                part.into_iter().for_each(|part| unsafe { heap.free(part, bytes) });
            }
            return None;
        };
        let (unit, data) = (unit.cast::<Message>(), data.cast::<Data>());
        // SAFETY: the blocks were allocated with these sizes.
        unsafe {
            data.write(Data { buffer, kind, references: AtomicU32::new(0), unit });
            unit.write(Message::new(buffer.as_ptr(), buffer.as_ptr(), data));
        }
        self.made.fetch_add(1, Ordering::Relaxed);
        Some(unit)
    }

    unsafe fn unmake(&self, kind: usize, unit: NonNull<Message>) {
        // SAFETY: the unit is free, and as it was made but for its first words.
        unsafe {
            let data = unit.as_ref().data;
            self.heap.free(data.as_ref().buffer, BUFFERS[kind]);
            self.heap.free_cookie(DATA, data.cast());
            self.heap.free_cookie(MESSAGE, unit.cast());
        }
        self.made.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The trio of System V: `allocb`, `dupb` and `freeb`.
struct Streams<'a> {
    heap: &'a Heap<'a>,
    units: Objects<Guarded<OneCpu, 1>, Units<'a>>,
}

impl<'a> Streams<'a> {
    fn new(heap: &'a Heap<'a>) -> Streams<'a> {
        let units = Units { heap, made: AtomicU32::new(0) };
        Streams { heap, units: Objects::new(Guarded::new(OneCpu), units) }
    }

    /// A message block with a buffer of at least so many bytes.
    fn allocb(&self, bytes: usize) -> Option<NonNull<Message>> {
        let kind = BUFFERS.iter().position(|&buffer| bytes <= buffer)?;
        let mut message = self.units.alloc(kind)?;
        // SAFETY: the unit is this caller's now, and linked already.
        unsafe {
            let message = message.as_mut();
            (message.next, message.before) = (null_mut(), null_mut());
            message.data.as_ref().references.store(1, Ordering::Relaxed);
        }
        Some(message)
    }

    /// Another message block for the same data.
    ///
    /// # Safety
    /// The message block is the caller's.
    unsafe fn dupb(&self, message: NonNull<Message>) -> Option<NonNull<Message>> {
        let copy = self.heap.alloc_cookie(MESSAGE)?.cast();
        // SAFETY: as the caller says, and the block was just allocated with this size.
        unsafe {
            let &Message { read, write, data, .. } = message.as_ref();
            data.as_ref().references.fetch_add(1, Ordering::Relaxed);
            copy.write(Message::new(read, write, data));
        }
        Some(copy)
    }

    /// Frees a message block, and its unit if no other one refers to the data.
    ///
    /// # Safety
    /// The message block is the caller's, who uses it no more.
    unsafe fn freeb(&self, message: NonNull<Message>) {
        // SAFETY: as the caller says. Who drops the last reference is alone with the unit.
        unsafe {
            let data = message.as_ref().data;
            let &Data { buffer, kind, unit, .. } = data.as_ref();
            if message != unit {
                self.heap.free_cookie(MESSAGE, message.cast());
            }
            if data.as_ref().references.fetch_sub(1, Ordering::AcqRel) == 1 {
                unit.write(Message::new(buffer.as_ptr(), buffer.as_ptr(), data));
                self.units.free(kind, unit);
            }
        }
    }
}

/// Sends a hundred times eight messages, and keeps a copy of each until it has arrived.
fn send(streams: &Streams<'_>) -> Option<()> {
    let mut made = 0;
    for round in 0..100 {
        let mut queue = Vec::new();
        for bytes in [1, 64, 65, 500, 4000, 4096, 100, 10] {
            let mut message = streams.allocb(bytes)?;
            // SAFETY: the message is this function's, and its buffer is large enough.
            unsafe {
                let message = message.as_mut();
                assert!(message.read == message.data.as_ref().buffer.as_ptr(), "as it was made");
                message.write.write_bytes(round, bytes);
                message.write = message.write.add(bytes);
            }
            // SAFETY: as above.
            queue.extend([(message, bytes), (unsafe { streams.dupb(message) }?, bytes)]);
        }
        for (message, bytes) in queue {
            // SAFETY: the message is this function's, and is freed once.
            unsafe {
                let &Message { read, write, .. } = message.as_ref();
                let sent = std::slice::from_raw_parts(read, write.offset_from_unsigned(read));
                assert!(sent.len() == bytes && sent.iter().all(|&byte| byte == round));
                streams.freeb(message);
            }
        }
        let now = streams.units.builder().made.load(Ordering::Relaxed);
        assert!(round == 0 || now == made, "units are free, and none is made anew");
        made = now;
    }
    println!("800 messages and as many copies: {made} units were made");
    Some(())
}

/// Sends messages, and gives all memory back.
///
/// # Errors
/// There is no memory.
pub fn run() -> Result<(), Box<dyn Error>> {
    const FRAMES: usize = 2048;
    // 8 MiB of memory, which frames share out.
    let memory: Vec<_> = (0..=FRAMES).map(|_| UnsafeCell::new([0_u8; PAGE])).collect();
    let base = memory.as_ptr().cast::<u8>().cast_mut();
    let base = NonNull::new(base.wrapping_add(base.align_offset(PAGE))).ok_or("memory")?;
    let zone = Owned::<Zone>::new(&ZoneConfig::new(FRAMES, 1), Init::Free)?;
    let descriptors: Vec<Descriptor> = (0..FRAMES).map(|_| Descriptor::default()).collect();
    // SAFETY: frame 0 of the zone lies at `base`, the others behind it, and nobody else uses them.
    let pages = unsafe { Direct::new(&*zone, base, &descriptors) }.ok_or("descriptors")?;
    let heap: Heap<'_> = Kmem::new(Guarded::new(OneCpu), pages, ());
    let streams = Streams::new(&heap);

    send(&streams).ok_or("no memory")?;
    assert!(streams.allocb(4097).is_none(), "there is no such buffer");

    streams.units.flush();
    heap.flush();
    assert_eq!(streams.units.builder().made.load(Ordering::Relaxed), 0);
    assert_eq!(zone.stats().free_frames, FRAMES);
    println!("all {FRAMES} frames are free again");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run()
}
