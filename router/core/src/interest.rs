//! Which gateway nodes have sessions for a conversation: soft state, 64-bit hash → nodes. A collision costs one ignored
//! message. Changes carry (incarnation, counter); older ones are ignored.

use std::collections::HashMap;

#[derive(Default)]
pub struct Interest {
    nodes: HashMap<String, Node>,
    names: HashMap<u32, String>,
    next: u32,
    by_hash: HashMap<u64, Vec<(u32, u64)>>,
}

struct Node {
    number: u32,
    incarnation: u64,
}

impl Interest {
    /// Interest of a node; true when it is news.
    pub fn add(&mut self, hash: u64, node: &str, incarnation: u64, counter: u64) -> bool {
        let Some(number) = self.node(node, incarnation) else { return false };
        let nodes = self.by_hash.entry(hash).or_default();
        match nodes.iter_mut().find(|(known, _)| *known == number) {
            Some((_, known)) => {
                *known = (*known).max(counter);
                false
            }
            None => {
                nodes.push((number, counter));
                true
            }
        }
    }

    pub fn remove(&mut self, hash: u64, node: &str, incarnation: u64, counter: u64) {
        let Some(number) = self.node(node, incarnation) else { return };
        if let Some(nodes) = self.by_hash.get_mut(&hash) {
            nodes.retain(|(known, since)| *known != number || *since > counter);
            if nodes.is_empty() {
                self.by_hash.remove(&hash);
            }
        }
    }

    /// A node that is gone, or that started anew.
    pub fn forget(&mut self, node: &str) {
        if let Some(node) = self.nodes.remove(node) {
            self.names.remove(&node.number);
            self.by_hash.retain(|_, nodes| {
                nodes.retain(|(known, _)| *known != node.number);
                !nodes.is_empty()
            });
        }
    }

    pub fn of(&self, hash: u64) -> impl Iterator<Item = &str> {
        let nodes = self.by_hash.get(&hash).map_or(&[][..], Vec::as_slice);
        nodes.iter().filter_map(|(number, _)| self.names.get(number)).map(String::as_str)
    }

    pub fn len(&self) -> usize {
        self.by_hash.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }

    /// None: said by an older incarnation than one that was heard.
    fn node(&mut self, name: &str, incarnation: u64) -> Option<u32> {
        match self.nodes.get(name).map(|node| (node.incarnation, node.number)) {
            Some((known, number)) if known == incarnation => return Some(number),
            Some((known, _)) if known > incarnation => return None,
            Some(_) => self.forget(name),
            None => {}
        }
        self.next += 1;
        self.nodes.insert(name.to_owned(), Node { number: self.next, incarnation });
        self.names.insert(self.next, name.to_owned());
        Some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_changes_and_older_incarnations_are_ignored() {
        let mut interest = Interest::default();
        assert!(interest.add(7, "g1", 1, 5));
        interest.remove(7, "g1", 1, 4);
        assert_eq!(interest.of(7).collect::<Vec<_>>(), ["g1"], "the withdrawal is older");
        assert!(interest.add(7, "g1", 2, 1), "a new incarnation starts empty");
        assert!(!interest.add(7, "g1", 1, 9));
        interest.add(7, "g2", 1, 1);
        interest.remove(7, "g1", 2, 2);
        assert_eq!(interest.of(7).collect::<Vec<_>>(), ["g2"]);
        interest.forget("g2");
        assert!(interest.is_empty());
    }
}
