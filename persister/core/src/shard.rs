//! Shard tables by ranges of buckets, and how many rows go into one statement.

use lapwing_model::{Bucket, ConversationKey, bucket};

pub const TABLES: u32 = 16;

/// Index of the table that holds a bucket's messages.
pub fn of_bucket(bucket: Bucket) -> u32 {
    (bucket / (bucket::BUCKETS / TABLES)).min(TABLES - 1)
}

/// None: no conversation can have this id.
pub fn of_conversation(key: &ConversationKey) -> Option<u32> {
    bucket::bucket_of(key).map(of_bucket)
}

pub fn table(shard: u32) -> String {
    format!("messages_{shard:02}")
}

/// Statements of 1, 2, 4 … rows: few different texts, so prepared statements are found again, and never above MySQL's
/// 65,535 placeholders.
pub fn chunks(mut rows: usize, columns: usize) -> Vec<usize> {
    let mut size = 256;
    while size > 1 && size * columns > 65_535 {
        size /= 2;
    }
    let mut sizes = Vec::new();
    while rows > 0 {
        while size > rows {
            size /= 2;
        }
        sizes.push(size);
        rows -= size;
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-PST-12
    #[test]
    fn each_bucket_has_its_table() {
        assert_eq!([0, 15, 16, 255].map(of_bucket), [0, 0, 1, 15]);
        assert_eq!(table(of_bucket(17)), "messages_01");
        assert_eq!(of_conversation(&ConversationKey::new("t", "nothing")), None);
    }

    #[test]
    fn chunks_cover_all_rows_and_stay_below_the_placeholder_limit() {
        assert_eq!(chunks(500, 10), [256, 128, 64, 32, 16, 4]);
        assert_eq!(chunks(1, 10), [1]);
        assert!(chunks(0, 10).is_empty());
        for rows in [1, 7, 255, 256, 999] {
            let sizes = chunks(rows, 1000);
            assert_eq!(sizes.iter().sum::<usize>(), rows);
            assert!(sizes.iter().all(|size| size * 1000 <= 65_535));
        }
    }
}
