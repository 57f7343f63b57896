//! The settings.

use std::borrow::Cow;

/// A setting that can stand in the file, in a variable of the environment, and, for some, on the command
/// line.
#[derive(Clone, Debug)]
pub struct Key {
    /// The path in the file: `lease` above all tables, `tls.cert` as `cert` in `[tls]`.
    pub path: Cow<'static, str>,
    /// The default as TOML; none if the setting is not set by default.
    pub default: Option<Cow<'static, str>>,
    /// The option of the command line, such as `--lease`.
    pub flag: Option<&'static str>,
    /// Whether a running server takes a new value on SIGHUP.
    pub reloads: bool,
}

impl Key {
    pub(crate) fn new(path: &'static str, default: &'static str) -> Self {
        Self { path: Cow::Borrowed(path), default: Some(Cow::Borrowed(default)), flag: None, reloads: false }
    }

    /// A key that is not set by default.
    pub(crate) fn unset(path: &'static str) -> Self {
        Self { path: Cow::Borrowed(path), default: None, flag: None, reloads: false }
    }

    pub(crate) fn flag(self, flag: &'static str) -> Self {
        Self { flag: Some(flag), ..self }
    }

    /// A key that a running server takes anew.
    pub(crate) fn reloads(self) -> Self {
        Self { reloads: true, ..self }
    }

    /// What the variable is likely to be written as, each with the variable itself: by the path, or by the
    /// option.
    pub(crate) fn likely_variables(&self) -> impl Iterator<Item = (String, String)> {
        let of_option = |flag: &str| {
            let option = flag.trim_start_matches('-').to_uppercase().replace('-', "_");
            format!("LOCKHOUSE_{option}")
        };
        [Some(self.variable()), self.flag.map(of_option)]
            .into_iter()
            .flatten()
            .map(|like| (like, self.variable()))
    }

    /// The variable of the environment: `LOCKHOUSE_` and the path in capitals, with `_` for the dot.
    pub fn variable(&self) -> String {
        format!("LOCKHOUSE_{}", self.path.to_uppercase().replace('.', "_"))
    }
}
