//! The dashboard, embedded in the binary as `dashboard/dist` has it, and the client for browsers.

use std::sync::LazyLock;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use data_encoding::HEXLOWER;
use rust_embed::{EmbeddedFile, RustEmbed};

/// Only content of this server may run or be loaded, and no page may frame this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Where a newcomer begins: two tabs that wait for each other.
const FIRST: &str = "/dashboard/try";

/// A file with a hash of its content in its name is the same for ever.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// What the build of the dashboard wrote.
#[derive(RustEmbed)]
#[folder = "../../dashboard/dist"]
struct Built;

/// A file that may be another one after an update of the server.
struct MutableFile {
    kind: &'static str,
    content: Bytes,
    etag: HeaderValue,
}

/// The page of every path of the dashboard.
static INDEX: LazyLock<MutableFile> = LazyLock::new(|| {
    let file = Built::get("index.html").expect("the build of the dashboard has an index.html");
    MutableFile::new("text/html; charset=utf-8", content_of(file))
});

/// The built client for browsers.
static CLIENT: LazyLock<MutableFile> = LazyLock::new(|| {
    let text = include_str!("../../../../clients/js/dist/lockhouse.global.js");
    MutableFile::new("text/javascript; charset=utf-8", Bytes::from_static(text.as_bytes()))
});

pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(first))
        .route("/dashboard", get(index))
        .route("/dashboard/", get(index))
        .route("/dashboard/{*path}", get(index))
        .route("/dashboard/assets/{file}", get(asset))
        .route("/lockhouse.global.js", get(|headers: HeaderMap| async move { CLIENT.answer(&headers) }))
}

/// The address of the first page, in the bucket that was asked for.
async fn first(uri: Uri) -> Response {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let location = [(header::LOCATION, format!("{FIRST}{query}"))];
    safe((StatusCode::TEMPORARY_REDIRECT, location, [(header::CACHE_CONTROL, "no-cache")]))
}

async fn index(headers: HeaderMap) -> Response {
    INDEX.answer(&headers)
}

async fn asset(Path(file): Path<String>) -> Response {
    let kind = match file.rsplit_once('.') {
        Some((_, "js")) => "text/javascript; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        _ => "application/octet-stream",
    };
    match Built::get(&format!("assets/{file}")) {
        Some(found) => {
            let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, FOR_EVER)];
            safe((headers, content_of(found)))
        }
        // A page of before an update asks for it, and is not to take another content for it.
        None => safe((StatusCode::NOT_FOUND, [(header::CACHE_CONTROL, "no-store")])),
    }
}

impl MutableFile {
    fn new(kind: &'static str, content: Bytes) -> Self {
        use sha2::Digest;
        let hash = HEXLOWER.encode(&sha2::Sha256::digest(&content)[..16]);
        let etag = HeaderValue::try_from(format!("\"{hash}\"")).expect("hexadecimal digits in quotes");
        Self { kind, content, etag }
    }

    /// The file, or that the caller has it already.
    fn answer(&self, headers: &HeaderMap) -> Response {
        let common = [
            (header::CONTENT_TYPE, HeaderValue::from_static(self.kind)),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (header::ETAG, self.etag.clone()),
        ];
        let known = headers.get_all(header::IF_NONE_MATCH).iter();
        if known.filter_map(|tags| tags.to_str().ok()).any(|tags| self.is_among(tags)) {
            return safe((StatusCode::NOT_MODIFIED, common));
        }
        safe((common, self.content.clone()))
    }

    /// Whether a list of tags has ours, weak or strong.
    /// <https://httpwg.org/specs/rfc9110.html#field.if-none-match>
    fn is_among(&self, tags: &str) -> bool {
        tags.split(',').map(str::trim).any(|tag| tag == "*" || tag.trim_start_matches("W/") == self.etag)
    }
}

fn content_of(file: EmbeddedFile) -> Bytes {
    match file.data {
        std::borrow::Cow::Borrowed(data) => Bytes::from_static(data),
        std::borrow::Cow::Owned(data) => Bytes::from(data),
    }
}

/// An answer with the headers that keep a page safe.
fn safe(answer: impl IntoResponse) -> Response {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, answer).into_response()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use super::*;

    #[test]
    fn a_list_of_tags_names_the_file_or_not() {
        let etag = INDEX.etag.to_str().unwrap();
        for tags in [etag, "*", &format!("\"a\", W/{etag}")] {
            assert!(INDEX.is_among(tags), "{tags}");
        }
        for tags in ["", "\"a\"", etag.trim_matches('"')] {
            assert!(!INDEX.is_among(tags), "{tags}");
        }
    }

    #[test]
    fn the_page_names_only_files_that_are_embedded() {
        let page = String::from_utf8(INDEX.content.to_vec()).unwrap();
        let named: Vec<_> =
            page.split("/dashboard/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(named.len() >= 2, "{page}");
        for file in named {
            assert!(Built::get(file).is_some(), "{file}");
        }
    }
}
