//! What a partition's commit view needs to change its instance: where it stands on each, and the marks of a move.

use std::time::Duration;

use bytes::Bytes;
use lapwing_links::redis::Value;
use lapwing_model::{
    Kind, PartitionId, Position,
    bucket::{BUCKETS, partition_of},
};

use crate::{Applied, Piece, Section, TIMEOUT, ViewError, Views, keys, value};

/// What one instance has of a partition's commit view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub at: Applied,
    /// How often it was moved before it came here; None: it was never moved here.
    pub placed: Option<u64>,
}

const SCAN: usize = 1000;
const PAUSE: Duration = Duration::from_millis(5);

impl Views {
    /// Where one piece stands.
    pub async fn stands(&self, id: &PartitionId, piece: Piece) -> Result<Option<Position>, ViewError> {
        let answers = self.apply(piece.instance, &[Section::probe(id, piece)]).await?;
        Ok(match answers.into_iter().next() {
            Some(Applied::At(at)) => at,
            _ => None,
        })
    }

    /// Up to where senders were told; None: nobody ever was, or it was lost.
    pub async fn told(&self, id: &PartitionId, instance: usize) -> Result<Option<Position>, ViewError> {
        let told = self.words(instance, "get", &["GET", &keys::told(id)]).await?;
        let text = value::string(&told).unwrap_or_default();
        Ok(std::str::from_utf8(&text).ok().and_then(Position::decode))
    }

    pub async fn found(&self, id: &PartitionId, instance: usize) -> Result<Found, ViewError> {
        let answers = self.apply(instance, &[Section::probe(id, Piece::commit(instance))]).await?;
        let at = answers.into_iter().next().unwrap_or(Applied::At(None));
        let placed = self.words(instance, "get", &["GET", &keys::placed(id)]).await?;
        let placed = value::string(&placed).and_then(|text| String::from_utf8_lossy(&text).parse().ok());
        Ok(Found { at, placed })
    }

    /// The instance that has the view by now: of those with a position the one it was moved to last. The others that answer are
    /// given, too.
    pub async fn settle(&self, id: &PartitionId) -> Result<usize, ViewError> {
        let configured = self.places.configured(id);
        let mut best: Option<(u64, usize)> = None;
        let mut last_error = None;
        for instance in 0..self.places.instances().len() {
            match self.found(id, instance).await {
                Ok(Found { at: Applied::At(Some(_)), placed })
                    if placed.is_some() || instance == configured =>
                {
                    best = best.max(Some((placed.unwrap_or(0), instance)));
                }
                Ok(_) => {}
                Err(error) => last_error = Some(error),
            }
        }
        match (best, last_error) {
            (Some((_, instance)), _) => Ok(instance),
            (None, None) => Ok(configured),
            // One that is silent may have it.
            (None, Some(error)) => Err(error),
        }
    }

    /// An instance that is to get the view begins with nothing.
    pub async fn clear(&self, id: &PartitionId, instance: usize) -> Result<(), ViewError> {
        let applied = keys::applied(id, &Piece::commit(instance));
        let words = ["DEL", &applied, &format!("{applied}:by"), &keys::placed(id)];
        self.words(instance, "del", &words).await.map(|_| ())
    }

    pub async fn set_placed(&self, id: &PartitionId, instance: usize, version: u64) -> Result<(), ViewError> {
        let words = ["SET", &keys::placed(id), &version.to_string()];
        self.words(instance, "set", &words).await.map(|_| ())
    }

    /// Takes away what a partition's commit view has left behind where it is no longer; gently, key by key.
    pub async fn sweep(&self, id: &PartitionId, instance: usize) -> Result<u64, ViewError> {
        let (mut cursor, mut swept) = ("0".to_owned(), 0);
        loop {
            let answer = self.words(instance, "scan", &["SCAN", &cursor, "COUNT", &SCAN.to_string()]).await?;
            let form = || value::form("scan", &answer);
            let parts = value::array(&answer).ok_or_else(form)?;
            let [next, keys] = parts else { return Err(form()) };
            let next = value::string(next).ok_or_else(form)?;
            let keys = value::strings(keys).ok_or_else(form)?;
            let of_it: Vec<&Bytes> = keys.iter().filter(|key| self.belongs(id, key)).collect();
            if !of_it.is_empty() {
                let mut words: Vec<&[u8]> = vec![b"UNLINK"];
                words.extend(of_it.iter().map(|key| key.as_ref()));
                self.places.redis(instance).command("unlink", &words, TIMEOUT).await?;
                swept += of_it.len() as u64;
            }
            cursor = String::from_utf8_lossy(&next).into_owned();
            if cursor == "0" {
                return Ok(swept);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// `head:12:tenant:grp.x`: one of the partition's buckets, and of its kind.
    fn belongs(&self, id: &PartitionId, key: &[u8]) -> bool {
        let Ok(key) = std::str::from_utf8(key) else { return false };
        let mut parts = key.splitn(4, ':');
        let (Some("head" | "hot" | "members"), Some(bucket), Some(_), Some(conversation)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        let bucket = bucket.parse().ok().filter(|bucket| *bucket < BUCKETS);
        bucket.is_some_and(|bucket| partition_of(bucket, self.places.partitions()) == id.partition)
            && Kind::of_conversation(conversation) == Kind::of_topic(&id.topic)
    }

    async fn words(&self, instance: usize, name: &'static str, words: &[&str]) -> Result<Value, ViewError> {
        Ok(self.places.redis(instance).command(name, words, TIMEOUT).await?)
    }
}
