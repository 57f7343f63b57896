//! A running server that is asked, and the fleet as it shows it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lockhouse_cli::api::{BucketClient, Call, ENTRIES};
use lockhouse_cli::cluster::FLEET;
use lockhouse_cli::exit::Failure;
use lockhouse_cli::print::text;
use lockhouse_cli::secret_file::{self, SecretFile};
use lockhouse_cli::shape::Promised;
use lockhouse_cli::target::Target;
use serde_json::Value;
use tokio::time::timeout;

use super::PATIENCE;
use super::diagnosis::Diagnosis;

const NAME: &str = "asked server";
const CHECK: &str = "fleet";

/// A server that runs, and what it is asked with.
#[derive(Debug, Args)]
pub(super) struct AskedServer {
    /// The URL of a running server that is asked, too; of a fleet any node, which needs the permission
    /// operate in all buckets
    #[arg(long = "server", visible_alias = "url", value_name = "URL")]
    server: Option<String>,

    /// For https://: a PEM file with the CA of that server's certificate
    #[arg(long, value_name = "FILE", env = "LOCKHOUSE_CA")]
    ca: Option<PathBuf>,

    /// The API key or token for that server
    #[arg(long, value_name = "KEY", env = "LOCKHOUSE_KEY", hide_env_values = true)]
    key: Option<String>,

    /// A file with the API key or token, or - for stdin; it goes before --key
    #[arg(long, value_name = "FILE", env = "LOCKHOUSE_KEY_FILE", value_parser = secret_file::parse)]
    key_file: Option<SecretFile>,
}

impl AskedServer {
    /// Asks it, if one is named.
    pub(super) async fn check(self, is_of_fleet: bool, diagnosis: &mut Diagnosis) {
        let Some(server) = self.server else { return };
        let target = Target {
            urls: vec![server.clone()],
            ca: self.ca,
            cert: None,
            cert_key: None,
            bucket: None,
            key: self.key,
            key_file: self.key_file,
        };
        if is_of_fleet {
            match ask(&target, Call::get(&["cluster"]).of_server(), FLEET).await {
                Ok(fleet) => {
                    diagnosis.ok(NAME, format!("{server} answers, and takes the credential"));
                    check_nodes(&fleet, diagnosis);
                }
                Err(why) => diagnosis.fault(NAME, why, "name a node that runs, with a key that may operate"),
            }
        } else {
            match ask(&target, Call::get(&["query"]).with("limit", "1"), ENTRIES).await {
                Ok(_) => diagnosis.ok(NAME, format!("{server} answers, and takes the credential")),
                Err(why) => diagnosis.fault(NAME, why, "name a server that runs, with a key that may query"),
            }
        }
    }
}

async fn ask(target: &Target, call: Call, members: Promised) -> Result<Value, String> {
    let client = BucketClient::new(target).map_err(|Failure { message, .. }| message)?;
    // A node asks all others, and waits for each.
    match timeout(PATIENCE + Duration::from_secs(5), client.call(call, members)).await {
        Ok(answer) => answer.map_err(|Failure { message, .. }| message),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

fn check_nodes(fleet: &Value, diagnosis: &mut Diagnosis) {
    let nodes = fleet["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    for node in nodes {
        let label = text(node, "node");
        if let Some(why) = node["unreachable"].as_str() {
            let advice =
                format!("see whether it runs, and whether other nodes reach it at {}", node["address"]);
            diagnosis.fault(CHECK, format!("node {label} does not answer: {why}"), advice);
        } else if let Some(why) = node["notReady"].as_str() {
            let advice = "docs/operations.md says what each reason means";
            diagnosis.fault(CHECK, format!("node {label} is not ready: {why}"), advice);
        }
    }
    let versions: BTreeSet<&str> = nodes.iter().filter_map(|node| node["version"].as_str()).collect();
    if versions.len() > 1 {
        let versions = versions.into_iter().collect::<Vec<_>>().join(", ");
        let advice = "end the upgrade: restart the nodes of the earlier version, one by one";
        diagnosis.warn(CHECK, format!("the nodes have several versions: {versions}"), advice);
    }
    let slots = fleet["slots"].as_array().map(Vec::as_slice).unwrap_or_default();
    for state in ["free", "unservable"] {
        let count = slots.iter().filter(|slot| slot["state"] == state).count();
        if count > 0 {
            let advice = "wait for a slot lease and look again; the logs of the nodes say why";
            diagnosis.warn(CHECK, format!("{count} slots are {state}, and served by no node"), advice);
        }
    }
    diagnosis.ok_unless_found(CHECK, format!("{} nodes answer, and have all slots", nodes.len()));
}
