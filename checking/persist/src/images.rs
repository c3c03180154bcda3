//! The images that a loss of power could leave.
//!
//! ```text
//!   medium   a piece of it             is certain when               and else holds
//!   ADR      a cache line              written back, and a fence     what was certain, and any number of the stores
//!   file     a page, or a sector of it synchronised                  that followed, in their order
//! ```
//!
//! A synchronisation of a file is recorded as a write-back of each piece, and a fence.

use crate::recorder::{Event, LINE_WORDS};
use fastrand::Rng;

use crate::figures::Points;

/// At one point so many images of ADR are looked at; if there are more, a sample of as many.
pub const BOUND: usize = 24;

/// A piece of the durable memory.
#[derive(Clone)]
struct Line {
    /// What it holds at least: so many of its stores.
    certain: usize,
    /// The stores after those.
    pending: Vec<(usize, u64)>,
}

/// Durable memory at some point of a recording.
#[derive(Clone)]
pub struct Power {
    /// What every thread sees.
    pub visible: Vec<u64>,
    /// What is certain to be there after a loss of power.
    certain: Vec<u64>,
    lines: Vec<Line>,
    /// The words of a line.
    grain: usize,
    /// What each thread has written back: lines, and how many of their stores.
    written: Vec<Vec<(usize, usize)>>,
}

impl Power {
    /// All of it is persistent.
    pub fn on(words: Vec<u64>) -> Self {
        Self::in_pieces(words, LINE_WORDS)
    }

    /// The same, of which pieces of so many words are lost apart.
    pub fn in_pieces(words: Vec<u64>, grain: usize) -> Self {
        let line = Line { certain: 0, pending: Vec::new() };
        let lines = vec![line; words.len().div_ceil(grain)];
        Self { certain: words.clone(), visible: words, lines, grain, written: Vec::new() }
    }

    /// The threads are gone, and what they had written back and not fenced.
    pub fn abandon(&mut self) {
        self.written.clear();
    }

    pub fn apply(&mut self, event: &Event) {
        match *event {
            Event::Store(store) => {
                self.visible[store.word] = store.after;
                self.lines[store.word / self.grain].pending.push((store.word, store.after));
            }
            Event::WriteBack { thread, line, but } => {
                let line = line * LINE_WORDS / self.grain;
                let Line { certain, pending } = &self.lines[line];
                let stores = certain + pending.len().saturating_sub(but);
                self.of(thread).push((line, stores));
            }
            Event::Fence { thread } => {
                for (line, stores) in std::mem::take(self.of(thread)) {
                    let Line { certain, pending } = &mut self.lines[line];
                    for (word, value) in pending.drain(..stores.saturating_sub(*certain)) {
                        self.certain[word] = value;
                    }
                    *certain = stores.max(*certain);
                }
            }
            Event::Mark { .. } => {}
        }
    }

    fn of(&mut self, thread: usize) -> &mut Vec<(usize, usize)> {
        if self.written.len() <= thread {
            self.written.resize(thread + 1, Vec::new());
        }
        &mut self.written[thread]
    }

    /// The lines that are not certain.
    fn dirty(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.lines.iter().enumerate().filter(|(_, line)| !line.pending.is_empty())
    }

    /// The first line of which a loss of power could lose something that differs.
    pub fn uncertain(&self) -> Option<usize> {
        let differs = |&(word, value): &(usize, u64)| value != self.certain[word];
        self.dirty().find(|(_, line)| line.pending.iter().any(differs)).map(|(line, _)| line)
    }

    /// The images of ADR: of every dirty line any number of its stores.
    pub fn images(&self, rng: &mut Rng, points: &mut Points, mut look: impl FnMut(&[u64])) {
        let dirty: Vec<&Line> = self.dirty().map(|(_, line)| line).collect();
        let count = dirty.iter().try_fold(1usize, |count, line| {
            count.checked_mul(line.pending.len() + 1).filter(|&count| count <= BOUND)
        });
        let mut image = self.certain.clone();
        let mut show = |stores: &mut dyn FnMut(&Line) -> usize| {
            image.copy_from_slice(&self.certain);
            for line in &dirty {
                let stores = stores(line);
                line.pending[..stores].iter().for_each(|&(word, value)| image[word] = value);
            }
            look(&image);
        };
        match count {
            Some(count) => {
                points.whole += 1;
                for mut number in 0..count {
                    show(&mut |line| {
                        let radix = line.pending.len() + 1;
                        let stores = number % radix;
                        number /= radix;
                        stores
                    });
                }
            }
            None => {
                points.sampled += 1;
                show(&mut |_| 0);
                show(&mut |line| line.pending.len());
                for _ in 2..BOUND {
                    show(&mut |line| rng.usize(..=line.pending.len()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Store;
    use std::collections::BTreeSet;

    fn store(thread: usize, word: usize, after: u64) -> Event {
        Event::Store(Store { thread, word, before: 0, after })
    }

    fn images(power: &Power) -> BTreeSet<Vec<u64>> {
        let mut all = BTreeSet::new();
        let pick = |image: &[u64]| [0, 1, 8].map(|word| image[word]).to_vec();
        power.images(&mut Rng::with_seed(1), &mut Points::default(), |image| {
            all.insert(pick(image));
        });
        all
    }

    #[test]
    fn lines_are_lost_apart_and_stores_of_a_line_from_the_last_on() {
        let mut power = Power::on(vec![0; 16]);
        [store(0, 0, 1), store(1, 1, 2), store(0, 8, 3)]
            .iter()
            .for_each(|event| power.apply(event));
        let all = [[0, 0, 0], [1, 0, 0], [1, 2, 0], [0, 0, 3], [1, 0, 3], [1, 2, 3]];
        assert_eq!(images(&power), all.map(Vec::from).into());
    }

    #[test]
    fn what_its_thread_has_written_back_and_fenced_is_certain() {
        let mut power = Power::on(vec![0; 16]);
        let back = |thread, line, but| Event::WriteBack { thread, line, but };
        for event in [store(0, 0, 1), back(0, 0, 0), store(1, 1, 2), store(0, 8, 3), back(1, 1, 0)]
        {
            power.apply(&event);
        }
        assert_eq!(images(&power).len(), 6, "nothing is fenced");
        power.apply(&Event::Fence { thread: 0 });
        let left = [[1, 0, 0], [1, 2, 0], [1, 0, 3], [1, 2, 3]];
        assert_eq!(images(&power), left.map(Vec::from).into(), "what came after is not");
        power.apply(&Event::Fence { thread: 1 });
        assert_eq!(images(&power), [[1, 0, 3], [1, 2, 3]].map(Vec::from).into());
        assert_eq!(power.uncertain(), Some(0));
        [back(1, 0, 1), Event::Fence { thread: 1 }].iter().for_each(|event| power.apply(event));
        assert_eq!(power.uncertain(), Some(0), "it was written back before the last store");
        [back(1, 0, 0), Event::Fence { thread: 1 }].iter().for_each(|event| power.apply(event));
        assert_eq!(power.uncertain(), None);
    }
}
