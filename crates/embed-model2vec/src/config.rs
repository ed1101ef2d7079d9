//! What the configuration says about encoding: the token limit and whether rows are normalized.
//!
//! `hidden_dim`, `apply_pca` and `seq_length` are not read: published models carry wrong values, and
//! the width is the table's.

use std::num::NonZeroUsize;

use serde_json::Value;

use crate::bundle::{Bundle, BundleFile};
use crate::error::LoadError;

/// The limit where the configuration has none, as in Python model2vec.
const DEFAULT_MAX_LENGTH: NonZeroUsize = NonZeroUsize::new(512).expect("512 is not zero");

/// Defaults of a model's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModelConfig {
    /// Tokens of a text that count; `None` is no limit.
    pub(crate) max_length: Option<NonZeroUsize>,
    /// Whether rows are scaled to length 1.
    pub(crate) normalize: bool,
}

impl ModelConfig {
    pub(crate) fn read(bundle: &Bundle) -> Result<Self, LoadError> {
        let config = parse(&bundle.config)?;
        if !config.is_object() {
            return Err(field_error(&bundle.config, "(root)", "a JSON object", &config));
        }
        Ok(Self {
            max_length: max_length(&bundle.config, &config)?,
            normalize: normalize(bundle, &config)?,
        })
    }
}

/// Whether `modules.json`, if there is one, decides on normalizing.
pub(crate) fn leaves_normalizing_to_modules(bundle: &Bundle) -> bool {
    parse(&bundle.config)
        .is_ok_and(|config| config.get("normalize").is_none_or(serde_json::Value::is_null))
}

fn parse(file: &BundleFile) -> Result<Value, LoadError> {
    serde_json::from_slice(&file.bytes)
        .map_err(|source| LoadError::Json { path: file.path.clone(), source })
}

/// `null` means no limit, an absent field means 512.
fn max_length(file: &BundleFile, config: &Value) -> Result<Option<NonZeroUsize>, LoadError> {
    let Some(value) = config.get("max_length") else { return Ok(Some(DEFAULT_MAX_LENGTH)) };
    if value.is_null() {
        return Ok(None);
    }
    value
        .as_u64()
        .and_then(|value| usize::try_from(value).ok())
        .and_then(NonZeroUsize::new)
        .map(Some)
        .ok_or_else(|| field_error(file, "max_length", "a positive integer or null", value))
}

/// The configuration decides; where it is silent, a Normalize module in modules.json does.
fn normalize(bundle: &Bundle, config: &Value) -> Result<bool, LoadError> {
    match config.get("normalize") {
        Some(Value::Bool(normalize)) => return Ok(*normalize),
        None | Some(Value::Null) => {}
        Some(other) => {
            return Err(field_error(&bundle.config, "normalize", "true, false or null", other));
        }
    }
    let Some(file) = &bundle.modules else { return Ok(false) };
    let modules = parse(file)?;
    let Some(modules) = modules.as_array() else {
        return Err(field_error(file, "(root)", "a JSON array", &modules));
    };
    // The type is a Python path whose package part has changed between versions.
    let is_normalize = |module: &Value| {
        let name = module.get("type").and_then(Value::as_str).unwrap_or_default();
        name.rsplit('.').next() == Some("Normalize")
    };
    Ok(modules.iter().any(is_normalize))
}

fn field_error(
    file: &BundleFile,
    field: &'static str,
    expected: &'static str,
    found: &Value,
) -> LoadError {
    const SHOWN_CHARS: usize = 60;
    let found = found.to_string().chars().take(SHOWN_CHARS).collect();
    LoadError::ConfigField { path: file.path.clone(), field, expected, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: &str, modules: Option<&str>) -> Result<ModelConfig, LoadError> {
        let bundle = Bundle::from_bytes("m", config.into(), Vec::new(), Vec::new());
        let bundle = match modules {
            Some(modules) => bundle.with_modules(modules.into()),
            None => bundle,
        };
        ModelConfig::read(&bundle)
    }

    #[track_caller]
    fn check(config: &str, modules: Option<&str>, max_length: Option<usize>, normalize: bool) {
        let read = read(config, modules).expect("a valid configuration");
        assert_eq!(
            (read.max_length.map(NonZeroUsize::get), read.normalize),
            (max_length, normalize)
        );
    }

    #[track_caller]
    fn refuse(config: &str, modules: Option<&str>, message: &str) {
        let error = read(config, modules).expect_err("an invalid configuration");
        assert_eq!(error.to_string(), message);
    }

    const NORMALIZE: &str = r#"[{"type":"sentence_transformers.models.StaticEmbedding"},
        {"type":"sentence_transformers.models.Normalize"}]"#;

    #[test]
    fn an_absent_limit_is_512_and_a_null_limit_is_none() {
        check("{}", None, Some(512), false);
        check(r#"{"max_length":null}"#, None, None, false);
        check(r#"{"max_length":7}"#, None, Some(7), false);
    }

    #[test]
    fn modules_decide_on_normalizing_only_where_the_configuration_is_silent() {
        check("{}", Some(NORMALIZE), Some(512), true);
        check(r#"{"normalize":null}"#, Some(NORMALIZE), Some(512), true);
        check(r#"{"normalize":false}"#, Some(NORMALIZE), Some(512), false);
        check(r#"{"normalize":true}"#, None, Some(512), true);
        check("{}", Some("[]"), Some(512), false);
    }

    #[test]
    fn impossible_values_are_refused_by_name() {
        let limit = "field `max_length`: expected a positive integer or null, found";
        refuse(r#"{"max_length":0}"#, None, &format!("m/config.json: {limit} 0"));
        refuse(r#"{"max_length":-3}"#, None, &format!("m/config.json: {limit} -3"));
        refuse(r#"{"max_length":"512"}"#, None, &format!("m/config.json: {limit} \"512\""));
        refuse(
            r#"{"normalize":1}"#,
            None,
            "m/config.json: field `normalize`: expected true, false or null, found 1",
        );
        refuse("[]", None, "m/config.json: field `(root)`: expected a JSON object, found []");
        refuse("{}", Some("{}"), "m/modules.json: field `(root)`: expected a JSON array, found {}");
        refuse("{", None, "m/config.json: not valid JSON");
    }
}
