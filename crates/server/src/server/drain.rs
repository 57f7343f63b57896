//! The end: nothing is granted any more. Calls under way have their time, and where nothing outlives the
//! process, holders.

use std::pin::pin;
use std::time::Duration;

use lockhouse::{House, Left, StoreState};
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::Cluster;
use crate::houses::Houses;
use crate::state::AppState;
use crate::store::warn_of_left_out;

/// The time between two looks of a stopping server at the locks still held.
const DRAIN_CHECK: Duration = Duration::from_millis(50);

/// Ends the house, too: what is left for the next start has to be written before the sessions end, and with
/// them the web locks that their clients still believe in. With a store that keeps over a stop what they hold
/// no holder is waited for.
pub(super) async fn drain(state: &AppState) -> StoreState {
    match &state.houses {
        Houses::One(house) => drain_house(state, house).await,
        Houses::Fleet { cluster, .. } => leave(state, cluster).await,
    }
}

/// Gives all slots to other nodes. Calls and sessions are handed on meanwhile, as those of all other slots.
async fn leave(state: &AppState, cluster: &Cluster) -> StoreState {
    let patience = state.config.drain.max(LEAST_DRAIN);
    tracing::info!(drain = ?state.config.drain, "stopping: all slots are given to other nodes");
    let left = timeout(patience, cluster.node.leave()).await;
    state.warm_buckets.forget_all();
    match left {
        Ok(()) => StoreState::Closed(Left::Nothing),
        Err(_) => {
            tracing::warn!(
                "stopped before all slots were given back; other nodes take them once this one counts as dead"
            );
            StoreState::Closed(Left::Unknown)
        }
    }
}

async fn drain_house(state: &AppState, house: &House) -> StoreState {
    let patience = Instant::now() + state.config.drain.max(LEAST_DRAIN);
    tracing::info!(drain = ?state.config.drain, "stopping: nothing is granted any more");
    state.stop_granting();
    if !house.takes_reclaims() {
        let released = async {
            while house.buckets().iter().any(lockhouse::Bucket::is_held_remotely) {
                sleep(DRAIN_CHECK).await;
            }
        };
        if timeout(state.config.drain, released).await.is_err() {
            tracing::warn!("stopped while web locks were held; they are lost, as this server keeps nothing");
        }
    }
    state.warm_buckets.forget_all();
    let end = close_house(house, patience).await;
    match &end {
        StoreState::Closed(Left::Listed { locks }) => {
            tracing::info!(
                locks,
                "stopped while web locks were held; the next server waits for their holders"
            );
        }
        StoreState::Closed(Left::Unknown) if house.takes_reclaims() => {
            tracing::warn!(
                "stopped without a list of held web locks; the next server grants nothing at first"
            );
        }
        _ => {}
    }
    end
}

/// Waits for the store until `patience`, and a moment longer if it works: changes that are not durable were
/// announced to no client.
async fn close_house(house: &House, patience: Instant) -> StoreState {
    let mut closed = pin!(house.close());
    let left_out = house.refusals_left_out();
    loop {
        if let Ok(end) = timeout(DRAIN_CHECK, &mut closed).await {
            warn_of_left_out(house.refusals_left_out() - left_out);
            return end;
        }
        let why = match house.store_state() {
            StoreState::Unavailable { why, .. } if Instant::now() >= patience => why,
            StoreState::Serving if Instant::now() >= patience + LEAST_DRAIN => {
                "the store has not answered yet".to_owned()
            }
            _ => continue,
        };
        tracing::warn!(
            "stopped while nothing can be kept ({why}): what waited for that is given up, and was told to nobody"
        );
        return StoreState::Closed(Left::Unknown);
    }
}

/// The least time that the store is given, from the beginning of the end; and how much longer than one that
/// refuses one that works.
const LEAST_DRAIN: Duration = Duration::from_secs(1);
