//! The cells of the routes.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::Value;

use super::RunTally;
use super::credentials::{Credential, Expected, State, Whose};
use super::table::{DOCUMENTED, Needs, Reply, Route, UNDOCUMENTED};
use super::world::{Words, World, filled};

/// Where the credential stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Key,
    Authorization,
    /// As [`Place::Key`], from a page.
    PageKey(Page),
}

/// A page that sends no `Origin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Own,
    /// Of another site.
    Unknown,
}

/// An answer of the server.
#[derive(Debug)]
struct Answer {
    status: u16,
    body: Value,
    challenge: bool,
}

/// Every route of the document stands in the table, and the other way round.
pub(super) async fn check_document(world: &World, tally: &mut RunTally) -> Result<()> {
    let http = &world.credentials.named("none")?.client.http;
    let document = http.get(format!("https://{}/openapi.json", world.address)).send().await?.text().await?;
    let document: Value = serde_json::from_str(&document)?;
    let paths = document["paths"].as_object().context("the document has paths")?;
    let methods = |(path, item): (&String, &Value)| {
        let methods = item.as_object().into_iter().flatten().map(|(method, _)| method.clone());
        methods.map(|method| (method, path.clone())).collect::<Vec<_>>()
    };
    let served: BTreeSet<_> = paths.iter().flat_map(methods).collect();
    let known: BTreeSet<_> =
        DOCUMENTED.iter().map(|route| (route.method.to_owned(), route.path.to_owned())).collect();
    ensure!(!served.is_empty(), "the document has no routes");
    for (method, path) in served.symmetric_difference(&known) {
        tally.wrong(format!("{method} {path} stands in only one of the document and the table"));
    }
    Ok(())
}

/// All routes with all credentials.
pub(super) async fn run(world: &World, tally: &mut RunTally) -> Result<()> {
    let prepared = world.words().await?;
    for route in routes() {
        for credential in &world.credentials.all {
            let expected = credential.expected(route.needs);
            for place in places(route, credential) {
                cell(world, route, credential, place, expected, &prepared, tally).await?;
            }
        }
    }
    pages(world, &prepared, tally).await?;
    // A deletion or withdrawal takes effect with the next call.
    world.reload(&world.credentials.later)?;
    for route in routes() {
        for credential in &world.credentials.all {
            let expected = match (credential.state, route.needs) {
                (_, Needs::Nothing) => continue,
                (State::Deleted, _) => Expected::Unauthenticated,
                // What is left to it is a query elsewhere.
                (State::Curbed, Needs::Somewhere(["query"])) => Expected::Done(credential.whose),
                (State::Curbed, _) => Expected::NothingHere,
                _ => continue,
            };
            cell(world, route, credential, Place::Key, expected, &prepared, tally).await?;
        }
    }
    world.reload(&world.credentials.settings)
}

/// As browsers send it: a certificate alone speaks for no page, and a key that sets origins apart speaks for
/// no page without an origin.
async fn pages(world: &World, prepared: &Words, tally: &mut RunTally) -> Result<()> {
    for route in routes().filter(|route| route.needs != Needs::Nothing) {
        // For all other credentials the server treats calls of pages and of programs alike.
        for credential in world
            .credentials
            .all
            .iter()
            .filter(|it| it.text.is_none() || it.isolates_origins || it.name == "everything")
        {
            for page in [Page::Own, Page::Unknown] {
                let is_known = page == Page::Own || !credential.isolates_origins;
                let expected = match credential.text {
                    Some(_) if is_known => credential.expected(route.needs),
                    _ => Expected::Unauthenticated,
                };
                cell(world, route, credential, Place::PageKey(page), expected, prepared, tally).await?;
            }
        }
    }
    Ok(())
}

fn routes() -> impl Iterator<Item = &'static Route> {
    DOCUMENTED.iter().chain(UNDOCUMENTED)
}

/// `Authorization` belongs to the secret where there is one.
fn places(route: &Route, credential: &Credential) -> Vec<Place> {
    match (&credential.text, route.secret) {
        (None, _) | (_, Some(_)) => vec![Place::Key],
        _ => vec![Place::Key, Place::Authorization],
    }
}

async fn cell(
    world: &World,
    route: &Route,
    credential: &Credential,
    place: Place,
    expected: Expected,
    prepared: &Words,
    tally: &mut RunTally,
) -> Result<()> {
    let is_done = matches!(expected, Expected::Done(_)) && route.needs != Needs::Nothing;
    let made = if is_done { Some(world.words().await?) } else { None };
    let answer = call(world, route, credential, place, made.as_ref().unwrap_or(prepared)).await;
    let wrong = match answer {
        Ok(answer) => complaint(route, expected, &answer),
        Err(error) => Some(format!("{error:#}")),
    };
    if let Some(words) = &made {
        world.tidy(words).await?;
    }
    tally.judge(
        wrong.map(|why| {
            format!("{} {} with {} in {place:?}: {why}", route.method, route.path, credential.name)
        }),
    );
    Ok(())
}

async fn call(
    world: &World,
    route: &Route,
    credential: &Credential,
    place: Place,
    words: &Words,
) -> Result<Answer> {
    let (path, query) = (filled(route.path, words), filled(route.query, words));
    let method: Method = route.method.to_uppercase().parse()?;
    let mut request =
        credential.client.http.request(method, format!("https://{}{path}?{query}", world.address));
    if let Some(secret) = route.secret {
        request = request.bearer_auth(filled(secret, words));
    }
    request = match (&credential.text, place) {
        (Some(text), Place::Key | Place::PageKey(_)) => request.header("lockhouse-key", text),
        (Some(text), Place::Authorization) => request.bearer_auth(text),
        (None, _) => request,
    };
    if let Place::PageKey(page) = place {
        let site = if page == Page::Own { "same-origin" } else { "cross-site" };
        request = request.header("sec-fetch-site", site);
    }
    if let Some(body) = route.body {
        request = request.header("content-type", "application/json").body(filled(body, words));
    }
    let response = request.send().await?;
    let status = response.status().as_u16();
    let challenge = response.headers().contains_key("www-authenticate");
    let is_stream = response.headers().get("content-type").is_some_and(|it| it == "text/event-stream");
    if is_stream {
        // It has no end.
        return Ok(Answer { status, body: Value::Null, challenge });
    }
    let text = response.text().await?;
    traces::answer(&text);
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    Ok(Answer { status, body, challenge })
}

/// The complaint about the answer, if there is one.
fn complaint(route: &Route, expected: Expected, answer: &Answer) -> Option<String> {
    let code = answer.body["code"].as_str().unwrap_or_default();
    let permission = answer.body["permission"].as_str().unwrap_or_default();
    let is_right = match expected {
        Expected::Unauthenticated => answer.status == 401 && code == "unauthenticated" && answer.challenge,
        Expected::Forbidden(words) => {
            answer.status == 403 && code == "forbidden" && words.contains(&permission)
        }
        Expected::NothingHere => answer.status == 403 && code == "forbidden" && !permission.is_empty(),
        Expected::Done(whose) => {
            let reply = if whose == Whose::Ours { route.right } else { route.elsewhere };
            is_expected(reply, answer, code)
        }
    };
    (!is_right)
        .then(|| format!("{expected:?} was expected, but the answer is {} {}", answer.status, answer.body))
}

fn is_expected(reply: Reply, answer: &Answer, code: &str) -> bool {
    let member = reply.member.is_none_or(|(key, value)| match (&answer.body[key], value) {
        (Value::Array(list), "some") => !list.is_empty(),
        (Value::Array(list), "none") => list.is_empty(),
        (found, value) => serde_json::from_str::<Value>(value).is_ok_and(|value| value == *found),
    });
    reply.status == answer.status && reply.code == code && member
}
