//! The vocabulary of single files in a session's workspace.

pub use shellkeep_workspace::tree::{
    Content as FileContent, Entry as FileEntry, EntryKind, Expected as ExpectedFile, MAX_FILE_BYTES,
};

use super::Hint;
use shellkeep_session::{ByteString, Notice};

/// Default number of entries per page.
pub const DEFAULT_FILE_PAGE: usize = 1000;
/// Maximum number of entries per page.
pub const MAX_FILE_PAGE: usize = 10_000;

/// What is at a path, and in it if it is a directory.
#[derive(Debug, Clone)]
pub struct FileListing {
    /// What is at the path.
    pub file: FileEntry,
    /// What is in the directory, by name; none if it is not a directory.
    pub files: Option<Vec<FileEntry>>,
    /// Where the next page starts, if there is one: pass it as `after`.
    pub next: Option<ByteString>,
}

/// Which part of a file to read.
#[derive(Debug, Clone, Copy, Default)]
pub struct FilePart {
    /// The first byte.
    pub offset: u64,
    /// Most bytes; without it, all that follow.
    pub limit: Option<u64>,
}

/// A file to write.
#[derive(Debug, Clone)]
pub struct WriteFile {
    /// Its path, relative to the workspace or absolute inside it.
    pub path: ByteString,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Its permissions; by default those of the existing file, or the usual ones.
    pub mode: Option<u32>,
    /// The precondition.
    pub expected: ExpectedFile,
}

/// A file that was written.
#[derive(Debug, Clone)]
pub struct FileWritten {
    /// Its path, relative to the workspace.
    pub path: ByteString,
    pub size: u64,
    /// The SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// Whether nothing was there before.
    pub is_new: bool,
    /// Number of the record.
    pub seq: u64,
    pub notices: Vec<Notice>,
}

/// A file to remove, or a link or a directory.
#[derive(Debug, Clone)]
pub struct RemoveFile {
    /// Its path, relative to the workspace or absolute inside it.
    pub path: ByteString,
    /// Whether a directory is removed with everything in it.
    pub recursive: bool,
    /// The precondition.
    pub expected: ExpectedFile,
}

/// A file that was removed.
#[derive(Debug, Clone)]
pub struct FileRemoved {
    /// Its path, relative to the workspace.
    pub path: ByteString,
    /// Number of the record.
    pub seq: u64,
    pub notices: Vec<Notice>,
}

/// Why a file was not read, written or removed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FileError {
    /// The path leads out of the workspace.
    #[error(
        "'{path}' is outside the session's workspace, or a symbolic link on the way leads out of it; paths are relative to the workspace {workspace}, or absolute inside it"
    )]
    Outside { path: String, workspace: String },
    /// There is nothing at the path.
    #[error("there is no file '{path}' in the session's workspace")]
    NotFound { path: String },
    /// There is a link at the path, and nothing where it leads to.
    #[error("'{path}' is a symbolic link to a path that does not exist; write to that path, or remove the link")]
    Dangling { path: String },
    /// A directory is where a file should be.
    #[error("'{path}' names a directory, not a file")]
    IsDirectory { path: String },
    /// It is a pipe, a socket or a device.
    #[error("'{path}' is not a regular file; it cannot be read or written this way")]
    NotAFile { path: String },
    /// Something else is where a directory is needed.
    #[error("'{path}' was not written: '{above}' is not a directory")]
    NotADirectory {
        path: String,
        /// What is not a directory.
        above: String,
    },
    /// The path leads through too many symbolic links.
    #[error("'{path}' leads through too many symbolic links; some of them may point to each other")]
    LinkLoop { path: String },
    /// It was replaced each time that it was looked at.
    #[error("'{path}', or a directory above it, keeps being replaced; try again when the session is idle")]
    Unsteady { path: String },
    /// The directory is not empty.
    #[error("directory '{path}' is not empty")]
    NotEmpty { path: String },
    /// The file is larger than one call returns.
    #[error("'{path}' has {size} bytes, more than the {limit} bytes of one call")]
    TooLarge {
        path: String,
        size: u64,
        /// Most that one call returns.
        limit: u64,
    },
    /// The file is not what the caller expected.
    #[error(
        "'{path}' was not changed: {}; read it again before you change it",
        if current.is_some() { "it is not the expected file" } else { "there is no file of up to 64 MiB there to compare" }
    )]
    Unexpected {
        path: String,
        /// The SHA-256 of the existing file, if there is one.
        current: Option<String>,
    },
}

impl FileError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Outside { .. } => "path_outside",
            Self::NotFound { .. } | Self::Dangling { .. } => "file_not_found",
            Self::IsDirectory { .. } => "is_directory",
            Self::NotAFile { .. } => "not_a_file",
            Self::NotADirectory { .. } => "not_a_directory",
            Self::LinkLoop { .. } => "link_loop",
            Self::Unsteady { .. } => "file_unsteady",
            Self::NotEmpty { .. } => "directory_not_empty",
            Self::TooLarge { .. } => "too_large",
            Self::Unexpected { .. } => "precondition_failed",
        }
    }

    /// What to do next, where it depends on the door.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotFound { .. } | Self::IsDirectory { .. } => Some(Hint::ListFiles),
            Self::NotEmpty { .. } => Some(Hint::RemoveTree),
            Self::TooLarge { .. } => Some(Hint::ReadInParts),
            _ => None,
        }
    }

    /// The path it is about.
    pub fn path(&self) -> &str {
        match self {
            Self::Outside { path, .. }
            | Self::NotFound { path }
            | Self::Dangling { path }
            | Self::IsDirectory { path }
            | Self::NotAFile { path }
            | Self::NotADirectory { path, .. }
            | Self::LinkLoop { path }
            | Self::Unsteady { path }
            | Self::NotEmpty { path }
            | Self::TooLarge { path, .. }
            | Self::Unexpected { path, .. } => path,
        }
    }
}
