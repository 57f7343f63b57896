//! Resource names as callers give them.

use lockhouse_core::{InvalidName, Name, NameBuf};

/// Anything that can be a resource name. Whether it is one is found out by the request.
#[derive(Clone, Copy, Debug)]
pub struct NameArg<'a>(Result<Name<'a>, InvalidName>);

impl<'a> NameArg<'a> {
    #[inline]
    pub(crate) fn get(self) -> Result<Name<'a>, InvalidName> {
        self.0
    }
}

impl<'a> From<&'a str> for NameArg<'a> {
    #[inline]
    fn from(text: &'a str) -> Self {
        Self(Name::new(text))
    }
}

impl<'a> From<&'a String> for NameArg<'a> {
    fn from(text: &'a String) -> Self {
        Self(Name::new(text))
    }
}

impl<'a> From<Name<'a>> for NameArg<'a> {
    fn from(name: Name<'a>) -> Self {
        Self(Ok(name))
    }
}

impl<'a> From<&'a NameBuf> for NameArg<'a> {
    fn from(name: &'a NameBuf) -> Self {
        Self(Ok(name.as_name()))
    }
}
