//! Do the fencing tokens of each bucket grow from grant to grant?

use std::collections::HashMap;

use super::breach::{Breach, Kind, Reporter};
use super::pair::{History, Op};
use super::record::Invocation;
use super::story::Source;

/// Of two grants, one of which was answered before the other was asked for, the later has the higher token;
/// no two are equal.
pub(crate) fn judge(history: &History, reporter: &Reporter, breaches: &mut Vec<Breach>) {
    let mut buckets: HashMap<&str, Vec<(&Op, u64)>> = HashMap::new();
    for op in &history.ops {
        if let Some(token) = granted(op) {
            buckets.entry(&op.bucket).or_default().push((op, token));
        }
    }
    let mut buckets: Vec<_> = buckets.into_iter().collect();
    buckets.sort_by_key(|(bucket, _)| *bucket);
    for (bucket, grants) in &mut buckets {
        judge_bucket(bucket, grants, reporter, breaches);
    }
}

fn judge_bucket(bucket: &str, grants: &mut [(&Op, u64)], reporter: &Reporter, breaches: &mut Vec<Breach>) {
    let mut answered = grants.to_vec();
    answered.sort_by_key(|(op, _)| op.closes);
    grants.sort_by_key(|(op, _)| op.invoked.ns);
    let mut answered = answered.into_iter().peekable();
    let mut highest: Option<(&Op, u64)> = None;
    let mut known: HashMap<u64, &Op> = HashMap::with_capacity(grants.len());
    for (op, token) in grants {
        while let Some(before) = answered.next_if(|(before, _)| before.closes < op.invoked.ns) {
            highest = highest.filter(|(_, high)| *high >= before.1).or(Some(before));
        }
        let twin = known.insert(*token, op);
        if let Some((before, high)) = highest.filter(|(_, high)| *high >= *token) {
            let what = format!("token {token} was granted after token {high}");
            breaches.push(reporter.breach(
                Kind::TokenRegression,
                bucket,
                op.call.name(),
                &what,
                &[Source::Op(before), Source::Op(op)],
            ));
        } else if let Some(twin) = twin {
            let what = format!("token {token} was granted twice");
            breaches.push(reporter.breach(
                Kind::TokenRegression,
                bucket,
                op.call.name(),
                &what,
                &[Source::Op(twin), Source::Op(op)],
            ));
        }
    }
}

/// The token, if it is that of a new grant.
fn granted(op: &Op) -> Option<u64> {
    let (gain, _) = op.gain()?;
    let grants =
        matches!(op.call, Invocation::Request { .. } | Invocation::Lock { .. } | Invocation::Claim { .. });
    gain.token.filter(|_| grants && !gain.again)
}
