//! The one-write engine: what a crash leaves where a store is persistent when it is visible.
//!
//! The engine writes no cache lines back, so of the models of memory only eADR is its own: one image after each store. A file in which a process was
//! killed is the same.

use std::ops::Range;

use crate::recorder::{Event, Store, record};
use fastrand::Rng;
use woodlot_frame::atomics::Ordering::Relaxed;
use woodlot_frame::{
    Base4K, Base64K, ClassPolicy, Construct, FrameId, Geometry, Init, Order, RawMetadata,
    ZoneConfig, blocks,
};
use woodlot_onewrite::{Lengths, OneWrite};

use crate::defects::Defect;
use crate::figures::{Figures, Model, Phase};
use crate::history::{Block, Books, Hand};
use crate::judge::{Call, Owners};
use crate::known::{Known, Recovered, Verdict};
use crate::lines::{LINE, Lines};
use crate::subject::{Subject, row};
use crate::tiny::{THREADS, Tiny};
use crate::trial::{counts_agree, free_everything, is_tried, look, take_everything};

/// Of so many events, the recovery of what a crash there leaves is cut off as well.
const CUT_OFF: usize = 12;

/// The lower bit of each state of a word: see LAYOUT.md.
const EACH: u64 = 0x5555_5555_5555_5555;

/// A history on the one-write engine.
///
/// # Errors
/// What a crash would have spoiled.
pub fn history(rng: &mut Rng, defect: Defect) -> Result<Figures, String> {
    match rng.u8(..16) {
        n if !cfg!(feature = "every-geometry") => match n % 4 {
            0 => of::<Tiny<11, 2>>(rng, defect),
            1 => of::<Tiny<7, 4>>(rng, defect),
            _ => of::<Tiny<9, 2>>(rng, defect),
        },
        0 => of::<Base4K>(rng, defect),
        1..4 => of::<Base64K>(rng, defect),
        4..7 => of::<Tiny<11, 2>>(rng, defect),
        7..10 => of::<Tiny<7, 4>>(rng, defect),
        10 => of::<Tiny<10, 2>>(rng, defect),
        _ => of::<Tiny<9, 2>>(rng, defect),
    }
}

/// The memory of a zone.
struct Memory {
    config: ZoneConfig,
    durable: Lines,
    volatile: Lines,
    /// Of the durable words those of states, and those of flags.
    states: Range<usize>,
    flags: Range<usize>,
}

impl Memory {
    fn new<G: Geometry>(config: ZoneConfig) -> Self {
        let size = OneWrite::<G>::metadata_size(&config).expect("plans have legal zones");
        let Lengths { rows, states, flags, .. } = Lengths::of::<G>(&config).expect("as above");
        let behind = rows + states;
        Memory {
            config,
            durable: Lines::new(size.durable / LINE),
            volatile: Lines::new(size.volatile / LINE),
            states: rows..behind,
            flags: behind..behind + flags,
        }
    }

    /// Makes the zone on the durable memory; the volatile memory is forgotten before.
    fn zone<G: Geometry>(&self, init: Init) -> OneWrite<'_, G> {
        self.volatile.forget();
        let [durable, volatile] =
            [&self.durable, &self.volatile].map(|lines| lines.raw(lines.count()));
        let metadata = RawMetadata { durable, volatile };
        // SAFETY: the lines are words in cells, aligned, of the sizes asked for, and live as long as the zone;
        // nobody uses another zone on them at the same time.
        let zone = unsafe { OneWrite::construct(&self.config, metadata, init) };
        zone.expect("the memory suffices")
    }
}

fn config<G: Geometry>(rng: &mut Rng) -> ZoneConfig {
    let start = if rng.bool() { 0 } else { rng.usize(..3 * G::MAX_FRAMES) };
    let most = if G::TREE_FRAMES > 1 << 12 { G::TREE_FRAMES } else { 2 * G::TREE_FRAMES };
    let frames = rng.usize(1..=most);
    let frames = if rng.bool() { frames.next_multiple_of(G::MAX_FRAMES) } else { frames };
    let classes = if rng.bool() { ClassPolicy::SINGLE } else { ClassPolicy::SHIPPED };
    let config = ZoneConfig::new(frames, rng.usize(1..4)).starting_at(FrameId(start));
    config.with_classes(classes)
}

fn of<G: Geometry>(rng: &mut Rng, defect: Defect) -> Result<Figures, String> {
    let memory = Memory::new::<G>(config::<G>(rng));
    let ended = calls::<G>(&memory, defect, rng);
    let about = |why| {
        format!(
            "{why}\none-write, {:?}, {}, order of a huge frame {}",
            memory.config,
            G::NAME,
            G::HUGE_ORDER
        )
    };
    ended.map_err(about)
}

/// Calls, and every crash beside them.
fn calls<G: Geometry>(memory: &Memory, defect: Defect, rng: &mut Rng) -> Result<Figures, String> {
    let init = if rng.u8(..3) == 0 { Init::Allocated } else { Init::Free };
    // What is there before means nothing.
    memory.durable.all().for_each(|word| word.store(rng.u64(..), Relaxed));
    let zone = memory.zone::<G>(init);
    let begin = memory.durable.words();
    let threads = rng.usize(1..=THREADS);
    let mut owned = vec![Vec::new(); threads];
    if init == Init::Allocated {
        let all = blocks::<G>(memory.config.range()).enumerate();
        all.for_each(|(number, block): (usize, Block)| owned[number % threads].push(block));
    }
    let (books, count) = (Books::default(), rng.usize(4..40) / threads + 1);
    let bodies = owned.into_iter().enumerate().map(|(number, owned)| {
        let hand = Hand::new(&zone, &books, number, rng.u64(..), owned);
        let body: Box<dyn FnOnce() -> Result<(), String> + Send> =
            Box::new(move || hand.run(0, count));
        body
    });
    let bodies: Vec<_> = bodies.collect();
    let (ended, events) = record(memory.durable.addresses(), rng.u64(..), bodies);
    let mut calls = books.into_calls();
    ended.into_iter().collect::<Result<(), String>>()?;
    close_first::<G>(&mut calls, &events, memory);
    let events = halved::<G>(events, memory, defect);
    let mut owners = Owners::new(memory.config.frames, &calls, init == Init::Allocated);
    let mut recoveries = Recoveries { memory, defect, known: Known::default() };
    let mut figures = Figures { histories: 1, calls: calls.len() as u64, ..Figures::default() };
    let mut image = begin;
    for (number, event) in events.iter().enumerate() {
        let mut judged = Ok(());
        match *event {
            Event::Store(Store { word, after, .. }) => image[word] = after,
            Event::Mark { what, .. } => judged = owners.mark(what),
            Event::WriteBack { .. } | Event::Fence { .. } => continue,
        }
        figures.images[Model::Eadr as usize][Phase::Operation as usize] += 1;
        judged = judged
            .and_then(|()| recoveries.of::<G>(&image))
            .and_then(|found| owners.judge(&found.found));
        if judged.is_ok() && rng.usize(..CUT_OFF) == 0 {
            judged = recoveries.interrupted::<G>(&image, &mut figures);
        }
        let said = |why| format!("{why}; under way at event {number}: {}", owners.under_way());
        judged.map_err(said)?;
    }
    figures.recovered = recoveries.known.count();
    Ok(figures)
}

/// A call that takes rows is one write only where none of them is written to meanwhile: open ones have to be closed first.
fn close_first<G: Geometry>(calls: &mut [Call], events: &[Event], memory: &Memory) {
    let before = memory.config.start.0 & (G::MAX_FRAMES - 1);
    let mut under_way: Vec<usize> = Vec::new();
    for event in events {
        match *event {
            Event::Mark { what, .. } if what % 2 == 0 => under_way.push(what / 2),
            Event::Mark { what, .. } => under_way.retain(|&number| number != what / 2),
            Event::Store(Store { word, .. }) if word < memory.states.start => {
                let (first, end) = (word * row::<G>(), (word + 1) * row::<G>());
                for &number in &under_way {
                    let call = &mut calls[number];
                    let has = |took: &Range<usize>| {
                        took.start + before < end && first < took.end + before
                    };
                    let large = call.took.iter().any(|took| took.len() >= row::<G>() && has(took));
                    call.one_write &= !large;
                }
            }
            _ => {}
        }
    }
}

/// The events, or those of an engine that writes the states of two huge frames one after the other: where it takes them, or frees them.
fn halved<G: Geometry>(events: Vec<Event>, memory: &Memory, defect: Defect) -> Vec<Event> {
    let taken = |states: u64| (states & EACH).count_ones();
    let is_split = |store: &Store| match defect {
        Defect::OneWriteTakesHalves => taken(store.after) > taken(store.before),
        Defect::OneWriteFreesHalves => taken(store.after) < taken(store.before),
        _ => false,
    };
    if !<OneWrite<'_, G>>::one_write(Order::max::<G>()) {
        return events;
    }
    let rows = G::HUGE_FRAMES / row::<G>();
    let first = (1u64 << (2 * rows)) - 1;
    let halves = |event: Event| match event {
        Event::Store(store) if memory.states.contains(&store.word) && is_split(&store) => {
            let between = store.before & !first | store.after & first;
            let one = Store { after: between, ..store };
            [Some(Event::Store(one)), Some(Event::Store(Store { before: between, ..store }))]
        }
        other => [Some(other), None],
    };
    events.into_iter().flat_map(halves).flatten().collect()
}

/// Recoveries of images of one zone, each once.
struct Recoveries<'m> {
    memory: &'m Memory,
    defect: Defect,
    known: Known,
}

impl Recoveries<'_> {
    fn of<G: Geometry>(&mut self, image: &[u64]) -> Verdict {
        if let Some(known) = self.known.get(image) {
            return known;
        }
        let made = self.recover::<G>(image);
        self.known.keep(image, made)
    }

    fn recover<G: Geometry>(&self, image: &[u64]) -> Result<Recovered, String> {
        let mut image = image.to_vec();
        self.mislead(&mut image);
        self.memory.durable.set(&image);
        let zone = self.memory.zone::<G>(Init::Recover);
        let found = look(&zone);
        let words = self.memory.durable.words();
        counts_agree(&zone, &found)?;
        let again = self.memory.zone::<G>(Init::Recover);
        let after = self.memory.durable.words();
        if let Some(word) = (0..words.len()).find(|&word| after[word] != words[word]) {
            return Err(format!("a second recovery changed word {word} of the durable memory"));
        }
        if let Some(seed) = is_tried(&words, self.memory.config.frames) {
            take_everything(&again, &found, seed)?;
            free_everything(&again, &found)?;
        }
        Ok(Recovered { words, found })
    }

    /// Every image that a crash of a recovery leaves is recovered to what the recovery leads to.
    fn interrupted<G: Geometry>(
        &mut self,
        image: &[u64],
        figures: &mut Figures,
    ) -> Result<(), String> {
        // An image that misleads a recovery would mislead the second one further.
        if self.defect != Defect::Nothing {
            return Ok(());
        }
        let due = self.of::<G>(image)?;
        let memory = self.memory;
        memory.durable.set(image);
        let body = || _ = memory.zone::<G>(Init::Recover);
        let (_, events) = record::<()>(memory.durable.addresses(), 0, vec![Box::new(body)]);
        let mut image = image.to_vec();
        for event in events {
            let Event::Store(Store { word, after, .. }) = event else { continue };
            image[word] = after;
            figures.images[Model::Eadr as usize][Phase::Recovery as usize] += 1;
            if self.of::<G>(&image)?.words != due.words {
                return Err("an interrupted recovery leads to something else".to_owned());
            }
        }
        Ok(())
    }

    /// Changes an image so that a recovery makes of it what one with the defect would make.
    fn mislead(&self, image: &mut [u64]) {
        let states = &mut image[self.memory.states.clone()];
        let (taken, open) =
            (|word: u64| word & !(word >> 1) & EACH, |word: u64| word >> 1 & !word & EACH);
        let offline = |word: u64| word >> 1 & word & EACH;
        match self.defect {
            Defect::OneWriteFreesTaken => states.iter_mut().for_each(|word| *word &= !taken(*word)),
            Defect::OneWriteKeepsOpen => states.iter_mut().for_each(|word| *word -= open(*word)),
            Defect::OneWriteOnlinesOffline => {
                states.iter_mut().for_each(|word| *word &= !(3 * offline(*word)));
            }
            Defect::OneWriteForgetsReclaimed => image[self.memory.flags.clone()].fill(0),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pair has two states words only where huge frames have more than 16 rows.
    #[test]
    fn blocks_of_the_largest_order_are_one_write() {
        assert!(<OneWrite<'_, Base4K>>::one_write(Order::max::<Base4K>()));
        assert!(!<OneWrite<'_, Tiny<11, 2>>>::one_write(Order(12)));
        assert!(<OneWrite<'_, Tiny<11, 2>>>::one_write(Order(11)));
    }
}
