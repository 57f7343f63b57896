//! The members of an answer on which a command relies. An answer without one of them is of another program,
//! or of a fault: a default in its place would tell of a success that no server has promised.

use serde_json::Value;

/// The type of a member.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A string.
    Text,
    /// A string that is not empty.
    Word,
    /// An integer of at least 0.
    Number,
    /// True or false.
    Flag,
    /// An array of objects with these members.
    List(Promised),
}

/// The members that an answer must have, by name. It may have more.
pub type Promised = &'static [(&'static str, Shape)];

/// Whether this is an object with these members.
pub(crate) fn has(answer: &Value, members: Promised) -> bool {
    answer.is_object() && members.iter().all(|(name, shape)| shape.fits(&answer[*name]))
}

impl Shape {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Word => value.as_str().is_some_and(|text| !text.is_empty()),
            Self::Number => value.is_u64(),
            Self::Flag => value.is_boolean(),
            Self::List(members) => {
                value.as_array().is_some_and(|list| list.iter().all(|item| has(item, members)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LOCKS: Promised = &[("owner", Shape::Word), ("locks", Shape::List(&[("token", Shape::Number)]))];

    #[test]
    fn an_answer_has_all_members_as_they_are_promised() {
        assert!(has(&json!({"owner": "1", "locks": [{"token": 7, "more": null}]}), LOCKS));
        assert!(has(&json!({"owner": "1", "locks": []}), LOCKS));
        for other in [
            json!(null),
            json!([]),
            json!({}),
            json!({"owner": "1"}),
            json!({"owner": "", "locks": []}),
            json!({"owner": "1", "locks": {}}),
            json!({"owner": "1", "locks": [7]}),
            json!({"owner": "1", "locks": [{"token": "7"}]}),
            json!({"owner": "1", "locks": [{"token": -7}]}),
        ] {
            assert!(!has(&other, LOCKS), "{other}");
        }
    }
}
