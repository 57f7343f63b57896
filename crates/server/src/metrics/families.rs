//! Every metric: its name, its meaning, and its values with their labels. `docs/metrics.md` lists all of
//! them.

use std::fmt;

use lockhouse::LabelReading;
use lockhouse::core::{Discipline, LossCause, RefusalCause};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::scrape::{Memory, NodeValues, Scrape};
use super::writer::{Labels, Writer};

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut writer = Writer(encoder);
        self.write_counts(&mut writer)?;
        self.write_times(&mut writer)?;
        self.write_tables(&mut writer)?;
        self.write_server(&mut writer)?;
        self.write_store(&mut writer)?;
        self.node.as_ref().map_or(Ok(()), |node| node.write(&mut writer))
    }
}

impl Scrape {
    /// What has happened to locks and claims.
    fn write_counts(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.counters(
            ("lockhouse_requests", "Locks and claims that were asked for"),
            self.of_each(|label, kind| label.totals.requested[kind as usize]),
        )?;
        writer.counters(
            ("lockhouse_grants", "Locks and claims that were granted"),
            self.of_each(|label, kind| label.totals.granted[kind as usize]),
        )?;
        let refused = self.of_each(|label, kind| label.totals.refused[kind as usize]);
        writer.counters(
            ("lockhouse_refusals", "Commands that the lock tables have refused"),
            with_reasons(refused, RefusalCause::ALL.iter().map(|cause| cause.word()), |kind, at| {
                may_be_refused(kind, RefusalCause::ALL[at])
            }),
        )?;
        let lost = self.of_each(|label, kind| label.totals.lost[kind as usize]);
        writer.counters(
            ("lockhouse_lost", "Locks and claims that their holders have lost"),
            with_reasons(lost, LossCause::ALL.iter().map(|cause| cause.word()), |kind, at| {
                may_be_lost(kind, LossCause::ALL[at])
            }),
        )?;
        let reclaimed = self.of_label(|label| label.totals.reclaimed);
        writer.counters(("lockhouse_reclaimed", "Web Locks that their holders have reclaimed"), reclaimed)
    }

    /// Waits and holds.
    fn write_times(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.histograms(
            ("lockhouse_wait_seconds", "From the request of a Web Lock to its grant"),
            1_000.0,
            self.reading.labels.iter().map(|label| (vec![bucket(label)], &label.totals.waits_ms)),
        )?;
        writer.histograms(
            ("lockhouse_hold_seconds", "From the grant of a lock or claim to its end"),
            1_000.0,
            self.reading.labels.iter().flat_map(|label| {
                Discipline::ALL.map(|kind| (kind_of(label, kind), &label.totals.holds_ms[kind as usize]))
            }),
        )
    }

    /// What there is in the lock tables.
    fn write_tables(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.gauges(
            ("lockhouse_held", "Locks and claims that are held"),
            as_f64(self.of_each(|label, kind| label.held[kind as usize])),
        )?;
        writer.gauges(
            (
                "lockhouse_leases",
                "Agents and sessions (web), owners (offline), claims, whose leases and TTLs run",
            ),
            as_f64(self.of_each(|label, kind| label.parties[kind as usize])),
        )?;
        writer.gauges(
            ("lockhouse_waiting", "Requests of Web Locks that wait"),
            as_f64(self.of_label(|label| label.waiting)),
        )?;
        writer.gauges(
            ("lockhouse_longest_wait_seconds", "For how long the oldest of the requests waits, to a second"),
            self.of_label(|label| label.longest_wait_ms as f64 / 1_000.0),
        )?;
        writer
            .gauges(("lockhouse_buckets", "Buckets in use"), as_f64(self.of_label(|label| label.buckets)))?;
        writer.gauges(
            ("lockhouse_recovering_buckets", "Buckets that wait for holders from before a restart"),
            as_f64(self.of_label(|label| label.recovering)),
        )
    }

    /// Sessions, connections, and how much of the bounds is used.
    fn write_server(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let version = vec![("version", env!("CARGO_PKG_VERSION"))];
        writer.gauges(("lockhouse_build_info", "Always 1"), [(version, 1.0)])?;
        let is_ready = f64::from(u8::from(self.is_ready));
        writer.gauge(("lockhouse_ready", "Whether the server takes clients, as /readyz says"), is_ready)?;
        writer
            .gauge(("lockhouse_sessions", "Sessions, with and without a connection"), self.sessions as f64)?;
        let most = f64::from(self.limits.sessions);
        writer.gauge(("lockhouse_sessions_limit", "How many sessions there may be"), most)?;
        writer.gauge(("lockhouse_connections", "Connections of all kinds"), self.connections as f64)?;
        let most = f64::from(self.limits.connections);
        writer.gauge(("lockhouse_connections_limit", "How many connections there may be"), most)?;
        writer.counters(
            ("lockhouse_limit_refusals", "What was refused or cut off as it was over a bound of the server"),
            self.refused.iter().map(|(word, count)| (vec![("reason", *word)], *count)),
        )?;
        writer.counters(
            (
                "lockhouse_log_lines_dropped",
                "Lines of the log that were dropped, as its reader did not keep up or they could not be written",
            ),
            [(Labels::new(), self.dropped_lines)],
        )?;
        let Memory { all, most, each } = self.tables;
        writer.gauge(("lockhouse_table_memory_bytes", "Memory of all lock tables"), all as f64)?;
        writer.gauge(
            ("lockhouse_table_memory_tenant_max_bytes", "Memory of the tables of the tenant that has most"),
            most as f64,
        )?;
        writer.gauge(
            ("lockhouse_table_memory_tenant_limit_bytes", "Memory that the tables of each tenant may take"),
            each as f64,
        )?;
        let Memory { all, most, each } = self.unread;
        writer.gauge(
            (
                "lockhouse_unread_bytes",
                "Frames that clients have not taken yet, or that were read before their turn",
            ),
            all as f64,
        )?;
        writer.gauge(
            ("lockhouse_unread_tenant_max_bytes", "The same of the tenant that has most of them"),
            most as f64,
        )?;
        writer.gauge(
            ("lockhouse_unread_tenant_limit_bytes", "How much of it each tenant may have"),
            each as f64,
        )
    }

    /// The store and the commits to it.
    fn write_store(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.gauges(
            ("lockhouse_stores", "Lock tables of the process or of its slots, by the state of their store"),
            self.stores.iter().map(|(word, count)| (vec![("state", *word)], *count as f64)),
        )?;
        let commits = &self.reading.commits;
        writer.histograms(
            ("lockhouse_commit_seconds", "How long a commit takes, retries included"),
            1_000_000.0,
            [(Labels::new(), &commits.durations_us)],
        )?;
        writer.histograms(
            ("lockhouse_commit_writes", "How many writes a commit has"),
            1.0,
            [(Labels::new(), &commits.writes)],
        )?;
        writer.counters(
            (
                "lockhouse_history_left_out",
                "Entries that are in no history: refusals of which too many came at once, and all while it is damaged",
            ),
            [(Labels::new(), self.reading.refusals_left_out)],
        )
    }

    /// A value of each label and discipline.
    fn of_each<'a, T>(
        &'a self,
        value: impl Fn(&LabelReading, Discipline) -> T + 'a,
    ) -> impl Iterator<Item = (Labels<'a>, T)> + 'a {
        let all = self.reading.labels.iter().flat_map(|label| Discipline::ALL.map(|kind| (label, kind)));
        all.map(move |(label, kind)| (kind_of(label, kind), value(label, kind)))
    }

    /// A value of each label.
    fn of_label<'a, T>(
        &'a self,
        value: impl Fn(&LabelReading) -> T + 'a,
    ) -> impl Iterator<Item = (Labels<'a>, T)> + 'a {
        self.reading.labels.iter().map(move |label| (vec![bucket(label)], value(label)))
    }
}

impl NodeValues {
    fn write(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.gauges(
            ("lockhouse_node_phase", "1 for the phase of the node in its fleet"),
            self.phases.iter().map(|(word, count)| (vec![("phase", *word)], *count as f64)),
        )?;
        writer.gauges(
            ("lockhouse_slots", "Slots that the node has to do with"),
            self.slots.iter().map(|(word, count)| (vec![("state", *word)], *count as f64)),
        )?;
        writer.gauges(
            ("lockhouse_unconfirmed_seconds", "For how long no commit of the node has been confirmed"),
            self.unconfirmed.map(|length| (Labels::new(), length.as_secs_f64())),
        )?;
        writer.gauge(
            ("lockhouse_slot_lease_seconds", "After how long without one others take its slots"),
            self.slot_lease.as_secs_f64(),
        )?;
        let (holder, transactions) = &self.oldest_holder;
        writer.gauges(
            (
                "lockhouse_oldest_snapshot_transactions",
                "For how many transactions old versions of rows have been kept alive, and who keeps them",
            ),
            [(vec![("holder", &**holder)], *transactions as f64)],
        )
    }
}

fn bucket(label: &LabelReading) -> (&'static str, &str) {
    ("bucket", &label.label)
}

fn kind_of(label: &LabelReading, kind: Discipline) -> Labels<'_> {
    vec![bucket(label), ("discipline", kind.word())]
}

fn as_f64<'a>(values: impl Iterator<Item = (Labels<'a>, usize)>) -> impl Iterator<Item = (Labels<'a>, f64)> {
    values.map(|(labels, value)| (labels, value as f64))
}

/// The counts of each reason, without the pairs that cannot come up.
fn with_reasons<'a, const N: usize>(
    values: impl Iterator<Item = (Labels<'a>, [u64; N])>,
    words: impl Iterator<Item = &'static str> + Clone,
    may_be: impl Fn(Discipline, usize) -> bool,
) -> impl Iterator<Item = (Labels<'a>, u64)> {
    values.zip(Discipline::ALL.into_iter().cycle()).flat_map(move |((labels, counts), kind)| {
        let counted = words.clone().zip(counts).enumerate();
        let shown = counted.filter(|(at, (_, count))| *count > 0 || may_be(kind, *at));
        shown
            .map(|(_, (word, count))| {
                let mut labels = labels.clone();
                labels.push(("reason", word));
                (labels, count)
            })
            .collect::<Vec<_>>()
    })
}

fn may_be_refused(kind: Discipline, cause: RefusalCause) -> bool {
    match cause {
        RefusalCause::Assigned => kind == Discipline::Claim,
        RefusalCause::NotReclaimable => kind == Discipline::Web,
        _ => true,
    }
}

fn may_be_lost(kind: Discipline, cause: LossCause) -> bool {
    match cause {
        LossCause::Stolen | LossCause::Broken => true,
        LossCause::MaxHold | LossCause::Superseded | LossCause::Lease | LossCause::NotReclaimed => {
            kind == Discipline::Web
        }
        LossCause::Ttl => kind != Discipline::Web,
        LossCause::MaxLife => kind == Discipline::Offline,
    }
}
