//! Which models are served, and under which names.
//!
//! Where a model lies is a word for whoever opens it: nothing here looks at a file.

use std::collections::HashSet;

use toml::Table;

use super::error::nearest;
use super::{Origin, Problem};

/// One model that is to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelEntry {
    /// What requests call it.
    pub name: String,
    /// Where it is.
    pub place: ModelPlace,
    /// What requests may call it too.
    pub aliases: Vec<String>,
    /// Where it was asked for.
    pub origin: Origin,
}

/// Where a model is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelPlace {
    /// Within the program.
    BuiltIn,
    /// A folder, or the name of a repository.
    Named(String),
}

/// The word for the model within the program; a folder of that name is `./built-in`.
const BUILT_IN: &str = "built-in";

impl ModelPlace {
    fn new(text: &str) -> Self {
        if text == BUILT_IN { Self::BuiltIn } else { Self::Named(text.to_owned()) }
    }

    /// As it was given.
    pub fn text(&self) -> &str {
        match self {
            Self::BuiltIn => BUILT_IN,
            Self::Named(text) => text,
        }
    }
}

/// A longer name would be a slip, and it stands in every answer and metric.
const LONGEST_NAME: usize = 200;

/// The models and aliases that the sources name.
#[derive(Debug)]
pub(super) struct Found<'a> {
    built_in: &'a str,
    models: Vec<ModelEntry>,
    /// Alias, name, origin: what was given apart from the model.
    aliases: Vec<(String, String, Origin)>,
}

impl<'a> Found<'a> {
    /// None yet; `built_in` is the name of the model within the program.
    pub(super) fn new(built_in: &'a str) -> Self {
        Self { built_in, models: Vec::new(), aliases: Vec::new() }
    }

    /// The `[[models]]` of a file.
    pub(super) fn file(
        &mut self,
        value: &toml::Value,
        origin: &Origin,
        problems: &mut Vec<Problem>,
    ) {
        let tables = value.as_array().and_then(|values| {
            values.iter().map(toml::Value::as_table).collect::<Option<Vec<&Table>>>()
        });
        let Some(tables) = tables else {
            problems.push(wrong(
                KEY,
                origin,
                "`[[models]]` with `path`, `name` and `aliases`",
                value,
            ));
            return;
        };
        for table in tables {
            self.table(table, origin, problems);
        }
    }

    fn table(&mut self, table: &Table, origin: &Origin, problems: &mut Vec<Problem>) {
        let (mut name, mut place, mut aliases) = (None, None, Vec::new());
        for (key, value) in table {
            match (key.as_str(), value) {
                ("name", toml::Value::String(text)) => name = Some(text.clone()),
                ("path", toml::Value::String(text)) => place = Some(text.as_str()),
                ("aliases", toml::Value::Array(values))
                    if values.iter().all(toml::Value::is_str) =>
                {
                    aliases
                        .extend(values.iter().filter_map(toml::Value::as_str).map(str::to_owned));
                }
                ("name" | "path", _) => {
                    problems.push(wrong(&format!("{KEY}.{key}"), origin, "text", value));
                }
                ("aliases", _) => {
                    problems.push(wrong("models.aliases", origin, "a list of names", value));
                }
                _ => {
                    let keys = ["name", "path", "aliases"].map(|key| format!("{KEY}.{key}"));
                    let key = format!("{KEY}.{key}");
                    let nearest = nearest(&key, keys);
                    problems.push(Problem::UnknownKey { file: origin.file(), key, nearest });
                }
            }
        }
        match place {
            Some(place) => self.push(name, place, aliases, origin),
            None if table.contains_key("path") => {}
            None => {
                let table = toml::Value::Table(table.clone());
                problems.push(wrong(KEY, origin, "each model to have a `path`", &table));
            }
        }
    }

    /// Models as `NAME=PLACE` or `PLACE`, which take the place of those that were found before.
    pub(super) fn replace(&mut self, models: &[&str], origin: &Origin) {
        if !models.is_empty() {
            self.models.clear();
        }
        for model in models {
            let (name, place) = match model.split_once('=') {
                Some((name, place)) => (Some(name.to_owned()), place),
                None => (None, *model),
            };
            self.push(name, place, Vec::new(), origin);
        }
    }

    /// Aliases as `ALIAS=NAME`, beside those that were found before.
    pub(super) fn alias(&mut self, aliases: &[&str], origin: &Origin, problems: &mut Vec<Problem>) {
        for text in aliases {
            match text.split_once('=') {
                Some((alias, name)) => {
                    self.aliases.push((alias.to_owned(), name.to_owned(), origin.clone()));
                }
                None => problems.push(Problem::Value {
                    key: "alias".to_owned(),
                    origin: origin.clone(),
                    expected: "`ALIAS=NAME`".to_owned(),
                    found: format!("{text:?}"),
                }),
            }
        }
    }

    fn push(&mut self, name: Option<String>, place: &str, aliases: Vec<String>, origin: &Origin) {
        let place = ModelPlace::new(place);
        let name = name.unwrap_or_else(|| match &place {
            ModelPlace::BuiltIn => self.built_in.to_owned(),
            ModelPlace::Named(place) => name_of(place).to_owned(),
        });
        self.models.push(ModelEntry { name, place, aliases, origin: origin.clone() });
    }

    /// The models with all their aliases; the one within the program if none was asked for.
    pub(super) fn finish(mut self, problems: &mut Vec<Problem>) -> Vec<ModelEntry> {
        if self.models.is_empty() {
            self.push(None, BUILT_IN, Vec::new(), &Origin::Default);
        }
        let mut taken = HashSet::new();
        let mut take = |name: &str, origin: &Origin, problems: &mut Vec<Problem>| {
            if let Some(reason) = fault(name) {
                let (name, origin) = (name.to_owned(), origin.clone());
                problems.push(Problem::ModelName { name, origin, reason });
            } else if !taken.insert(name.to_owned()) {
                let (name, origin) = (name.to_owned(), origin.clone());
                problems.push(Problem::TakenName { name, origin });
            }
        };
        for model in &self.models {
            if model.place.text().is_empty() {
                let found = toml::Value::String(model.name.clone() + "=");
                problems.push(wrong(KEY, &model.origin, "`NAME=PLACE` or `PLACE`", &found));
            }
            for name in std::iter::once(&model.name).chain(&model.aliases) {
                take(name, &model.origin, problems);
            }
        }
        for (alias, target, origin) in self.aliases {
            take(&alias, &origin, problems);
            if let Some(model) = self.models.iter_mut().find(|model| model.name == target) {
                model.aliases.push(alias);
                continue;
            }
            let names = self.models.iter().map(|model| format!("{:?}", model.name));
            let served = names.collect::<Vec<_>>().join(", ");
            problems.push(Problem::UnknownTarget { alias, target, served, origin });
        }
        self.models
    }
}

pub(super) const KEY: &str = "models";

fn wrong(key: &str, origin: &Origin, expected: &str, found: &toml::Value) -> Problem {
    let (key, origin) = (key.to_owned(), origin.clone());
    Problem::Value { key, origin, expected: expected.to_owned(), found: found.to_string() }
}

/// The name of a model that was given none: `ORG/NAME` of a repository, without the revision, or the last
/// part of a path.
fn name_of(place: &str) -> &str {
    let is_path = place.starts_with(['.', '/', '~', '\\']) || place.matches('/').count() != 1;
    if is_path || place.ends_with('/') {
        let place = place.trim_end_matches('/');
        return place.rsplit('/').next().unwrap_or(place);
    }
    place.split_once('@').map_or(place, |(repository, _)| repository)
}

/// Why `name` cannot be the name of a model.
fn fault(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("it is empty");
    }
    if matches!(name, "." | "..") {
        return Some("it is a part of a path: give one with NAME=PLACE");
    }
    if name.len() > LONGEST_NAME {
        return Some("it is longer than 200 bytes");
    }
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    name.contains(is_odd).then_some("there is a blank or a control character in it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_without_a_name_is_called_by_its_place() {
        for (place, name) in [
            ("./models/small", "small"),
            ("/models/small/", "small"),
            ("small", "small"),
            ("a/b/small", "small"),
            ("../small", "small"),
            ("small/", "small"),
            ("minishlab/potion-base-8M", "minishlab/potion-base-8M"),
            ("minishlab/potion-base-8M@abc", "minishlab/potion-base-8M"),
        ] {
            assert_eq!(name_of(place), name, "{place}");
        }
    }

    #[test]
    fn odd_names_are_refused() {
        for name in ["", " ", "a b", "a\n", ".", "..", &"a".repeat(201)] {
            assert!(fault(name).is_some(), "{name:?}");
        }
        for name in ["a", "nomic-embed-text:latest", "org/name", "größe", &"a".repeat(200)] {
            assert_eq!(fault(name), None, "{name:?}");
        }
    }
}
