//! Compaction, a step at a time, over an owner that is called through pointers.

use core::fmt::{Display, Formatter, Result as Fmt};
use core::ops::Range;

use woodlot_compact::{
    Asks, Block, Candidate, Chunk, Compaction, Daemon, Event, Fmfi, Index, IndexError, Lookup,
    Patience, PlanError, Refusal, Relocate, Report, Settings, Setup, Step, Ticket, alloc_or_ask,
};
use woodlot_frame::{AllocError, Base4K, FrameId, HugeId, Order, Request, Stats};
use woodlot_llfree::LLFree;

type Engine = LLFree<'static, Base4K>;
type Work = Compaction<'static>;

/// Calls of which nothing is known.
pub struct Owner {
    block_at: fn(FrameId) -> Lookup,
    relocate: fn(Block, FrameId) -> Result<(), Refusal>,
}

impl Relocate for Owner {
    fn block_at(&mut self, frame: FrameId) -> Lookup {
        (self.block_at)(frame)
    }

    fn relocate(&mut self, block: Block, to: FrameId) -> Result<(), Refusal> {
        (self.relocate)(block, to)
    }
}

symbols! { cold compact:
    plan(
        setup: Setup,
        memory: &'static mut [Candidate],
        a: &Engine,
        owner: &mut Owner,
        region: Range<HugeId>
    ) -> Result<Work, PlanError> =
        Compaction::plan(setup, memory, a, owner, core::iter::once(region));
    step(work: &mut Work, a: &Engine, owner: &mut Owner) -> Step = work.step(a, owner);
    run(work: &mut Work, moves: usize, a: &Engine, owner: &mut Owner) -> bool =
        work.run(moves, a, owner);
    cancel(work: &mut Work, a: &Engine) -> () = work.cancel(a);
    report(work: &Work) -> Report = work.report::<Base4K>();
    report_add(report: &mut Report, other: &Report) -> () = report.add(other);
    kept(work: &Work) -> Option<HugeId> = work.kept().last();
    into_memory(work: Work) -> &'static mut [Candidate] = work.into_memory();
    show_plan_error(error: &PlanError, f: &mut Formatter<'_>) -> Fmt = Display::fmt(error, f);
    fmfi(stats: &Stats) -> Fmfi = Fmfi::of::<Base4K>(stats);
    winnable(fmfi: Fmfi) -> usize = fmfi.winnable::<Base4K>();
    fmfi_index(fmfi: Fmfi, order: Order) -> i32 = fmfi.index(order);
    chunks_for(parts: &[Range<HugeId>], shift: u32) -> usize = Index::chunks_for(parts, shift);
    index(
        chunks: &'static mut [Chunk],
        parts: &'static [Range<HugeId>],
        shift: u32
    ) -> Result<Index<'static>, IndexError> = Index::new(chunks, parts, shift);
    refresh(index: &mut Index<'static>, number: usize, a: &Engine) -> () = index.refresh(number, a);
    regions(index: &Index<'static>, number: usize) -> Option<Range<HugeId>> =
        index.regions(number).last();
    show_index_error(error: &IndexError, f: &mut Formatter<'_>) -> Fmt = Display::fmt(error, f);
    daemon(
        settings: Settings,
        index: Index<'static>,
        memory: &'static mut [Candidate]
    ) -> Daemon<'static> = Daemon::new(settings, index, memory);
    daemon_step(
        daemon: &mut Daemon<'static>,
        now: u64,
        a: &Engine,
        owner: &mut Owner,
        asks: &Asks,
        fmfi: Fmfi
    ) -> Event = daemon.step(now, a, owner, asks, || fmfi);
    daemon_renew(daemon: &mut Daemon<'static>, index: Index<'static>) -> Index<'static> =
        daemon.renew(index);
    daemon_cancel(daemon: &mut Daemon<'static>, a: &Engine, asks: &Asks) -> Option<Report> =
        daemon.cancel(a, asks);
    ask(asks: &Asks, huge: usize) -> Ticket = asks.ask(huge);
    is_answered(asks: &Asks, ticket: Ticket) -> bool = asks.is_answered(ticket);
    close(asks: &Asks) -> () = asks.close();
    ask_for(
        a: &Engine,
        request: Request,
        asks: &Asks,
        patience: Patience,
        wait: fn() -> bool
    ) -> Result<FrameId, AllocError> = alloc_or_ask(a, request, asks, patience, wait);
    try_or_ask(
        asks: &Asks,
        order: Order,
        patience: Patience,
        wait: fn() -> bool,
        attempt: fn() -> Option<FrameId>
    ) -> Option<FrameId> = asks.try_or_ask::<Base4K, _>(order, patience, wait, attempt);
}
