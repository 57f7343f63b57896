//! The history, read page by page.

pub(crate) mod keeper;

use lockhouse_core::{Instant, OwnerId};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::PostgresStore;
use super::connection::Param;
use super::error::Trouble;
use super::load::get;
use crate::history::HISTORY_ROWS_LOOKED_AT;
use crate::values::{self, bits, number};
use crate::{
    HistoryEnd, HistoryEntry, HistoryError, HistoryKind, HistoryPage, HistoryQuery, StoreUnavailable,
};

/// The statement of a page: at least one row, which says what was looked at.
pub(crate) fn statement(quoted: &str) -> String {
    format!(
        "WITH looked AS MATERIALIZED (
             SELECT * FROM {quoted}.history WHERE seq < $1 ORDER BY seq DESC LIMIT $2
         )
         SELECT n.looked_at, n.lowest, l.*
         FROM (SELECT count(*) AS looked_at, min(seq) AS lowest FROM looked) AS n
         LEFT JOIN looked AS l ON l.tenant = $3 AND l.bucket = $4
         ORDER BY l.seq DESC"
    )
}

impl PostgresStore {
    /// A commit that is under way at the moment may still add rows to pages that were read.
    pub(super) async fn page(&self, query: &HistoryQuery) -> Result<HistoryPage, HistoryError> {
        self.check()?;
        let before = query.before.map_or(i64::MAX, bits);
        let most = i64::from(HISTORY_ROWS_LOOKED_AT);
        let (tenant, bucket) = (query.scope.tenant.as_bytes(), query.scope.bucket.as_bytes());
        let params: [Param<'_>; 4] =
            [(&before, Type::INT8), (&most, Type::INT8), (&tenant, Type::BYTEA), (&bucket, Type::BYTEA)];
        let rows = self.history.ask(&self.sql.history, &params).await;
        let away = |why: Box<str>| StoreUnavailable::Away { place: self.place.clone(), why };
        let rows = match rows {
            Ok(Some(rows)) => rows,
            Ok(None) => return Err(away("the answer came with a warning".into()).into()),
            Err(Trouble::Undone(why)) => return Err(why.into()),
            Err(Trouble::Unknown(why)) => return Err(away(why).into()),
            Err(Trouble::Damaged(fatal)) => return Err(HistoryError::Unreadable(fatal.to_string().into())),
            Err(Trouble::Fatal(fatal)) => return Err(fatal.into()),
        };
        read(&rows, query).map_err(|why| HistoryError::Unreadable(why.into()))
    }
}

fn read(rows: &[Row], query: &HistoryQuery) -> Result<HistoryPage, String> {
    let first = rows.first().ok_or("a page of the history has no row")?;
    let looked_at: i64 = get(first, "looked_at")?;
    let mut page = HistoryPage::default();
    for row in rows {
        let Some(seq) = get::<Option<i64>>(row, "seq")?.map(number) else { continue };
        let entry = entry(row, seq)?;
        if query.filter.is_met_by(&entry) {
            page.entries.push(entry);
        }
        if page.entries.len() == query.limit {
            page.next = Some(seq);
            return Ok(page);
        }
    }
    if looked_at == i64::from(HISTORY_ROWS_LOOKED_AT) {
        page.next = get::<Option<i64>>(first, "lowest")?.map(number);
    }
    Ok(page)
}

fn entry(row: &Row, seq: u64) -> Result<HistoryEntry, String> {
    let at = |column: &str| get(row, column).map(|ms| Instant::from_millis(number(ms)));
    let text = |column: &str| match get::<Option<&[u8]>>(row, column)? {
        Some(bytes) => String::from_utf8(bytes.to_vec())
            .map(|text| Some(Box::<str>::from(text)))
            .map_err(|error| format!("{column}: {error}")),
        None => Ok(None),
    };
    let (kind, why): (&str, &str) = (get(row, "kind")?, get(row, "why")?);
    Ok(HistoryEntry {
        seq,
        kind: HistoryKind::of(kind).ok_or_else(|| format!("{kind:?} is no kind of hold"))?,
        since: at("since")?,
        at: at("at")?,
        end: HistoryEnd::of(why).ok_or_else(|| format!("{why:?} is no end of a hold"))?,
        who: text("who")?.unwrap_or_default(),
        owner: get::<Option<i64>>(row, "owner")?.map(|owner| OwnerId::new(number(owner))),
        name: get::<Option<&[u8]>>(row, "name")?.map(values::name).transpose()?,
        mode: get::<Option<&str>>(row, "mode")?.map(values::mode).transpose()?,
        token: get::<Option<i64>>(row, "token")?.map(|token| values::token(number(token))).transpose()?,
        operator: text("operator")?,
        reason: text("reason")?,
        count: get::<Option<i32>>(row, "times")?.map_or(1, i32::unsigned_abs),
        waiting_since: None,
    })
}
