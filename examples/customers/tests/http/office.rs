//! An application in a temporary folder, and browsers that each have their own cookie.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::http::{Request, header};
use customers::{App, COOKIE, Options};
use lockhouse::ManualClock;
use rusqlite::Connection;
use tempfile::TempDir;
use tower::ServiceExt;

/// How long a session lasts without any request.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1200);

pub(crate) struct Office {
    pub(crate) app: App,
    router: Router,
    folder: TempDir,
}

pub(crate) struct Browser {
    router: Router,
    pub(crate) cookie: Option<String>,
    /// The header that names the site whose page has sent the request.
    pub(crate) site: Option<&'static str>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) location: String,
    pub(crate) text: String,
}

impl Office {
    pub(crate) async fn open() -> Self {
        Self::with_timeout(TIMEOUT).await
    }

    pub(crate) async fn with_timeout(session_timeout: Duration) -> Self {
        Self::over(lockhouse::Options::new(), session_timeout).await
    }

    /// With a clock that is moved on by hand.
    pub(crate) async fn by_hand(clock: &ManualClock) -> Self {
        Self::over(lockhouse::Options::new().clock(clock), TIMEOUT).await
    }

    async fn over(house: lockhouse::Options, session_timeout: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { data: folder.path().to_owned(), store: None, session_timeout, house };
        let app = App::open(&options).await.unwrap();
        Self { router: app.router(), app, folder }
    }

    /// A browser without a signed-in user.
    pub(crate) fn stranger(&self) -> Browser {
        Browser { router: self.router.clone(), cookie: None, site: None }
    }

    pub(crate) async fn browser(&self, user: &str) -> Browser {
        let mut browser = self.stranger();
        assert_eq!(browser.post("/sign-in", &[("user", user)]).await.status, 303);
        assert!(browser.cookie.is_some());
        browser
    }

    /// What is told of a customer to that browser, one event after the other.
    pub(crate) async fn watch(&self, browser: &Browser, id: i64) -> BodyDataStream {
        let mut request = Request::get(format!("/customers/{id}/free"));
        if let Some(cookie) = &browser.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        let request = request.body(Body::empty()).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/event-stream");
        answer.into_body().into_data_stream()
    }

    /// The database of the customers, past all locks.
    pub(crate) fn database(&self) -> Connection {
        let database = Connection::open(self.folder.path().join("customers.db")).unwrap();
        database.busy_timeout(Duration::from_secs(5)).unwrap();
        database
    }

    pub(crate) fn phone(&self, id: i64) -> String {
        let sql = "select phone from customers where id = ?1";
        self.database().query_row(sql, [id], |row| row.get(0)).unwrap()
    }

    /// A change by a program that knows nothing of locks.
    pub(crate) fn change_phone(&self, id: i64, phone: &str) {
        let sql = "update customers set phone = ?2, version = version + 1 where id = ?1";
        assert_eq!(self.database().execute(sql, rusqlite::params![id, phone]).unwrap(), 1);
    }

    /// The holders and their locks: `Ada writes customer/1`.
    pub(crate) async fn held(&self) -> Vec<String> {
        let snapshot = self.app.bucket().snapshot().await.unwrap();
        let words = |lock: &lockhouse::LockInfo| {
            let does = if lock.mode == lockhouse::Mode::Exclusive { "writes" } else { "reads" };
            format!("{} {does} {}", lock.client_id, lock.name.as_name().display())
        };
        let mut held: Vec<_> = snapshot.held.iter().map(words).collect();
        held.sort();
        held
    }

    /// Waits until it is so, for at most 10 s.
    pub(crate) async fn until_held(&self, expected: &[&str]) {
        let mut changed = self.app.bucket().changed();
        let is_so = async {
            while self.held().await != expected {
                changed.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(10), is_so).await.expect("it becomes so");
    }
}

impl Browser {
    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, String::new()).await
    }

    pub(crate) async fn post(&mut self, path: &str, form: &[(&str, &str)]) -> Answer {
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        self.send("POST", path, form).await
    }

    /// Saves customer 1 with that phone number, as the form of that version does.
    pub(crate) async fn save(&mut self, version: &str, phone: &str) -> Answer {
        self.post("/customers/1", &typed(version, phone)).await
    }

    pub(crate) async fn send(&mut self, method: &str, path: &str, body: String) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if method == "POST" {
            request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        }
        if let Some(site) = self.site {
            request = request.header("sec-fetch-site", site);
        }
        if let Some(cookie) = &self.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        let response = self.router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        if let Some(cookie) = parts.headers.get(header::SET_COOKIE) {
            let (cookie, how) = cookie.to_str().unwrap().split_once(';').unwrap();
            assert!(cookie.starts_with(COOKIE), "{cookie}");
            self.cookie = (!how.contains("Max-Age=0")).then(|| cookie.to_owned());
        }
        let location = parts.headers.get(header::LOCATION).map(|to| to.to_str().unwrap().to_owned());
        let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answer { status: parts.status.as_u16(), location: location.unwrap_or_default(), text }
    }
}

/// The form of customer 1, with another phone number.
pub(crate) fn typed<'a>(version: &'a str, phone: &'a str) -> [(&'a str, &'a str); 6] {
    [
        ("version", version),
        ("name", "Brightwater Books"),
        ("street", "14 Quay Street"),
        ("city", "Harwich"),
        ("phone", phone),
        ("note", "Prefers deliveries before noon."),
    ]
}

impl Answer {
    /// Whether the page says it, whatever stands between the words.
    #[track_caller]
    pub(crate) fn says(&self, what: &str) {
        assert!(self.plain().contains(what), "{what:?} is not in:\n{}", self.plain());
    }

    #[track_caller]
    pub(crate) fn never_says(&self, what: &str) {
        assert!(!self.plain().contains(what), "{what:?} is in:\n{}", self.plain());
    }

    /// The values of its form.
    pub(crate) fn value(&self, field: &str) -> Option<&str> {
        let (_, rest) = self.text.split_once(&format!("name=\"{field}\" value=\""))?;
        rest.split_once('"').map(|(value, _)| value)
    }

    fn plain(&self) -> String {
        let mut plain = String::new();
        let mut in_tag = false;
        for c in self.text.chars() {
            match c {
                '<' => in_tag = true,
                '>' => in_tag = false,
                c if !in_tag => plain.push(c),
                _ => {}
            }
        }
        plain.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
