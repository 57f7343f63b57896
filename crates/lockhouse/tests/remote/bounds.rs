//! The bounds of what callers name, which are the same in process, in the remote client and over HTTP.

use std::time::Duration;

use lockhouse::remote::connect;
use lockhouse::{ClaimError, Claims, House, LockError, LockType, OwnerError, Owners, Quota, RecordKind};
use reqwest::Client;
use serde_json::{Value, json};

use crate::process::ServerProcess;
use crate::remote::world::LEASE;

const MINUTE: Duration = Duration::from_secs(60);

/// A bound of the vectors.
struct Bound {
    of: String,
    unit: String,
    least: u64,
    most: u64,
}

impl Bound {
    fn all() -> Vec<Self> {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../protocol/vectors/bounds.json");
        let vectors: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let text = |bound: &Value, key: &str| bound[key].as_str().unwrap().to_owned();
        let bounds = vectors["bounds"].as_array().unwrap().iter().map(|bound| Self {
            of: text(bound, "of"),
            unit: text(bound, "unit"),
            least: bound["least"].as_u64().unwrap(),
            most: bound["most"].as_u64().unwrap(),
        });
        bounds.collect()
    }

    /// The values at the bound and just beyond, with whether they are allowed.
    fn values(&self) -> impl Iterator<Item = (u64, bool)> {
        let below = self.least.checked_sub(1).map(|below| (below, false));
        below.into_iter().chain([(self.least, true), (self.most, true), (self.most + 1, false)])
    }

    fn text(&self, length: u64) -> String {
        let length = usize::try_from(length).unwrap();
        match &*self.unit {
            "byte" => "é".repeat(length / 2) + &"x".repeat(length % 2),
            "character" => "𝕏".repeat(length),
            "half" => "𝕏".repeat(length / 2) + &"x".repeat(length % 2),
            _ => String::new(),
        }
    }
}

fn of_owner<T>(outcome: Result<T, OwnerError>) -> Result<(), Quota> {
    match outcome {
        Ok(_) => Ok(()),
        Err(OwnerError::Quota(quota)) => Err(quota),
        Err(error) => panic!("{error}"),
    }
}

fn of_claim<T>(outcome: Result<T, ClaimError>) -> Result<(), Quota> {
    match outcome {
        Ok(_) => Ok(()),
        Err(ClaimError::Quota(quota)) => Err(quota),
        Err(error) => panic!("{error}"),
    }
}

fn of_lock<T>(outcome: Result<T, LockError>) -> Result<(), Quota> {
    match outcome {
        Ok(_) => Ok(()),
        Err(LockError::Quota(quota)) => Err(quota),
        Err(error) => panic!("{error}"),
    }
}

/// The outcome of a call with that value, by the library.
async fn by_library((owners, claims): &(Owners, Claims), bound: &Bound, value: u64) -> Result<(), Quota> {
    let (text, resource) = (bound.text(value), format!("resource {} {value}", bound.of));
    let lock = async |kind: &str, id: &str| {
        let owner = owners.open("Anna", MINUTE).await.unwrap();
        of_lock(owner.lock([RecordKind::new(kind, LockType::ReadWrite).for_write(id)]).await)
    };
    match &*bound.of {
        "label" => of_owner(owners.open(text, MINUTE).await),
        "metadata" => of_owner(owners.open("Anna", MINUTE).metadata(text).await),
        "ttlMs" => of_owner(owners.open("Anna", Duration::from_millis(value)).await),
        "maxMs" => of_owner(owners.open("Anna", MINUTE).max_life(Duration::from_millis(value)).await),
        "claimant" => of_claim(claims.claim(&*resource, text, MINUTE).await),
        "claimKey" => of_claim(claims.claim(&*resource, "Anna", MINUTE).idempotency_key(text).await),
        "resource" => of_claim(claims.claim(&*text, "Anna", MINUTE).await),
        "kind" => lock(&text, "7").await,
        "id" => lock("customer", &text).await,
        other => panic!("no call has a bound of {other}"),
    }
}

/// As [`by_library`], by HTTP alone: the problem, if there is one.
async fn by_http(bucket: &str, bound: &Bound, value: u64) -> Option<Value> {
    let text = bound.text(value);
    let post = async |path: &str, secret: &str, body: Value| {
        let call = Client::new().post(format!("{bucket}/{path}")).bearer_auth(secret);
        let answer = call.header("content-type", "application/json").body(body.to_string());
        let answer = answer.send().await.unwrap();
        let status = answer.status();
        let body: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        (status.is_success(), body)
    };
    let mut body = match &*bound.of {
        "label" | "metadata" | "ttlMs" | "maxMs" => json!({"label": "Anna"}),
        "kind" | "id" => {
            let (_, owner) = post("owners", "", json!({"label": "Anna"})).await;
            let mut lock = json!({"kind": "customer", "id": "7", "intent": "write"});
            lock[&bound.of] = json!(text);
            let body = json!({"owner": owner["owner"], "locks": [lock]});
            let (done, problem) = post("locks", owner["ownerSecret"].as_str().unwrap(), body).await;
            // So that the next one may have the record.
            post(
                "locks/release",
                owner["ownerSecret"].as_str().unwrap(),
                json!({"owner": owner["owner"], "all": true}),
            )
            .await;
            return (!done).then_some(problem);
        }
        _ => json!({"resource": format!("resource {} {value}", bound.of), "claimant": "Anna"}),
    };
    body[&bound.of] = if bound.unit == "millisecond" { json!(value) } else { json!(text) };
    let path = if body["label"].is_string() { "owners" } else { "claims" };
    let (done, problem) = post(path, "", body).await;
    (!done).then_some(problem)
}

#[tokio::test]
async fn every_bound_is_the_same_in_process_in_the_remote_client_and_over_http() {
    let here = House::new().bucket("default");
    let here = (here.owners(), here.claims());
    let server = ServerProcess::start(LEASE);
    let base = server.url();
    let there = connect(&base).bucket("library").await.unwrap();
    let there = (there.owners(), there.claims());
    let bucket = format!("{base}/v1/buckets/http");
    for bound in Bound::all() {
        for (value, is_allowed) in bound.values() {
            let Bound { of, .. } = &bound;
            let [one, other] =
                [by_library(&here, &bound, value).await, by_library(&there, &bound, value).await];
            assert_eq!(one, other, "{of} {value}: in the same words");
            assert_eq!(one.is_ok(), is_allowed, "{of} {value}: {one:?}");
            let problem = by_http(&bucket, &bound, value).await;
            assert_eq!(problem.is_none(), is_allowed, "{of} {value}: {problem:?}");
            if let Some(problem) = problem {
                assert_eq!(problem["code"], "invalid", "{problem}");
                assert!(problem["field"].as_str().unwrap().ends_with(of), "{problem}");
            }
        }
    }
}
