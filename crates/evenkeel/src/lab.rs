//! `evenkeel lab`: the experiments, with this very program as their subject.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_lab::{Host, LabCommand};
use tokio::signal::unix::{SignalKind, signal};

use crate::Failure;

pub fn lab(command: &LabCommand) -> Result<(), Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let seen = Arc::clone(&interrupted);
    runtime.spawn(async move {
        // A terminal that is closed must not leave servers behind either.
        let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = (
            signal(SignalKind::interrupt()),
            signal(SignalKind::terminate()),
            signal(SignalKind::hangup()),
        ) else {
            return;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
        seen.store(true, Ordering::Relaxed);
    });
    let evenkeel = std::env::current_exe()?;
    command.execute(&Host {
        evenkeel: &evenkeel,
        interrupted: &interrupted,
    })?;
    Ok(())
}
