//! The recorder: threads that pass a baton, and the events in their order.
//!
//! It is the observer of the atomics: each access is a place where another thread may go on, and each change of a word of the
//! durable memory is an event. Outside of [`record`] nothing is recorded. Inside, an access is sequentially consistent,
//! whatever ordering it names.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{ScopedJoinHandle, scope};

use fastrand::Rng;
use woodlot_frame::atomics::{Access, Observer, observe};

/// Words in a cache line.
pub const LINE_WORDS: usize = 8;

/// Of so many accesses, the baton goes on after one: one of these numbers for a whole recording.
const SWITCH: [u32; 4] = [2, 4, 8, 20];

/// What a thread did. Threads are numbered from 0, words and lines from the first of the durable memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A word of the durable memory changed.
    Store(Store),
    /// A line was written back as it is.
    WriteBack {
        /// By whom.
        thread: usize,
        /// Which.
        line: usize,
        /// But for so many of the last stores to it.
        but: usize,
    },
    /// What the thread had written back is persistent.
    Fence {
        /// Whose.
        thread: usize,
    },
    /// What the program said by [`mark`].
    Mark {
        /// Who said it.
        thread: usize,
        /// What.
        what: usize,
    },
}

/// A word of the durable memory changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Store {
    /// By whom.
    pub thread: usize,
    /// Which.
    pub word: usize,
    /// From this value.
    pub before: u64,
    /// To this value.
    pub after: u64,
}

struct State {
    /// Whose turn it is.
    turn: usize,
    running: Vec<bool>,
    rng: Rng,
    events: Vec<Event>,
    /// The stores of each thread since its last fence.
    recent: Vec<Vec<Store>>,
}

struct Shared {
    durable: Range<usize>,
    threads: usize,
    switch: u32,
    state: Mutex<State>,
    turned: Vec<Condvar>,
}

#[derive(Clone)]
struct Thread {
    shared: Arc<Shared>,
    number: usize,
}

static RECORDER: Observer = Observer { before: step, after: done, fetched: |_| () };

thread_local! {
    static THREAD: RefCell<Option<Thread>> = const { RefCell::new(None) };
}

/// Runs the bodies side by side, one step at a time, in an order that follows from the seed. Returns what they
/// returned, and what happened to the memory at these addresses, which begins with a line.
///
/// # Panics
/// If a body panics, after all others have ended; if somebody else observes the atomics.
pub fn record<'a, R: Send>(
    durable: Range<usize>,
    seed: u64,
    bodies: Vec<Box<dyn FnOnce() -> R + Send + 'a>>,
) -> (Vec<R>, Vec<Event>) {
    assert!(observe(&RECORDER), "somebody else observes the atomics");
    let (threads, mut rng) = (bodies.len(), Rng::with_seed(seed));
    let shared = Arc::new(Shared {
        durable,
        threads,
        switch: SWITCH[rng.usize(..SWITCH.len())],
        state: Mutex::new(State {
            turn: 0,
            running: vec![true; threads],
            rng,
            events: Vec::new(),
            recent: vec![Vec::new(); threads],
        }),
        turned: (0..threads).map(|_| Condvar::new()).collect(),
    });
    let run = |(number, body): (usize, Box<dyn FnOnce() -> R + Send + 'a>)| {
        let thread = Thread { shared: shared.clone(), number };
        thread.wait(thread.lock());
        let _baton = Baton::take(thread);
        body()
    };
    let mut bodies = bodies.into_iter().enumerate();
    let results = if threads == 1 {
        bodies.by_ref().map(run).collect()
    } else {
        scope(|scope| {
            let spawned: Vec<_> = bodies.map(|body| scope.spawn(|| run(body))).collect();
            let join = |thread: ScopedJoinHandle<'_, R>| thread.join();
            let ended: Vec<_> = spawned.into_iter().map(join).collect();
            ended.into_iter().map(|ended| ended.expect("a body panicked")).collect()
        })
    };
    let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
    (results, std::mem::take(&mut state.events))
}

/// The thread is recorded until this is dropped; the baton goes on then.
struct Baton(Thread);

impl Baton {
    fn take(thread: Thread) -> Self {
        THREAD.set(Some(thread.clone()));
        Self(thread)
    }
}

impl Drop for Baton {
    fn drop(&mut self) {
        THREAD.set(None);
        let Thread { shared, number } = &self.0;
        let mut state = self.0.lock();
        state.running[*number] = false;
        if let Some(next) = state.choose() {
            state.turn = next;
            shared.turned[next].notify_one();
        }
    }
}

impl State {
    /// A thread that has not ended.
    fn choose(&mut self) -> Option<usize> {
        let running: Vec<usize> = (0..self.running.len()).filter(|&n| self.running[n]).collect();
        self.rng.choice(running)
    }
}

impl Thread {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, mut state: MutexGuard<'_, State>) {
        while state.turn != self.number {
            let turned = self.shared.turned[self.number].wait(state);
            state = turned.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn step(&self) {
        if self.shared.threads == 1 {
            return;
        }
        let mut state = self.lock();
        if state.rng.u32(..self.shared.switch) == 0
            && let Some(next) = state.choose()
            && next != self.number
        {
            state.turn = next;
            self.shared.turned[next].notify_one();
            self.wait(state);
        }
    }

    /// The word at an address of the durable memory.
    fn word(&self, address: usize) -> Option<usize> {
        let Range { start, .. } = self.shared.durable;
        self.shared.durable.contains(&address).then(|| (address - start) / 8)
    }
}

fn with(this: impl FnOnce(&Thread)) {
    THREAD.with_borrow(|thread| {
        if let Some(thread) = thread {
            this(thread);
        }
    });
}

/// Before an access: another thread may go on.
fn step() {
    with(Thread::step);
}

/// After an access: it may have changed a word.
fn done(&Access { address, before, after, .. }: &Access) {
    if before == after {
        return;
    }
    with(|thread| {
        if let Some(word) = thread.word(address) {
            let store = Store { thread: thread.number, word, before, after };
            let mut state = thread.lock();
            state.recent[thread.number].push(store);
            state.events.push(Event::Store(store));
        }
    });
}

/// The line at this address is written back, but for so many of the last stores to it.
pub fn write_back(address: usize, but: usize) {
    step();
    with(|thread| {
        if let Some(word) = thread.word(address) {
            let (thread_number, line) = (thread.number, word / LINE_WORDS);
            let event = Event::WriteBack { thread: thread_number, line, but };
            thread.lock().events.push(event);
        }
    });
}

/// What this thread has written back becomes persistent.
pub fn fence() {
    step();
    with(|thread| {
        let mut state = thread.lock();
        state.recent[thread.number].clear();
        state.events.push(Event::Fence { thread: thread.number });
    });
}

/// The program says something.
pub fn mark(what: usize) {
    with(|thread| thread.lock().events.push(Event::Mark { thread: thread.number, what }));
}

/// What this thread has stored to the durable memory since its last fence.
pub fn recent_stores() -> Vec<Store> {
    let mut recent = Vec::new();
    with(|thread| recent.clone_from(&thread.lock().recent[thread.number]));
    recent
}
