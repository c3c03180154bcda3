//! From which domain memory comes.
//!
//! ```text
//!   policy          the first domain asked              then                a batch of n
//!   first touch     that of the slot's CPU              by distance         all n
//!   prefer          the one that it names               by distance         all n
//!   round robin     the next one, call by call          by distance         n / domains each
//!   interleave      by the number of the page           by distance         as the pages' numbers say
//!   bind            the nearest of a set                those of the set    all n
//! ```
//!
//! FreeBSD anti-fragmentation, section III-C, listing 2; *bind* is Linux's `MPOL_BIND`.

use woodlot_frame::atomics::{AtomicU64, Ordering};

use crate::{DomainId, MAX_DOMAINS};

/// Some domains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DomainSet(pub(crate) u64);

const _: () = assert!(MAX_DOMAINS <= u64::BITS as usize);

impl DomainSet {
    /// All domains.
    pub const ALL: DomainSet = DomainSet(u64::MAX);

    /// These domains. One whose number is too large is in no set.
    pub fn of(domains: &[DomainId]) -> DomainSet {
        let bits = domains.iter().filter(|domain| domain.index() < MAX_DOMAINS);
        DomainSet(bits.fold(0, |set, domain| set | 1 << domain.0))
    }

    /// How many.
    pub(crate) const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The one with this number among them.
    pub(crate) fn nth(self, number: usize) -> Option<DomainId> {
        self.iter().nth(number)
    }

    /// All of them, by number.
    pub(crate) fn iter(self) -> impl Iterator<Item = DomainId> + Clone {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let next = (left != 0).then(|| DomainId(left.trailing_zeros() as u8));
            left &= left.wrapping_sub(1);
            next
        })
    }

    /// Is this domain one of them?
    pub const fn has(self, domain: DomainId) -> bool {
        domain.index() < MAX_DOMAINS && self.0 >> domain.0 & 1 == 1
    }
}

/// Where round robin has come to. Every object, thread or process may have its own.
#[derive(Debug, Default)]
pub struct Rounds(AtomicU64);

impl Rounds {
    /// From the first domain on.
    pub const fn new() -> Rounds {
        Rounds(AtomicU64::new(0))
    }

    /// The number of the next `count` pages.
    fn next(&self, count: usize) -> usize {
        self.0.fetch_add(count as u64, Ordering::Relaxed) as usize
    }
}

/// From which domain memory comes, for an object or a request.
#[derive(Clone, Copy, Debug)]
pub enum Policy<'a> {
    /// The domain of the slot's CPU, which touches the memory first.
    FirstTouch,
    /// This domain. If it has neither memory nor slots, that of the slot's CPU.
    Prefer(DomainId),
    /// Each domain in turn.
    RoundRobin(&'a Rounds),
    /// The domain by the page's number in its object: one page from each domain, and so on.
    Interleave {
        /// The number of the first page.
        page: usize,
    },
    /// These domains and no others.
    Bind(DomainSet),
}

impl Policy<'_> {
    /// Does each domain give a share?
    pub(crate) const fn is_even(&self) -> bool {
        matches!(self, Policy::RoundRobin(_) | Policy::Interleave { .. })
    }

    /// The number of the first of `count` pages, of which each domain has one in turn.
    pub(crate) fn first_page(&self, count: usize) -> usize {
        match self {
            Policy::RoundRobin(rounds) => rounds.next(count),
            Policy::Interleave { page } => *page,
            _ => 0,
        }
    }
}
