//! Where facts and resources meet. (being built)

pub mod engine;
pub mod ops;

pub use engine::{Engine, EngineConfig, RunStream};
pub use ops::*;
