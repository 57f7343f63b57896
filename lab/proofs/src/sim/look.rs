//! The state of a bucket as the server shows it.

use lockhouse::{ClaimError, HolderKind, StoreError};

use super::clients::owner_client::mode;
use super::clients::web_client::REMOTE_LABEL;
use super::server::{Place, ServerHandle, ServerLife};
use crate::history::record::{Found, Thing, What};

/// The whole content of that bucket: locks, claims, assignments.
pub(super) async fn found(server: &ServerHandle, place: &Place) -> Result<Vec<Found>, StoreError> {
    let bucket = server.bucket(place);
    let assignments = bucket.claims().assignments().await.map_err(|error| match error {
        ClaimError::Store(error) => error,
        error => StoreError::Failed(error.to_string()),
    })?;
    let snapshot = bucket.snapshot().await?;
    let held = snapshot.held.into_iter().filter_map(|held| {
        let token = held.fencing_token()?.get();
        let mode = mode(held.mode);
        let thing = match held.kind {
            HolderKind::Web => Thing::Web { mode },
            HolderKind::Offline(owner) => Thing::Offline { owner: owner.to_string(), mode },
            HolderKind::Claim => Thing::Claim { claimant: held.client_id },
            _ => return None,
        };
        Some(Found { name: held.name.as_name().as_str()?.to_owned(), thing, token })
    });
    let assigned = assignments.into_iter().filter_map(|assignment| {
        let (name, claimant) = (assignment.resource.as_name().as_str()?.to_owned(), assignment.claimant);
        let token = assignment.fencing_token.get();
        Some(Found { name, thing: Thing::Assignment { claimant }, token })
    });
    Ok(held.chain(assigned).collect())
}

/// Reads every bucket out while no client sends a request.
pub(crate) fn read_out(life: &ServerLife, places: &[Place]) {
    let server = &life.server;
    for place in places {
        let began = server.journal.stamp();
        match life.block_on(found(server, place)) {
            Ok(found) => {
                server.journal.write(What::Readout { bucket: place.label.to_owned(), began, found });
            }
            Err(error) => {
                server.journal.breach(format!("bucket {:?} cannot be read out: {error}", place.label));
            }
        }
    }
}

/// How many web locks of remote clients the server shows.
pub(super) fn held_remotely(life: &ServerLife, places: &[Place]) -> usize {
    let shown = |place: &Place| match life.block_on(life.server.bucket(place).snapshot()) {
        Ok(snapshot) => snapshot.held.iter().filter(|held| held.client_id.starts_with(REMOTE_LABEL)).count(),
        // The store is on its way back.
        Err(_) => 0,
    };
    places.iter().map(shown).sum()
}
