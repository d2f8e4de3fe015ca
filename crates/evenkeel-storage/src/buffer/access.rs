//! The ways to a fork's pages: from a handle to a pin or a guard.

use super::entry::Place;
use super::fork::ForkHandle;
use super::frame_state::PinRefused;
use super::load::{Fill, Loader};
use super::pin::{Pin, ReadGuard, WriteGuard};
use super::strategy::Strategy;
use crate::error::{StorageError, StorageResult};
use crate::ids::BlockNumber;
use crate::page::PageBytes;

impl ForkHandle {
    /// Pins a page, reading it if it is not in the pool.
    ///
    /// # Errors
    /// [`StorageError::NoSuchPage`] beyond the end; [`StorageError::PageDamaged`] when the page
    /// fails its checksum; [`StorageError::PageSetAside`]; read errors; no free frame.
    #[inline]
    pub fn pin(&self, block: BlockNumber) -> StorageResult<Pin<'_>> {
        if let Some(pin) = self.pin_resident(block) {
            self.hits.increment();
            return Ok(pin);
        }
        self.pin_missing(block, Fill::Read, None)
    }

    /// As [`ForkHandle::pin`], with a place in the pool as the strategy says.
    ///
    /// # Errors
    /// As there.
    pub fn pin_with(&self, block: BlockNumber, strategy: Strategy<'_>) -> StorageResult<Pin<'_>> {
        if let Some(entry) = self.pages.array.get(block)
            && let Ok(id) = self.pin_entry(entry, strategy)
        {
            self.count_hit(strategy);
            return Ok(Pin::of(self, id, block));
        }
        self.pin_missing(block, Fill::Read, strategy)
    }

    /// Pins a page whose content the caller will replace: it is not read. A page already in the
    /// pool keeps its content.
    ///
    /// # Errors
    /// As [`ForkHandle::pin`], but for those of reading.
    pub fn pin_new(&self, block: BlockNumber) -> StorageResult<Pin<'_>> {
        self.pin_missing(block, Fill::Zero, None)
    }

    /// As [`ForkHandle::pin_new`], with a place in the pool as the strategy says.
    ///
    /// # Errors
    /// As there.
    pub fn pin_new_with(
        &self,
        block: BlockNumber,
        strategy: Strategy<'_>,
    ) -> StorageResult<Pin<'_>> {
        self.pin_missing(block, Fill::Zero, strategy)
    }

    /// Pins a page that is set aside, with the content that a record gives it.
    pub(crate) fn pin_image(
        &self,
        block: BlockNumber,
        image: &PageBytes,
    ) -> StorageResult<Pin<'_>> {
        self.pin_missing(block, Fill::Image(image), None)
    }

    /// Pins a page and takes its share lock, in one step where possible.
    ///
    /// # Errors
    /// As [`ForkHandle::pin`].
    #[inline]
    pub fn read(&self, block: BlockNumber) -> StorageResult<ReadGuard<'_>> {
        if let Some(entry) = self.pages.array.get(block)
            && let Ok((id, shared)) = entry.pin_and_share(|id| self.latch(id), &self.core.waiters)
        {
            self.hits.increment();
            let pin = Pin::of(self, id, block);
            return Ok(if shared {
                pin.already_shared()
            } else {
                pin.read()
            });
        }
        Ok(self.pin(block)?.read())
    }

    /// As [`ForkHandle::read`], with a place in the pool as the strategy says.
    ///
    /// # Errors
    /// As there.
    pub fn read_with(
        &self,
        block: BlockNumber,
        strategy: Strategy<'_>,
    ) -> StorageResult<ReadGuard<'_>> {
        match strategy {
            None => self.read(block),
            Some(_) => Ok(self.pin_with(block, strategy)?.read()),
        }
    }

    /// Pins a page and takes its exclusive lock.
    ///
    /// # Errors
    /// As [`ForkHandle::pin`].
    #[inline]
    pub fn write(&self, block: BlockNumber) -> StorageResult<WriteGuard<'_>> {
        Ok(self.pin(block)?.write())
    }

    /// As [`ForkHandle::write`], with a place in the pool as the strategy says.
    ///
    /// # Errors
    /// As there.
    pub fn write_with(
        &self,
        block: BlockNumber,
        strategy: Strategy<'_>,
    ) -> StorageResult<WriteGuard<'_>> {
        Ok(self.pin_with(block, strategy)?.write())
    }

    /// Pins a page if it is in the pool.
    #[inline]
    pub fn pin_resident(&self, block: BlockNumber) -> Option<Pin<'_>> {
        let id = self.pages.array.get(block)?.pin(|id| self.latch(id)).ok()?;
        Some(Pin::of(self, id, block))
    }

    #[cold]
    fn pin_missing(
        &self,
        block: BlockNumber,
        fill: Fill<'_>,
        strategy: Strategy<'_>,
    ) -> StorageResult<Pin<'_>> {
        let loader = Loader {
            core: &self.core,
            fork: &self.pages,
        };
        loop {
            self.pages.check_exists(block)?;
            let entry = self.pages.array.get_or_grow(block);
            match entry.load() {
                Place::Frame(_) => match self.pin_entry(entry, strategy) {
                    Ok(id) => {
                        self.count_hit(strategy);
                        return Ok(Pin::of(self, id, block));
                    }
                    // Its evictor is about to clear the entry.
                    Err(PinRefused::NotValid) => std::thread::yield_now(),
                    Err(PinRefused::TooMany) => {
                        return Err(StorageError::Internal("too many pins on one page".into()));
                    }
                },
                Place::Loading => {
                    evenkeel_io::blocking(|| entry.wait_loaded(&self.core.waiters));
                }
                Place::Empty => {
                    if entry.begin_load() {
                        let id = loader.load(entry, block, fill, strategy)?;
                        return Ok(Pin::of(self, id, block));
                    }
                }
            }
        }
    }
}
