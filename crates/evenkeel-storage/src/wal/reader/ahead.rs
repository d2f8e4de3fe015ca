//! Reading the log ahead of whoever parses it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use evenkeel_io::Disk;

use super::open_segment;
use crate::stats::BackendType;
use crate::wal::layout::SegmentLayout;

/// Pieces that are read and not used yet, at most.
const DEPTH: usize = 3;
/// Free bytes before those of a piece: for the record that begins in the piece before.
const HEAD: usize = 64 << 10;

/// A piece of the log in a buffer with free bytes before it.
pub(super) struct Piece {
    /// Position of its first byte.
    from: u64,
    bytes: Vec<u8>,
}

impl Piece {
    /// Its bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - HEAD
    }

    /// A buffer of `before` and the piece, and the index of its first byte, if there is room.
    pub(super) fn behind(mut self, before: &[u8]) -> Result<(Vec<u8>, usize), Piece> {
        let Some(begin) = HEAD.checked_sub(before.len()) else {
            return Err(self);
        };
        self.bytes[begin..HEAD].copy_from_slice(before);
        Ok((self.bytes, begin))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[HEAD..]
    }
}

/// A thread that reads the log from a position on, piece by piece. Where it cannot go on it ends:
/// the parser reads what follows itself, and says what is wrong with it.
pub(super) struct ReadAhead {
    pieces: Option<Receiver<Piece>>,
    /// Buffers that are not used any more.
    empty: Sender<Vec<u8>>,
    thread: Option<JoinHandle<()>>,
}

impl ReadAhead {
    /// Begins at `from`. `None`: there is no thread to be had.
    pub(super) fn start(
        disk: &Arc<dyn Disk>,
        layout: &SegmentLayout,
        from: u64,
    ) -> Option<ReadAhead> {
        let (sender, pieces) = sync_channel(DEPTH);
        let (empty, returned) = channel();
        let (disk, layout) = (Arc::clone(disk), layout.clone());
        let run = move || {
            let _who = BackendType::Startup.enter();
            read(&*disk, &layout, from, (&sender, &returned));
        };
        let thread = Builder::new().name("log reader".into()).spawn(run).ok()?;
        Some(ReadAhead {
            pieces: Some(pieces),
            empty,
            thread: Some(thread),
        })
    }

    /// The piece that begins at `from`; `None` if there is none, for good.
    pub(super) fn take(&mut self, from: u64) -> Option<Piece> {
        let piece = self.pieces.as_ref()?.recv().ok();
        piece.filter(|piece| piece.from == from)
    }

    /// Takes a buffer back that is not used any more.
    pub(super) fn give_back(&self, buffer: Vec<u8>) {
        // At the end nobody wants it.
        let _ = self.empty.send(buffer);
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        // It finds nobody to hand its next piece to.
        self.pieces = None;
        if let Some(thread) = self.thread.take() {
            // The parser reads what a thread that panicked has not.
            let _ = thread.join();
        }
    }
}

fn read(
    disk: &dyn Disk,
    layout: &SegmentLayout,
    mut from: u64,
    (sender, returned): (&SyncSender<Piece>, &Receiver<Vec<u8>>),
) {
    loop {
        let Ok(Some(file)) = open_segment(disk, layout, from / layout.size) else {
            return;
        };
        let end = (from / layout.size + 1) * layout.size;
        while from < end {
            let len = (end - from).min(super::PIECE as u64) as usize;
            let mut bytes = returned.try_recv().unwrap_or_default();
            bytes.resize(HEAD + len, 0);
            let Ok(got) = file.read_at(&mut bytes[HEAD..], from % layout.size) else {
                return;
            };
            bytes.truncate(HEAD + got);
            let is_short = got < len;
            if got == 0 || sender.send(Piece { from, bytes }).is_err() || is_short {
                return;
            }
            from += got as u64;
        }
    }
}
