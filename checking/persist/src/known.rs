//! What recoveries have made of images, each looked at once.

use std::collections::HashMap;
use std::rc::Rc;

use crate::judge::Found;

/// What a recovery, or an opening, has made of an image.
pub struct Recovered {
    /// The durable memory afterwards; of a zone in a file with its page.
    pub words: Vec<u64>,
    pub found: Found,
}

pub type Verdict = Result<Rc<Recovered>, String>;

/// The verdicts of images.
#[derive(Default)]
pub struct Known(HashMap<Vec<u64>, Verdict>);

impl Known {
    pub fn get(&self, image: &[u64]) -> Option<Verdict> {
        self.0.get(image).cloned()
    }

    /// Keeps what was made of an image, and says it.
    pub fn keep(&mut self, image: &[u64], made: Result<Recovered, String>) -> Verdict {
        let verdict = made.map(Rc::new);
        self.0.insert(image.to_vec(), verdict.clone());
        verdict
    }

    /// How many images.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }
}
