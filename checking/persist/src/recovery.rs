//! Recoveries of images, and of the images that a crash of a recovery leaves.

use std::rc::Rc;

use crate::recorder::{Event, LINE_WORDS, record};
use fastrand::Rng;
use woodlot_frame::atomics::Ordering::Relaxed;
use woodlot_frame::{Geometry, Init};

use crate::defects::Defect;
use crate::figures::{Figures, Model, Phase, Points};
use crate::images::Power;
use crate::known::{Known, Recovered, Verdict};
use crate::memory::{Kind, Memory, Zone};
use crate::trial::{counts_agree, free_everything, is_tried, look, take_everything};

/// Recovers images of one zone, each once.
pub struct Recoveries<'m> {
    memory: &'m Memory,
    defect: Defect,
    known: Known,
}

/// The lanes of a state word: see LAYOUT.md.
const LANE: u32 = 16;
const ALL: u64 = 0xffff;

impl<'m> Recoveries<'m> {
    pub fn new(memory: &'m Memory, defect: Defect) -> Self {
        Self { memory, defect, known: Known::default() }
    }

    pub fn count(&self) -> u64 {
        self.known.count()
    }

    /// What a recovery makes of an image.
    ///
    /// # Errors
    /// What is wrong with the zone that it makes, or with a second recovery.
    pub fn of<G: Geometry, P: Kind>(&mut self, image: &[u64]) -> Verdict {
        if let Some(known) = self.known.get(image) {
            return known;
        }
        let made = self.recover::<G, P>(image);
        self.known.keep(image, made)
    }

    /// A zone on the image, with the seeded defect in its recovery.
    fn zone<G: Geometry, P: Kind>(&self) -> Zone<'m, G, P> {
        let before = self.memory.words();
        self.defect.mislead(self.memory);
        let zone = self.memory.zone::<G, P>(Init::Recover, self.defect);
        self.defect.spoil::<G, P>(self.memory, &before);
        zone
    }

    fn recover<G: Geometry, P: Kind>(&self, image: &[u64]) -> Result<Recovered, String> {
        self.memory.set(image);
        let zone = self.zone::<G, P>();
        let found = look(&zone);
        let words = self.memory.words();
        if self.memory.state_words().any(|word| words[word] >> (3 * LANE) != 0) {
            return Err("the recovery left joins".into());
        }
        counts_agree(&zone, &found)?;
        let again = self.zone::<G, P>();
        let changed = self.memory.words().into_iter().zip(&words).enumerate();
        if let Some((word, (after, before))) = { changed }.find(|(_, (now, then))| now != *then) {
            return Err(format!(
                "a second recovery changed the durable memory: word {word}, {before:#x} to {after:#x}"
            ));
        }
        if let Some(seed) = is_tried(&words, self.memory.config.frames) {
            take_everything(&again, &found, seed)?;
            if P::INTENTS {
                let last = look(&self.zone::<G, P>());
                if last.allocated.contains(&false) {
                    return Err("a later recovery frees what has an owner".into());
                }
            }
            free_everything(&again, &found)?;
        }
        Ok(Recovered { words, found })
    }

    /// Every image that a crash of a recovery leaves is recovered to what the recovery leads to. The recovery
    /// begins from `power`; what is dirty there was written by threads that are gone.
    ///
    /// # Errors
    /// Which image is not.
    pub fn interrupted<G: Geometry, P: Kind>(
        &mut self,
        mut power: Power,
        rng: &mut Rng,
        figures: &mut Figures,
    ) -> Result<(), String> {
        // A record that misleads a recovery would mislead the second one further.
        if self.defect.misleads() {
            return Ok(());
        }
        power.abandon();
        let due = self.of::<G, P>(&power.visible)?;
        let clean = power.uncertain().is_none();
        self.memory.set(&power.visible);
        let events = self.recorded::<G, P>();
        let mut wrong = Ok(());
        let mut judge = |this: &mut Self, image: &[u64], model, figures: &mut Figures| {
            figures.images[model as usize][Phase::Recovery as usize] += 1;
            let same = |recovered: Rc<Recovered>| match recovered.words == due.words {
                true => Ok(()),
                false => Err("an interrupted recovery leads to something else".to_owned()),
            };
            if wrong.is_ok() {
                wrong = this.of::<G, P>(image).and_then(same);
            }
        };
        for event in &events {
            // What the threads that are gone had not fenced may be lost as well: that is another beginning.
            if clean && matches!(event, Event::Fence { .. }) {
                let mut points = Points::default();
                let all = |image: &[u64]| judge(self, image, Model::Adr, figures);
                power.images(rng, &mut points, all);
                figures.points += points;
            }
            power.apply(event);
            if matches!(event, Event::Store(_)) {
                judge(self, &power.visible.clone(), Model::Eadr, figures);
            }
        }
        wrong?;
        match power.uncertain() {
            Some(line) => {
                Err(format!("line {line} is not persistent when the recovery has returned"))
            }
            None => Ok(()),
        }
    }

    fn recorded<G: Geometry, P: Kind>(&self) -> Vec<Event> {
        let (memory, defect) = (self.memory, self.defect);
        let body = || {
            memory.zone::<G, P>(Init::Recover, defect);
        };
        let (_, events) = record::<()>(memory.addresses(), 0, vec![Box::new(body)]);
        defect.recovery(events, &memory.record_words(), memory.record_len())
    }
}

impl Defect {
    /// Changes the records under way so that the recovery does what one with this defect would do.
    fn mislead(self, memory: &Memory) {
        let mut words = memory.words();
        for at in memory.record_words().step_by(memory.record_len()) {
            let (header, alloc) = (words[at], words[at] & 3 == 1);
            if header >> 2 & 3 != 1 {
                continue;
            }
            // Of a batch the upper bits of the step are elsewhere.
            let batch = if header >> 4 & 15 == 15 { 0xffff } else { 0 };
            let step = header >> 8 & 0xff | (header >> 48 & batch) << 8;
            let stepped = |step: u64| {
                header & !(0xff00 | batch << 48) | (step & 0xff) << 8 | (step >> 8 & batch) << 48
            };
            words[at] = match self {
                Defect::RecoveryIgnoresIntents => 0,
                Defect::RecoveryReleasesTooMuch if alloc => stepped(step + 1),
                Defect::RecoveryReleasesTooMuch if step > 0 => stepped(step - 1),
                Defect::RecoveryReleasesTooLittle if !alloc => stepped(step + 1),
                Defect::RecoveryReleasesTooLittle if step > 0 => stepped(step - 1),
                Defect::RecoveryTakesFreesBack if !alloc => header ^ 3,
                _ => header,
            };
        }
        memory.set(&words[..words.len() - LINE_WORDS]);
    }

    /// Does to a recovered zone what a recovery with this defect would have done.
    fn spoil<G: Geometry, P: Kind>(self, memory: &Memory, before: &[u64]) {
        let mut words = memory.words();
        let huge_rows = G::HUGE_FRAMES.div_ceil(64);
        // For each huge frame: its state word, its bit there, its rows.
        let huge_frames = memory.state_words().enumerate().flat_map(|(number, word)| {
            let lanes = G::TREE_HUGE.min(LANE as usize);
            let first = number * lanes;
            (0..lanes).map(move |bit| {
                let rows = (first + bit) * huge_rows;
                (word, bit as u32, rows..rows + huge_rows)
            })
        });
        let split = |word: u64, bit: u32| (word >> bit | word >> (bit + LANE)) & 1 == 0;
        let end = memory.state_words().next().unwrap_or(0);
        let huge_frames = huge_frames.filter(|(_, _, rows)| rows.end <= end);
        match self {
            Defect::RecoveryKeepsRowsOfWhole => {
                for (_, _, rows) in huge_frames.filter(|&(word, bit, _)| !split(before[word], bit))
                {
                    words[rows.clone()].copy_from_slice(&before[rows]);
                }
            }
            Defect::RecoveryTurnsPolarity => {
                for (word, bit, rows) in huge_frames {
                    words[word] ^= 1 << (bit + 2 * LANE);
                    let used = if G::HUGE_FRAMES < 64 { (1 << G::HUGE_FRAMES) - 1 } else { !0 };
                    words[rows].iter_mut().for_each(|row| *row ^= used);
                }
            }
            Defect::RecoveryKeepsJoins => {
                for word in memory.state_words() {
                    words[word] |= before[word] & ALL << (3 * LANE);
                }
            }
            Defect::RecoveryOnlinesOffline => {
                for (word, bit, _) in huge_frames {
                    if words[word] >> bit & words[word] >> (bit + LANE) & 1 == 1 {
                        words[word] &= !(1 << (bit + LANE));
                    }
                }
            }
            Defect::RecoveryForgetsReclaimed => {
                memory.flags_words().for_each(|word| words[word] = 0);
            }
            Defect::RecoveryNotSealed => {
                for at in memory.record_words().step_by(memory.record_len()) {
                    words[at] = before[at];
                }
            }
            Defect::RecoveryTrustsCredits => {
                memory.counters().for_each(|word| word.store(0, Relaxed));
            }
            _ => return,
        }
        words.truncate(words.len() - LINE_WORDS);
        memory.set(&words);
    }
}
