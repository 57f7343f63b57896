//! How numbers go on by the clock: those of a restored state above every one that was given after its
//! backup, and fencing tokens above those of a state that is lost.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockhouse_core::FencingToken;
use thiserror::Error;

/// How far a number rises above the backup's where the clock does not tell more: as far as the clock goes on
/// in four years, as each start raises tokens to the clock.
const LEAP: u64 = 1 << 47;

/// How many numbers the clock goes on in a second: more than any server gives, on average.
const NUMBERS_PER_SECOND: u64 = 1 << 20;

/// The highest numbers of a stored state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HighestNumbers {
    /// The highest mark of fencing tokens. No token above it was ever announced.
    pub mark: u64,
    /// The epoch of the last take.
    pub epoch: u64,
    /// The longest lease that may have been given and not be over, in milliseconds.
    pub longest_lease_ms: u64,
}

/// No fencing token would be left for a restored state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("fencing tokens would go on above {above}, but they end at 2^53")]
pub struct NoNumberLeft {
    /// The number above which the state would have to go on.
    pub above: u64,
}

impl HighestNumbers {
    /// The numbers above which a state that is restored from `backup` at `now` goes on. `replaced` are those
    /// of the state in whose place it comes, if that can be read.
    ///
    /// To ensure correctness, no number that was given may come again, also when the same backup is
    /// restored twice, or an older one after a newer one. Each number therefore rises
    ///
    /// - to the clock and the 2^20 numbers that a bucket may have reserved. The clock goes on by 2^20 a
    ///   second. No state gives as many for long, so that the numbers of every state lie below the clock,
    ///   also of those that are lost. A second restore of a backup finds a later clock;
    /// - to 2^47 above the backup, where the clock is behind the backup and is of no use;
    /// - in any case to the replaced state, all of whose announced numbers are known.
    ///
    /// A holder may come back for as long as the longest lease of both states.
    ///
    /// The replaced state adds no leap, and the clock is not added to anything: the numbers would get ahead
    /// of the clock, which then could not tell two restores of one backup apart.
    ///
    /// A clock that was ahead at a restore and is set right afterwards is no better than one that is behind:
    /// then only the replaced state says what was given ([`is_beyond`](Self::is_beyond)).
    ///
    /// # Errors
    ///
    /// [`NoNumberLeft`].
    pub fn after_restore(
        backup: Self,
        replaced: Option<Self>,
        now: SystemTime,
    ) -> Result<Self, NoNumberLeft> {
        let replaced = replaced.unwrap_or_default();
        let clock = reserved_at(now);
        Ok(Self {
            mark: leap(backup.mark, replaced.mark, clock)?,
            epoch: leap(backup.epoch, replaced.epoch, clock)?,
            longest_lease_ms: backup.longest_lease_ms.max(replaced.longest_lease_ms),
        })
    }

    /// Whether the clock has not come so far. Starts and restores raise numbers to the clock, so that it is
    /// behind now, or was ahead at one of them.
    pub fn is_beyond(self, now: SystemTime) -> bool {
        self.mark.max(self.epoch) > reserved_at(now)
    }

    /// The instant at which the clock comes so far.
    pub fn reached_at(self) -> SystemTime {
        // At most 2^44 seconds, which every clock can hold.
        let highest = self.mark.max(self.epoch).saturating_sub(NUMBERS_PER_SECOND);
        UNIX_EPOCH + Duration::from_secs(highest / NUMBERS_PER_SECOND)
    }
}

/// The highest fencing token that counts as given before `now`, whatever is known of the past: the clock goes
/// on by 2^20 tokens a second.
///
/// A lock table that begins above it gives no token again, also where its store is lost, was rolled back to a
/// former state, or keeps nothing. This holds if the clock is right, if the bucket has given less than 2^20
/// tokens a second since the table began, and if the process was killed less than once a second: each kill
/// uses up 2^20 tokens. A clock that stands before 1970 or after 2106 tells nothing, so that one that is
/// wrong uses up no more than half of all tokens.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use lockhouse_store::token_floor;
///
/// assert_eq!(token_floor(SystemTime::UNIX_EPOCH + Duration::from_secs(3)), 3 << 20);
/// ```
pub fn token_floor(now: SystemTime) -> u64 {
    let floor = by_the_clock(now);
    if floor < FencingToken::LIMIT / 2 { floor } else { 0 }
}

fn leap(backup: u64, replaced: u64, clock: u64) -> Result<u64, NoNumberLeft> {
    let above = if clock > backup { clock } else { backup.saturating_add(LEAP) };
    let above = above.max(replaced);
    // Epochs are bounded alike: at a take a second both would last as long.
    if above < FencingToken::LIMIT - 1 { Ok(above) } else { Err(NoNumberLeft { above }) }
}

/// What a bucket has reserved counts as given: so much at most beyond the clock.
fn reserved_at(now: SystemTime) -> u64 {
    match by_the_clock(now) {
        0 => 0,
        clock => clock.saturating_add(NUMBERS_PER_SECOND),
    }
}

/// A clock before 1970 tells nothing.
fn by_the_clock(now: SystemTime) -> u64 {
    let ms = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    u64::try_from(ms * u128::from(NUMBERS_PER_SECOND) / 1000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(1_790_000_000_000 + ms)
    }

    fn of(mark: u64, epoch: u64) -> HighestNumbers {
        HighestNumbers { mark, epoch, longest_lease_ms: 0 }
    }

    /// The numbers at the end of a life that was killed: a block of tokens counts as given.
    fn live(began: HighestNumbers) -> HighestNumbers {
        of(began.mark + (1 << 20), began.epoch + 1)
    }

    fn restore(backup: HighestNumbers, replaced: Option<HighestNumbers>, ms: u64) -> HighestNumbers {
        HighestNumbers::after_restore(backup, replaced, at_ms(ms)).unwrap()
    }

    fn grow(numbers: &[HighestNumbers]) -> bool {
        numbers.is_sorted_by(|a, b| a.mark < b.mark && a.epoch < b.epoch)
    }

    #[test]
    fn numbers_go_on_above_all_that_were_given_whichever_backup_is_restored() {
        let backup = of(70_000, 3);
        let first = restore(backup, Some(of(1 << 40, 9)), 0);
        let newer = live(first);
        let second = restore(newer, Some(live(newer)), 10_000);
        let third = restore(backup, Some(live(second)), 20_000);
        let fourth = restore(newer, None, 30_000);
        let fifth = restore(newer, None, 40_000);
        let numbers = [backup, first, newer, second, third, fourth, fifth];
        assert!(grow(&numbers), "{numbers:?}");
    }

    #[test]
    fn where_the_clock_is_of_no_use_each_number_leaps_above_the_backup() {
        for now in [UNIX_EPOCH, UNIX_EPOCH - Duration::from_secs(1), UNIX_EPOCH + Duration::from_secs(9)] {
            let backup = of(1 << 30, 1 << 30);
            let first = HighestNumbers::after_restore(backup, None, now).unwrap();
            assert_eq!(first, of((1 << 30) + LEAP, (1 << 30) + LEAP));
            let second = HighestNumbers::after_restore(backup, Some(live(first)), now).unwrap();
            assert!(grow(&[first, second]), "{first:?} {second:?}");
        }
    }

    #[test]
    fn a_clock_that_was_ahead_at_a_restore_is_noticed_until_it_has_come_so_far() {
        const YEAR_MS: u64 = 365 * 86_400_000;
        let backup = of(70_000, 3);
        let ahead = restore(backup, None, YEAR_MS);
        assert!(!ahead.is_beyond(at_ms(YEAR_MS)), "a clock that is ahead cannot be distinguished then");
        // The clock is set right. With the replaced state the numbers grow all the same.
        let next = restore(backup, Some(live(ahead)), 1000);
        assert_eq!(next, live(ahead));
        assert!(next.is_beyond(at_ms(1000)));
        assert_eq!(next.reached_at(), at_ms(YEAR_MS + 1000));
        // Without it they do not, so that it must not be lost.
        assert!(restore(backup, None, 2000).mark < ahead.mark);
        assert!(!restore(backup, Some(live(next)), YEAR_MS + 10_000).is_beyond(at_ms(YEAR_MS + 10_000)));
    }

    #[test]
    fn a_clock_that_is_wrong_by_a_century_raises_no_token() {
        let at = |seconds| token_floor(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(1_790_000_000), 1_790_000_000 << 20);
        assert_eq!([at(u64::from(u32::MAX)), at(1 << 32), at(1 << 43)], [u64::from(u32::MAX) << 20, 0, 0]);
        assert_eq!(token_floor(UNIX_EPOCH - Duration::from_secs(1)), 0);
    }

    #[test]
    fn where_no_number_is_left_there_is_none() {
        let last = FencingToken::LIMIT - 2;
        let of_clock = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let after = HighestNumbers::after_restore;
        assert_eq!(after(of(0, 0), Some(of(last, 0)), at_ms(0)).unwrap().mark, last);
        for (backup, replaced, now) in [
            (of(last, 0), None, at_ms(0)),
            (of(0, u64::MAX), None, at_ms(0)),
            (of(0, 0), Some(of(last + 1, 0)), at_ms(0)),
            (of(0, 0), None, of_clock(1 << 33)),
        ] {
            let NoNumberLeft { above } = after(backup, replaced, now).unwrap_err();
            assert!(above > last, "{above}");
        }
    }
}
