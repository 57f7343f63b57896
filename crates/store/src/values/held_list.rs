//! The list of held web locks as the tables of every database have it: in one value.

use std::sync::Arc;

use lockhouse_core::Mode;

use crate::{HeldList, HeldWebLock, Scope};

pub(crate) fn to_bytes(list: &HeldList) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (scope, locks) in &list.buckets {
        for text in [&scope.tenant, &scope.bucket] {
            bytes.extend((text.len() as u32).to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes.extend((locks.len() as u32).to_be_bytes());
        for HeldWebLock { name, session, mode, token } in locks {
            bytes.extend(name);
            bytes.extend(session);
            bytes.push(u8::from(*mode == Mode::Shared));
            bytes.extend(token.get().to_be_bytes());
        }
    }
    bytes
}

pub(crate) fn from_bytes(bytes: &[u8]) -> Result<HeldList, String> {
    let mut reader = Reader(bytes);
    let mut buckets = Vec::new();
    while !reader.0.is_empty() {
        let scope = Scope::new(reader.text()?, reader.text()?);
        let mut locks = Vec::new();
        for _ in 0..reader.length()? {
            locks.push(reader.lock()?);
        }
        buckets.push((Arc::new(scope), locks));
    }
    HeldList::new(buckets).ok_or_else(|| "the list of held web locks is too long".to_owned())
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or("the list of held web locks breaks off".to_owned())?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("so many were taken"))
    }

    fn length(&mut self) -> Result<usize, String> {
        Ok(u32::from_be_bytes(self.array()?) as usize)
    }

    fn text(&mut self) -> Result<Box<str>, String> {
        let length = self.length()?;
        let text = std::str::from_utf8(self.take(length)?);
        text.map(Box::from).map_err(|_| "the list of held web locks has a bucket that is no UTF-8".to_owned())
    }

    fn lock(&mut self) -> Result<HeldWebLock, String> {
        let (name, session) = (self.array()?, self.array()?);
        let mode = match self.array()? {
            [0] => Mode::Exclusive,
            [1] => Mode::Shared,
            [other] => return Err(format!("{other} is no mode")),
        };
        let token = super::token(u64::from_be_bytes(self.array()?))?;
        Ok(HeldWebLock { name, session, mode, token })
    }
}

#[cfg(test)]
mod tests {
    use lockhouse_core::FencingToken;

    use super::*;
    use crate::held_list::bytes_of;

    fn lock(number: u8) -> HeldWebLock {
        let mode = if number.is_multiple_of(2) { Mode::Shared } else { Mode::Exclusive };
        let token = FencingToken::new(u64::from(number) + 1);
        HeldWebLock { name: [number; 16], session: [number ^ 0xFF; 16], mode, token }
    }

    fn bucket(tenant: &str, locks: u8) -> (Arc<Scope>, Vec<HeldWebLock>) {
        (Arc::new(Scope::new(tenant, "büro")), (0..locks).map(lock).collect())
    }

    #[test]
    fn a_list_comes_back_and_has_the_bytes_that_are_counted() {
        for buckets in [vec![], vec![bucket("", 0)], vec![bucket("t", 3), bucket("u", 200)]] {
            let counted: usize = buckets.iter().map(|(scope, locks)| bytes_of(scope, locks.len())).sum();
            let list = HeldList::new(buckets).unwrap();
            let bytes = to_bytes(&list);
            assert_eq!((bytes.len(), from_bytes(&bytes)), (counted, Ok(list)));
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let bytes = to_bytes(&HeldList::new(vec![bucket("t", 2)]).unwrap());
        for length in 1..bytes.len() {
            from_bytes(&bytes[..length]).unwrap_err();
        }
        let mode = bytes.len() - 9;
        let mut wrong = bytes.clone();
        wrong[mode] = 2;
        from_bytes(&wrong).unwrap_err();
        let mut wrong = bytes;
        wrong[mode + 1..].fill(0);
        from_bytes(&wrong).unwrap_err();
        from_bytes(&[0xFF; 40]).unwrap_err();
    }
}
