//! A hall to play in: the real server on a free port, with time that is moved on by hand, and browsers that
//! keep cookies.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockhouse::store::SqliteStore;
use lockhouse::{House, ManualClock, Options};
use reqwest::{Client, Method, Response, StatusCode, header};
use seats::{BoxOffice, Payments, serve};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long a seat is held.
pub(crate) const HOLD: Duration = Duration::from_secs(120);

pub(crate) struct Theatre {
    pub(crate) clock: ManualClock,
    pub(crate) url: String,
    pub(crate) payments: Payments,
    pub(crate) house: House,
    folder: TempDir,
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

impl Theatre {
    pub(crate) async fn open() -> Self {
        Self::at(tempfile::tempdir().unwrap(), ManualClock::new()).await
    }

    async fn at(folder: TempDir, clock: ManualClock) -> Self {
        let store = SqliteStore::open(folder.path().join("seats.db")).unwrap();
        let house = House::open(Arc::new(store), Options::new().clock(&clock)).await.unwrap();
        let payments = Payments::open(folder.path().join("payments.db")).unwrap();
        let office = BoxOffice::open(&house, payments.clone(), HOLD).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(serve(listener, office, async move { _ = stopped.await }));
        Self { clock, url, payments, house, folder, stop, served }
    }

    /// Ends the server as SIGTERM does; gives the folder of its databases.
    pub(crate) async fn close(self) -> (TempDir, ManualClock) {
        self.stop.send(()).unwrap();
        self.served.await.unwrap().unwrap();
        self.house.close().await;
        (self.folder, self.clock)
    }

    pub(crate) async fn reopen(self) -> Self {
        let (folder, clock) = self.close().await;
        Self::at(folder, clock).await
    }

    /// Another connection to the payments.
    pub(crate) fn payments_db(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.folder.path().join("payments.db")).unwrap()
    }

    pub(crate) async fn takings(&self) -> u32 {
        self.payments.takings_cents().await.unwrap()
    }

    /// A browser of a visitor of that name that has looked at the hall.
    pub(crate) async fn browser(&self, name: &'static str) -> Browser {
        let browser = Browser::new(&self.url, name);
        assert_eq!(browser.get("/").await.status, StatusCode::OK);
        browser
    }
}

/// A browser without scripts.
pub(crate) struct Browser {
    url: String,
    name: &'static str,
    client: Client,
    cookies: RefCell<BTreeMap<String, String>>,
}

/// An answer of the server.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) location: Option<String>,
    pub(crate) text: String,
}

impl Browser {
    pub(crate) fn new(url: &str, name: &'static str) -> Self {
        let client = Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build();
        Self { url: url.to_owned(), name, client: client.unwrap(), cookies: RefCell::default() }
    }

    /// The same browser at another server.
    pub(crate) fn at(mut self, url: &str) -> Self {
        url.clone_into(&mut self.url);
        self
    }

    pub(crate) async fn get(&self, path: &str) -> Page {
        self.send(Method::GET, path, "").await
    }

    pub(crate) async fn choose(&self, seat: &str) -> Page {
        self.post(seat, "claim", &format!("name={}", self.name)).await
    }

    pub(crate) async fn pay(&self, seat: &str) -> Page {
        self.post(seat, "pay", "method=card").await
    }

    pub(crate) async fn pay_slowly(&self, seat: &str) -> Page {
        self.post(seat, "pay", "method=slow").await
    }

    pub(crate) async fn bank_answers(&self, seat: &str) -> Page {
        self.post(seat, "bank", "").await
    }

    pub(crate) async fn give_back(&self, seat: &str) -> Page {
        self.post(seat, "give-back", "").await
    }

    pub(crate) async fn renew(&self, seat: &str) -> Page {
        self.post(seat, "renew", "").await
    }

    /// The heading of the seat's page.
    pub(crate) async fn heading(&self, seat: &str) -> String {
        self.get(&format!("/seats/{seat}")).await.heading()
    }

    /// The hall's text for a seat.
    pub(crate) async fn sees(&self, seat: &str) -> String {
        let hall = self.get("/").await.text;
        let label = hall.split("aria-label=\"").find(|text| text.starts_with(&format!("{seat}, ")));
        label.unwrap().split('"').next().unwrap().split_once(", ").unwrap().1.to_owned()
    }

    pub(crate) fn cookie(&self, key: &str) -> Option<String> {
        self.cookies.borrow().get(key).cloned()
    }

    pub(crate) fn set_cookie(&self, key: &str, value: &str) {
        self.cookies.borrow_mut().insert(key.to_owned(), value.to_owned());
    }

    /// The token of the claim on that seat.
    pub(crate) fn token(&self, seat: &str) -> String {
        let stub = self.cookie(&format!("seats-claim-{seat}")).unwrap();
        stub.split_once('.').unwrap().1.to_owned()
    }

    async fn post(&self, seat: &str, step: &str, body: &str) -> Page {
        self.send(Method::POST, &format!("/seats/{seat}/{step}"), body).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: &str) -> Page {
        let answer = self.request(method, path, body).send().await.unwrap();
        for cookie in answer.headers().get_all(header::SET_COOKIE) {
            let cookie = cookie.to_str().unwrap();
            assert!(cookie.contains("; HttpOnly; SameSite=Lax"), "{cookie}");
            let (key, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            let mut cookies = self.cookies.borrow_mut();
            if cookie.contains("Max-Age=0") {
                cookies.remove(key);
            } else {
                cookies.insert(key.to_owned(), value.to_owned());
            }
        }
        Page::read(answer).await
    }

    pub(crate) fn request(&self, method: Method, path: &str, body: &str) -> reqwest::RequestBuilder {
        let cookies: Vec<_> = self.cookies.borrow().iter().map(|(key, it)| format!("{key}={it}")).collect();
        self.client
            .request(method, format!("{}{path}", self.url))
            .header(header::COOKIE, cookies.join("; "))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body.to_owned())
    }
}

impl Page {
    pub(crate) async fn read(answer: Response) -> Self {
        let location = answer.headers().get(header::LOCATION).map(|it| it.to_str().unwrap().to_owned());
        Self { status: answer.status(), location, text: answer.text().await.unwrap() }
    }

    pub(crate) fn heading(&self) -> String {
        let (_, rest) = self.text.split_once("<h1").unwrap_or_else(|| panic!("no heading: {self:?}"));
        rest.split_once('>').unwrap().1.split_once("</h1>").unwrap().0.to_owned()
    }

    /// Asserts that it sends the browser to the seat's page.
    #[track_caller]
    pub(crate) fn leads_to(&self, path: &str) {
        assert_eq!((self.status, self.location.as_deref()), (StatusCode::SEE_OTHER, Some(path)), "{self:?}");
    }

    #[track_caller]
    pub(crate) fn says(&self, words: &str) {
        assert!(self.text.contains(words), "{words:?} is not in {}", self.text);
    }
}
