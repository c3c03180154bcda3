//! What the instructions of a function do that a symbol does not show: floating-point numbers, and
//! division by a variable. x86-64 only.

use iced_x86::{CpuidFeature, Decoder, DecoderOptions, Instruction, Mnemonic};

/// Is this the machine whose instructions are known here?
pub const KNOWN: bool = cfg!(target_arch = "x86_64");

/// What was found in a function.
#[derive(Default)]
pub struct Instructions {
    pub float: Option<String>,
    pub division: Option<String>,
}

/// Looks through the code of one function.
pub fn look(code: &[u8]) -> Instructions {
    let mut found = Instructions::default();
    if !KNOWN {
        return found;
    }
    for instruction in &mut Decoder::with_ip(64, code, 0, DecoderOptions::NONE) {
        let shown = || Some(format!("{:?} at {:#x}", instruction.mnemonic(), instruction.ip()));
        if found.float.is_none() && is_float(&instruction) {
            found.float = shown();
        }
        if found.division.is_none() && is_division(&instruction) {
            found.division = shown();
        }
    }
    found
}

fn is_division(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv)
}

/// Moves and bitwise operations on vector registers are no arithmetic, whatever they are called.
fn is_float(instruction: &Instruction) -> bool {
    const HARMLESS: [&str; 12] = [
        "p",
        "mov",
        "and",
        "or",
        "xor",
        "unpck",
        "shuf",
        "blend",
        "broadcast",
        "insert",
        "extract",
        "perm",
    ];
    let features = instruction.cpuid_features();
    if features.contains(&CpuidFeature::FPU) {
        return true;
    }
    if features.contains(&CpuidFeature::INTEL8086) || features.contains(&CpuidFeature::INTEL386) {
        return false;
    }
    let name = format!("{:?}", instruction.mnemonic()).to_lowercase();
    let name = name.strip_prefix('v').unwrap_or(&name);
    let arithmetic = ["ss", "sd", "ps", "pd"].iter().any(|end| name.ends_with(end));
    name.starts_with("cvt") || (arithmetic && !HARMLESS.iter().any(|mov| name.starts_with(mov)))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_told_from_moves() {
        // addsd xmm0,xmm1; cvttsd2si rax,xmm1; fld1
        for float in [&[0xf2, 0x0f, 0x58, 0xc1][..], &[0xf2, 0x48, 0x0f, 0x2c, 0xc1], &[0xd9, 0xe8]]
        {
            assert!(look(float).float.is_some(), "{float:x?}");
        }
        // movups [rdi],xmm0; xorps xmm0,xmm0; pabsd xmm0,xmm0; movsd; cmpsd (of strings); paddq
        for other in [
            &[0x0f, 0x11, 0x07][..],
            &[0x0f, 0x57, 0xc0],
            &[0x66, 0x0f, 0x38, 0x1e, 0xc0],
            &[0xa5],
            &[0xa7],
            &[0x66, 0x0f, 0xd4, 0xc1],
        ] {
            assert!(look(other).float.is_none(), "{other:x?}");
        }
    }

    #[test]
    fn divisions_are_seen() {
        // div rsi; idiv ecx
        assert!(look(&[0x48, 0xf7, 0xf6]).division.is_some());
        assert!(look(&[0xf7, 0xf9]).division.is_some());
        // shr rcx,32
        assert!(look(&[0x48, 0xc1, 0xe9, 0x20]).division.is_none());
    }
}
