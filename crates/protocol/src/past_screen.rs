//! The screens that a run with a terminal had.

use crate::query::Switch;
use crate::screen::{ScreenCursor, ScreenSpan};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Query of `GET …/runs/{run_id}/screens`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PastScreenParams {
    /// The moment of the first screen, in milliseconds since the run started.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(default = 0)]
    pub from_ms: Option<u64>,
    /// Maximum number of screens to return, 1–1000.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(minimum = 1, maximum = 1000, default = 100)]
    pub limit: Option<usize>,
    /// Whether to mask secrets.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>, default = false)]
    pub redact: Option<Switch>,
}

/// The screens that a run with a terminal had, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PastScreenList {
    /// The run.
    pub run_id: String,
    /// The screens.
    pub screens: Vec<PastScreen>,
    /// Pass this as `from_ms` for the next page; `null` on the last one.
    pub next: Option<u64>,
}

/// A screen as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PastScreen {
    /// When it was drawn, in milliseconds since the run started.
    pub at_ms: u64,
    pub rows: u16,
    pub cols: u16,
    pub cursor: ScreenCursor,
    /// Whether the program used the alternate screen, as full-screen programs do.
    pub alternate: bool,
    /// The rows that differ from those of the screen before it in the list; of the first screen, all rows.
    pub changed: Vec<PastScreenRow>,
}

/// A row of a screen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PastScreenRow {
    /// Which one, counted from 0.
    pub row: usize,
    /// Its pieces of text, each in one style.
    pub cells: Vec<ScreenSpan>,
}
