//! The product's way: the same cursors and the same call as the router's apply stage, one call on its way at a time.

use std::collections::HashMap;

use anyhow::{Result, bail};
use lapwing_model::{PartitionId, Position, view::FAMILIES};
use lapwing_router_core::view::ViewCursor;
use lapwing_views::{Applied, Section, Views};

use super::records::Placed;

/// As `router/src/apply.rs` has them.
const BATCH_RECORDS: usize = 256;
const BATCH_BYTES: usize = 1 << 20;
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
                    sections.push(Section {
                        id: id.clone(),
                        family: batch.family,
                        expected: Some(batch.expected),
                        new: batch.new,
                        ops: batch.ops,
                    });
                }
            }
        }
        if sections.is_empty() {
            return Ok(());
        }
        let answers = views.apply(&sections).await?;
        for (section, answer) in sections.iter().zip(answers) {
            let place = FAMILIES.iter().position(|family| *family == section.family).unwrap_or_default();
            match (cursors.get_mut(&section.id), answer) {
                (Some(cursors), Applied::Ok) => drop(cursors[place].applied(section.new)),
                (_, answer) => bail!("{} was not applied: {answer:?}", section.id),
            }
        }
    }
}
