//! The terminal of a run: its size and its screen.

use serde::{Deserialize, Serialize};
use std::str::FromStr;
use utoipa::{IntoParams, ToSchema};

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    #[serde(deserialize_with = "crate::whole::small")]
    #[schema(minimum = 1, maximum = 500)]
    pub rows: u16,
    #[serde(deserialize_with = "crate::whole::small")]
    #[schema(minimum = 1, maximum = 500)]
    pub cols: u16,
}

/// Body of `POST …/runs/{run_id}/resize`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResizeRequest {
    #[serde(deserialize_with = "crate::whole::small")]
    #[schema(minimum = 1, maximum = 500)]
    pub rows: u16,
    #[serde(deserialize_with = "crate::whole::small")]
    #[schema(minimum = 1, maximum = 500)]
    pub cols: u16,
    /// The id of your hold on the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
}

/// Response to a changed size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TerminalResized {
    /// The run.
    pub run_id: String,
    pub rows: u16,
    pub cols: u16,
}

/// Query of `GET …/runs/{run_id}/screen`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ScreenParams {
    /// `text` (the default), `ansi` or `cells`.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub format: Option<ScreenFormat>,
    /// What to wait for: `quiet:300` (no change for 300 ms), `change` (another `version`), or `match:RE` (text on the
    /// screen that matches a regular expression). By default nothing.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub wait: Option<String>,
    /// Seconds to wait; then the screen is returned as it is, with `timed_out`.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(default = 10, minimum = 0, maximum = 300)]
    pub timeout: Option<f64>,
    /// For `wait=change`: the version that you have. By default the current one.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub version: Option<u64>,
}

/// How a screen is described.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScreenFormat {
    /// Rows of text.
    #[default]
    Text,
    /// Rows of text with escape codes for colours, and a `dump` that draws the whole screen on a terminal.
    Ansi,
    /// Rows of text, and `cells` with the style of each piece.
    Cells,
}

impl FromStr for ScreenFormat {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "ansi" => Ok(Self::Ansi),
            "cells" => Ok(Self::Cells),
            _ => Err("a format is `text`, `ansi` or `cells`"),
        }
    }
}

/// What the terminal of a run shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScreenResponse {
    /// The run.
    pub run_id: String,
    pub rows: u16,
    pub cols: u16,
    pub cursor: ScreenCursor,
    /// Whether the program uses the alternate screen, as full-screen programs do.
    pub alternate: bool,
    /// The window title that the program set.
    pub title: Option<String>,
    /// The rows from the top, without blanks at their ends.
    pub lines: Vec<String>,
    /// With `format=cells`: the rows as pieces of text in one style.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cells: Option<Vec<Vec<ScreenSpan>>>,
    /// With `format=ansi`: escape sequences that draw the screen on a terminal of the same size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dump: Option<String>,
    /// Grows with every change.
    pub version: u64,
    /// Bytes of output that are in it.
    pub offset: u64,
    /// Whether a secret was masked.
    pub masked: bool,
    /// Whether the run has not ended.
    pub running: bool,
    /// Whether the wait reached its timeout.
    pub timed_out: bool,
}

/// The cursor of a screen, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScreenCursor {
    pub row: usize,
    pub col: usize,
    pub visible: bool,
}

/// Text in one style. What is left out is off or the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScreenSpan {
    pub text: String,
    /// The colour of the text: an index into the palette of 256, or `#rrggbb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreground: Option<String>,
    /// The colour behind the text, in the same form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bold: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub faint: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub italic: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub underline: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strikethrough: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blink: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inverse: bool,
}
