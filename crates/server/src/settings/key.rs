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

    /// The variable of the environment: `LOCKHOUSE_` and the path in capitals, with `_` for the dot.
    pub fn variable(&self) -> String {
        format!("LOCKHOUSE_{}", self.path.to_uppercase().replace('.', "_"))
    }
}
