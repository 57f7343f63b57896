//! Rows read back into what was committed.

use std::sync::Arc;

use lockhouse_core::{
    AssignmentRecord, Change, ClaimRecord, FencingToken, Instant, LockRecord, NameBuf, OwnerId, OwnerRecord,
    SecretSeed,
};
use tokio_postgres::Row;

use crate::values::{self, held_list, number, void_locks};
use crate::{MarkOf, Opened, RecoveredRow, Scope, SecretKey, TokenMark};

/// The row of a take.
pub(crate) fn opened(row: &Row) -> Result<Opened, String> {
    let key: [u8; 32] =
        get::<&[u8]>(row, "key")?.try_into().map_err(|_| "the key is too short".to_owned())?;
    Ok(Opened {
        epoch: number(get(row, "epoch")?),
        key: SecretKey::new(key),
        clean: get(row, "clean")?,
        restored: get(row, "restored")?,
        longest_lease_ms: number(get(row, "longest_lease_ms")?),
        tickets_since: number(get(row, "tickets_since")?),
        token_floor: number(get(row, "token_floor")?),
        held: get::<Option<&[u8]>>(row, "held")?.map(held_list::from_bytes).transpose()?,
    })
}

pub(crate) fn mark(row: &Row) -> Result<RecoveredRow, String> {
    let whose = text(row, "whose")?;
    let of = if get(row, "of_group")? { MarkOf::Group(whose) } else { MarkOf::Tenant(whose) };
    Ok(RecoveredRow::Mark(TokenMark { of, up_to: number(get(row, "mark")?) }))
}

/// Reads the rows of a slot, bucket by bucket.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    scope: Option<Arc<Scope>>,
}

impl Reader {
    pub(crate) fn read(
        &mut self,
        row: &Row,
        visit: &mut (dyn FnMut(RecoveredRow) + Send),
    ) -> Result<(), String> {
        let kind: i32 = get(row, "kind")?;
        if kind == 0 {
            let scope = Arc::new(Scope { tenant: text(row, "who")?, bucket: text(row, "metadata")? });
            let needs_recovery = get::<Option<&str>>(row, "word")?.is_some();
            visit(RecoveredRow::Bucket { scope: Arc::clone(&scope), needs_recovery });
            let up_to = number(get(row, "token")?);
            if up_to > 0 {
                let change = Change::TokensReserved { up_to };
                visit(RecoveredRow::Change { scope: Arc::clone(&scope), change });
            }
            self.scope = Some(scope);
            return Ok(());
        }
        let scope = self.scope.clone().ok_or("a row of no bucket")?;
        let change = match kind {
            1 => owner(row)?,
            2 => lock(row)?,
            3 => voided(row)?,
            4 => claim(row)?,
            _ => assignment(row)?,
        };
        visit(RecoveredRow::Change { scope, change });
        Ok(())
    }
}

fn owner(row: &Row) -> Result<Change, String> {
    Ok(Change::OwnerOpened(OwnerRecord {
        owner: owner_id(row)?,
        label: text(row, "who")?,
        metadata: metadata(row)?,
        ttl_ms: number(get(row, "length")?),
        since: at(row)?,
        ends: get::<Option<i64>>(row, "ends")?.map(|ms| Instant::from_millis(number(ms))),
        seed: seed(row)?,
    }))
}

fn lock(row: &Row) -> Result<Change, String> {
    Ok(Change::Locked(LockRecord {
        name: name(row)?,
        owner: owner_id(row)?,
        mode: values::mode(get(row, "word")?)?,
        token: token(row)?,
        since: at(row)?,
        metadata: metadata(row)?,
    }))
}

fn voided(row: &Row) -> Result<Change, String> {
    let which = void_locks::read(get(row, "word")?, get(row, "why")?, get(row, "token")?, get(row, "name")?)?;
    Ok(Change::LocksVoided { owner: owner_id(row)?, which, at: at(row)? })
}

fn claim(row: &Row) -> Result<Change, String> {
    Ok(Change::Claimed(ClaimRecord {
        name: name(row)?,
        claimant: text(row, "who")?,
        token: token(row)?,
        ttl_ms: number(get(row, "length")?),
        since: at(row)?,
        seed: seed(row)?,
        metadata: metadata(row)?,
    }))
}

fn assignment(row: &Row) -> Result<Change, String> {
    Ok(Change::Assigned(AssignmentRecord {
        name: name(row)?,
        claimant: text(row, "who")?,
        token: token(row)?,
        since: at(row)?,
        seed: seed(row)?,
    }))
}

fn name(row: &Row) -> Result<NameBuf, String> {
    values::name(get(row, "name")?)
}

fn token(row: &Row) -> Result<FencingToken, String> {
    values::token(number(get(row, "token")?))
}

fn owner_id(row: &Row) -> Result<OwnerId, String> {
    Ok(OwnerId::new(number(get(row, "owner")?)))
}

fn at(row: &Row) -> Result<Instant, String> {
    Ok(Instant::from_millis(number(get(row, "at")?)))
}

fn seed(row: &Row) -> Result<SecretSeed, String> {
    Ok(SecretSeed(number(get(row, "seed")?)))
}

fn metadata(row: &Row) -> Result<Option<Box<str>>, String> {
    get::<Option<&[u8]>>(row, "metadata")?.map(|bytes| utf8(bytes, "metadata")).transpose()
}

pub(crate) fn text(row: &Row, column: &str) -> Result<Box<str>, String> {
    utf8(get(row, column)?, column)
}

fn utf8(bytes: &[u8], column: &str) -> Result<Box<str>, String> {
    std::str::from_utf8(bytes).map(Box::from).map_err(|_| format!("{column} is no UTF-8"))
}

pub(crate) fn get<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    column: &str,
) -> Result<T, String> {
    row.try_get(column).map_err(|error| error.to_string())
}
