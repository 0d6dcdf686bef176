//! Services that call each other, and how often.

/// A service, by its place among those that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId(u32);

/// Who calls whom.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calls {
    names: Vec<String>,
    /// The services that each calls or is called by, with how often for each request of a user.
    partners: Vec<Vec<(ServiceId, f64)>>,
}

impl Calls {
    /// Calls from one service to another, each so often for a request of a user. What a service does by itself does not count.
    pub fn new<'a>(calls: impl IntoIterator<Item = (&'a str, &'a str, f64)>) -> Self {
        let mut known = Self::default();
        for (from, to, per_request) in calls.into_iter().filter(|(from, to, _)| from != to) {
            let [from, to] = [from, to].map(|name| known.know(name));
            for (one, other) in [(from, to), (to, from)] {
                let partners = &mut known.partners[one.0 as usize];
                match partners.iter_mut().find(|(partner, _)| *partner == other) {
                    Some((_, sum)) => *sum += per_request,
                    None => partners.push((other, per_request)),
                }
            }
        }
        known
    }

    fn know(&mut self, name: &str) -> ServiceId {
        self.find(name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.partners.push(Vec::new());
            ServiceId(self.names.len() as u32 - 1)
        })
    }

    /// The service of this name; none if it neither calls nor is called.
    pub fn find(&self, name: &str) -> Option<ServiceId> {
        self.names.iter().position(|known| known == name).map(|at| ServiceId(at as u32))
    }

    /// The services that this one calls or is called by, with how often for each request of a user.
    pub fn partners(&self, service: ServiceId) -> &[(ServiceId, f64)] {
        self.partners.get(service.0 as usize).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_count_both_ways_and_add_up() {
        let calls = Calls::new([("a", "b", 2.0), ("b", "a", 0.5), ("c", "a", 1.0), ("c", "c", 9.0)]);
        let [a, b, c] = ["a", "b", "c"].map(|name| calls.find(name).unwrap());
        assert_eq!(calls.partners(a), [(b, 2.5), (c, 1.0)]);
        assert_eq!(calls.partners(b), [(a, 2.5)]);
        assert_eq!(calls.partners(c), [(a, 1.0)]);
        assert_eq!(calls.find("d"), None);
    }
}
