//! For tests and benchmarks: real servers on free ports, with their files in temporary directories. They can be killed and
//! started again.

mod database;
mod process;
mod redis;

pub use database::{DatabaseServer, Kind};
pub use process::{ServerProcess, free_port};
pub use redis::RedisServer;
