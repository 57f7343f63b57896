//! A visitor, as the cookies show. Claims' tokens live here and nowhere else: not in URLs, pages or logs.

use std::collections::HashMap;
use std::convert::Infallible;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue};
use data_encoding::HEXLOWER;
use lockhouse::FencingToken;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::trouble::Trouble;
use crate::hall::Seat;
use crate::office::Stub;

/// How many characters a name may have.
const LONGEST_NAME: usize = 40;

/// How many random bytes make a visitor.
const ID_BYTES: usize = 16;

/// The names differ from those of other programs on this machine: a cookie does not mind the port.
const ID: &str = "seats-visitor";
const NAME: &str = "seats-name";
const CLAIM: &str = "seats-claim-";

/// The sender of a request.
#[derive(Debug, Default)]
pub(super) struct Visitor {
    /// A secret: with it the visitor's claims can be asked for again.
    id: Option<String>,
    name: Option<Name>,
    stubs: HashMap<Seat, Stub>,
}

/// The name of a visitor, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(String);

/// A header that sets a cookie.
pub(super) type SetCookie = (HeaderName, HeaderValue);

impl Visitor {
    /// The visitor's claim on the seat, if there is such a seat and such a claim.
    pub(super) fn proves(&self, seat: &str) -> Result<(Seat, Stub), Trouble> {
        let seat = seat.parse()?;
        let stub = self.stub(seat).ok_or_else(|| Trouble::not_yours(seat))?;
        Ok((seat, stub.clone()))
    }

    pub(super) fn stub(&self, seat: Seat) -> Option<&Stub> {
        self.stubs.get(&seat)
    }

    /// The name, empty if it is not known.
    pub(super) fn name(&self) -> &str {
        self.name.as_ref().map_or("", Name::as_str)
    }

    /// The fencing tokens of the visitor's claims, whether they are current or not.
    pub(super) fn numbers(&self) -> HashMap<Seat, FencingToken> {
        self.stubs.iter().map(|(seat, stub)| (*seat, stub.number)).collect()
    }

    /// The name that was filled in, or else the one of before.
    pub(super) fn named(&self, filled_in: &str) -> Result<Name, Trouble> {
        match &self.name {
            Some(name) if filled_in.is_empty() => Ok(name.clone()),
            _ => filled_in.parse(),
        }
    }

    pub(super) fn id_or_new(&self) -> Result<String, Trouble> {
        match &self.id {
            Some(id) => Ok(id.clone()),
            None => new_id(),
        }
    }

    /// The cookie by which a new visitor is known again.
    pub(super) fn introduction(&self) -> Result<Option<SetCookie>, Trouble> {
        if self.id.is_some() { Ok(None) } else { Ok(Some(introduce(&new_id()?))) }
    }

    fn take(&mut self, cookie: &str) -> Option<()> {
        let (key, value) = cookie.trim().split_once('=')?;
        match key {
            ID => self.id = is_id(value).then(|| value.to_owned()),
            NAME => self.name = percent_decode_str(value).decode_utf8().ok()?.parse().ok(),
            _ => {
                let seat = key.strip_prefix(CLAIM)?.parse().ok()?;
                let (number, token) = value.split_once('.')?;
                let number = FencingToken::new(number.parse().ok()?);
                self.stubs.insert(seat, Stub { number, token: token.parse().ok()? });
            }
        }
        Some(())
    }
}

impl<S: Sync> FromRequestParts<S> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let mut visitor = Self::default();
        let headers = parts.headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
        for cookie in headers.flat_map(|header| header.split(';')) {
            // A cookie that cannot be read is as good as none.
            _ = visitor.take(cookie);
        }
        Ok(visitor)
    }
}

impl Name {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn cookie(&self) -> SetCookie {
        set(NAME, &utf8_percent_encode(&self.0, NON_ALPHANUMERIC).to_string(), AS_LONG_AS_THE_BROWSER_RUNS)
    }
}

impl FromStr for Name {
    type Err = Trouble;

    fn from_str(text: &str) -> Result<Self, Trouble> {
        let text = text.trim();
        let length = text.chars().count();
        if !(1..=LONGEST_NAME).contains(&length) || text.chars().any(char::is_control) {
            return Err(Trouble::no_name(LONGEST_NAME));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The visitor is known from now on.
pub(super) fn introduce(id: &str) -> SetCookie {
    set(ID, id, AS_LONG_AS_THE_BROWSER_RUNS)
}

/// The visitor keeps a claim, even when the claim is over: a late payer gets a notice, and is not taken for a
/// stranger.
pub(super) fn keep(seat: Seat, stub: &Stub) -> SetCookie {
    let value = format!("{}.{}", stub.number, stub.token.reveal());
    set(&format!("{CLAIM}{seat}"), &value, AS_LONG_AS_THE_BROWSER_RUNS)
}

/// The visitor has no claim on the seat any more.
pub(super) fn forget(seat: Seat) -> SetCookie {
    set(&format!("{CLAIM}{seat}"), "", "; Max-Age=0")
}

const AS_LONG_AS_THE_BROWSER_RUNS: &str = "";

/// Scripts cannot read it, and other sites cannot have it sent along with their forms.
fn set(key: &str, value: &str, lifetime: &str) -> SetCookie {
    let mut header =
        HeaderValue::try_from(format!("{key}={value}; Path=/; HttpOnly; SameSite=Lax{lifetime}"))
            .expect("keys are ours, and values hexadecimal or percent-encoded");
    header.set_sensitive(true);
    (SET_COOKIE, header)
}

/// Whether it is one of ours, by its form.
fn is_id(text: &str) -> bool {
    HEXLOWER.decode(text.as_bytes()).is_ok_and(|bytes| bytes.len() == ID_BYTES)
}

fn new_id() -> Result<String, Trouble> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| Trouble::out_of_order(&error))?;
    Ok(HEXLOWER.encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_survives_its_cookie() {
        let stub = Stub { number: FencingToken::new(17), token: "3b".repeat(20).parse().unwrap() };
        let seat: Seat = "B4".parse().unwrap();
        let (_, header) = keep(seat, &stub);
        let mut visitor = Visitor::default();
        visitor.take(header.to_str().unwrap().split(';').next().unwrap()).unwrap();
        let kept = visitor.stub(seat).unwrap();
        assert_eq!((kept.number, &kept.token), (stub.number, &stub.token));
        assert!(!format!("{header:?} {visitor:?}").contains("3b3b"), "no log shows the token");
    }

    #[test]
    fn cookies_of_others_and_broken_ones_are_none() {
        let mut visitor = Visitor::default();
        for cookie in [
            "",
            "x",
            "seats-visitor=zz",
            "seats-visitor=",
            "seats-claim-Z9=1.00",
            "seats-claim-A1=x.y",
            "seats-name=%00",
        ] {
            _ = visitor.take(cookie);
        }
        assert!(visitor.id.is_none() && visitor.name.is_none() && visitor.stubs.is_empty());
    }

    #[test]
    fn a_name_survives_its_cookie() {
        let name: Name = " Zoë; 你 ".parse().unwrap();
        let (_, header) = name.cookie();
        let mut visitor = Visitor::default();
        visitor.take(header.to_str().unwrap().split("; ").next().unwrap()).unwrap();
        assert_eq!(visitor.name.unwrap().as_str(), "Zoë; 你");
    }
}
