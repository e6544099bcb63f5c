//! Shared stores in memory, for tests with several nodes in one process.

use crate::sync::lock;
use shellkeep_shared::memory::MemoryTier;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

static TIERS: LazyLock<Mutex<HashMap<String, MemoryTier>>> = LazyLock::new(Mutex::default);

/// The shared store of a URL such as `memory://NAME`, the same for everybody who asks; `None` if it is another kind of URL.
pub(crate) fn at(url: &str) -> Option<MemoryTier> {
    url.starts_with("memory://").then(|| lock(&TIERS).entry(url.to_owned()).or_default().clone())
}
