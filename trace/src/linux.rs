//! Linux's side of a trace: who owned what, replayed from the trace alone.
//!
//! Frames that are hidden-owned are owned throughout here, although the events free them once. The
//! kernel's recorder believed them free; [`LinuxFrames::recorded_free`] counts as it did, so that
//! the recorded curve can be checked against this replay to the frame.

use crate::{EventKind, FrameSet, Pfn, Span, Trace};

/// The frames that Linux owned at some moment of a trace.
#[derive(Debug)]
pub struct LinuxFrames {
    owned: FrameSet,
    hidden: FrameSet,
    any_hidden: bool,
    /// How many hidden frames the events have made free.
    hidden_free: usize,
}

impl LinuxFrames {
    /// The moment before the first event.
    pub fn new(trace: &Trace) -> Self {
        let frames = trace.frames();
        let mut owned = FrameSet::new(frames);
        let mut hidden = FrameSet::new(frames);
        for start in &trace.start {
            owned.take(usize_range(start.span));
        }
        let mut hidden_free = 0;
        for &span in &trace.hidden {
            hidden.take(usize_range(span));
            hidden_free += span.frames as usize - owned.take(usize_range(span));
        }
        Self { owned, hidden, any_hidden: !trace.hidden.is_empty(), hidden_free }
    }

    /// Applies one event. Returns how many frames contradict it: allocated while owned, or freed
    /// while free.
    pub fn apply(&mut self, kind: EventKind) -> usize {
        match kind {
            EventKind::Alloc { pfn: Some(pfn), order, .. } => {
                self.owned.take(usize_range(block(pfn, order)))
            }
            EventKind::Free { pfn, order } => self.free(usize_range(block(pfn, order))),
            EventKind::Alloc { pfn: None, .. } | EventKind::Marker(_) => 0,
        }
    }

    fn free(&mut self, range: std::ops::Range<usize>) -> usize {
        if !self.any_hidden {
            return self.owned.give(range);
        }
        let mut wrong = 0;
        for frame in range {
            if self.hidden.contains(frame) {
                self.hidden_free += 1;
            } else {
                wrong += self.owned.give(frame..frame + 1);
            }
        }
        wrong
    }

    /// Must a free of this frame be ignored?
    pub fn is_hidden(&self, pfn: Pfn) -> bool {
        self.any_hidden && self.hidden.contains(pfn.0 as usize)
    }

    /// The frames that are owned, hidden ones included.
    pub fn owned(&self) -> &FrameSet {
        &self.owned
    }

    /// How many frames the recorder counted as free: hidden ones too, once they were freed.
    pub fn recorded_free(&self) -> usize {
        self.owned.free_frames() + self.hidden_free
    }
}

/// The block of an event.
fn block(pfn: Pfn, order: u8) -> Span {
    Span { start: pfn, frames: 1 << order }
}

fn usize_range(span: Span) -> std::ops::Range<usize> {
    span.start.0 as usize..span.end() as usize
}
