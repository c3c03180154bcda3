//! Calls: something that one CPU has done on another one, by an interrupt.
//!
//! ```text
//!   mailbox    CLOSED ── open ──▶ OPEN ── call ──▶ a request      one for each CPU
//!                 ▲────── close ────▲── answer, or withdrawn ──┘
//!   request    what to do │ done                                  on the stack of who calls
//! ```
//!
//! 1. A request lies in one mailbox at most. Whoever swaps it for OPEN or CLOSED takes it out: the CPU whose mailbox it
//!    is, which does it; or who called, who is patient no more.
//! 2. Who calls does not return before the request is done, or withdrawn. The last that is done to it is to say that it
//!    is done.
//! 3. Who waits for an answer answers calls meanwhile: two CPUs that call each other with interrupts off do not hang. So does
//!    who waits for a lock of the allocator, which the one may have who calls.
//!
//! *Progress*: a call looks `patience` times for its answer, and then withdraws its request. If it is being answered just
//! then, the call waits for that.
//!
//! *Ordering*: what was done before a call is seen by what is done on the other CPU, and that by who called.

use core::cell::UnsafeCell;
use core::hint::spin_loop;

use woodlot_frame::atomics::{AtomicU32, AtomicU64, Ordering};
use woodlot_kmem::Cpus;

/// A mailbox of a CPU that does not answer.
const CLOSED: u64 = 0;
/// One without a request. Any other word is the address of a request.
const OPEN: u64 = 1;

/// Who waits for a lock answers each time that it has tried so often: to ask for the number of its CPU may take a microsecond.
const TRIES: usize = 32;

/// What a CPU is asked to do.
struct Request<'c> {
    call: UnsafeCell<&'c mut (dyn FnMut() + Send)>,
    /// 0, and then 1.
    done: AtomicU32,
}

impl Request<'_> {
    fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) != 0
    }

    /// Does what is asked.
    ///
    /// # Safety
    /// The caller has taken the request out of a mailbox.
    unsafe fn run(&self) {
        // SAFETY: nobody else has the request (invariant 1).
        unsafe { (*self.call.get())() };
        self.done.store(1, Ordering::Release);
    }
}

/// CPUs that keep to themselves as `C` says, and do what others ask of them: up to `N`.
///
/// A kernel [opens](Self::open) the mailbox of each CPU that has interrupts on from then on, and calls
/// [`answer`](Self::answer) in the handler of the interrupt that it sends.
///
/// A CPU that waits for an answer, or for a lock of the allocator, answers others, with interrupts on or off. But a CPU that waits for
/// something else of the caller with interrupts off, for a spinlock of the kernel say, does not answer. So a call gives up, and memory
/// in that CPU's cache is not found. Where frames are mapped and a CPU is called to forget that, memory is lost then.
///
/// What is called may come in the middle of a call of the allocator: it must not wait for anything, nor call the allocator.
pub struct Calls<C, const N: usize> {
    cpus: C,
    send: fn(usize),
    patience: usize,
    mailboxes: [AtomicU64; N],
}

impl<C: Cpus, const N: usize> Calls<C, N> {
    /// No CPU answers yet. `send` sends the interrupt to a CPU, between `enter` and `leave`. `patience` is how often a call
    /// looks for its answer: 100,000 times are about a millisecond.
    pub const fn new(cpus: C, send: fn(usize), patience: usize) -> Self {
        Calls { cpus, send, patience, mailboxes: [const { AtomicU64::new(CLOSED) }; N] }
    }

    /// This CPU answers from now on.
    pub fn open(&self) {
        self.here(|mailbox| {
            let _ = mailbox.compare_exchange(CLOSED, OPEN, Ordering::AcqRel, Ordering::Relaxed);
        });
    }

    /// This CPU answers once more, and then not any more: before it goes, or turns its interrupts off for long.
    pub fn close(&self) {
        self.here(|mailbox| {
            let request = mailbox.swap(CLOSED, Ordering::AcqRel);
            // SAFETY: this call took it out, on the CPU whose mailbox it is.
            unsafe { Self::run(request) };
        });
    }

    /// Does what this CPU is asked to do, if anything.
    pub fn answer(&self) {
        self.here(|mailbox| {
            let request = mailbox.load(Ordering::Relaxed);
            let (taken, not) = (Ordering::AcqRel, Ordering::Relaxed);
            if request > OPEN && mailbox.compare_exchange(request, OPEN, taken, not).is_ok() {
                // SAFETY: as above.
                unsafe { Self::run(request) };
            }
        });
    }

    /// Does something with this CPU's mailbox, with the CPU kept to the caller.
    fn here(&self, call: impl FnOnce(&AtomicU64)) {
        let (cpu, state) = self.cpus.enter();
        if let Some(mailbox) = self.mailboxes.get(cpu) {
            call(mailbox);
        }
        self.cpus.leave(state);
    }

    /// # Safety
    /// The word was in a mailbox, and the caller took it out, on the CPU whose mailbox it is, between `enter` and `leave`.
    unsafe fn run(word: u64) {
        if word > OPEN {
            let request = core::ptr::with_exposed_provenance::<Request<'_>>(word as usize);
            // SAFETY: it is there until it is done (invariant 2), and the caller's.
            unsafe { (*request).run() };
        }
    }

    /// Waits for a request that is sent to a CPU. False, if it was not done, and is in no mailbox.
    fn wait_for(&self, cpu: usize, mailbox: &AtomicU64, request: &Request<'_>) -> bool {
        let word = core::ptr::from_ref(request).expose_provenance() as u64;
        let (taken, not) = (Ordering::AcqRel, Ordering::Relaxed);
        let mut sent = false;
        for _ in 0..self.patience {
            if sent && request.is_done() {
                return true;
            }
            if !sent {
                match mailbox.compare_exchange(OPEN, word, taken, not) {
                    Ok(_) => {
                        sent = true;
                        self.here(|_| (self.send)(cpu));
                    }
                    Err(CLOSED) => return false,
                    // It has a request of somebody else.
                    Err(_) => {}
                }
            }
            self.answer();
            spin_loop();
        }
        if !sent || mailbox.compare_exchange(word, OPEN, taken, not).is_ok() {
            return false;
        }
        while !request.is_done() {
            self.answer();
            spin_loop();
        }
        true
    }
}

// SAFETY: `C` keeps a CPU to its caller. Requests are done with their CPU kept to the caller too.
unsafe impl<C: Cpus, const N: usize> Cpus for Calls<C, N> {
    type State = C::State;

    #[inline]
    fn enter(&self) -> (usize, C::State) {
        self.cpus.enter()
    }

    #[inline]
    fn leave(&self, state: C::State) {
        self.cpus.leave(state);
    }

    fn call(&self, cpu: usize, call: &mut (dyn FnMut() + Send)) -> bool {
        let (here, state) = self.cpus.enter();
        if here == cpu {
            call();
        }
        self.cpus.leave(state);
        let Some(mailbox) = self.mailboxes.get(cpu).filter(|_| here != cpu) else {
            return here == cpu;
        };
        let request = Request { call: UnsafeCell::new(call), done: AtomicU32::new(0) };
        self.wait_for(cpu, mailbox, &request)
    }

    #[inline]
    fn wait(&self, tries: usize) {
        if tries.is_multiple_of(TRIES) {
            self.answer();
        }
        self.cpus.wait(tries);
    }
}
