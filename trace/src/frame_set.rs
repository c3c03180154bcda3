//! Which frames are owned: a bitmap that keeps the counts that reports need.
//!
//! ```text
//!   words   64 frames each; bit 1 = owned
//!   owned   one counter for each huge frame: how many of its 512 are owned
//! ```
//!
//! Invariants: (1) `owned[h]` is the number of ones in the eight words of huge frame *h*;
//! (2) `free_frames` and `free_huge` are what the counters say. It is the judge of a replay, so it
//! shares no code with any allocator.

use std::ops::Range;

/// Base frames in a huge frame: 4 KiB base frames, 2 MiB huge frames.
pub const HUGE_FRAMES: usize = 512;

const WORD: usize = u64::BITS as usize;

/// A set of owned frames among `0..frames`.
#[derive(Clone, Debug)]
pub struct FrameSet {
    words: Vec<u64>,
    owned: Vec<u16>,
    frames: usize,
    free_frames: usize,
    free_huge: usize,
}

impl FrameSet {
    /// Nothing is owned. A last huge frame that is not whole is never counted as free.
    pub fn new(frames: usize) -> Self {
        let huge = frames.div_ceil(HUGE_FRAMES);
        Self {
            words: vec![0; huge * (HUGE_FRAMES / WORD)],
            owned: vec![0; huge],
            frames,
            free_frames: frames,
            free_huge: frames / HUGE_FRAMES,
        }
    }

    /// Takes the frames; returns how many of them were owned already or lie outside.
    pub fn take(&mut self, range: Range<usize>) -> usize {
        self.change(range, true)
    }

    /// Gives the frames back; returns how many of them were not owned or lie outside.
    pub fn give(&mut self, range: Range<usize>) -> usize {
        self.change(range, false)
    }

    /// Makes the frames owned or not; returns how many could not change.
    fn change(&mut self, range: Range<usize>, to: bool) -> usize {
        let len = range.len();
        let end = range.end.min(self.frames);
        let mut at = range.start.min(end);
        let mut changed = 0;
        while at < end {
            let stop = end.min((at / WORD + 1) * WORD);
            changed += self.change_in_word(at..stop, to);
            at = stop;
        }
        len - changed
    }

    /// The same for frames of one word; returns how many did change.
    fn change_in_word(&mut self, range: Range<usize>, to: bool) -> usize {
        let mask = (u64::MAX >> (WORD - range.len())) << (range.start % WORD);
        let word = &mut self.words[range.start / WORD];
        let changed = if to { mask & !*word } else { mask & *word };
        *word ^= changed;
        let changed = changed.count_ones() as usize;
        let huge = range.start / HUGE_FRAMES;
        let whole = (huge + 1) * HUGE_FRAMES <= self.frames;
        let before = self.owned[huge];
        if to {
            self.owned[huge] += changed as u16;
            self.free_frames -= changed;
            self.free_huge -= usize::from(whole && before == 0 && changed > 0);
        } else {
            self.owned[huge] -= changed as u16;
            self.free_frames += changed;
            self.free_huge += usize::from(whole && self.owned[huge] == 0 && changed > 0);
        }
        changed
    }

    /// Is the frame owned? A frame outside is not.
    pub fn contains(&self, frame: usize) -> bool {
        frame < self.frames && self.words[frame / WORD] >> (frame % WORD) & 1 == 1
    }

    /// How many frames there are, owned or not.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// How many are free.
    pub fn free_frames(&self) -> usize {
        self.free_frames
    }

    /// How many whole huge frames are free.
    pub fn free_huge(&self) -> usize {
        self.free_huge
    }

    /// How many frames are free in each huge frame, in order.
    pub fn free_by_huge(&self) -> impl Iterator<Item = usize> + '_ {
        self.owned.iter().enumerate().map(|(huge, &owned)| {
            HUGE_FRAMES.min(self.frames - huge * HUGE_FRAMES) - owned as usize
        })
    }

    /// The frames of a range that are free, in runs.
    pub fn free_runs(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for frame in range.filter(|&frame| !self.contains(frame)) {
            match runs.last_mut() {
                Some(run) if run.end == frame => run.end += 1,
                _ => runs.push(frame..frame + 1),
            }
        }
        runs
    }

    /// How many free blocks of each order up to `max_order` there are, where each free frame is in the
    /// largest one that it can be in.
    pub fn free_blocks(&self, max_order: u8) -> Vec<usize> {
        let mut blocks = vec![0; usize::from(max_order) + 1];
        for run in self.free_runs(0..self.frames) {
            for (_, order) in aligned_pieces(run, max_order) {
                blocks[usize::from(order)] += 1;
            }
        }
        blocks
    }

    /// The share of the free memory that lies in free huge frames.
    pub fn ratio(&self) -> f64 {
        free_huge_ratio(self.free_huge, self.free_frames)
    }
}

/// The share of free memory that lies in free huge frames: 1 where nothing is lost, and where
/// nothing is free.
pub fn free_huge_ratio(free_huge: usize, free_frames: usize) -> f64 {
    match free_frames {
        0 => 1.0,
        _ => (free_huge * HUGE_FRAMES) as f64 / free_frames as f64,
    }
}

/// Cuts a range of frames into the largest aligned blocks of at most `max_order`: first frame and
/// order of each, rising.
pub fn aligned_pieces(range: Range<usize>, max_order: u8) -> impl Iterator<Item = (usize, u8)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let left = range.end.checked_sub(at).filter(|&left| left > 0)?;
        let order = at.trailing_zeros().min(left.ilog2()).min(u32::from(max_order)) as u8;
        let piece = (at, order);
        at += 1 << order;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_the_bits() {
        let mut set = FrameSet::new(1100);
        assert_eq!((set.free_frames(), set.free_huge()), (1100, 2));
        assert_eq!(set.take(500..520), 0);
        assert_eq!((set.free_frames(), set.free_huge()), (1080, 0));
        assert_eq!(set.take(510..522), 10, "ten were owned already");
        assert_eq!(set.give(512..522), 0);
        assert_eq!(set.free_huge(), 1);
        assert_eq!(set.free_by_huge().collect::<Vec<_>>(), [500, 512, 76]);
        assert!(set.contains(500) && !set.contains(512) && !set.contains(5000));
    }

    #[test]
    fn free_frames_are_in_the_largest_blocks() {
        let mut set = FrameSet::new(100);
        set.take(9..12);
        set.take(40..48);
        assert_eq!(set.free_runs(8..50), [8..9, 12..40, 48..50]);
        // 0 to 7, 8, 12, 16 to 31, 32 to 39, 48 to 95, 96 to 99.
        assert_eq!(set.free_blocks(4), [1, 0, 2, 2, 4]);
        assert_eq!(set.free_blocks(2), [1, 0, 22]);
    }

    #[test]
    fn frames_outside_are_not_there() {
        let mut set = FrameSet::new(100);
        assert_eq!(set.take(90..110), 10);
        assert_eq!(set.give(90..110), 10);
        assert_eq!(set.give(200..300), 100);
        assert_eq!((set.free_frames(), set.free_huge()), (100, 0));
    }

    #[test]
    fn pieces_are_as_large_as_alignment_lets_them_be() {
        let pieces = |range, max| aligned_pieces(range, max).collect::<Vec<_>>();
        assert_eq!(pieces(0..0, 10), []);
        assert_eq!(pieces(3..9, 10), [(3, 0), (4, 2), (8, 0)]);
        assert_eq!(pieces(0..2048, 10), [(0, 10), (1024, 10)]);
    }
}
