//! Ways of planning and running a statement that must not change its answer.

use std::time::Duration;

use evenkeel_exec::Limits;
use evenkeel_planner::planning::PlannerSettings;
use evenkeel_types::{Datum, SqlType};

/// Parameters with their types.
pub type Params = Vec<(SqlType, Datum)>;

/// A way.
#[derive(Clone, Default)]
pub struct Way {
    pub name: String,
    pub settings: PlannerSettings,
    pub limits: Limits,
    /// Whether the planner is told that the tables are large.
    pub large: bool,
    /// Another text with these parameters; whether the planner knows their values.
    pub params: Option<(String, Params, bool)>,
}

/// Changes of the planner's settings.
type Change = fn(&mut PlannerSettings);

const CHANGES: [(&str, Change); 14] = [
    ("as usual", |_| {}),
    ("no seqscan", |settings| settings.seqscan = false),
    ("no indexscan", |settings| settings.indexscan = false),
    ("no bitmapscan", |settings| settings.bitmapscan = false),
    ("bitmapscan before all", |settings| {
        (settings.seqscan, settings.indexscan) = (false, false);
    }),
    ("no nestloop", |settings| settings.nestloop = false),
    ("no hashjoin", |settings| settings.hashjoin = false),
    ("neither nestloop nor hashjoin", |settings| {
        (settings.nestloop, settings.hashjoin) = (false, false);
    }),
    ("no hashagg", |settings| settings.hashagg = false),
    ("no sort", |settings| settings.sort = false),
    ("no material", |settings| settings.material = false),
    ("neither memoize nor hashjoin", |settings| {
        (settings.memoize, settings.hashjoin) = (false, false);
    }),
    ("work_mem for few", |settings| settings.work_mem = 64.0),
    ("joins ordered greedily", |settings| {
        settings.exhaustive_joins = 1;
    }),
];

/// All ways but the usual one.
pub fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    for (name, change) in CHANGES {
        let mut settings = PlannerSettings::default();
        change(&mut settings);
        for large in [false, true] {
            ways.push(Way {
                name: format!("{name}{}", if large { ", large tables" } else { "" }),
                settings: settings.clone(),
                large,
                ..Way::default()
            });
        }
    }
    ways.remove(0);
    let limits = [
        Limits {
            batch: 1,
            ..Limits::default()
        },
        Limits {
            work_mem: 100,
            ..Limits::default()
        },
        Limits {
            synchronize_seqscans: true,
            interrupt: Some(77),
            slice: Duration::ZERO,
            batch: 3,
            work_mem: 300,
        },
    ];
    for limits in limits {
        for large in [false, true] {
            ways.push(Way {
                name: format!("{limits:?}, large tables: {large}"),
                limits: limits.clone(),
                large,
                ..Way::default()
            });
        }
    }
    ways
}
