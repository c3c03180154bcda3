//! Files that may be compressed. What a file is, its first bytes say; its name does not matter.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use liblzma::read::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use ruzstd::decoding::StreamingDecoder;

use crate::{Error, Result};

const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// What unpacking `.xz` may set aside; `xz -9` needs 65 MiB.
const XZ_MEMORY: u64 = 256 << 20;

/// Opens a file and unpacks it on the way.
pub fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    let unpack = || -> io::Result<Box<dyn BufRead>> {
        let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
        let start = file.fill_buf()?;
        Ok(if start.starts_with(XZ) {
            Box::new(BufReader::with_capacity(1 << 16, xz(file)?))
        } else if start.starts_with(ZSTD) {
            Box::new(BufReader::with_capacity(1 << 16, ZstdFrames { state: Between(file) }))
        } else {
            Box::new(file)
        })
    };
    unpack().map_err(|cause| Error::io(path, cause))
}

/// Unpacks `.xz`.
pub fn xz<R: Read>(packed: R) -> io::Result<impl Read> {
    Ok(XzDecoder::new_stream(packed, Stream::new_auto_decoder(XZ_MEMORY, CONCATENATED)?))
}

/// A `.zst` file is one frame after another; the library unpacks one.
struct ZstdFrames<R: BufRead> {
    state: Zstd<R>,
}

enum Zstd<R: BufRead> {
    Between(R),
    Inside(Box<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>),
    Broken,
}
use Zstd::{Between, Broken, Inside};

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, Broken) {
                Between(mut packed) => {
                    if packed.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let frame = StreamingDecoder::new(packed)
                        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
                    self.state = Inside(Box::new(frame));
                }
                Inside(mut frame) => {
                    let read = frame.read(out)?;
                    if read > 0 || out.is_empty() {
                        self.state = Inside(frame);
                        return Ok(read);
                    }
                    self.state = Between(frame.into_inner());
                }
                Broken => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }
}
