//! Zones in words.

use woodlot_zone::{Info, Repairs, Verdict};

/// What the zone page says.
pub fn of_info(info: &Info) -> String {
    let (config, layout) = (&info.config, &info.layout);
    let base = 1u64.checked_shl(info.base_shift as u32).unwrap_or_default();
    let memory = in_units((config.frames as u64).saturating_mul(base));
    let persistence = info.persistence.map_or("not known here".into(), |model| model.to_string());
    let phase = info.phase.map_or("damaged".into(), |phase| phase.to_string());
    format!(
        "  frames       {} from frame {:#x} on, {memory}\n  base frame   {}, huge frames of order {}\n  slots        {}, \
         classes {}\n  persistence  {persistence}\n  state        {phase}, generation {}\n  durable      {} bytes from \
         {:#x} on\n  volatile     {} bytes from {:#x} on\n",
        config.frames,
        config.start.0,
        in_units(base),
        info.huge_order,
        config.slots,
        config.classes.count(),
        info.generation,
        layout.durable.len(),
        layout.durable.start,
        layout.volatile.len(),
        layout.volatile.start,
    )
}

/// Bytes in the largest unit of which they are a whole number.
pub fn in_units(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let whole = units.iter().find(|(_, shift)| bytes != 0 && bytes.is_multiple_of(1 << shift));
    whole.map_or_else(
        || format!("{bytes} bytes"),
        |(unit, shift)| format!("{} {unit}", bytes >> shift),
    )
}

/// Why a zone is not clean.
pub fn of_cause(verdict: &Verdict) -> String {
    match (verdict.cause, verdict.durable) {
        (_, Some(false)) => "the durable part has changed since the zone was closed".into(),
        (Some(cause), _) => cause.to_string(),
        (None, _) => "the durable part contradicts itself".into(),
    }
}

/// What a look at all of a zone has found.
pub fn of_verdict(verdict: &Verdict) -> String {
    let state = if verdict.is_clean() {
        "clean: the zone was closed, and every byte is as it was then\n".into()
    } else {
        format!("{}; woodlot zone repair would find:\n", of_cause(verdict))
    };
    of_info(&verdict.info) + &state + &of_repairs(&verdict.repairs)
}

/// What a recovery has found.
pub fn of_repairs(repairs: &Repairs) -> String {
    let found = format!(
        "  {} frames free, {} huge frames free, {} offline\n",
        repairs.free_frames, repairs.free_huge, repairs.offline_huge
    );
    let counts = [
        (repairs.closed, "huge frames closed: all of their frames were free"),
        (repairs.rows_reset, "huge frames whose rows were damaged"),
        (repairs.cut_open, "huge frames at the ends of the zone whose state was damaged"),
        (repairs.outside, "frames outside of the zone that were free"),
        (repairs.states_cleared, "words that spoke of huge frames that do not exist"),
    ];
    let told = counts.iter().filter(|(count, _)| *count > 0);
    told.fold(found, |text, (count, what)| text + &format!("  {count} {what}\n"))
}
