//! Shared stores in memory, for tests with several nodes in one process.

use crate::sync::lock;
use shellkeep_shared::memory::MemoryTier;
use shellkeep_shared::{NodeEntry, Remembered, Ship, ShipOptions, WhenAlone};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use tokio::sync::mpsc;

static TIERS: LazyLock<Mutex<HashMap<String, MemoryTier>>> = LazyLock::new(Mutex::default);

/// The shared store of a URL such as `memory://NAME`, the same for everybody who asks; `None` if it is another kind of URL.
pub(crate) fn at(url: &str) -> Option<MemoryTier> {
    url.starts_with("memory://").then(|| lock(&TIERS).entry(url.to_owned()).or_default().clone())
}

/// The ship of node `n1` over a shared store. Nobody is told its news.
pub(crate) fn ship(tier: &MemoryTier) -> Arc<Ship> {
    let node = NodeEntry { name: "n1".to_owned(), ..NodeEntry::default() };
    let (when_alone, remembered, news) = (WhenAlone::Serve, Remembered::default(), mpsc::unbounded_channel().0);
    let options = ShipOptions { tier: Box::new(tier.clone()), node, when_alone, remembered, news };
    Arc::new(Ship::start(options).unwrap())
}
