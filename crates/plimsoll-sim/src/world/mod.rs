//! Models of the world: what running pods on machines costs and how it feels. One file a model.

pub mod power;
