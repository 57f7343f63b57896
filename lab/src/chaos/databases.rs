//! The database of the fleet: a primary, and a standby that follows it asynchronously, each in a network and
//! on a small disk of its own.

use std::fs::{File, create_dir_all};
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::FOLDER;
use super::certificates::{self, DatabaseCertificates};
use super::network::{self, ADDRESSES, DATABASES, within};
use crate::cluster::postgres::Server;

pub(super) struct Databases {
    /// The server in each place; none while it is dead.
    servers: [Option<Server>; 2],
    /// The place of the primary.
    pub(super) primary: usize,
    pub(super) certificates: DatabaseCertificates,
}

/// The size of a page of PostgreSQL.
const PAGE: usize = 8192;

/// The size of a disk in MiB beside the large table; a server takes a small part of it.
const DISK_MIB: u32 = 600;

/// The rows of the large table that take a MiB, with their index and what the log has of them.
const ROWS_PER_MIB: u32 = 2000;

impl Databases {
    pub(super) fn start(large_rows: u32) -> Result<Self> {
        let disk = format!("size={}m,mode=755", DISK_MIB + large_rows / ROWS_PER_MIB);
        let certificates = DatabaseCertificates::new()?;
        for host in DATABASES {
            let folder = folder(host);
            create_dir_all(&folder)?;
            network::run("mount", &["-t", "tmpfs", "-o", &disk, "disk", &folder.display().to_string()])?;
        }
        let primary = within(DATABASES[0], || {
            let settings = settings(DATABASES[0], None);
            Ok(Server::start_in(&folder(DATABASES[0]), &as_strs(&settings), ADDRESSES))
        })?;
        let mut databases = Self { servers: [Some(primary), None], primary: 0, certificates };
        databases.add_standby()?;
        Ok(databases)
    }

    /// The address for the nodes, with both servers.
    pub(super) fn store(&self) -> String {
        let hosts = DATABASES.map(network::address).join(",");
        let authorities = certificates::authorities();
        format!(
            "postgres://postgres@{hosts}/postgres?sslmode=verify-full&sslrootcert={}",
            authorities.display()
        )
    }

    pub(super) fn primary(&mut self) -> Result<&mut Server> {
        self.servers[self.primary].as_mut().context("there is no primary")
    }

    pub(super) fn standby(&mut self) -> Result<&mut Server> {
        self.servers[1 - self.primary].as_mut().context("there is no standby")
    }

    /// The standby was promoted.
    pub(super) fn standby_is_primary(&mut self) {
        self.primary = 1 - self.primary;
    }

    /// Stops the primary, fast (its sessions are ended first) or at once, and leaves its files.
    pub(super) fn stop_primary(&mut self, is_fast: bool) -> Result<()> {
        let primary = self.primary()?;
        if is_fast {
            primary.stop();
        } else {
            primary.stop_at_once();
        }
        Ok(())
    }

    pub(super) fn start_primary_again(&mut self) -> Result<()> {
        let host = DATABASES[self.primary];
        let primary = self.primary()?;
        within(host, || {
            primary.start_again();
            Ok(())
        })
    }

    /// Overwrites the first page of a file of the primary, which is stopped meanwhile.
    pub(super) fn spoil_primary(&mut self, path: &str) -> Result<()> {
        let host = DATABASES[self.primary];
        self.stop_primary(true)?;
        let mut file = File::options().write(true).open(folder(host).join("data").join(path))?;
        file.write_all(&[0xa5; PAGE])?;
        drop(file);
        self.start_primary_again()
    }

    /// Leaves no byte of the primary's disk free.
    pub(super) fn fill_disk(&self) -> Result<()> {
        let mut ballast = File::create(self.ballast())?;
        // It ends when nothing more is taken.
        while ballast.write_all(&[1; 1 << 16]).is_ok() {}
        while ballast.write_all(&[1]).is_ok() {}
        Ok(())
    }

    /// Gives the space back, and starts the primary again if it has ended for want of it.
    pub(super) fn free_disk(&mut self) -> Result<bool> {
        std::fs::remove_file(self.ballast())?;
        let has_ended = self.primary()?.has_ended();
        if has_ended {
            self.start_primary_again()?;
        }
        Ok(has_ended)
    }

    fn ballast(&self) -> PathBuf {
        folder(DATABASES[self.primary]).join("ballast")
    }

    /// Makes the server that is not the primary anew, as a standby of it.
    pub(super) fn add_standby(&mut self) -> Result<()> {
        let place = 1 - self.primary;
        // Its folder goes with it.
        self.servers[place] = None;
        let (host, of) = (DATABASES[place], DATABASES[self.primary]);
        create_dir_all(folder(host))?;
        let primary = self.servers[self.primary].as_ref().context("there is no primary")?;
        let settings = settings(host, Some(of));
        let standby = within(host, || Ok(Server::standby_in(&folder(host), primary, &as_strs(&settings))))?;
        self.servers[place] = Some(standby);
        Ok(())
    }
}

fn folder(host: &str) -> PathBuf {
    PathBuf::from(FOLDER).join(host)
}

fn settings(host: &str, primary: Option<&str>) -> Vec<String> {
    let [certificate, key] = certificates::of_server(host);
    let mut settings = vec![
        "ssl=on".to_owned(),
        format!("ssl_cert_file={}", certificate.display()),
        format!("ssl_key_file={}", key.display()),
        format!("listen_addresses={}", network::address(host)),
        "shared_buffers=32MB".to_owned(),
        "max_wal_size=64MB".to_owned(),
        "wal_keep_size=128MB".to_owned(),
    ];
    let primary = primary.map(|primary| format!("host={} user=postgres", network::address(primary)));
    settings.extend(primary.map(|primary| format!("primary_conninfo={primary}")));
    settings
}

fn as_strs(settings: &[String]) -> Vec<&str> {
    settings.iter().map(String::as_str).collect()
}
