//! The fence in the caller's own database, on a real SQLite and a real PostgreSQL.

mod oracle;
mod postgres;
mod sqlite;
