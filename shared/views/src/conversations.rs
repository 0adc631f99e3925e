//! `convs.lua`: a user's conversations with its cursors (I9).

use std::{collections::HashMap, sync::LazyLock};

use bytes::Bytes;
use lapwing_links::redis::Script;
use lapwing_model::{Family, PartitionId, kind::KINDS, view::UserConversation};

use crate::{TIMEOUT, ViewError, Views, apply::number, keys, value};

static CONVS: LazyLock<Script> = LazyLock::new(|| Script::new("convs", include_str!("lua/convs.lua")));

impl Views {
    /// Up to `limit` conversations in order of their ids, those that the user left included.
    pub async fn user_conversations(
        &self,
        tenant: &str,
        user: &str,
        limit: usize,
    ) -> Result<Vec<UserConversation>, ViewError> {
        let piece = self.places.user(tenant, user);
        let mut keys = vec![Bytes::from(keys::convs(tenant, user)), Bytes::from(keys::cursor(tenant, user))];
        let mut lowest = Vec::new();
        for kind in KINDS {
            for partition in 0..self.places.partitions() {
                let id = PartitionId::new(kind.topic(), partition);
                keys.push(Bytes::from(keys::applied(&id, &piece)));
                lowest.push(number(self.places.lowest(&id, Family::User)));
            }
        }
        let answer = self.places.redis(piece.instance).eval(&CONVS, &keys, &lowest, TIMEOUT).await?;
        let form = || value::form("convs", &answer);
        let parts = value::array(&answer).ok_or_else(form)?;
        let [convs, cursors] = parts else {
            return Err(ViewError::NotReady(format!("conversations of {tenant}/{user}")));
        };
        let convs = value::strings(convs).ok_or_else(form)?;
        let cursors = value::strings(cursors).ok_or_else(form)?;
        let cursors: HashMap<_, _> = cursors.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect();
        let mut peers = HashMap::new();
        let mut found = Vec::new();
        for pair in convs.chunks_exact(2) {
            let name = String::from_utf8_lossy(&pair[0]).into_owned();
            if let Some(of) = name.strip_prefix('=') {
                peers.insert(of.to_owned(), String::from_utf8_lossy(&pair[1]).into_owned());
                continue;
            }
            let member = value::member(&pair[1]).flatten().ok_or_else(form)?;
            let cursor = |field: &Bytes| {
                cursors.get(field).and_then(|cursor| value::three(cursor)).unwrap_or_default()
            };
            let [mut read_seq, mut read_n, delivered_seq] = cursor(&pair[0]);
            let [sent_seq, sent_n, _] = cursor(&keys::sent(&name).into());
            if sent_seq > read_seq {
                (read_seq, read_n) = (sent_seq, sent_n);
            }
            let peer = String::new();
            found.push(UserConversation {
                conversation: name,
                member,
                read_seq,
                read_n,
                delivered_seq,
                peer,
            });
        }
        for conversation in &mut found {
            conversation.peer = peers.remove(&conversation.conversation).unwrap_or_default();
        }
        found.sort_unstable_by(|a, b| a.conversation.cmp(&b.conversation));
        found.truncate(limit);
        Ok(found)
    }
}
