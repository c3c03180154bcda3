//! The floor: a push and a pop by restartable sequences, and nothing that an allocator needs.
//!
//! A sequence is begun again by the system when the thread is preempted in it, so that a list of each CPU changes by plain
//! loads and stores. No allocator with lists of CPUs does less.

use super::pair::in_shares;
use crate::clock::Tally;

/// So many pairs, of which each of the threads makes its share, at once, with lists of its own: no line of a cache is two threads'.
/// `None` where the C library has registered no area for restartable sequences.
pub(super) fn sample(threads: usize, pairs: usize) -> Option<Tally> {
    in_shares(threads, pairs, |_| {
        let mut lists = Lists::new()?;
        Some(move |pairs| lists.pairs(pairs))
    })
}

/// There are none.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
enum Lists {}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
impl Lists {
    fn new() -> Option<Lists> {
        None
    }

    fn pairs(&mut self, _: usize) -> usize {
        match *self {}
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
use x86_64::Lists;

#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
mod x86_64 {
    use std::arch::asm;

    use crate::clock::opaque;

    /// CPUs that have a list. Others have none.
    const CPUS: usize = 1024;

    /// The list of a CPU: the address of its first block, or 0.
    #[derive(Clone)]
    #[repr(C, align(512))]
    struct List(u64, [u64; 63]);

    /// A sequence: descriptor, begin, and what follows an abort.
    macro_rules! sequence {
        ($($code:literal),* ; $($operands:tt)*) => {
            asm!(
                ".pushsection __rseq_cs, \"aw\", @progbits",
                ".balign 32",
                "7: .long 0, 0",
                ".quad 2f, 3f - 2f, 4f",
                ".popsection",
                "5: lea {t}, [rip + 7b]",
                "mov qword ptr fs:[{area} + 8], {t}",
                "2: mov {cpu:e}, dword ptr fs:[{area} + 4]",
                "shl {cpu:e}, 9",
                // In one register: an Intel processor loads what was just stored by an index five cycles later.
                "add {cpu}, {lists}",
                $($code,)*
                "3:",
                ".pushsection .text.rseq, \"ax\", @progbits",
                ".byte 0x0f, 0xb9, 0x3d",
                ".long 0x53053053",
                "4: jmp 5b",
                ".popsection",
                $($operands)*
            )
        };
    }

    /// A list with one block for each CPU.
    pub(super) struct Lists {
        /// Where a thread's area lies.
        area: isize,
        lists: Vec<List>,
        /// Lists lead to them.
        _blocks: Vec<[u64; 2]>,
    }

    impl Lists {
        pub(super) fn new() -> Option<Lists> {
            let area = woodlot_malloc::sequence_area()?;
            let mut blocks = vec![[0; 2]; CPUS];
            let mut lists = vec![List(0, [0; 63]); CPUS];
            for (list, block) in lists.iter_mut().zip(&mut blocks) {
                list.0 = block.as_mut_ptr().expose_provenance() as u64;
            }
            Some(Lists { area, lists, _blocks: blocks })
        }

        /// So many pairs; fewer, if the thread has gone to a CPU whose block it has taken elsewhere.
        #[inline(never)]
        pub(super) fn pairs(&mut self, pairs: usize) -> usize {
            let (area, lists) = (self.area, self.lists.as_mut_ptr());
            let mut done = 0;
            for _ in 0..pairs {
                let block: usize;
                // SAFETY: the list is this CPU's, and its first block lives as long as the list.
                unsafe {
                    sequence!(
                        "mov {t}, qword ptr [{cpu}]",
                        "test {t}, {t}",
                        "jz 3f",
                        "mov {rest}, qword ptr [{t}]",
                        "mov qword ptr [{cpu}], {rest}";
                        area = in(reg) area, lists = in(reg) lists,
                        cpu = out(reg) _, rest = out(reg) _, t = out(reg) block, options(nostack)
                    );
                }
                // A thread that has changed its CPU took the block of the one along.
                let block = opaque(block);
                if block == 0 {
                    continue;
                }
                done += 1;
                // SAFETY: the block was taken, and goes on the list of this CPU.
                unsafe {
                    sequence!(
                        "mov {t}, qword ptr [{cpu}]",
                        "mov qword ptr [{block}], {t}",
                        "mov qword ptr [{cpu}], {block}";
                        area = in(reg) area, lists = in(reg) lists, block = in(reg) block,
                        cpu = out(reg) _, t = out(reg) _, options(nostack)
                    );
                }
            }
            done
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_makes_its_share_in_lists_of_its_own() {
        let Some(all) = sample(3, 3000) else { return };
        assert!(all.operations <= 3000 && all.cpu_ns > 0.0, "{all:?}");
        assert!(all.operations > 0, "nobody made a pair: {all:?}");
    }
}
