//! History as a member reads it, page by page, against the ledger; a few workers, apart from the MySQL check (R-LT-6).
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use lapwing_client::{RawBody, RawEvent, proto};
use parking_lot::Mutex;

use crate::{fleet::Fleet, ledger::Ledger};

#[derive(Debug, Clone, Default, serde::Serialize)]
pub(crate) struct History {
    pub(crate) conversations: usize,
    pub(crate) messages: usize,
    pub(crate) pages: usize,
    pub(crate) wrong: usize,
    pub(crate) seconds: f64,
    pub(crate) details: Vec<String>,
}

/// What a conversation's history said, in order: (sender, content type, text).
pub(crate) type Transcript = Vec<(String, String, String)>;

const PAGE: u32 = 500;
const LIMIT: Duration = Duration::from_secs(180);
const TRIES: usize = 5;

pub(crate) async fn check(
    fleet: &Fleet,
    ledger: &Ledger,
    workers: u16,
) -> (History, BTreeMap<u32, Transcript>) {
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    let result = Mutex::new((History::default(), BTreeMap::new()));
    let worker = |_| async {
        loop {
            let index = next.fetch_add(1, Relaxed);
            if index >= ledger.conversations.len() {
                return;
            }
            let left = LIMIT.saturating_sub(began.elapsed());
            let read = tokio::time::timeout(left, one(fleet, ledger, index as u32)).await;
            let read = read.unwrap_or_else(|_| Err(anyhow::anyhow!("not read within {LIMIT:?} in all")));
            let mut result = result.lock();
            result.0.conversations += 1;
            match read {
                Ok((pages, transcript)) => {
                    result.0.pages += pages;
                    result.0.messages += transcript.len();
                    result.1.insert(index as u32, transcript);
                }
                Err(error) => {
                    result.0.wrong += 1;
                    if result.0.details.len() < 100 {
                        result.0.details.push(format!("{}: {error:#}", ledger.conversations[index].id));
                    }
                }
            }
        }
    };
    futures::future::join_all((0..workers).map(worker)).await;
    let (mut history, transcripts) = result.into_inner();
    history.seconds = began.elapsed().as_secs_f64();
    (history, transcripts)
}

async fn one(fleet: &Fleet, ledger: &Ledger, index: u32) -> anyhow::Result<(usize, Transcript)> {
    let conversation = &ledger.conversations[index as usize];
    let reader = conversation.members[index as usize % conversation.members.len()];
    let (mut after, mut pages, mut transcript) = (0, 0, Transcript::new());
    loop {
        let request = proto::HistoryRequest {
            conversation: conversation.id.clone(),
            after: Some(after),
            limit: PAGE,
            seen: conversation.head.load(Relaxed),
            ..Default::default()
        };
        let page = read(fleet, reader, request).await?;
        pages += 1;
        let first = after + 1;
        for event in &page.events {
            // A member who joined later begins at from_seq; everything behind that is contiguous.
            ensure!(
                event.seq == after + 1 || (after == 0 && event.seq == page.from_seq),
                "seq {} comes after {after}",
                event.seq
            );
            after = event.seq;
            message(ledger, index, event, &mut transcript)?;
        }
        ensure!(page.gaps.is_empty(), "history declares gaps: {:?}", page.gaps);
        if !page.more {
            let head = conversation.head.load(Relaxed);
            ensure!(after >= head, "history ends at seq {after}, the head is {head}");
            break;
        }
        ensure!(after >= first, "a page says that there is more and holds nothing");
    }
    let stored: usize = ledger.observed(index).count();
    ensure!(transcript.len() == stored, "{} messages in history, {stored} in the ledger", transcript.len());
    Ok((pages, transcript))
}

async fn read(
    fleet: &Fleet,
    reader: u32,
    request: proto::HistoryRequest,
) -> anyhow::Result<proto::HistoryPage> {
    let mut tries = 0;
    loop {
        tries += 1;
        match fleet.clients[reader as usize].history(request.clone()).await {
            Ok(page) => return Ok(page),
            Err(error) if tries >= TRIES => return Err(error).context(format!("{tries} tries")),
            Err(_) => tokio::time::sleep(Duration::from_millis(200 << tries)).await,
        }
    }
}

fn message(
    ledger: &Ledger,
    index: u32,
    event: &proto::Event,
    transcript: &mut Transcript,
) -> anyhow::Result<()> {
    let RawBody::Text(text) = RawEvent::from(event).body else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(text).into_owned();
    let entry = ledger.entry_of(&event.client_mid);
    let entry = entry.with_context(|| {
        format!("seq {}: client_mid {:?} is not of this run", event.seq, event.client_mid)
    })?;
    ensure!(
        ledger.at(index, event.seq) == Some(entry),
        "seq {} is another message than was delivered",
        event.seq
    );
    ensure!(ledger.entries[entry as usize].text == text, "seq {} has another text", event.seq);
    let kind = match &event.body {
        Some(proto::event::Body::Message(content)) => content.r#type.clone(),
        _ => String::new(),
    };
    transcript.push((event.sender.clone(), kind, text));
    Ok(())
}
