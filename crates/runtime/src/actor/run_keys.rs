//! The keys of a session's runs. A caller that sends a key with every command sends a new one almost always, and a session
//! that is awake can say so itself; only a key that it may know is looked up in the store.

use shellkeep_session::{SessionId, SessionState, StoredRun};
use shellkeep_store::{ReadError, RequestIndex, Store};
use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

/// The most keys that a session remembers while it is awake, 8 bytes each. One with more asks the store about each.
const MOST_KEYS: usize = 1 << 16;
/// A session that was woken asks the store about this many keys before it reads all of them: one that is woken for a command
/// or two does not pay for its whole history.
const ASKED_SINGLY: u8 = 2;

/// What a session that is awake knows about the keys of its runs.
#[derive(Debug)]
pub(super) enum RunKeys {
    /// Nothing yet; the store was asked about this many keys.
    Unread { asked: u8 },
    /// All of them, as hashes. Two keys with the same hash cost a look-up and nothing else.
    Read { hasher: RandomState, hashes: HashSet<u64> },
    /// There are too many to remember.
    TooMany,
}

impl RunKeys {
    /// The keys of a session in this state. One that never had a shell ran nothing.
    pub(super) fn of(state: &SessionState) -> Self {
        if state.generation == 0 { Self::none() } else { Self::Unread { asked: 0 } }
    }

    fn none() -> Self {
        Self::Read { hasher: RandomState::new(), hashes: HashSet::new() }
    }

    /// The run with this key, from the store, which is asked only about a key that may be there.
    pub(super) async fn find(
        &mut self,
        key: &str,
        store: &Store,
        session_id: &SessionId,
    ) -> Result<Option<StoredRun>, ReadError> {
        let index = RequestIndex::of(store, session_id);
        if let Self::Unread { asked } = self {
            if *asked < ASKED_SINGLY {
                *asked += 1;
                return index.run(key).await;
            }
            *self = match index.run_keys(MOST_KEYS).await? {
                Some(keys) => {
                    let mut known = Self::none();
                    keys.iter().for_each(|key| known.add(key));
                    known
                }
                None => Self::TooMany,
            };
        }
        match self {
            Self::Read { hasher, hashes } if !hashes.contains(&hasher.hash_one(key)) => Ok(None),
            _ => index.run(key).await,
        }
    }

    /// A run with this key starts.
    pub(super) fn add(&mut self, key: &str) {
        let Self::Read { hasher, hashes } = self else { return };
        hashes.insert(hasher.hash_one(key));
        if hashes.len() > MOST_KEYS {
            *self = Self::TooMany;
        }
    }
}
