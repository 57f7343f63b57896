//! The kinds of secrets, and the signs of them in a server's output.

/// A kind of secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An API key.
    ApiKey,
    /// A JSON Web Token.
    Token,
    /// The key that signs tokens.
    SigningKey,
    /// The proof of the owner of offline locks.
    OwnerSecret,
    /// The proof of the claimant.
    ClaimToken,
    /// The proof of a granted web lock.
    Ticket,
    /// The secret that resumes a session.
    SessionSecret,
    /// The proof of the permission to read the database.
    OperatorSecret,
    /// The key of a certificate.
    PrivateKey,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::ApiKey,
        Self::Token,
        Self::SigningKey,
        Self::OwnerSecret,
        Self::ClaimToken,
        Self::Ticket,
        Self::SessionSecret,
        Self::OperatorSecret,
        Self::PrivateKey,
    ];

    /// The name of the kind in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::ApiKey => "API key",
            Self::Token => "token",
            Self::SigningKey => "signing key",
            Self::OwnerSecret => "owner's secret",
            Self::ClaimToken => "token of a claim",
            Self::Ticket => "ticket",
            Self::SessionSecret => "secret of a session",
            Self::OperatorSecret => "operator's secret",
            Self::PrivateKey => "private key",
        }
    }

    pub(crate) fn named(words: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.words() == words)
    }

    /// The part of the secret that must stay unknown; the rest may show its kind and its owner.
    pub(crate) fn essence(self, secret: &str) -> &str {
        match self {
            Self::ApiKey => secret.rsplit_once('_').map_or(secret, |(_, random)| random),
            // Header and claims of one token are also those of others, and no secrets.
            Self::Token => secret.rsplit_once('.').map_or(secret, |(_, signature)| signature),
            _ => secret,
        }
    }
}

/// The places where the server sends secrets: members of JSON, and variables for a shell.
const PLACES: [(&str, Kind); 6] = [
    ("\"secret\"", Kind::SessionSecret),
    ("\"ticket\"", Kind::Ticket),
    ("\"ownerSecret\"", Kind::OwnerSecret),
    ("\"token\"", Kind::ClaimToken),
    ("LOCKHOUSE_OWNER_SECRET=", Kind::OwnerSecret),
    ("LOCKHOUSE_KEY=", Kind::ApiKey),
];

/// All secrets in the text.
pub(crate) fn secrets_in(text: &str) -> Vec<(Kind, &str)> {
    let of_place = |(place, kind): (&'static str, Kind)| {
        text.match_indices(place)
            .filter_map(move |(at, _)| Some((kind, value(&text[at + place.len()..], place)?)))
    };
    PLACES.into_iter().flat_map(of_place).collect()
}

fn value<'t>(rest: &'t str, place: &str) -> Option<&'t str> {
    let value = if place.starts_with('"') {
        // Other tokens are numbers.
        rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?.split_once('"')?.0
    } else {
        rest.split_whitespace().next()?
    };
    Some(value).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_where_the_server_sends_them() {
        let text = r#"{"type":"welcome","secret":"s1","token":7, "token" : "t1","ownerSecret":""} LOCKHOUSE_KEY=lhk_a_0 x"#;
        let found = [(Kind::SessionSecret, "s1"), (Kind::ClaimToken, "t1"), (Kind::ApiKey, "lhk_a_0")];
        assert_eq!(secrets_in(text), found);
    }

    #[test]
    fn every_kind_is_known_by_its_words() {
        assert!(Kind::ALL.iter().all(|kind| Kind::named(kind.words()) == Some(*kind)));
    }
}
