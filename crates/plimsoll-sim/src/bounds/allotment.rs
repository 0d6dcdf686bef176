//! The least cost of machines that together serve a demand, when machines may be taken in fractions.
//!
//! Each pool offers ways to run one of its machines; a way costs something and supplies something. The linear program chooses how many
//! machines run in each way. Usually one resource decides: then each pool's cost is a convex function of what it supplies of that
//! resource, and filling the cheapest pieces first is optimal. If the machines so chosen happen to have enough of everything else, that
//! is the optimum of the whole program; otherwise the solver is asked.

use super::demand::RESOURCES;
use good_lp::{Expression, Solution, SolverModel, constraint, microlp, variable, variables};

/// One way to run a machine of a pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub pool: usize,
    pub cost: f64,
    pub supplies: [f64; RESOURCES],
}

/// A stretch of a pool's least cost by supply of one resource.
#[derive(Debug, Clone, Copy)]
struct Piece {
    slope: f64,
    /// How much of the resource the stretch supplies, over the pool.
    length: f64,
    /// What running the whole stretch adds to the supply of everything.
    adds: [f64; RESOURCES],
}

/// Pools with their ways, made ready for many demands.
#[derive(Debug)]
pub(super) struct Allotment {
    ways: Vec<Way>,
    limits: Vec<f64>,
    totals: [f64; RESOURCES],
    pieces: [Vec<Piece>; RESOURCES],
}

/// Relative slack when supplies are compared with demand: far above rounding, far below anything of interest.
const SLACK: f64 = 1e-9;

impl Allotment {
    /// Costs must not be negative; a pool without machines offers nothing.
    pub fn new(ways: Vec<Way>, limits: Vec<f64>) -> Self {
        let mut totals = [0.0; RESOURCES];
        for (pool, limit) in limits.iter().enumerate() {
            for (r, total) in totals.iter_mut().enumerate() {
                let most = ways.iter().filter(|way| way.pool == pool).map(|way| way.supplies[r]);
                *total += limit * most.fold(0.0, f64::max);
            }
        }
        let pieces = std::array::from_fn(|r| {
            let mut pieces: Vec<Piece> =
                limits.iter().enumerate().flat_map(|(pool, limit)| hull(&ways, pool, *limit, r)).collect();
            pieces.sort_by(|a, b| a.slope.total_cmp(&b.slope));
            pieces
        });
        Self { ways, limits, totals, pieces }
    }

    /// The least cost of supplying a demand, or, where it exceeds what all machines have, what they have of it.
    pub fn least_cost(&self, demand: &[f64; RESOURCES]) -> f64 {
        let demand: [f64; RESOURCES] = std::array::from_fn(|r| demand[r].min(self.totals[r]));
        let mut least = 0.0_f64;
        for r in 0..RESOURCES {
            let (cost, supplied) = self.fill(r, demand[r]);
            let enough = (0..RESOURCES).all(|other| supplied[other] >= demand[other] - SLACK * self.totals[other]);
            if enough {
                return cost;
            }
            least = least.max(cost);
        }
        // The dearest of the resources by itself is a bound too, should the solver fail.
        self.solve(&demand).map_or(least, |cost| cost.max(least))
    }

    /// Fills one resource from the cheapest pieces: what it costs and what comes with it.
    fn fill(&self, resource: usize, demand: f64) -> (f64, [f64; RESOURCES]) {
        let mut left = demand;
        let mut cost = 0.0;
        let mut supplied = [0.0; RESOURCES];
        for piece in &self.pieces[resource] {
            if left <= 0.0 {
                break;
            }
            let taken = left.min(piece.length);
            cost += taken * piece.slope;
            for (sum, adds) in supplied.iter_mut().zip(piece.adds) {
                *sum += adds * taken / piece.length;
            }
            left -= taken;
        }
        (cost, supplied)
    }

    /// The linear program, by the solver; every row is in units of what the fleet has, so that bytes and threads weigh alike.
    pub fn solve(&self, demand: &[f64; RESOURCES]) -> Option<f64> {
        let mut variables = variables!();
        let machines: Vec<_> = self.ways.iter().map(|_| variables.add(variable().min(0.0))).collect();
        let cost: Expression = self.ways.iter().zip(&machines).map(|(way, machines)| way.cost * *machines).sum();
        let mut model = variables.minimise(cost).using(microlp);
        for (pool, limit) in self.limits.iter().enumerate() {
            let taken: Expression = self
                .ways
                .iter()
                .zip(&machines)
                .filter(|(way, _)| way.pool == pool)
                .map(|(_, machines)| *machines)
                .sum();
            model = model.with(constraint!(taken <= *limit));
        }
        for (r, total) in self.totals.iter().enumerate() {
            if demand[r] > 0.0 && *total > 0.0 {
                let supplied: Expression =
                    self.ways.iter().zip(&machines).map(|(way, machines)| way.supplies[r] / total * *machines).sum();
                model = model.with(constraint!(supplied >= (demand[r] / total).min(1.0 - SLACK)));
            }
        }
        let solution = model.solve().ok()?;
        Some(self.ways.iter().zip(&machines).map(|(way, machines)| way.cost * solution.value(*machines)).sum())
    }
}

/// A pool's least cost by its supply of one resource, as pieces of growing slope: the lower convex hull of its ways and of resting.
fn hull(ways: &[Way], pool: usize, limit: f64, r: usize) -> Vec<Piece> {
    let rest = Way { pool, cost: 0.0, supplies: [0.0; RESOURCES] };
    let mut points: Vec<Way> = ways.iter().filter(|way| way.pool == pool && way.supplies[r] > 0.0).copied().collect();
    points.push(rest);
    points.sort_by(|a, b| a.supplies[r].total_cmp(&b.supplies[r]).then(a.cost.total_cmp(&b.cost)));
    points.dedup_by(|next, kept| next.supplies[r] == kept.supplies[r]);

    let mut corners: Vec<Way> = Vec::new();
    for point in points {
        while let [.., before, last] = corners.as_slice() {
            let rise = (last.cost - before.cost) * (point.supplies[r] - last.supplies[r]);
            let next = (point.cost - last.cost) * (last.supplies[r] - before.supplies[r]);
            if rise < next {
                break;
            }
            corners.pop();
        }
        corners.push(point);
    }
    corners
        .windows(2)
        .map(|pair| Piece {
            slope: ((pair[1].cost - pair[0].cost) / (pair[1].supplies[r] - pair[0].supplies[r])).max(0.0),
            length: (pair[1].supplies[r] - pair[0].supplies[r]) * limit,
            adds: std::array::from_fn(|other| (pair[1].supplies[other] - pair[0].supplies[other]) * limit),
        })
        .filter(|piece| piece.length > 0.0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ways() -> impl Strategy<Value = (Vec<Way>, Vec<f64>)> {
        let pool = (1_u32..20, prop::collection::vec((1.0..500.0, 0.0..100.0), 1..8), 10.0..400.0);
        prop::collection::vec(pool, 1..5).prop_map(|pools| {
            let mut ways = Vec::new();
            let mut limits = Vec::new();
            for (pool, (count, points, memory)) in pools.into_iter().enumerate() {
                limits.push(f64::from(count));
                ways.extend(points.into_iter().map(|(cost, cpu)| Way {
                    pool,
                    cost,
                    supplies: [cpu, memory, 0.0, 110.0],
                }));
            }
            (ways, limits)
        })
    }

    proptest! {
        #[test]
        fn filling_and_the_solver_agree((ways, limits) in ways(), shares in prop::array::uniform4(0.0..1.0_f64)) {
            let allotment = Allotment::new(ways, limits);
            let demand = std::array::from_fn(|r| allotment.totals[r] * shares[r] * 0.6);
            let by_solver = allotment.solve(&demand).expect("the demand is within the fleet");
            let least = allotment.least_cost(&demand);
            prop_assert!((least - by_solver).abs() <= 1e-6 * by_solver.max(1.0), "{least} against {by_solver}");
        }
    }
}
