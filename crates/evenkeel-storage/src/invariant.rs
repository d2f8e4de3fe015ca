//! Assertions that stay on in release builds and stop the instance instead of the process.

/// Checks an internal rule. When it is broken the instance is poisoned and the surrounding
/// function returns [`StorageError::Internal`](crate::error::StorageError::Internal).
///
/// ```text
/// invariant!(poison, end >= start, "record ends at {end} before it starts at {start}");
/// ```
#[macro_export]
macro_rules! invariant {
    ($poison:expr, $condition:expr, $($text:tt)+) => {
        if !$condition {
            let text: ::std::sync::Arc<str> = ::std::sync::Arc::from(::std::format!($($text)+));
            $poison.set(::std::sync::Arc::clone(&text));
            return ::std::result::Result::Err($crate::error::StorageError::Internal(text));
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::error::{StorageError, StorageResult};
    use crate::poison::Poison;

    fn halve(poison: &Poison, n: u32) -> StorageResult<u32> {
        invariant!(poison, n.is_multiple_of(2), "{n} is odd");
        Ok(n / 2)
    }

    #[test]
    fn a_broken_invariant_poisons_and_returns_an_error() {
        let poison = Poison::new();
        assert_eq!(halve(&poison, 4).ok(), Some(2));
        assert!(!poison.is_set());
        assert!(matches!(halve(&poison, 3), Err(StorageError::Internal(_))));
        assert!(poison.is_set());
    }
}
