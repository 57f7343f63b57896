//! Rounds: ours and every peer in turn, again and again, so that a noisy neighbour hits all of them alike.

use anyhow::{Context, Result};

use crate::report::{Better, Figure};

/// One way to do a job, measured.
pub struct Contender<'a> {
    name: &'static str,
    target: Option<f64>,
    measure: Box<dyn FnMut() -> Result<Sample> + 'a>,
}

/// The result of one slice of one round.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The figure itself.
    pub value: f64,
    /// Another figure worth knowing; becomes a row of its own, without a target.
    pub asides: Vec<Aside>,
}

/// A figure beside the figure, such as CPU time per pair.
#[derive(Clone, Debug)]
pub struct Aside {
    /// The row's id is that of the bench, a hyphen and this.
    pub suffix: &'static str,
    /// Unit of the value.
    pub unit: &'static str,
    /// The direction that is better.
    pub better: Better,
    /// The value.
    pub value: f64,
}

/// A row of the table to be: one job, done by ours and by others.
pub struct Bench<'a> {
    /// Names the job.
    pub id: &'static str,
    /// Unit of the samples' values.
    pub unit: &'static str,
    /// The direction that is better.
    pub better: Better,
    /// Ours first, then the peers.
    pub contenders: Vec<Contender<'a>>,
}

impl<'a> Contender<'a> {
    /// One that ours is compared with, or ours itself.
    pub fn new(name: &'static str, measure: impl FnMut() -> Result<Sample> + 'a) -> Self {
        Self { name, target: None, measure: Box::new(measure) }
    }

    /// The ratio that ours should reach to this one.
    #[must_use]
    pub fn target(mut self, ratio: f64) -> Self {
        self.target = Some(ratio);
        self
    }
}

impl Sample {
    /// A sample without asides.
    pub fn of(value: f64) -> Self {
        Self { value, asides: Vec::new() }
    }

    /// The same with CPU time per pair beside it.
    #[must_use]
    pub fn with_cpu(self, ns_per_pair: f64) -> Self {
        self.with(Aside { suffix: "cpu", unit: "CPU ns/pair", better: Better::Lower, value: ns_per_pair })
    }

    /// The same with an aside.
    #[must_use]
    pub fn with(mut self, aside: Aside) -> Self {
        self.asides.push(aside);
        self
    }
}

impl Bench<'_> {
    /// Measures everything `rounds` times, each round beginning with another contender.
    pub fn run(mut self, rounds: u32) -> Result<Vec<Figure>> {
        eprintln!("{} ...", self.id);
        let count = self.contenders.len();
        let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); count];
        for round in 0..rounds as usize {
            for turn in 0..count {
                let at = (round + turn) % count;
                let contender = &mut self.contenders[at];
                let sample =
                    (contender.measure)().with_context(|| format!("{} of {}", self.id, contender.name))?;
                samples[at].push(sample);
            }
        }
        Ok(self.figures(&samples))
    }

    fn figures(&self, samples: &[Vec<Sample>]) -> Vec<Figure> {
        let [ours, peers @ ..] = samples else { return Vec::new() };
        let mut figures = Vec::new();
        for (contender, theirs) in self.contenders[1..].iter().zip(peers) {
            let values = |of: &[Sample]| of.iter().map(|sample| sample.value).collect::<Vec<_>>();
            let (ours_values, peer_values) = (values(ours), values(theirs));
            figures.push(
                Figure::new(self.id.to_owned(), contender.name, self.unit, self.better, contender.target)
                    .with_samples(ours_values, peer_values),
            );
        }
        for (contender, theirs) in self.contenders[1..].iter().zip(peers) {
            figures.extend(self.asides(contender.name, ours, theirs));
        }
        figures
    }

    /// Asides are compared as far as both sides have them.
    fn asides(&self, peer: &'static str, ours: &[Sample], theirs: &[Sample]) -> Vec<Figure> {
        let Some(first) = ours.first() else { return Vec::new() };
        let figure = |aside: &Aside| {
            let values =
                |of: &[Sample]| of.iter().filter_map(|sample| value_of(sample, aside.suffix)).collect();
            let (ours, theirs): (Vec<f64>, Vec<f64>) = (values(ours), values(theirs));
            let id = format!("{}-{}", self.id, aside.suffix);
            let figure = Figure::new(id, peer, aside.unit, aside.better, None);
            (!theirs.is_empty()).then(|| figure.with_samples(ours, theirs))
        };
        first.asides.iter().filter_map(figure).collect()
    }
}

fn value_of(sample: &Sample, suffix: &str) -> Option<f64> {
    sample.asides.iter().find(|aside| aside.suffix == suffix).map(|aside| aside.value)
}
