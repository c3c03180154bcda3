//! All zones: those that the machine began with, and those that were added.

use crate::added::Ranges;
use crate::zone::Zone;

/// All zones, of which the first is nearer than a pointer.
pub(crate) struct Zones<'a, A> {
    pub(crate) first: Zone<'a, A>,
    pub(crate) others: &'a [Zone<'a, A>],
    pub(crate) added: Ranges<'a, A>,
}

impl<'a, A> Zones<'a, A> {
    /// The zone with this number, if it is there.
    #[inline(always)]
    pub(crate) fn get(&self, number: usize) -> Option<&Zone<'a, A>> {
        if number == 0 { Some(&self.first) } else { self.other(number - 1) }
    }

    #[inline(always)]
    fn other(&self, number: usize) -> Option<&Zone<'a, A>> {
        match self.others.get(number) {
            None => self.added.get(number.wrapping_sub(self.others.len())),
            zone => zone,
        }
    }

    /// The number of a range that was added.
    pub(crate) fn number_of(&self, added: usize) -> usize {
        1 + self.others.len() + added
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Zone<'a, A>> + Clone {
        core::iter::once(&self.first).chain(self.others).chain(self.added.iter())
    }
}
