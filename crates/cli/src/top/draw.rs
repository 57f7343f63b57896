//! The screen of `top`: a head, the list, a foot, and a dialog above them.

use std::time::{Duration, SystemTime};

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, Wrap};

use super::answers::{Counts, Entry, Overview};
use super::palette::Palette;
use super::view::{Away, Dialog, Filtered, View};
use crate::common::duration;
use crate::common::print::visible;

/// What does not change while `top` runs.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) origin: String,
    pub(super) bucket: String,
    pub(super) every: Duration,
    pub(super) palette: Palette,
}

/// The keys, with what each does.
const HELP: [(&str, &str); 14] = [
    ("up, down", "select an entry"),
    ("page down, page up", "the next page, the one before"),
    ("home", "the first page"),
    ("enter", "all that is known of the entry"),
    ("/", "only names that begin with a text"),
    ("c", "only this client id, label or claimant"),
    ("k", "only one kind: web, offline, claim, assignment"),
    ("w", "only what is held, waits or is assigned"),
    ("esc", "no filter"),
    ("s", "by name, or the oldest first"),
    ("b", "break the hold that is selected"),
    ("space, p", "pause, go on"),
    ("?", "this help"),
    ("q", "quit"),
];

impl Scene {
    /// Draws all of it, and fits the page to the screen.
    pub(super) fn draw(&self, frame: &mut Frame<'_>, view: &mut View) {
        let height = frame.area().height;
        // The list goes before the rest where there is little space.
        let head = if height >= 10 { 4 } else { height / 3 };
        let foot = if height >= 6 { 2 } else { height / 4 };
        let parts =
            Layout::vertical([Constraint::Length(head), Constraint::Fill(1), Constraint::Length(foot)]);
        let [head, list, foot] = parts.areas(frame.area());
        view.fit(list.height.saturating_sub(1));
        frame.render_widget(Text::from(self.head(view)), head);
        self.draw_list(frame, view, list);
        frame.render_widget(Text::from(self.foot(view)), foot);
        self.draw_dialog(frame, view);
    }

    fn head(&self, view: &View) -> Vec<Line<'static>> {
        let Palette { strong, alarm, .. } = self.palette;
        let place = format!("{}  {}  ", visible(&self.origin), visible(&self.bucket));
        let overview = view.look.as_ref().map(|look| &look.overview);
        let title = if let Some(Away { since, is_reached, why }) = &view.away {
            let what = if *is_reached { "no answer" } else { "unreachable" };
            let what = format!("{what}, since {}  ", humantime::format_rfc3339_seconds(*since));
            vec![Span::styled(what, alarm), Span::raw(place), Span::raw(visible(why))]
        } else {
            let at = overview.and_then(Overview::at).unwrap_or(SystemTime::UNIX_EPOCH);
            let at = format!("{}  ", humantime::format_rfc3339_seconds(at));
            let state = match view.is_paused {
                true => Span::styled("paused", strong),
                false => Span::raw(format!("every {}", humantime::format_duration(self.every))),
            };
            vec![Span::styled("lockhouse top  ", strong), Span::raw(place), Span::raw(at), state]
        };
        let counts = overview.into_iter().flat_map(|overview| self.counts(view, overview));
        [Line::from(title)].into_iter().chain(counts).collect()
    }

    fn counts(&self, view: &View, overview: &Overview) -> [Line<'static>; 3] {
        let Overview { held, waiting, assigned, owners, agents, .. } = overview;
        let Counts { web, offline, claim } = held;
        let counts = format!(
            "held {} (web {web}, offline {offline}, claim {claim})  waiting {waiting}  assigned {assigned}  owners {owners}  agents {agents}",
            held.sum()
        );
        let rates = view.rates().map_or_else(
            || "granted -".to_owned(),
            |rates| {
                let [granted, refused, lost] =
                    [rates.granted, rates.refused, rates.lost].map(|rate| format!("{rate:.1}/s"));
                format!("granted {granted}  refused {refused}  lost {lost}")
            },
        );
        let time = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), milliseconds);
        let waits = overview.waits.map_or_else(String::new, |waits| {
            format!("  waits p50 {} p99 {}", time(waits.p50_ms), time(waits.p99_ms))
        });
        [Line::raw(counts), Line::raw(format!("{rates}{waits}")), self.wanted(view, overview)]
    }

    /// What is waited for.
    fn wanted(&self, view: &View, overview: &Overview) -> Line<'static> {
        if overview.recovering_ms > 0 {
            let left = duration::whole_seconds(Duration::from_millis(overview.recovering_ms));
            let line = format!("the server has restarted: for up to {left} locks from before may be missing");
            return Line::styled(line, self.palette.alarm);
        }
        let Some(longest) = &overview.longest_wait else { return Line::raw("no name is waited for") };
        let age = view.age(longest).map(duration::age).unwrap_or_default();
        let names: Vec<String> = overview
            .contended
            .iter()
            .map(|name| format!("{} ({} wait)", name.name(), name.waiting))
            .collect();
        let text = format!("longest wait {age} {}  waited for: {}", longest.name(), names.join(", "));
        Line::styled(text, self.palette.waiting)
    }

    fn draw_list(&self, frame: &mut Frame<'_>, view: &mut View, area: Rect) {
        let Palette { strong, waiting, selected, .. } = self.palette;
        let columns = Columns::of(area.width);
        let cells: Vec<(bool, Vec<String>)> = view
            .entries()
            .iter()
            .map(|entry| (entry.place.is_some(), columns.cells(entry, view.age(entry))))
            .collect();
        let widths = columns.widths(&cells);
        let rows = cells.into_iter().map(|(waits, cells)| {
            let style = if waits { waiting } else { Style::new() };
            Row::new(cells.into_iter().map(Cell::from)).style(style)
        });
        let table = Table::new(rows, widths)
            .header(Row::new(columns.titles()).style(strong))
            .row_highlight_style(selected);
        frame.render_stateful_widget(table, area, &mut view.table);
    }

    fn foot(&self, view: &View) -> Vec<Line<'static>> {
        let question = &view.question;
        let words = [
            ("prefix", Some(&*question.prefix).filter(|text| !text.is_empty())),
            ("client", Some(&*question.client).filter(|text| !text.is_empty())),
            ("kind", question.kind),
            ("state", question.state),
        ];
        let filters: String =
            words.into_iter().filter_map(|(key, word)| Some(format!("  {key} {}", visible(word?)))).collect();
        let more = if view.has_next() { "+" } else { "" };
        let status = format!("by {}  page {}{more}{filters}", question.sort.word(), view.page());
        let first = match &view.notice {
            Some(notice) => Line::styled(visible(notice), self.palette.strong),
            None => Line::raw(status),
        };
        let keys = [
            ("?", "help"),
            ("q", "quit"),
            ("/", "prefix"),
            ("c", "client"),
            ("k", "kind"),
            ("w", "state"),
            ("s", "sort"),
            ("b", "break"),
            ("p", "pause"),
        ];
        let keys = keys.into_iter().flat_map(|(key, does)| {
            [Span::styled(key, self.palette.strong), Span::raw(format!(" {does}  "))]
        });
        vec![first, Line::from_iter(keys)]
    }

    fn draw_dialog(&self, frame: &mut Frame<'_>, view: &View) {
        let cursor = |line: &str| Line::raw(format!("{}_", visible(line)));
        let (title, lines) = match &view.dialog {
            Dialog::None => return,
            Dialog::Help => {
                let lines = HELP.map(|(key, does)| {
                    Line::from(vec![Span::styled(format!("{key:20}"), self.palette.strong), Span::raw(does)])
                });
                (" Help: any key closes it ", lines.to_vec())
            }
            Dialog::Details(entry) => (" Entry: any key closes it ", details(entry)),
            Dialog::Filter(filtered, line) => {
                let about = match filtered {
                    Filtered::Prefix => "Only names that begin with this; none: all names",
                    Filtered::Client => "Only this client id, label or claimant; none: all of them",
                };
                (" Filter: enter, or esc ", vec![Line::raw(about), cursor(line)])
            }
            Dialog::Break { hold, reason, refusal } => {
                let token = hold.fencing_token.unwrap_or_default();
                let mut lines = vec![
                    Line::styled(format!("Break {}?", hold.name()), self.palette.alarm),
                    Line::raw(format!("{}, held by {}", hold.kind, visible(&hold.client_id))),
                    Line::raw(format!("fencing token {token}")),
                    Line::raw("Reason, for the holder and the history:"),
                    cursor(reason),
                ];
                if let Some(why) = refusal {
                    lines.push(Line::styled(visible(why), self.palette.alarm));
                }
                (" enter breaks the hold, esc does not ", lines)
            }
        };
        let area = centered(frame.area(), &lines);
        frame.render_widget(Clear, area);
        let text = Paragraph::new(lines).wrap(Wrap { trim: false });
        frame.render_widget(text.block(Block::bordered().title(title)), area);
    }
}

/// The columns for which there is space.
#[derive(Clone, Copy, Debug)]
struct Columns {
    has_client: bool,
    has_mode: bool,
    has_token: bool,
    has_metadata: bool,
}

impl Columns {
    fn of(width: u16) -> Self {
        Self {
            has_client: width >= 40,
            has_mode: width >= 60,
            has_token: width >= 70,
            has_metadata: width >= 120,
        }
    }

    /// Those that are shown, of one value for each.
    fn choose<T>(self, all: [T; 8]) -> Vec<T> {
        let Self { has_client, has_mode, has_token, has_metadata } = self;
        let shown = [true, true, has_mode, true, has_client, true, has_token, has_metadata];
        all.into_iter().zip(shown).filter_map(|(value, is_shown)| is_shown.then_some(value)).collect()
    }

    fn titles(self) -> Vec<&'static str> {
        self.choose(["NAME", "KIND", "MODE", "STATE", "CLIENT", "AGE", "TOKEN", "METADATA"])
    }

    fn cells(self, entry: &Entry, age: Option<Duration>) -> Vec<String> {
        let none = || "-".to_owned();
        self.choose([
            entry.name(),
            entry.kind.clone(),
            entry.mode.clone(),
            entry.place.map_or_else(|| entry.state.clone(), |place| format!("waits #{place}")),
            visible(&entry.client_id),
            age.map_or_else(none, duration::age),
            entry.fencing_token.map_or_else(none, |token| token.to_string()),
            entry.metadata.as_deref().map_or_else(none, visible),
        ])
    }

    /// What is short is shown in full; names, clients and metadata share the rest.
    fn widths(self, cells: &[(bool, Vec<String>)]) -> Vec<Constraint> {
        let fills = self.choose([Some(3), None, None, None, Some(2), None, None, Some(2)]);
        let longest = |column: usize| {
            let cells = cells.iter().map(|(_, cells)| &*cells[column]);
            cells.chain([self.titles()[column]]).map(str::len).max().unwrap_or_default()
        };
        let width = |(column, fill): (usize, Option<u16>)| match fill {
            Some(part) => Constraint::Fill(part),
            None => Constraint::Length(u16::try_from(longest(column)).unwrap_or(u16::MAX)),
        };
        fills.into_iter().enumerate().map(width).collect()
    }
}

/// All members of an entry, each on a line.
fn details(entry: &Entry) -> Vec<Line<'static>> {
    let token = entry.fencing_token.map(|token| token.to_string());
    let place = entry.place.map(|place| place.to_string());
    let members = [
        ("name", Some(entry.name())),
        ("kind", Some(entry.kind.clone())),
        ("mode", Some(entry.mode.clone())),
        ("state", Some(entry.state.clone())),
        ("place", place),
        ("client", Some(visible(&entry.client_id))),
        ("owner", entry.owner.as_deref().map(visible)),
        ("since", Some(visible(&entry.since))),
        ("expires", entry.expires_at.as_deref().map(visible)),
        ("token", token),
        ("metadata", entry.metadata.as_deref().map(visible)),
    ];
    let given = members.into_iter().filter_map(|(key, value)| Some((key, value?)));
    given.map(|(key, value)| Line::raw(format!("{key:10}{value}"))).collect()
}

/// The place of a dialog with these lines, as far as the screen has it.
fn centered(screen: Rect, lines: &[Line<'_>]) -> Rect {
    let width = lines.iter().map(Line::width).max().unwrap_or_default().max(40) + 2;
    let width = u16::try_from(width).unwrap_or(u16::MAX).min(screen.width);
    let inner = usize::from(width.saturating_sub(2)).max(1);
    let height: usize = lines.iter().map(|line| line.width().div_ceil(inner).max(1)).sum::<usize>() + 2;
    let height = u16::try_from(height).unwrap_or(u16::MAX).min(screen.height);
    let (x, y) = ((screen.width - width) / 2, (screen.height - height) / 2);
    Rect { x: screen.x + x, y: screen.y + y, width, height }
}

fn milliseconds(ms: f64) -> String {
    if ms < 1_000.0 { format!("{ms:.0}ms") } else { format!("{:.1}s", ms / 1_000.0) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crossterm::event::{KeyCode, KeyEvent};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::view::tests::{entry, look};
    use super::*;

    #[test]
    fn any_size_can_be_drawn_with_any_dialog() {
        let every = Duration::from_secs(1);
        let (origin, bucket) = ("http://127.0.0.1:7420".to_owned(), "jobs".to_owned());
        let scene = Scene { origin, bucket, every, palette: Palette::of_environment() };
        let long = "name\u{1f512}".repeat(60);
        for key in [KeyCode::Null, KeyCode::Char('?'), KeyCode::Enter, KeyCode::Char('/'), KeyCode::Char('b')]
        {
            let mut view = View::new(String::new());
            let asked = view.question.clone();
            view.see(&asked, Ok(look(1, 1, &[entry(&long, Some(1 << 52)), entry("b", None)], Some("next"))));
            view.press(KeyEvent::from(key));
            for (width, height) in (0..=26)
                .flat_map(|height| [0, 1, 2, 3, 20, 39, 40, 60, 70, 80, 130].map(|width| (width, height)))
            {
                let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
                terminal.draw(|frame| scene.draw(frame, &mut view)).unwrap();
                assert!((1..=26).contains(&view.question.limit));
            }
        }
    }
    #[test]
    fn a_restart_whose_holders_may_be_missing_is_shown() {
        let (origin, bucket) = ("http://127.0.0.1:7420".to_owned(), "jobs".to_owned());
        let (every, palette) = (Duration::from_secs(1), Palette::of_environment());
        let scene = Scene { origin, bucket, every, palette };
        let mut view = View::new(String::new());
        let mut look = look(1, 1, &[], None);
        for (recovering_ms, is_shown) in [(8_200, true), (0, false)] {
            look.overview.recovering_ms = recovering_ms;
            view.see(&view.question.clone(), Ok(look.clone()));
            let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
            terminal.draw(|frame| scene.draw(frame, &mut view)).unwrap();
            let screen = terminal.backend().to_string();
            let line = "the server has restarted: for up to 9 s locks from before may be missing";
            assert_eq!(screen.contains(line), is_shown, "{screen}");
        }
    }
}
