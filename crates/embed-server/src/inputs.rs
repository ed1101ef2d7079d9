//! From what a body says to what a model takes: rules for empty texts, and token ids of other models.

use embed_batcher::OwnedInput;
use tiktoken_rs::cl100k_base_singleton;

use crate::error::ApiError;
use crate::json::{Input, check_chars};
use crate::settings::{EmptyInput, Settings, TokenIds};

/// The inputs for a model whose vocabulary has `vocabulary` ids, from the field `name`.
///
/// Ids of `cl100k_base` are decoded, which takes long the first time: not on a thread that drives futures.
pub(crate) fn resolve(
    input: Input,
    name: &'static str,
    vocabulary: usize,
    settings: &Settings,
) -> Result<Vec<OwnedInput>, ApiError> {
    let count = input.len();
    let place = |position: usize| match count {
        1 => format!("`{name}`"),
        _ => format!("`{name}[{position}]`"),
    };
    let empty = |position| {
        let message = format!(
            "{}: empty, and an empty input has no embedding (setting `empty_input`)",
            place(position)
        );
        ApiError::invalid(Some(name), message)
    };
    let may_be_empty = settings.empty_input == EmptyInput::Zero;
    match input {
        Input::Texts(texts) => {
            let found = texts.iter().position(String::is_empty).filter(|_| !may_be_empty);
            found.map_or(Ok(()), |position| Err(empty(position)))?;
            Ok(texts.into_iter().map(|text| OwnedInput::Text(text.into())).collect())
        }
        Input::Ids(lists) => {
            let found = lists.iter().position(Vec::is_empty).filter(|_| !may_be_empty);
            found.map_or(Ok(()), |position| Err(empty(position)))?;
            match settings.token_ids {
                TokenIds::Reject => Err(ApiError::invalid(Some(name), REJECTED)),
                TokenIds::Native => native(lists, vocabulary, name, place),
                TokenIds::Cl100k => cl100k(lists, settings, name, place),
            }
        }
    }
}

/// Whether resolving takes long enough to matter to a thread that drives futures.
pub(crate) fn is_slow(input: &Input, settings: &Settings) -> bool {
    matches!(input, Input::Ids(_)) && settings.token_ids == TokenIds::Cl100k
}

const REJECTED: &str = "token ids are not taken here: send text. LangChain's OpenAIEmbeddings does with \
     `check_embedding_ctx_length=False` (setting `token_ids`)";

fn native(
    lists: Vec<Vec<u32>>,
    vocabulary: usize,
    name: &'static str,
    place: impl Fn(usize) -> String,
) -> Result<Vec<OwnedInput>, ApiError> {
    for (position, ids) in lists.iter().enumerate() {
        if let Some(id) = ids.iter().find(|&&id| id as usize >= vocabulary) {
            let message = format!(
                "{}: there is no token {id}, the vocabulary has {vocabulary}",
                place(position)
            );
            return Err(ApiError::invalid(Some(name), message));
        }
    }
    Ok(lists.into_iter().map(|ids| OwnedInput::Ids(ids.into())).collect())
}

/// So many ids are decoded before the length of the text is looked at: a token has 128 bytes at most.
const STEP: usize = 4096;

/// Text again from ids of OpenAI's `cl100k_base`. Where a list was cut within a character, its bytes become
/// replacement characters, as Python's tiktoken has it.
fn cl100k(
    lists: Vec<Vec<u32>>,
    settings: &Settings,
    name: &'static str,
    place: impl Fn(usize) -> String,
) -> Result<Vec<OwnedInput>, ApiError> {
    let vocabulary = cl100k_base_singleton();
    // A few bytes of ids can stand for many of text.
    let mut room = settings.body_bytes;
    let decode = |(position, ids): (usize, Vec<u32>)| {
        let mut bytes = Vec::new();
        for ids in ids.chunks(STEP) {
            let more = vocabulary.decode_bytes(ids).map_err(|error| {
                let message = format!(
                    "{}: {error}: no token of cl100k_base, of which token ids are taken to be here \
                     (setting `token_ids`)",
                    place(position)
                );
                ApiError::invalid(Some(name), message)
            })?;
            room = room.checked_sub(more.len()).ok_or_else(|| {
                let limit = settings.body_bytes;
                let message = format!("`{name}`: the token ids stand for more than {limit} bytes");
                ApiError::over_limit(name, message)
            })?;
            bytes.extend_from_slice(&more);
        }
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        check_chars(&text, settings.max_text_chars, name, &place(position))?;
        Ok(OwnedInput::Text(text.into()))
    };
    lists.into_iter().enumerate().map(decode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(token_ids: TokenIds) -> Settings {
        Settings { token_ids, body_bytes: 64, max_text_chars: 20, ..Settings::default() }
    }

    #[track_caller]
    fn check(input: Input, settings: &Settings, expected: Result<&[&str], &str>) {
        let found = resolve(input, "input", 10, settings);
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                let expected = expected.iter().map(|&text| OwnedInput::Text(text.into()));
                assert_eq!(found, expected.collect::<Vec<_>>());
            }
            (Err(error), Err(part)) => {
                let body = String::from_utf8(error.body()).expect("text");
                assert!(body.contains(part), "{body}");
            }
            (found, _) => panic!("{found:?}"),
        }
    }

    fn texts(texts: &[&str]) -> Input {
        Input::Texts(texts.iter().map(|&text| text.into()).collect())
    }

    #[test]
    fn an_empty_text_is_refused_by_its_place() {
        let reject = Settings::default();
        check(texts(&["a", " "]), &reject, Ok(&["a", " "]));
        check(texts(&["a", "", ""]), &reject, Err("`input[1]`: empty"));
        check(texts(&[""]), &reject, Err("`input`: empty"));
        check(Input::Ids(vec![vec![], vec![1]]), &reject, Err("`input[0]`: empty"));
        let zero = Settings { empty_input: EmptyInput::Zero, ..reject };
        check(texts(&["a", ""]), &zero, Ok(&["a", ""]));
    }

    #[test]
    fn ids_of_cl100k_become_the_text_they_were() {
        let settings = settings(TokenIds::Cl100k);
        // tiktoken.get_encoding("cl100k_base").encode("hello world")
        check(Input::Ids(vec![vec![15339, 1917]]), &settings, Ok(&["hello world"]));
        check(Input::Ids(vec![vec![u32::MAX]]), &settings, Err("4294967295"));
        // The first of the three tokens of an emoji is no character alone.
        let cut = cl100k_base_singleton().encode_ordinary("🦀")[0];
        check(Input::Ids(vec![vec![cut]]), &settings, Ok(&["\u{fffd}"]));
        check(Input::Ids(vec![vec![15339; 30]]), &settings, Err("stand for more than"));
        check(Input::Ids(vec![vec![15339; 5]]), &settings, Err("more than 20 characters"));
    }

    #[test]
    fn native_ids_are_those_of_the_vocabulary() {
        let native = settings(TokenIds::Native);
        let found = resolve(Input::Ids(vec![vec![0, 9]]), "input", 10, &native);
        assert_eq!(found, Ok(vec![OwnedInput::Ids([0, 9].into())]));
        check(
            Input::Ids(vec![vec![1], vec![10]]),
            &native,
            Err("`input[1]`: there is no token 10"),
        );
    }

    #[test]
    fn refused_ids_name_the_switch_of_the_client() {
        let message = "check_embedding_ctx_length=False";
        check(Input::Ids(vec![vec![1]]), &settings(TokenIds::Reject), Err(message));
    }
}
