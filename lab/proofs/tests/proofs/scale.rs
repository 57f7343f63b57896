//! Large fleets.

use proofs::scale::run;

#[test]
fn a_small_fleet_recovers_within_its_leases_and_the_same_seed_gives_the_same_figures() {
    let figures = run::run(3, 2000, 5).unwrap();
    assert_eq!(figures, run::run(3, 2000, 5).unwrap());
    // Two statements for each poll, and a commit each quarter of the slot lease.
    assert!((figures.get("idle: statements a second") - 3.0 * (8.0 + 4.0 / 3.0)).abs() < 1.0, "{figures:?}");
    assert_eq!(figures.get("a rack is lost: statements of a takeover"), 5.0);
    let dead = figures.get("a rack is lost: until its nodes are declared dead");
    assert!((2.25..4.5).contains(&dead), "{figures:?}");
    let granted = figures.get("a rack is lost: until the locks of clients that are gone are granted");
    assert!((12.0..17.0).contains(&granted), "{figures:?}");
}
