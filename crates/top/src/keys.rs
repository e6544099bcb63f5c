//! What each key does. One function for each thing that can be in front.

use super::app::{App, Effect, Prompt, Purpose, Question, Tab};
use super::log::Log;
use super::views::{ServiceView, SessionView, View};
use super::wants::{Followed, ServiceKey};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use shellkeep_terminal::list::Motion;
use shellkeep_terminal::theme::Level;
use std::time::Duration;

/// Longest line that can be typed: longer than any name.
const MOST_TYPED: usize = 200;
/// Things that can be opened on top of each other.
const MOST_VIEWS: usize = 16;

impl App {
    /// A key was pressed.
    pub fn on_key(&mut self, key: KeyEvent, at: Duration) -> Option<Effect> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return Some(Effect::Quit),
                KeyCode::Char('z') => return Some(Effect::Suspend),
                _ => {}
            }
        }
        if self.help {
            // Any key closes the help.
            self.help = false;
            return None;
        }
        if let Some(question) = self.question.take() {
            return self.answer(question, key.code, at);
        }
        if let Some(prompt) = self.prompt.take() {
            self.typed(prompt, key, at);
            return None;
        }
        match key.code {
            KeyCode::Char('?') => self.help = true,
            KeyCode::Char('x') => self.ask_to_stop(at),
            KeyCode::Char('q') if self.views.is_empty() => return Some(Effect::Quit),
            KeyCode::Esc if self.views.is_empty() => return self.back_from_list(),
            KeyCode::Char('q') | KeyCode::Esc => drop(self.views.pop()),
            code => match self.views.last_mut() {
                None => self.on_list(code),
                Some(View::Log(_)) => self.on_log(code, at),
                Some(View::Session(view)) => match step(code) {
                    Some(step) => drop(view.list.step(step)),
                    None => self.on_service(code),
                },
                Some(View::Service(view)) => match code {
                    KeyCode::Char('j') | KeyCode::Down => view.scroll = view.scroll.saturating_add(1),
                    KeyCode::Char('k') | KeyCode::Up => view.scroll = view.scroll.saturating_sub(1),
                    KeyCode::Enter => self.on_service(KeyCode::Char('l')),
                    _ => self.on_service(code),
                },
            },
        }
        None
    }

    /// Escape clears the filter first.
    fn back_from_list(&mut self) -> Option<Effect> {
        if self.filter().is_empty() {
            return Some(Effect::Quit);
        }
        self.set_filter(String::new());
        None
    }

    fn on_list(&mut self, code: KeyCode) {
        let place = Tab::ALL.iter().position(|tab| *tab == self.tab).unwrap_or(0);
        let tabs = Tab::ALL.len();
        match code {
            KeyCode::Char(digit @ '1'..='3') => self.tab = Tab::ALL[digit as usize - '1' as usize],
            KeyCode::Tab | KeyCode::Right => self.tab = Tab::ALL[(place + 1) % tabs],
            KeyCode::BackTab | KeyCode::Left => self.tab = Tab::ALL[(place + tabs - 1) % tabs],
            KeyCode::Char('/') if self.tab != Tab::Changes => self.ask_for(Purpose::Filter, self.filter().to_owned()),
            KeyCode::Char('s') if self.tab == Tab::Services => self.services.next_order(),
            KeyCode::Enter if self.tab == Tab::Sessions => {
                if let Some(id) = self.sessions.selected().map(|session| session.session_id.clone()) {
                    self.open(View::Session(Box::new(SessionView::new(id))));
                }
            }
            code => match step(code) {
                Some(step) => self.step_list(step),
                None => self.on_service(code),
            },
        }
    }

    fn step_list(&mut self, step: Motion) {
        match self.tab {
            Tab::Services => drop(self.services.list.step(step)),
            Tab::Sessions => self.sessions.step(step),
            Tab::Changes => drop(self.changes.step(step)),
        }
    }

    /// Keys that act on the service one points at.
    fn on_service(&mut self, code: KeyCode) {
        let Some(service) = self.pointed_at() else { return };
        match code {
            KeyCode::Enter => {
                let view = ServiceView::new(service.clone());
                self.open(View::Service(Box::new(view)));
            }
            KeyCode::Char('l') => {
                let which = Followed { key: ServiceKey::of(service), number: self.logs_opened };
                let log = Log::new(which, service.name.clone());
                self.logs_opened += 1;
                self.open(View::Log(Box::new(log)));
            }
            _ => {}
        }
    }

    fn on_log(&mut self, code: KeyCode, at: Duration) {
        let Some(View::Log(log)) = self.views.last_mut() else { return };
        let found = match code {
            KeyCode::Char('f') => {
                log.toggle_follow();
                true
            }
            KeyCode::Left | KeyCode::Right => {
                log.slide(code == KeyCode::Right);
                true
            }
            KeyCode::Char('n') => log.search_on(false),
            KeyCode::Char('N') => log.search_on(true),
            KeyCode::Char('/') => {
                let before = log.search.clone().unwrap_or_default();
                self.ask_for(Purpose::Search, before);
                return;
            }
            code => {
                if let Some(step) = step(code) {
                    log.step(step);
                }
                true
            }
        };
        if !found {
            let wanted = log.search.clone();
            let text = wanted.map_or_else(
                || "no search pattern; type / and a regular expression".to_owned(),
                |wanted| format!("no other line with '{wanted}' in this direction"),
            );
            self.say(text, Level::Near, at);
        }
    }

    fn open(&mut self, view: View) {
        if self.views.len() < MOST_VIEWS {
            self.views.push(view);
        }
    }

    fn ask_for(&mut self, purpose: Purpose, before: String) {
        // A filter is mended; a search is another one.
        let text = if purpose == Purpose::Filter { before.clone() } else { String::new() };
        self.prompt = Some(Prompt { purpose, text, before });
    }

    fn ask_to_stop(&mut self, at: Duration) {
        let pointed = self.pointed_at().map(|service| (ServiceKey::of(service), service.name.clone(), service.status));
        let (key, name) = match (pointed, self.views.last()) {
            (Some((key, name, status)), _) if status.is_live() => (key, name),
            (Some((key, _, status)), _) => {
                let text = format!("{} has ended already: it is {}", key.service, status.as_str());
                return self.say(text, Level::Near, at);
            }
            (None, Some(View::Log(log))) => (log.which.key.clone(), log.name.clone()),
            (None, _) => return,
        };
        self.question = Some(Question { key, name });
    }

    fn answer(&mut self, question: Question, code: KeyCode, at: Duration) -> Option<Effect> {
        match code {
            KeyCode::Char('y' | 'Y') => {
                let Question { key, name } = question;
                self.say(format!("stopping {} ({name}) of session {} …", key.service, key.session), Level::Good, at);
                Some(Effect::Stop(key))
            }
            KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => None,
            // Anything else is not an answer.
            _ => {
                self.question = Some(question);
                None
            }
        }
    }

    fn typed(&mut self, mut prompt: Prompt, key: KeyEvent, at: Duration) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Enter => return self.entered(&prompt, at),
            KeyCode::Esc => {
                if prompt.purpose == Purpose::Filter {
                    self.set_filter(prompt.before);
                }
                return;
            }
            KeyCode::Backspace => drop(prompt.text.pop()),
            KeyCode::Char('u') if control => prompt.text.clear(),
            KeyCode::Char(c) if !control && prompt.text.chars().count() < MOST_TYPED => prompt.text.push(c),
            _ => {}
        }
        // A list shows at once what a filter does; a log would jump about.
        if prompt.purpose == Purpose::Filter {
            self.set_filter(prompt.text.clone());
        }
        self.prompt = Some(prompt);
    }

    fn entered(&mut self, prompt: &Prompt, at: Duration) {
        match (prompt.purpose, self.views.last_mut()) {
            (Purpose::Filter, _) => self.set_filter(prompt.text.clone()),
            (Purpose::Search, Some(View::Log(log))) => {
                if !log.search(&prompt.text) {
                    self.say(format!("no line with '{}'", prompt.text), Level::Near, at);
                }
            }
            (Purpose::Search, _) => {}
        }
    }
}

fn step(code: KeyCode) -> Option<Motion> {
    Some(match code {
        KeyCode::Up | KeyCode::Char('k') => Motion::Up,
        KeyCode::Down | KeyCode::Char('j') => Motion::Down,
        KeyCode::PageUp | KeyCode::Char('b') => Motion::PageUp,
        KeyCode::PageDown | KeyCode::Char(' ') => Motion::PageDown,
        KeyCode::Home | KeyCode::Char('g') => Motion::First,
        KeyCode::End | KeyCode::Char('G') => Motion::Last,
        _ => return None,
    })
}
