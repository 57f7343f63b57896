//! Did the fence let a holder pass after a later one that excludes it?

use std::collections::HashMap;

use crate::history::breach::{Breach, Kind, Reporter};
use crate::history::pair::{History, Op};
use crate::history::record::{Invocation, Mode};
use crate::history::story::Source;

/// A pass that the guarded resource took.
struct Pass<'a> {
    op: &'a Op,
    request: &'a Op,
    token: u64,
    mode: Mode,
}

/// Of two passes, one of which was taken before the other was asked for, the later one has no lower token,
/// unless both are shared.
pub(crate) fn judge(history: &History, reporter: &Reporter, breaches: &mut Vec<Breach>) {
    let mut names: HashMap<(&str, &str), Vec<Pass<'_>>> = HashMap::new();
    for (pass, request) in &history.passes {
        let (op, request) = (&history.ops[*pass], &history.ops[*request]);
        let Invocation::Request { name, mode, .. } = &request.call else { continue };
        let token = request.gain().and_then(|(gain, _)| gain.token);
        if let (Some(token), true) = (token, op.gain().is_some()) {
            let pass = Pass { op, request, token, mode: *mode };
            names.entry((&request.bucket, name)).or_default().push(pass);
        }
    }
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_key(|(key, _)| *key);
    for ((bucket, name), passes) in &mut names {
        judge_name(bucket, name, passes, reporter, breaches);
    }
}

fn judge_name(
    bucket: &str,
    name: &str,
    passes: &mut [Pass<'_>],
    reporter: &Reporter,
    breaches: &mut Vec<Breach>,
) {
    passes.sort_by_key(|pass| pass.op.invoked.ns);
    let mut taken: Vec<&Pass<'_>> = passes.iter().collect();
    taken.sort_by_key(|pass| pass.op.closes);
    let mut taken = taken.into_iter().peekable();
    let (mut highest, mut highest_exclusive): (Option<&Pass<'_>>, Option<&Pass<'_>>) = (None, None);
    for pass in passes.iter() {
        while let Some(before) = taken.next_if(|before| before.op.closes < pass.op.invoked.ns) {
            highest = highest.filter(|high| high.token >= before.token).or(Some(before));
            if before.mode == Mode::Exclusive {
                highest_exclusive =
                    highest_exclusive.filter(|high| high.token >= before.token).or(Some(before));
            }
        }
        let barrier = if pass.mode == Mode::Exclusive { highest } else { highest_exclusive };
        if let Some(before) = barrier.filter(|before| before.token > pass.token) {
            let what = format!("token {} passed after token {}", pass.token, before.token);
            let places = [before.request, before.op, pass.request, pass.op].map(Source::Op);
            breaches.push(reporter.breach(Kind::OverlapPastFence, bucket, Some(name), &what, &places));
        }
    }
}
