//! Clusters that nodes belong to, and what it means for a pod to run in another than its own.

/// A cluster, by its place among those that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(u16);

impl ClusterId {
    /// Its place.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// More clusters than anybody has: what is kept grows with their square.
const MOST: usize = 1000;

/// What a pod pays for running away from its home.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Away {
    /// Milliseconds that are added to its latency.
    pub ms: f64,
    /// Money an hour for what it sends home, for each core that it asks for.
    pub price: f64,
}

/// The clusters that are known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Clusters {
    names: Vec<String>,
    /// By home, and by where a pod runs.
    away: Vec<Vec<Away>>,
}

impl Clusters {
    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// What one is called.
    pub fn name(&self, id: ClusterId) -> &str {
        self.names.get(id.index()).map_or("", String::as_str)
    }

    /// The cluster of this name.
    pub fn find(&self, name: &str) -> Option<ClusterId> {
        let at = self.names.iter().position(|known| known == name)?;
        u16::try_from(at).ok().map(ClusterId)
    }

    /// The cluster at this place.
    pub fn at(&self, place: usize) -> Option<ClusterId> {
        u16::try_from(place).ok().filter(|_| place < self.names.len()).map(ClusterId)
    }

    /// The cluster of this name, which is known from now on; none if there are too many to be told apart.
    pub fn know(&mut self, name: &str) -> Option<ClusterId> {
        if let Some(known) = self.find(name) {
            return Some(known);
        }
        let id = u16::try_from(self.names.len()).ok().filter(|_| self.names.len() < MOST).map(ClusterId)?;
        self.names.push(name.to_owned());
        self.away.iter_mut().for_each(|row| row.push(Away::default()));
        self.away.push(vec![Away::default(); self.names.len()]);
        Some(id)
    }

    /// Says what pods whose home is the one pay for running in the other.
    pub fn set_away(&mut self, home: ClusterId, at: ClusterId, away: Away) {
        if let Some(slot) = self.away.get_mut(home.index()).and_then(|row| row.get_mut(at.index())) {
            *slot = away;
        }
    }

    /// What a pod whose home is the one pays for running in the other; none if it is at home, or nobody knows where it is.
    pub fn away(&self, home: Option<ClusterId>, at: Option<ClusterId>) -> Option<Away> {
        let (home, at) = home.zip(at).filter(|(home, at)| home != at)?;
        self.away.get(home.index())?.get(at.index()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_pays_for_being_away_and_not_at_home() {
        let mut clusters = Clusters::default();
        let [a, b] = ["a", "b"].map(|name| clusters.know(name).unwrap());
        assert_eq!((clusters.know("a"), clusters.find("b"), clusters.find("c")), (Some(a), Some(b), None));
        let far = Away { ms: 20.0, price: 0.5 };
        clusters.set_away(a, b, far);
        assert_eq!(clusters.away(Some(a), Some(b)), Some(far));
        assert_eq!(clusters.away(Some(b), Some(a)), Some(Away::default()));
        assert_eq!((clusters.away(Some(a), Some(a)), clusters.away(None, Some(a))), (None, None));
    }
}
