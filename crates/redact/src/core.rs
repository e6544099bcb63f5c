//! What a redactor knows, shared by everything that scans for it.

use crate::extra::Compiled;
use crate::rules::Rules;
use crate::secrets::Secrets;
use std::sync::Arc;

/// What a redactor knows.
pub(crate) struct Core {
    pub(crate) rules: Rules,
    /// What each byte may be to the scanner.
    pub(crate) kinds: [u8; 256],
    pub(crate) extra: Arc<[Compiled]>,
    pub(crate) secrets: Option<Secrets>,
}
