//! One bound for the conversations of all partitions of this process, whichever of them has many (I7).

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use lapwing_runtime::metrics;

pub(crate) struct Memory {
    most: usize,
    bytes: AtomicUsize,
    conversations: AtomicUsize,
}

/// One partition's part, for as long as it is owned.
pub(crate) struct Share {
    memory: Arc<Memory>,
    bytes: usize,
    conversations: usize,
}

impl Memory {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, bytes: AtomicUsize::new(0), conversations: AtomicUsize::new(0) })
    }

    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share { memory: self.clone(), bytes: 0, conversations: 0 }
    }
}

impl Share {
    /// What the partition holds now; up to how much it may hold. Over the bound each gives up as large a part of its own.
    pub(crate) fn tell(&mut self, conversations: usize, bytes: usize) -> usize {
        let memory = &self.memory;
        let sum = changed(&memory.bytes, &mut self.bytes, bytes);
        let count = changed(&memory.conversations, &mut self.conversations, conversations);
        ::metrics::gauge!(metrics::CONVERSATION_BYTES).set(sum as f64);
        ::metrics::gauge!(metrics::CONVERSATIONS).set(count as f64);
        if sum <= memory.most {
            return usize::MAX;
        }
        (bytes as u128 * memory.most as u128 / sum as u128) as usize
    }
}

fn changed(sum: &AtomicUsize, own: &mut usize, now: usize) -> usize {
    let before = std::mem::replace(own, now);
    sum.fetch_add(now, Relaxed);
    sum.fetch_sub(before, Relaxed).saturating_sub(before)
}

impl Drop for Share {
    fn drop(&mut self) {
        self.tell(0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_the_bound_each_partition_gives_up_as_large_a_part() {
        let memory = Memory::new(1000);
        let (mut one, mut other) = (memory.share(), memory.share());
        assert_eq!(one.tell(1, 900), usize::MAX);
        assert_eq!(other.tell(1, 300), 250);
        assert_eq!(one.tell(1, 900), 750);
        assert_eq!(one.tell(1, 675), usize::MAX, "evicted down to nine tenths");
        drop(one);
        assert_eq!(other.tell(1, 1000), usize::MAX, "a partition that is gone weighs nothing");
    }
}
