//! Openings of images, and of what a loss of power leaves of an opening.

use crate::recorder::{Event, record};
use fastrand::Rng;
use woodlot_frame::{Geometry, Persistence};
use woodlot_zone::{Medium, Opened, PAGE, Phase};

use super::mapping::Mapping;
use super::synced::Synced;
use crate::defects::{Defect, STATE};
use crate::figures::{Figures, Model, Phase as During, Points};
use crate::images::Power;
use crate::known::{Known, Recovered, Verdict};
use crate::trial::{counts_agree, free_everything, is_tried, look, take_everything};

/// How often an opening is cut off that follows one that was.
const DEPTH: usize = 2;

/// The words behind the zone page.
fn durable(words: &[u64]) -> &[u64] {
    &words[PAGE / 8..]
}

/// Opens images of one zone, each once.
pub struct Openings<'m, M> {
    mapping: &'m Mapping,
    medium: M,
    defect: Defect,
    known: Known,
}

impl<'m, M: Medium + Clone + Sync> Openings<'m, M> {
    pub fn new(mapping: &'m Mapping, medium: M, defect: Defect) -> Self {
        Self { mapping, medium, defect, known: Known::default() }
    }

    pub fn count(&self) -> u64 {
        self.known.count()
    }

    /// What an opening makes of an image.
    ///
    /// # Errors
    /// What is wrong with the zone that it makes, or with a second opening.
    pub fn of<G: Geometry>(&mut self, image: &[u64]) -> Verdict {
        if let Some(known) = self.known.get(image) {
            return known;
        }
        let made = self.open::<G>(image);
        self.known.keep(image, made)
    }

    fn open<G: Geometry>(&self, image: &[u64]) -> Result<Recovered, String> {
        let again = || {
            let opened = self.mapping.open::<G, _>(self.medium.clone());
            match opened.map_err(|error| format!("the zone cannot be opened: {error}"))? {
                (zone, Opened::Recovered { .. }) => Ok(zone),
                (_, Opened::Clean) => Err("the zone was not closed, and is not recovered"),
            }
            .map_err(String::from)
        };
        self.mapping.set(image);
        let zone = again()?;
        let (words, found) = (self.mapping.words(), look(&*zone));
        counts_agree(&*zone, &found)?;
        let zone = again()?;
        if durable(&self.mapping.words()) != durable(&words) {
            return Err("a second opening changes the durable part".into());
        }
        if let Some(seed) = is_tried(durable(&words), self.mapping.config.frames) {
            take_everything(&*zone, &found, seed)?;
            if M::WriteBack::INTENTS && look(&*again()?).allocated.contains(&false) {
                return Err("a later opening frees what has an owner".into());
            }
            free_everything(&*zone, &found)?;
        }
        Ok(Recovered { words, found })
    }

    /// Power is lost while the zone is opened: at each of its synchronisations, and of the openings that follow. What is
    /// not synchronised in the beginning can be lost as well, and what `synced` says holds all the same, if it says
    /// something.
    ///
    /// # Errors
    /// What an image leads to that it should not.
    pub fn cut_off<G: Geometry>(
        &mut self,
        mut power: Power,
        synced: Option<&Synced<'_>>,
        rng: &mut Rng,
        figures: &mut Figures,
    ) -> Result<(), String> {
        let due = self.of::<G>(&power.visible)?;
        for _ in 0..DEPTH {
            let Some(next) = self.cut_off_once::<G>(power, &due, synced, rng, figures)? else {
                break;
            };
            power = Power::in_pieces(next, self.mapping.grain);
        }
        Ok(())
    }

    /// Returns one of the images that lead to what is due.
    fn cut_off_once<G: Geometry>(
        &mut self,
        mut power: Power,
        due: &Recovered,
        synced: Option<&Synced<'_>>,
        rng: &mut Rng,
        figures: &mut Figures,
    ) -> Result<Option<Vec<u64>>, String> {
        power.abandon();
        let events = self.recorded::<G>(&power.visible);
        // The state of this opening, and of no other one.
        let state = |event: &Event| match event {
            Event::Store(store) if store.word == STATE => Some(store.after),
            _ => None,
        };
        let in_use = events.iter().filter_map(state).find(|state| state & 3 == Phase::InUse as u64);
        // What an earlier process has written, and not synchronised, can be lost until the first synchronisation of all.
        let mut old = power.uncertain().is_some();
        let mut all = Vec::new();
        for event in &events {
            if matches!(event, Event::Fence { .. }) {
                let (mut images, mut points) = (Vec::new(), Points::default());
                power.images(rng, &mut points, |image| images.push(image.to_vec()));
                figures.points += points;
                for image in images {
                    figures.images[Model::File as usize][During::Recovery as usize] += 1;
                    let opened = self.of::<G>(&image)?;
                    synced.map_or(Ok(()), |synced| synced.judge(&opened.found))?;
                    if Some(image[STATE]) == in_use && durable(&image) != durable(&due.words) {
                        return Err(
                            "the zone is in use, and what was recovered is not durable".into()
                        );
                    }
                    if old {
                        continue;
                    }
                    if durable(&opened.words) != durable(&due.words) {
                        return Err("an opening that was cut off leads to something else".into());
                    }
                    all.push(image);
                }
            }
            power.apply(event);
            old &= power.uncertain().is_some();
        }
        match power.uncertain() {
            Some(piece) => Err(format!("piece {piece} can be lost when the opening has returned")),
            None => Ok(rng.choice(all)),
        }
    }

    fn recorded<G: Geometry>(&self, image: &[u64]) -> Vec<Event> {
        let mapping = self.mapping;
        mapping.set(image);
        let medium = &self.medium;
        let body = || {
            let opened = mapping.open::<G, _>(medium.clone());
            opened.map(drop).expect("it was opened before");
        };
        let (_, events) = record::<()>(mapping.addresses(), 0, vec![Box::new(body)]);
        self.defect.recovery(events, &mapping.record_words(), mapping.record_len())
    }
}
