//! The settings that plans are chosen by.

use evenkeel_planner::planning::PlannerSettings;

use super::Settings;

/// The planner's settings as a session has them.
pub(super) fn planner_settings(settings: &Settings) -> PlannerSettings {
    let threshold = settings.number("geqo_threshold");
    PlannerSettings {
        seq_page_cost: settings.real("seq_page_cost"),
        random_page_cost: settings.real("random_page_cost"),
        cpu_tuple_cost: settings.real("cpu_tuple_cost"),
        cpu_index_tuple_cost: settings.real("cpu_index_tuple_cost"),
        cpu_operator_cost: settings.real("cpu_operator_cost"),
        effective_cache_pages: settings.real("effective_cache_size"),
        work_mem: settings.bytes("work_mem") as f64,
        seqscan: settings.bool("enable_seqscan"),
        indexscan: settings.bool("enable_indexscan"),
        bitmapscan: settings.bool("enable_bitmapscan"),
        indexonlyscan: settings.bool("enable_indexonlyscan"),
        nestloop: settings.bool("enable_nestloop"),
        hashjoin: settings.bool("enable_hashjoin"),
        hashagg: settings.bool("enable_hashagg"),
        sort: settings.bool("enable_sort"),
        material: settings.bool("enable_material"),
        memoize: settings.bool("enable_memoize"),
        exhaustive_joins: usize::try_from(threshold - 1).unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_planners_settings_have_effect() {
        let server = Arc::default();
        let mut settings = Settings::new("me", &server, &[], &[]).unwrap();
        let defaults = PlannerSettings {
            work_mem: f64::from(64 << 20),
            ..PlannerSettings::default()
        };
        assert_eq!(planner_settings(&settings), defaults);
        let set = [
            ("seq_page_cost", "2"),
            ("random_page_cost", "1.5"),
            ("cpu_tuple_cost", "0.5"),
            ("cpu_index_tuple_cost", "0.25"),
            ("cpu_operator_cost", "0.125"),
            ("effective_cache_size", "8MB"),
            ("work_mem", "1MB"),
            ("enable_seqscan", "off"),
            ("enable_indexscan", "off"),
            ("enable_bitmapscan", "off"),
            ("enable_indexonlyscan", "off"),
            ("enable_nestloop", "off"),
            ("enable_hashjoin", "off"),
            ("enable_hashagg", "off"),
            ("enable_sort", "off"),
            ("enable_material", "off"),
            ("enable_memoize", "off"),
            ("geqo_threshold", "4"),
        ];
        for (name, value) in set {
            settings.set(name, Some(value), false).unwrap();
        }
        let changed = PlannerSettings {
            seq_page_cost: 2.0,
            random_page_cost: 1.5,
            cpu_tuple_cost: 0.5,
            cpu_index_tuple_cost: 0.25,
            cpu_operator_cost: 0.125,
            effective_cache_pages: 1024.0,
            work_mem: f64::from(1 << 20),
            seqscan: false,
            indexscan: false,
            bitmapscan: false,
            indexonlyscan: false,
            nestloop: false,
            hashjoin: false,
            hashagg: false,
            sort: false,
            material: false,
            memoize: false,
            exhaustive_joins: 3,
        };
        assert_eq!(planner_settings(&settings), changed);
        assert!(settings.set("random_page_cost", Some("-1"), false).is_err());
    }
}
