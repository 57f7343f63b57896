//! One call, one answer.

use std::fmt;
use std::sync::Arc;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use tokio::time::{Instant, timeout, timeout_at};

use super::call::{Call, encode};
use crate::remote::error::ConnectError;
use crate::remote::transport::address::{Address, without_password};
use crate::remote::transport::credentials::Credentials;
use crate::remote::transport::endpoints::{Endpoints, LONGEST_PATIENCE};
use crate::remote::transport::stream::HttpClient;
use crate::remote::transport::tls_error::{is_of_tls, is_refusal, remedy};

/// The header with the credential of the caller.
const KEY: &str = "lockhouse-key";

/// The header of an answer that is given once more.
const REPLAYED: &str = "idempotency-replayed";

/// No answer is longer.
const ANSWER_BYTES: usize = 64 << 20;

/// A bucket of a server, as HTTP has it: made by [`Connect::http`](crate::remote::Connect::http).
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lockhouse::remote::{connect, http::Call};
///
/// let http = connect("http://127.0.0.1:7420").http()?;
/// let answer = http.send(&Call::get(&["query"]).with("kind", "claim")).await?;
/// println!("{}", String::from_utf8_lossy(&answer.body));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Http {
    client: HttpClient,
    endpoints: Arc<Endpoints>,
    /// Scheme, host and port; of all endpoints.
    origin: String,
    /// Origin and path, up to `/v1`, of each endpoint.
    bases: Vec<String>,
    bucket: String,
    label: HeaderValue,
    credentials: Credentials,
}

/// The response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Whether it is the answer to an earlier request with the same `Idempotency-Key`, given once more.
    pub is_replayed: bool,
    /// Where the server leads to instead (`Location`), if it answers with a redirect; it is not followed.
    pub location: Option<String>,
    /// The whole body: JSON, a problem (RFC 9457) if the status is no success, or empty.
    pub body: Vec<u8>,
}

/// Why nothing came back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// No server was reached: nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// A server was reached, but is not trusted, or does not trust the client, or speaks no TLS: nothing was
    /// received.
    #[error("{0}")]
    Untrusted(String),
    /// The exchange broke off: the server may have carried out the request, or not.
    #[error("{0}")]
    BrokenOff(String),
}

impl Http {
    pub(in crate::remote) fn new(
        endpoints: Arc<Endpoints>,
        label: &str,
        credentials: Credentials,
    ) -> Result<Self, ConnectError> {
        let bases = endpoints.addresses().iter().map(Address::http_base).collect::<Result<_, _>>()?;
        let label = HeaderValue::from_bytes(label.as_bytes())
            .unwrap_or_else(|_| HeaderValue::from_static("lockhouse-rust"));
        Ok(Self {
            client: HttpClient::new(&endpoints),
            origin: endpoints.to_string(),
            bases,
            bucket: encode(endpoints.first().bucket()),
            endpoints,
            label,
            credentials,
        })
    }

    /// Where the server is; all places, if it has several.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The name of the bucket.
    pub fn bucket(&self) -> String {
        self.endpoints.first().bucket()
    }

    /// Asks once, and waits for the answer without end. Of several URLs the one that answered last is asked;
    /// where none of them answers a connection, each is tried once. A question is also asked at the next one
    /// where a server breaks off, or is silent for 10 s. Needs a tokio runtime with I/O and time enabled.
    ///
    /// # Errors
    ///
    /// [`Unanswered`]. An answer that is no success is none of them.
    ///
    /// # Cancel safety
    ///
    /// Once polled it may have been sent.
    pub async fn send(&self, call: &Call) -> Result<Answer, Unanswered> {
        self.send_until(call, None).await
    }

    /// As [`send`](Self::send), but waits no longer than until then, if that is given.
    pub(super) async fn send_until(&self, call: &Call, ends: Option<Instant>) -> Result<Answer, Unanswered> {
        let mut untried = self.endpoints.addresses().len();
        loop {
            let endpoint = self.endpoints.current();
            let exchange = self.exchange(self.request(&self.bases[endpoint], call)?);
            untried -= 1;
            let may_go_on = untried > 0 && call.is_a_question();
            let patience = may_go_on.then(|| Instant::now() + LONGEST_PATIENCE);
            let end = match [ends, patience].into_iter().flatten().min() {
                None => exchange.await,
                Some(ends) => timeout_at(ends, exchange).await.unwrap_or_else(|_| Err(Unanswered::silent())),
            };
            match end {
                Err(Unanswered::Unreachable(_) | Unanswered::Untrusted(_)) if untried > 0 => {}
                Err(Unanswered::BrokenOff(_))
                    if may_go_on && ends.is_none_or(|ends| ends > Instant::now()) => {}
                // A server that stops or cannot serve now, or a proxy that does not reach it.
                Ok(Answer { status: 502..=504, .. }) | Err(_) => {
                    self.endpoints.failed(endpoint);
                    return end;
                }
                Ok(_) => return end,
            }
            self.endpoints.failed(endpoint);
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer, Unanswered> {
        whole(self.ask(request).await?).await
    }

    /// The response of a success, whose body is read piece by piece; another answer is read as a whole. As
    /// the call changes nothing, each of several URLs is tried once. None is waited for longer than
    /// [`LONGEST_PATIENCE`].
    pub(super) async fn open(&self, call: &Call) -> Result<Result<Response<Incoming>, Answer>, Unanswered> {
        let (mut untried, mut before) = (self.endpoints.addresses().len(), None);
        loop {
            let endpoint = self.endpoints.current();
            let begun = timeout(LONGEST_PATIENCE, self.begin(self.request(&self.bases[endpoint], call)?));
            let failed = match begun.await.unwrap_or_else(|_| Err(Unanswered::silent())) {
                failed @ (Ok(Err(Answer { status: 502..=504, .. })) | Err(_)) => failed,
                begun => return begun,
            };
            self.endpoints.failed(endpoint);
            untried -= 1;
            // Of several failures one that may pass is told.
            let failed = match before.take() {
                None | Some(Err(Unanswered::Untrusted(_))) => failed,
                Some(before) => before,
            };
            if untried == 0 {
                return failed;
            }
            before = Some(failed);
        }
    }

    async fn begin(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Result<Response<Incoming>, Answer>, Unanswered> {
        let response = self.ask(request).await?;
        if response.status().is_success() {
            return Ok(Ok(response));
        }
        whole(response).await.map(Err)
    }

    async fn ask(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Unanswered> {
        self.client.request(request).await.map_err(|error| {
            let why = root(&error);
            match error.is_connect() {
                true if is_of_tls(&error) => Unanswered::Untrusted(remedy(&error).unwrap_or(why)),
                false if is_refusal(&error) => Unanswered::Untrusted(why),
                true => Unanswered::Unreachable(why),
                false => Unanswered::BrokenOff(why),
            }
        })
    }

    fn request(&self, base: &str, call: &Call) -> Result<Request<Full<Bytes>>, Unanswered> {
        let Self { bucket, .. } = self;
        let uri = if call.is_of_server {
            format!("{base}/v1{}", call.target)
        } else {
            format!("{base}/v1/buckets/{bucket}{}", call.target)
        };
        let mut request = Request::builder().method(&call.method).uri(uri).header(USER_AGENT, &self.label);
        let credential =
            self.credentials.show().map_err(|error| Unanswered::Unreachable(error.to_string()))?;
        if let Some(credential) = &credential {
            request = request.header(KEY, credential.as_str());
        }
        if let Some(secret) = &call.secret {
            request = request.header(AUTHORIZATION, format!("Bearer {secret}"));
        }
        if let Some(key) = &call.key {
            request = request.header("idempotency-key", key);
        }
        if call.body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = call.body.clone().unwrap_or_default();
        request.body(Full::from(body)).map_err(|error| Unanswered::Unreachable(error.to_string()))
    }
}

impl Unanswered {
    fn silent() -> Self {
        Self::BrokenOff("it is silent".to_owned())
    }
}

impl Answer {
    /// Whether it was done.
    pub fn is_success(&self) -> bool {
        StatusCode::from_u16(self.status).is_ok_and(|status| status.is_success())
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("bases", &self.bases)
            .field("bucket", &self.bucket)
            .finish_non_exhaustive()
    }
}

/// The answer with its whole body.
async fn whole(response: Response<Incoming>) -> Result<Answer, Unanswered> {
    let status = response.status().as_u16();
    let is_replayed = response.headers().contains_key(REPLAYED);
    let location = response.headers().get(LOCATION).filter(|_| response.status().is_redirection());
    let location = location.map(|location| without_password(&String::from_utf8_lossy(location.as_bytes())));
    let broken = |error: Box<dyn std::error::Error + Send + Sync>| Unanswered::BrokenOff(root(&*error));
    let body = Limited::new(response.into_body(), ANSWER_BYTES).collect().await.map_err(broken)?;
    Ok(Answer { status, is_replayed, location, body: body.to_bytes().to_vec() })
}

/// The root cause of the error.
fn root(error: &dyn std::error::Error) -> String {
    let mut why = error;
    while let Some(source) = why.source() {
        why = source;
    }
    why.to_string()
}
