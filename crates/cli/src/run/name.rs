//! Resource names on the command line.

use std::ffi::OsStr;

use lockhouse::{LockType, NameBuf, RecordKind};
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

/// Tells that the name is not the one of the record that is written so, if it is not: a record with a space,
/// say, has another.
pub(super) fn other_record(name: &NameBuf) -> Option<String> {
    let (kind, id) = name.as_name().as_str().and_then(|text| text.split_once('/'))?;
    let record = RecordKind::new(kind, LockType::ReadWrite).record(id);
    let is_another = record.name() != name.as_name() && !id.contains('%');
    let [name, other] = [name.as_name(), record.name()].map(|name| name.display().into_owned());
    is_another.then(|| format!("{name:?} is a name of its own; the name of the record {name:?} is {other:?}"))
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
