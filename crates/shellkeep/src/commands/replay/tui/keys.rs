//! What each key does.

use super::app::{App, Effect, Prompt, Purpose};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use shellkeep_record::player::{Rows, Wanted};
use shellkeep_terminal::theme::Level;

/// Longest line that can be typed.
const MOST_TYPED: usize = 200;
const AT_END: &str = "this is the last event";
const AT_BEGINNING: &str = "this is the first event";

impl App {
    /// A key was pressed.
    pub fn on_key(&mut self, key: KeyEvent) -> Option<Effect> {
        self.message = None;
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
        } else if let Some(prompt) = self.prompt.take() {
            self.typed(prompt, key);
        } else if self.opened.is_some() {
            self.on_opened(key.code);
        } else {
            return self.on_list(key.code);
        }
        None
    }

    fn on_list(&mut self, code: KeyCode) -> Option<Effect> {
        let page = isize::try_from(self.room().saturating_sub(1).max(1)).unwrap_or(1);
        match code {
            KeyCode::Char('q') => return Some(Effect::Quit),
            KeyCode::Esc if self.search.is_none() => return Some(Effect::Quit),
            KeyCode::Esc => self.search = None,
            KeyCode::Char('?') => self.help = true,
            // During a search, n and N go through the matches.
            KeyCode::Char('n') if self.search.is_some() => self.search_on(false),
            KeyCode::Char('N') => self.search_on(true),
            KeyCode::Char('n' | ' ' | 'j') | KeyCode::Right | KeyCode::Down => {
                self.go(|player| Rows::of(player).step(), AT_END)
            }
            KeyCode::Char('b' | 'k') | KeyCode::Left | KeyCode::Up => {
                self.go(|player| Rows::of(player).back(), AT_BEGINNING)
            }
            KeyCode::Home => self.go(|player| player.jump(1), AT_BEGINNING),
            KeyCode::End | KeyCode::Char('G') => self.go(|player| Rows::of(player).last(), AT_END),
            KeyCode::PageDown => self.scroll(page),
            KeyCode::PageUp => self.scroll(-page),
            KeyCode::Char('d') => self.scroll((page / 2).max(1)),
            KeyCode::Char('u') => self.scroll(-(page / 2).max(1)),
            KeyCode::Char('g') => self.ask(Purpose::Jump, String::new()),
            KeyCode::Char('t') => {
                let now = self.player.current().map(|line| line.event_type.clone());
                self.ask(Purpose::Type, now.unwrap_or_default());
            }
            KeyCode::Char('/') => self.ask(Purpose::Search, String::new()),
            KeyCode::Char('s') => self.toggle_secrets(),
            KeyCode::Char('o') | KeyCode::Enter => self.open_output(),
            _ => {}
        }
        None
    }

    fn on_opened(&mut self, code: KeyCode) {
        let Some(opened) = &mut self.opened else { return };
        let page = isize::try_from(opened.height.saturating_sub(1).max(1)).unwrap_or(1);
        let source = self.player.source();
        let moved = match code {
            KeyCode::Char('q' | 'o') | KeyCode::Esc | KeyCode::Enter => {
                self.opened = None;
                return;
            }
            KeyCode::Char('?') => {
                self.help = true;
                return;
            }
            KeyCode::Char('j') | KeyCode::Down => opened.scroll(1, source),
            KeyCode::Char('k') | KeyCode::Up => opened.scroll(-1, source),
            KeyCode::Char(' ') | KeyCode::PageDown => opened.scroll(page, source),
            KeyCode::Char('b') | KeyCode::PageUp => opened.scroll(-page, source),
            KeyCode::Home | KeyCode::Char('g') => opened.go_to_start(source),
            KeyCode::End | KeyCode::Char('G') => opened.go_to_end(source),
            KeyCode::Tab => opened.other_stream(source),
            _ => Ok(()),
        };
        if let Err(error) = moved {
            self.say(error, Level::Bad);
        }
    }

    fn ask(&mut self, purpose: Purpose, text: String) {
        self.prompt = Some(Prompt { purpose, text });
    }

    fn typed(&mut self, mut prompt: Prompt, key: KeyEvent) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Enter => return self.entered(&prompt),
            KeyCode::Esc => return,
            KeyCode::Backspace => drop(prompt.text.pop()),
            KeyCode::Char('u') if control => prompt.text.clear(),
            KeyCode::Char(c) if !control && prompt.text.chars().count() < MOST_TYPED => prompt.text.push(c),
            _ => {}
        }
        self.prompt = Some(prompt);
    }

    fn entered(&mut self, prompt: &Prompt) {
        let text = prompt.text.trim();
        match prompt.purpose {
            _ if text.is_empty() => {}
            Purpose::Jump => match text.parse() {
                Ok(seq) => self.go(|player| player.jump(seq), AT_END),
                Err(_) => self.say(format!("'{text}' is not the number of an event"), Level::Near),
            },
            Purpose::Type => {
                let wanted = Wanted::of_type(text);
                self.go(|player| player.find(&wanted), &format!("no {text} after this event"));
            }
            Purpose::Search => {
                // Spaces at the ends may be part of the pattern.
                self.search = Some(prompt.text.clone());
                self.search_on(false);
            }
        }
    }
}
