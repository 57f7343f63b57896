//! The header of a patch, as tests/mutants/README.md describes it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// A planted bug.
#[derive(Debug)]
pub(crate) struct Patch {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    /// The promise that the patch breaks.
    pub(crate) promise: String,
    /// The ring that must catch it, with a filter if it has one.
    pub(crate) ring: String,
}

/// Every patch of the folder, by name.
pub(crate) fn read_all(folder: &Path) -> Result<Vec<Patch>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        files.push(entry?.path());
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "patch"));
    files.sort();
    files.into_iter().map(read).collect()
}

fn read(file: PathBuf) -> Result<Patch> {
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let name = super::name_of(&file);
    let promise = header(&text, "promise:").with_context(|| format!("tests/mutants/{name}.patch"))?;
    let ring = header(&text, "ring:").with_context(|| format!("tests/mutants/{name}.patch"))?;
    Ok(Patch { name, file, promise, ring })
}

/// The value of a header line; headers stand above the first `diff` or `---`.
fn header(text: &str, key: &str) -> Result<String> {
    let head = text.lines().take_while(|line| !line.starts_with("diff ") && !line.starts_with("--- "));
    let values: Vec<&str> = head.filter_map(|line| line.strip_prefix(key)).map(str::trim).collect();
    match values[..] {
        [value] if !value.is_empty() => Ok(value.to_owned()),
        _ => bail!("the header must have one line `{key} …`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_stand_above_the_diff() {
        let text = "promise: 1, one exclusive holder\nring: core\n\n--- a/x\n+++ b/x\nring: server\n";
        assert_eq!(header(text, "ring:").unwrap(), "core");
        assert_eq!(header(text, "promise:").unwrap(), "1, one exclusive holder");
        assert!(header("--- a/x\nring: core\n", "ring:").is_err());
        assert!(header("ring:\n", "ring:").is_err());
    }
}
