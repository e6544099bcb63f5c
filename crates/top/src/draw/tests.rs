//! What the screen looks like, at several sizes and in several states.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

use super::*;
use crate::app::Tab;
use crate::samples::{self, now};
use crate::wants::News;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};
use shellkeep_protocol::LogResponse;
use shellkeep_terminal::theme::Theme;
use std::time::Duration;

const AT: Duration = Duration::from_secs(200);

fn drawn(app: &mut App, width: u16, height: u16, colour: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let look = Look { theme: Theme::new(colour), now: now() };
    let picture = |frame: &mut Frame<'_>| {
        layout::fit(app, frame.area());
        screen(frame, app, look);
    };
    terminal.draw(picture).unwrap();
    terminal.backend().buffer().clone()
}

fn lines(app: &mut App, width: u16, height: u16) -> Vec<String> {
    let buffer = drawn(app, width, height, true);
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| row(y).trim_end().to_owned()).collect()
}

fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
        app.on_key(KeyEvent::new(code, KeyModifiers::NONE), AT);
    }
}

/// The cell where a text begins.
fn cell_of<'a>(buffer: &'a Buffer, text: &str) -> &'a Cell {
    let wanted: Vec<String> = text.chars().map(String::from).collect();
    let symbols: Vec<&str> = buffer.content().iter().map(Cell::symbol).collect();
    let found = symbols.windows(wanted.len()).position(|window| window == wanted);
    &buffer.content()[found.unwrap_or_else(|| panic!("'{text}' is not on the screen"))]
}

fn show_log(app: &mut App, text: &str) {
    let length = text.len() as u64;
    let text = text.to_owned();
    let page =
        LogResponse { text, base64: None, offset: 0, next_offset: length, first: 0, total: length, complete: false };
    let log = app.wants().log.expect("a log is open");
    app.on_news(News::Log { log, page: Ok(Box::new(page)) }, AT);
}

#[test]
fn a_screen_of_the_usual_size() {
    let expected = "\
╭ shellkeep 0.1.0 · pid 4242 · up 3d 4h ────────────── ● ready ╮╭ quotas ────────────────────────────────────╮
│ sessions             100,000    shells     42 live · 3 spare ││ processes    ━━━━──────         423/1,000  │
│ services                 490    processes                423 ││ services     ━━━━━━━━━─           490/500! │
│ running             12 of 64    queue          7 of 2 agents ││ live shells  ━━━━━━──╌╌    120/150 of 200  │
│ daemon memory       45.2 MiB    free memory             63 % ││ services/agent     8  procs/session    256 │
│ cpu pressure ━━━──────  31 %    mem pressure ━────────   4 % ││ output/run   128 MiB  output/session 1 GiB │
│ commands/s     2,370                        ▁▁▁▁▂▂▃▃▄▅▅▆▆▇▇█ ││ disk/session  10 GiB  log/service   16 MiB │
╰──────────────────────────────────────────────────────────────╯╰────────────────────────────────────────────╯
╭ 1 Services 490 ─ 2 Sessions 100,000 ─ 3 Changes 2 ───────────────────────────────────────────── by session ╮
│ id   session  agent    name    status      pid  ports  procs  active        log  restarts                  │
│ s1   api      builder  server  running   31337  5173       3  3m ago      5 GiB         2                  │
│ s9   demo     builder  web     running   31337  5173       3  2h ago  120.6 KiB         0                  │
│ s10  demo     builder  docs    starting  31337  5173       3  3m ago  120.6 KiB         0                  │
│                                                                                                            │
│                                                                                                            │
│                                                                                                            │
╰────────────────────────────────────────────────────────────────────────────────────────────────────────────╯
 ⏎ inspect  l log  x stop  / filter  s sort  Tab next  ? help  q quit";
    assert_eq!(lines(&mut samples::app(), 110, 18).join("\n"), expected);
}

#[test]
fn a_narrow_screen_keeps_what_matters() {
    let expected = "\
╭ shellkeep 0.1.0 · pid 4242 · up 3d 4h ────────── ● ready ╮
│ sessions           100,000    shells   42 live · 3 spare │
│ services               490    processes              423 │
│ running           12 of 64    queue        7 of 2 agents │
│ daemon memory     45.2 MiB    free memory           63 % │
│ cpu pressure ━━─────  31 %    mem pressure ━──────   4 % │
│ commands/s     2,370                      ▁▁▁▂▂▃▃▄▅▅▆▆▇▇ │
╰──────────────────────────────────────────────────────────╯
╭ quotas ──────────────────────────────────────────────────╮
│ processes    ━━━━━━━━━━──────────────         423/1,000  │
│ services     ━━━━━━━━━━━━━━━━━━━━━━━─           490/500! │
│ live shells  ━━━━━━━━━━━━━━────╌╌╌╌╌╌    120/150 of 200  │
╰──────────────────────────────────────────────────────────╯
╭ 1 Services 490 ─ 2 Sessions 100,000 ─ 3 Changes 2 ───────╮
│ id   session  name    status      pid  ports  active     │
│ s1   api      server  running   31337  5173   3m ago     │
│ s9   demo     web     running   31337  5173   2h ago     │
│ s10  demo     docs    starting  31337  5173   3m ago     │
│                                                          │
│                                                          │
╰──────────────────────────────────────────────────────────╯
 ⏎ inspect  l log  x stop  / filter  s sort  ? help  q quit";
    assert_eq!(lines(&mut samples::app(), 60, 22).join("\n"), expected);
}

#[test]
fn a_small_screen_has_one_line_for_the_node() {
    let expected = [
        " shellkeep ● ready · up 3d 4h · 100,000 sessions",
        "╭ 1 Services 490 ─ 2 Sessions 100,000 ─ 3 Changes╮",
        "│ id   session  name    status    ports  active  │",
        "│ s1   api      server  running   5173   3m ago  │",
        "╰────────────────────────────────────────────────╯",
        " ⏎ inspect  l log  x stop  ? help  q quit",
    ];
    assert_eq!(lines(&mut samples::app(), 50, 6), expected);
}

#[test]
fn a_wide_screen_has_a_picture_of_the_rate() {
    let wide = lines(&mut samples::app(), 160, 20);
    assert!(wide[0].contains("╭ commands/s 2,370 ") && wide[0].contains(" peak 2,370 in 5 min ╮"), "{}", wide[0]);
    assert!(wide[1].contains("▂▅▇ │"), "the newest column is the highest: {}", wide[1]);
    assert!(wide[6].starts_with("│ commands        1,141,610    "), "{}", wide[6]);
}

#[test]
fn nothing_is_said_where_nothing_is_known() {
    let mut app = App::default();
    let empty = lines(&mut app, 80, 24).join("\n");
    assert!(empty.contains("● looking for the daemon") && !empty.contains("no service runs"), "{empty}");
    app.on_news(News::Found(samples::daemon()), AT);
    app.on_news(News::Services(Vec::new()), AT);
    let empty = lines(&mut app, 80, 24).join("\n");
    assert!(empty.contains("no running services; start one with `shellkeep services start"), "{empty}");
    press(&mut app, "2");
    app.on_news(News::Sessions { query: app.sessions.query.clone(), page: samples::page(0, 0, false) }, AT);
    assert!(lines(&mut app, 80, 24).join("\n").contains("no sessions yet; create one with `shellkeep run"));
    press(&mut app, "3");
    assert!(lines(&mut app, 80, 24).join("\n").contains("no limit has changed"));
}

#[test]
fn a_lost_daemon_and_a_degraded_one_are_seen_at_once() {
    let mut app = samples::app();
    app.on_news(News::Lost { reason: "Connection refused".to_owned() }, AT);
    let lost = lines(&mut app, 80, 24);
    assert!(lost[0].ends_with("● no daemon; retrying ╮"), "{}", lost[0]);
    assert!(lost[7].contains(" Connection refused "), "{}", lost[7]);
    assert!(lost.join("\n").contains("100,000"), "what was known stays in sight");
    assert_eq!(cell_of(&drawn(&mut app, 80, 24, true), "no daemon").fg, Color::Red);
    app.on_news(News::Found(samples::daemon()), AT);
    let node = shellkeep_protocol::Node { problems: vec!["the disk is full".to_owned()], ..samples::node() };
    app.on_news(News::Node(Box::new(node)), AT);
    let degraded = lines(&mut app, 80, 24);
    assert!(degraded[0].ends_with("● degraded ╮") && degraded[7].contains(" the disk is full "), "{degraded:?}");
}

#[test]
fn colours_say_how_things_stand_and_shapes_say_it_too() {
    let mut app = samples::app();
    press(&mut app, "j");
    let colours = drawn(&mut app, 110, 24, true);
    assert_eq!(cell_of(&colours, "running   31337").fg, Color::Green);
    assert_eq!(cell_of(&colours, "starting").fg, Color::Yellow);
    assert_eq!(cell_of(&colours, "490/500!").fg, Color::Red, "nearly all services are there");
    assert_eq!(cell_of(&colours, "120/150").fg, Color::Yellow);
    assert_eq!(cell_of(&colours, "s9 ").bg, Color::Cyan, "the selected row");
    let none = drawn(&mut app, 110, 24, false);
    let plain = |cell: &&Cell| cell.fg == Color::Reset && cell.bg == Color::Reset;
    assert_eq!(none.content().iter().filter(plain).count(), none.content().len(), "NO_COLOR means none");
    assert!(cell_of(&none, "s9 ").modifier.contains(Modifier::REVERSED));
    assert!(!cell_of(&none, "s10").modifier.contains(Modifier::REVERSED));
    let symbols = |buffer: &Buffer| buffer.content().iter().map(|cell| cell.symbol().to_owned()).collect::<String>();
    assert_eq!(symbols(&none), symbols(&colours), "nothing is said by colour alone");
}

#[test]
fn sessions_say_where_in_the_list_one_is() {
    let mut app = samples::app();
    press(&mut app, "2");
    let list = lines(&mut app, 110, 24);
    assert!(list[8].ends_with("1 to 200 · more below ╮"), "{}", list[8]);
    assert_eq!(list[9].trim_end_matches([' ', '│']), "│ session  agent    shell   pid  active   records  shells  cwd");
    assert!(
        list[10].starts_with("│ s000     builder  live    777  42s ago    1,234       2  /srv/app"),
        "{}",
        list[10]
    );
    assert!(list[11].starts_with("│ s001     –        asleep    –  42s ago"), "{}", list[11]);
    press(&mut app, "/x");
    let typing = lines(&mut app, 110, 24);
    assert!(typing[8].contains("/x · searching") && typing[23].starts_with(" filter /x"), "{typing:?}");
}

#[test]
fn changes_say_what_why_and_when() {
    let mut app = samples::app();
    press(&mut app, "3");
    let changes = lines(&mut app, 110, 24);
    assert!(
        changes[10].starts_with("│ 3m ago  live shells  ▼ 200 → 150  memory pressure was 0.42 for 10 s"),
        "{changes:?}"
    );
    assert!(changes[11].starts_with("│ 2h ago  live shells  ▲ 100 → 200  the machine has room again"), "{changes:?}");
    assert_eq!(app.tab, Tab::Changes);
}

#[test]
fn a_session_is_shown_with_its_services() {
    let mut app = samples::app();
    press(&mut app, "2\n");
    assert!(lines(&mut app, 110, 30)[8].starts_with("╭ session s000 ─"));
    app.on_news(News::Session { id: "s000".to_owned(), detail: Ok(Box::new(samples::detail("s000"))) }, AT);
    let seen: Vec<String> =
        lines(&mut app, 110, 30).iter().map(|line| line.trim_matches(['│', ' ']).to_owned()).collect();
    let expected = [
        "agent        builder",
        "shell        live, pid 777",
        "last active  42s ago, created 1d ago",
        "cwd          /srv/app",
        "history      1,234 records, shell number 2, last exit status 0",
        "variables    12, 5 of them exported · aliases 1 · traps 1: EXIT",
        "functions    2: deploy greet",
        "",
    ];
    assert_eq!(seen[9..17], expected);
    assert!(seen[18].starts_with("s2  s000     builder  web    running"), "{}", seen[18]);
    assert!(seen[19].starts_with("s1  s000     builder  build  failed "), "{}", seen[19]);
    app.on_news(News::Session { id: "s000".to_owned(), detail: Err("there is no session 's000'".to_owned()) }, AT);
    assert!(lines(&mut app, 110, 30).join("\n").contains("there is no session 's000'"));
}

#[test]
fn a_service_is_shown_with_all_there_is() {
    let mut app = samples::app();
    press(&mut app, "\n");
    let seen = lines(&mut app, 110, 30).join("\n");
    for fact in [
        "╭ s1 · server · session api ─",
        "status       running",
        "command      npm run server",
        "ports        5173",
        "last active  3m ago (2026-01-02T11:57:00Z)",
        "restart      on failure; 2 so far",
        "log          5 GiB written",
    ] {
        assert!(seen.contains(fact), "{fact}:\n{seen}");
    }
}

#[test]
fn a_log_fills_the_screen_and_marks_what_was_found() {
    let mut app = samples::app();
    press(&mut app, "l");
    assert!(lines(&mut app, 80, 12).join("\n").contains("no output yet"));
    let text: String = (1..=50).map(|number| format!("line {number} \u{1b}[31mred\u{1b}[0m\n")).collect();
    show_log(&mut app, &text);
    let seen = lines(&mut app, 80, 12);
    assert!(
        seen[1].starts_with("╭ log of s1 · server · session api ─") && seen[1].ends_with("● following ╮"),
        "{}",
        seen[1]
    );
    assert!(seen[2].starts_with("│ line 43 red  ") && seen[9].starts_with("│ line 50 red  "), "{seen:?}");
    assert!(seen[10].ends_with(" line 43 of 50 ╯"), "{}", seen[10]);
    press(&mut app, "/LINE 7\n");
    let found = drawn(&mut app, 80, 12, true);
    assert_eq!(cell_of(&found, "line 7").bg, Color::Yellow);
    assert_eq!(cell_of(&found, "line 8").bg, Color::Reset);
    assert!(lines(&mut app, 80, 12)[1].ends_with("● paused; f follows ╮"));
}

#[test]
fn a_question_and_the_help_lie_over_the_rest() {
    let mut app = samples::app();
    press(&mut app, "x");
    let asked = lines(&mut app, 80, 24).join("\n");
    assert!(
        asked.contains("Stop s1 (server) of session api and everything it") && asked.contains("y stop it"),
        "{asked}"
    );
    press(&mut app, "n?");
    let help = lines(&mut app, 80, 24).join("\n");
    assert!(help.contains("follow the log of a service") && help.contains("any key closes this"), "{help}");
}

/// What people asked of it first: which session runs what, and for how long.
#[test]
fn commands_that_run_are_in_sight() {
    let mut app = samples::app();
    let node = shellkeep_protocol::Node { commands: samples::commands(), ..samples::node() };
    app.on_news(News::Node(Box::new(node.clone())), AT);
    let expected = [
        "╭ running 12 of 64 · 10 more ──────────────────────────────────────────────────╮",
        "│     for  session  agent    run  command                                      │",
        "│ 12m 34s  api      builder  r12  cargo test --workspace                       │",
        "│     42s  demo     builder  r7   npm ci && npm run build -- --mode productio… │",
    ];
    assert_eq!(lines(&mut app, 80, 24)[8..12], expected, "they take the place of the quotas");
    let tall = lines(&mut app, 200, 50);
    assert!(tall[8].starts_with("╭ running 12 of 64 · 3 more ─"), "{}", tall[8]);
    assert!(tall[12].starts_with("│      1s  notes    builder  r3   sleep 5"), "{}", tall[12]);
    assert!(tall[20].starts_with("╭ 1 Services"), "{}", tall[20]);
    let idle = shellkeep_protocol::Node { running: 0, commands: Vec::new(), ..node };
    app.on_news(News::Node(Box::new(idle)), AT);
    assert!(lines(&mut app, 80, 24)[8].starts_with("╭ quotas ─"));
    let tall = lines(&mut app, 200, 50);
    assert!(tall[8].starts_with("╭ running 0 of 64 ─") && tall[20].starts_with("╭ 1 Services"), "nothing moves");
}

#[test]
fn every_size_can_be_drawn() {
    for width in (1..=9).chain([20, 31, 60, 103, 104, 149, 150, 300]) {
        for height in (1..=5).chain([8, 9, 10, 16, 17, 22, 40]) {
            let mut app = samples::app();
            let node = shellkeep_protocol::Node { commands: samples::commands(), ..samples::node() };
            app.on_news(News::Node(Box::new(node)), AT);
            for keys in ["", "2", "\n", "q3", "1\n", "l", "q", "qx", "n?"] {
                press(&mut app, keys);
                drawn(&mut app, width, height, true);
            }
        }
    }
}
