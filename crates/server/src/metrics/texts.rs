//! The texts that answer scrapes: one a second at most, however many ask.

use std::sync::Arc;

use axum::body::Bytes;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use super::text;
use crate::bounds::METRICS_PAUSE;
use crate::state::AppState;

/// The latest text. The one that makes the next holds the mutex, and the others wait for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts(Arc<Mutex<Option<Made>>>);

#[derive(Debug)]
struct Made {
    /// When its values were about to be read.
    at: Instant,
    text: Option<Bytes>,
}

impl Texts {
    /// A text whose values were read after the call; none if nothing is counted. It is shared by all who have
    /// asked before that, and made where a wait for a bucket keeps no task from its thread, at least
    /// [`METRICS_PAUSE`] after the one before.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a text that was begun is made nonetheless, so that the next one waits for its time.
    pub(crate) async fn next(&self, state: &Arc<AppState>) -> Option<Bytes> {
        state.houses.meters()?;
        let asked = Instant::now();
        let mut latest = self.0.clone().lock_owned().await;
        if let Some(made) = &*latest {
            if made.at > asked {
                return made.text.clone();
            }
            sleep_until(made.at + METRICS_PAUSE).await;
        }
        let (at, state) = (Instant::now(), state.clone());
        let making = tokio::task::spawn_blocking(move || {
            let text = text(&state);
            *latest = Some(Made { at, text: text.clone() });
            text
        });
        // Only the end of the runtime keeps it from being made.
        making.await.expect("a text is made without a panic")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use futures_util::FutureExt;
    use futures_util::future::join_all;
    use lockhouse::BucketKey;
    use tokio::time::advance;

    use super::*;
    use crate::Config;
    use crate::bounds::METRIC_LABELS;

    #[tokio::test(start_paused = true)]
    async fn scrapes_that_wait_together_get_one_text_with_the_values_of_then() {
        let state = AppState::empty(Config::default());
        let first = state.metrics.next(&state).await.unwrap();
        let begun = Instant::now();
        advance(METRICS_PAUSE / 4).await;
        let bucket = state.houses.all()[0].bucket(BucketKey::from("b"));
        drop(bucket.agent("a").unwrap().locks().request("n").await.unwrap());
        let texts = join_all((0..10).map(|_| state.metrics.next(&state))).await;
        assert!(begun.elapsed() >= METRICS_PAUSE);
        let text = texts[0].as_ref().unwrap();
        assert!(texts.iter().all(|other| other.as_ref().unwrap().as_ptr() == text.as_ptr()));
        let granted = r#"lockhouse_grants_total{bucket="b",discipline="web"} 1"#;
        let has = |text: &Bytes| std::str::from_utf8(text).unwrap().contains(granted);
        assert!(has(text) && !has(&first));
    }

    #[tokio::test(start_paused = true)]
    async fn a_scrape_is_not_made_on_the_thread_that_asks_and_to_give_it_up_makes_it_no_cheaper() {
        let state = AppState::empty(Config::default());
        let begun = Instant::now();
        assert_eq!(state.metrics.next(&state).now_or_never(), None);
        state.metrics.next(&state).await.unwrap();
        assert!(begun.elapsed() >= METRICS_PAUSE);
    }

    #[test]
    fn a_text_is_as_long_as_documented() {
        for (character, most) in [("n", 1 << 20), ("\"", 8 << 20)] {
            let state = AppState::empty(Config::default());
            let buckets: Vec<_> = (0..METRIC_LABELS + 2)
                .map(|number| {
                    let length = if character == "n" { 10 } else { 253 };
                    let name = format!("{number:03}{}", character.repeat(length));
                    state.houses.all()[0].bucket(BucketKey::from(&*name))
                })
                .collect();
            let text = text(&state).unwrap();
            println!("{} bytes", text.len());
            assert!((most / 4..most).contains(&text.len()), "{} bytes", text.len());
            drop(buckets);
        }
    }
}
