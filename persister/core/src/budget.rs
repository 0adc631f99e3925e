//! The connection budget (R-PST-7): one file for all that share a database, and what it says about a server's limit.

use std::{collections::BTreeMap, fmt};

use serde::Deserialize;

/// Of `max_connections`, what stays free at least.
const LEAST_RESERVE: u64 = 20;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Per cent of `max_connections` that stay free.
    #[serde(default = "least_reserve")]
    pub reserve: u64,
    #[serde(rename = "sharer")]
    pub sharers: Vec<Sharer>,
}

/// A service with its replicas, or anything else that connects to the database.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sharer {
    pub service: String,
    pub replicas: u64,
    /// Connections of each replica, by the pool's name.
    pub pools: BTreeMap<String, u64>,
}

fn least_reserve() -> u64 {
    LEAST_RESERVE
}

impl Sharer {
    /// Of one replica.
    pub fn each(&self) -> u64 {
        self.pools.values().sum()
    }

    pub fn all(&self) -> u64 {
        self.replicas.saturating_mul(self.each())
    }
}

impl fmt::Display for Sharer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {} with {}", self.replicas, self.service, self.each())
    }
}

impl Budget {
    pub fn parse(text: &str) -> Result<Self, String> {
        let budget: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        if !(LEAST_RESERVE..100).contains(&budget.reserve) {
            return Err(format!(
                "reserve is {}, must be at least {LEAST_RESERVE} (per cent)",
                budget.reserve
            ));
        }
        match budget.sharers.iter().find(|sharer| sharer.all() == 0) {
            Some(sharer) => Err(format!("sharer {} has no connections", sharer.service)),
            None => Ok(budget),
        }
    }

    pub fn sum(&self) -> u64 {
        self.sharers.iter().map(Sharer::all).sum()
    }

    pub fn allowed(&self, max_connections: u64) -> u64 {
        allowed(max_connections, self.reserve)
    }

    /// Whether all of it fits; Err: the exact words.
    pub fn check(&self, max_connections: u64) -> Result<(), String> {
        let (sum, allowed) = (self.sum(), self.allowed(max_connections));
        if sum <= allowed {
            return Ok(());
        }
        let parts: Vec<_> = self.sharers.iter().map(ToString::to_string).collect();
        Err(format!(
            "connection budget: {} = {sum}, MySQL's max_connections is {max_connections} and {} % stay free: {allowed} are allowed",
            parts.join(" + "),
            self.reserve
        ))
    }

    /// Whether a replica of this service may have so many in each of these pools.
    pub fn check_own(&self, service: &str, pools: &[(&str, u64)]) -> Result<(), String> {
        let Some(sharer) = self.sharers.iter().find(|sharer| sharer.service == service) else {
            return Err(format!("connection budget: {service} is no sharer"));
        };
        for (pool, wanted) in pools {
            let given = sharer.pools.get(*pool).copied().unwrap_or(0);
            if *wanted > given {
                return Err(format!(
                    "connection budget: {service} wants {wanted} connections in its pool {pool}, {given} are its share"
                ));
            }
        }
        Ok(())
    }

    /// What replicas of a service have registered, (name, connections), against its line.
    pub fn check_replicas(&self, service: &str, registered: &[(String, u64)]) -> Result<(), String> {
        let Some(sharer) = self.sharers.iter().find(|sharer| sharer.service == service) else {
            return Err(format!("connection budget: {service} is no sharer"));
        };
        let over: Vec<String> = registered
            .iter()
            .filter(|(_, connections)| *connections > sharer.each())
            .map(|(name, connections)| format!("{name} has {connections}"))
            .collect();
        let (replicas, line) = (registered.len() as u64, format!("connection budget: {sharer} in the file"));
        match (over.is_empty(), replicas > sharer.replicas) {
            (true, false) => Ok(()),
            (true, true) => Err(format!("{line}, {replicas} replicas are registered")),
            (false, _) => Err(format!("{line}, registered: {}", over.join(", "))),
        }
    }
}

/// Connections that may be used in all.
pub fn allowed(max_connections: u64, reserve: u64) -> u64 {
    max_connections * (100 - reserve.clamp(LEAST_RESERVE, 100)) / 100
}

/// What is registered now against what may be.
pub fn check_registered(registered: u64, max_connections: u64, reserve: u64) -> Result<(), String> {
    let allowed = allowed(max_connections, reserve);
    match registered <= allowed {
        true => Ok(()),
        false => Err(format!(
            "{registered} connections are registered, {allowed} of MySQL's {max_connections} are allowed"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [[sharer]]
        service = "persister"
        replicas = 3
        pools = { write = 24, read = 8, control = 2 }

        [[sharer]]
        service = "reports"
        replicas = 2
        pools = { all = 6 }
    "#;

    // R-PST-7
    #[test]
    fn the_sum_over_all_replicas_leaves_a_fifth_free() {
        let budget = Budget::parse(FILE).unwrap();
        assert_eq!((budget.sum(), budget.allowed(170)), (114, 136));
        assert_eq!(budget.check(170), Ok(()));
        assert_eq!(
            budget.check(140).unwrap_err(),
            "connection budget: 3 × persister with 34 + 2 × reports with 6 = 114, MySQL's max_connections is 140 and 20 % stay \
             free: 112 are allowed"
        );
    }

    // R-PST-7: 24/8 and 4/2 a pod were 134 of 170; one pod more, and 44 publishes failed.
    #[test]
    fn one_pod_more_than_fits_is_found_before_it_starts() {
        let pods = |replicas| {
            format!(
                "[[sharer]]\nservice = \"a\"\nreplicas = {replicas}\npools = {{ write = 24, read = 8 }}\n\
                 [[sharer]]\nservice = \"b\"\nreplicas = 1\npools = {{ write = 4, read = 2 }}\n"
            )
        };
        assert_eq!(Budget::parse(&pods(4)).unwrap().sum(), 134);
        assert_eq!(Budget::parse(&pods(4)).unwrap().check(170), Ok(()));
        assert!(Budget::parse(&pods(5)).unwrap().check(170).unwrap_err().contains("= 166"));
    }

    // R-PST-7
    #[test]
    fn a_service_keeps_to_its_own_line() {
        let budget = Budget::parse(FILE).unwrap();
        assert_eq!(budget.check_own("persister", &[("write", 24), ("read", 8)]), Ok(()));
        let wrong = budget.check_own("persister", &[("write", 24), ("read", 9)]).unwrap_err();
        assert!(
            wrong.contains("wants 9") && wrong.contains("pool read") && wrong.contains("8 are"),
            "{wrong}"
        );
        assert!(budget.check_own("gateway", &[]).is_err());
    }

    // R-PST-7: who takes more than its line is named.
    #[test]
    fn a_replica_above_its_line_is_named_and_so_is_one_too_many() {
        let budget = Budget::parse(FILE).unwrap();
        let rows = |all: &[(&str, u64)]| {
            all.iter().map(|(name, connections)| ((*name).to_owned(), *connections)).collect::<Vec<_>>()
        };
        let check = |all: &[(&str, u64)]| budget.check_replicas("persister", &rows(all));
        assert_eq!(check(&[("p1", 34), ("p2", 34), ("p3", 10)]), Ok(()));
        assert_eq!(
            check(&[("p1", 34), ("p2", 35)]).unwrap_err(),
            "connection budget: 3 × persister with 34 in the file, registered: p2 has 35"
        );
        assert_eq!(
            check(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]).unwrap_err(),
            "connection budget: 3 × persister with 34 in the file, 4 replicas are registered"
        );
    }

    #[test]
    fn a_budget_that_reserves_too_little_or_says_nothing_is_none() {
        assert!(Budget::parse(&format!("reserve = 10\n{FILE}")).unwrap_err().contains("at least 20"));
        assert!(Budget::parse("sharer = []\nother = 1").is_err());
        assert!(Budget::parse("[[sharer]]\nservice = \"a\"\nreplicas = 0\npools = { all = 1 }").is_err());
        assert_eq!(check_registered(136, 170, 20), Ok(()));
        assert!(check_registered(137, 170, 20).unwrap_err().starts_with("137 connections"));
    }
}
