//! Keeps its child's rows, and gives them again when it is run again.

use evenkeel_planner::plan::Node;

use crate::batch::Batch;
use crate::context::{Child, Cx, Operator, Step};
use crate::error::ExecResult;
use crate::spill::{Cursor, RowStore};
use crate::walk::depends;

pub(crate) struct Materialize {
    child: Child,
    store: Option<RowStore>,
    cursor: Cursor,
    complete: bool,
    /// The parameters that the child depends on, and their version when it began.
    depends: Option<Vec<usize>>,
    stamp: u64,
}

impl Materialize {
    pub fn new(child: Child) -> Materialize {
        Materialize {
            child,
            store: None,
            cursor: Cursor::default(),
            complete: false,
            depends: None,
            stamp: 0,
        }
    }
}

impl Operator for Materialize {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, Materialize { child });
        out.reset(child.width);
        let store = self.store.get_or_insert_with(|| {
            let limit = cx.env.limits.work_mem;
            RowStore::new(child.width, cx.reservation(), &cx.env.temp, limit)
        });
        let most = cx.most(want);
        while !out.is_full(most) && store.read(&mut self.cursor, out)? {}
        if !out.is_empty() {
            return Ok(Step::Rows);
        }
        if self.complete {
            return Ok(Step::Done);
        }
        let step = self.child.next(child, cx, want, out)?;
        self.complete = step == Step::Done;
        for row in out.rows() {
            store.push(row)?;
        }
        // The rows just read are served from the store, which sets the cursor's place in it.
        let rows = out.len();
        out.reset(child.width);
        while out.len() < rows && store.read(&mut self.cursor, out)? {}
        Ok(step)
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, Materialize { child });
        self.cursor.rewind();
        let depends = self.depends.get_or_insert_with(|| depends(child, cx));
        let stamp = cx.stamp(depends);
        if self.store.is_some() && stamp == self.stamp {
            return Ok(());
        }
        self.stamp = stamp;
        self.store = None;
        self.complete = false;
        self.child.rescan(child, cx)
    }
}
