//! The answers to browsers.

use crate::certificates::Ca;
use crate::running::Running;
use crate::tls::https::Https;

#[tokio::test]
async fn pages_come_with_what_keeps_them_safe() {
    let folder = tempfile::tempdir().unwrap();
    let files = Ca::new(folder.path(), "ca").sign("good");
    let options =
        ["--tls-cert", &files.cert, "--tls-key", &files.key, "--allow-origin", "https://app.example"];
    let server = Running::start(folder.path(), &options);
    let mut https = Https::connect(server.address, &folder.path().join("ca.pem")).await.unwrap();
    assert_eq!(https.protocol(), b"http/1.1");

    let page = https.get("app.example", "/dashboard/").await.unwrap();
    assert_eq!(page.status, 200);
    assert!(page.body.contains("<html"), "{page:?}");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    for path in ["/", "/healthz", "/dashboard/", "/openapi.json", "/nowhere", "/v1/buckets/default/query"] {
        let answer = https.get("app.example", path).await.unwrap();
        assert_eq!(answer.header("strict-transport-security"), None, "it is asked for: {path}");
    }
}

#[tokio::test]
async fn how_long_browsers_remember_tls_is_a_setting() {
    let folder = tempfile::tempdir().unwrap();
    let files = Ca::new(folder.path(), "ca").sign("good");
    for (hsts, header) in [("0s", None), ("1h", Some("max-age=3600"))] {
        let text = format!("[tls]\ncert = \"{}\"\nkey = \"{}\"\nhsts = \"{hsts}\"\n", files.cert, files.key);
        std::fs::write(folder.path().join("f.toml"), text).unwrap();
        let options = ["--config", "f.toml", "--allow-origin", "https://app.example"];
        let server = Running::start(folder.path(), &options);
        let mut https = Https::connect(server.address, &folder.path().join("ca.pem")).await.unwrap();
        for path in ["/", "/healthz", "/dashboard/", "/openapi.json", "/nowhere", "/v1/buckets/default/query"]
        {
            let answer = https.get("app.example", path).await.unwrap();
            assert_eq!(answer.header("strict-transport-security"), header, "{path}");
            // Other programs of a machine share its loopback names.
            let answer = https.get("localhost", path).await.unwrap();
            assert_eq!(answer.header("strict-transport-security"), None, "{path}");
        }
    }
}
