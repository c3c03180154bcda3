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
pub struct DomainSet {
    bits: u64,
    /// One of those whose number is too large, so that an error can name it.
    beyond: Option<DomainId>,
}

const _: () = assert!(MAX_DOMAINS <= u64::BITS as usize);

impl DomainSet {
    /// All domains that the machine knows.
    pub const ALL: DomainSet = DomainSet::of_bits(u64::MAX);

    /// These domains. No machine knows one with the number [`MAX_DOMAINS`] or a larger one.
    pub fn of(domains: &[DomainId]) -> DomainSet {
        domains.iter().fold(DomainSet::default(), |set, &domain| set.with(domain))
    }

    /// This one.
    pub(crate) const fn one(domain: DomainId) -> DomainSet {
        DomainSet::of_bits(0).with(domain)
    }

    /// Those of which the bit is 1.
    pub(crate) const fn of_bits(bits: u64) -> DomainSet {
        DomainSet { bits, beyond: None }
    }

    /// These and one more.
    pub(crate) const fn with(self, domain: DomainId) -> DomainSet {
        match domain.index() < MAX_DOMAINS {
            true => DomainSet { bits: self.bits | 1 << domain.0, ..self },
            false => DomainSet { beyond: Some(domain), ..self },
        }
    }

    /// A bit for each.
    pub(crate) const fn bits(self) -> u64 {
        self.bits
    }

    /// The first of them that is not among others.
    fn first_outside(self, others: DomainSet) -> Option<DomainId> {
        DomainSet::of_bits(self.bits & !others.bits).iter().next().or(self.beyond)
    }

    /// How many.
    pub(crate) const fn len(self) -> usize {
        self.bits.count_ones() as usize
    }

    /// The one with this number among them.
    pub(crate) fn nth(self, number: usize) -> Option<DomainId> {
        self.iter().nth(number)
    }

    /// All of them, by number.
    pub(crate) fn iter(self) -> impl Iterator<Item = DomainId> + Clone {
        let mut left = self.bits;
        core::iter::from_fn(move || {
            let next = (left != 0).then(|| DomainId(left.trailing_zeros() as u8));
            left &= left.wrapping_sub(1);
            next
        })
    }

    /// Is this domain one of them?
    pub const fn has(self, domain: DomainId) -> bool {
        domain.index() < MAX_DOMAINS && self.bits >> domain.0 & 1 == 1
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
    /// This domain, which the machine knows.
    Prefer(DomainId),
    /// Each domain in turn.
    RoundRobin(&'a Rounds),
    /// The domain by the page's number in its object: one page from each domain, and so on.
    Interleave {
        /// The number of the first page.
        page: usize,
    },
    /// These domains, which the machine knows, and no others: also where a request names the frame.
    Bind(DomainSet),
}

impl Policy<'_> {
    /// A domain that it names and that is not among those known.
    pub(crate) fn unknown(&self, known: DomainSet) -> Option<DomainId> {
        match *self {
            Policy::Prefer(domain) => Some(domain).filter(|&domain| !known.has(domain)),
            Policy::Bind(set) if set != DomainSet::ALL => set.first_outside(known),
            _ => None,
        }
    }

    /// The domains from which memory may come.
    pub(crate) const fn allowed(&self) -> DomainSet {
        if let Policy::Bind(set) = *self { set } else { DomainSet::ALL }
    }

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
