//! The floor: a push and a pop by restartable sequences, and nothing that an allocator needs.
//!
//! A sequence is begun again by the system when the thread is preempted in it, so that a list of each CPU changes by plain
//! loads and stores. No allocator with lists of CPUs does less.

/// So many pairs; `None` where the C library has registered no area for restartable sequences.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
pub(super) fn sequence_pairs(_: usize) -> Option<usize> {
    None
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
pub(super) use x86_64::sequence_pairs;

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

    pub(in super::super) fn sequence_pairs(pairs: usize) -> Option<usize> {
        let area = woodlot_malloc::sequence_area()?;
        let mut blocks = vec![[0u64; 2]; CPUS];
        let mut lists = vec![List(0, [0; 63]); CPUS];
        for (list, block) in lists.iter_mut().zip(&mut blocks) {
            list.0 = block.as_mut_ptr().expose_provenance() as u64;
        }
        let lists = lists.as_mut_ptr();
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
        Some(done)
    }
}
