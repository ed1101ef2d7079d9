//! Tests of chunking: spans against the original bytes, for every mode.

use proptest::prelude::*;

use super::*;

const ENOUGH: NonZeroUsize = NonZeroUsize::new(1 << 20).expect("not zero");

fn chunks(bytes: &[u8], chunking: &str, max_text_bytes: usize) -> Vec<Chunk> {
    let chunking = chunking.parse().expect("a chunking");
    let limit = NonZeroUsize::new(max_text_bytes).expect("not zero");
    let stream = TextStream::open(bytes).expect("no error").expect("text");
    let mut chunker = Chunker::new(stream, chunking, limit);
    let mut chunks = Vec::new();
    while let Some(chunk) = chunker.next_chunk().expect("no error") {
        assert_eq!(chunk.number, chunks.len() as u64);
        chunks.push(chunk);
    }
    chunks
}

#[track_caller]
fn check(text: &str, chunking: &str, expected: &[&str]) {
    let found = chunks(text.as_bytes(), chunking, ENOUGH.get());
    let texts: Vec<&str> = found.iter().map(|chunk| chunk.text.as_str()).collect();
    assert_eq!(texts, expected);
    for chunk in &found {
        check_spans(text, chunk);
    }
}

/// Bytes, lines and hash of a chunk of UTF-8 are those of its text.
#[track_caller]
fn check_spans(text: &str, chunk: &Chunk) {
    let range = usize::try_from(chunk.bytes.start).expect("small")
        ..usize::try_from(chunk.bytes.end).expect("small");
    let whole = &text[range.clone()];
    assert!(whole.starts_with(&chunk.text));
    assert_eq!(chunk.clipped, whole.len() > chunk.text.len());
    assert_eq!(chunk.hash, blake3::hash(whole.as_bytes()));
    let line_of = |end: usize| 1 + count_newlines(&text[..end]);
    let last = range.end - usize::from(whole.ends_with('\n'));
    assert_eq!(chunk.lines, (line_of(range.start), line_of(last)));
}

#[test]
fn whole_files_are_one_chunk_unless_blank() {
    check("a\nb\n", "none", &["a\nb\n"]);
    check("", "none", &[]);
    check(" \n\t\n", "none", &[]);
}

#[test]
fn every_line_has_its_chunk_and_line_ends_are_not_text() {
    check("a\n\nb\r\n c", "line", &["a", "", "b", " c"]);
    check("a\n", "line", &["a"]);
    check("\n\n", "line", &["", ""]);
    check("", "line", &[]);
    check("a\rb\r\n\r\n", "line", &["a\rb", ""]);
}

#[test]
fn windows_end_at_lines_or_words_and_overlap_by_whole_words() {
    check("one two three four five", "chars:10/0", &["one two ", "three ", "four five"]);
    check("one two three four five", "chars:10/4", &["one two ", "two three ", "four five"]);
    check("aaaa\nbbb ccc", "chars:8/0", &["aaaa\n", "bbb ccc"]);
    check("abcdefghij", "chars:4/1", &["abcd", "defg", "ghij"]);
    check("äöüäöü", "chars:4", &["äöüä", "öü"]);
    check("abcd", "chars:4/3", &["abcd"]);
    check("   \n\n   \n\n  ", "chars:3/0", &[]);
    check("", "chars:5/0", &[]);
}

#[test]
fn chunkings_that_cannot_be_are_refused() {
    for text in [
        "",
        "lines",
        "chars",
        "chars:",
        "chars:0",
        "chars:5/5",
        "chars:-1",
        "chars:5/x",
        "chars:1000001",
    ] {
        let error = text.parse::<Chunking>().expect_err("not a chunking");
        assert!(error.to_string().starts_with(&format!("{text:?} is not a chunking")));
    }
    assert_eq!(
        "chars:1500/200".parse::<Chunking>().ok(),
        Window::new(1500, 200).map(Chunking::Chars)
    );
}

#[test]
fn a_long_line_keeps_its_beginning_and_its_whole_span_and_hash() {
    let long = "x".repeat(300_000);
    for text in [format!("a\n{long}\r\nb\n"), format!("a\n{long}\nb"), format!("a\n{long}\r")] {
        let found = chunks(text.as_bytes(), "line", 1000);
        assert_eq!(found[1].text.len(), 1000);
        assert!(found[1].clipped && !found[0].clipped);
        for chunk in &found {
            check_spans(&text, chunk);
        }
    }
    let file = format!("{long}\n{long}\n");
    check_spans(&file, &chunks(file.as_bytes(), "none", 1000)[0]);
}

#[test]
fn a_line_of_exactly_the_limit_is_not_clipped_wherever_a_block_ends() {
    let line = "y".repeat(100);
    for shift in 0..3 {
        // Line ends lie at every position relative to the ends of blocks.
        let text = "x".repeat(shift) + "\r\n" + &format!("{line}\r\n").repeat(2000);
        let found = chunks(text.as_bytes(), "line", 100);
        assert!(found.iter().all(|chunk| !chunk.clipped));
    }
}

#[test]
fn clipping_does_not_cut_a_character() {
    let found = chunks("äöü\nx".as_bytes(), "line", 3);
    assert_eq!((found[0].text.as_str(), found[0].clipped), ("ä", true));
    assert_eq!(found[0].bytes, 0..6);
}

#[test]
fn spans_are_in_the_original_bytes_of_utf16() {
    let bytes: Vec<u8> = [0xFEFF, 0x61, 0x0A]
        .into_iter()
        .chain("😀b".encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    let found = chunks(&bytes, "line", 1000);
    assert_eq!((found[0].text.as_str(), found[0].bytes.clone()), ("a", 2..4));
    assert_eq!((found[1].text.as_str(), found[1].bytes.clone()), ("😀b", 6..12));
}

proptest! {
    #[test]
    fn lines_rebuild_the_text(text in "[ab\r\n é]{0,80}", limit in 1usize..50) {
        let found = chunks(text.as_bytes(), "line", limit);
        for chunk in &found {
            check_spans(&text, chunk);
        }
        prop_assert_eq!(found.len(), text.lines().count());
    }

    #[test]
    fn windows_cover_everything_but_blanks(
        text in "[abc \né]{0,200}",
        size in 1usize..30,
        overlap in 0usize..29,
        limit in 1usize..60,
    ) {
        prop_assume!(overlap < size);
        let found = chunks(text.as_bytes(), &format!("chars:{size}/{overlap}"), limit);
        let mut end = 0;
        let mut previous_start = None;
        for chunk in &found {
            check_spans(&text, chunk);
            let range = usize::try_from(chunk.bytes.start).expect("small")..usize::try_from(chunk.bytes.end).expect("small");
            prop_assert!(text[range.clone()].chars().count() <= size);
            prop_assert!(previous_start < Some(range.start), "windows move forward");
            prop_assert!(range.start <= end || is_blank(&text[end..range.start]));
            previous_start = Some(range.start);
            end = range.end;
        }
        prop_assert!(is_blank(&text[end..]));
    }
}
