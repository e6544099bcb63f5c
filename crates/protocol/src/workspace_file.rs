//! Single files of a session's workspace.

use crate::query::Switch;
use crate::run::NoticeView;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Query of `GET …/files`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListFilesParams {
    /// The path, relative to the workspace or absolute inside it; by default the workspace itself.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path: Option<String>,
    /// The same, for a path that is not UTF-8.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path_base64: Option<String>,
    /// Maximum number of entries of a directory to return.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(default = 1000, minimum = 1, maximum = 10000)]
    pub limit: Option<usize>,
    /// Where the page starts: `next` of the previous page.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub after: Option<String>,
}

/// Query of `GET …/files/content`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReadFileParams {
    /// The path, relative to the workspace or absolute inside it.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path: Option<String>,
    /// The same, for a path that is not UTF-8.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path_base64: Option<String>,
    /// First byte to return, from 0.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(default = 0)]
    pub offset: Option<u64>,
    /// Maximum number of bytes to return; by default all that follow, at most 64 MiB.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub limit: Option<u64>,
}

/// Query of `PUT …/files/content`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WriteFileParams {
    /// The path, relative to the workspace or absolute inside it.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path: Option<String>,
    /// The same, for a path that is not UTF-8.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path_base64: Option<String>,
    /// Permissions in octal, such as `0644`; by default a file keeps its permissions, and a new one gets the usual
    /// ones.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(pattern = "^[0-7]{3,4}$")]
    pub mode: Option<String>,
}

/// Query of `DELETE …/files/content`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RemoveFileParams {
    /// The path, relative to the workspace or absolute inside it.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path: Option<String>,
    /// The same, for a path that is not UTF-8.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path_base64: Option<String>,
    /// Whether to remove a directory with everything in it.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(default = false, value_type = Option<bool>)]
    pub recursive: Option<Switch>,
}

/// What is at a path, and in it if it is a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileListing {
    /// What is at the path.
    pub file: FileEntry,
    /// What is in the directory, by name. Absent if it is not a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<FileEntry>>,
    /// Where the next page starts; `null` if this is the last.
    pub next: Option<String>,
}

/// What is at a path. A symbolic link is not followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileEntry {
    /// The path, relative to the workspace; `.` for the workspace itself.
    pub path: String,
    /// The exact bytes of it, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// The last part of the path.
    pub name: String,
    /// Its kind.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
    /// Its permissions in octal, such as `0644`.
    #[schema(example = "0644")]
    pub mode: String,
    /// When its content last changed.
    pub modified_at: String,
    /// Where a symbolic link points to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A pipe, a socket or a device.
    Other,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileWritten {
    /// The path, relative to the workspace.
    pub path: String,
    /// The exact bytes of it, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Its size in bytes.
    pub size: u64,
    /// The SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// Number of the record, to rewind or fork to.
    pub seq: u64,
    /// Notices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<NoticeView>,
}

/// A file or directory that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileRemoved {
    /// The path, relative to the workspace.
    pub path: String,
    /// The exact bytes of it, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Number of the record; a rewind to the previous one restores it.
    pub seq: u64,
    /// Notices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<NoticeView>,
}
