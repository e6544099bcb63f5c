//! A daemon that pauses writes, as events: `held` at once, `released` when the pause ends.

use super::write::event;
use serde_json::json;
use shellkeep_runtime::Hold;

/// A pause that ends with its reader.
pub struct Held {
    pub hold: Hold,
    pub told: u8,
}

impl Held {
    /// The next events.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        let name = match self.told {
            0 => "held",
            1 => {
                self.hold.over().await;
                "released"
            }
            _ => return None,
        };
        self.told += 1;
        let mut events = Vec::new();
        event(&mut events, name, &json!({}));
        Some(events)
    }
}
