//! A session's entry among the open ones, which goes with it.

use std::sync::Arc;

use evenkeel_engine::{CancelFlag, Transaction};

use super::SqlEngine;
use super::api::SessionParams;
use super::transaction::now_micros;
use crate::instance::{Backend, EndFlag, Instance, Occupation};
use crate::protocol::TransactionStatus;
use crate::settings::Settings;

/// The entry; dropping it takes it out.
pub(super) struct BackendEntry {
    instance: Arc<Instance>,
    backend: Arc<Backend>,
    number: u64,
}

impl BackendEntry {
    pub fn new(
        engine: &SqlEngine,
        params: &SessionParams,
        settings: &Settings,
        cancel: &CancelFlag,
    ) -> BackendEntry {
        let instance = Arc::clone(engine.instance());
        let who = (params.pid, &*params.user, &*params.database);
        let backend = Backend::new(who, params.client, now_micros(), cancel.clone());
        let backend = Arc::new(backend);
        let number = instance.backends().open(Arc::clone(&backend));
        let backend_entry = BackendEntry {
            instance,
            backend,
            number,
        };
        backend_entry.call_itself(settings);
        backend_entry
    }

    /// Takes over `application_name`.
    pub fn call_itself(&self, settings: &Settings) {
        let name = settings.view().value("application_name");
        self.backend.call_itself(name.as_deref().unwrap_or(""));
    }

    pub fn runs(&self, text: &Arc<str>, now: i64) {
        self.backend.runs(text, now);
    }

    pub fn waits(&self, status: TransactionStatus) {
        let occupation = match status {
            TransactionStatus::Idle => Occupation::Idle,
            TransactionStatus::InBlock => Occupation::InBlock,
            TransactionStatus::Failed => Occupation::Failed,
        };
        self.backend.waits(occupation, now_micros());
    }

    pub fn begins(&self, start: i64, txn: &Transaction) {
        self.backend.begins(start, txn.number(), txn.ids());
    }

    pub fn ends(&self) {
        self.backend.ends();
    }

    pub fn end_flag(&self) -> Arc<EndFlag> {
        self.backend.end_flag()
    }
}

impl Drop for BackendEntry {
    fn drop(&mut self) {
        self.instance.backends().close(self.number, now_micros());
    }
}
