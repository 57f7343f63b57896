//! What `top` shows, and what each key changes of it.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::widgets::TableState;

use super::answers::{Entry, Overview, Totals};
use super::questions::{Look, Question};
use crate::exit::{Failure, UNREACHABLE};

/// A line that is typed has at most so many characters.
const LINE_CHARS: usize = 200;

/// Rates are those of the last so many looks.
const LOOKS: usize = 10;

const KINDS: [&str; 4] = ["web", "offline", "claim", "assignment"];
const STATES: [&str; 3] = ["held", "pending", "assigned"];

/// All that is shown.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) question: Question,
    /// The cursors of the pages before this one.
    before: Vec<Option<String>>,
    pub(super) look: Option<Look>,
    pub(super) away: Option<Away>,
    looks: VecDeque<(SystemTime, Totals)>,
    pub(super) table: TableState,
    pub(super) dialog: Dialog,
    /// What became of the last break.
    pub(super) notice: Option<String>,
    pub(super) is_paused: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Away {
    /// The clock of this machine at the first question without an answer.
    pub(super) since: SystemTime,
    /// Whether a server was reached that refuses the questions.
    pub(super) is_reached: bool,
    pub(super) why: String,
}

/// What the keys are for.
#[derive(Debug, Default)]
pub(super) enum Dialog {
    /// The list.
    #[default]
    None,
    Help,
    /// All that is known of an entry.
    Details(Box<Entry>),
    /// A filter is typed.
    Filter(Filtered, String),
    /// The break of that hold is to be confirmed, and its reason typed.
    Break {
        hold: Box<Entry>,
        reason: String,
        /// Why the server has refused the reason that was typed before.
        refusal: Option<String>,
    },
}

/// What a typed filter is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filtered {
    Prefix,
    Client,
}

/// What a key leads to beyond the view.
#[derive(Debug)]
pub(super) enum Action {
    Nothing,
    Quit,
    Break(Box<Entry>, String),
}

/// What a break comes to.
#[derive(Debug)]
pub(super) enum BreakOutcome {
    /// What became of it, as people read it.
    Notice(String),
    /// The server does not take the break as it was typed, such as one without a reason.
    Refused { hold: Box<Entry>, reason: String, why: String },
}

/// How much happens in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    pub(super) granted: f64,
    pub(super) refused: f64,
    pub(super) lost: f64,
}

impl View {
    pub(super) fn new(prefix: String) -> Self {
        Self { question: Question { prefix, limit: 1, ..Question::default() }, ..Self::default() }
    }

    /// Takes the answer to a question. One to another question than that of now is too late.
    pub(super) fn see(&mut self, asked: &Question, answer: Result<Look, Failure>) {
        let look = match answer {
            Ok(look) => look,
            Err(Failure { code, message: why }) => {
                let since = self.away.take().map_or_else(SystemTime::now, |away| away.since);
                self.away = Some(Away { since, is_reached: code != UNREACHABLE, why });
                return;
            }
        };
        self.away = None;
        if *asked != self.question {
            return;
        }
        let is_empty = look.page.entries.is_empty() && look.page.next.is_none();
        if is_empty && self.question.cursor.is_some() {
            // What was on this page has ended.
            self.first_page();
            return;
        }
        self.note_totals(&look.overview);
        self.select_again(&look.page.entries);
        self.look = Some(look);
    }

    /// The terminal shows so many entries.
    pub(super) fn fit(&mut self, entries: u16) {
        self.question.limit = entries.clamp(1, 500);
    }

    pub(super) fn entries(&self) -> &[Entry] {
        self.look.as_ref().map_or(&[], |look| &look.page.entries)
    }

    pub(super) fn selected(&self) -> Option<&Entry> {
        self.entries().get(self.table.selected()?)
    }

    /// The number of the page, from 1.
    pub(super) fn page(&self) -> usize {
        self.before.len() + 1
    }

    pub(super) fn has_next(&self) -> bool {
        self.look.as_ref().is_some_and(|look| look.page.next.is_some())
    }

    /// What has happened over the last looks; none before the second one.
    pub(super) fn rates(&self) -> Option<Rates> {
        let ((from, first), (to, last)) = (self.looks.front()?, self.looks.back()?);
        let seconds = to.duration_since(*from).ok().filter(|length| !length.is_zero())?.as_secs_f64();
        let rate = |count: fn(&Totals) -> u64| count(last).saturating_sub(count(first)) as f64 / seconds;
        Some(Rates {
            granted: rate(|totals| totals.granted.sum()),
            refused: rate(|totals| totals.refused.values().sum()),
            lost: rate(|totals| totals.lost.values().sum()),
        })
    }

    /// The age of an entry when the server looked.
    pub(super) fn age(&self, entry: &Entry) -> Option<Duration> {
        let at = self.look.as_ref()?.overview.at()?;
        Some(at.duration_since(entry.since()?).unwrap_or_default())
    }

    /// A break has come to its end.
    pub(super) fn see_broken(&mut self, outcome: BreakOutcome) {
        self.notice = None;
        match outcome {
            BreakOutcome::Notice(notice) => self.notice = Some(notice),
            BreakOutcome::Refused { hold, reason, why } if matches!(self.dialog, Dialog::None) => {
                self.dialog = Dialog::Break { hold, reason, refusal: Some(why) };
            }
            // Another dialog has the keys by now.
            BreakOutcome::Refused { hold, why, .. } => {
                self.notice = Some(format!("did not break {}: {why}", hold.name()));
            }
        }
    }

    /// A key was pressed.
    pub(super) fn press(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Nothing;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && key.code == KeyCode::Char('c') {
            return Action::Quit;
        }
        match &mut self.dialog {
            Dialog::None if is_control => {}
            Dialog::None => return self.press_in_list(key.code),
            Dialog::Help | Dialog::Details(_) => self.dialog = Dialog::None,
            Dialog::Filter(_, line) | Dialog::Break { reason: line, .. } => match key.code {
                KeyCode::Esc => self.dialog = Dialog::None,
                KeyCode::Enter => return self.enter(),
                KeyCode::Backspace => _ = line.pop(),
                KeyCode::Char('u') if is_control => line.clear(),
                KeyCode::Char(c) if !is_control && line.chars().count() < LINE_CHARS => line.push(c),
                _ => {}
            },
        }
        Action::Nothing
    }

    fn press_in_list(&mut self, code: KeyCode) -> Action {
        self.notice = None;
        match code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('?' | 'h') => self.dialog = Dialog::Help,
            KeyCode::Char(' ' | 'p') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => {
                self.question.sort = self.question.sort.other();
                self.first_page();
            }
            KeyCode::Char('/') => {
                self.dialog = Dialog::Filter(Filtered::Prefix, self.question.prefix.clone());
            }
            KeyCode::Char('c') => {
                self.dialog = Dialog::Filter(Filtered::Client, self.question.client.clone());
            }
            KeyCode::Char('k') => {
                self.question.kind = after(&KINDS, self.question.kind);
                self.first_page();
            }
            KeyCode::Char('w') => {
                self.question.state = after(&STATES, self.question.state);
                self.first_page();
            }
            KeyCode::Esc => {
                let Question { sort, limit, .. } = self.question;
                self.question = Question { sort, limit, ..Question::default() };
                self.first_page();
            }
            KeyCode::Enter => {
                if let Some(entry) = self.selected() {
                    self.dialog = Dialog::Details(Box::new(entry.clone()));
                }
            }
            KeyCode::Char('b') => self.confirm_break(),
            KeyCode::Up => self.move_by(-1),
            KeyCode::Down => self.move_by(1),
            KeyCode::PageDown | KeyCode::Right => self.next_page(),
            KeyCode::PageUp | KeyCode::Left => self.previous_page(),
            KeyCode::Home => self.first_page(),
            _ => {}
        }
        Action::Nothing
    }

    /// The line that was typed is done.
    fn enter(&mut self) -> Action {
        match std::mem::take(&mut self.dialog) {
            Dialog::Filter(filtered, line) => {
                match filtered {
                    Filtered::Prefix => self.question.prefix = line,
                    Filtered::Client => self.question.client = line,
                }
                self.first_page();
                Action::Nothing
            }
            Dialog::Break { hold, reason, .. } => Action::Break(hold, reason),
            _ => Action::Nothing,
        }
    }

    fn confirm_break(&mut self) {
        match self.selected() {
            Some(entry) if entry.is_held() => {
                let (hold, reason) = (Box::new(entry.clone()), String::new());
                self.dialog = Dialog::Break { hold, reason, refusal: None };
            }
            Some(_) => self.notice = Some("only what is held can be broken".to_owned()),
            None => self.notice = Some("nothing is selected".to_owned()),
        }
    }

    fn move_by(&mut self, by: isize) {
        let last = self.entries().len().saturating_sub(1);
        let to = self.table.selected().map_or(0, |at| at.saturating_add_signed(by).min(last));
        self.table.select(Some(to));
    }

    fn first_page(&mut self) {
        self.before.clear();
        self.question.cursor = None;
        self.table.select(Some(0));
    }

    fn next_page(&mut self) {
        let Some(next) = self.look.as_ref().and_then(|look| look.page.next.clone()) else { return };
        // The page that is shown may still be an earlier one.
        if self.question.cursor.as_ref() != Some(&next) {
            self.before.push(self.question.cursor.replace(next));
            self.table.select(Some(0));
        }
    }

    fn previous_page(&mut self) {
        if let Some(cursor) = self.before.pop() {
            self.question.cursor = cursor;
            self.table.select(Some(0));
        }
    }

    /// The entry that was selected stays so where it still is.
    fn select_again(&mut self, entries: &[Entry]) {
        let same =
            self.selected().and_then(|selected| entries.iter().position(|entry| entry.is_same(selected)));
        let at = same.or(self.table.selected()).unwrap_or_default().min(entries.len().saturating_sub(1));
        self.table.select((!entries.is_empty()).then_some(at));
    }

    fn note_totals(&mut self, overview: &Overview) {
        let (Some(at), Some(totals)) = (overview.at(), &overview.totals) else { return };
        if self.looks.back().is_some_and(|(_, earlier)| earlier.since != totals.since) {
            self.looks.clear();
        }
        // The figures of a server are of whole seconds, however often it is asked.
        if self.looks.back().is_some_and(|(seen, _)| *seen == at) {
            return;
        }
        self.looks.push_back((at, totals.clone()));
        if self.looks.len() > LOOKS {
            self.looks.pop_front();
        }
    }
}

/// The word after that one; none after the last.
fn after(words: &[&'static str], word: Option<&str>) -> Option<&'static str> {
    let next = word.map_or(0, |word| words.iter().position(|known| *known == word).map_or(0, |at| at + 1));
    words.get(next).copied()
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;

    pub(in crate::top) fn entry(name: &str, token: Option<u64>) -> Value {
        let (state, place) = if token.is_some() { ("held", None) } else { ("pending", Some(1)) };
        json!({
            "name": name, "mode": "exclusive", "kind": "web", "state": state, "clientId": "client",
            "owner": null, "since": "2026-01-01T00:00:00Z", "expiresAt": null, "place": place,
            "fencingToken": token, "metadata": null,
        })
    }

    pub(in crate::top) fn look(at: u64, granted: u64, entries: &[Value], next: Option<&str>) -> Look {
        let overview = json!({
            "at": format!("2026-01-01T00:01:{at:02}Z"), "held": {"web": 1, "offline": 0, "claim": 0},
            "waiting": 0, "assigned": 0, "owners": 0, "agents": 1, "oldest": null, "holds": null,
            "longestWait": entry("waits", None), "contended": [{"name": "waits", "waiting": 1}],
            "totals": {
                "since": "2026-01-01T00:00:00Z", "granted": {"web": granted, "offline": 0, "claim": 0},
                "refused": {"taken": 0}, "lost": {"ttl": 0},
            },
            "waits": {"count": 1, "p50Ms": 3, "p99Ms": null},
        });
        Look {
            overview: serde_json::from_value(overview).unwrap(),
            page: serde_json::from_str(&json!({"entries": entries, "next": next}).to_string()).unwrap(),
        }
    }

    fn see(view: &mut View, look: Look) {
        let asked = view.question.clone();
        view.see(&asked, Ok(look));
    }

    fn press(view: &mut View, keys: &str) -> Action {
        let mut last = Action::Nothing;
        for c in keys.chars() {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                '\u{7f}' => KeyCode::Backspace,
                c => KeyCode::Char(c),
            };
            last = view.press(KeyEvent::new(code, KeyModifiers::NONE));
        }
        last
    }

    #[test]
    fn the_selected_entry_stays_selected_while_others_come_and_go() {
        let mut view = View::new(String::new());
        see(&mut view, look(0, 0, &[entry("a", Some(1)), entry("b", Some(2)), entry("c", Some(3))], None));
        view.press(KeyEvent::from(KeyCode::Down));
        assert_eq!(view.selected().unwrap().fencing_token, Some(2));
        see(&mut view, look(1, 0, &[entry("b", Some(2)), entry("c", Some(3))], None));
        assert_eq!(view.selected().unwrap().fencing_token, Some(2));
        see(&mut view, look(2, 0, &[entry("b", Some(4))], None));
        assert_eq!(view.selected().unwrap().fencing_token, Some(4));
        see(&mut view, look(3, 0, &[], None));
        assert!(view.selected().is_none());
    }

    #[test]
    fn a_break_means_the_hold_that_was_shown_when_it_was_asked_for() {
        let mut view = View::new(String::new());
        see(&mut view, look(0, 0, &[entry("a", Some(1))], None));
        assert!(matches!(press(&mut view, "bno"), Action::Nothing));
        see(&mut view, look(1, 0, &[entry("a", Some(2))], None));
        let Action::Break(hold, reason) = press(&mut view, "\u{7f}ot there\n") else { panic!() };
        assert_eq!((hold.fencing_token, &*reason), (Some(1), "not there"));
        assert!(matches!(view.dialog, Dialog::None));
    }

    #[test]
    fn a_break_that_is_refused_for_its_reason_can_be_typed_again() {
        let mut view = View::new(String::new());
        see(&mut view, look(0, 0, &[entry("a", Some(1))], None));
        let Action::Break(hold, reason) = press(&mut view, "bno\n") else { panic!() };
        see(&mut view, look(1, 0, &[entry("a", Some(2))], None));
        view.see_broken(BreakOutcome::Refused { hold, reason, why: "say more".to_owned() });
        let Dialog::Break { reason, refusal, .. } = &view.dialog else { panic!() };
        assert_eq!((&**reason, refusal.as_deref()), ("no", Some("say more")));
        let Action::Break(hold, reason) = press(&mut view, "ne\n") else { panic!() };
        assert_eq!((hold.fencing_token, &*reason), (Some(1), "none"));
        // A dialog that was opened meanwhile stays.
        press(&mut view, "?");
        view.see_broken(BreakOutcome::Refused { hold, reason, why: "say more".to_owned() });
        assert!(matches!(view.dialog, Dialog::Help));
        assert_eq!(view.notice.as_deref(), Some("did not break a: say more"));
    }

    #[test]
    fn only_what_is_held_can_be_broken() {
        let mut view = View::new(String::new());
        see(&mut view, look(0, 0, &[entry("a", None)], None));
        press(&mut view, "b");
        assert!(matches!(view.dialog, Dialog::None) && view.notice.is_some());
    }

    #[test]
    fn an_answer_to_an_earlier_question_is_not_shown() {
        let mut view = View::new(String::new());
        let asked = view.question.clone();
        press(&mut view, "/x\n");
        view.see(&asked, Ok(look(0, 0, &[entry("a", Some(1))], None)));
        assert!(view.entries().is_empty());
        see(&mut view, look(1, 0, &[entry("x", Some(1))], None));
        assert_eq!(view.entries().len(), 1);
    }

    #[test]
    fn pages_are_turned_there_and_back_and_an_empty_one_leads_to_the_first() {
        let mut view = View::new(String::new());
        let page = |view: &mut View, code| _ = view.press(KeyEvent::from(code));
        see(&mut view, look(0, 0, &[entry("a", Some(1))], Some("after a")));
        page(&mut view, KeyCode::PageDown);
        // The second page has not come yet.
        page(&mut view, KeyCode::PageDown);
        assert_eq!((view.page(), view.question.cursor.as_deref()), (2, Some("after a")));
        see(&mut view, look(1, 0, &[entry("b", Some(2))], Some("after b")));
        page(&mut view, KeyCode::PageDown);
        assert_eq!((view.page(), view.question.cursor.as_deref()), (3, Some("after b")));
        page(&mut view, KeyCode::PageUp);
        assert_eq!((view.page(), view.question.cursor.as_deref()), (2, Some("after a")));
        // One that has a next is only a part of the way.
        see(&mut view, look(2, 0, &[], Some("after m")));
        assert_eq!((view.page(), view.has_next()), (2, true));
        see(&mut view, look(3, 0, &[], None));
        assert_eq!((view.page(), view.question.cursor.as_deref()), (1, None));
    }

    #[test]
    fn rates_are_those_between_looks_and_begin_anew_with_the_counts() {
        let mut view = View::new(String::new());
        see(&mut view, look(0, 10, &[], None));
        assert_eq!(view.rates(), None);
        see(&mut view, look(2, 16, &[], None));
        assert_eq!(view.rates(), Some(Rates { granted: 3.0, refused: 0.0, lost: 0.0 }));
        let mut restarted = look(4, 1, &[], None);
        restarted.overview.totals.as_mut().unwrap().since = "2026-01-01T00:01:03Z".to_owned();
        see(&mut view, restarted);
        assert_eq!(view.rates(), None);
    }

    #[test]
    fn a_server_is_away_since_it_first_gave_no_answer() {
        let mut view = View::new(String::new());
        see(&mut view, look(0, 0, &[entry("a", Some(1))], None));
        let asked = view.question.clone();
        view.see(&asked, Err(Failure::new(UNREACHABLE, "one")));
        let since = view.away.clone().unwrap().since;
        view.see(&asked, Err(Failure::new(UNREACHABLE, "two")));
        assert_eq!(view.away, Some(Away { since, is_reached: false, why: "two".to_owned() }));
        assert_eq!(view.entries().len(), 1);
        see(&mut view, look(1, 0, &[], None));
        assert_eq!(view.away, None);
    }
}
