//! TensorBoard's event files: records with masked CRC-32C sums around protocol buffers, of which only scalars are needed.

use crate::error::LearnError;
use crate::protobuf::{bytes, double, float, number};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the first record of a file says.
const VERSION: &str = "brain.Event:2";
/// Added to sums, so that a sum of data that holds sums is none of theirs.
const MASK: u32 = 0xa282_ead8;

/// A file of events.
pub struct Events {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Events {
    /// Begins a file in a folder. TensorBoard reads all files of a folder, in the order of their names.
    pub fn create(folder: &Path, now: Duration) -> Result<Self, LearnError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| LearnError::File { path, error }
        };
        std::fs::create_dir_all(folder).map_err(failed(folder))?;
        // Two starts within a second must not share a file.
        let paths = (0..).map(|number| folder.join(format!("events.out.tfevents.{:010}.{number}", now.as_secs())));
        let mut last = None;
        for path in paths.take(1000) {
            match File::create_new(&path) {
                Ok(file) => {
                    let mut events = Self { path, file: BufWriter::new(file) };
                    events.record(&event(now, 0, &bytes(3, VERSION.as_bytes())))?;
                    events.flush()?;
                    return Ok(events);
                }
                Err(error) => last = Some(failed(&path)(error)),
            }
        }
        Err(last.unwrap_or_else(|| LearnError::Invalid("no name is left for a log".into())))
    }

    /// Says that what earlier files say of this step and later ones does not count.
    pub fn restart(&mut self, now: Duration, step: u64) -> Result<(), LearnError> {
        // SessionLog with the status START.
        self.record(&event(now, step, &bytes(7, &number(1, 1))))
    }

    /// Notes figures at a step.
    pub fn scalars(&mut self, now: Duration, step: u64, scalars: &[(String, f64)]) -> Result<(), LearnError> {
        let mut summary = Vec::new();
        for (tag, value) in scalars {
            summary.extend(bytes(1, &[bytes(1, tag.as_bytes()), float(2, *value as f32)].concat()));
        }
        self.record(&event(now, step, &bytes(5, &summary)))
    }

    /// Has all that was noted reach the disk's cache.
    pub fn flush(&mut self) -> Result<(), LearnError> {
        self.file.flush().map_err(|error| LearnError::File { path: self.path.clone(), error })
    }

    fn record(&mut self, data: &[u8]) -> Result<(), LearnError> {
        self.file.write_all(&framed(data)).map_err(|error| LearnError::File { path: self.path.clone(), error })
    }
}

/// An event: wall time, step, and what it is about.
fn event(now: Duration, step: u64, what: &[u8]) -> Vec<u8> {
    let mut event = double(1, now.as_secs_f64());
    if step > 0 {
        event.extend(number(2, step));
    }
    event.extend(what);
    event
}

/// A record: length, its sum, data, its sum.
fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut bytes = length.to_vec();
    bytes.extend(masked(&length).to_le_bytes());
    bytes.extend(data);
    bytes.extend(masked(data).to_le_bytes());
    bytes
}

fn masked(data: &[u8]) -> u32 {
    crc32c(data).rotate_right(15).wrapping_add(MASK)
}

/// CRC-32C, bit by bit: a few hundred bytes a second need no table.
fn crc32c(data: &[u8]) -> u32 {
    let fold = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 })
    };
    !data.iter().fold(!0, fold)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_castagnoli_polynomial() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn a_file_begins_as_every_file_of_events_does() {
        let first = framed(&event(Duration::from_secs(0), 0, &bytes(3, VERSION.as_bytes())));
        assert_eq!(first[..13], *b"\x18\x00\x00\x00\x00\x00\x00\x00\xa3\x7fK\"\x09");
        assert_eq!(first[21..36], *b"\x1a\x0dbrain.Event:2");
        assert_eq!(first.len(), 8 + 4 + 24 + 4);
    }

    #[test]
    fn scalars_are_encoded_field_by_field() {
        let folder = crate::train::tests::folder("events");
        let mut events = Events::create(&folder, Duration::from_secs(1)).unwrap();
        events.scalars(Duration::from_millis(1500), 300, &[("a".into(), 1.0), ("b".into(), -2.0)]).unwrap();
        events.flush().unwrap();
        let bytes = std::fs::read(folder.join("events.out.tfevents.0000000001.0")).unwrap();
        let data = &bytes[40 + 12..bytes.len() - 4];
        let expected = b"\x09\x00\x00\x00\x00\x00\x00\xf8\x3f\x10\xac\x02\x2a\x14\
            \x0a\x08\x0a\x01a\x15\x00\x00\x80\x3f\x0a\x08\x0a\x01b\x15\x00\x00\x00\xc0";
        assert_eq!(data, expected);
        Events::create(&folder, Duration::from_secs(1)).unwrap();
        assert!(folder.join("events.out.tfevents.0000000001.1").exists());
    }
}
