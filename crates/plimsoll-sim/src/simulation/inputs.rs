//! What a run is made of, borrowed or shared.
//!
//! A run from end to end borrows its inputs. One that is stepped from outside and kept for as long as somebody likes shares them.

use super::Settings;
use crate::fleet::Fleet;
use crate::scenario::Prepared;
use crate::workload::Workload;
use crate::world::World;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// What a run is made of.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The pods.
    pub workload: &'a Workload,
    /// The machines.
    pub fleet: &'a Fleet,
    /// The models.
    pub world: &'a World,
    /// How it is to go.
    pub settings: &'a Settings,
}

impl Setup<'_> {
    /// From when to when a run is measured, which is to its end.
    pub fn measured(&self) -> (Duration, Duration) {
        let end = self.settings.horizon.unwrap_or_else(|| self.workload.span());
        (end.mul_f64(self.settings.warmup.clamp(0.0, 1.0)), end)
    }
}

/// Something that a run reads: lent for its time, or shared with it.
#[derive(Debug)]
pub enum Held<'a, T> {
    /// Lent.
    Lent(&'a T),
    /// Shared.
    Shared(Arc<T>),
}

impl<T> Clone for Held<'_, T> {
    fn clone(&self) -> Self {
        match self {
            Self::Lent(lent) => Self::Lent(lent),
            Self::Shared(shared) => Self::Shared(Arc::clone(shared)),
        }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Lent(lent) => lent,
            Self::Shared(shared) => shared,
        }
    }
}

impl<T> From<T> for Held<'_, T> {
    fn from(owned: T) -> Self {
        Self::Shared(Arc::new(owned))
    }
}

/// What a run is made of, as the run keeps it.
#[derive(Clone)]
pub struct Inputs<'a> {
    /// The pods.
    pub workload: Held<'a, Workload>,
    /// The machines.
    pub fleet: Held<'a, Fleet>,
    /// The models.
    pub world: Held<'a, World>,
    /// How it is to go.
    pub settings: Held<'a, Settings>,
}

impl Inputs<'_> {
    /// The same, to look at.
    pub fn setup(&self) -> Setup<'_> {
        Setup { workload: &self.workload, fleet: &self.fleet, world: &self.world, settings: &self.settings }
    }
}

impl<'a> From<Setup<'a>> for Inputs<'a> {
    fn from(setup: Setup<'a>) -> Self {
        let Setup { workload, fleet, world, settings } = setup;
        Self {
            workload: Held::Lent(workload),
            fleet: Held::Lent(fleet),
            world: Held::Lent(world),
            settings: Held::Lent(settings),
        }
    }
}

impl From<Prepared> for Inputs<'static> {
    fn from(prepared: Prepared) -> Self {
        let Prepared { workload, fleet, world, settings } = prepared;
        Self { workload: workload.into(), fleet: fleet.into(), world: world.into(), settings: settings.into() }
    }
}
