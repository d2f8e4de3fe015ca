//! Stacks for trees whose depth a client chooses, and the threads that plan statements.
//!
//! Statements are parsed, walked, optimised, evaluated and dropped by functions that recurse. The
//! bounds of `evenkeel_planner::parser` limit how deep; everything below that depth runs on a stack
//! of half a gibibyte, whichever thread it is on.
//!
//! Entry points: [`on_deep_stack`], [`Deep`], [`Planners`]. The rules are in the README beside
//! this file.

mod planners;

use std::fmt;
use std::ops::Deref;

pub use planners::Planners;

/// A deep stack. Address space only: pages are used as they are touched, and given back when the
/// work on it is done.
const STACK_BYTES: usize = 512 << 20;

/// A stack with so much left needs no detour.
const ENOUGH_BYTES: usize = STACK_BYTES / 2;

/// Runs `work` on a stack that is deep enough for any statement within the bounds.
pub fn on_deep_stack<T>(work: impl FnOnce() -> T) -> T {
    match stacker::remaining_stack() {
        Some(left) if left < ENOUGH_BYTES => stacker::grow(STACK_BYTES, work),
        _ => work(),
    }
}

/// A tree made from a client's statement. It may be dropped on any thread.
pub struct Deep<T> {
    /// Always there until the drop.
    tree: Option<T>,
    shallow: bool,
}

impl<T> Deep<T> {
    /// Guards a tree of any depth.
    pub fn new(tree: T) -> Deep<T> {
        Deep {
            tree: Some(tree),
            shallow: false,
        }
    }

    /// A tree that is known to need no deep stack.
    pub fn shallow(tree: T) -> Deep<T> {
        Deep {
            tree: Some(tree),
            shallow: true,
        }
    }
}

impl<T> Deref for Deep<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.tree {
            Some(tree) => tree,
            None => unreachable!("only the drop takes the tree away"),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Deep<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tree.fmt(f)
    }
}

impl<T> Drop for Deep<T> {
    fn drop(&mut self) {
        let tree = self.tree.take();
        if !self.shallow {
            on_deep_stack(move || drop(tree));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct List(Option<Box<List>>);

    #[test]
    fn a_deep_tree_is_dropped_on_a_thread_with_a_small_stack() {
        let mut list = List(None);
        for _ in 0..200_000 {
            list = List(Some(Box::new(list)));
        }
        let list = Deep::new(list);
        let small = std::thread::Builder::new().stack_size(128 << 10);
        let thread = small.spawn(move || {
            assert!(list.0.is_some());
            drop(list);
        });
        thread.unwrap().join().unwrap();
    }
}
