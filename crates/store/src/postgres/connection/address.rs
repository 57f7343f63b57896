//! Where a store is: an address as libpq has it, taken apart.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::postgres::error::PostgresOpenError;

/// The servers of an address, any of which may be the one that can be written by now.
#[derive(Debug)]
pub(crate) struct DatabaseAddress {
    /// A configuration for each, without a password unless the address has one.
    pub(crate) servers: Vec<Config>,
    pub(crate) security: Security,
}

/// How the connection is secured, and what is verified of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    /// Never by TLS.
    Plain,
    /// By TLS, if the server has it, or always, as the configurations say. Nothing is verified.
    Unverified,
    /// By TLS; the certificate of the server is one of these authorities.
    Authority(Roots),
    /// By TLS; the certificate is also for the host that the address names.
    Full(Roots),
}

/// The authorities of certificates that are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Roots {
    /// Those in a file.
    File(PathBuf),
    /// Those of the operating system.
    System,
}

/// The parameters that only we know, and the rest of the address.
struct Split<'a> {
    rest: String,
    mode: Option<Cow<'a, str>>,
    root: Option<Cow<'a, str>>,
}

impl DatabaseAddress {
    /// Takes the address apart. No part of it but these two parameters is repeated in an error: it may have a
    /// password.
    pub(crate) fn of(address: &str) -> Result<Self, PostgresOpenError> {
        let Split { rest, mode, root } = split(address)?;
        let mut config: Config = rest.parse().map_err(|error| wrong(fault_of(&error)))?;
        let (mode, security) = security(&config, mode.as_deref(), root.as_deref())?;
        config.ssl_mode(mode);
        let has_at = |text: &str| text.contains('@');
        let hosts = config.get_hosts().iter();
        if hosts.into_iter().any(|host| matches!(host, Host::Tcp(host) if has_at(host)))
            || config.get_dbname().is_some_and(has_at)
        {
            return Err(wrong("it has an @ too many; within a password it is written %40"));
        }
        let servers = one_for_each_host(&config)?;
        Ok(Self { servers, security })
    }
}

/// What the library says without the parts of the address that it repeats.
fn fault_of(error: &tokio_postgres::Error) -> &'static str {
    let said = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    if said.starts_with("unknown option") {
        "it has a parameter that is not known"
    } else if said == "invalid value for option `port`" {
        "its port is no number from 1 to 65535"
    } else {
        "it cannot be read"
    }
}

/// Takes `sslmode` and `sslrootcert` out of the query of a URL.
fn split(address: &str) -> Result<Split<'_>, PostgresOpenError> {
    let is_url = address.starts_with("postgres://") || address.starts_with("postgresql://");
    let whole = || Split { rest: address.to_owned(), mode: None, root: None };
    // A password may have a question mark, too: it ends at the first @.
    let behind = address.find('@').unwrap_or_default();
    let Some(at) = address[behind..].find('?').filter(|_| is_url) else { return Ok(whole()) };
    let (before, query) = (&address[..behind + at], &address[behind + at + 1..]);
    let (mut mode, mut root, mut others) = (None, None, Vec::new());
    for part in query.split('&') {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let place = match key {
            "sslmode" => &mut mode,
            "sslrootcert" => &mut root,
            _ => {
                others.push(part);
                continue;
            }
        };
        let decoded = percent_decode_str(value).decode_utf8();
        let value = decoded.map_err(|_| wrong(&format!("{key} is percent-encoded wrongly")))?;
        if place.replace(value).is_some() {
            return Err(wrong(&format!("{key} is there twice")));
        }
    }
    let rest = if others.is_empty() { before.to_owned() } else { format!("{before}?{}", others.join("&")) };
    Ok(Split { rest, mode, root })
}

/// As libpq has it: `prefer` by default, and `verify-full` with the authorities of the system.
fn security(
    config: &Config,
    mode: Option<&str>,
    root: Option<&str>,
) -> Result<(SslMode, Security), PostgresOpenError> {
    let roots = match root {
        None => None,
        Some("") => return Err(wrong("sslrootcert is empty, but must be a file, or \"system\"")),
        Some("system") => Some(Roots::System),
        Some(path) => Some(Roots::File(path.into())),
    };
    let by_default = match config.get_ssl_mode() {
        _ if roots == Some(Roots::System) => "verify-full",
        SslMode::Disable => "disable",
        SslMode::Require => "require",
        _ => "prefer",
    };
    let mode = mode.unwrap_or(by_default);
    if roots == Some(Roots::System) && mode != "verify-full" {
        let rule = "sslrootcert is \"system\", so that sslmode must be verify-full";
        return Err(wrong(&format!("sslmode is {mode:?}, but {rule}")));
    }
    Ok(match (mode, roots) {
        ("disable", _) => (SslMode::Disable, Security::Plain),
        ("prefer", _) => (SslMode::Prefer, Security::Unverified),
        ("require", None) => (SslMode::Require, Security::Unverified),
        ("require" | "verify-ca", Some(roots)) => (SslMode::Require, Security::Authority(roots)),
        ("verify-full", Some(roots)) => (SslMode::Require, Security::Full(roots)),
        ("verify-ca" | "verify-full", None) => {
            let rule = "sslrootcert must name a file of certificates, or be \"system\"";
            return Err(wrong(&format!("sslmode is {mode:?}, for which {rule}")));
        }
        _ => {
            let rule = "disable, prefer, require, verify-ca or verify-full";
            return Err(wrong(&format!("sslmode is {mode:?}, but must be {rule}")));
        }
    })
}

/// A configuration for each host: one that does not answer must not use up the time of the others.
fn one_for_each_host(config: &Config) -> Result<Vec<Config>, PostgresOpenError> {
    let (hosts, ports) = (config.get_hosts(), config.get_ports());
    if hosts.is_empty() {
        return Err(wrong("the address names no host"));
    }
    if !matches!(ports.len(), 0 | 1) && ports.len() != hosts.len() {
        return Err(wrong("the address has another number of ports than of hosts"));
    }
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() && addresses.len() != hosts.len() {
        return Err(wrong("the address has another number of hostaddr than of hosts"));
    }
    let servers = hosts.iter().enumerate().map(|(nth, host)| {
        let mut one = without_hosts(config);
        if let Some(address) = addresses.get(nth) {
            one.hostaddr(*address);
        }
        match host {
            Host::Tcp(name) => one.host(name),
            Host::Unix(path) => one.host_path(path),
        };
        if let Some(port) = ports.get(nth).or(ports.first()) {
            one.port(*port);
        }
        one
    });
    Ok(servers.collect())
}

fn without_hosts(config: &Config) -> Config {
    let mut one = Config::new();
    one.ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .channel_binding(config.get_channel_binding())
        .keepalives(config.get_keepalives());
    if let Some(interval) = config.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    if let Some(user) = config.get_user() {
        one.user(user);
    }
    if let Some(password) = config.get_password() {
        one.password(password);
    }
    if let Some(database) = config.get_dbname() {
        one.dbname(database);
    }
    if let Some(options) = config.get_options() {
        one.options(options);
    }
    one
}

/// Where the servers are, for people; without a password.
pub(crate) fn place_of(servers: &[Config], schema: &str) -> String {
    let hosts: Vec<String> = servers.iter().map(host_and_port).collect();
    let database = servers.first().and_then(|one| one.get_dbname().or(one.get_user())).unwrap_or("postgres");
    format!("PostgreSQL at {}/{database}, schema {schema}", hosts.join(","))
}

pub(crate) fn host_and_port(config: &Config) -> String {
    let (host, port) = host_of(config);
    format!("{host}:{port}")
}

/// The host and the port of the only server of a configuration.
pub(crate) fn host_of(config: &Config) -> (String, u16) {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => String::new(),
    };
    (host, config.get_ports().first().copied().unwrap_or(5432))
}

/// Whether the server is reached by a socket in the file system.
pub(crate) fn is_local(config: &Config) -> bool {
    matches!(config.get_hosts().first(), Some(Host::Unix(_)))
}

fn wrong(why: &str) -> PostgresOpenError {
    PostgresOpenError::Address { why: why.into() }
}

impl Roots {
    /// The file, if it is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::System => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(address: &str) -> String {
        place_of(&DatabaseAddress::of(address).unwrap().servers, "s")
    }

    fn why(address: &str) -> String {
        match DatabaseAddress::of(address).unwrap_err() {
            PostgresOpenError::Address { why } => why.into(),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn each_host_is_a_server_of_its_own() {
        for (address, place) in [
            ("postgres://u:p@a/d", "a:5432/d"),
            ("postgres://u:p@a/d?application_name=x@y&sslmode=require", "a:5432/d"),
            ("postgres://u@a:1,b:2,c/d", "a:1,b:2,c:5432/d"),
            ("postgres://u@a,b/d?application_name=x", "a:5432,b:5432/d"),
            ("host=a,b port=7 user=u", "a:7,b:7/u"),
            ("host=/run/x user=u dbname=d", "/run/x:5432/d"),
        ] {
            assert_eq!(places(address), format!("PostgreSQL at {place}, schema s"));
        }
        let server = &DatabaseAddress::of("postgres://u:p?sslmode=w@a/d").unwrap().servers[0];
        assert_eq!(server.get_password(), Some(&b"p?sslmode=w"[..]));
        let servers = DatabaseAddress::of("postgres://u:p%40w@a,b/d?options=-c%20x%3D1").unwrap().servers;
        for server in &servers {
            assert_eq!((server.get_password(), server.get_options()), (Some(&b"p@w"[..]), Some("-c x=1")));
        }
    }

    #[test]
    fn the_security_is_as_libpq_has_it() {
        let file = || Roots::File("/r.crt".into());
        for (query, mode, security) in [
            ("", SslMode::Prefer, Security::Unverified),
            ("?sslmode=disable", SslMode::Disable, Security::Plain),
            ("?sslmode=require", SslMode::Require, Security::Unverified),
            ("?sslmode=require&sslrootcert=/r.crt", SslMode::Require, Security::Authority(file())),
            ("?sslmode=verify-ca&sslrootcert=%2Fr.crt", SslMode::Require, Security::Authority(file())),
            ("?sslrootcert=/r.crt&sslmode=verify-full", SslMode::Require, Security::Full(file())),
            ("?sslrootcert=system", SslMode::Require, Security::Full(Roots::System)),
        ] {
            let address = DatabaseAddress::of(&format!("postgres://u@a,b/d{query}")).unwrap();
            assert_eq!(address.security, security, "{query}");
            assert!(address.servers.iter().all(|server| server.get_ssl_mode() == mode), "{query}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_and_no_password_is_repeated() {
        for (address, rule) in [
            ("postgres://u:hush@/d", "names no host"),
            ("postgres://u:hush@x@h/d", "an @ too many"),
            ("postgres://u:p@a/hush@h/d", "an @ too many"),
            ("postgres://u:hush@a:1,b:2,c:3/d?port=7", "number of ports"),
            ("postgres://u:hush@a/d?sslmode=allow", "disable, prefer, require, verify-ca or verify-full"),
            ("postgres://u:hush@a/d?sslmode=verify-full", "sslrootcert must name a file"),
            ("postgres://u:hush@a/d?sslmode=require&sslmode=require", "sslmode is there twice"),
            ("postgres://u:hush@a/d?sslmode=%FF", "percent-encoded wrongly"),
            ("postgres://u:hush@a/d?sslrootcert=", "sslrootcert is empty"),
            ("postgres://u:hush@a/d?sslrootcert=system&sslmode=require", "must be verify-full"),
            ("postgres://u:hush@a/d?colour=red", "a parameter that is not known"),
            ("postgres://u:hush@a:port/d", "its port"),
            ("hush", "cannot be read"),
            ("mysql://u:hush@a/d", "cannot be read"),
        ] {
            let why = why(address);
            assert!(why.contains(rule) && !why.contains("hush"), "{address}: {why}");
        }
    }
}
