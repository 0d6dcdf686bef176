//! A scenario made ready: checked once, with everything that a request needs, so that users do nothing but send.

use crate::scenario::{Request, Scenario, ScenarioError, Stage, Think, Transaction};
use rand::Rng;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// The methods that goose can count.
const METHODS: [Method; 6] = [Method::DELETE, Method::GET, Method::HEAD, Method::PATCH, Method::POST, Method::PUT];
/// More stages, transactions or requests than a person writes, and few enough that figures of each fit on a screen.
const MOST: usize = 100;
/// The longest name: a table of reports still fits a terminal.
const LONGEST_NAME: usize = 64;
/// A day: times are multiplied and added, and must not leave the range of the clock.
const LONGEST_SECONDS: f64 = 86_400.0;

/// What users do.
#[derive(Debug)]
pub(crate) struct Plan {
    pub target: Url,
    pub stages: Vec<Stage>,
    pub transactions: Vec<Planned>,
    /// The names of requests, in the order of the scenario.
    pub names: Vec<Arc<str>>,
    pub think: Think,
    pub max_requests_per_second: Option<u32>,
    pub seed: u64,
    pub cookies: bool,
}

/// A transaction made ready.
#[derive(Debug)]
pub(crate) struct Planned {
    weight: u32,
    pub every: Duration,
    pub requests: Vec<Prepared>,
}

/// A request made ready.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Its place among the names.
    pub name: usize,
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Option<String>,
    pub expect: Vec<u16>,
    pub timeout: Duration,
}

fn invalid(field: impl Into<String>, why: impl Into<String>) -> ScenarioError {
    ScenarioError::Invalid { field: field.into(), why: why.into() }
}

impl Plan {
    /// Checks a scenario and makes it ready.
    pub fn of(scenario: &Scenario) -> Result<Self, ScenarioError> {
        named("name", &scenario.name)?;
        let target = target(&scenario.target)?;
        let stages = stages(scenario)?;
        let think = scenario.think;
        seconds("think.min_seconds", think.min_seconds)?;
        seconds("think.max_seconds", think.max_seconds)?;
        if think.min_seconds > think.max_seconds {
            return Err(invalid(
                "think",
                format!("min_seconds {} is above max_seconds {}", think.min_seconds, think.max_seconds),
            ));
        }
        if scenario.max_requests_per_second == Some(0) {
            return Err(invalid("max_requests_per_second", "it must be at least 1; leave it out for no limit"));
        }
        several("transactions", scenario.transactions.len())?;
        let mut plan = Self {
            target,
            stages,
            transactions: Vec::new(),
            names: Vec::new(),
            think,
            max_requests_per_second: scenario.max_requests_per_second,
            seed: scenario.seed,
            cookies: scenario.cookies,
        };
        for (at, transaction) in scenario.transactions.iter().enumerate() {
            let planned = plan.transaction(scenario, &format!("transactions[{at}]"), transaction)?;
            plan.transactions.push(planned);
        }
        if plan.transactions.iter().all(|transaction| transaction.weight == 0) {
            return Err(invalid("transactions", "all weights are 0, so that none is ever chosen; give one a weight"));
        }
        Ok(plan)
    }

    fn transaction(&mut self, scenario: &Scenario, field: &str, given: &Transaction) -> Result<Planned, ScenarioError> {
        named(&format!("{field}.name"), &given.name)?;
        let field = format!("{field} ({})", given.name);
        several(&format!("{field}: requests"), given.requests.len())?;
        let every = seconds(&format!("{field}: every_seconds"), given.every_seconds.unwrap_or(0.0))?;
        let mut planned = Planned { weight: given.weight, every, requests: Vec::new() };
        for (at, request) in given.requests.iter().enumerate() {
            planned.requests.push(self.request(scenario, &format!("{field}: requests[{at}]"), request)?);
        }
        Ok(planned)
    }

    fn request(&mut self, scenario: &Scenario, field: &str, given: &Request) -> Result<Prepared, ScenarioError> {
        let upper = given.method.to_ascii_uppercase();
        let Some(method) = METHODS.into_iter().find(|method| method.as_str() == upper) else {
            let known = METHODS.map(|method| method.to_string()).join(", ");
            return Err(invalid(
                format!("{field}.method"),
                format!("{:?} is not known; there are {known}", given.method),
            ));
        };
        let url = below(&self.target, &given.path).map_err(|why| invalid(format!("{field}.path"), why))?;
        let mut headers = HeaderMap::new();
        add_headers(&mut headers, "headers", &scenario.headers)?;
        add_headers(&mut headers, &format!("{field}.headers"), &given.headers)?;
        let body = match (&given.body, &given.json) {
            (Some(_), Some(_)) => return Err(invalid(field, "there is a body and a json; leave one out")),
            (body, None) => body.clone(),
            (None, Some(value)) => {
                headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
                Some(value.to_string())
            }
        };
        if let Some(status) = given.expect.iter().find(|status| !(100..=599).contains(*status)) {
            return Err(invalid(
                format!("{field}.expect"),
                format!("{status} is not a status; they are from 100 to 599"),
            ));
        }
        let timeout = given.timeout_seconds.unwrap_or(scenario.timeout_seconds);
        if timeout <= 0.0 {
            return Err(invalid(format!("{field}: timeout_seconds"), "it must be above 0"));
        }
        let timeout = seconds(&format!("{field}: timeout_seconds"), timeout)?;
        let name = match &given.name {
            Some(name) => {
                named(&format!("{field}.name"), name)?;
                name.clone()
            }
            None => format!("{method} {}", given.path).chars().take(LONGEST_NAME).collect(),
        };
        let name = self.name(&name);
        Ok(Prepared { name, method, url, headers, body, expect: given.expect.clone(), timeout })
    }

    fn name(&mut self, name: &str) -> usize {
        self.names.iter().position(|known| **known == *name).unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        })
    }

    /// How long it takes as planned, in seconds.
    pub fn seconds(&self) -> u64 {
        self.stages.iter().map(|stage| u64::from(stage.seconds)).sum()
    }

    /// The most users at a time.
    pub fn users(&self) -> u32 {
        self.stages.iter().map(|stage| stage.users).max().unwrap_or_default()
    }

    /// From when on a user is there, at or after a time: now, later, or never again. Within a stage the number changes evenly, and a user
    /// is there while it is above the user's own.
    pub fn joins(&self, user: usize, at: Duration) -> Option<Duration> {
        let user = user as f64;
        let (mut start, mut from) = (0.0, 0.0);
        for stage in &self.stages {
            let (end, to) = (start + f64::from(stage.seconds), f64::from(stage.users));
            if at.as_secs_f64() < end {
                let now = at.as_secs_f64().max(start);
                if from + (to - from) * (now - start) / (end - start) > user {
                    return Some(at.max(Duration::from_secs_f64(start)));
                } else if to > user {
                    return Some(Duration::from_secs_f64(start + (end - start) * (user - from) / (to - from)));
                }
            }
            (start, from) = (end, to);
        }
        None
    }

    /// The next transaction of a user, by weight.
    pub fn choose(&self, random: &mut impl Rng) -> Option<&Planned> {
        let all: u64 = self.transactions.iter().map(|transaction| u64::from(transaction.weight)).sum();
        let mut left = random.random_range(0..all.max(1));
        self.transactions.iter().find(|transaction| match left.checked_sub(transaction.weight.into()) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        })
    }

    /// How long a user thinks this time.
    pub fn thinks(&self, random: &mut impl Rng) -> Duration {
        Duration::from_secs_f64(random.random_range(self.think.min_seconds..=self.think.max_seconds))
    }
}

fn named(field: &str, name: &str) -> Result<(), ScenarioError> {
    let fits = !name.trim().is_empty() && name.chars().count() <= LONGEST_NAME && !name.chars().any(char::is_control);
    if fits {
        Ok(())
    } else {
        Err(invalid(field, format!("{name:?} must have 1 to {LONGEST_NAME} printable characters")))
    }
}

fn several(field: &str, count: usize) -> Result<(), ScenarioError> {
    match count {
        0 => Err(invalid(field, "there are none; give at least one")),
        count if count > MOST => Err(invalid(field, format!("there are {count}; at most {MOST} are possible"))),
        _ => Ok(()),
    }
}

fn seconds(field: &str, given: f64) -> Result<Duration, ScenarioError> {
    let fits = (0.0..=LONGEST_SECONDS).contains(&given);
    let refuse = || invalid(field, format!("{given} must be from 0 to {LONGEST_SECONDS} seconds"));
    if fits { Ok(Duration::from_secs_f64(given)) } else { Err(refuse()) }
}

fn target(text: &str) -> Result<Url, ScenarioError> {
    let refuse = |why: &str| invalid("target", format!("{text:?} {why}; write it like http://127.0.0.1:8080"));
    let url = Url::parse(text).map_err(|error| refuse(&format!("is not an address ({error})")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(refuse("is neither http:// nor https:// with a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("has a user or password: give them as a header"));
    }
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err(refuse("has more than a host and a port: give paths with the requests"));
    }
    Ok(url)
}

/// The address of a path. One that would lead to another host is refused: only the target was allowed.
fn below(target: &Url, path: &str) -> Result<Url, String> {
    let url = if path.starts_with('/') { target.join(path).ok() } else { None };
    match url {
        Some(url) if url.origin() == target.origin() => Ok(url),
        Some(_) => Err(format!("{path:?} leads to another host than the target")),
        None => Err(format!("{path:?} must begin with /, as in \"/cart?item=1\"")),
    }
}

fn add_headers(to: &mut HeaderMap, field: &str, given: &BTreeMap<String, String>) -> Result<(), ScenarioError> {
    for (name, value) in given {
        let refuse = |why: String| invalid(format!("{field}.{name}"), why);
        let header = HeaderName::try_from(name).map_err(|error| refuse(error.to_string()))?;
        let value = HeaderValue::try_from(value).map_err(|error| refuse(error.to_string()))?;
        to.insert(header, value);
    }
    Ok(())
}

fn stages(scenario: &Scenario) -> Result<Vec<Stage>, ScenarioError> {
    let mut stages = scenario.stages.clone();
    if stages.is_empty() {
        let missing = |field: &str| invalid(field, "it is missing; give users and seconds, or stages");
        let users = scenario.users.ok_or_else(|| missing("users"))?;
        let seconds = scenario.seconds.ok_or_else(|| missing("seconds"))?;
        let rate = scenario.start_per_second.unwrap_or(f64::INFINITY);
        if rate.is_nan() || rate <= 0.0 {
            return Err(invalid("start_per_second", "it must be above 0; leave it out to start all users at once"));
        }
        let start = (f64::from(users) / rate).ceil();
        if start > LONGEST_SECONDS {
            return Err(invalid("start_per_second", "it takes more than a day until all users have started"));
        }
        // Below a day, as was just checked.
        stages = vec![Stage { users, seconds: start as u32 }, Stage { users, seconds }];
    } else if scenario.users.is_some() || scenario.seconds.is_some() || scenario.start_per_second.is_some() {
        return Err(invalid(
            "stages",
            "they stand in place of users, start_per_second and seconds; leave one or the other out",
        ));
    }
    several("stages", stages.len())?;
    if stages[0].users == 0 {
        return Err(invalid(
            if scenario.stages.is_empty() { "users" } else { "stages[0].users" },
            "it must be at least 1",
        ));
    }
    if stages.iter().all(|stage| stage.seconds == 0) {
        return Err(invalid("seconds", "it must be at least 1"));
    }
    Ok(stages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(stages: &[(u32, u32)]) -> Plan {
        Plan {
            target: Url::parse("http://127.0.0.1").unwrap(),
            stages: stages.iter().map(|&(users, seconds)| Stage { users, seconds }).collect(),
            transactions: [3, 0, 1]
                .map(|weight| Planned { weight, every: Duration::ZERO, requests: Vec::new() })
                .into(),
            names: Vec::new(),
            think: Think { min_seconds: 1.0, max_seconds: 2.0 },
            max_requests_per_second: None,
            seed: 1,
            cookies: false,
        }
    }

    #[test]
    fn users_come_and_go_evenly() {
        let plan = plan(&[(10, 10), (10, 5), (2, 8), (4, 0), (4, 3)]);
        let there = |at: f64| {
            let at = Duration::from_secs_f64(at);
            (0..20).filter(|&user| plan.joins(user, at).is_some_and(|join| join <= at)).count()
        };
        for (at, expected) in [
            (0.5, 1),
            (1.5, 2),
            (9.5, 10),
            (12.0, 10),
            (15.5, 10),
            (16.5, 9),
            (22.5, 3),
            (23.5, 4),
            (25.9, 4),
            (26.0, 0),
        ] {
            assert_eq!(there(at), expected, "after {at} s");
        }
        assert_eq!(plan.joins(7, Duration::ZERO), Some(Duration::from_secs(7)));
        assert_eq!(plan.joins(3, Duration::from_secs(22)), Some(Duration::from_secs(23)), "who left comes again");
        assert_eq!(plan.joins(10, Duration::ZERO), None);
    }

    #[test]
    fn a_seed_repeats_what_is_chosen_and_weights_are_kept() {
        use rand::SeedableRng;
        let plan = plan(&[(1, 1)]);
        let draw = |seed| {
            let mut random = rand::rngs::StdRng::seed_from_u64(seed);
            (0..1000).map(|_| (plan.choose(&mut random).unwrap().weight, plan.thinks(&mut random))).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(1).iter().all(|(weight, thinks)| *weight > 0 && (1.0..=2.0).contains(&thinks.as_secs_f64())));
        let often = draw(1).iter().filter(|(weight, _)| *weight == 3).count();
        assert!((600..900).contains(&often), "three of four: {often} of 1000");
    }
}
