//! Requests that wait for several answers: a reply goes out when the last of its slots is filled.

use std::collections::BTreeMap;

use lapwing_model::{Refusal, trace};
use lapwing_proto::{
    bus::{self, RouterReply, publish_outcome, router_reply},
    client,
};

use crate::RequestId;

#[derive(Debug, Clone, PartialEq)]
pub enum Slot {
    Published(client::Published),
    Attached(bus::Attached),
    Fetched(Box<bus::FetchReply>),
    Changed(bus::CommandReply),
    Done,
    Refused(client::Error),
    /// Nothing was produced, or what was is void.
    NotOwner {
        retry_after_ms: u32,
    },
    /// It may stand: an outcome without content.
    Unknown,
}

impl Slot {
    pub fn refused(refusal: &Refusal, traceparent: &str) -> Self {
        Slot::Refused(refusal.to_wire(trace::trace_id_of(traceparent)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Publish,
    Attach,
    Fetch,
    Command,
    Cursors,
}

#[derive(Default)]
pub struct Requests {
    open: BTreeMap<RequestId, Open>,
}

struct Open {
    form: Form,
    slots: Vec<Option<Slot>>,
    missing: usize,
    /// The first slot that was refused for now.
    refused: Option<usize>,
}

impl Requests {
    /// The reply at once when nothing was asked.
    pub fn open(&mut self, id: RequestId, form: Form, slots: usize) -> Option<RouterReply> {
        if slots == 0 {
            return Some(reply(form, Vec::new()));
        }
        self.open.insert(id, Open { form, slots: vec![None; slots], missing: slots, refused: None });
        None
    }

    /// What one session sent behind a publish that was refused for now must not overtake it (R-SEQ-11).
    pub fn behind_refusal(&self, id: RequestId, slot: usize) -> bool {
        self.open.get(&id).and_then(|open| open.refused).is_some_and(|refused| refused < slot)
    }

    /// The replies of all that wait: what was not settled here is settled by the owner.
    pub fn give_up(&mut self, retry_after_ms: u32) -> Vec<(RequestId, RouterReply)> {
        let open = std::mem::take(&mut self.open);
        let settled = |open: Open| {
            let slots = open.slots.into_iter().map(|slot| slot.unwrap_or(Slot::NotOwner { retry_after_ms }));
            reply(open.form, slots.collect())
        };
        open.into_iter().map(|(id, open)| (id, settled(open))).collect()
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The reply, once complete.
    pub fn fill(&mut self, id: RequestId, slot: usize, value: Slot) -> Option<RouterReply> {
        let open = self.open.get_mut(&id)?;
        let place = open.slots.get_mut(slot)?;
        if place.is_none() {
            open.missing -= 1;
        }
        if matches!(&value, Slot::Refused(error) if error.temporary) || matches!(value, Slot::NotOwner { .. })
        {
            open.refused = Some(open.refused.map_or(slot, |refused| refused.min(slot)));
        }
        *place = Some(value);
        if open.missing > 0 {
            return None;
        }
        let open = self.open.remove(&id)?;
        Some(reply(open.form, open.slots.into_iter().flatten().collect()))
    }
}

pub fn not_owner(retry_after_ms: u32) -> RouterReply {
    let not_owner = bus::NotOwner { owner: String::new(), retry_after_ms };
    RouterReply { body: Some(router_reply::Body::NotOwner(not_owner)) }
}

fn reply(form: Form, slots: Vec<Slot>) -> RouterReply {
    // A whole request that met a non-owner is told so once.
    if let Some(Slot::NotOwner { retry_after_ms }) =
        slots.iter().find(|slot| matches!(slot, Slot::NotOwner { .. }))
        && form != Form::Publish
    {
        return not_owner(*retry_after_ms);
    }
    let body = match form {
        Form::Publish => {
            let outcomes = slots.into_iter().map(outcome).collect();
            router_reply::Body::Publish(bus::PublishReply { outcomes })
        }
        Form::Attach => {
            let items = slots
                .into_iter()
                .map(|slot| match slot {
                    Slot::Attached(attached) => attached,
                    _ => bus::Attached { not_ready: true, ..Default::default() },
                })
                .collect();
            router_reply::Body::Attach(bus::AttachReply { items })
        }
        Form::Fetch | Form::Command | Form::Cursors => match most_telling(slots) {
            Some(Slot::Fetched(fetched)) => router_reply::Body::Fetch(*fetched),
            Some(Slot::Changed(changed)) => router_reply::Body::Command(changed),
            Some(Slot::Refused(error)) => router_reply::Body::Error(error),
            _ => router_reply::Body::Done(bus::Done {}),
        },
    };
    RouterReply { body: Some(body) }
}

/// One word for a whole request: a refusal for now asks for another try, so it counts more than a final one.
fn most_telling(slots: Vec<Slot>) -> Option<Slot> {
    slots.into_iter().rev().max_by_key(|slot| match slot {
        Slot::Refused(error) if error.temporary => 2,
        Slot::Refused(_) => 1,
        _ => 0,
    })
}

fn outcome(slot: Slot) -> bus::PublishOutcome {
    let outcome = match slot {
        Slot::Published(published) => Some(publish_outcome::Outcome::Published(published)),
        Slot::Refused(error) => Some(publish_outcome::Outcome::Error(error)),
        Slot::NotOwner { retry_after_ms } => {
            Some(publish_outcome::Outcome::NotOwner(bus::NotOwner { owner: String::new(), retry_after_ms }))
        }
        _ => None,
    };
    bus::PublishOutcome { outcome }
}
