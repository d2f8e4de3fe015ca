//! Injected failures.

use std::path::Path;

use rustix::io::Errno;

use crate::error::OpKind;

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// An input/output error. A write may have written any part; a sync loses what it was to make
    /// durable and leaves it clean in the page cache; anything else has done nothing.
    Eio,
    /// The disk is full, with the same consequences.
    Enospc,
    /// No descriptor is left. A call that opens nothing fails as by `Eio`.
    Emfile,
    /// A read or write moves fewer bytes than asked for and is then carried on with; a call that
    /// cannot be short fails: `allocate` as a full disk, the others as `Eio`.
    Short,
}

impl FaultKind {
    pub(crate) fn errno(self, op: OpKind) -> Errno {
        match self {
            Self::Enospc => Errno::NOSPC,
            Self::Short if op == OpKind::Allocate => Errno::NOSPC,
            Self::Emfile if matches!(op, OpKind::Open | OpKind::Lock | OpKind::List) => {
                Errno::MFILE
            }
            Self::Eio | Self::Emfile | Self::Short => Errno::IO,
        }
    }
}

/// Which call fails, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    nth: u64,
    kind: FaultKind,
    ops: Vec<OpKind>,
    path: Option<String>,
    sticky: bool,
}

impl Fault {
    /// The `nth` call (from 1) from now on fails.
    pub fn nth(nth: u64, kind: FaultKind) -> Self {
        Self {
            nth: nth.max(1),
            kind,
            ops: Vec::new(),
            path: None,
            sticky: false,
        }
    }

    /// Only calls of this kind are counted; given again, of any of the kinds.
    #[must_use]
    pub fn on(mut self, op: OpKind) -> Self {
        self.ops.push(op);
        self
    }

    /// Only calls on paths that contain this text are counted.
    #[must_use]
    pub fn path(mut self, contains: &str) -> Self {
        self.path = Some(contains.to_owned());
        self
    }

    /// All counted calls after the `nth` fail too.
    #[must_use]
    pub fn sticky(mut self) -> Self {
        self.sticky = true;
        self
    }

    fn matches(&self, op: OpKind, path: &Path) -> bool {
        (self.ops.is_empty() || self.ops.contains(&op))
            && self
                .path
                .as_ref()
                .is_none_or(|text| path.to_string_lossy().contains(text.as_str()))
    }
}

/// The armed faults, and how many calls each has counted.
#[derive(Default)]
pub(crate) struct Faults {
    armed: Vec<(Fault, u64)>,
    pub(crate) fired: u64,
}

impl Faults {
    pub(crate) fn arm(&mut self, fault: Fault) {
        self.armed.push((fault, 0));
    }

    pub(crate) fn clear(&mut self) {
        self.armed.clear();
    }

    /// Counts a call; the failure it meets, if any. With several the first armed decides.
    pub(crate) fn meet(&mut self, op: OpKind, path: &Path) -> Option<FaultKind> {
        let mut met = None;
        for (fault, count) in &mut self.armed {
            if fault.matches(op, path) {
                *count += 1;
                if *count == fault.nth || fault.sticky && *count > fault.nth {
                    met = met.or(Some(fault.kind));
                }
            }
        }
        self.armed
            .retain(|(fault, count)| fault.sticky || *count < fault.nth);
        self.fired += u64::from(met.is_some());
        met
    }
}
