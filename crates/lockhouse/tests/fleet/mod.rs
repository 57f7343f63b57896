//! Several nodes over one PostgreSQL: they share the slots, move them, and outlive each other.

mod moving;
mod nodes;
mod trouble;
