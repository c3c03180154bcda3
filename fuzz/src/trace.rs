//! Files that hold, or should hold, a trace: an error at worst.

use std::io::Write;
use std::path::Path;

use liblzma::write::XzEncoder;
use woodlot_trace::{
    LinuxFrames, MAGIC, Trace, VERSION, read_binary, read_curve, read_events, read_hidden_owned,
    read_start_owned, write_binary,
};

/// Traces with more frames are not stepped through: their maps take longer than everything else.
const STEPPED: usize = 1 << 20;

/// The first byte chooses the form, the others are the file.
pub fn trace(data: &[u8]) {
    let Some((&form, file)) = data.split_first() else { return };
    let path = Path::new("fuzzed");
    match form % 6 {
        0 => drop(read_events(file, path)),
        1 => drop(read_start_owned(file, path)),
        2 => drop(read_hidden_owned(file, path)),
        3 => drop(read_curve(file, path)),
        4 => drop(read_binary(file, path)),
        _ => {
            if let Ok(trace) = read_binary(&packed(file), path) {
                read(&trace);
            }
        }
    }
}

/// A trace that was accepted comes back as it was, and can be stepped through.
fn read(trace: &Trace) {
    let again = write_binary(trace).expect("what was read can be written");
    let again = read_binary(&again, Path::new("again")).expect("what was written can be read");
    assert!(again == *trace, "the trace came back as another");
    if trace.frames() <= STEPPED {
        let mut linux = LinuxFrames::new(trace);
        trace.events.iter().for_each(|event| {
            linux.apply(event.kind);
        });
    }
}

/// The compact form with this payload: a header and a checksum that are right.
fn packed(payload: &[u8]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    file.extend(VERSION.to_le_bytes());
    file.extend((payload.len() as u64).to_le_bytes());
    file.extend(crc32fast::hash(payload).to_le_bytes());
    let mut packer = XzEncoder::new(file, 0);
    packer.write_all(payload).expect("memory can be written to");
    packer.finish().expect("memory can be written to")
}
