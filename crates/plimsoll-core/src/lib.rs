//! The Plimsoll scheduling engine.
