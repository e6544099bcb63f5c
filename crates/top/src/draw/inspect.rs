//! One session, or one service, with everything that is known about it.

use super::parts::{Look, framed, nothing, title};
use super::tables;
use crate::views::{ServiceView, SessionView};
use crate::wants::SessionDetail;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use shellkeep_protocol::{RestartChoice, Service};
use shellkeep_terminal::theme::Level;
use shellkeep_terminal::words;

/// Lines of facts about a session, above its services.
pub const FACTS: usize = 8;
/// Lines of facts about a service, with some more because long texts take several.
pub const SERVICE_LINES: usize = 14 + 6;
/// Cells of a fact's name.
const NAME: usize = 13;

pub fn session(frame: &mut Frame<'_>, area: Rect, view: &SessionView, look: Look) {
    let block = framed(title(&format!("session {}", words::clean(&view.id)), look), look);
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let Some(detail) = &view.detail else {
        let words = view.problem.as_deref().unwrap_or("…");
        return nothing(frame, inside, &words::clean(words), look.theme.faint());
    };
    let parts = [Constraint::Length(u16::try_from(FACTS).unwrap_or(0)), Constraint::Min(0)];
    let [facts, services] = Layout::vertical(parts).areas(inside);
    let mut lines = session_facts(detail, look);
    if let Some(problem) = &view.problem {
        lines[FACTS - 2] = Line::styled(words::clean(problem), look.theme.level(Level::Bad));
    }
    frame.render_widget(Paragraph::new(lines), facts);
    if detail.services.is_empty() {
        frame.render_widget(Line::styled("no services", look.theme.faint()), services);
    } else {
        tables::services(frame, services, &detail.services, &view.list, look);
    }
}

fn session_facts(detail: &SessionDetail, look: Look) -> Vec<Line<'static>> {
    let (session, state) = (&detail.session, &detail.state);
    let shell = match session.shell_pid {
        Some(pid) => (format!("live, pid {pid}"), look.theme.level(Level::Good)),
        None => ("asleep; the next command wakes it".to_owned(), look.theme.level(Level::Past)),
    };
    let figure = look.theme.figure();
    let agent = session.agent.as_deref().map_or_else(|| "–".to_owned(), words::clean);
    let times = format!(
        "{}, created {}",
        words::ago(look.now, &session.last_active_at),
        words::ago(look.now, &session.created_at)
    );
    let names = |names: &[String]| match names {
        [] => "none".to_owned(),
        some => format!("{}: {}", some.len(), words::clean(&some.join(" "))),
    };
    let variables = format!("{}, {} of them exported", state.variables, state.exported);
    let history = format!(
        "{} records, shell number {}, last exit status {}",
        words::count(session.seq),
        session.generation,
        state.status
    );
    let shell_knows = format!("{} · aliases {} · traps {}", variables, state.aliases, names(&state.traps));
    vec![
        fact("agent", agent, figure, look),
        fact("shell", shell.0, shell.1, look),
        fact("last active", times, figure, look),
        fact("cwd", words::clean(&session.cwd), figure, look),
        fact("history", history, figure, look),
        fact("variables", shell_knows, figure, look),
        fact("functions", names(&state.functions), figure, look),
        Line::default(),
    ]
}

pub fn service(frame: &mut Frame<'_>, area: Rect, view: &ServiceView, look: Look) {
    let service = &view.service;
    let heading = format!("{} · {} · session {}", service.service_id, service.name, service.session_id);
    let mut block = framed(title(&words::clean(&heading), look), look);
    if let Some(problem) = &view.problem {
        block = block.title_bottom(Line::styled(format!(" {} ", words::clean(problem)), look.theme.level(Level::Bad)));
    }
    let facts = Paragraph::new(service_facts(service, look)).wrap(Wrap { trim: false }).scroll((view.scroll, 0));
    frame.render_widget(facts.block(block), area);
}

fn service_facts(service: &Service, look: Look) -> Vec<Line<'static>> {
    let figure = look.theme.figure();
    let dash = || "–".to_owned();
    let ports: Vec<String> = service.ports.iter().map(u16::to_string).collect();
    let time = |at: &str| format!("{} ({})", words::ago(look.now, at), words::clean(at));
    let restart = match service.restart {
        RestartChoice::Never => "never",
        RestartChoice::OnFailure => "on failure",
        RestartChoice::Always => "always",
    };
    let exit = match (service.exit_code, &service.signal) {
        (Some(code), Some(signal)) => format!("{code}, by SIG{}", words::clean(signal)),
        (Some(code), None) => code.to_string(),
        (None, _) => dash(),
    };
    let status = tables::status(service.status, look.theme);
    vec![
        fact("status", service.status.as_str().to_owned(), status, look),
        fact("detail", service.detail.as_deref().map_or_else(dash, words::clean), figure, look),
        fact("agent", service.agent.as_deref().map_or_else(dash, words::clean), figure, look),
        fact("command", words::clean(&service.command), figure, look),
        fact("cwd", words::clean(&service.cwd), figure, look),
        fact("pid", service.pid.map_or_else(dash, |pid| pid.to_string()), figure, look),
        fact("processes", service.processes.to_string(), figure, look),
        fact("ports", if ports.is_empty() { dash() } else { ports.join(" ") }, look.theme.accent(), look),
        fact("started", time(&service.started_at), figure, look),
        fact("last active", time(&service.last_active_at), figure, look),
        fact("restart", format!("{restart}; {} so far", service.restarts), figure, look),
        fact("log", format!("{} written", words::bytes(service.log_bytes)), figure, look),
        fact("ended", service.ended_at.as_deref().map_or_else(dash, time), figure, look),
        fact("exit code", exit, figure, look),
    ]
}

fn fact(name: &str, value: String, style: Style, look: Look) -> Line<'static> {
    Line::from(vec![Span::styled(format!("{name:<NAME$}"), look.theme.faint()), Span::styled(value, style)])
}
