//! Zones in a file: what a loss of power could leave of the pages.
//!
//! ```text
//!   history      calls, and synchronisations beside them ──▶ every store, and what was synchronised when
//!      │
//!      ├── each store                     the process is killed: the zone is opened as it is
//!      └── each call and synchronisation  power is lost: of each page what was synchronised, and any number of the
//!          │                              stores that followed
//!          └── opening                    power is lost again, before each of its synchronisations
//! ```
//!
//! A page of a record's length is the least that the layout asks for. So some histories have pages of 512 bytes, of which
//! even a small zone has many.
//!
//! What is judged of a loss of power: what was owned at the last synchronisation and is not given back since is
//! allocated, and what was free and was not touched since is free. An opening that is cut off leads, by the
//! next one, to the same rows, states and records. A zone page that says *in use* is found beside a durable part that is
//! recovered. When an opening returns, nothing of it can be lost. That holds also where damage has closed a huge frame that the
//! zone cuts off.

mod mapping;
mod openings;
mod synced;

use crate::recorder::{Event, record};
use fastrand::Rng;
use woodlot_frame::{Base4K, ClassPolicy, FrameId, Geometry, ZoneConfig};
use woodlot_zone::{Intents, Medium};

use crate::defects::Defect;
use crate::figures::{Figures, Model, Phase, Points};
use crate::history::{Books, Hand, SYNC};
use crate::images::Power;
use crate::judge::Owners;
use crate::tiny::{THREADS, Tiny};
use mapping::Mapping;
use openings::Openings;
use synced::Synced;

/// Of so many histories, one ends with a damaged state.
const DAMAGED: usize = 4;

/// Words of what is written at once: a page, or a sector of it.
const GRAINS: [usize; 2] = [512, 64];

/// Of so many stores, the process is killed after one.
const KILLED: usize = 6;
/// Of so many points, the opening of what a loss of power leaves is cut off at one.
const CUT_OFF: usize = 12;

/// A history on a zone in a file.
pub fn history(rng: &mut Rng, defect: Defect) -> Result<Figures, String> {
    match rng.u8(..12) {
        n if !cfg!(feature = "every-geometry") => match n % 4 {
            0 => of::<Tiny<3, 4>>(rng, defect),
            1 => of::<Tiny<6, 32>>(rng, defect),
            _ => of::<Tiny<9, 2>>(rng, defect),
        },
        0 => of::<Base4K>(rng, defect),
        1 | 2 => of::<Tiny<3, 4>>(rng, defect),
        3 => of::<Tiny<7, 4>>(rng, defect),
        4..7 => of::<Tiny<8, 2>>(rng, defect),
        7..10 => of::<Tiny<9, 2>>(rng, defect),
        10 => of::<Tiny<10, 2>>(rng, defect),
        _ => of::<Tiny<6, 32>>(rng, defect),
    }
}

fn of<G: Geometry>(rng: &mut Rng, defect: Defect) -> Result<Figures, String> {
    let grain = GRAINS[rng.usize(..GRAINS.len())];
    let config = config::<G>(rng, grain);
    let with_intents = defect.needs_intents() || rng.u8(..4) > 0;
    let ended = if with_intents {
        let mapping =
            Mapping::new::<G, woodlot_frame::Intents<woodlot_frame::Volatile>>(&config, grain);
        let medium = Intents(mapping.medium(defect));
        one::<G, _>(&mapping, medium, defect, rng)
    } else {
        let mapping = Mapping::new::<G, woodlot_frame::Volatile>(&config, grain);
        let medium = mapping.medium(defect);
        one::<G, _>(&mapping, medium, defect, rng)
    };
    let about = || format!("{config:?}, {} of order {}", G::NAME, G::HUGE_ORDER);
    ended.map_err(|why| format!("file, {grain} words at once: {why}\n{}", about()))
}

fn config<G: Geometry>(rng: &mut Rng, grain: usize) -> ZoneConfig {
    let start = if rng.bool() { 0 } else { rng.usize(..3 * G::MAX_FRAMES) };
    // Rows of a few pieces at most: each image is read frame by frame.
    let most = (grain * 64 * 2).min(16 * G::TREE_FRAMES);
    let frames = rng.usize(1..=most.min(1 << 13)).next_multiple_of(G::MAX_FRAMES);
    let classes = if rng.bool() { ClassPolicy::SINGLE } else { ClassPolicy::SHIPPED };
    // A record lies in one piece.
    let rooms: Vec<usize> =
        [3, 7, 31, 255].into_iter().filter(|room| 2 * (room + 1) <= grain).collect();
    let record_room = rooms[rng.usize(..rooms.len())];
    ZoneConfig { start: FrameId(start), frames, slots: THREADS, classes, record_room }
}

fn one<G: Geometry, M: Medium + Clone + Sync>(
    mapping: &Mapping,
    medium: M,
    defect: Defect,
    rng: &mut Rng,
) -> Result<Figures, String> {
    let zone = mapping.format::<G, _>(medium.clone());
    let begin = mapping.words();
    let threads = rng.usize(1..=THREADS);
    let (books, count) = (Books::default(), rng.usize(4..40) / threads + 1);
    let sync = || zone.sync().expect("the medium does not fail");
    let bodies = (0..threads).map(|number| {
        let hand = Hand::new(&*zone, &books, number, rng.u64(..), Vec::new()).on_a_file(&sync);
        let body: Box<dyn FnOnce() -> Result<(), String> + Send> =
            Box::new(move || hand.run(0, count));
        body
    });
    let bodies: Vec<_> = bodies.collect();
    let (ended, events) = record(mapping.addresses(), rng.u64(..), bodies);
    let calls = books.into_calls();
    ended.into_iter().collect::<Result<(), String>>()?;
    let mut crashes = Crashes {
        mapping,
        openings: Openings::new(mapping, medium, defect),
        owners: Owners::new(mapping.config.frames, &calls, false),
        synced: Synced::new(mapping.config.frames, threads, &calls),
        power: Power::in_pieces(begin, mapping.grain),
        figures: Figures { histories: 1, calls: calls.len() as u64, ..Figures::default() },
    };
    crashes.all::<G>(&events, rng)?;
    if defect == Defect::FileEndOpenedBeforeSync || rng.usize(..DAMAGED) == 0 {
        crashes.damage::<G>(rng).map_err(|why| format!("{why}; of a damaged end"))?;
    }
    crashes.figures.recovered = crashes.openings.count();
    Ok(crashes.figures)
}

/// The crashes of a history.
struct Crashes<'c, M> {
    mapping: &'c Mapping,
    openings: Openings<'c, M>,
    owners: Owners<'c>,
    synced: Synced<'c>,
    power: Power,
    figures: Figures,
}

impl<M: Medium + Clone + Sync> Crashes<'_, M> {
    fn all<G: Geometry>(&mut self, events: &[Event], rng: &mut Rng) -> Result<(), String> {
        for (number, event) in events.iter().enumerate() {
            let said = |why: String| format!("{why}; at event {number}");
            if matches!(event, Event::Fence { .. } | Event::Mark { .. }) {
                self.lose_power::<G>(rng).map_err(said)?;
            }
            self.power.apply(event);
            if let Event::Mark { thread, what } = *event {
                if what < SYNC {
                    self.owners.mark(what).map_err(said)?;
                }
                self.synced.mark(thread, what, &self.owners);
            }
            if matches!(event, Event::Store(_)) && rng.usize(..KILLED) == 0 {
                self.is_killed::<G>(rng).map_err(|why| {
                    format!("{why}; under way at event {number}: {}", self.owners.under_way())
                })?;
            }
        }
        self.lose_power::<G>(rng)
    }

    /// Power is lost.
    fn lose_power<G: Geometry>(&mut self, rng: &mut Rng) -> Result<(), String> {
        let (mut images, mut points) = (Vec::new(), Points::default());
        self.power.images(rng, &mut points, |image| images.push(image.to_vec()));
        self.figures.points += points;
        for image in &images {
            self.figures.images[Model::File as usize][Phase::Operation as usize] += 1;
            let opened = self.openings.of::<G>(image)?;
            self.synced.judge(&opened.found)?;
        }
        if rng.usize(..CUT_OFF) == 0
            && let Some(image) = rng.choice(images)
        {
            let power = Power::in_pieces(image, self.mapping.grain);
            self.openings.cut_off::<G>(power, Some(&self.synced), rng, &mut self.figures)?;
        }
        Ok(())
    }

    /// The state of the huge frame that the zone begins in is damaged, if the zone cuts it off: it seems to be closed.
    /// Nothing is owed to anybody then; but an opening that is cut off leads to the same as one that is not.
    fn damage<G: Geometry>(&mut self, rng: &mut Rng) -> Result<(), String> {
        if self.mapping.config.start.0.is_multiple_of(G::MAX_FRAMES) {
            return Ok(());
        }
        let mut image = self.power.visible.clone();
        let closed = [1, 1 << 16, 1 << 16 | 1][rng.usize(..3)];
        image[self.mapping.first_state] |= closed;
        let power = Power::in_pieces(image, self.mapping.grain);
        self.openings.cut_off::<G>(power, None, rng, &mut self.figures)
    }

    /// The process is killed, and at times power is lost while the zone is opened: also what the process had written.
    fn is_killed<G: Geometry>(&mut self, rng: &mut Rng) -> Result<(), String> {
        self.figures.images[Model::File as usize][Phase::Operation as usize] += 1;
        let opened = self.openings.of::<G>(&self.power.visible)?;
        self.owners.judge(&opened.found)?;
        if rng.usize(..CUT_OFF) == 0 {
            let power = self.power.clone();
            self.openings.cut_off::<G>(power, Some(&self.synced), rng, &mut self.figures)?;
        }
        Ok(())
    }
}
