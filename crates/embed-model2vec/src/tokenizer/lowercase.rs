//! Lower case as the `tokenizers` crate has it: each character alone.
//!
//! `str::to_lowercase` writes a sigma at the end of a word in another way; the crate does not.

/// Appends `text` in lower case.
pub(super) fn lowercase_into(text: &str, out: &mut String) {
    if text.is_ascii() {
        let start = out.len();
        out.push_str(text);
        out[start..].make_ascii_lowercase();
    } else {
        out.extend(text.chars().flat_map(char::to_lowercase));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_character_is_lowered_alone_and_what_was_there_stays() {
        let mut out = "Before ".to_owned();
        lowercase_into("ASCII, ", &mut out);
        lowercase_into("ΣΊΣΥΦΟΣ İ ẞ", &mut out);
        assert_eq!(out, "Before ascii, σίσυφοσ i\u{307} ß");
    }
}
