//! The order of the rings of a run: two at a time, by what they need of the machine.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// What a ring needs of the machine, which decides what runs beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// Little: it waits most of the time, for browsers, leases and processes, and relies on being in time
    /// then.
    Little,
    /// A core or more: it computes, and may take as long as it takes. Those that demand little come first.
    Cores,
    /// The machine for itself: it judges times, or it judges what the other rings left.
    Machine,
}

/// Runs `work` for each item, two at a time: beside one that computes one that waits, where there is one. The
/// items that need the machine run last, one by one. Returns the results in the order of the items.
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
            done.push((place, work(item)));
            guard = queue.lock().unwrap_or_else(PoisonError::into_inner);
            guard.end(needs);
            changed.notify_all();
        }
        done
    };
    let mut done = thread::scope(|scope| {
        let other = scope.spawn(worker);
        let mut done = worker();
        match other.join() {
            Ok(others) => done.extend(others),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        done
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
    /// Takes the item that may start now. `None`: none may.
    fn start(&mut self) -> Option<(usize, Demand, T)> {
        let first =
            |wanted: &dyn Fn(Demand) -> bool| self.waiting.iter().position(|(_, needs, _)| wanted(*needs));
        let next = match self.running[..] {
            [] => first(&|needs| needs != Demand::Machine).or_else(|| first(&|_| true)),
            [Demand::Machine] => None,
            [running] => first(&|needs| needs != Demand::Machine && needs != running)
                .or_else(|| first(&|needs| needs == running)),
            _ => None,
        }?;
        let next = self.waiting.remove(next);
        self.running.push(next.1);
        Some(next)
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
    fn beside_one_that_computes_runs_one_that_waits() {
        use Demand::{Cores, Little, Machine};
        assert_eq!(started(&[Machine, Cores, Little], &[]), Some(1));
        assert_eq!(started(&[Machine, Cores, Little], &[Cores]), Some(2));
        assert_eq!(started(&[Machine, Cores, Little], &[Little]), Some(1));
        // Where there is none of the other kind, two of one kind run.
        assert_eq!(started(&[Machine, Little, Little], &[Little]), Some(1));
        assert_eq!(started(&[Little], &[Cores, Little]), None);
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
            assert!(is_alone || (beside.len() == 2 && beside.iter().all(|at| all[*at] != Demand::Machine)));
            running.lock().unwrap().retain(|other| *other != place);
            place
        };
        let places: Vec<usize> = (0..all.len()).collect();
        assert_eq!(run(places.clone(), |place| all[*place], work), places);
    }
}
