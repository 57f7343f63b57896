//! Snapshots on the wire: entries, and their distribution over frames.

use std::borrow::Cow;
use std::time::SystemTime;

use lockhouse_core::{FencingToken, HolderKind, Mode, NameBuf};
use serde::Deserialize;

use crate::decode::MODES;
use crate::fault::FrameProblem;
use crate::holder::read_kind;
use crate::read::{self, POSITIVE, RawField, ReadResult, STRING, field};
use crate::server::{ServerFrame, mode_word, write_list};
use crate::write::ObjectWriter;
use crate::{Envelope, FRAME_BYTES};

/// The most bytes of a frame beside its entries.
const FRAME_OVERHEAD: usize = 128;

/// One frame of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotPage<'a> {
    /// The query or watch that it answers.
    pub id: u64,
    /// Held locks, in no promised order.
    pub held: Vec<EntryView<'a>>,
    /// Pending requests; those of one name in queue order.
    pub pending: Vec<EntryView<'a>>,
    /// Whether more frames of this snapshot follow.
    pub more: bool,
}

/// One lock or request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryView<'a> {
    /// The label of its agent, of its owner, or the claimant.
    pub client_id: Cow<'a, str>,
    /// Its mode.
    pub mode: Mode,
    /// The resource name.
    pub name: NameBuf,
    /// The details beyond the specification's fields.
    pub detail: Option<EntryDetail<'a>>,
}

/// The details of a lock or request in a detailed snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryDetail<'a> {
    /// Held or pending.
    pub place: EntryPlace,
    /// The discipline by which it is held; only web locks are ever pending.
    pub kind: HolderKind,
    /// The instant of the grant; of the request while it is pending.
    pub since: SystemTime,
    /// When its longest hold ends.
    pub expires_at: Option<SystemTime>,
    /// The metadata that the requester gave for it.
    pub metadata: Option<Cow<'a, str>>,
}

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryPlace {
    /// Held, under this token.
    Held(FencingToken),
    /// In the queue of its name, counted from 1.
    Queued(u64),
}

/// Distributes a snapshot over as many frames as it needs, each within [`FRAME_BYTES`]; returns their texts,
/// each of which is written when the iterator reaches it.
pub fn pages<'a>(
    id: u64,
    held: impl IntoIterator<Item = EntryView<'a>>,
    pending: impl IntoIterator<Item = EntryView<'a>>,
) -> impl Iterator<Item = String> {
    let held = held.into_iter().map(|entry| (true, entry));
    let mut rest = held.chain(pending.into_iter().map(|entry| (false, entry)));
    let mut scratch = String::new();
    // The entry that did not fit on the previous page; `None` once the last page is written.
    let mut over = Some(None);
    std::iter::from_fn(move || {
        let first = over.take()?;
        let mut page = SnapshotPage { id, held: Vec::new(), pending: Vec::new(), more: false };
        let mut bytes_left = FRAME_BYTES - FRAME_OVERHEAD;
        for (is_held, entry) in first.into_iter().chain(rest.by_ref()) {
            scratch.clear();
            entry.write(ObjectWriter::begin(&mut scratch));
            let size = scratch.len() + 1;
            if size > bytes_left && !page.is_empty() {
                over = Some(Some((is_held, entry)));
                page.more = true;
                break;
            }
            bytes_left = bytes_left.saturating_sub(size);
            if is_held { page.held.push(entry) } else { page.pending.push(entry) }
        }
        Some(page.into_text())
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEntry<'a> {
    #[serde(borrow)]
    client_id: RawField<'a>,
    #[serde(borrow)]
    mode: RawField<'a>,
    #[serde(borrow)]
    name: RawField<'a>,
    #[serde(borrow)]
    kind: RawField<'a>,
    #[serde(borrow)]
    owner: RawField<'a>,
    #[serde(borrow)]
    state: RawField<'a>,
    #[serde(borrow)]
    since: RawField<'a>,
    #[serde(borrow)]
    expires_at: RawField<'a>,
    #[serde(borrow)]
    place: RawField<'a>,
    #[serde(borrow)]
    fencing_token: RawField<'a>,
    #[serde(borrow)]
    metadata: RawField<'a>,
}

impl<'a> SnapshotPage<'a> {
    pub(super) fn read(
        id: u64,
        held: RawField<'a>,
        pending: RawField<'a>,
        more: RawField<'a>,
    ) -> ReadResult<Self> {
        let entries = |key, entries| {
            read::list::<RawEntry<'a>>(field(key, entries))?
                .iter()
                .map(RawEntry::entry)
                .collect::<ReadResult<Vec<EntryView<'a>>>>()
        };
        let (held, pending) = (entries("held", held)?, entries("pending", pending)?);
        Ok(Self { id, held, pending, more: field("more", more).flag_or_false()? })
    }

    pub(super) fn write(&self, mut object: ObjectWriter<'_>) {
        object.number("id", self.id);
        write_list(object.key("held"), &self.held, EntryView::write);
        write_list(object.key("pending"), &self.pending, EntryView::write);
        object.flag_if_set("more", self.more);
        object.end();
    }

    fn is_empty(&self) -> bool {
        self.held.is_empty() && self.pending.is_empty()
    }

    fn into_text(self) -> String {
        Envelope::new(ServerFrame::Snapshot(self)).to_text()
    }
}

impl<'a> RawEntry<'a> {
    fn entry(&self) -> ReadResult<EntryView<'a>> {
        Ok(EntryView {
            client_id: field("clientId", self.client_id).text(&STRING)?,
            mode: field("mode", self.mode).choice(&MODES)?,
            name: read::name(field("name", self.name))??,
            detail: self.state.map(|_| self.detail()).transpose()?,
        })
    }

    fn detail(&self) -> ReadResult<EntryDetail<'a>> {
        let state = field("state", self.state).text(&STRING)?;
        let place = match &*state {
            "held" => EntryPlace::Held(read::token(field("fencingToken", self.fencing_token))?),
            "pending" => EntryPlace::Queued(field("place", self.place).number(&POSITIVE)?),
            _ => return Err(FrameProblem::with_value("state", &state, "\"held\" or \"pending\"")),
        };
        Ok(EntryDetail {
            place,
            kind: self.kind(place)?,
            since: read::instant(field("since", self.since))?,
            expires_at: field("expiresAt", self.expires_at).if_any(read::instant)?,
            metadata: field("metadata", self.metadata).text_if_any(&STRING)?,
        })
    }

    fn kind(&self, place: EntryPlace) -> ReadResult<HolderKind> {
        match (place, read_kind(field("kind", self.kind), field("owner", self.owner))?) {
            (EntryPlace::Queued(_), HolderKind::Offline(_) | HolderKind::Claim) => {
                Err(FrameProblem::with_field("kind", "\"web\" for what is pending"))
            }
            (_, kind) => Ok(kind),
        }
    }
}

impl EntryView<'_> {
    fn write(&self, mut object: ObjectWriter<'_>) {
        match &self.detail {
            None => {
                object.text("clientId", &self.client_id);
                object.word("mode", mode_word(self.mode));
                object.name("name", self.name.as_name());
            }
            Some(detail) => self.write_detail(detail, &mut object),
        }
        object.end();
    }

    fn write_detail(&self, detail: &EntryDetail<'_>, object: &mut ObjectWriter<'_>) {
        object.name("name", self.name.as_name());
        object.word("mode", mode_word(self.mode));
        object.word("kind", detail.kind.word());
        object.word("state", if matches!(detail.place, EntryPlace::Held(_)) { "held" } else { "pending" });
        object.text("clientId", &self.client_id);
        match detail.kind.owner() {
            Some(owner) => object.text("owner", &owner),
            None => object.null("owner"),
        }
        object.instant("since", detail.since);
        match detail.expires_at {
            Some(at) => object.instant("expiresAt", at),
            None => object.null("expiresAt"),
        }
        match detail.place {
            EntryPlace::Held(token) => {
                object.null("place");
                object.number("fencingToken", token.get());
            }
            EntryPlace::Queued(place) => {
                object.number("place", place);
                object.null("fencingToken");
            }
        }
        match &detail.metadata {
            Some(metadata) => object.text("metadata", metadata),
            None => object.null("metadata"),
        }
    }
}
