//! The tables of a database file, copied into those of the same names.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::Failed;
use super::limited;
use crate::postgres::connection::Param;
use crate::{HighestNumbers, Scope, Slot};

/// How many rows are sent together.
const ROWS: usize = 2000;

/// A table, with the columns that both databases have, or that `from` makes.
struct Table {
    name: &'static str,
    from: &'static str,
    columns: &'static [(&'static str, Kind)],
}

#[derive(Clone, Copy)]
enum Kind {
    Number,
    /// A text of clients, as its UTF-8, or a name.
    Bytes,
    /// One of our words.
    Word,
}

use Kind::{Bytes, Number, Word};

const TABLES: [Table; 7] = [
    Table {
        name: "buckets",
        from: "buckets",
        columns: &[("id", Number), ("tenant", Bytes), ("bucket", Bytes)],
    },
    Table {
        name: "owners",
        from: "owners",
        columns: &[
            ("bucket", Number),
            ("owner", Number),
            ("label", Bytes),
            ("metadata", Bytes),
            ("ttl_ms", Number),
            ("since", Number),
            ("ends", Number),
            ("seal", Number),
        ],
    },
    Table {
        name: "locks",
        from: "locks",
        columns: &[
            ("bucket", Number),
            ("name", Bytes),
            ("owner", Number),
            ("mode", Word),
            ("token", Number),
            ("since", Number),
            ("metadata", Bytes),
        ],
    },
    Table {
        name: "claims",
        from: "claims",
        columns: &[
            ("bucket", Number),
            ("name", Bytes),
            ("claimant", Bytes),
            ("token", Number),
            ("ttl_ms", Number),
            ("since", Number),
            ("seal", Number),
            ("metadata", Bytes),
        ],
    },
    Table {
        name: "assignments",
        from: "assignments",
        columns: &[
            ("bucket", Number),
            ("name", Bytes),
            ("claimant", Bytes),
            ("token", Number),
            ("since", Number),
            ("seal", Number),
        ],
    },
    Table {
        name: "voided",
        from: "voided",
        columns: &[
            ("bucket", Number),
            ("owner", Number),
            ("seq", Number),
            ("at", Number),
            ("what", Word),
            ("why", Word),
            ("up_to", Number),
            ("names", Bytes),
        ],
    },
    Table {
        name: "history",
        from: "(SELECT *, row_number() OVER (PARTITION BY why = 'refused' ORDER BY seq) AS nth FROM history)",
        columns: &[
            ("seq", Number),
            ("since", Number),
            ("at", Number),
            ("tenant", Bytes),
            ("bucket", Bytes),
            ("kind", Word),
            ("why", Word),
            ("who", Bytes),
            ("owner", Number),
            ("name", Bytes),
            ("mode", Word),
            ("token", Number),
            ("operator", Bytes),
            ("reason", Bytes),
            ("times", Number),
            ("nth", Number),
        ],
    },
];

/// How many rows there are to copy.
pub(super) fn count(from: &Connection) -> rusqlite::Result<u64> {
    let count = |Table { name, .. }: &Table| {
        from.query_row(&format!("SELECT count(*) FROM {name}"), [], |row| row.get::<_, i64>(0))
    };
    TABLES.iter().map(|table| count(table).map(i64::unsigned_abs)).sum()
}

/// Copies every row; `copied` gets how many there are each time.
pub(super) async fn copy(
    from: &Connection,
    to: &Transaction<'_>,
    schema: &str,
    slots: u16,
    above: HighestNumbers,
    copied: &mut dyn FnMut(u64),
) -> Result<(), Failed> {
    for table in &TABLES {
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
        let mut statement = from.prepare(&format!("SELECT {} FROM {}", names.join(", "), table.from))?;
        let mut rows = statement.query([])?;
        let insert = table.insert(schema, above);
        loop {
            let chunk = Chunk::read(table, &mut rows, slots)?;
            if chunk.rows == 0 {
                break;
            }
            limited(to.query_typed(&insert, &chunk.params())).await?;
            copied(chunk.rows as u64);
        }
    }
    Ok(())
}

impl Table {
    fn has_slot(&self) -> bool {
        self.name == "buckets"
    }

    /// The insert of a chunk: an array for each column. As after every restore, each bucket has the highest
    /// mark, and recovers.
    fn insert(&self, schema: &str, above: HighestNumbers) -> String {
        let mut names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        let mut arrays: Vec<String> = (1..=names.len()).map(|number| format!("${number}")).collect();
        let mut selected = "*".to_owned();
        if self.has_slot() {
            names.extend(["slot", "mark", "told_in"]);
            arrays.push(format!("${}", arrays.len() + 1));
            selected = format!("*, {}, {}", above.mark, above.epoch);
        }
        let (names, arrays) = (names.join(", "), arrays.join(", "));
        format!(
            "INSERT INTO {schema}.{} ({names}) OVERRIDING SYSTEM VALUE SELECT {selected} FROM unnest({arrays})",
            self.name
        )
    }
}

/// Some rows, by columns.
struct Chunk {
    rows: usize,
    columns: Vec<Column>,
}

enum Column {
    Numbers(Vec<Option<i64>>),
    Bytes(Vec<Option<Vec<u8>>>),
    Words(Vec<Option<String>>),
    Slots(Vec<i32>),
}

impl Chunk {
    fn read(table: &Table, rows: &mut rusqlite::Rows<'_>, slots: u16) -> rusqlite::Result<Self> {
        let column = |(_, kind): &(&str, Kind)| match kind {
            Number => Column::Numbers(Vec::new()),
            Bytes => Column::Bytes(Vec::new()),
            Word => Column::Words(Vec::new()),
        };
        let mut chunk = Self { rows: 0, columns: table.columns.iter().map(column).collect() };
        if table.has_slot() {
            chunk.columns.push(Column::Slots(Vec::new()));
        }
        while chunk.rows < ROWS
            && let Some(row) = rows.next()?
        {
            for (place, column) in chunk.columns.iter_mut().enumerate() {
                column.push(row, place, slots)?;
            }
            chunk.rows += 1;
        }
        Ok(chunk)
    }

    fn params(&self) -> Vec<Param<'_>> {
        self.columns.iter().map(Column::param).collect()
    }
}

impl Column {
    fn param(&self) -> Param<'_> {
        match self {
            Self::Numbers(values) => (values, Type::INT8_ARRAY),
            Self::Bytes(values) => (values, Type::BYTEA_ARRAY),
            Self::Words(values) => (values, Type::TEXT_ARRAY),
            Self::Slots(values) => (values, Type::INT4_ARRAY),
        }
    }

    fn push(&mut self, row: &Row<'_>, place: usize, slots: u16) -> rusqlite::Result<()> {
        match self {
            Self::Numbers(values) => values.push(row.get(place)?),
            Self::Bytes(values) => values.push(match row.get_ref(place)? {
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes.to_vec()),
                ValueRef::Null => None,
                // It says which column it is.
                _ => row.get(place)?,
            }),
            Self::Words(values) => values.push(row.get(place)?),
            Self::Slots(values) => {
                let scope = Scope { tenant: row.get("tenant")?, bucket: row.get("bucket")? };
                values.push(Slot::of(&scope, slots).get().into());
            }
        }
        Ok(())
    }
}
