//! The answers to refused clients.

use lockhouse::core::Refusal;
use lockhouse_wire::{ErrorCode, FrameProblem, HolderView};

use crate::bounds::ANSWER_BYTES;

/// No refusal has more, its holders apart.
const REFUSAL_BYTES: usize = 128;
/// No holder has more in it, label and metadata apart.
const HOLDER_BYTES: usize = 208;

/// Leaves as many holders, and then as much of their metadata, as fit in one answer, the first ones first.
pub(super) fn fit(holders: &mut Vec<HolderView<'_>>) {
    let mut remaining = ANSWER_BYTES - REFUSAL_BYTES;
    let mut fits = |bytes: usize| {
        let left = remaining.checked_sub(bytes);
        remaining = left.unwrap_or(remaining);
        left.is_some()
    };
    let count =
        holders.iter().take_while(|holder| fits(HOLDER_BYTES + json_bytes(&holder.client_id))).count();
    holders.truncate(count);
    for holder in holders {
        holder.metadata.take_if(|metadata| !fits(json_bytes(metadata)));
    }
}

/// At least as many bytes as the text has as a JSON string without its quotes.
fn json_bytes(text: &str) -> usize {
    let bytes = text.bytes().map(|byte| match byte {
        0..=0x1F => r"\u0000".len(),
        b'"' | b'\\' => 2,
        _ => 1,
    });
    bytes.sum()
}

/// Whether other clients may free the capacity, so that a later repetition may succeed.
pub(super) fn depends_on_others(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::TooManyEntries { .. }
            | Refusal::TooManyNames { .. }
            | Refusal::TooManyAgents { .. }
            | Refusal::BudgetExceeded { .. }
    )
}

/// The setting that keeps a session from beginning.
pub(super) fn setting_of(refusal: &Refusal) -> Option<&'static str> {
    match refusal {
        Refusal::TooManyAgents { .. } => Some("agents_per_bucket"),
        Refusal::BudgetExceeded { .. } => Some("table_mib_per_tenant"),
        _ => None,
    }
}

/// The refusal of one more in a bucket that has as many as this setting allows.
fn full(field: &'static str, limit: u32, setting: &str) -> FrameProblem<'static> {
    FrameProblem::with_field(field, format!("one of at most {limit} of a bucket at once (limits.{setting})"))
}

pub(super) fn fault_of(refusal: &Refusal, agent: u64) -> (ErrorCode, FrameProblem<'static>) {
    let quota = |problem| (ErrorCode::QuotaExceeded, problem);
    match refusal {
        Refusal::NameTooLong { units, limit } => quota(FrameProblem::with_value(
            "name",
            &format!("{units} units"),
            format!("at most {limit} units"),
        )),
        Refusal::MetadataTooLong { bytes, limit } => quota(FrameProblem::with_value(
            "metadata",
            &format!("{bytes} bytes"),
            format!("at most {limit} bytes"),
        )),
        Refusal::TooManyRequests { limit } => {
            quota(FrameProblem::with_field("id", format!("one of at most {limit} of an agent at once")))
        }
        Refusal::TooManyEntries { limit } => quota(full("id", *limit, "requests_per_bucket")),
        // The name itself is as good as any other one.
        Refusal::TooManyNames { limit } => quota(FrameProblem::with_message(format!(
            "the bucket has something held or queued under {limit} names, which are all that it may have (limits.names_per_bucket)"
        ))),
        Refusal::BudgetExceeded { limit } => quota(FrameProblem::with_message(format!(
            "the tables of the tenant have all of the {limit} bytes of memory that they may have (limits.table_mib_per_tenant): give something back first"
        ))),
        Refusal::TooManyAgents { limit } => quota(full("agent", *limit, "agents_per_bucket")),
        Refusal::UnknownAgent => {
            let rule = "an agent that has joined and not ended";
            (ErrorCode::UnknownAgent, FrameProblem::with_value("agent", &agent.to_string(), rule))
        }
        Refusal::Closed => {
            (ErrorCode::Closing, FrameProblem::with_message("the server stops: nothing is granted any more"))
        }
        // Of these only the first answers a request for a web lock, as a refusal.
        _ => (ErrorCode::Internal, FrameProblem::with_message("the lock is not available")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use std::time::SystemTime;

    use lockhouse::HolderKind;
    use lockhouse::core::{Mode, OwnerId};
    use lockhouse_wire::{Envelope, ServerEvent, ServerFrame};

    use super::*;

    fn holder(client_id: &str, metadata: &str) -> HolderView<'static> {
        HolderView {
            client_id: client_id.to_owned().into(),
            kind: HolderKind::Offline(OwnerId::new((1 << 53) - 1)),
            mode: Mode::Exclusive,
            since: SystemTime::UNIX_EPOCH,
            expires_at: Some(SystemTime::UNIX_EPOCH),
            metadata: Some(metadata.to_owned().into()),
        }
    }

    /// The number of holders, and the bytes of metadata, that are left of eight like this one.
    fn left_of_eight(client_id: &str, metadata: &str) -> (usize, Vec<usize>) {
        const HIGHEST: u64 = (1 << 53) - 1;
        let mut holders = vec![holder(client_id, metadata); 8];
        fit(&mut holders);
        let left: Vec<_> =
            holders.iter().flat_map(|holder| &holder.metadata).map(|text| text.len()).collect();
        let count = holders.len();
        let event = ServerEvent::Refused { id: HIGHEST, holders, queued: u64::from(u32::MAX) };
        let text = Envelope::new(ServerFrame::Numbered { seq: HIGHEST, event }).to_text();
        assert!(text.len() <= ANSWER_BYTES, "{} bytes: {text}", text.len());
        (count, left)
    }

    #[test]
    fn a_refusal_names_as_many_holders_with_metadata_as_fit() {
        assert_eq!(left_of_eight("worker", "nightly"), (8, vec![7; 8]));
        assert_eq!(left_of_eight("worker", &"m".repeat(1024)), (8, vec![1024; 2]));
        assert_eq!(left_of_eight(&"c".repeat(256), &"m".repeat(256)), (8, vec![256]));
        // Every byte is an escape of six.
        let (count, left) = left_of_eight(&"\u{1}".repeat(256), &"\u{1}".repeat(1024));
        assert_eq!((count, left), (2, vec![]));
    }
}
