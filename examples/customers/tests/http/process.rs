//! The process itself, killed and started again.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::office::typed;
use crate::postgres;

/// A running application, which ends with the test.
struct Running {
    child: Child,
    url: String,
}

impl Running {
    fn start(data: &Path, timeout: &str) -> Self {
        Self::run(command(data, timeout))
    }

    fn run(mut command: Command) -> Self {
        traces::leave_log(&mut command);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening ").expect("it tells where it listens").to_owned();
        Self { child, url }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(data: &Path, timeout: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_customers"));
    command.args(["--port", "0", "--session-timeout", timeout, "--data"]).arg(data);
    command
}

/// A browser that keeps its cookie over the death of the server.
struct Browser {
    client: reqwest::Client,
    cookie: String,
}

impl Browser {
    async fn sign_in(at: &Running, user: &str) -> Self {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let mut browser = Self { client, cookie: String::new() };
        let (_, cookie, _) = browser.send(at, "POST", "/sign-in", &[("user", user)]).await;
        browser.cookie = cookie;
        browser
    }

    async fn send(
        &self,
        at: &Running,
        method: &str,
        path: &str,
        form: &[(&str, &str)],
    ) -> (u16, String, String) {
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = self.client.request(method.parse().unwrap(), format!("{}{path}", at.url));
        let request = request.header("cookie", &self.cookie).body(form);
        let answer =
            request.header("content-type", "application/x-www-form-urlencoded").send().await.unwrap();
        let status = answer.status().as_u16();
        let cookie = answer.headers().get("set-cookie").map(|cookie| cookie.to_str().unwrap().to_owned());
        let cookie = cookie.and_then(|cookie| cookie.split(';').next().map(str::to_owned));
        (status, cookie.unwrap_or_default(), answer.text().await.unwrap())
    }

    async fn get(&self, at: &Running, path: &str) -> (u16, String) {
        let (status, _, text) = self.send(at, "GET", path, &[]).await;
        (status, text)
    }
}

/// Application session, business transaction, lock manager and transaction of the database, all together and
/// over a kill.
#[tokio::test]
async fn a_business_transaction_goes_on_after_a_kill_as_if_nothing_had_been() {
    let folder = tempfile::tempdir().unwrap();
    goes_on_after_a_kill(|| command(folder.path(), "20m")).await;
}

#[tokio::test]
async fn the_same_with_the_locks_in_postgresql() {
    let (folder, server) = (tempfile::tempdir().unwrap(), postgres::Server::start(&[]));
    let folder_of_server = server.folder().to_str().unwrap().replace('/', "%2F");
    let address = format!("postgres://postgres@{folder_of_server}/postgres");
    let command_in = |folder: &Path| {
        let mut command = command(folder, "20m");
        command.args(["--store", &address]);
        command
    };
    let command = || command_in(folder.path());
    goes_on_after_a_kill(command).await;
    assert!(!folder.path().join("customers-locks.db").exists());

    // A second process takes the locks over, with customers of its own: the first one ends with its next
    // write.
    let mut first = Running::run(command());
    let elsewhere = tempfile::tempdir().unwrap();
    let _second = Running::run(command_in(elsewhere.path()));
    let client = reqwest::Client::new();
    _ = client.post(format!("{}/sign-in", first.url)).body("user=Ada").send().await;
    assert_eq!(first.child.wait().unwrap().code(), Some(1));
}

async fn goes_on_after_a_kill(command: impl Fn() -> Command) {
    let first = Running::run(command());
    let (ada, bob) = (Browser::sign_in(&first, "Ada").await, Browser::sign_in(&first, "Bob").await);
    assert_eq!(ada.get(&first, "/customers/1/edit").await.0, 200);
    let since =
        |page: &str| page.split_once("<time datetime=\"").unwrap().1.split_once('"').unwrap().0.to_owned();
    let (status, refusal) = bob.get(&first, "/customers/1/edit").await;
    assert_eq!(status, 423);
    first.kill();

    let second = Running::run(command());
    let (status, refusal_after) = bob.get(&second, "/customers/1/edit").await;
    assert_eq!(status, 423, "the lock has outlived the process");
    assert_eq!(since(&refusal_after), since(&refusal));
    let (status, ..) = ada.send(&second, "POST", "/customers/1", &typed("1", "0101")).await;
    assert_eq!(status, 303, "and so has her session");
    let (status, form) = bob.get(&second, "/customers/1/edit").await;
    assert_eq!(status, 200);
    assert!(form.contains("0101") && form.contains("name=\"version\" value=\"2\""));
}

#[tokio::test]
async fn after_a_kill_the_sessions_of_closed_browsers_still_end() {
    let folder = tempfile::tempdir().unwrap();
    let first = Running::start(folder.path(), "2s");
    let ada = Browser::sign_in(&first, "Ada").await;
    assert_eq!(ada.get(&first, "/customers/1/edit").await.0, 200);
    first.kill();
    let second = Running::start(folder.path(), "2s");
    let bob = Browser::sign_in(&second, "Bob").await;
    let started = Instant::now();
    while bob.get(&second, "/customers/1/edit").await.0 == 423 {
        assert!(started.elapsed() < Duration::from_secs(10), "the lock is never freed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn a_second_process_in_the_same_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Running::start(folder.path(), "20m");
    let mut second =
        command(folder.path(), "20m").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut out, mut complaint) = (String::new(), String::new());
    second.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    second.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!(second.wait().unwrap().code(), Some(1));
    assert!(out.is_empty() && complaint.contains("customers-locks.db"), "{out}{complaint}");
}
