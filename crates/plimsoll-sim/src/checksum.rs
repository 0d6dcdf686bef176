//! A checksum that is the same on every machine and with every version: FNV-1a, 64 bits.

/// The checksum of nothing.
pub const START: u64 = 0xcbf2_9ce4_8422_2325;

/// The checksum of what it was of, and these bytes.
pub fn fold(checksum: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(checksum, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts_have_known_checksums() {
        assert_eq!(fold(START, *b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fold(START, *b"foobar"), 0x8594_4171_f739_67e8);
    }
}
