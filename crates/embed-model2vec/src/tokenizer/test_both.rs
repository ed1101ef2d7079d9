//! One tokenizer file in two implementations: ours, and the `tokenizers` crate.

use super::definition::Definition;
use super::huggingface::HuggingFace;
use super::{IdSink, Tokenizer};

/// Our tokenizer and theirs for the same file.
pub(super) struct Both {
    pub(super) name: String,
    pub(super) ours: Tokenizer,
    pub(super) theirs: HuggingFace,
}

impl Both {
    /// Reads a file that `implementation` must serve, with the facts that the crate sees in it.
    pub(super) fn new(name: impl Into<String>, json: &[u8], implementation: &str) -> Self {
        let name = name.into();
        let definition = Definition::read(json).expect("a tokenizer file");
        let ours = Tokenizer::own(&definition).unwrap_or_else(|| panic!("{name}: one of ours"));
        assert_eq!(ours.implementation(), implementation, "{name}");
        let (theirs, facts) = HuggingFace::load(json).expect("a valid file");
        assert_eq!(*ours.vocabulary(), facts, "{name}");
        Self { name, ours, theirs }
    }

    /// The ids that the crate gives.
    pub(super) fn expected(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.theirs.tokenize(text, &mut ids).expect("no text is refused");
        ids
    }

    /// Pushes our ids.
    pub(super) fn push_ours(&self, text: &str, sink: &mut impl IdSink) {
        self.ours.session().tokenize(text, sink).expect("no text is refused");
    }

    #[track_caller]
    pub(super) fn check(&self, text: &str) {
        let expected = self.expected(text);
        // The second time, words are remembered.
        for _ in 0..2 {
            let mut ids = Vec::new();
            self.push_ours(text, &mut ids);
            assert_eq!(ids, expected, "{}: {text:?}", self.name);
        }
    }
}
