//! The caches as the heap has them: as they are, or with a count of what they are asked for, with the feature `counted`.

use woodlot_kmem::Place;

use crate::rseq::Rseq;
use crate::threads::Threads;

#[cfg(feature = "counted")]
mod built {
    use woodlot_kmem::Counted;

    use super::{Place, Rseq, Threads};

    pub(crate) type Caches = Counted<Rseq<Threads>>;

    /// Their calls, from the begin of the caches: allocations and frees.
    pub(crate) const CALLS: Option<[Place; 2]> = Some(Caches::CALLS);
    /// Bytes from the begin of the caches to what they are without a count.
    pub(crate) const INSIDE: usize = Caches::CACHES;

    pub(crate) const fn counted(caches: Rseq<Threads>) -> Caches {
        Counted::new(caches)
    }

    pub(crate) fn inside(caches: &Caches) -> &Rseq<Threads> {
        caches.caches()
    }
}

#[cfg(not(feature = "counted"))]
mod built {
    use super::{Place, Rseq, Threads};

    pub(crate) type Caches = Rseq<Threads>;

    /// Nobody counts their calls.
    pub(crate) const CALLS: Option<[Place; 2]> = None;
    /// They begin with themselves.
    pub(crate) const INSIDE: usize = 0;

    pub(crate) const fn counted(caches: Rseq<Threads>) -> Caches {
        caches
    }

    pub(crate) fn inside(caches: &Caches) -> &Rseq<Threads> {
        caches
    }
}

pub(crate) use built::{CALLS, Caches, INSIDE, counted, inside};
