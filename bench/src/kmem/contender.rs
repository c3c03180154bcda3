//! Who is measured: heaps of this program, and those that a program around it adds.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use woodlot_frame::Base4K;
use woodlot_llfree::LLFree;
use woodlot_onewrite::OneWrite;

use super::case::{Case, Reading, Setup, What};
use super::frames::{self, FrameEngine};
use super::heap::Heap;
use super::memory::{Moment, moments};
use super::{churn, handover, larson, pair, returned, scratch, worst, zeroed};
use crate::Failure;

/// A heap and the loops that are compiled for it.
pub trait Contender: Sync {
    /// What it is called on the command line.
    fn name(&self) -> &'static str;

    /// What it is, in a line.
    fn about(&self) -> &'static str;

    /// Runs a case once. Cases of heaps of this program take turns, whichever threads run them.
    ///
    /// # Errors
    /// The heap had no memory.
    fn sample(&self, what: What, case: Case, setup: &Setup) -> Result<Vec<Reading>, Failure>;

    /// Runs *memory*, in turn as well: what it takes while a load rises and falls. Resident memory is the whole process's.
    ///
    /// # Errors
    /// The heap had no memory, or nobody says what is resident.
    fn moments(&self, setup: &Setup) -> Result<Vec<Moment>, Failure>;
}

/// Waits until no other case runs. A case has the CPUs of its heap to itself, and its time.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<H: Heap> Contender for H {
    fn name(&self) -> &'static str {
        H::NAME
    }

    fn about(&self) -> &'static str {
        H::ABOUT
    }

    fn sample(&self, what: What, case: Case, setup: &Setup) -> Result<Vec<Reading>, Failure> {
        let _turn = turn();
        match what {
            What::Pair => pair::sample(self, case, setup),
            What::Worst => worst::sample(self, setup),
            What::ProducerConsumer => handover::sample(self, case, setup),
            What::Churn => churn::sample(self, case, setup),
            What::Larson => larson::sample(self, case, setup),
            What::CacheScratch => scratch::sample(self, case, setup),
            What::Returned => returned::sample(self, setup),
            What::Zeroed => zeroed::sample(self, setup),
            What::Memory | What::Preload | What::Instructions => Ok(Vec::new()),
            What::LockManager | What::Waste | What::Purity | What::Transfers => Ok(Vec::new()),
            What::Emptied | What::Check => Ok(Vec::new()),
        }
    }

    fn moments(&self, setup: &Setup) -> Result<Vec<Moment>, Failure> {
        let _turn = turn();
        moments(self, setup)
    }
}

static ADDED: Mutex<Vec<&'static dyn Contender>> = Mutex::new(Vec::new());

/// Adds a heap. A program does so before it reads its command line.
pub fn add(contender: &'static dyn Contender) {
    ADDED.lock().expect("nobody panics with it").push(contender);
}

/// Every heap: this repository's, the system's, and what was added.
pub fn all() -> Vec<&'static dyn Contender> {
    let mut all: Vec<&'static dyn Contender> = Vec::new();
    all.extend(frames::measured::<LLFree<'_, Base4K>>().map(|heap| heap as &dyn Contender));
    #[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
    all.push(&super::malloc::Malloc);
    #[cfg(unix)]
    all.push(&super::system::System);
    all.extend(ADDED.lock().expect("nobody panics with it").iter());
    all
}

/// What is measured only where it is named.
const SELDOM: &str = <OneWrite<'_, Base4K> as FrameEngine>::HEAP;

/// Every heap that these names can mean: what is seldom measured comes last, and is made only if it is named.
fn among(names: &[&str]) -> Vec<&'static dyn Contender> {
    let mut among = all();
    if names.contains(&SELDOM) {
        among.extend(frames::measured::<OneWrite<'_, Base4K>>().map(|heap| heap as &dyn Contender));
    }
    among
}

/// The heap of this name. The others are not made for it: what they would touch is not what a process of its own is to
/// show.
pub(super) fn named(name: &str) -> Option<&'static dyn Contender> {
    match name {
        #[cfg(unix)]
        "system" => Some(&super::system::System),
        #[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
        "malloc" => Some(&super::malloc::Malloc),
        _ => among(&[name]).into_iter().find(|contender| contender.name() == name),
    }
}

/// Heaps that were named, those of [`all`] first.
#[derive(Clone)]
pub struct Contenders(pub Vec<&'static dyn Contender>);

impl Default for Contenders {
    fn default() -> Contenders {
        Contenders(all())
    }
}

impl fmt::Debug for Contenders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|contender| contender.name())).finish()
    }
}

impl std::str::FromStr for Contenders {
    type Err = String;

    fn from_str(text: &str) -> Result<Contenders, String> {
        if text == "all" {
            return Ok(Contenders(all()));
        }
        let names: Vec<&str> = text.split(',').collect();
        let among = among(&names);
        let known = |name: &&str| among.iter().any(|contender| contender.name() == *name);
        if let Some(name) = names.iter().find(|name| !known(name)) {
            let usual = all().into_iter().map(Contender::name);
            let there: Vec<_> = usual.chain([SELDOM]).collect();
            return Err(format!(
                "expected one of {}, or all by itself, found `{name}`",
                there.join(", ")
            ));
        }
        let named = among.into_iter().filter(|contender| names.contains(&contender.name()));
        Ok(Contenders(named.collect()))
    }
}
