//! The numbers of temporary schemas.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::search_path::TEMPORARY_PREFIX;

/// The numbers in use. Those of sessions that have ended are used again, so that there are no more
/// schemas than there were sessions at once.
#[derive(Default)]
pub(super) struct TemporaryNumbers(Mutex<BTreeSet<u32>>);

impl TemporaryNumbers {
    pub(super) fn take(numbers: &Arc<TemporaryNumbers>) -> TemporaryNumber {
        let mut used = numbers.0.lock();
        let free = (0..).zip(used.iter()).find(|(free, used)| free != *used);
        let number = match free {
            Some((free, _)) => free,
            None => used.last().map_or(0, |last| last.saturating_add(1)),
        };
        used.insert(number);
        TemporaryNumber {
            number,
            schema: format!("{TEMPORARY_PREFIX}{number}").into(),
            numbers: Arc::clone(numbers),
        }
    }
}

/// The number of one session's temporary schema, until this is dropped.
pub struct TemporaryNumber {
    number: u32,
    schema: Arc<str>,
    numbers: Arc<TemporaryNumbers>,
}

impl TemporaryNumber {
    /// The schema's name.
    pub fn schema(&self) -> &Arc<str> {
        &self.schema
    }
}

impl Drop for TemporaryNumber {
    fn drop(&mut self) {
        self.numbers.0.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_free_number_is_taken() {
        let numbers = Arc::default();
        let take = || TemporaryNumbers::take(&numbers);
        let (zero, one, two) = (take(), take(), take());
        assert_eq!(&**two.schema(), "pg_temp_2");
        drop(one);
        assert_eq!(&**take().schema(), "pg_temp_1");
        drop((zero, two));
        let again = [take(), take(), take()];
        let schemas: Vec<&str> = again.iter().map(|it| &**it.schema()).collect();
        assert_eq!(schemas, ["pg_temp_0", "pg_temp_1", "pg_temp_2"]);
    }
}
