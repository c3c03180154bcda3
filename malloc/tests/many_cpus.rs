//! A system that may have more CPUs than there are caches. There is none at hand, so one is asked that refuses to name its CPUs, which is
//! how the other would answer.

use woodlot_malloc::{alloc, free, is_restartable};

/// Has the system refuse one call to this process from now on.
fn refuse(call: libc::c_long) -> bool {
    use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
    let step = |code: u32, jf, k| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    // The number of the call is the first word that a filter sees.
    let mut steps = [
        step(BPF_LD | BPF_W | BPF_ABS, 0, 0),
        step(BPF_JMP | BPF_JEQ | BPF_K, 1, call as u32),
        step(BPF_RET | BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32),
        step(BPF_RET | BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the calls read their arguments.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    }
}

/// Allocates and frees. True: by caches of threads.
fn allocates_by_thread() -> bool {
    let blocks: Vec<_> = (0..1000).map(|_| alloc(64).expect("there is memory")).collect();
    // SAFETY: each was allocated, and nobody uses it.
    blocks.into_iter().for_each(|block| unsafe { free(block) });
    !is_restartable()
}

#[test]
fn threads_have_caches_where_cpus_may_have_none() {
    // SAFETY: the child makes calls of the heap and of the system only; the test's own heap is another one.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let as_it_should = refuse(libc::SYS_sched_getaffinity) && allocates_by_thread();
        // SAFETY: the process ends.
        unsafe { libc::_exit(i32::from(!as_it_should)) };
    }
    let mut status = -1;
    // SAFETY: the child is this process's, and the status is written.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "caches of CPUs were used");
}
