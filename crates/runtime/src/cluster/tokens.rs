//! Tokens that all nodes accept. Each node has all of them in its own file; the shared store has them for nodes that were not
//! there when one was created or revoked.

use shellkeep_session::Timestamp;
use shellkeep_shared::{SharedToken, Ship};
use shellkeep_store::{TokenBearer, TokenRecord};
use std::sync::Arc;
use tokio::sync::watch;

/// The tokens in the shared store.
pub(crate) struct Tokens {
    ship: Arc<Ship>,
}

impl Tokens {
    pub(super) fn new(ship: Arc<Ship>) -> Self {
        Self { ship }
    }

    /// Gives tokens to all nodes. While the shared store is unreachable nothing happens: they are given again when it is back.
    pub(crate) async fn share(&self, records: Vec<TokenRecord>) {
        let tokens: Vec<SharedToken> = records.iter().filter(|record| is_for_all(record)).filter_map(shared).collect();
        if !tokens.is_empty() {
            let _ = self.ship.ask(move |tier| tier.put_tokens(&tokens)).await;
        }
    }

    /// What all nodes accept or have revoked, as far as the shared store answers.
    pub(crate) async fn all(&self) -> Vec<TokenRecord> {
        let tokens = self.ship.ask(|tier| tier.tokens()).await.unwrap_or_default();
        let record = |token: SharedToken| {
            let record: TokenRecord = serde_json::from_str(&token.record).ok()?;
            // What the store says of it counts, whatever the record says.
            let revoked_at = record.revoked_at.or_else(|| token.is_revoked.then(Timestamp::now));
            Some(TokenRecord { revoked_at, ..record })
        };
        tokens.into_iter().filter_map(record).filter(is_for_all).collect()
    }

    /// Changes whenever the tokens in the shared store do.
    pub(crate) fn changes(&self) -> watch::Receiver<Option<u64>> {
        self.ship.tokens()
    }
}

/// Whether a token is for all nodes. One of the console is for the browser that this node gave it to, and expires soon.
fn is_for_all(record: &TokenRecord) -> bool {
    !matches!(record.bearer, TokenBearer::Console { .. })
}

fn shared(record: &TokenRecord) -> Option<SharedToken> {
    let (id, is_revoked) = (record.id.clone(), record.revoked_at.is_some());
    Some(SharedToken { id, is_revoked, record: serde_json::to_string(record).ok()? })
}
