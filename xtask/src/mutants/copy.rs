//! The copy of the tree in which bugs are planted, with a target folder of its own.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::rings::dist;
use crate::workspace::cargo::PROFILE;
use crate::workspace::tree;

/// What cargo reads beside the settings of the project for builds in the copy. Nearly every bug is one of
/// these packages or below them, and shows early: to optimize them would take longer than the rest.
const SETTINGS: &str = "\
[profile.checks.package]
lockhouse.opt-level = 0
proofs.opt-level = 0
";

pub(crate) struct Copy {
    /// The project itself; only read.
    pub(crate) root: PathBuf,
    pub(crate) tree: PathBuf,
    pub(crate) target: PathBuf,
    /// Whether tests are built with the profile `mutants`, which builds a changed crate much sooner: worth
    /// the first build of everything only if many follow.
    pub(crate) is_for_many: bool,
}

impl Copy {
    /// Makes the copy, or takes the one of the last run. A new one begins with what the project has built, so
    /// that only the crates that a patch touches are ever compiled here.
    pub(crate) fn new(root: &Path, is_for_many: bool) -> Result<Copy> {
        let (tree, target) = (root.join("target/mutants/tree"), root.join("target/mutants/target"));
        if !tree.is_dir() {
            fs::create_dir_all(&tree)?;
            seed(&tree::target(root).join(PROFILE), &target.join(PROFILE))?;
        }
        let settings = root.join("target/mutants/.cargo");
        fs::create_dir_all(&settings)?;
        fs::write(settings.join("config.toml"), SETTINGS)?;
        let copy = Copy { root: root.to_path_buf(), tree, target, is_for_many };
        copy.link_packages()?;
        Ok(copy)
    }

    /// The project itself, where all is built that a ring without a bug needs.
    pub(crate) fn project(&self) -> Copy {
        let (root, target) = (self.root.clone(), tree::target(&self.root));
        Copy { tree: root.clone(), root, target, is_for_many: false }
    }

    /// The options of cargo that say with which profile tests are built, and those of nextest.
    pub(crate) fn profile(&self) -> (&'static [&'static str], &'static [&'static str]) {
        if self.is_for_many {
            (&["--profile", "mutants"], &["--cargo-profile", "mutants"])
        } else {
            (&["--profile", PROFILE], &["--cargo-profile", PROFILE])
        }
    }

    /// Where that profile leaves programs.
    pub(crate) fn programs(&self) -> PathBuf {
        self.target.join(if self.is_for_many { "mutants" } else { PROFILE })
    }

    /// Makes the copy equal to the project again. A file that is equal is left alone. A new file keeps its
    /// time, so that artifacts built from it count as fresh. A file that is put back gets the present time,
    /// so that cargo builds it.
    pub(crate) fn sync(&self) -> Result<()> {
        let wanted = tree::files(&self.root)?;
        for file in &wanted {
            let (from, to) = (self.root.join(file), self.tree.join(file));
            let content = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
            let old = fs::read(&to).ok();
            if old.as_ref() == Some(&content) {
                continue;
            }
            fs::create_dir_all(to.parent().unwrap_or(&self.tree))?;
            fs::write(&to, content)?;
            let metadata = fs::metadata(&from)?;
            fs::set_permissions(&to, metadata.permissions())?;
            if old.is_none() {
                File::options().write(true).open(&to)?.set_modified(metadata.modified()?)?;
            }
        }
        self.remove_others(&wanted)
    }

    /// Applies a patch; returns the reason, if it does not apply.
    pub(crate) fn apply(&self, patch: &Path) -> Result<Option<String>> {
        // Outside a repository git takes the paths as they stand; the ceiling hides the project's own
        // repository.
        let mut git = Command::new("git");
        git.env("GIT_CEILING_DIRECTORIES", self.tree.parent().unwrap_or(&self.tree)).current_dir(&self.tree);
        let output =
            git.args(["apply", "--whitespace=nowarn"]).arg(patch).output().context("cannot run git")?;
        let problem = String::from_utf8_lossy(&output.stderr).lines().collect::<Vec<_>>().join(", ");
        Ok((!output.status.success()).then_some(problem))
    }

    /// The client's installed packages are not copied; they are no part of what a patch changes.
    fn link_packages(&self) -> Result<()> {
        for project in dist::PROJECTS {
            let packages = Path::new(project).join("node_modules");
            let (from, to) = (self.root.join(&packages), self.tree.join(&packages));
            if from.is_dir() && to.symlink_metadata().is_err() {
                fs::create_dir_all(to.parent().unwrap_or(&self.tree))?;
                std::os::unix::fs::symlink(from, to)?;
            }
        }
        Ok(())
    }

    /// Removes what the project does not have, such as a file that the last patch added.
    fn remove_others(&self, wanted: &[PathBuf]) -> Result<()> {
        let mut open = vec![self.tree.clone()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                let path = entry.path();
                let kind = entry.file_type()?;
                let relative = path.strip_prefix(&self.tree)?.to_path_buf();
                if kind.is_dir() {
                    open.push(path);
                } else if kind.is_file() && wanted.binary_search(&relative).is_err() {
                    fs::remove_file(&path)?;
                }
            }
        }
        Ok(())
    }
}

/// Copies what cargo needs to find its earlier work: fingerprints, outputs of build scripts, and libraries.
/// Programs are left out: they are most of the bytes, and each of them that a ring needs is linked anew.
///
/// The folder is a copy, and not the project's own: an artifact with a bug has the name of the one without
/// it, and cargo, which compares times, would take it for fresh after the bug is gone.
fn seed(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.join("deps"))?;
    for part in [".fingerprint", "build"] {
        if from.join(part).is_dir() {
            let status = Command::new("cp").arg("-a").arg(from.join(part)).arg(to.join(part)).status()?;
            anyhow::ensure!(status.success(), "cannot copy {}", from.join(part).display());
        }
    }
    let Ok(files) = fs::read_dir(from.join("deps")) else { return Ok(()) };
    for file in files {
        let file = file?.path();
        let is_wanted = |end: &OsStr| ["d", "rlib", "rmeta", "so"].iter().any(|wanted| end == *wanted);
        if let (true, Some(name)) = (file.extension().is_some_and(is_wanted), file.file_name()) {
            let copy = to.join("deps").join(name);
            fs::copy(&file, &copy)?;
            File::options().write(true).open(&copy)?.set_modified(fs::metadata(&file)?.modified()?)?;
        }
    }
    Ok(())
}
