//! The product's way: the same cursors and the same call as the router's apply stage, one call on its way at a time.

use std::collections::HashMap;

use anyhow::{Result, bail};
use lapwing_model::{PartitionId, Position, view::FAMILIES};
use lapwing_router_core::view::ViewCursor;
use lapwing_views::{Applied, BATCH_BYTES, BATCH_RECORDS, Views};

use super::{call, section};
use crate::records::Placed;

/// As the router's apply stage has it.
const CALL_SECTIONS: usize = 48;

pub(crate) async fn apply(views: &Views, records: Vec<Placed>) -> Result<()> {
    let mut cursors: HashMap<PartitionId, [ViewCursor; 2]> = HashMap::new();
    let new = || FAMILIES.map(|family| ViewCursor::new(family, Position::default(), usize::MAX));
    for Placed { id, released, .. } in records {
        for cursor in cursors.entry(id).or_insert_with(new) {
            cursor.push(released.clone());
        }
    }
    loop {
        let mut sections = Vec::new();
        for (id, cursors) in &mut cursors {
            for cursor in cursors {
                if sections.len() < CALL_SECTIONS
                    && let Some(batch) = cursor.next(BATCH_RECORDS, BATCH_BYTES, false)
                {
                    sections.push((id.clone(), batch));
                }
            }
        }
        if sections.is_empty() {
            return Ok(());
        }
        let made = sections.iter_mut().map(|(id, batch)| {
            section(id, batch.family, (batch.expected, batch.new), std::mem::take(&mut batch.ops))
        });
        let answers = call(views, &made.collect::<Vec<_>>()).await?;
        for ((id, batch), answer) in sections.iter().zip(answers) {
            let place = FAMILIES.iter().position(|family| *family == batch.family).unwrap_or_default();
            match (cursors.get_mut(id), answer) {
                (Some(cursors), Applied::Ok) => drop(cursors[place].applied(batch.new)),
                (_, answer) => bail!("{id} was not applied: {answer:?}"),
            }
        }
    }
}
