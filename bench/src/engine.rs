//! The table of contenders. A new one is one line here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use woodlot_frame::{Base4K, Construct, FrameAllocator, Order};
use woodlot_llfree::LLFree;
use woodlot_nbbs::{Nbbs1, Nbbs4};
use woodlot_onewrite::OneWrite;
use woodlot_rivals::{LinuxBuddy, LinuxBuddyNoPcp, ListCas, ListLocal, ListLocked};

use crate::chart::{Look, Mark};
use crate::contender::Contender;
use crate::registry::{Bitmap, BuddySystem, Ranges};

/// Work that is written once and compiled for each contender.
pub trait Visit {
    /// What it yields.
    type Output;

    /// With an engine that keeps the contract.
    fn contract<A>(self) -> Self::Output
    where
        A: Construct + FrameAllocator<Geometry = Base4K> + Send + 'static;

    /// With an allocator that does not.
    fn foreign<C: Contender + 'static>(self) -> Self::Output;
}

macro_rules! engines {
    ($($(#[$doc:meta])* $variant:ident $name:literal $about:literal
       { $($orders:pat => $kind:ident::<$type:ty>),+ })*) => {
        /// A contender by its name on the command line.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "&'static str")]
        pub enum Engine { $($(#[$doc])* $variant),* }

        impl Engine {
            /// Every contender.
            pub const ALL: &'static [Engine] = &[$(Engine::$variant),*];

            /// Its name on the command line and in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Engine::$variant => $name),* }
            }

            /// What it is, in a line.
            pub const fn about(self) -> &'static str {
                match self { $(Engine::$variant => $about),* }
            }

            /// Does it serve blocks of this order?
            pub const fn serves(self, order: Order) -> bool {
                matches!((self, order.0), $($((Engine::$variant, $orders))|+)|+)
            }

            /// Does the work with this contender, compiled for blocks of `order`; `None` where it
            /// does not serve that order.
            pub fn visit<V: Visit>(self, order: Order, work: V) -> Option<V::Output> {
                match (self, order.0) {
                    $($((Engine::$variant, $orders) => Some(work.$kind::<$type>()),)+)*
                    _ => None,
                }
            }
        }
    };
}

engines! {
    /// LLFree.
    Llfree "llfree" "LLFree (ATC'23): bit fields, child counters, trees, reservations" {
        0..=10 => contract::<LLFree<'static, Base4K>>
    }
    /// The one-write engine.
    Onewrite "onewrite" "the one-write engine: bits are the truth, all else is a hint that heals" {
        0..=10 => contract::<OneWrite<'static, Base4K>>
    }
    /// The Non-Blocking Buddy System, one node a byte.
    Nbbs "nbbs" "the Non-Blocking Buddy System (Marotta et al.), one node a byte" {
        0..=10 => contract::<Nbbs1<'static, Base4K>>
    }
    /// The same, four levels a word.
    Nbbs4 "nbbs-4level" "the Non-Blocking Buddy System, four levels a word" {
        0..=10 => contract::<Nbbs4<'static, Base4K>>
    }
    /// Linux's buddy with lists for each CPU.
    Linux "linux" "Linux's buddy allocator with lists for each CPU" {
        0..=10 => contract::<LinuxBuddy<Base4K>>
    }
    /// The same without them.
    LinuxNoPcp "linux-no-pcp" "Linux's buddy allocator, every call behind the zone lock" {
        0..=10 => contract::<LinuxBuddyNoPcp<Base4K>>
    }
    /// One list behind a lock.
    ListLocked "list-locked" "one list behind a lock; orders 0 and 9" {
        0 => contract::<ListLocked<Base4K, 0>>, 9 => contract::<ListLocked<Base4K, 9>>
    }
    /// One lock-free list.
    ListCas "list-cas" "one lock-free list (Treiber); orders 0 and 9" {
        0 => contract::<ListCas<Base4K, 0>>, 9 => contract::<ListCas<Base4K, 9>>
    }
    /// One list for each slot.
    ListLocal "list-local" "one list for each slot, unsynchronised; orders 0 and 9" {
        0 => contract::<ListLocal<Base4K, 0>>, 9 => contract::<ListLocal<Base4K, 9>>
    }
    /// `buddy_system_allocator`.
    BuddySystem "buddy-system" "buddy_system_allocator 0.13, from the registry" {
        0..=10 => foreign::<BuddySystem>
    }
    /// `bitmap-allocator`.
    Bitmap "bitmap" "bitmap-allocator 0.4, from the registry; order 0, 64 GiB" {
        0 => foreign::<Bitmap>
    }
    /// `free-list`.
    FreeList "free-list" "free-list 0.3, from the registry; 4096 ranges" {
        0..=10 => foreign::<Ranges>
    }
}

impl Engine {
    /// How it is drawn, in every figure.
    pub fn look(self) -> Look {
        Look::of(match self {
            Engine::Llfree => 0,
            Engine::Linux => 1,
            Engine::Nbbs4 => 2,
            Engine::Nbbs => 3,
            Engine::LinuxNoPcp => 4,
            Engine::ListLocal => 5,
            Engine::ListCas => 6,
            Engine::ListLocked => 7,
            Engine::BuddySystem => 8,
            Engine::Bitmap => 9,
            Engine::FreeList => 10,
            // The colour of the list of each slot, which is in few figures.
            Engine::Onewrite => return Look { mark: Mark::Diamond, ..Look::of(5) },
        })
    }

    /// All of them, a line each: for `--help`.
    pub fn list() -> String {
        let line = |engine: &Engine| format!("\n  {engine:<14}{}", engine.about());
        format!("Engines:{}", Engine::ALL.iter().map(line).collect::<String>())
    }

    fn among(name: &str, may: fn(Engine) -> bool) -> Result<Engine, String> {
        let all = || Engine::ALL.iter().copied().filter(|&engine| may(engine));
        all().find(|engine| engine.name() == name).ok_or_else(|| {
            let names: Vec<_> = all().map(Engine::name).collect();
            format!("expected one of {}, or all by itself, found `{name}`", names.join(", "))
        })
    }

    /// Does it keep the contract (`woodlot_frame::FrameAllocator`)?
    pub const fn keeps_contract(self) -> bool {
        !matches!(self, Engine::BuddySystem | Engine::Bitmap | Engine::FreeList)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Engine, String> {
        Engine::among(text, |_| true)
    }
}

impl TryFrom<String> for Engine {
    type Error = String;

    fn try_from(text: String) -> Result<Engine, String> {
        text.parse()
    }
}

impl From<Engine> for &'static str {
    fn from(engine: Engine) -> Self {
        engine.name()
    }
}

/// One contender or several: what `--engine` takes between commas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Engines(pub Vec<Engine>);

impl FromStr for Engines {
    type Err = String;

    fn from_str(text: &str) -> Result<Engines, String> {
        Engines::among(text, |_| true)
    }
}

impl Engines {
    /// Those of a list that may be named there; `all` stands for all of them.
    ///
    /// # Errors
    /// Which name is wrong, and which there are.
    pub fn among(text: &str, may: fn(Engine) -> bool) -> Result<Engines, String> {
        if text == "all" {
            return Ok(Engines(
                Engine::ALL.iter().copied().filter(|&engine| may(engine)).collect(),
            ));
        }
        let named = text.split(',').map(|name| Engine::among(name, may));
        let mut engines = named.collect::<Result<Vec<Engine>, _>>()?;
        engines.sort_unstable();
        engines.dedup();
        Ok(Engines(engines))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_that_keep_the_contract_do_not_look_alike() {
        let all = || Engine::ALL.iter().filter(|engine| engine.keeps_contract());
        for one in all() {
            assert_eq!(all().filter(|other| other.look() == one.look()).count(), 1, "{one}");
        }
    }

    #[test]
    fn names_lead_back_to_their_engines() {
        for &engine in Engine::ALL {
            assert_eq!(engine.name().parse(), Ok(engine));
            assert!(!engine.about().is_empty());
        }
        assert_eq!("all".parse::<Engines>().unwrap().0, Engine::ALL);
        let two = Engines(vec![Engine::Llfree, Engine::ListCas]);
        assert_eq!("list-cas,llfree,llfree".parse(), Ok(two));
        assert!("llfree,".parse::<Engines>().is_err() && "slab".parse::<Engines>().is_err());
    }
}
