//! `lockhouse top` in a pseudo-terminal, before a real server.

mod terminal;

use std::path::Path;
use std::time::{Duration, Instant};

use lockhouse::Agent;
use lockhouse::remote::{Connection, connect};
use rustix::process::Signal;

use crate::running::{Running, lockhouse, run};
use crate::top::terminal::{Terminal, colors};

const TTL: Duration = Duration::from_secs(600);

fn url(server: &Running) -> String {
    format!("http://{}", server.address)
}

async fn connected(server: &Running) -> (Connection, Agent) {
    let connection = connect(url(server)).await.unwrap();
    let agent = connection.agent("holder").unwrap();
    (connection, agent)
}

fn top(folder: &Path, server: &Running) -> Terminal {
    Terminal::start(folder, &["top", "--url", &url(server), "--every", "200ms"], &[])
}

/// The lines of the list that begin with that name.
fn rows<'s>(screen: &'s str, name: &str) -> Vec<&'s str> {
    screen.lines().filter(|line| line.split_whitespace().next() == Some(name)).collect()
}

/// Whether the name of the first line stands above that of the second one.
fn is_above(screen: &str, first: &str, second: &str) -> bool {
    let at = |name: &str| screen.lines().position(|line| line.split_whitespace().next() == Some(name));
    matches!((at(first), at(second)), (Some(first), Some(second)) if first < second)
}

#[tokio::test(flavor = "multi_thread")]
async fn holders_and_waiters_are_seen_sorted_filtered_and_broken() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let (connection, holder) = connected(&server).await;
    let other = connection.agent("waiter").unwrap();
    let _oldest = holder.locks().request("zebra").await.unwrap();
    connection.claims().claim("seat/1", "Anna", TTL).await.unwrap();
    // The age is known to a tick of the server.
    let begun = held_since(&connection, "zebra").await;
    let held = loop {
        let held = holder.locks().request("apple").await.unwrap();
        if held_since(&connection, "apple").await > begun {
            break held;
        }
        held.release().await.unwrap();
    };
    let token = held.fencing_token().get().to_string();
    let waiting = tokio::spawn(other.locks().request("apple").into_future());

    let top = top(folder.path(), &server);
    let seen = top.until(|seen| {
        rows(seen, "apple").len() == 2
            && seen.contains("held 3 (web 2, offline 0, claim 1)  waiting 1")
            && seen.contains("waited for: apple (1 wait)")
    });
    assert!(rows(&seen, "apple")[0].contains("held") && rows(&seen, "apple")[0].contains(&token), "{seen}");
    assert!(rows(&seen, "apple")[1].contains("waits #1"), "{seen}");
    assert!(
        rows(&seen, "seat/1")[0].contains("claim") && rows(&seen, "seat/1")[0].contains("Anna"),
        "{seen}"
    );
    assert!(is_above(&seen, "apple", "zebra"), "{seen}");
    assert!(seen.contains("b break  p pause"), "{seen}");

    top.press("s");
    top.until(|seen| seen.contains("by age") && is_above(seen, "zebra", "apple"));
    top.press("s");
    top.until(|seen| seen.contains("by name") && is_above(seen, "apple", "zebra"));

    top.press("/sea\r");
    top.until(|seen| {
        seen.contains("prefix sea") && rows(seen, "apple").is_empty() && !rows(seen, "seat/1").is_empty()
    });
    top.press("/\x15\rkk");
    top.until(|seen| seen.contains("kind offline") && rows(seen, "seat/1").is_empty());
    top.press("k");
    top.until(|seen| {
        seen.contains("kind claim") && rows(seen, "apple").is_empty() && !rows(seen, "seat/1").is_empty()
    });

    top.press("kk/apple\r");
    top.until(|seen| {
        seen.contains("prefix apple")
            && !seen.contains("kind claim")
            && rows(seen, "apple").len() == 2
            && rows(seen, "zebra").is_empty()
    });
    top.press("b");
    let seen = top.until(|seen| seen.contains("Break apple?"));
    assert!(seen.contains(&format!("fencing token {token}")) && seen.contains("holder"), "{seen}");
    top.press("it hangs\r");
    top.until(|seen| seen.contains(&format!("broke apple (token {token})")));
    held.lost().await;
    let granted = waiting.await.unwrap().unwrap();
    let next = granted.fencing_token().get().to_string();
    top.press("\x1b[B");
    let seen = top.until(|seen| rows(seen, "apple").len() == 1 && !seen.contains(&token));
    assert!(rows(&seen, "apple")[0].contains(&next), "{seen}");
}

/// The instant from which the name is held, as the server shows it.
async fn held_since(connection: &Connection, name: &str) -> std::time::SystemTime {
    let held = connection.query(None).await.unwrap().held;
    held.iter().find(|lock| lock.name.as_name().as_str() == Some(name)).unwrap().since
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_confirmed_is_not_broken() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let (connection, holder) = connected(&server).await;
    let held = holder.locks().request("apple").await.unwrap();
    let top = top(folder.path(), &server);
    top.until(|seen| rows(seen, "apple").len() == 1);
    top.press("bno");
    top.until(|seen| seen.contains("Break apple?") && seen.contains("no_"));
    top.press("\x1b");
    top.until(|seen| !seen.contains("Break apple?"));
    top.press("q");
    assert_eq!(top.ended().0, "0");
    assert_eq!(connection.query(None).await.unwrap().held.len(), 1);
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_for_a_reason_is_given_one_in_the_same_dialog() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.toml"), "break_reason = \"required\"\n").unwrap();
    let server = Running::start(folder.path(), &["--config", "a.toml"]);
    let (_connection, holder) = connected(&server).await;
    let held = holder.locks().request("apple").await.unwrap();
    let top = top(folder.path(), &server);
    top.until(|seen| rows(seen, "apple").len() == 1);
    top.press("b \r");
    let seen = top.until(|seen| seen.contains("the settings of this server ask for it"));
    assert!(seen.contains("Break apple?") && !seen.contains("may be empty"), "{seen}");
    top.press("\x7fit hangs\r");
    top.until(|seen| seen.contains("broke apple") && !seen.contains("Break apple?"));
    held.lost().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_long_list_are_turned() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let (_connection, holder) = connected(&server).await;
    let mut held = Vec::new();
    for number in 100..150 {
        held.push(holder.locks().request(&format!("n{number}")).await.unwrap());
    }
    let top = top(folder.path(), &server);
    let page = |seen: &str| seen.lines().filter(|line| line.starts_with("n1")).count();
    let seen = top.until(|seen| page(seen) == 17 && seen.contains("page 1+"));
    assert!(seen.contains("n100") && !seen.contains("n117"), "{seen}");
    top.press("\x1b[6~");
    top.until(|seen| seen.contains("page 2+") && seen.contains("n117") && !seen.contains("n116 "));
    top.press("\x1b[6~");
    top.until(|seen| seen.contains("page 3") && seen.contains("n149") && page(seen) == 16);
    top.press("\x1b[5~");
    top.until(|seen| seen.contains("page 2+") && seen.contains("n117"));
    top.press("\x1b[H");
    top.until(|seen| seen.contains("page 1+") && seen.contains("n100"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let address = server.address.to_string();
    let (connection, holder) = connected(&server).await;
    let held = holder.locks().request("apple").await.unwrap();
    let top = top(folder.path(), &server);
    top.until(|seen| rows(seen, "apple").len() == 1);
    drop(server);
    let seen = top.until(|seen| seen.contains("unreachable, since 20"));
    assert_eq!(rows(&seen, "apple").len(), 1, "the last list is still there: {seen}");
    drop((held, holder, connection));
    let again = lockhouse(folder.path(), &["serve", "--listen", &address, "--store", "memory:", "--fresh"]);
    let _server = Running::of(again);
    top.until(|seen| {
        !seen.contains("unreachable") && seen.contains("held 0") && rows(seen, "apple").is_empty()
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_stops_the_list_until_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let (_connection, holder) = connected(&server).await;
    let top = top(folder.path(), &server);
    // What was asked for the first time is shown also in a pause; then there are rates.
    top.until(|seen| seen.contains("granted 0.0/s"));
    top.press(" ");
    top.until(|seen| seen.contains("paused"));
    let _held = holder.locks().request("apple").await.unwrap();
    // In that time it would ask five times.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(1) {
        top.press("?");
        top.until(|seen| seen.contains("any key closes it"));
        top.press("x");
        let seen = top.until(|seen| !seen.contains("any key closes it"));
        assert!(rows(&seen, "apple").is_empty() && seen.contains("paused"), "{seen}");
    }
    top.press(" ");
    top.until(|seen| !seen.contains("paused") && rows(seen, "apple").len() == 1);
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    type End = fn(&Terminal);
    let ends: [(&str, End); 5] = [
        ("q", |top| top.press("q")),
        ("ctrl-c", |top| top.press("\x03")),
        ("SIGTERM", |top| top.send(Signal::TERM)),
        ("SIGINT", |top| top.send(Signal::INT)),
        ("SIGHUP", |top| top.send(Signal::HUP)),
    ];
    for (what, end) in ends {
        let top = top(folder.path(), &server);
        top.until_screen(|screen| screen.alternate_screen() && screen.contents().contains("held 0"));
        assert!(!top.reads_lines(), "{what}");
        end(&top);
        assert_eq!(top.ended().0, "0", "{what}");
        assert!(top.reads_lines(), "{what}");
    }
}

#[test]
fn another_size_is_drawn_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let top = top(folder.path(), &server);
    top.until(|seen| seen.contains("held 0") && !seen.contains("METADATA"));
    top.resize(60, 200);
    top.until(|seen| seen.contains("held 0") && seen.contains("METADATA"));
    top.resize(5, 20);
    top.until(|seen| seen.contains("lockhouse top") && seen.contains("NAME") && !seen.contains("held 0"));
    top.resize(1, 1);
    top.resize(24, 80);
    top.until(|seen| seen.contains("held 0") && !seen.contains("METADATA"));
    top.press("q");
    assert_eq!(top.ended().0, "0");
}

#[test]
fn keys_beside_another_size_are_obeyed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let top = top(folder.path(), &server);
    top.until(|seen| seen.contains("held 0"));
    for attempt in 0..100 {
        top.resize(24, 80 + attempt % 2);
        // Opens the help, or closes it.
        top.press("?");
        let is_open = attempt % 2 == 0;
        top.until(|seen| seen.contains("any key closes it") == is_open);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn colours_are_those_of_the_terminal_and_can_be_switched_off() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let (connection, holder) = connected(&server).await;
    let other = connection.agent("waiter").unwrap();
    let _held = holder.locks().request("apple").await.unwrap();
    let _waiting = tokio::spawn(other.locks().request("apple").into_future());
    for (value, is_colored) in [("", true), ("1", false)] {
        let arguments = ["top", "--url", &url(&server)];
        let top = Terminal::start(folder.path(), &arguments, &[("NO_COLOR", value)]);
        top.until_screen(|screen| {
            let is_shown = rows(&screen.contents(), "apple").len() == 2;
            // Those of 16 that are readable on dark and on light.
            let is_sound = colors(screen).iter().all(|color| matches!(color, vt100::Color::Idx(1 | 5)));
            is_shown && is_sound && colors(screen).is_empty() != is_colored
        });
    }
}

#[test]
fn without_a_terminal_it_names_the_command_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    let (code, out, stderr) = run(&mut lockhouse(folder.path(), &["top"]));
    assert_eq!((code, &*out), (Some(2), ""));
    assert!(stderr.contains("needs a terminal") && stderr.contains("lockhouse ls"), "{stderr}");
}

#[test]
fn a_server_that_is_away_at_the_start_is_reported_before_the_terminal_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}");
    let top = Terminal::start(folder.path(), &["top", "--url", &url], &[]);
    let (code, seen) = top.ended();
    assert_eq!(code, "69", "{seen}");
    assert!(seen.contains("cannot reach") && seen.contains("lockhouse serve"), "{seen}");
}
