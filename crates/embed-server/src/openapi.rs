//! The description of the routes, for programs and for people.
//!
//! `openapi.json` is written by hand, with the bounds of the default settings and of the model within the
//! program; what a server says of itself has its own bounds in their places.

use serde_json::{Value, json};

use crate::settings::{EmptyInput, Settings, TokenIds};

/// The description as it is written.
const DOCUMENT: &str = include_str!("openapi.json");

/// A page with the routes and examples, without anything from elsewhere.
pub(crate) const PAGE: &str = include_str!("docs.html");

/// What a description says of a server beside its settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    /// Every model has so many dimensions at least.
    pub(crate) dim: usize,
    /// Every model has so many ids at least.
    pub(crate) vocabulary: usize,
    /// Whether there are keys, and callers need one.
    pub(crate) has_keys: bool,
}

/// The description of a server.
pub(crate) fn document(settings: &Settings, served: Served) -> String {
    let Served { dim, vocabulary, has_keys } = served;
    let mut document: Value = serde_json::from_str(DOCUMENT).expect("a test reads it");
    document["info"]["version"] = json!(env!("CARGO_PKG_VERSION"));
    let schemas = &mut document["components"]["schemas"];
    schemas["Dimensions"]["maximum"] = json!(dim);
    for list in ["/Texts", "/Input/anyOf/3", "/TeiTokenizeRequest/properties/inputs/anyOf/1"] {
        *at(schemas, &format!("{list}/maxItems")) = json!(most_inputs(settings));
    }
    for text in ["/Text/maxLength", "/AnyText/maxLength", "/TokenIds/maxItems"] {
        *at(schemas, text) = json!(settings.max_text_chars);
    }
    if settings.empty_input == EmptyInput::Zero {
        *at(schemas, "/Text/minLength") = json!(0);
    }
    match settings.token_ids {
        TokenIds::Cl100k => {}
        TokenIds::Native => *at(schemas, "/TokenId/maximum") = json!(vocabulary.saturating_sub(1)),
        TokenIds::Reject => {
            for input in ["/Input/anyOf", "/OllamaEmbeddingsRequest/properties/prompt/anyOf"] {
                let kinds = at(schemas, input).as_array_mut().expect("a test looks at it");
                // Texts come first, and token ids after them.
                kinds.truncate(2);
            }
        }
    }
    if has_keys {
        let paths = document["paths"].as_object_mut().expect("a test goes to every path");
        for (path, operations) in paths {
            if path == "/metrics" && !settings.metrics_key {
                continue;
            }
            let operations = operations.as_object_mut().expect("a test goes to every path");
            operations.values_mut().for_each(|operation| require_key(&mut operation["security"]));
        }
    }
    document.to_string()
}

/// Takes the choice of no key away, where there is one.
fn require_key(security: &mut Value) {
    if let Some(choices) = security.as_array_mut() {
        choices.retain(|choice| *choice != json!({}));
    }
}

/// Inputs of the largest request for which the queue ever has room.
fn most_inputs(settings: &Settings) -> usize {
    let &Settings { max_inputs, bulk_texts, queue_texts, queue_reserve, .. } = settings;
    let bulk = queue_texts.saturating_sub(queue_reserve);
    let room = if max_inputs > bulk_texts { bulk.max(bulk_texts) } else { queue_texts };
    max_inputs.min(room).min(queue_texts)
}

/// A place that is there.
fn at<'a>(value: &'a mut Value, pointer: &str) -> &'a mut Value {
    value.pointer_mut(pointer).expect("a test goes to every place")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn written() -> Value {
        serde_json::from_str(DOCUMENT).expect("JSON")
    }

    fn of(settings: &Settings, dim: usize, vocabulary: usize) -> Value {
        let served = Served { dim, vocabulary, has_keys: false };
        serde_json::from_str(&document(settings, served)).expect("JSON")
    }

    #[test]
    fn a_key_may_be_left_out_only_where_none_is_asked_for() {
        let keys = |has_keys, metrics_key| {
            let settings = Settings { metrics_key, ..Settings::default() };
            let served = Served { dim: 256, vocabulary: 29_525, has_keys };
            let document: Value = serde_json::from_str(&document(&settings, served)).expect("JSON");
            ["/v1/embeddings", "/api/tags", "/metrics", "/healthz"].map(|path| {
                let operations = document["paths"][path].as_object().expect(path);
                let security = &operations.values().next().expect("an operation")["security"];
                (security.to_string().contains("bearer"), security.to_string().contains("{}"))
            })
        };
        let (open, either, needed) = ((false, false), (true, true), (true, false));
        assert_eq!(keys(false, false), [either, either, either, open]);
        assert_eq!(keys(true, false), [needed, needed, either, open]);
        assert_eq!(keys(true, true), [needed, needed, needed, open]);
    }

    #[test]
    fn the_document_is_that_of_the_default_settings() {
        assert_eq!(of(&Settings::default(), 256, 29_525), written());
    }

    #[test]
    fn bounds_are_those_of_the_settings() {
        let settings = Settings {
            max_inputs: 7,
            max_text_chars: 70,
            empty_input: EmptyInput::Zero,
            token_ids: TokenIds::Native,
            ..Settings::default()
        };
        let schemas = &of(&settings, 512, 1000)["components"]["schemas"];
        assert_eq!(schemas["Dimensions"]["maximum"], 512);
        assert_eq!(schemas["TokenId"]["maximum"], 999);
        assert_eq!(schemas["Text"], json!({ "type": "string", "minLength": 0, "maxLength": 70 }));
        assert_eq!(
            (&schemas["Texts"]["maxItems"], &schemas["Input"]["anyOf"][3]["maxItems"]),
            (&json!(7), &json!(7))
        );
        for (max_inputs, bulk_texts, expected) in
            [(7, 64, 7), (700, 64, 500), (700, 600, 600), (700, 700, 700)]
        {
            let small = Settings {
                max_inputs,
                bulk_texts,
                queue_texts: 800,
                queue_reserve: 300,
                ..Settings::default()
            };
            assert_eq!(most_inputs(&small), expected);
        }
        assert_eq!(most_inputs(&Settings { queue_texts: 9, ..settings.clone() }), 7);
        let reject = Settings { token_ids: TokenIds::Reject, ..settings };
        let inputs = &of(&reject, 512, 1000)["components"]["schemas"]["Input"]["anyOf"];
        let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
        assert_eq!(*inputs, json!([reference("Text"), reference("Texts")]));
    }

    /// Every value under a key of this name, anywhere.
    fn values_of<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get(key));
                object.values().for_each(|value| values_of(value, key, found));
            }
            Value::Array(values) => values.iter().for_each(|value| values_of(value, key, found)),
            _ => {}
        }
    }

    #[test]
    fn references_lead_somewhere_and_names_of_operations_are_their_own() {
        let document = written();
        let (mut references, mut operations) = (Vec::new(), Vec::new());
        values_of(&document, "$ref", &mut references);
        values_of(&document, "operationId", &mut operations);
        for reference in references {
            let pointer = reference.as_str().and_then(|text| text.strip_prefix('#'));
            assert!(pointer.and_then(|pointer| document.pointer(pointer)).is_some(), "{reference}");
        }
        let names: BTreeSet<&str> = operations.iter().filter_map(|name| name.as_str()).collect();
        assert_eq!(names.len(), operations.len());
    }

    #[test]
    fn an_error_is_its_four_fields_wherever_it_stands() {
        let document = written();
        let responses = document["components"]["responses"].as_object().expect("responses");
        for (name, response) in responses {
            let json = &response["content"]["application/json"];
            assert_eq!(json["schema"]["$ref"], "#/components/schemas/Error", "{name}");
            let error = json["example"]["error"].as_object().expect("an example");
            let fields: Vec<&str> = error.keys().map(String::as_str).collect();
            assert!(
                ["message", "type", "param", "code"].iter().all(|field| fields.contains(field))
            );
            assert_eq!(fields.len(), 4);
        }
    }

    #[test]
    fn the_page_has_every_route_and_nothing_from_elsewhere() {
        let document = written();
        let paths = document["paths"].as_object().expect("paths");
        for path in paths.keys() {
            assert!(PAGE.contains(&format!("{path}</code>")), "{path}");
        }
        for word in ["<script", "<link", "<img", "src=", "url(", "@import"] {
            assert!(!PAGE.contains(word), "{word}");
        }
    }
}
