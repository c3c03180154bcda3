//! What a zone in a file owes its owners after a loss of power: what was there at the last synchronisation.

use crate::history::SYNC;
use crate::judge::{Call, Found, Owner, Owners};

/// What is known of a frame whatever pages are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    Owned,
    Free,
    Offline,
    /// A call under way then, or since, has to do with it.
    Nothing,
}

/// What was so at one time, and which calls have not touched since.
#[derive(Clone)]
struct Then {
    frames: Vec<Known>,
    /// A call may have taken other frames for a time.
    strays: bool,
}

/// What was synchronised.
pub struct Synced<'h> {
    calls: &'h [Call],
    last: Then,
    /// What will have been, of each thread that synchronises.
    begun: Vec<Option<Then>>,
}

impl<'h> Synced<'h> {
    /// All frames are free.
    pub fn new(frames: usize, threads: usize, calls: &'h [Call]) -> Self {
        let last = Then { frames: vec![Known::Free; frames], strays: false };
        Self { calls, last, begun: vec![None; threads] }
    }

    /// A call or a synchronisation begins or ends.
    pub fn mark(&mut self, thread: usize, what: usize, owners: &Owners<'_>) {
        match what {
            SYNC => self.begun[thread] = Some(self.now(owners)),
            what if what == SYNC + 1 => {
                self.last = self.begun[thread].take().expect("it has begun");
            }
            what if what % 2 == 0 => {
                let call = &self.calls[what / 2];
                let all = self.begun.iter_mut().flatten().chain([&mut self.last]);
                all.for_each(|then| then.touch(call));
            }
            _ => {}
        }
    }

    fn now(&self, owners: &Owners<'_>) -> Then {
        let known = |owner: &Owner| match owner {
            Owner::Nobody => Known::Free,
            Owner::Somebody => Known::Owned,
            Owner::Offline | Owner::Reclaimed => Known::Offline,
            Owner::InDoubt(_) => Known::Nothing,
        };
        let frames = owners.owners().iter().map(known).collect();
        let mut then = Then { frames, strays: false };
        owners.calls_under_way().for_each(|call| then.touch(call));
        then
    }

    /// Is this what a loss of power may leave?
    pub fn judge(&self, found: &Found) -> Result<(), String> {
        for (frame, known) in self.last.frames.iter().enumerate() {
            let (allocated, offline) = (found.allocated[frame], found.offline[frame]);
            let (wrong, was) = match known {
                Known::Owned => (!allocated || offline, "owned"),
                Known::Offline => (!offline, "offline"),
                Known::Free => (allocated && !self.last.strays, "free"),
                Known::Nothing => (false, ""),
            };
            if wrong {
                return Err(format!(
                    "frame +{frame} was {was} when the zone was synchronised, and is not"
                ));
            }
        }
        Ok(())
    }
}

impl Then {
    fn touch(&mut self, call: &Call) {
        self.strays |= call.stray > 0;
        for frame in call.frames() {
            self.frames[frame] = Known::Nothing;
        }
    }
}
