//! Where the cache is, whom to ask, and whether to ask at all.

use std::env;
use std::fs;
use std::path::PathBuf;

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// Settings of the hub.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// The folder that holds `models--ORG--NAME` folders.
    pub cache: PathBuf,
    /// Base address of the hub, without a slash at the end.
    pub endpoint: String,
    /// Sent as a bearer token.
    pub token: Option<String>,
    /// Never touch the network.
    pub offline: bool,
}

impl Settings {
    /// Reads the environment variables that Python's `huggingface_hub` reads.
    ///
    /// | what | from, in order |
    /// | --- | --- |
    /// | cache | `HF_HUB_CACHE`, `HUGGINGFACE_HUB_CACHE`, `HF_HOME/hub`, `XDG_CACHE_HOME/huggingface/hub`, `~/.cache/huggingface/hub` |
    /// | endpoint | `HF_ENDPOINT`, `https://huggingface.co` |
    /// | token | `HF_TOKEN`, `HUGGING_FACE_HUB_TOKEN`, the file `HF_TOKEN_PATH` or `token` beside the cache in `HF_HOME` |
    /// | offline | `HF_HUB_OFFLINE` is `1`, `ON`, `YES` or `TRUE` |
    pub fn from_env() -> Self {
        Self::from_variables(|name| env::var(name).ok())
    }

    /// [`from_env`](Self::from_env) with the variables given by a function. An empty variable counts
    /// as not set.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let path = |name: &str| set(name).map(PathBuf::from);

        let home = path("HOME").or_else(env::home_dir).unwrap_or_default();
        let hf_home = path("HF_HOME").unwrap_or_else(|| {
            path("XDG_CACHE_HOME").unwrap_or_else(|| home.join(".cache")).join("huggingface")
        });
        let cache = path("HF_HUB_CACHE")
            .or_else(|| path("HUGGINGFACE_HUB_CACHE"))
            .unwrap_or_else(|| hf_home.join("hub"));
        let token_file = path("HF_TOKEN_PATH").unwrap_or_else(|| hf_home.join("token"));
        let token = set("HF_TOKEN")
            .or_else(|| set("HUGGING_FACE_HUB_TOKEN"))
            .or_else(|| fs::read_to_string(token_file).ok())
            .map(|token| token.trim().to_owned())
            .filter(|token| !token.is_empty());
        let endpoint = set("HF_ENDPOINT").unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        let offline = set("HF_HUB_OFFLINE").is_some_and(|value| {
            ["1", "on", "yes", "true"].contains(&value.to_ascii_lowercase().as_str())
        });
        Self { cache, endpoint: endpoint.trim_end_matches('/').to_owned(), token, offline }
    }
}

/// Everything but the token itself.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("cache", &self.cache)
            .field("endpoint", &self.endpoint)
            .field("token", &self.token.as_ref().map(|_| "set"))
            .field("offline", &self.offline)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Settings {
        Settings::from_variables(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[track_caller]
    fn check_cache(variables: &[(&str, &str)], expected: &str) {
        assert_eq!(settings(variables).cache, Path::new(expected));
    }

    #[test]
    fn the_most_specific_variable_decides_on_the_cache() {
        check_cache(&[("HOME", "/h")], "/h/.cache/huggingface/hub");
        check_cache(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")], "/x/huggingface/hub");
        check_cache(&[("HF_HOME", "/f"), ("XDG_CACHE_HOME", "/x")], "/f/hub");
        check_cache(&[("HF_HOME", "/f"), ("HUGGINGFACE_HUB_CACHE", "/g")], "/g");
        check_cache(&[("HF_HUB_CACHE", "/c"), ("HUGGINGFACE_HUB_CACHE", "/g")], "/c");
        check_cache(&[("HF_HUB_CACHE", ""), ("HF_HOME", "/f")], "/f/hub");
    }

    #[test]
    fn offline_takes_the_usual_words() {
        for (value, offline) in
            [("1", true), ("TRUE", true), ("yes", true), ("0", false), ("", false)]
        {
            assert_eq!(settings(&[("HF_HUB_OFFLINE", value)]).offline, offline, "{value:?}");
        }
    }

    #[test]
    fn the_token_is_found_and_never_shown() -> std::io::Result<()> {
        let home = tempfile::tempdir()?;
        fs::write(home.path().join("token"), "from-file\n")?;
        let home = home.path().to_str().expect("UTF-8");
        assert_eq!(settings(&[("HF_HOME", home)]).token.as_deref(), Some("from-file"));
        let both = settings(&[("HF_HOME", home), ("HF_TOKEN", "from-variable")]);
        assert_eq!(both.token.as_deref(), Some("from-variable"));
        assert!(!format!("{both:?}").contains("from-variable"));
        Ok(())
    }

    #[test]
    fn the_endpoint_loses_its_last_slash() {
        assert_eq!(settings(&[("HF_ENDPOINT", "http://mirror/")]).endpoint, "http://mirror");
        assert_eq!(settings(&[]).endpoint, DEFAULT_ENDPOINT);
    }
}
