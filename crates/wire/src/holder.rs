//! The holders of names, and their disciplines.

use std::borrow::Cow;
use std::time::SystemTime;

use lockhouse_core::{HolderKind, Mode};
use serde::Deserialize;

use crate::decode::{MODES, Violation};
use crate::read::{self, FrameField, RawField, ReadResult, STRING, inner};
use crate::server::mode_word;
use crate::write::ObjectWriter;

/// A holder of a name, as shown to requesters that were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderView<'a> {
    /// The holder's label.
    pub client_id: Cow<'a, str>,
    /// The discipline by which it holds.
    pub kind: HolderKind,
    /// The mode in which it holds.
    pub mode: Mode,
    /// The instant of the grant.
    pub since: SystemTime,
    /// When its longest hold ends.
    pub expires_at: Option<SystemTime>,
    /// The metadata that the holder gave.
    pub metadata: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawHolder<'a> {
    #[serde(borrow)]
    client_id: RawField<'a>,
    #[serde(borrow)]
    kind: RawField<'a>,
    #[serde(borrow)]
    owner: RawField<'a>,
    #[serde(borrow)]
    mode: RawField<'a>,
    #[serde(borrow)]
    since: RawField<'a>,
    #[serde(borrow)]
    expires_at: RawField<'a>,
    #[serde(borrow)]
    metadata: RawField<'a>,
}

impl<'a> RawHolder<'a> {
    pub(super) fn view(&self) -> ReadResult<HolderView<'a>> {
        Ok(HolderView {
            client_id: inner("holders", "clientId", self.client_id).text(&STRING)?,
            kind: read_kind(inner("holders", "kind", self.kind), inner("holders", "owner", self.owner))?,
            mode: inner("holders", "mode", self.mode).choice(&MODES)?,
            since: read::instant(inner("holders", "since", self.since))?,
            expires_at: inner("holders", "expiresAt", self.expires_at).if_any(read::instant)?,
            metadata: inner("holders", "metadata", self.metadata).text_if_any(&STRING)?,
        })
    }
}

impl HolderView<'_> {
    pub(super) fn write(&self, mut object: ObjectWriter<'_>) {
        object.text("clientId", &self.client_id);
        if self.kind != HolderKind::Web {
            object.word("kind", self.kind.word());
        }
        object.text_if_any("owner", self.kind.owner().as_deref());
        object.word("mode", mode_word(self.mode));
        object.instant("since", self.since);
        if let Some(at) = self.expires_at {
            object.instant("expiresAt", at);
        }
        object.text_if_any("metadata", self.metadata.as_deref());
        object.end();
    }
}

/// The default is a web lock; an owner counts for offline locks only.
pub(super) fn read_kind(kind: FrameField<'_>, owner: FrameField<'_>) -> Result<HolderKind, Violation> {
    let Some(word) = kind.text_if_any(&STRING)? else { return Ok(HolderKind::Web) };
    match &*word {
        "web" => Ok(HolderKind::Web),
        "offline" => read::owner(owner).map(HolderKind::Offline),
        "claim" => Ok(HolderKind::Claim),
        _ => Err(Violation::new(kind.path(), &word, "\"web\", \"offline\" or \"claim\"")),
    }
}
