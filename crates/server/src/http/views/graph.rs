//! Who waits for whom, found in the queues of a bucket.
//!
//! ```text
//!   agent ──request──▶ holders of the name ──▶ agent      for an exclusive request all of them,
//!     └──request before it that excludes it──▶ agent      for a shared one the exclusive ones
//! ```
//!
//! Agents with the same client id are one client, such as a program and what it starts: what the one of them
//! holds while another one waits may be what it waits for. So cycles are found among agents, and then among
//! clients.
//!
//! Of the requests before, only the last ones that exclude a request have an edge: the others are reached
//! through those. So the graph has a few edges for each entry, however long a queue is.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use lockhouse::Mode;
use lockhouse::core::{AgentId, Party, QueueEntry, QueueView, RequestId};
use petgraph::Direction::Incoming;
use petgraph::algo::{astar, kosaraju_scc};
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::NodeFiltered;

/// A request that waits for a holder, or for a request before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// The number of the queue.
    pub(super) queue: usize,
    /// The request that waits.
    pub(super) request: QueueEntry,
    /// What it waits for.
    pub(super) blocker: QueueEntry,
}

/// Who waits for whom.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Of each group of agents that wait for each other one cycle: each wait is for the next, the last one
    /// for the first.
    pub(super) cycles: Vec<Vec<Wait>>,
    /// The other waits, those of the requests that wait for longest first.
    pub(super) others: Vec<Wait>,
    /// There are more.
    pub(super) is_truncated: bool,
}

/// The most pairs of entries that are looked at for the waits outside of cycles.
const PAIRS: usize = 100_000;

/// The meaning of an edge.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// From the agent of a request to that of one before it.
    Before { queue: u32, request: u32, before: u32 },
    /// From the agent of a request to the holders of the name.
    Holders { request: u32 },
    /// From the holders of the name to the agent of one of them.
    Holder { queue: u32, holder: u32 },
}

/// The agents that wait, or the clients, come first among the nodes; then two nodes for each queue: all its
/// holders, and those that are exclusive.
struct Graph<'q> {
    queues: &'q [QueueView],
    /// The number by which an agent counts.
    number_of: &'q dyn Fn(AgentId) -> u64,
    agents: HashMap<u64, NodeIndex, RandomState>,
    edges: DiGraph<(), Step>,
}

/// The agents that share their client id with others, each with one number for all of them: the serial number
/// of one of them.
pub(super) type Clients = HashMap<AgentId, u64, RandomState>;

/// Who waits for whom in these queues: at most so many waits, those of cycles first.
pub(super) fn waits(queues: &[QueueView], clients: &Clients, most: usize) -> Waits {
    let mut found = Waits::default();
    let mut left = most;
    let mut known: HashSet<(RequestId, RequestId), RandomState> = HashSet::default();
    let mut add = |cycle: Vec<Wait>| {
        let pairs = cycle.iter().map(|wait| (wait.request.entry, wait.blocker.entry));
        if pairs.clone().all(|pair| known.contains(&pair)) {
            return;
        }
        if cycle.len() > left {
            found.is_truncated = true;
            return;
        }
        known.extend(pairs);
        left -= cycle.len();
        found.cycles.push(cycle);
    };
    Graph::new(queues, &|agent| agent.serial()).cycles().for_each(&mut add);
    if !clients.is_empty() {
        let client = |agent: AgentId| clients.get(&agent).copied().unwrap_or(agent.serial());
        Graph::new(queues, &client).cycles().for_each(&mut add);
    }
    add_others(queues, left, known, &mut found);
    found
}

impl<'q> Graph<'q> {
    fn new(queues: &'q [QueueView], number_of: &'q dyn Fn(AgentId) -> u64) -> Self {
        let mut graph = Self { queues, number_of, agents: HashMap::default(), edges: DiGraph::new() };
        for standing in queues.iter().flat_map(|queue| &queue.queue) {
            if let Party::Agent(agent) = standing.party {
                let Self { agents, edges, .. } = &mut graph;
                agents.entry(number_of(agent)).or_insert_with(|| edges.add_node(()));
            }
        }
        for (number, queue) in (0..).zip(queues) {
            graph.add_queue(number, queue);
        }
        graph
    }

    /// The node of an agent that waits; the others wait for no one.
    fn node(&self, standing: &QueueEntry) -> Option<NodeIndex> {
        let Party::Agent(agent) = standing.party else { return None };
        self.agents.get(&(self.number_of)(agent)).copied()
    }

    fn add_queue(&mut self, number: u32, queue: &QueueView) {
        let [all, exclusive] = [(); 2].map(|()| self.edges.add_node(()));
        for (holder, standing) in (0..).zip(&queue.held) {
            let Some(agent) = self.node(standing) else { continue };
            let step = Step::Holder { queue: number, holder };
            self.edges.add_edge(all, agent, step);
            if standing.mode == Mode::Exclusive {
                self.edges.add_edge(exclusive, agent, step);
            }
        }
        // The last exclusive request, and the shared ones behind it.
        let (mut last, mut shared) = (None, 0..0);
        for (request, standing) in (0..).zip(&queue.queue) {
            let Some(agent) = self.node(standing) else { continue };
            let is_exclusive = standing.mode == Mode::Exclusive;
            let holders = if is_exclusive { all } else { exclusive };
            self.edges.add_edge(agent, holders, Step::Holders { request });
            let behind = if is_exclusive { shared.clone() } else { 0..0 };
            for before in last.into_iter().chain(behind) {
                if let Some(other) = self.node(&queue.queue[before as usize]) {
                    self.edges.add_edge(agent, other, Step::Before { queue: number, request, before });
                }
            }
            if is_exclusive {
                (last, shared) = (Some(request), request + 1..request + 1);
            } else {
                shared.end = request + 1;
            }
        }
    }

    fn is_agent(&self, node: NodeIndex) -> bool {
        node.index() < self.agents.len()
    }

    /// A cycle of each group of two or more agents that wait for each other.
    fn cycles(&self) -> impl Iterator<Item = Vec<Wait>> + '_ {
        let groups = kosaraju_scc(&self.edges);
        let mut group_of = vec![0; self.edges.node_count()];
        for (number, group) in groups.iter().enumerate() {
            group.iter().for_each(|node| group_of[node.index()] = number);
        }
        let several =
            move |(_, group): &(usize, Vec<_>)| group.iter().filter(|node| self.is_agent(**node)).count() > 1;
        let several = groups.into_iter().enumerate().filter(several);
        several.filter_map(move |(number, group)| {
            let is_of_group = |node: NodeIndex| group_of[node.index()] == number;
            let agents = group.into_iter().filter(|node| self.is_agent(*node));
            // One that holds something, if there is one: others are mostly bystanders.
            let first = agents.min_by_key(|node| (!self.holds(*node, &is_of_group), *node))?;
            self.cycle(first, is_of_group)
        })
    }

    /// Whether others of the group wait for what the agent holds.
    fn holds(&self, agent: NodeIndex, is_of_group: &impl Fn(NodeIndex) -> bool) -> bool {
        self.edges.neighbors_directed(agent, Incoming).any(|from| !self.is_agent(from) && is_of_group(from))
    }

    /// A cycle through that agent and others of its group.
    fn cycle(&self, first: NodeIndex, is_of_group: impl Fn(NodeIndex) -> bool) -> Option<Vec<Wait>> {
        let within = NodeFiltered::from_fn(&self.edges, &is_of_group);
        let mut path = self.to_another(first, &is_of_group)?;
        let second = *path.last()?;
        let cost = |step: &Step| u32::from(!matches!(step, Step::Holder { .. }));
        let (_, back) = astar(&within, second, |node| node == first, |it| cost(it.weight()), |_| 0)?;
        path.extend(back.into_iter().skip(1));
        Some(self.waits_along(&path))
    }

    /// The way from the agent to the next one of its group, without a way to itself.
    fn to_another(
        &self,
        first: NodeIndex,
        is_of_group: &impl Fn(NodeIndex) -> bool,
    ) -> Option<Vec<NodeIndex>> {
        let is_other = |node: NodeIndex| node != first && is_of_group(node);
        let next = || self.edges.neighbors(first).filter(|next| is_other(*next));
        let held = next().filter(|next| !self.is_agent(*next)).find_map(|holders| {
            let holder = self.edges.neighbors(holders).find(|holder| is_other(*holder))?;
            Some(vec![first, holders, holder])
        });
        held.or_else(|| Some(vec![first, next().find(|next| self.is_agent(*next))?]))
    }

    /// The waits along a way from node to node.
    fn waits_along(&self, path: &[NodeIndex]) -> Vec<Wait> {
        let step = |pair: &[NodeIndex]| {
            let edge = self.edges.find_edge(pair[0], pair[1])?;
            self.edges.edge_weight(edge).copied()
        };
        let (mut waits, mut asked) = (Vec::new(), 0);
        for step in path.windows(2).filter_map(step) {
            match step {
                Step::Holders { request } => asked = request,
                Step::Holder { queue, holder } => {
                    let held = |queue: &QueueView| queue.held[holder as usize];
                    waits.push(self.wait(queue, asked, held));
                }
                Step::Before { queue, request, before } => {
                    waits.push(self.wait(queue, request, |queue| queue.queue[before as usize]));
                }
            }
        }
        waits
    }

    fn wait(&self, queue: u32, request: u32, blocker: impl Fn(&QueueView) -> QueueEntry) -> Wait {
        let of = &self.queues[queue as usize];
        Wait { queue: queue as usize, request: of.queue[request as usize], blocker: blocker(of) }
    }
}

/// Adds up to so many waits of the requests that wait for longest.
fn add_others(
    queues: &[QueueView],
    most: usize,
    mut known: HashSet<(RequestId, RequestId), RandomState>,
    found: &mut Waits,
) {
    let mut oldest: Vec<_> = (0..)
        .zip(queues)
        .flat_map(|(queue, of): (usize, _)| {
            of.queue.iter().enumerate().map(move |(place, it)| (it.since, it.entry, queue, place))
        })
        .collect();
    oldest.sort_unstable();
    let mut pairs = 0;
    for (.., queue, place) in oldest {
        let of = &queues[queue];
        let request = of.queue[place];
        for blocker in of.held.iter().chain(&of.queue[..place]) {
            pairs += 1;
            if pairs > PAIRS {
                found.is_truncated = true;
                return;
            }
            let excludes = request.mode == Mode::Exclusive || blocker.mode == Mode::Exclusive;
            if !excludes || !known.insert((request.entry, blocker.entry)) {
                continue;
            }
            if found.others.len() == most {
                found.is_truncated = true;
                return;
            }
            found.others.push(Wait { queue, request, blocker: *blocker });
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use std::time::Instant;

    use lockhouse::core::{Acquire, Command, LockManager, Name, NewAgent, NewRequest, Outcome};

    use super::*;

    /// A lock manager whose agents have letters.
    struct World {
        manager: LockManager<foldhash::fast::FixedState>,
        agents: Vec<(char, AgentId)>,
        clients: Clients,
    }

    impl World {
        /// `a=x b+x c-x`: a has x alone, b asks for it alone, c asks for it shared, in this order.
        fn new(script: &str) -> Self {
            let manager = LockManager::new(foldhash::fast::FixedState::default());
            let mut world = Self { manager, agents: Vec::new(), clients: Clients::default() };
            script.split_whitespace().for_each(|step| world.step(step));
            world
        }

        fn agent(&mut self, letter: char) -> AgentId {
            if let Some((_, agent)) = self.agents.iter().find(|(known, _)| *known == letter) {
                return *agent;
            }
            let joined = self.manager.handle(at(0), Command::Join(NewAgent::new("")));
            let Outcome::Joined(agent) = joined else { panic!("{joined:?}") };
            self.agents.push((letter, agent));
            agent
        }

        fn step(&mut self, step: &str) {
            let letters: Vec<char> = step.chars().collect();
            let agent = self.agent(letters[0]);
            let mode = if letters[1] == '-' { Mode::Shared } else { Mode::Exclusive };
            let name: String = letters[2..].iter().collect();
            let ask = NewRequest::new(agent, Name::new(&name).unwrap(), Acquire::Wait(mode));
            self.manager.handle(at(self.manager.len() as u64), Command::Request(ask));
        }

        fn waits(&self, most: usize) -> Waits {
            let mut queues = Vec::new();
            assert!(!self.manager.queues(&mut 0, usize::MAX, &mut queues));
            waits(&queues, &self.clients, most)
        }

        fn letter(&self, standing: &QueueEntry) -> char {
            let is_it = |agent: &AgentId| standing.party == Party::Agent(*agent);
            self.agents.iter().find(|(_, agent)| is_it(agent)).unwrap().0
        }

        fn pair(&self, wait: &Wait) -> String {
            [self.letter(&wait.request), self.letter(&wait.blocker)].iter().collect()
        }

        /// The waits of each cycle, and the others, in the order of the alphabet.
        fn found(&self) -> (Vec<Vec<String>>, Vec<String>) {
            let waits = self.waits(500);
            assert!(!waits.is_truncated);
            let pairs = |waits: &Vec<Wait>| {
                let mut pairs: Vec<_> = waits.iter().map(|wait| self.pair(wait)).collect();
                pairs.sort_unstable();
                pairs
            };
            let mut cycles: Vec<_> = waits.cycles.iter().map(pairs).collect();
            cycles.sort_unstable();
            (cycles, pairs(&waits.others))
        }
    }

    fn at(ms: u64) -> lockhouse::core::Instant {
        lockhouse::core::Instant::from_millis(ms)
    }

    fn found(script: &str) -> (Vec<Vec<String>>, Vec<String>) {
        World::new(script).found()
    }

    fn none() -> Vec<Vec<String>> {
        Vec::new()
    }

    #[test]
    fn a_request_waits_for_holders_and_requests_before_it_that_exclude_it() {
        assert_eq!(found("a=x"), (none(), vec![]));
        assert_eq!(found("a=x b+x c+x").1, ["ba", "ca", "cb"]);
        // Shared holders; a shared request waits for the exclusive one before it alone.
        assert_eq!(found("a-x b-x c+x d-x e-x").1, ["ca", "cb", "dc", "ec"]);
        assert_eq!(found("a=x b-x c-x d+x").1, ["ba", "ca", "da", "db", "dc"]);
    }

    #[test]
    fn agents_that_wait_for_each_other_are_a_cycle() {
        assert_eq!(found("a=x b=y a+y b+x"), (vec![vec!["ab".into(), "ba".into()]], vec![]));
        let three = found("a=x b=y c=z a+y b+z c+x");
        assert_eq!(three, (vec![vec!["ab".into(), "bc".into(), "ca".into()]], vec![]));
        // A bystander waits for one of them, and one waits behind it.
        let (cycles, others) = found("a=x b=y d+x a+y b+x");
        assert_eq!(cycles, [["ab", "ba"]]);
        assert_eq!(others, ["bd", "da"]);
        // Two groups.
        assert_eq!(found("a=x b=y a+y b+x c=u d=v c+v d+u").0, [["ab", "ba"], ["cd", "dc"]]);
        // Through a request before, and not through a holder.
        assert_eq!(found("a=x b+x c=y c+x b+y").0, [["bc", "cb"]]);
    }

    #[test]
    fn what_looks_like_a_cycle_and_is_none_is_not_shown_as_one() {
        assert_eq!(found("a=x a+x"), (none(), vec!["aa".to_owned()]));
        assert_eq!(found("a=x b=y b+x").0, none());
        assert_eq!(found("a-x b-x a-y b-y").0, none());
        // The one that waits for itself also waits for another one, which waits for it.
        assert_eq!(found("a=x a+x b=y a+y b+x").0, [["ab", "ba"]]);
        assert_eq!(found("a=x a+x b=y a+y").0, none());
    }

    #[test]
    fn agents_of_one_client_count_as_one() {
        // A program that holds and starts another one that waits, twice.
        let mut world = World::new("a=x b=y c+y d+x");
        assert_eq!(world.found().0, none());
        let [a, b, c, d] = [0, 1, 2, 3].map(|number: usize| world.agents[number].1);
        world.clients =
            [(a, a.serial()), (c, a.serial()), (b, b.serial()), (d, b.serial())].into_iter().collect();
        assert_eq!(world.found(), (vec![vec!["cb".into(), "da".into()]], vec![]));
        // Agents with the same client id that wait for each other are found nevertheless.
        let mut world = World::new("a=x b=y a+y b+x");
        world.clients = world.agents.iter().map(|(_, agent)| (*agent, world.agents[0].1.serial())).collect();
        assert_eq!(world.found().0, [["ab", "ba"]]);
    }

    #[test]
    fn no_more_waits_are_shown_than_asked_for_and_those_of_cycles_are() {
        let queue: String = (0..40).map(|_| "c+z ").collect();
        let world = World::new(&format!("d=z {queue} a=x b=y a+y b+x"));
        let waits = world.waits(10);
        assert!(waits.is_truncated);
        assert_eq!((waits.cycles[0].len(), waits.others.len()), (2, 8));
        assert!(world.waits(1).cycles.is_empty() && world.waits(1).is_truncated);
    }

    /// Any graph, judged by a search that looks at every wait.
    #[test]
    fn there_is_a_cycle_exactly_where_an_agent_reaches_itself_through_another() {
        let mut random = random::Random::new(11);
        let (mut with, mut without) = (0, 0);
        for _ in 0..2_000 {
            let mut step = |_| {
                let (agent, name) = (b'a' + random.below(6) as u8, b'u' + random.below(5) as u8);
                let mode = if random.below(3) == 0 { '-' } else { '+' };
                format!("{}{mode}{} ", agent as char, name as char)
            };
            let world = World::new(&(0..14).map(&mut step).collect::<String>());
            let all = world.waits(usize::MAX);
            let pairs: HashSet<String> =
                all.cycles.iter().flatten().chain(&all.others).map(|wait| world.pair(wait)).collect();
            let next = |from: char| {
                let from = pairs.iter().filter(move |pair| pair.starts_with(from));
                from.filter_map(|pair| pair.chars().nth(1)).collect::<Vec<_>>()
            };
            let reaches_itself = |agent: char| {
                let mut seen: Vec<char> = next(agent).into_iter().filter(|other| *other != agent).collect();
                let mut looked_at = 0;
                while looked_at < seen.len() {
                    let more = next(seen[looked_at]);
                    seen.extend(more.into_iter().filter(|other| !seen.contains(other)).collect::<Vec<_>>());
                    looked_at += 1;
                }
                seen.contains(&agent)
            };
            let in_cycle: HashSet<char> = ('a'..='f').filter(|agent| reaches_itself(*agent)).collect();
            for cycle in &all.cycles {
                let mut agents: Vec<_> = cycle.iter().map(|wait| world.letter(&wait.request)).collect();
                for (wait, next) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
                    assert_eq!(wait.blocker.party, next.request.party, "each waits for the next");
                }
                assert!(agents.len() > 1 && agents.iter().all(|agent| in_cycle.contains(agent)));
                agents.sort_unstable();
                agents.dedup();
                assert_eq!(agents.len(), cycle.len(), "no agent is in a cycle twice");
            }
            assert_eq!(all.cycles.is_empty(), in_cycle.is_empty(), "{pairs:?}");
            if in_cycle.is_empty() { without += 1 } else { with += 1 }
        }
        assert!(with > 100 && without > 100, "{with} with a cycle and {without} without");
    }

    #[test]
    fn long_queues_take_a_moment() {
        let mut world = World::new("a=x b=y a+y b+x");
        let agents: Vec<char> = ('c'..='z').collect();
        for number in 0..100_000 {
            world.step(&format!(
                "{}{}x",
                agents[number % agents.len()],
                if number % 3 == 0 { '-' } else { '+' }
            ));
        }
        let begun = Instant::now();
        let waits = world.waits(500);
        assert!(waits.is_truncated && !waits.cycles.is_empty());
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }
}
