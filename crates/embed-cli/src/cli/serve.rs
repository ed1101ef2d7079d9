//! The arguments of `embed serve`, made from the table of the server's settings.
//!
//! Values are passed on as they are: the server's own rules say what is wrong with them, for all of them at
//! once and in the same words as for a file.

use std::path::PathBuf;

use clap::error::Error;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use embed_server::{CONFIG_VARIABLE, KEYS_VARIABLE, Setting, TABLE};

/// What `embed serve` is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServeArgs {
    pub(crate) config: Option<PathBuf>,
    pub(crate) print_config: bool,
    pub(crate) aliases: Vec<String>,
    /// Keys of settings, and what was given for them.
    pub(crate) settings: Vec<(&'static str, String)>,
}

const CONFIG: &str = "config";
const PRINT_CONFIG: &str = "print_config";
const ALIAS: &str = "alias";

impl FromArgMatches for ServeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |setting: &Setting| {
            let text = matches.get_one::<String>(setting.key())?;
            Some((setting.key(), text.clone()))
        };
        Ok(Self {
            config: matches.get_one(CONFIG).cloned(),
            print_config: matches.get_flag(PRINT_CONFIG),
            aliases: matches.get_many(ALIAS).unwrap_or_default().cloned().collect(),
            settings: TABLE.iter().filter_map(given).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ServeArgs {
    fn augment_args(command: Command) -> Command {
        let command = command
            .after_help(format!(
                "A flag is stronger than its environment variable, which is stronger than the file of --config, \
                 which is stronger than the default. Callers' keys are read from the file of --api-key-file \
                 and from {KEYS_VARIABLE}, never from arguments. SIGTERM and SIGINT end the server once what \
                 was admitted is answered."
            ))
            .arg(
                Arg::new(ALIAS)
                    .long(ALIAS)
                    .value_name("ALIAS=NAME")
                    .action(ArgAction::Append)
                    .help_heading("Model")
                    .help("Another name for the model NAME, such as `text-embedding-3-small=NAME`; may be given again"),
            )
            .arg(
                Arg::new(CONFIG)
                    .long(CONFIG)
                    .value_name("FILE")
                    .value_parser(value_parser!(PathBuf))
                    .help(format!("Read settings and models from this TOML file [env: {CONFIG_VARIABLE}]")),
            )
            .arg(
                Arg::new(PRINT_CONFIG)
                    .long("print-config")
                    .action(ArgAction::SetTrue)
                    .help("Print all settings as such a file, each with where it comes from, and end"),
            );
        command.args(TABLE.iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn argument(setting: &'static Setting) -> Arg {
    let default = match setting.default_text() {
        none if none.is_empty() => String::new(),
        text => format!(" [default: {text}]"),
    };
    let help = format!("{}{default} [env: {}]", setting.help(), setting.variable());
    let argument = Arg::new(setting.key())
        .long(setting.flag())
        .value_name(setting.value_name())
        .help_heading(setting.group().title())
        .help(help);
    if setting.is_switch() {
        argument.num_args(0..=1).require_equals(true).default_missing_value("true")
    } else {
        argument.allow_hyphen_values(true)
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::{Cli, Command};

    fn parse(arguments: &[&str]) -> (ServeArgs, Vec<String>) {
        let all = ["embed", "serve"].iter().chain(arguments);
        let cli = Cli::try_parse_from(all).expect("valid arguments");
        let Command::Serve(args) = cli.command else { panic!("{:?}", cli.command) };
        (args, cli.global.model)
    }

    #[test]
    fn every_setting_is_an_argument_with_its_default_and_its_variable() {
        let mut command = Cli::command();
        let serve = command.find_subcommand_mut("serve").expect("the command");
        let help = serve.render_long_help().to_string();
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for setting in TABLE {
            assert!(words.contains(&format!("--{}", setting.flag())), "{}", setting.key());
            assert!(words.contains(&format!("[env: {}]", setting.variable())), "{}", setting.key());
            let default = setting.default_text();
            assert!(default.is_empty() || words.contains(&format!("[default: {default}]")));
            assert!(words.contains(&format!("{}:", setting.group().title())));
        }
    }

    #[test]
    fn values_are_passed_on_as_they_are() {
        let (args, models) = parse(&[
            "--model",
            "a=x",
            "--alias=b=a",
            "--body-bytes",
            "-1",
            "--model",
            "y",
            "--alias",
            "c=y",
            "--insecure",
            "--docs=false",
            "--config",
            "embed.toml",
        ]);
        assert_eq!(models, ["a=x", "y"]);
        assert_eq!(args.aliases, ["b=a", "c=y"]);
        let expected = [("insecure", "true"), ("docs", "false"), ("body_bytes", "-1")];
        assert_eq!(args.settings, expected.map(|(key, text)| (key, text.to_owned())));
        assert_eq!((args.config, args.print_config), (Some("embed.toml".into()), false));
    }

    #[test]
    fn nothing_is_given_unless_it_is() {
        let (args, models) = parse(&["--print-config"]);
        assert!(args.settings.is_empty() && args.aliases.is_empty() && models.is_empty());
        assert!(args.print_config && args.config.is_none());
    }
}
