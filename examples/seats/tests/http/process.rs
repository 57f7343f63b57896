//! The state that outlives the process.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use lockhouse::Secret;
use reqwest::StatusCode;

use crate::postgres;
use crate::theatre::{Browser, Theatre};

/// The program itself, on a free port.
struct Program {
    child: Child,
    url: String,
}

impl Program {
    fn start(data: &Path, store: Option<&str>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seats"));
        command.args(["--port", "0", "--hold", "10m", "--data"]).arg(data).stdout(Stdio::piped());
        store.iter().for_each(|store| _ = command.args(["--store", store]));
        traces::leave_log(&mut command);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        Self { child, url }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The process has ended already, unless the test has failed.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[tokio::test]
async fn holds_payments_and_bookings_survive_a_kill() {
    survive_a_kill(None).await;
}

#[tokio::test]
async fn the_same_with_the_claims_in_postgresql() {
    let server = postgres::Server::start(&[]);
    let folder_of_server = server.folder().to_str().unwrap().replace('/', "%2F");
    let address = format!("postgres://postgres@{folder_of_server}/postgres");
    survive_a_kill(Some(&address)).await;
}

async fn survive_a_kill(store: Option<&str>) {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::start(folder.path(), store);
    let (ada, bob) = (Browser::new(&program.url, "Ada"), Browser::new(&program.url, "Bob"));
    ada.choose("C1").await.leads_to("/seats/C1");
    ada.pay("C1").await.leads_to("/seats/C1");
    ada.choose("C2").await.leads_to("/seats/C2");
    ada.pay_slowly("C2").await.leads_to("/seats/C2");
    ada.choose("C3").await.leads_to("/seats/C3");
    program.kill();

    let program = Program::start(folder.path(), store);
    let (ada, bob) = (ada.at(&program.url), bob.at(&program.url));
    assert_eq!(bob.sees("C1").await, "booked by Ada");
    assert_eq!(bob.sees("C2").await, "held for Ada");
    assert_eq!(bob.choose("C3").await.status, StatusCode::CONFLICT);
    assert_eq!(ada.heading("C1").await, "C1 is yours");
    assert_eq!(ada.heading("C2").await, "Your bank is at work on C2");
    ada.bank_answers("C2").await.leads_to("/seats/C2");
    ada.pay("C3").await.leads_to("/seats/C3");
    assert_eq!(bob.sees("C2").await, "booked by Ada");
    assert_eq!(bob.sees("C3").await, "booked by Ada");
    program.kill();
}

#[tokio::test]
async fn what_was_booked_and_not_yet_charged_is_charged_at_the_next_start() {
    let theatre = Theatre::open().await;
    let (ada, bob) = (theatre.browser("Ada").await, theatre.browser("Bob").await);
    for (browser, seat) in [(&ada, "C1"), (&bob, "C2")] {
        browser.choose(seat).await.leads_to(&format!("/seats/{seat}"));
        browser.pay_slowly(seat).await.leads_to(&format!("/seats/{seat}"));
    }
    // As if the server had ended between the two.
    let token: Secret = ada.token("C1").parse().unwrap();
    theatre.house.bucket("hall").claims().finalize("seat/C1", &token).await.unwrap();
    assert_eq!(theatre.takings().await, 0);

    let theatre = theatre.reopen().await;
    assert_eq!(theatre.takings().await, 45_00);
    let (ada, bob) = (ada.at(&theatre.url), bob.at(&theatre.url));
    assert_eq!(ada.heading("C1").await, "C1 is yours");
    assert_eq!(bob.heading("C2").await, "Your bank is at work on C2");
}
