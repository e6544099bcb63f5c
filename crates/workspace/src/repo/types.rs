//! What is put into a repository and comes out of it, as plain data.

use gix_hash::ObjectId;

/// The header of a commit that names the side tree.
pub(super) const META_HEADER: &str = "shellkeep-meta";
/// Author of a commit that names none.
const NOBODY: &str = "shellkeep";

/// What an entry of a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    File {
        /// Whether its owner may run it.
        executable: bool,
    },
    /// A symbolic link; its blob is where it points.
    Link,
    Directory,
}

impl Kind {
    /// The mode that git writes for it.
    pub fn mode(self) -> u32 {
        match self {
            Self::File { executable: false } => 0o100_644,
            Self::File { executable: true } => 0o100_755,
            Self::Link => 0o120_000,
            Self::Directory => 0o040_000,
        }
    }
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its true name, not escaped.
    pub name: Vec<u8>,
    pub kind: Kind,
    /// Its blob or tree.
    pub id: ObjectId,
}

/// Who a commit is by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// Name; what git does not allow in it is left out.
    pub name: String,
    /// Address, with the same left out.
    pub email: String,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    pub tree: ObjectId,
    /// The side tree: what git's trees cannot say of the workspace.
    pub meta: Option<ObjectId>,
    /// Parents that were thinned out are named and not there.
    pub parents: Vec<ObjectId>,
    pub author: Author,
    /// Seconds since 1970.
    pub seconds: i64,
    pub message: String,
}

impl Commit {
    /// As git writes it down. What has no place in a header is left out, so that no one's name can forge one.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let clean = |text: &str| {
            let text: String =
                text.chars().filter(|letter| !matches!(letter, '<' | '>') && !letter.is_control()).collect();
            let text = text.trim().to_owned();
            if text.is_empty() { NOBODY.to_owned() } else { text }
        };
        let who = format!("{} <{}> {} +0000", clean(&self.author.name), clean(&self.author.email), self.seconds.max(0));
        let mut text = format!("tree {}\n", self.tree);
        for parent in &self.parents {
            text.push_str(&format!("parent {parent}\n"));
        }
        text.push_str(&format!("author {who}\ncommitter {who}\n"));
        if let Some(meta) = self.meta {
            text.push_str(&format!("{META_HEADER} {meta}\n"));
        }
        text.push('\n');
        text.push_str(&self.message.replace('\0', "\u{fffd}"));
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.into_bytes()
    }
}

/// What making the repository smaller brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reclaimed {
    /// Bytes on the disk before.
    pub before: u64,
    /// Bytes on the disk after.
    pub after: u64,
    /// Tags that were dropped.
    pub tags: u64,
}

impl Reclaimed {
    /// Bytes that are free again.
    pub fn bytes(&self) -> u64 {
        self.before.saturating_sub(self.after)
    }
}
