//! What a stream of events is not opened for.

use reqwest::Client;
use serde_json::Value;

use crate::events::streams::url;
use crate::running::Running;

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_question_is_refused_with_its_field_its_value_and_its_rule() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    let url = url(&server);
    let long = "x".repeat(4097);
    let (name, prefix) = (format!("?name={long}"), format!("?prefix={long}"));
    let kinds = "\"web\", \"offline\" or \"claim\"";
    let id = "the `id` of an event";
    for (query, header, field, value, rule) in [
        (&*name, "", "name", "\"xxx", "at most 4096 16-bit units"),
        (&prefix, "", "prefix", "\"xxx", "at most 4096 16-bit units"),
        ("?kind=lock", "", "kind", "\"lock\"", kinds),
        ("?kind=assignment", "", "kind", "\"assignment\"", kinds),
        ("?state=yes", "", "state", "\"yes\"", "true or false"),
        ("?lastEventId=4711", "", "lastEventId", "\"4711\"", id),
        ("?lastEventId=", "", "lastEventId", "\"\"", id),
        ("", "4711", "Last-Event-ID", "\"4711\"", id),
        ("?lastEventId=1.1", "1.x", "Last-Event-ID", "\"1.x\"", id),
        ("?name=a&name=b", "", "name", "there twice", "there at most once"),
        ("?nam=a", "", "parameter", "\"nam\"", "one of name, prefix, kind, state, lastEventId"),
    ] {
        let request = Client::new().get(format!("{url}/v1/buckets/default/events{query}"));
        let answer = request.header("last-event-id", header).send().await.unwrap();
        let status = answer.status().as_u16();
        let problem: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        let text = |key: &str| problem[key].as_str().unwrap_or_default();
        let found = (status, text("code"), text("field"));
        assert_eq!(found, (422, "invalid", field), "{query:.40} {header}: {problem}");
        assert!(text("value").contains(value) && text("rule").contains(rule), "{query:.40}: {problem}");
    }
}
