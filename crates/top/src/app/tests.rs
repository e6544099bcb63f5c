//! What keys and news do to the screen.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

use super::*;
use crate::samples::{app, detail, page, services};
use crate::wants::{Followed, SessionsQuery};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use shellkeep_protocol::{LogResponse, ServiceStatus};

const AT: Duration = Duration::from_secs(200);

fn press(app: &mut App, code: KeyCode) -> Option<Effect> {
    app.on_key(KeyEvent::new(code, KeyModifiers::NONE), AT)
}

fn type_in(app: &mut App, text: &str) {
    for c in text.chars() {
        assert_eq!(press(app, KeyCode::Char(c)), None, "{c} in {text}");
    }
}

fn key(session: &str, service: &str) -> ServiceKey {
    ServiceKey { session: session.to_owned(), service: service.to_owned() }
}

fn selected(app: &App) -> String {
    let service = app.services.selected().expect("a service is selected");
    format!("{}/{}", service.session_id, service.service_id)
}

fn log_page(text: &str) -> Box<LogResponse> {
    let length = text.len() as u64;
    let text = text.to_owned();
    Box::new(LogResponse {
        text,
        base64: None,
        offset: 0,
        next_offset: length,
        first: 0,
        total: length,
        complete: false,
    })
}

#[test]
fn only_what_is_in_sight_is_wanted() {
    let mut app = app();
    assert_eq!(app.wants(), Wants { services: true, ..Wants::default() });
    press(&mut app, KeyCode::Tab);
    assert_eq!(app.wants(), Wants { sessions: Some(SessionsQuery::default()), ..Wants::default() });
    press(&mut app, KeyCode::Enter);
    assert_eq!(app.wants(), Wants { session: Some("s000".to_owned()), ..Wants::default() });
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::Char('3'));
    assert_eq!(app.wants(), Wants::default());
    press(&mut app, KeyCode::Tab);
    assert_eq!(app.tab, Tab::Services, "after the last comes the first");
    press(&mut app, KeyCode::BackTab);
    assert_eq!(app.tab, Tab::Changes);
}

#[test]
fn services_are_in_order_and_the_selection_stays_with_its_service() {
    let mut app = app();
    assert_eq!(selected(&app), "api/s1");
    press(&mut app, KeyCode::Char('j'));
    assert_eq!(selected(&app), "demo/s9", "s9 comes before s10");
    press(&mut app, KeyCode::Char('s'));
    assert_eq!((selected(&app), app.services.list.selected), ("demo/s9".to_owned(), 0), "it is the most idle");
    let mut fewer = services();
    fewer.retain(|service| service.service_id != "s9");
    app.on_news(News::Services(fewer), AT);
    assert_eq!(app.services.list.selected, 0, "a service that went leaves its row to another");
    press(&mut app, KeyCode::Char('s'));
    assert_eq!(app.services.order.words(), "largest log first");
    assert_eq!(app.services.shown()[0].service_id, "s1");
}

#[test]
fn a_filter_works_while_it_is_typed_and_can_be_taken_back() {
    let mut app = app();
    press(&mut app, KeyCode::Char('/'));
    type_in(&mut app, "DOCSq");
    assert!(app.services.shown().is_empty(), "q is a letter here");
    press(&mut app, KeyCode::Backspace);
    assert_eq!(selected(&app), "demo/s10");
    press(&mut app, KeyCode::Enter);
    assert_eq!((app.filter(), app.prompt.is_none()), ("DOCS", true));
    press(&mut app, KeyCode::Char('/'));
    type_in(&mut app, "x");
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.filter(), "DOCS", "the filter before is in force again");
    assert_eq!(press(&mut app, KeyCode::Esc), None, "the first Esc takes the filter");
    assert_eq!((app.filter(), app.services.shown().len()), ("", 3));
    assert_eq!(press(&mut app, KeyCode::Esc), Some(Effect::Quit));
}

#[test]
fn sessions_are_turned_page_by_page() {
    let mut app = app();
    press(&mut app, KeyCode::Char('2'));
    press(&mut app, KeyCode::Char('G'));
    assert_eq!(app.sessions.selected().expect("a session").session_id, "s199");
    press(&mut app, KeyCode::Down);
    let second = SessionsQuery { filter: String::new(), after: Some("s199".to_owned()) };
    assert_eq!(app.wants().sessions, Some(second.clone()));
    assert!(app.sessions.is_searching());
    press(&mut app, KeyCode::Down);
    assert_eq!(app.wants().sessions, Some(second.clone()), "one page at a time");
    app.on_news(News::Sessions { query: SessionsQuery::default(), page: page(0, 200, true) }, AT);
    assert!(app.sessions.is_searching(), "the page before is late and not wanted any more");
    app.on_news(News::Sessions { query: second.clone(), page: page(200, 50, false) }, AT);
    assert_eq!((app.sessions.selected().expect("a session").session_id.as_str(), app.sessions.before), ("s200", 200));
    app.on_news(News::Sessions { query: second, page: page(199, 51, false) }, AT);
    assert_eq!(app.sessions.selected().expect("a session").session_id, "s200", "the selection stays with its session");
    press(&mut app, KeyCode::Home);
    assert_eq!(app.wants().sessions, Some(SessionsQuery::default()), "home is the first page");
}

#[test]
fn going_up_from_the_first_row_comes_to_the_end_of_the_page_before() {
    let mut app = app();
    press(&mut app, KeyCode::Char('2'));
    press(&mut app, KeyCode::End);
    press(&mut app, KeyCode::Down);
    app.on_news(News::Sessions { query: app.sessions.query.clone(), page: page(200, 50, false) }, AT);
    press(&mut app, KeyCode::Up);
    app.on_news(News::Sessions { query: SessionsQuery::default(), page: page(0, 200, true) }, AT);
    assert_eq!((app.sessions.selected().expect("a session").session_id.as_str(), app.sessions.before), ("s199", 0));
    press(&mut app, KeyCode::Char('/'));
    type_in(&mut app, "@ann");
    let query = SessionsQuery { filter: "@ann".to_owned(), after: None };
    assert_eq!(app.wants().sessions, Some(query));
}

#[test]
fn a_service_is_stopped_after_a_yes_and_only_then() {
    let mut app = app();
    press(&mut app, KeyCode::Char('x'));
    assert_eq!(app.question, Some(Question { key: key("api", "s1"), name: "server".to_owned() }));
    assert_eq!(press(&mut app, KeyCode::Enter), None);
    assert!(app.question.is_some(), "Enter is no answer");
    assert_eq!(press(&mut app, KeyCode::Char('n')), None);
    assert!(app.question.is_none());
    press(&mut app, KeyCode::Char('x'));
    assert_eq!(press(&mut app, KeyCode::Char('y')), Some(Effect::Stop(key("api", "s1"))));
    assert!(app.message.as_ref().expect("it says so").text.starts_with("stopping s1 (server) of session api"));
    let mut ended = services().remove(2);
    (ended.status, ended.exit_code) = (ServiceStatus::Stopped, Some(143));
    app.on_news(News::Stopped { key: key("api", "s1"), outcome: Ok(Box::new(ended)) }, AT);
    assert_eq!(app.message.as_ref().unwrap().text, "s1 (server) of session api is stopped, exit code 143");
    app.on_tick(AT + MESSAGE_STAYS);
    assert_eq!(app.message, None, "a message goes by itself");
}

#[test]
fn what_has_ended_is_not_stopped_again() {
    let mut app = app();
    press(&mut app, KeyCode::Char('2'));
    press(&mut app, KeyCode::Char('x'));
    assert!(app.question.is_none(), "a session is not a service");
    press(&mut app, KeyCode::Enter);
    app.on_news(News::Session { id: "s000".to_owned(), detail: Ok(Box::new(detail("s000"))) }, AT);
    press(&mut app, KeyCode::Char('x'));
    assert_eq!(app.question.take().expect("the newest comes first and runs").key, key("s000", "s2"));
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Char('x'));
    assert!(app.question.is_none());
    assert_eq!(app.message.as_ref().unwrap().text, "s1 has ended already: it is failed");
}

#[test]
fn views_lie_on_each_other_and_go_one_by_one() {
    let mut app = app();
    press(&mut app, KeyCode::Char('2'));
    press(&mut app, KeyCode::Enter);
    press(&mut app, KeyCode::Enter);
    assert_eq!(app.views.len(), 1, "nothing is known about the session yet");
    app.on_news(News::Session { id: "s000".to_owned(), detail: Ok(Box::new(detail("s000"))) }, AT);
    press(&mut app, KeyCode::Enter);
    assert_eq!(app.wants().service, Some(key("s000", "s2")));
    press(&mut app, KeyCode::Enter);
    let log = Followed { key: key("s000", "s2"), number: 0 };
    assert_eq!(app.wants().log, Some(log.clone()));
    app.on_news(News::Log { log: log.clone(), page: Ok(log_page("one\ntwo\n")) }, AT);
    for left in [2, 1, 0] {
        assert_eq!(press(&mut app, KeyCode::Char('q')), None);
        assert_eq!(app.views.len(), left);
    }
    app.on_news(News::Log { log, page: Err("late".to_owned()) }, AT);
    assert_eq!(press(&mut app, KeyCode::Char('q')), Some(Effect::Quit));
}

#[test]
fn a_log_that_is_opened_again_begins_anew() {
    let mut app = app();
    press(&mut app, KeyCode::Char('l'));
    let first = app.wants().log.expect("a log");
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::Char('l'));
    assert_ne!(app.wants().log, Some(first.clone()));
    app.on_news(News::Log { log: first, page: Ok(log_page("old\n")) }, AT);
    let Some(View::Log(log)) = app.views.last() else { panic!("a log is open") };
    assert_eq!(log.length(), 0);
}

#[test]
fn a_log_is_searched() {
    let mut app = app();
    press(&mut app, KeyCode::Char('l'));
    let log = app.wants().log.expect("a log");
    app.on_news(News::Log { log, page: Ok(log_page("one\ntwo\nthree\n")) }, AT);
    press(&mut app, KeyCode::Char('n'));
    assert!(app.message.take().expect("it says so").text.contains("no search pattern"));
    press(&mut app, KeyCode::Char('/'));
    type_in(&mut app, "TWO");
    press(&mut app, KeyCode::Enter);
    let Some(View::Log(log)) = app.views.last() else { panic!("a log is open") };
    assert_eq!((log.top(), log.follow, app.message.is_none()), (1, false, true));
    press(&mut app, KeyCode::Char('n'));
    assert!(app.message.take().expect("it says so").text.contains("no other line with 'two'"));
    press(&mut app, KeyCode::Char('f'));
    press(&mut app, KeyCode::Char('x'));
    assert_eq!(app.question.as_ref().expect("it asks").key, key("api", "s1"));
}

#[test]
fn the_daemon_goes_and_comes() {
    let mut app = app();
    app.on_news(News::Lost { reason: "refused".to_owned() }, AT);
    assert_eq!(app.link, Link::Lost { reason: "refused".to_owned() });
    assert!(app.node.is_some(), "what was known stays in sight");
    app.on_news(News::Found(crate::samples::daemon()), AT);
    assert_eq!(app.link, Link::Up { version: "0.1.0".to_owned(), pid: 4242 });
}

#[test]
fn control_keys_work_everywhere() {
    let mut app = app();
    press(&mut app, KeyCode::Char('/'));
    let control = |app: &mut App, c: char| app.on_key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL), AT);
    type_in(&mut app, "abc");
    assert_eq!(control(&mut app, 'u'), None);
    assert_eq!(app.prompt.as_ref().expect("it is open").text, "");
    assert_eq!(control(&mut app, 'z'), Some(Effect::Suspend));
    assert_eq!(control(&mut app, 'c'), Some(Effect::Quit));
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::Char('?'));
    assert!(app.help);
    assert_eq!(press(&mut app, KeyCode::Char('q')), None, "any key closes the help, and does nothing else");
    assert!(!app.help);
}
