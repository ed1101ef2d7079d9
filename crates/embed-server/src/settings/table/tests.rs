//! Tests that the table has every field, and that nothing in it goes astray.

use super::*;

/// The fields of the settings with their values, as `Debug` has them.
fn fields(settings: &Settings) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in format!("{settings:#?}").lines() {
        let name = line.strip_prefix("    ").filter(|rest| !rest.starts_with([' ', '}', ']', ')']));
        match (name.and_then(|rest| rest.split_once(": ")), fields.last_mut()) {
            (Some((name, value)), _) => fields.push((name.to_owned(), value.to_owned())),
            (None, Some((_, value))) => value.push_str(line),
            (None, None) => {}
        }
    }
    fields
}

/// A value that is not the default.
fn another(setting: &Setting) -> &'static str {
    match setting.kind {
        Kind::Listen(_) => "unix:/a",
        Kind::Switch(_) if setting.default_text() == "true" => "false",
        Kind::Switch(_) => "true",
        Kind::Path(_) => "/a/b",
        Kind::Hosts(_) => "a:1,b",
        Kind::Origins(_) => "https://a,http://b:1",
        Kind::TokenIds(_) => "native",
        Kind::EmptyInput(_) => "zero",
        Kind::Bytes(..) => "12345",
        Kind::Count(..) => "77",
        Kind::Threads(_) => "3",
        Kind::Duration(..) => "1234ms",
    }
}

#[test]
fn every_field_is_in_the_table_once() {
    let mut names: Vec<String> =
        fields(&Settings::default()).into_iter().map(|(name, _)| name).collect();
    let mut keys: Vec<&str> = TABLE.iter().map(Setting::key).collect();
    names.sort();
    keys.sort_unstable();
    assert_eq!(names, keys);
}

#[test]
fn the_table_is_in_the_order_of_its_groups() {
    let groups: Vec<Group> = TABLE.iter().map(Setting::group).collect();
    let in_order =
        Group::ALL.iter().flat_map(|group| groups.iter().filter(move |other| *other == group));
    assert_eq!(groups, in_order.copied().collect::<Vec<_>>());
}

#[test]
fn a_value_goes_to_the_field_of_its_key_and_to_no_other() {
    let default = fields(&Settings::default());
    for setting in TABLE {
        let mut settings = Settings::default();
        let text = another(setting);
        assert_eq!(setting.kind.set(&mut settings, text), Some(()), "{}", setting.key);
        assert_eq!(setting.text(&settings), text, "{}", setting.key);
        let changed: Vec<String> = default
            .iter()
            .zip(fields(&settings))
            .filter(|(before, after)| *before != after)
            .map(|((name, _), _)| name.clone())
            .collect();
        assert_eq!(changed, [setting.key]);
        assert_eq!(setting.kind.text_of(&setting.kind.toml(&settings)).as_deref(), Some(text));
    }
}

#[test]
fn defaults_are_values_that_could_be_given() {
    for setting in TABLE {
        let mut settings = Settings::default();
        assert_eq!(setting.kind.set(&mut settings, &setting.default_text()), Some(()));
        assert_eq!(settings, Settings::default(), "{}", setting.key);
        let toml = setting.kind.toml(&settings);
        assert_eq!(setting.kind.text_of(&toml), Some(setting.default_text()), "{}", setting.key);
    }
}

#[test]
fn help_ends_without_a_full_stop_and_begins_with_a_capital() {
    for setting in TABLE {
        let help = setting.help;
        assert!(help.starts_with(|c: char| c.is_ascii_uppercase()), "{help}");
        assert!(!help.ends_with('.') && !help.contains('|'), "{help}");
    }
}

#[test]
fn limits_hold() {
    for (key, right, wrong) in [
        ("body_bytes", &["1", "1GiB"][..], &["0", "1025MiB", "", "x", "-1"][..]),
        ("json_depth", &["1", "127"], &["0", "128"]),
        ("queue_reserve", &["0"], &["-1", "1.0"]),
        ("threads", &["1", "1024", "auto"], &["0", "1025", "all"]),
        ("keep_alive", &["1ms", "24h"], &["0s", "25h", "10"]),
        ("drain", &["0s"], &["never"]),
        ("docs", &["true", "false"], &["yes", "1", ""]),
        ("cors_origins", &["", "https://a"], &["*", "https://a,b"]),
        ("token_ids", &["cl100k"], &["CL100K", ""]),
    ] {
        let setting = Setting::find(key).expect("a key");
        let set = |text: &&&str| setting.kind.set(&mut Settings::default(), text).is_some();
        assert!(right.iter().all(|text| set(&text)), "{key}");
        assert!(!wrong.iter().any(|text| set(&text)), "{key}");
    }
}
