//! Random commands for the core: a [`World`] draws steps, whose agents, requests and owners are labels, and
//! [`Labels`] makes commands of them.

mod durable;
mod labels;
mod step;
mod world;

pub use durable::{Durable, DurableView, Presented};
pub use labels::{Labels, Lists, Present, foreign};
pub use step::{Action, Ask, FOREIGN, Label, Start, Step, Story};
pub use world::{View, World};
