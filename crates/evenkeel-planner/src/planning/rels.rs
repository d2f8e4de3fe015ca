//! A set of relations, by their numbers in the statement.

use smallvec::{SmallVec, smallvec};

/// A set of relations.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Rels {
    words: SmallVec<[u64; 2]>,
}

impl Rels {
    /// The set of one.
    pub(super) fn one(rel: usize) -> Rels {
        let mut set = Rels::default();
        set.insert(rel);
        set
    }

    /// Adds one.
    pub(super) fn insert(&mut self, rel: usize) {
        let word = rel / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (rel % 64);
    }

    /// Whether it is there.
    pub(super) fn has(&self, rel: usize) -> bool {
        let word = self.words.get(rel / 64).copied().unwrap_or(0);
        word & (1 << (rel % 64)) != 0
    }

    /// Adds all of another.
    pub(super) fn extend(&mut self, other: &Rels) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine |= theirs;
        }
    }

    /// Both together.
    pub(super) fn union(&self, other: &Rels) -> Rels {
        let mut all = self.clone();
        all.extend(other);
        all
    }

    /// Those in both.
    pub(super) fn common(&self, other: &Rels) -> Rels {
        let words = self.words.iter().zip(&other.words).map(|(a, b)| a & b);
        Rels {
            words: words.collect(),
        }
    }

    /// Whether some are in both.
    pub(super) fn meets(&self, other: &Rels) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Whether all of these are in the other.
    pub(super) fn within(&self, other: &Rels) -> bool {
        let theirs = other.words.iter().copied().chain(std::iter::repeat(0));
        self.words.iter().zip(theirs).all(|(a, b)| a & !b == 0)
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// All, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let bits = |(at, word): (usize, &u64)| {
            let word = *word;
            (0..64)
                .filter(move |bit| word & (1 << bit) != 0)
                .map(move |bit| at * 64 + bit)
        };
        self.words.iter().enumerate().flat_map(bits)
    }
}

impl FromIterator<usize> for Rels {
    fn from_iter<I: IntoIterator<Item = usize>>(rels: I) -> Rels {
        let mut set = Rels { words: smallvec![] };
        rels.into_iter().for_each(|rel| set.insert(rel));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_any_size_compare_by_their_members() {
        let small: Rels = [1, 5].into_iter().collect();
        let large: Rels = [1, 5, 200].into_iter().collect();
        assert!(small.within(&large) && !large.within(&small));
        assert!(small.meets(&large) && !Rels::one(200).meets(&small));
        assert_eq!(large.iter().collect::<Vec<_>>(), [1, 5, 200]);
        assert!(large.common(&Rels::one(7)).is_empty());
        assert!(small.union(&Rels::one(200)).has(200));
    }
}
