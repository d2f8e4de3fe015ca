//! A session's entry among the open ones, which goes with it.

use std::sync::Arc;

use evenkeel_engine::{CancelFlag, Transaction};

use super::SqlEngine;
use super::api::SessionParams;
use super::transaction::now_micros;
use crate::databases::DatabaseInfo;
use crate::instance::{Backend, Identity, Instance, Occupation};
use crate::protocol::TransactionStatus;
use crate::settings::Settings;

/// The entry; dropping it takes it out.
pub(super) struct BackendEntry {
    instance: Arc<Instance>,
    backend: Arc<Backend>,
}

impl BackendEntry {
    pub fn new(
        (engine, database): (&SqlEngine, &DatabaseInfo),
        params: &SessionParams,
        settings: &Settings,
        cancel: &CancelFlag,
        advisory: u64,
    ) -> BackendEntry {
        let instance = Arc::clone(engine.instance());
        let identity = Identity {
            user: params.user.clone(),
            database: database.name.to_string(),
            database_oid: database.oid,
            client: params.client,
            cancel_key: params.cancel_key.clone(),
            advisory,
        };
        let backends = instance.backends();
        let backend = backends.open(identity, now_micros(), cancel.clone());
        let backend_entry = BackendEntry { instance, backend };
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

    pub fn backend(&self) -> &Arc<Backend> {
        &self.backend
    }
}

impl Drop for BackendEntry {
    fn drop(&mut self) {
        self.instance
            .backends()
            .close(self.backend.pid, now_micros());
    }
}
