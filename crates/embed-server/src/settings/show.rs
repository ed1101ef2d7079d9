//! The settings as a file that could be given.

use std::fmt::Write as _;

use super::{Group, Resolved, Setting, TABLE};

impl Resolved {
    /// Every setting and model as TOML, each with its origin in a comment. There is no key of a caller in it.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for group in Group::ALL {
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}# {}", group.title());
            for (setting, origin) in
                settings_of(group).map(|setting| (setting, self.origin(setting.key())))
            {
                let value = setting.kind().toml(&self.settings);
                let _ = writeln!(
                    text,
                    "{} = {value}  # {}",
                    setting.key(),
                    comment(&origin.to_string())
                );
            }
        }
        for model in &self.models {
            let string = |text: &str| toml::Value::String(text.to_owned());
            let aliases = model.aliases.iter().map(|alias| string(alias)).collect();
            let origin = comment(&model.origin.to_string());
            let _ = writeln!(text, "\n[[models]]  # {origin}");
            let _ = writeln!(text, "name = {}", string(&model.name));
            let _ = writeln!(text, "path = {}", string(model.place.text()));
            let _ = writeln!(text, "aliases = {}", toml::Value::Array(aliases));
        }
        text
    }
}

fn settings_of(group: Group) -> impl Iterator<Item = &'static Setting> {
    TABLE.iter().filter(move |setting| setting.group() == group)
}

/// A comment ends with its line.
fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
