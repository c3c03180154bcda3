//! What a lock protects, as the explorer sees it: one atomic, which says by a number what it holds.

use core::hash::Hash;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::atomic::{AtomicU64, Ordering::SeqCst};

/// Something that one thread at a time may use, of which every look and every change is one step.
///
/// Each value that it has ever held has a number, and the atomic inside has that. So the explorer goes back over a
/// change as it does with any atomic, and two states in which it holds equal values are the same state.
pub struct Cell<T> {
    number: AtomicU64,
    values: Mutex<Box<dyn Values<T> + Send>>,
}

impl<T: Clone + Eq + Hash + Send + 'static> Cell<T> {
    /// A cell that holds this.
    pub fn new(value: T) -> Self {
        let mut values = Known { values: Vec::new(), numbers: HashMap::new() };
        let number = AtomicU64::new(values.number(&value));
        Cell { number, values: Mutex::new(Box::new(values)) }
    }
}

impl<T> Cell<T> {
    /// What it holds.
    pub fn get(&self) -> T {
        let number = self.number.load(SeqCst);
        self.values().value(number)
    }

    /// It holds this from now on.
    pub fn set(&self, value: &T) {
        let number = self.values().number(value);
        self.number.store(number, SeqCst);
    }

    /// A panic cannot leave them half changed: a value is added before its number is.
    fn values(&self) -> MutexGuard<'_, Box<dyn Values<T> + Send>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Cell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cell").field(&self.number).finish()
    }
}

/// The values of a cell by their numbers. A trait, so that only who makes a cell has to say what its values can.
trait Values<T> {
    fn value(&self, number: u64) -> T;
    fn number(&mut self, value: &T) -> u64;
}

struct Known<T> {
    values: Vec<T>,
    numbers: HashMap<T, u64>,
}

impl<T: Clone + Eq + Hash> Values<T> for Known<T> {
    fn value(&self, number: u64) -> T {
        self.values[number as usize].clone()
    }

    fn number(&mut self, value: &T) -> u64 {
        if let Some(&number) = self.numbers.get(value) {
            return number;
        }
        let number = self.values.len() as u64;
        self.values.push(value.clone());
        self.numbers.insert(value.clone(), number);
        number
    }
}
