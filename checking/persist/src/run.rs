//! One history, and everything that a crash could make of it.

use crate::recorder::{Event, record};
use fastrand::Rng;
use woodlot_frame::{
    Base4K, Base64K, ClassPolicy, FrameId, Geometry, Init, Intents, Order, ZoneConfig, blocks,
};

use crate::defects::{Defect, Simulated};
use crate::figures::{Figures, Model, Phase, Points};
use crate::file;
use crate::history::{Block, Books, Hand};
use crate::images::Power;
use crate::judge::Owners;
use crate::memory::{Kind, Memory};
use crate::one_write;
use crate::recovery::Recoveries;
use crate::tiny::{THREADS, Tiny};

/// One in so many histories has a whole tree of 4 KiB frames.
const WHOLE_TREE: u64 = 64;

/// The history that follows from a seed.
///
/// # Errors
/// What a crash would have spoiled.
pub fn history(seed: u64, defect: Defect) -> Result<Figures, String> {
    let mut rng = Rng::with_seed(seed);
    let on_one_write = match defect {
        Defect::Nothing => rng.u8(..5) == 0,
        defect => defect.is_of_one_write(),
    };
    let on_a_file = match defect {
        Defect::Nothing => rng.u8(..4) == 0,
        defect => defect.is_of_files(),
    };
    let with_intents = rng.u8(..4) == 0 || defect.needs_intents();
    let ended = match (on_a_file, with_intents) {
        _ if on_one_write => one_write::history(&mut rng, defect),
        (true, _) => file::history(&mut rng, defect),
        (false, true) => of_kind::<Intents<Simulated>>(&mut rng, defect),
        (false, false) => of_kind::<Simulated>(&mut rng, defect),
    };
    let short = if cfg!(feature = "every-geometry") { "" } else { "--short " };
    ended.map_err(|why| format!("{why}\nreplay: cargo xtask persist {short}--replay {seed}"))
}

fn of_kind<P: Kind>(rng: &mut Rng, defect: Defect) -> Result<Figures, String> {
    match rng.u64(..WHOLE_TREE) {
        _ if defect.is_of_long_batches() => one::<Tiny<9, 2>, P>(rng, defect),
        n if !cfg!(feature = "every-geometry") => match n % 4 {
            0 => one::<Tiny<3, 4>, P>(rng, defect),
            1 => one::<Tiny<6, 32>, P>(rng, defect),
            _ => one::<Tiny<9, 2>, P>(rng, defect),
        },
        0 => one::<Base4K, P>(rng, defect),
        n => match n % 8 {
            0 => one::<Tiny<3, 4>, P>(rng, defect),
            1 => one::<Tiny<7, 4>, P>(rng, defect),
            2 => one::<Tiny<8, 2>, P>(rng, defect),
            3 | 4 => one::<Tiny<9, 2>, P>(rng, defect),
            5 => one::<Tiny<10, 2>, P>(rng, defect),
            6 => one::<Tiny<6, 32>, P>(rng, defect),
            _ => one::<Base64K, P>(rng, defect),
        },
    }
}

/// Rooms of records: less than a history's batches have blocks, one page, and more than that.
const ROOMS: [usize; 6] = [3, 7, 31, 255, 255, LONG];
const LONG: usize = 511;

fn config<G: Geometry, P: Kind>(rng: &mut Rng, defect: Defect) -> ZoneConfig {
    let start = if rng.bool() { 0 } else { rng.usize(..3 * G::MAX_FRAMES) };
    // A whole tree, or some pairs of huge frames, whole or cut off.
    let trees = if rng.u8(..4) == 0 { G::TREE_FRAMES } else { 0 };
    let most = if G::TREE_FRAMES > 1 << 12 { G::TREE_FRAMES } else { 2 * G::TREE_FRAMES };
    let frames = trees.max(rng.usize(1..=most));
    let frames = if rng.bool() { frames.next_multiple_of(G::MAX_FRAMES) } else { frames };
    let classes = if rng.bool() { ClassPolicy::SINGLE } else { ClassPolicy::SHIPPED };
    let slots = if P::INTENTS { THREADS } else { rng.usize(1..4) };
    let record_room = match defect.is_of_long_batches() {
        true => LONG,
        false => ROOMS[rng.usize(..ROOMS.len())],
    };
    ZoneConfig { start: FrameId(start), frames, slots, classes, record_room }
}

fn one<G: Geometry, P: Kind>(rng: &mut Rng, defect: Defect) -> Result<Figures, String> {
    let config = config::<G, P>(rng, defect);
    let memory = Memory::new::<G, P>(&config);
    let mut figures = Figures { histories: 1, ..Figures::default() };
    let init = if rng.u8(..4) == 0 { Init::Allocated } else { Init::Free };
    let about = |why| format!("{why}\n{config:?}, {}, tree of {}", G::NAME, G::TREE_HUGE);
    // A start writes each line of a zone. One in some histories is enough.
    if rng.u8(..4) == 0 {
        start::<G, P>(&memory, init, defect, rng, &mut figures).map_err(about)?;
    }
    calls::<G, P>(&memory, init, defect, rng, &mut figures).map_err(about)?;
    Ok(figures)
}

/// The start of a new zone on memory that holds anything. An image whose zone page says that the zone is whole is
/// that of the new zone; any other is started again, and recovered it is at least consistent.
fn start<G: Geometry, P: Kind>(
    memory: &Memory,
    init: Init,
    defect: Defect,
    rng: &mut Rng,
    figures: &mut Figures,
) -> Result<(), String> {
    let mut garbage = memory.words();
    let zeros = rng.bool();
    garbage.iter_mut().for_each(|word| *word = if zeros { 0 } else { rng.u64(..) });
    garbage[memory.page_word()] = 0;
    memory.set(&garbage);
    let defect = defect.during(Phase::Start);
    let body = || {
        if defect == Defect::PageFirst {
            memory.finish(defect);
        }
        memory.zone::<G, P>(init, defect);
        memory.finish(defect);
    };
    let (_, events) = record::<()>(memory.addresses(), 0, vec![Box::new(body)]);
    let due = memory.words();
    let mut power = Power::on(garbage);
    let mut recoveries = Recoveries::new(memory, Defect::Nothing);
    let mut wrong = Ok(());
    // Of each sort of image only some: a start has more stores than a history.
    let every = (events.len() / 6).max(1);
    for (number, event) in events.iter().enumerate() {
        let page = memory.page_word();
        let mut judge = |image: &[u64], model: Model, images: &mut [[u64; 3]; 3]| {
            images[model as usize][Phase::Start as usize] += 1;
            if wrong.is_err() {
                return;
            }
            let zone = image.len() - crate::recorder::LINE_WORDS;
            if image[page] == 1 {
                if image[..zone] != due[..zone] {
                    wrong = Err("the zone page says whole, and the zone is not as started".into());
                }
                return;
            }
            memory.set(image);
            memory.zone::<G, P>(init, Defect::Nothing);
            if memory.words()[..zone] != due[..zone] {
                wrong = Err("a start after a crash in a start makes another zone".into());
            }
            wrong = std::mem::replace(&mut wrong, Ok(()))
                .and_then(|()| recoveries.of::<G, P>(image).map(drop));
        };
        if matches!(event, Event::Fence { .. }) || number % every == 0 {
            let mut points = Points::default();
            power.images(rng, &mut points, |image| {
                judge(image, Model::Adr, &mut figures.images);
            });
            figures.points += points;
        }
        power.apply(event);
        if matches!(event, Event::Store(_)) && number % every == 0 {
            judge(&power.visible, Model::Eadr, &mut figures.images);
        }
    }
    power.images(rng, &mut figures.points, |image| {
        figures.images[Model::Adr as usize][Phase::Start as usize] += 1;
        if image != due && wrong.is_ok() {
            wrong = Err("the start has returned, and is not persistent".into());
        }
    });
    figures.recovered += recoveries.count();
    wrong?;
    memory.set(&due);
    Ok(())
}

/// Calls, and every crash beside them.
fn calls<G: Geometry, P: Kind>(
    memory: &Memory,
    init: Init,
    defect: Defect,
    rng: &mut Rng,
    figures: &mut Figures,
) -> Result<(), String> {
    let zone = memory.zone::<G, P>(init, defect.during(Phase::Operation));
    let begin = memory.words();
    let threads = rng.usize(1..=THREADS);
    let (mut owned, mut frees) = (vec![Vec::new(); threads], 0);
    if init == Init::Allocated {
        // Whole blocks, or parts: then several threads free parts of one huge frame.
        let in_parts = rng.bool();
        let most = if in_parts { Order(G::HUGE_ORDER as u8 - 1) } else { Order::max::<G>() };
        frees = if in_parts { 6 } else { 0 };
        let parts = |(frame, order): Block| {
            let part = order.min(most);
            let starts = (frame.0..frame.0 + order.frames()).step_by(part.frames());
            starts.map(move |frame| (FrameId(frame), part))
        };
        let all = blocks::<G>(memory.config.range()).flat_map(parts).enumerate();
        all.for_each(|(number, block): (usize, Block)| owned[number % threads].push(block));
    }
    let books = Books::default();
    let count = rng.usize(4..40) / threads + 1;
    let bodies = owned.into_iter().enumerate().map(|(number, owned)| {
        let hand = Hand::new(&zone, &books, number, rng.u64(..), owned);
        let body: Box<dyn FnOnce() -> Result<(), String> + Send> =
            Box::new(move || hand.run(frees, count));
        body
    });
    let bodies: Vec<_> = bodies.collect();
    let (ended, events) = record(memory.addresses(), rng.u64(..), bodies);
    let calls = books.into_calls();
    figures.calls += calls.len() as u64;
    ended.into_iter().collect::<Result<(), String>>()?;
    let events = defect.events(events, &memory.record_words(), memory.record_len());
    let mut crashes = Crashes {
        recoveries: Recoveries::new(memory, defect.during(Phase::Recovery)),
        owners: Owners::new(memory.config.frames, &calls, init == Init::Allocated),
        power: Power::on(begin),
        figures,
    };
    let ended = crashes.all::<G, P>(&events, rng);
    let recovered = crashes.recoveries.count();
    figures.recovered += recovered;
    ended
}

/// The crashes of a history.
struct Crashes<'c> {
    recoveries: Recoveries<'c>,
    owners: Owners<'c>,
    power: Power,
    figures: &'c mut Figures,
}

impl Crashes<'_> {
    fn all<G: Geometry, P: Kind>(&mut self, events: &[Event], rng: &mut Rng) -> Result<(), String> {
        let interrupted = events.len() / 6;
        for (number, event) in events.iter().enumerate() {
            if matches!(event, Event::Fence { .. } | Event::Mark { .. }) {
                self.lose_power::<G, P>(rng)?;
            }
            if interrupted > 0 && rng.usize(..interrupted) == 0 {
                // The recovery of what a crash leaves is interrupted by a second crash.
                let beginnings = self.beginnings(rng);
                for beginning in beginnings {
                    let recovered =
                        self.recoveries.interrupted::<G, P>(beginning, rng, self.figures);
                    recovered.map_err(|why| self.said(&why, number))?;
                }
            }
            self.power.apply(event);
            if let Event::Mark { what, .. } = *event {
                self.owners.mark(what).map_err(|why| self.said(&why, number))?;
            }
            if matches!(event, Event::Store(_) | Event::Mark { .. }) {
                let visible = self.power.visible.clone();
                let judged = self.judge::<G, P>(&visible, Model::Eadr);
                judged.map_err(|why| self.said(&why, number))?;
            }
        }
        self.lose_power::<G, P>(rng)
    }

    /// From what recoveries begin: the visible memory, with lines of threads that are gone; and an image of ADR.
    fn beginnings(&self, rng: &mut Rng) -> Vec<Power> {
        let mut images = Vec::new();
        self.power.images(rng, &mut Points::default(), |image| images.push(image.to_vec()));
        let image = rng.choice(images).map(Power::on);
        image.into_iter().chain([self.power.clone()]).collect()
    }

    fn lose_power<G: Geometry, P: Kind>(&mut self, rng: &mut Rng) -> Result<(), String> {
        let (mut images, mut points) = (Vec::new(), Points::default());
        self.power.images(rng, &mut points, |image| images.push(image.to_vec()));
        self.figures.points += points;
        for image in images {
            self.judge::<G, P>(&image, Model::Adr).map_err(|why| self.said(&why, 0))?;
        }
        Ok(())
    }

    fn judge<G: Geometry, P: Kind>(&mut self, image: &[u64], model: Model) -> Result<(), String> {
        self.figures.images[model as usize][Phase::Operation as usize] += 1;
        let recovered = self.recoveries.of::<G, P>(image);
        let judged = recovered.and_then(|recovered| self.owners.judge(&recovered.found));
        judged.map_err(|why| format!("{model:?}: {why}"))
    }

    fn said(&self, why: &str, number: usize) -> String {
        format!("{why}; under way at event {number}: {}", self.owners.under_way())
    }
}
