//! The alphabet in which byte-level vocabularies write bytes.
//!
//! Each byte is one printable character: those that Latin-1 can print stand for themselves, the others
//! follow from U+0100 on in their order. A vocabulary is translated to bytes once, so that a text is
//! never translated to the alphabet.

/// The character of each byte.
pub(super) fn characters() -> [char; 256] {
    let mut others = '\u{100}'..;
    let mut characters = ['\0'; 256];
    for byte in 0..=u8::MAX {
        characters[usize::from(byte)] = match byte {
            0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => char::from(byte),
            _ => others.next().expect("at most 256"),
        };
    }
    characters
}

/// The bytes of a token; `None` if it has a character that stands for no byte.
pub(super) fn bytes(token: &str) -> Option<Vec<u8>> {
    // The bytes of U+0100 and up, in that order.
    const OTHERS: [u8; 68] = {
        let mut others = [0; 68];
        let mut byte = 0;
        let mut count = 0;
        while byte <= 0xAD {
            if !matches!(byte, 0x21..=0x7E | 0xA1..=0xAC) {
                others[count] = byte;
                count += 1;
            }
            byte += 1;
        }
        others
    };
    let byte = |character: char| match u32::from(character) {
        code @ (0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF) => u8::try_from(code).ok(),
        code @ 0x100.. => OTHERS.get(code as usize - 0x100).copied(),
        _ => None,
    };
    token.chars().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;

    #[test]
    fn every_byte_has_the_character_that_stands_for_it() {
        for (byte, character) in (0..=u8::MAX).zip(characters()) {
            assert_eq!(bytes(&character.to_string()), Some(vec![byte]));
        }
        let mut ours = characters().to_vec();
        let mut theirs: Vec<char> = ByteLevel::alphabet().into_iter().collect();
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn text_is_not_written_in_the_alphabet() {
        assert_eq!(bytes("Ġthe"), Some(b" the".to_vec()));
        assert_eq!(bytes("Ã¤"), Some("ä".as_bytes().to_vec()));
        assert_eq!(bytes(" the"), None);
        assert_eq!(bytes("中"), None);
        assert_eq!(bytes("\u{144}"), None);
    }
}
