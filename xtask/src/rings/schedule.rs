//! The order of the rings of a run, and which of them run side by side: on a machine with two cores those
//! that wait leave more than half of it to one that computes behind them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

/// What a ring needs of the machine, which decides what runs beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// More than half of the machine: it waits, too, and relies on being in time. Beside it runs only one
    /// that computes.
    Much,
    /// Little: it waits most of the time, for browsers, leases and processes, and relies on being in time
    /// then.
    Little,
    /// A core or more: it computes, and may take as long as it takes. Those that demand little come first.
    Cores,
    /// The machine for itself: it judges times, or it judges what the other rings left.
    Machine,
}

/// The number of items that run at a time: two that wait, or one that takes much, and one that computes; or
/// two that compute once none waits any more.
const AT_A_TIME: usize = 3;

/// Runs `work` for each item, [`AT_A_TIME`]. The items that need the machine run last, one by one. Returns
/// the results in the order of the items.
pub(crate) fn run<T: Send, R: Send>(
    items: Vec<T>,
    needs: impl Fn(&T) -> Demand,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let waiting = items.into_iter().enumerate().map(|(place, item)| (place, needs(&item), item)).collect();
    let queue = Mutex::new(Queue { waiting, running: Vec::new() });
    let changed = Condvar::new();
    let worker = || {
        let mut done = Vec::new();
        let mut guard = queue.lock().unwrap_or_else(PoisonError::into_inner);
        while !guard.waiting.is_empty() {
            let Some((place, needs, item)) = guard.start() else {
                guard = changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(guard);
            let result = catch_unwind(AssertUnwindSafe(|| work(item)));
            guard = queue.lock().unwrap_or_else(PoisonError::into_inner);
            guard.end(needs);
            // Also after a panic, else the other workers would wait for ever.
            changed.notify_all();
            match result {
                Ok(result) => done.push((place, result)),
                Err(panic) => {
                    guard.waiting.clear();
                    drop(guard);
                    resume_unwind(panic);
                }
            }
        }
        done
    };
    let mut done = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(worker)).collect();
        let results = workers.into_iter().map(ScopedJoinHandle::join);
        results.flat_map(|done| done.unwrap_or_else(|panic| resume_unwind(panic))).collect::<Vec<_>>()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The items that have not begun, each with its place in the order, and the needs of those that run.
struct Queue<T> {
    waiting: Vec<(usize, Demand, T)>,
    running: Vec<Demand>,
}

impl<T> Queue<T> {
    /// Takes the first item that may start now. `None`: none may.
    fn start(&mut self) -> Option<(usize, Demand, T)> {
        let next = self.waiting.iter().position(|(_, needs, _)| self.may_start(*needs))?;
        let next = self.waiting.remove(next);
        self.running.push(next.1);
        Some(next)
    }

    fn may_start(&self, needs: Demand) -> bool {
        let running = |wanted| self.running.iter().filter(|needs| **needs == wanted).count();
        let is_waiting = |wanted| self.waiting.iter().any(|(_, needs, _)| *needs == wanted);
        match needs {
            _ if running(Demand::Machine) > 0 => false,
            Demand::Much => {
                running(Demand::Much) + running(Demand::Little) == 0 && running(Demand::Cores) < 2
            }
            Demand::Little if running(Demand::Much) > 0 => false,
            Demand::Little => running(Demand::Little) + running(Demand::Cores).saturating_sub(1) < 2,
            Demand::Cores
                if [Demand::Much, Demand::Little].iter().any(|it| running(*it) > 0 || is_waiting(*it)) =>
            {
                running(Demand::Cores) == 0
            }
            Demand::Cores => running(Demand::Cores) < 2,
            Demand::Machine => {
                self.running.is_empty() && self.waiting.iter().all(|(_, needs, _)| *needs == Demand::Machine)
            }
        }
    }

    fn end(&mut self, ended: Demand) {
        if let Some(place) = self.running.iter().position(|needs| *needs == ended) {
            self.running.swap_remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place of the item that starts.
    fn started(waiting: &[Demand], running: &[Demand]) -> Option<usize> {
        let waiting = waiting.iter().enumerate().map(|(place, needs)| (place, *needs, ())).collect();
        Queue { waiting, running: running.to_vec() }.start().map(|(place, ..)| place)
    }

    #[test]
    fn behind_those_that_wait_runs_one_that_computes() {
        use Demand::{Cores, Little, Machine, Much};
        assert_eq!(started(&[Machine, Cores, Little], &[]), Some(1));
        assert_eq!(started(&[Machine, Cores, Little], &[Cores]), Some(2));
        assert_eq!(started(&[Machine, Cores, Little], &[Little]), Some(1));
        assert_eq!(started(&[Machine, Cores, Little], &[Cores, Little]), Some(2));
        assert_eq!(started(&[Cores, Little], &[Little, Little]), Some(0));
        assert_eq!(started(&[Cores, Little], &[Cores, Little, Little]), None);
        assert_eq!(started(&[Little, Much, Cores], &[Much]), Some(2));
        assert_eq!(started(&[Much, Little], &[Little]), Some(1));
        assert_eq!(started(&[Much, Little], &[Cores]), Some(0));
        // Two that compute run only where none waits.
        assert_eq!(started(&[Cores], &[Cores]), Some(0));
        assert_eq!(started(&[Cores], &[Cores, Little]), None);
        assert_eq!(started(&[Cores], &[Cores, Cores]), None);
    }

    #[test]
    fn one_that_needs_the_machine_runs_alone_and_last() {
        use Demand::{Cores, Little, Machine};
        assert_eq!(started(&[Machine], &[Little]), None);
        assert_eq!(started(&[Machine, Machine], &[]), Some(0));
        assert_eq!(started(&[Machine, Little, Cores], &[Machine]), None);
    }

    #[test]
    fn all_items_run_and_results_come_in_their_order() {
        let all = [Demand::Cores, Demand::Machine, Demand::Little, Demand::Machine, Demand::Little];
        let running = Mutex::new(Vec::new());
        let work = |place: usize| {
            let beside = {
                let mut running = running.lock().unwrap();
                running.push(place);
                running.clone()
            };
            let is_alone = beside.len() == 1;
            assert!(is_alone || (beside.len() <= 3 && beside.iter().all(|at| all[*at] != Demand::Machine)));
            running.lock().unwrap().retain(|other| *other != place);
            place
        };
        let places: Vec<usize> = (0..all.len()).collect();
        assert_eq!(run(places.clone(), |place| all[*place], work), places);
    }
    #[test]
    fn a_panic_ends_the_run_instead_of_keeping_the_others_waiting() {
        let items = vec![Demand::Little, Demand::Machine, Demand::Machine];
        let run = || run(items, |needs| *needs, |_| panic!("a fault of the item"));
        assert!(catch_unwind(run).is_err());
    }
}
