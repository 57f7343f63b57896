//! Where the state is, and how it is reached.

use lockhouse::{Agent, Bucket, Claims, House, ManualClock, Options, Owners};

/// Somewhere a house can stand, again and again.
pub(crate) trait Ground: Sized {
    /// Whether anything outlives the house.
    const KEEPS: bool = true;

    /// Whether a call is over when its future is polled for the first time.
    const ANSWERS_AT_ONCE: bool = false;

    /// How often something is done of which often enough is all that matters.
    const OFTEN: usize = 10_000;

    type Bucket: Place;

    async fn new() -> Self;

    fn clock(&self) -> &ManualClock;

    /// The house, and its bucket "default" as it is reached.
    async fn bucket(&self) -> (House, Self::Bucket);

    fn options(&self) -> Options {
        Options::new().clock(self.clock())
    }
}

/// A bucket, in this process or not.
pub(crate) trait Place {
    fn owners(&self) -> Owners;
    fn claims(&self) -> Claims;
    fn agent(&self, client_id: &str) -> Agent;
    /// How much is held and pending.
    fn len(&self) -> usize;
}

impl Place for Bucket {
    fn owners(&self) -> Owners {
        self.owners()
    }

    fn claims(&self) -> Claims {
        self.claims()
    }

    fn agent(&self, client_id: &str) -> Agent {
        self.agent(client_id).unwrap()
    }

    fn len(&self) -> usize {
        self.len()
    }
}

/// Ends a house as a crash does, as far as its store can see.
pub(crate) async fn kill(house: House) {
    house.store().unwrap().close().await.unwrap();
    drop(house);
}
