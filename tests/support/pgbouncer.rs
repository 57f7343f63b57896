//! A PgBouncer of one's own before a PostgreSQL of one's own: in its folder, gone with the test.

use std::fs;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

use super::server::{Account, Server, command};

/// The port that names its socket; nothing listens on the network.
const PORT: u16 = 6432;

/// A running pooler in transaction mode, stopped when it is dropped.
pub(crate) struct PgBouncer {
    child: Child,
    address: String,
}

impl PgBouncer {
    /// Starts it; returns once it takes connections.
    pub(crate) fn before(server: &Server) -> Self {
        let folder = server.folder().to_str().unwrap();
        let ini = format!(
            "[databases]\n\
             * = host={folder}\n\
             [pgbouncer]\n\
             listen_addr =\n\
             listen_port = {PORT}\n\
             unix_socket_dir = {folder}\n\
             auth_type = any\n\
             pool_mode = transaction\n\
             default_pool_size = 4\n\
             server_reset_query = DISCARD ALL\n\
             server_reset_query_always = 1\n\
             logfile =\n\
             pidfile =\n"
        );
        // `any` takes the user from the entry of the database.
        let ini = ini.replace(&format!("host={folder}\n"), &format!("host={folder} user=postgres\n"));
        let file = server.folder().join("pgbouncer.ini");
        fs::write(&file, ini).unwrap();
        let mut pgbouncer = command("pgbouncer", Account::for_servers().as_ref());
        let child = pgbouncer.arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let socket = server.folder().join(format!(".s.PGSQL.{PORT}"));
        let started = std::time::Instant::now();
        // The socket is there before it takes connections.
        while UnixStream::connect(&socket).is_err() {
            assert!(started.elapsed().as_secs() < 10, "pgbouncer does not start");
            std::thread::yield_now();
        }
        Self { child, address: format!("host={folder} port={PORT} user=postgres dbname=postgres") }
    }

    /// Where it is, as clients have it.
    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
