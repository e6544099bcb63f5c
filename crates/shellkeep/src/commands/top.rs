//! `shellkeep top`: a live view of the daemon.

mod follow;
mod poll;

use crate::cli::DaemonArgs;
use crate::client::{self, Client, Endpoint};
use crate::failure::Failure;
use crate::terminal;
use clap::Args;
use poll::Poller;
use ratatui::crossterm::event::{Event, KeyEventKind};
use shellkeep_protocol::{Node, ServiceList};
use shellkeep_session::Timestamp;
use shellkeep_terminal::Signals;
use shellkeep_terminal::screen::{self, Screen};
use shellkeep_terminal::theme::Theme;
use shellkeep_terminal::words;
use shellkeep_top::app::{App, Effect};
use shellkeep_top::draw::{self, Look};
use shellkeep_top::wants::{Followed, News, ServiceKey, Wants};
use shellkeep_top::{layout, snapshot};
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// How many updates may wait to be drawn; beyond that the poller waits.
const NEWS_WAITING: usize = 32;
/// How often the screen is drawn without an update: "3s ago" becomes "4s ago".
const REDRAW: Duration = Duration::from_secs(1);
/// Exit codes of a program that a signal ended, as shells report it.
const SIGNALLED: u8 = 128;

/// Arguments of `top`.
#[derive(Debug, Args)]
#[command(
    after_help = "Keys: 1 2 3 or Tab select services, sessions or limit changes; Enter inspects, l follows a service's log, x stops a service (confirm with
y), / filters, ? shows all keys, q quits.

On a pipe, or with --once, it prints one snapshot and exits. NO_COLOR disables colours.

Examples:
  shellkeep top
  shellkeep top --url http://127.0.0.1:7433 --interval 5
  shellkeep top --once
  shellkeep top --json | jq .commands_total

Exit codes: 0 done, 1 not done (no daemon, not the host), 2 wrong usage, 128+n ended by signal n."
)]
pub struct TopArgs {
    /// Refresh interval in seconds
    #[arg(long, value_name = "S", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Print one snapshot and exit
    #[arg(long)]
    once: bool,
    /// Print one snapshot as JSON and exit
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

fn interval(text: &str) -> Result<Duration, String> {
    let wrong = || "a number of seconds from 0.1 to 3600".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if (0.1..=3600.0).contains(&seconds) { Ok(Duration::from_secs_f64(seconds)) } else { Err(wrong()) }
}

pub fn execute(args: TopArgs) -> Result<ExitCode, Failure> {
    client::block_on(act(args))
}

async fn act(args: TopArgs) -> Result<ExitCode, Failure> {
    let (_, endpoint) = client::find(&args.daemon)?;
    let mut client = Client::open(&args.daemon).await?;
    // Requested before the screen is drawn, so that an error is a line on stderr and an exit code.
    let node: Node = client.get("/v1/node").await?;
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    if args.json {
        terminal::json(&node)?;
    } else if args.once || dumb || !std::io::stdout().is_terminal() {
        let list: ServiceList = client.get("/v1/services").await?;
        let text = snapshot::text(&node, &list.services, Timestamp::now());
        // One line a row on a terminal; a pipe gets everything.
        let cut = |line: &str| terminal::width().map_or_else(|| line.to_owned(), |width| words::cut(line, width));
        text.trim_end().lines().for_each(|line| terminal::line(cut(line)));
    } else {
        drop(client);
        return Live::start(endpoint, args.interval)?.run().await;
    }
    Ok(ExitCode::SUCCESS)
}

/// The screen and everything that updates it.
struct Live {
    app: App,
    theme: Theme,
    screen: Screen,
    keys: mpsc::Receiver<Event>,
    news: mpsc::Receiver<News>,
    wants: watch::Sender<Wants>,
    began: Instant,
    helpers: Helpers,
}

/// Background tasks. They end with the screen.
struct Helpers {
    endpoint: Endpoint,
    news: mpsc::Sender<News>,
    /// The poller, and services being stopped.
    tasks: JoinSet<()>,
    /// The task that follows a log.
    follower: JoinSet<()>,
    followed: Option<Followed>,
}

impl Live {
    fn start(endpoint: Endpoint, interval: Duration) -> Result<Self, Failure> {
        let (sender, news) = mpsc::channel(NEWS_WAITING);
        let app = App::default();
        let (wants, wanted) = watch::channel(app.wants());
        let mut tasks = JoinSet::new();
        let poller = Poller { endpoint: endpoint.clone(), interval, wants: wanted, news: sender.clone() };
        tasks.spawn(poller.run());
        let helpers = Helpers { endpoint, news: sender, tasks, follower: JoinSet::new(), followed: None };
        let screen =
            Screen::open().map_err(|error| Failure::client(format!("cannot use the terminal: {error}; try --once")))?;
        let theme = Theme::from_environment();
        Ok(Self { app, theme, screen, keys: screen::events(), news, wants, began: Instant::now(), helpers })
    }

    async fn run(mut self) -> Result<ExitCode, Failure> {
        let mut signals = Signals::listen().map_err(Failure::client)?;
        let mut redraw = tokio::time::interval(REDRAW);
        loop {
            self.draw()?;
            let effect = tokio::select! {
                event = self.keys.recv() => match event {
                    Some(event) => self.on_event(&event),
                    None => return Err(Failure::client("the terminal is gone")),
                },
                Some(news) = self.news.recv() => {
                    self.on_news(news);
                    None
                }
                _ = redraw.tick() => {
                    self.app.on_tick(self.began.elapsed());
                    None
                }
                number = signals.next() => return Ok(ExitCode::from(SIGNALLED + number)),
                Some(ended) = self.helpers.tasks.join_next() => match ended {
                    Ok(()) => None,
                    Err(error) => return Err(Failure::client(format!("internal error: {error}"))),
                },
            };
            match effect {
                Some(Effect::Quit) => return Ok(ExitCode::SUCCESS),
                Some(Effect::Stop(key)) => self.helpers.stop(key),
                Some(Effect::Suspend) => self.screen.suspend().map_err(Failure::client)?,
                None => {}
            }
            self.settle();
        }
    }

    fn draw(&mut self) -> Result<(), Failure> {
        let Self { app, screen, theme, .. } = self;
        let look = Look { theme: *theme, now: Timestamp::now() };
        let drawn = screen.draw(|frame| {
            layout::fit(app, frame.area());
            draw::screen(frame, app, look);
        });
        drawn.map_err(|error| Failure::client(format!("the terminal is gone: {error}")))
    }

    fn on_event(&mut self, event: &Event) -> Option<Effect> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.app.on_key(*key, self.began.elapsed()),
            // A new size is detected when the screen is drawn.
            _ => None,
        }
    }

    /// Applies all pending updates, then draws once.
    fn on_news(&mut self, news: News) {
        self.app.on_news(news, self.began.elapsed());
        while let Ok(news) = self.news.try_recv() {
            self.app.on_news(news, self.began.elapsed());
        }
    }

    /// Tells the background tasks what is visible now.
    fn settle(&mut self) {
        let wants = self.app.wants();
        self.helpers.follow(wants.log.as_ref());
        self.wants.send_if_modified(|known| {
            let other = *known != wants;
            *known = wants;
            other
        });
    }
}

impl Helpers {
    fn stop(&mut self, key: ServiceKey) {
        self.tasks.spawn(poll::stop(self.endpoint.clone(), key, self.news.clone()));
    }

    fn follow(&mut self, log: Option<&Followed>) {
        if self.followed.as_ref() == log {
            return;
        }
        // Dropping the set aborts its tasks.
        self.follower = JoinSet::new();
        self.followed = log.cloned();
        if let Some(log) = log {
            self.follower.spawn(follow::follow(self.endpoint.clone(), log.clone(), self.news.clone()));
        }
    }
}
