//! A graph of modules: its cycles, its layers, and the edges that a picture needs.

use std::collections::{BTreeMap, VecDeque};

/// Between the names of modules that are in one cycle.
const CYCLE: &str = " + ";

/// The file and line of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    pub line: usize,
}

/// Which module imports which, and where.
#[derive(Default)]
pub struct Graph {
    pub names: Vec<String>,
    edges: BTreeMap<(usize, usize), Place>,
}

impl Graph {
    pub fn node(&mut self, name: &str) -> usize {
        match self.names.iter().position(|known| known == name) {
            Some(at) => at,
            None => {
                self.names.push(name.to_owned());
                self.names.len() - 1
            }
        }
    }

    /// Adds an edge; the first place stays.
    pub fn edge(&mut self, from: usize, to: usize, place: Place) {
        if from != to {
            self.edges.entry((from, to)).or_insert(place);
        }
    }

    fn targets(&self, from: usize) -> impl Iterator<Item = usize> {
        self.edges
            .range((from, 0)..=(from, usize::MAX))
            .map(|((_, to), _)| *to)
    }

    /// For each module, the modules that it reaches over one edge or more.
    fn reach(&self) -> Vec<Vec<bool>> {
        let from_one = |from: usize| {
            let mut seen = vec![false; self.names.len()];
            let mut rest = vec![from];
            while let Some(node) = rest.pop() {
                for to in self.targets(node) {
                    if !std::mem::replace(&mut seen[to], true) {
                        rest.push(to);
                    }
                }
            }
            seen
        };
        (0..self.names.len()).map(from_one).collect()
    }

    /// The groups of modules that import each other in a circle, each sorted by name.
    pub fn cycles(&self) -> Vec<Vec<usize>> {
        let mut components = self.components();
        components.retain(|component| component.len() > 1);
        components
    }

    /// The modules in groups: those of one cycle together, every other module by itself.
    fn components(&self) -> Vec<Vec<usize>> {
        let reach = self.reach();
        let mut out: Vec<Vec<usize>> = Vec::new();
        let mut by_name: Vec<usize> = (0..self.names.len()).collect();
        by_name.sort_by_key(|node| &self.names[*node]);
        for node in by_name {
            let same = |other: &Vec<usize>| reach[node][other[0]] && reach[other[0]][node];
            match out.iter_mut().find(|component| same(component)) {
                Some(component) => component.push(node),
                None => out.push(vec![node]),
            }
        }
        out
    }

    /// The edges of the shortest cycle.
    pub fn shortest_cycle(&self) -> Option<Vec<(usize, usize)>> {
        self.cycles()
            .concat()
            .into_iter()
            .filter_map(|node| self.shortest_from(node))
            .min_by_key(Vec::len)
    }

    fn shortest_from(&self, start: usize) -> Option<Vec<(usize, usize)>> {
        let mut came_from = vec![None; self.names.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for to in self.targets(node) {
                if came_from[to].is_none() {
                    came_from[to] = Some(node);
                    queue.push_back(to);
                }
            }
        }
        let mut cycle = Vec::new();
        let mut to = start;
        loop {
            let from = came_from[to]?;
            cycle.push((from, to));
            to = from;
            if to == start {
                cycle.reverse();
                return Some(cycle);
            }
        }
    }

    /// `wal -> config -> wal`, then a line for each import.
    pub fn describe(&self, cycle: &[(usize, usize)]) -> String {
        let mut text = cycle
            .first()
            .map_or("", |(from, _)| &self.names[*from])
            .to_owned();
        for (_, to) in cycle {
            text.push_str(" -> ");
            text.push_str(&self.names[*to]);
        }
        for edge @ (from, to) in cycle {
            let (from, to) = (&self.names[*from], &self.names[*to]);
            if let Some(Place { file, line }) = self.edges.get(edge) {
                text.push_str(&format!("\n    {file}:{line}: {from} -> {to}"));
            }
        }
        text
    }

    /// The layers, the highest first: a module uses modules of lower layers only, and at least one
    /// of the layer below. The modules of one cycle are one entry. Each entry has the entries it
    /// uses, without those that another one of them uses already.
    pub fn layers(&self) -> Vec<Vec<Entry>> {
        let reach = self.reach();
        let components = self.components();
        let count = components.len();
        let uses = |a: usize, b: usize| a != b && reach[components[a][0]][components[b][0]];
        let mut layer_of = vec![0; count];
        // A path has at most as many edges as there are components.
        for _ in 0..count {
            for a in 0..count {
                let below = (0..count).filter(|b| uses(a, *b)).map(|b| layer_of[b] + 1);
                layer_of[a] = below.max().unwrap_or(0);
            }
        }
        let name = |component: usize| -> String {
            let names = components[component].iter().map(|node| &*self.names[*node]);
            names.collect::<Vec<_>>().join(CYCLE)
        };
        let highest = layer_of.iter().max().copied().unwrap_or(0);
        let mut out: Vec<Vec<Entry>> = (0..=highest).map(|_| Vec::new()).collect();
        for a in 0..count {
            let between = |b: usize| (0..count).any(|via| uses(a, via) && uses(via, b));
            let direct = (0..count).filter(|b| uses(a, *b) && !between(*b));
            out[highest - layer_of[a]].push(Entry {
                name: name(a),
                uses: direct.map(name).collect(),
            });
        }
        out
    }
}

/// A module, or the modules of a cycle, in the picture.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub uses: Vec<String>,
}

impl Entry {
    /// Whether it is a cycle.
    pub fn is_cycle(&self) -> bool {
        self.name.contains(CYCLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &str) -> Graph {
        let mut graph = Graph::default();
        for (i, edge) in edges.split_whitespace().enumerate() {
            let (from, to) = edge.split_once('>').expect("an edge is `a>b`");
            let (from, to) = (graph.node(from), graph.node(to));
            let place = Place {
                file: "x.rs".to_owned(),
                line: i + 1,
            };
            graph.edge(from, to, place);
        }
        graph
    }

    #[test]
    fn the_shortest_cycle_is_described_with_its_imports() {
        let found = graph("a>b b>c c>d d>a c>e e>c");
        let cycle = found.shortest_cycle().expect("there are two cycles");
        assert_eq!(
            found.describe(&cycle),
            "c -> e -> c\n    x.rs:5: c -> e\n    x.rs:6: e -> c"
        );
        assert_eq!(found.cycles().concat().len(), 5);
    }

    #[test]
    fn a_graph_without_cycles_has_none() {
        let found = graph("a>b a>c b>d c>d");
        assert!(found.shortest_cycle().is_none());
        assert!(found.cycles().is_empty());
    }

    #[test]
    fn layers_leave_out_what_follows_from_other_edges() {
        let layers = graph("a>b b>c a>c x>y y>x y>c").layers();
        let shown: Vec<Vec<String>> = layers
            .iter()
            .map(|layer| {
                layer
                    .iter()
                    .map(|e| format!("{}>{}", e.name, e.uses.join(",")))
            })
            .map(Iterator::collect)
            .collect();
        assert_eq!(shown, [vec!["a>b"], vec!["b>c", "x + y>c"], vec!["c>"]]);
    }
}
