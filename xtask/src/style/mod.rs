//! The rules of the code that a machine can check, and the figures behind them.
//!
//! The lints of `xtask/tests/style` and `cargo xtask measure` both read the tree through this module, so that
//! a figure of a report is the figure that a lint judges.

pub mod circles;
pub mod classify;
pub mod comments;
pub mod functions;
pub mod glossary;
pub mod imports;
mod prose;
pub mod rust;
pub mod sources;
pub mod types;
pub mod words;

/// The longest function of production code, in lines.
pub const MAX_FUNCTION_LINES: usize = 70;

/// The longest source file of production code, in lines.
pub const MAX_FILE_LINES: usize = 600;

/// The widest comment line, in columns; rustfmt keeps code to the same width.
pub const MAX_COLUMNS: usize = 110;

/// The most files of a crate that import each other in a circle.
pub const MAX_CIRCLE: usize = 8;

/// The most files that lie side by side in one folder of a crate.
pub const MAX_FILES_OF_FOLDER: usize = 12;

/// The most words that the glossary explains.
pub const MAX_GLOSSARY_WORDS: usize = 40;
