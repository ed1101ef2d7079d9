//! From ids back to tokens, for people who want to see them.
//!
//! Tokenizers keep their vocabularies in forms that lead from text to ids alone, so this reads the file
//! once more, when somebody asks for the first time.

use rustc_hash::FxHashMap;

use super::added::AddedTokens;
use super::definition::{Definition, Vocab};
use crate::bundle::BundleFile;

/// The tokens of a vocabulary as its file spells them.
#[derive(Debug, Default)]
pub(crate) struct Spellings {
    /// By id; empty where there is none.
    tokens: Vec<Box<str>>,
}

impl Spellings {
    /// Reads the tokens of a file; ids from `size` on are not kept. None of them is known if the file is
    /// one that only the `tokenizers` crate can read.
    pub(crate) fn read(file: &BundleFile, size: usize) -> Self {
        Definition::read(&file.bytes)
            .map(|definition| Self::of(&definition, size))
            .unwrap_or_default()
    }

    fn of(definition: &Definition<'_>, size: usize) -> Self {
        let entries: Vec<(&str, u32)> = match &definition.model.vocab {
            Vocab::Missing => Vec::new(),
            Vocab::Ids(entries) => entries.iter().map(|(token, id)| (&**token, *id)).collect(),
            Vocab::Scores(pieces) => pieces.texts().zip(0..).collect(),
        };
        let by_token: FxHashMap<&str, u32> = entries.iter().copied().collect();
        let id = |token: &str| by_token.get(token).copied();
        let added = AddedTokens::new(&definition.added_tokens, entries.len(), id);
        let mut tokens = vec![Box::default(); size];
        let added = added.iter().flat_map(AddedTokens::iter);
        for (token, id) in entries.iter().copied().chain(added) {
            if let Some(place) = tokens.get_mut(id as usize) {
                *place = Box::from(token);
            }
        }
        Self { tokens }
    }

    /// The token of an id.
    pub(crate) fn token(&self, id: u32) -> Option<&str> {
        self.tokens.get(id as usize).map(|token| &**token).filter(|token| !token.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spellings(json: &str, size: usize) -> Spellings {
        Spellings::of(&Definition::read(json.as_bytes()).expect("valid"), size)
    }

    #[test]
    fn tokens_of_either_kind_of_vocabulary_and_added_ones_are_found() {
        let added = r#""added_tokens":[{"id":2,"content":"[PAD]","single_word":false,"lstrip":false,
            "rstrip":false,"normalized":false,"special":true}]"#;
        for vocab in [r#"{"a":0,"e\u0301":1}"#, r#"[["a",-1],["e\u0301",-2]]"#] {
            let json = format!(r#"{{"version":"1.0",{added},"model":{{"vocab":{vocab}}}}}"#);
            let spellings = spellings(&json, 3);
            let tokens: Vec<_> = (0..4).map(|id| spellings.token(id)).collect();
            assert_eq!(tokens, [Some("a"), Some("e\u{301}"), Some("[PAD]"), None]);
        }
    }

    #[test]
    fn an_id_far_out_costs_no_memory() {
        let json = r#"{"version":"1.0","model":{"vocab":{"a":4294967295,"b":1}}}"#;
        assert_eq!(spellings(json, 2).token(1), Some("b"));
    }
}
