//! Flag over environment over file over default.
//!
//! Nothing is read here: whoever calls passes what was found. Every source is checked as a whole, also
//! where another one is stronger, and all problems are told at once.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::Table;

use super::error::nearest;
use super::kind::items;
use super::models::{self, Found};
use super::table::PREFIX;
use super::{ModelEntry, Problem, Setting, Settings, SettingsError, TABLE, check};

/// The environment variable that names the file, where no flag does.
pub const CONFIG_VARIABLE: &str = "EMBED_SERVE_CONFIG";

/// The environment variable that holds keys.
pub const KEYS_VARIABLE: &str = "EMBED_API_KEYS";

const MODELS_VARIABLE: &str = "EMBED_SERVE_MODELS";
const ALIASES_VARIABLE: &str = "EMBED_SERVE_ALIASES";

/// Where settings may come from.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// What the command line says.
    pub flags: &'a Flags,
    /// The environment: names and values. Others than those of settings do not count.
    pub env: &'a [(OsString, OsString)],
    /// Path and text of a TOML file.
    pub file: Option<(&'a Path, &'a str)>,
    /// The name of the model within the program.
    pub built_in: &'a str,
}

/// What a command line says.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// Keys of settings, and their values.
    pub settings: Vec<(&'static str, String)>,
    /// `NAME=PLACE` or `PLACE`.
    pub models: Vec<String>,
    /// `ALIAS=NAME`.
    pub aliases: Vec<String>,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// A flag, with its hyphens.
    Flag(String),
}

impl Origin {
    /// The file; an empty path if it is none.
    pub(super) fn file(&self) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            _ => PathBuf::new(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => path.display().fmt(f),
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Settings of which each is known, and where it came from.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The values.
    pub settings: Settings,
    /// The models, at least one.
    pub models: Vec<ModelEntry>,
    /// As long as [`TABLE`].
    origins: Vec<Origin>,
}

impl Resolved {
    /// Where the value of a setting comes from.
    pub fn origin(&self, key: &str) -> Origin {
        let index = TABLE.iter().position(|setting| setting.key() == key);
        index.map_or(Origin::Default, |index| self.origins[index].clone())
    }
}

/// The settings that the sources give together.
///
/// # Errors
///
/// Everything that is wrong: values, unknown keys and variables of any source, and settings that
/// contradict each other.
pub fn resolve(sources: &Sources<'_>) -> Result<Resolved, SettingsError> {
    let mut found = Layers::new(sources.built_in);
    if let Some((path, text)) = sources.file {
        found.file(path, text);
    }
    let has_keys = found.env(sources.env);
    found.flags(sources.flags);
    let Layers { settings, origins, models, mut problems } = found;
    let models = models.finish(&mut problems);
    let mut resolved = Resolved { settings, models, origins };
    if resolved.origin("queue_reserve") == Origin::Default {
        // Nobody chose it: a short queue has a short reserve.
        let settings = &mut resolved.settings;
        settings.queue_reserve = settings.queue_reserve.min(settings.queue_texts / 8);
    }
    // Whether the file has a key in it is seen when it is read.
    let has_keys = has_keys || resolved.settings.api_key_file.is_some();
    let contradictions =
        check::contradictions(&resolved.settings, has_keys, |key| resolved.origin(key));
    // What is a default only because the value that was given is wrong contradicts nothing.
    let wrong = |key: &str| {
        problems
            .iter()
            .any(|problem| matches!(problem, Problem::Value { key: other, .. } if other == key))
    };
    let contradictions: Vec<Problem> = contradictions
        .into_iter()
        .filter(|problem| !keys_of(problem).iter().any(|key| wrong(key)))
        .collect();
    problems.extend(contradictions);
    SettingsError::unless(problems, resolved)
}

/// Whether a variable is one that Kubernetes sets in every container for a service called `embed-serve`.
fn is_service_link(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or(name);
    ["SERVICE_HOST", "SERVICE_PORT", "PORT"].iter().any(|known| {
        rest.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    })
}

/// The settings that a contradiction is about.
fn keys_of(problem: &Problem) -> Vec<&str> {
    match problem {
        Problem::Contradiction { one, other, .. } => {
            [one, other].into_iter().filter_map(|told| told.split(' ').next()).collect()
        }
        Problem::Open { .. } => vec!["listen", "insecure", "api_key_file"],
        Problem::NoKey { .. } => vec!["metrics_key", "api_key_file"],
        _ => Vec::new(),
    }
}

/// The sources so far, the weakest first.
struct Layers<'a> {
    settings: Settings,
    origins: Vec<Origin>,
    models: Found<'a>,
    problems: Vec<Problem>,
}

impl<'a> Layers<'a> {
    fn new(built_in: &'a str) -> Self {
        Self {
            settings: Settings::default(),
            origins: vec![Origin::Default; TABLE.len()],
            models: Found::new(built_in),
            problems: Vec::new(),
        }
    }

    /// Sets the setting at `index` of the table; `found` is shown if the text is wrong.
    fn set(&mut self, index: usize, text: Option<&str>, found: impl fmt::Display, origin: Origin) {
        let setting = &TABLE[index];
        match text.and_then(|text| setting.kind().set(&mut self.settings, text)) {
            Some(()) => self.origins[index] = origin,
            None => self.problems.push(Problem::Value {
                key: setting.key().to_owned(),
                origin,
                expected: setting.kind().expected(),
                found: found.to_string(),
            }),
        }
    }

    fn file(&mut self, path: &Path, text: &str) {
        let file = path.to_owned();
        let table: Table = match text.parse() {
            Ok(table) => table,
            Err(error) => {
                let error: toml::de::Error = error;
                let before = error.span().and_then(|span| text.get(..span.start));
                let line = before.unwrap_or_default().matches('\n').count() + 1;
                let message = error.message().to_owned();
                self.problems.push(Problem::Toml { file, line, message });
                return;
            }
        };
        let origin = Origin::File(file.clone());
        for (key, value) in &table {
            if key == models::KEY {
                self.models.file(value, &origin, &mut self.problems);
            } else if let Some(index) = TABLE.iter().position(|setting| setting.key() == key) {
                let text = TABLE[index].kind().text_of(value);
                self.set(index, text.as_deref(), value, origin.clone());
            } else {
                let keys = TABLE.iter().map(Setting::key).chain([models::KEY]);
                let nearest = nearest(key, keys.map(str::to_owned));
                let key = key.clone();
                self.problems.push(Problem::UnknownKey { file: file.clone(), key, nearest });
            }
        }
    }

    /// Whether there are keys among the variables.
    fn env(&mut self, env: &[(OsString, OsString)]) -> bool {
        let mut has_keys = false;
        // In the order of their names: the system's own order is none.
        let mut env: Vec<_> =
            env.iter().filter_map(|(name, value)| Some((name.to_str()?, value))).collect();
        env.sort_unstable();
        for (name, value) in env {
            if name == KEYS_VARIABLE {
                has_keys = !value.is_empty();
            }
            if !name.starts_with(PREFIX) || name == CONFIG_VARIABLE || is_service_link(name) {
                continue;
            }
            let origin = Origin::Variable(name.to_owned());
            let text = value.to_str();
            if let Some(index) = TABLE.iter().position(|setting| setting.variable() == name) {
                self.set(index, text, format!("{:?}", value.to_string_lossy()), origin);
                continue;
            }
            let Some(text) = text else {
                let expected = "text in UTF-8".to_owned();
                let (key, found) = (name.to_owned(), format!("{:?}", value.to_string_lossy()));
                self.problems.push(Problem::Value { key, origin, expected, found });
                continue;
            };
            let items: Vec<&str> = items(text).collect();
            match name {
                MODELS_VARIABLE => self.models.replace(&items, &origin),
                ALIASES_VARIABLE => self.models.alias(&items, &origin, &mut self.problems),
                _ => {
                    let others = [MODELS_VARIABLE, ALIASES_VARIABLE, CONFIG_VARIABLE];
                    let variables = TABLE.iter().map(Setting::variable);
                    let nearest = nearest(name, variables.chain(others.map(str::to_owned)));
                    let variable = name.to_owned();
                    self.problems.push(Problem::UnknownVariable { variable, nearest });
                }
            }
        }
        has_keys
    }

    fn flags(&mut self, flags: &Flags) {
        for (key, text) in &flags.settings {
            let index = TABLE.iter().position(|setting| setting.key() == *key);
            let index = index.expect("flags are made from the table");
            let origin = Origin::Flag(format!("--{}", TABLE[index].flag()));
            self.set(index, Some(text), format!("{text:?}"), origin);
        }
        let models: Vec<&str> = flags.models.iter().map(String::as_str).collect();
        let aliases: Vec<&str> = flags.aliases.iter().map(String::as_str).collect();
        self.models.replace(&models, &Origin::Flag("--model".to_owned()));
        self.models.alias(&aliases, &Origin::Flag("--alias".to_owned()), &mut self.problems);
    }
}

#[cfg(test)]
mod tests;
