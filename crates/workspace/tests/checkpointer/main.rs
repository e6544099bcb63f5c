//! Keeping a workspace's files: real directories, real news from the kernel, a real repository.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod budgets;
mod changes;
mod copied;
mod fixture;
mod ignoring;
mod model;
mod odd;
mod outside;
mod races;
mod sharing;
mod waking;
