//! Strings of JSON, read by code of the tests' own.

/// The 16-bit units of a string of JSON, as JavaScript would have them; `None` if the text is no such string.
/// <https://www.rfc-editor.org/rfc/rfc8259#section-7>
pub(crate) fn units(text: &str) -> Option<Vec<u16>> {
    let text = text.trim_matches([' ', '\t', '\n', '\r']);
    let mut rest = text.strip_prefix('"')?.strip_suffix('"')?.chars();
    let mut units = Vec::new();
    while let Some(c) = rest.next() {
        match c {
            '"' | '\0'..='\x1F' => return None,
            '\\' => units.push(match rest.next()? {
                c @ ('"' | '\\' | '/') => c as u16,
                'b' => 8,
                'f' => 12,
                'n' => 10,
                'r' => 13,
                't' => 9,
                'u' => (0..4).try_fold(0, |unit, _| Some(unit << 4 | rest.next()?.to_digit(16)? as u16))?,
                _ => return None,
            }),
            c => units.extend_from_slice(c.encode_utf16(&mut [0; 2])),
        }
    }
    Some(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_its_units() {
        assert_eq!(
            units(r#" "a\u00e9\ud800\/😀\n" "#).unwrap(),
            [0x61, 0xE9, 0xD800, 0x2F, 0xD83D, 0xDE00, 10]
        );
        for none in ["", "\"", "a", "\"\\\"", "\"\\x\"", "\"\\u12g4\"", "\"a\"b\"", "\"\n\""] {
            assert_eq!(units(none), None, "{none}");
        }
    }
}
