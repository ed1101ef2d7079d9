//! Tests of the layers: which source wins, and what is said of each mistake.

use std::fmt::Write as _;

use super::*;
use crate::settings::{Group, Listen, ModelPlace};

/// What the sources give, with a file called `embed.toml`.
fn from(flags: &Flags, env: &[(&str, &str)], file: &str) -> Result<Resolved, SettingsError> {
    let env: Vec<(OsString, OsString)> =
        env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let file = Some((Path::new("embed.toml"), file));
    resolve(&Sources { flags, env: &env, file, built_in: "default" })
}

fn flags(settings: &[(&'static str, &str)]) -> Flags {
    let settings = settings.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
    Flags { settings, ..Flags::default() }
}

fn models(models: &[&str], aliases: &[&str]) -> Flags {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Flags { settings: Vec::new(), models: owned(models), aliases: owned(aliases) }
}

/// Everything that is wrong, a line each.
#[track_caller]
fn check_problems(found: Result<Resolved, SettingsError>, expected: &[&str]) {
    let error = found.expect_err("something is wrong");
    let problems: Vec<String> = error.problems().iter().map(Problem::to_string).collect();
    assert_eq!(problems, expected);
}

#[test]
fn without_a_source_everything_is_the_default() -> Result<(), SettingsError> {
    let flags = Flags::default();
    let resolved = resolve(&Sources { flags: &flags, env: &[], file: None, built_in: "default" })?;
    assert_eq!(resolved.settings, Settings::default());
    assert!(TABLE.iter().all(|setting| resolved.origin(setting.key()) == Origin::Default));
    let [model] = &resolved.models[..] else { panic!("{:?}", resolved.models) };
    assert_eq!((model.name.as_str(), &model.place), ("default", &ModelPlace::BuiltIn));
    Ok(())
}

#[test]
fn a_flag_is_stronger_than_the_environment_and_that_than_a_file() -> Result<(), SettingsError> {
    let file = "max_inputs = 1\njson_depth = 1\nbatch_texts = 1";
    let env = [("EMBED_SERVE_MAX_INPUTS", "2"), ("EMBED_SERVE_JSON_DEPTH", "2"), ("OTHER", "x")];
    let resolved = from(&flags(&[("max_inputs", "3")]), &env, file)?;
    let settings = &resolved.settings;
    assert_eq!((settings.max_inputs, settings.json_depth, settings.batch_texts), (3, 2, 1));
    let origins = ["max_inputs", "json_depth", "batch_texts", "docs"]
        .map(|key| resolved.origin(key).to_string());
    assert_eq!(origins, ["--max-inputs", "EMBED_SERVE_JSON_DEPTH", "embed.toml", "default"]);
    Ok(())
}

#[test]
fn every_type_of_toml_has_its_place() -> Result<(), SettingsError> {
    let file = r#"
        listen = "unix:/run/embed.sock"
        docs = false
        body_bytes = 1048576
        body_bytes_in_flight = "2MiB"
        threads = 3
        drain = "0s"
        cors_origins = ["https://a.example", "http://localhost:3000"]
        token_ids = "native"
    "#;
    let settings = from(&Flags::default(), &[], file)?.settings;
    assert_eq!(settings.listen, Listen::Unix("/run/embed.sock".into()));
    assert_eq!(
        (settings.docs, settings.body_bytes, settings.body_bytes_in_flight),
        (false, 1 << 20, 2 << 20)
    );
    assert_eq!(settings.threads.map(std::num::NonZero::get), Some(3));
    assert!(settings.drain.is_zero());
    assert_eq!(settings.cors_origins, ["https://a.example", "http://localhost:3000"]);
    Ok(())
}

#[test]
fn all_wrong_values_are_told_with_their_origins() {
    let file =
        "docs = \"yes\"\nmax_inputs = 0\nkeep_alive = 75\nallowed_hosts = [1]\nlisten = 8080";
    let env = [("EMBED_SERVE_BODY_BYTES", "16MB")];
    check_problems(
        from(&flags(&[("cors_origins", "*")]), &env, file),
        &[
            "allowed_hosts (embed.toml): expected hosts such as `embed.example` or `embed.example:8080`, found [1]",
            "docs (embed.toml): expected `true` or `false`, found \"yes\"",
            "keep_alive (embed.toml): expected a duration from 1ms to 24h, such as `10s` or `500ms`, found 75",
            "listen (embed.toml): expected an address such as `127.0.0.1:8080`, or `unix:/run/embed.sock`, found 8080",
            "max_inputs (embed.toml): expected a number from 1 to 1000000000, found 0",
            "body_bytes (EMBED_SERVE_BODY_BYTES): expected a size from 1 to 1GiB, such as `16MiB` or `16777216`, found \"16MB\"",
            "cors_origins (--cors-origins): expected exact origins such as `https://app.example`, without a path or `*`, found \"*\"",
        ],
    );
}

#[test]
fn several_problems_stand_below_each_other() {
    let error = from(&Flags::default(), &[], "a = 1\ndocs = 1").expect_err("two mistakes");
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0], "2 settings are wrong:");
    assert!(lines[1].starts_with("  embed.toml: there is no setting `a`"), "{text}");
}

#[test]
fn unknown_keys_and_variables_name_the_nearest() {
    let env = [("EMBED_SERVE_BODYBYTES", "1"), ("EMBED_SERVER_X", "1")];
    let file = "body_byte = 1\nmodel = 1\napi_keys = \"secret\"";
    check_problems(
        from(&Flags::default(), &env, file),
        &[
            "embed.toml: there is no setting `api_keys`; the nearest is `api_key_file`",
            "embed.toml: there is no setting `body_byte`; the nearest is `body_bytes`",
            "embed.toml: there is no setting `model`; the nearest is `models`",
            "EMBED_SERVE_BODYBYTES: there is no such setting; the nearest is `EMBED_SERVE_BODY_BYTES`",
        ],
    );
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_the_line() {
    let error =
        from(&Flags::default(), &[], "docs = true\n\nbody bytes = 1\n").expect_err("not TOML");
    let [Problem::Toml { line: 3, message, .. }] = error.problems() else { panic!("{error:?}") };
    assert!(!message.is_empty() && !message.contains('\n'), "{message}");
    let twice = from(&Flags::default(), &[], "docs = true\ndocs = false\n").expect_err("not TOML");
    assert!(matches!(twice.problems(), [Problem::Toml { line: 2, .. }]), "{twice}");
}

#[test]
fn settings_that_contradict_each_other_are_found() {
    let queue = flags(&[("queue_texts", "512"), ("queue_reserve", "512")]);
    check_problems(
        from(&queue, &[], "body_bytes_in_flight = \"1MiB\""),
        &[
            "body_bytes = 16MiB (default) and body_bytes_in_flight = 1MiB (embed.toml) contradict each other: \
             a body of the largest size could never be read",
            "queue_reserve = 512 (--queue-reserve) and queue_texts = 512 (--queue-texts) contradict each other: \
             nothing would be left of the queue for other requests",
        ],
    );
    let short = from(&flags(&[("queue_texts", "80")]), &[], "").expect("nobody chose a reserve");
    assert_eq!(short.settings.queue_reserve, 10);
    check_problems(
        from(&flags(&[("metrics_key", "true")]), &[], ""),
        &[
            "metrics_key (--metrics-key): there is no key: give keys (--api-key-file, EMBED_API_KEYS)",
        ],
    );
}

#[test]
fn a_wrong_value_is_not_called_a_contradiction_too() {
    check_problems(
        from(&flags(&[("queue_texts", "512"), ("queue_reserve", "x")]), &[], ""),
        &["queue_reserve (--queue-reserve): expected a number from 0 to 1000000000, found \"x\""],
    );
}

#[test]
fn other_machines_need_a_key_or_a_word_that_they_need_none() -> Result<(), SettingsError> {
    let open = [("listen", "0.0.0.0:8080")];
    check_problems(
        from(&flags(&open), &[("EMBED_API_KEYS", "")], ""),
        &["listen = 0.0.0.0:8080 (--listen) is open to other machines and there is no key: \
           give keys (--api-key-file, EMBED_API_KEYS), or say --insecure"],
    );
    from(&flags(&open), &[("EMBED_API_KEYS", "key")], "")?;
    from(&flags(&open), &[], "api_key_file = \"keys\"")?;
    from(&flags(&open), &[], "insecure = true")?;
    Ok(())
}

#[test]
fn models_of_a_file_have_names_and_aliases() -> Result<(), SettingsError> {
    let file = r#"
        [[models]]
        path = "/models/small"
        aliases = ["text-embedding-3-small", "small:latest"]
        [[models]]
        name = "big"
        path = "org/big@abc"
        [[models]]
        path = "built-in"
    "#;
    let resolved = from(&models(&[], &["large=big"]), &[("EMBED_SERVE_ALIASES", "b=big")], file)?;
    let told: Vec<_> = resolved
        .models
        .iter()
        .map(|model| (model.name.as_str(), model.place.text(), model.aliases.join(" ")))
        .collect();
    let expected = [
        ("small", "/models/small", "text-embedding-3-small small:latest".to_owned()),
        ("big", "org/big@abc", "b large".to_owned()),
        ("default", "built-in", String::new()),
    ];
    assert_eq!(told, expected);
    Ok(())
}

#[test]
fn models_of_a_stronger_source_replace_the_others() -> Result<(), SettingsError> {
    let names = |flags: &Flags, env: &[(&str, &str)]| -> Result<Vec<String>, SettingsError> {
        let resolved = from(flags, env, "[[models]]\npath = \"file\"")?;
        Ok(resolved.models.into_iter().map(|model| model.name).collect())
    };
    let env = [("EMBED_SERVE_MODELS", "a=/x, /y/z")];
    assert_eq!(names(&Flags::default(), &[])?, ["file"]);
    assert_eq!(names(&Flags::default(), &env)?, ["a", "z"]);
    assert_eq!(names(&models(&["b=/x=y"], &[]), &env)?, ["b"]);
    Ok(())
}

#[test]
fn wrong_models_are_told() {
    check_problems(
        from(&models(&["=x", "a=", "b=x", "b=y"], &["b=a", "c=d", "e"]), &[], ""),
        &[
            "alias (--alias): expected `ALIAS=NAME`, found \"e\"",
            "--model: \"\" cannot be the name of a model: it is empty",
            "models (--model): expected `NAME=PLACE` or `PLACE`, found \"a=\"",
            "--model: \"b\" is the name or an alias of another model already",
            "--alias: \"b\" is the name or an alias of another model already",
            "--alias: alias \"c\": no model \"d\" is served, only \"\", \"a\", \"b\", \"b\"",
        ],
    );
    check_problems(
        from(&Flags::default(), &[], "models = [1]"),
        &[
            "models (embed.toml): expected `[[models]]` with `path`, `name` and `aliases`, found [1]",
        ],
    );
    check_problems(
        from(&Flags::default(), &[], "[[models]]\nname = 1\nalias = []\naliases = \"x\""),
        &[
            "embed.toml: there is no setting `models.alias`; the nearest is `models.aliases`",
            "models.aliases (embed.toml): expected a list of names, found \"x\"",
            "models.name (embed.toml): expected text, found 1",
            "models (embed.toml): expected each model to have a `path`, found { alias = [], aliases = \"x\", name = 1 }",
        ],
    );
}

#[test]
fn what_is_shown_is_a_file_that_gives_the_same() -> Result<(), SettingsError> {
    let given = flags(&[
        ("api_key_file", "/etc/embed \"keys\""),
        ("cors_origins", "https://a,https://b"),
        ("threads", "7"),
        ("drain", "1500ms"),
        ("docs", "false"),
    ]);
    let given =
        Flags { models: vec!["a=/x".into(), "org/b".into()], aliases: vec!["c=a".into()], ..given };
    for flags in [given, Flags::default()] {
        let resolved = from(&flags, &[("EMBED_SERVE_JSON_DEPTH", "9")], "max_inputs = 5")?;
        let shown = resolved.to_toml();
        for line in [
            "json_depth = 9  # EMBED_SERVE_JSON_DEPTH",
            "max_inputs = 5  # embed.toml",
            "queue_texts = 4096  # default",
        ] {
            assert!(shown.lines().any(|other| other == line), "{line} in {shown}");
        }
        let again = from(&Flags::default(), &[], &shown)?;
        assert_eq!(again.settings, resolved.settings);
        let told = |models: &[ModelEntry]| -> Vec<_> {
            models
                .iter()
                .map(|model| (model.name.clone(), model.place.clone(), model.aliases.clone()))
                .collect()
        };
        assert_eq!(told(&again.models), told(&resolved.models));
        assert!(
            TABLE
                .iter()
                .all(|setting| again.origin(setting.key()) == Origin::File("embed.toml".into()))
        );
    }
    Ok(())
}

/// A table of settings for each group.
fn markdown() -> String {
    let mut text = String::new();
    for group in Group::ALL {
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = write!(
            text,
            "{gap}### {}\n\n| key | flag | environment | default | meaning |\n| --- | --- | --- | --- | --- |\n",
            group.title()
        );
        for setting in TABLE.iter().filter(|setting| setting.group() == group) {
            let default = match setting.default_text() {
                none if none.is_empty() => "none".to_owned(),
                text => format!("`{text}`"),
            };
            let _ = writeln!(
                text,
                "| `{}` | `--{}` | `{}` | {default} | {} |",
                setting.key(),
                setting.flag(),
                setting.variable(),
                setting.help()
            );
        }
    }
    text
}

#[test]
fn the_documentation_has_the_table_of_the_code() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/server.md");
    let document = std::fs::read_to_string(path)?;
    let (_, rest) = document.split_once("<!-- settings -->\n").expect("a marker before");
    let (table, _) = rest.split_once("<!-- end of settings -->\n").expect("a marker after");
    assert!(table.trim() == markdown().trim(), "docs/server.md should have:\n{}", markdown());
    Ok(())
}

#[test]
fn variables_that_kubernetes_sets_for_a_service_are_no_settings() {
    let env = [
        ("EMBED_SERVE_PORT", "tcp://10.0.0.1:80"),
        ("EMBED_SERVE_PORT_80_TCP", "tcp://10.0.0.1:80"),
        ("EMBED_SERVE_SERVICE_HOST", "10.0.0.1"),
        ("EMBED_SERVE_SERVICE_PORT_HTTP", "80"),
    ];
    assert!(from(&Flags::default(), &env, "").is_ok());
    assert!(from(&Flags::default(), &[("EMBED_SERVE_PORTS", "80")], "").is_err());
}
