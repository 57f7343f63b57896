//! The examples of docs/http.md, each run as it stands there.

use std::process::Command;

use crate::process::ServerProcess;

/// The fenced blocks of a language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn every_curl_of_the_documentation_answers_what_it_says() {
    let text = include_str!("../../../../docs/http.md");
    let calls = blocks(text, "sh");
    let server = ServerProcess::start("10s");
    // One after the other in one shell, as a reader would; the output of each ends with the status that the
    // line before gives.
    let mut script = "set -euo pipefail\n".to_owned();
    calls.iter().for_each(|call| script.push_str(call));
    let output =
        Command::new("bash").args(["-c", &script]).env("LOCKHOUSE_URL", server.url()).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{stderr}\n{stdout}");
    let statuses: Vec<&str> = stdout.lines().filter_map(|line| line.strip_prefix("HTTP ")).collect();
    let expected: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# HTTP ")).collect();
    assert!(expected.len() >= 14, "one for each call at least: {expected:?}");
    assert_eq!(statuses, expected, "{stdout}");
    for path in [
        "owners",
        "heartbeat",
        "locks",
        "release",
        "undo",
        "renew",
        "claims?",
        "finalize",
        "assignments",
        "query",
    ] {
        assert!(calls.iter().any(|call| call.contains(path)), "no call of {path}");
    }
}
