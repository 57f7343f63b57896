//! Resource names on the command line.

use std::ffi::OsStr;

use lockhouse::NameBuf;
use lockhouse_wire as wire;

/// Reads a name as it stands or, for names that arguments cannot hold, as a JSON string.
pub(super) fn parse(argument: &OsStr, is_json: bool) -> Result<NameBuf, String> {
    let Some(text) = argument.to_str() else {
        let rule = "it must be UTF-8; other names can be given with --name-json";
        return Err(format!("name: {}, but {rule}", argument.to_string_lossy().escape_debug()));
    };
    if is_json {
        wire::name_from_json(text).map_err(|problem| problem.to_string())
    } else {
        NameBuf::new(text).map_err(|invalid| format!("name: {text:?}, but {invalid}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_gives_names_that_arguments_cannot_hold() {
        let name = parse(OsStr::new(r#""\ud800\u0000é""#), true).unwrap();
        assert_eq!(name.as_name().units().collect::<Vec<_>>(), [0xD800, 0, 0xE9]);
        assert_eq!(parse(OsStr::new("\"x\""), false).unwrap(), NameBuf::new("\"x\"").unwrap());
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_rule() {
        let refused = |text: &str, is_json| parse(OsStr::new(text), is_json).unwrap_err();
        assert_eq!(refused("-x", false), "name: \"-x\", but names that begin with \"-\" are reserved");
        assert_eq!(
            refused(r#""-x""#, true),
            "name is \"-x\", but must be a name that does not begin with \"-\""
        );
        assert_eq!(refused("x", true), "name is x, but must be a JSON string");
        assert_eq!(refused("[]", true), "name is [], but must be a JSON string");
    }
}
