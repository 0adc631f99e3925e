//! How a run ends: the faults stop, everything has to come to rest, and all is compared with the logs.

use crate::{
    plan::{ROUTERS, USERS},
    truth::Truth,
    world::World,
};

const STEPS: u64 = 2000;
/// So many steps without a change of owner are rest.
const REST: u64 = 300;
/// Longest way to it: leases, and the waits of deposed routers and of claims in doubt (30 s), at 50 ms a step.
const MOST: u64 = 4000;
/// Each partition may go from hand to hand so often on that way.
const MOST_CHANGES: usize = 6;

impl World {
    /// What is wrong in the end: nothing.
    pub(crate) fn run(&mut self) -> Vec<String> {
        for _ in 0..STEPS {
            self.step();
        }
        self.end_faults();
        if self.plan.assigned {
            self.come_to_rest();
        } else {
            self.leave_one();
        }
        self.persist_all();
        let events: u64 = self.parts.iter().map(|part| part.log.events().len() as u64).sum();
        *self.counts.0.entry("an event accepted").or_default() += events;
        self.compare()
    }

    fn end_faults(&mut self) {
        self.faulty = false;
        self.cuts.clear();
        self.machines.iter_mut().for_each(|machine| machine.asleep_until = 0);
        self.instances.iter_mut().for_each(|instance| instance.down_until = 0);
        self.gateways.iter_mut().for_each(|gateway| gateway.asleep_until = 0);
    }

    /// One router is left. What takes it more than some rounds counts as stuck.
    fn leave_one(&mut self) {
        let survivor = rand::Rng::random_range(&mut self.random, 0..ROUTERS);
        for router in 0..ROUTERS {
            if router != survivor {
                self.crash(router);
            }
        }
        self.parts[0].believed_owner = (u64::MAX, survivor);
        for _ in 0..25 {
            if !self.slots[survivor].owns() && !self.slots[survivor].taking_over {
                self.take_over(survivor);
            }
            self.run_dry(survivor);
            // Longer than any backoff lasts after three rounds.
            self.clock += 1500;
            self.pass(survivor);
            self.send_all();
        }
        self.run_dry(survivor);
    }

    fn send_all(&mut self) {
        for number in 0..self.sessions.len() {
            self.send(number, false);
        }
        for number in 0..self.admins.len() {
            self.command(number, false);
        }
    }

    fn run_dry(&mut self, survivor: usize) {
        for round in 0..2000 {
            self.append(0);
            self.tick();
            self.read(survivor, 10);
            if round % 4 == 0 {
                self.tell_views(survivor);
            }
            let all_read = self.slots[survivor].core.position().offset == self.parts[0].log.len();
            if round > 30 && self.quiet() && (all_read || !self.slots[survivor].owns()) {
                return;
            }
        }
    }

    fn tell_views(&mut self, slot: usize) {
        for piece in 0..2 * self.instances.len() {
            self.apply_some(slot, piece);
            self.replay(slot, piece);
        }
    }

    /// Nothing is on its way but the views' beats.
    fn quiet(&self) -> bool {
        self.parts.iter().all(|part| part.log.wires.is_empty())
            && self.slots.iter().all(|slot| slot.core.pending() == 0 || !slot.serves())
    }

    /// All routers are left: the heartbeats have to make them agree, and nothing may go to and fro (R-SEQ-10).
    fn come_to_rest(&mut self) {
        let begin = self.clock;
        let mut quiet_since = self.clock;
        while self.clock < begin + MOST {
            self.go_on();
            if !self.at_rest() {
                quiet_since = self.clock;
            } else if self.clock > quiet_since.max(self.last_change()) + REST {
                break;
            }
        }
        for part in &self.parts {
            let changes = part.changes.iter().filter(|at| **at > begin).count();
            if changes > MOST_CHANGES {
                self.wrong.push(format!("{} went from hand to hand {changes} times", part.id));
            }
        }
        if self.clock >= begin + MOST {
            self.wrong.push(format!("it does not come to rest: {}", self.unrest()));
        }
    }

    /// One step in which everybody does what there is to do.
    pub(crate) fn go_on(&mut self) {
        self.tick();
        self.run_machines();
        for part in 0..self.parts.len() {
            self.append(part);
            self.append(part);
        }
        for slot in 0..self.slots.len() {
            if self.slots[slot].owns() {
                self.read(slot, 20);
            }
        }
        if self.clock.is_multiple_of(4) {
            self.serve_on();
        }
    }

    fn serve_on(&mut self) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].owns() {
                self.pass(slot);
                self.tell_views(slot);
            }
        }
        if self.clock.is_multiple_of(20) {
            self.send_all();
        }
    }

    fn last_change(&self) -> u64 {
        self.parts.iter().filter_map(|part| part.changes.last()).copied().max().unwrap_or_default()
    }

    fn at_rest(&self) -> bool {
        let one_owner = |part: usize| {
            let owners: Vec<_> = self.slots.iter().filter(|slot| slot.part == part && slot.owns()).collect();
            owners.len() == 1 && owners[0].serves() && {
                let log = &self.parts[part].log;
                // Claims and void records at the very end are told when something is acknowledged behind them.
                let events = log.valid.values().flatten().max().map_or(0, |last| last + 1);
                owners[0].core.position().offset == log.len()
                    && self.parts[part].pieces.iter().all(|piece| piece.view.position().offset >= events)
            }
        };
        (0..self.parts.len()).all(one_owner)
            && self.sessions.iter().all(|session| session.todo.is_empty())
            && self.admins.iter().all(|admin| admin.todo.is_none())
            && self.quiet()
    }

    fn unrest(&self) -> String {
        let slots = self.slots.iter().map(|slot| {
            let (id, core) = (&self.parts[slot.part].id, &slot.core);
            format!(
                "r{} {id} {:?} at {} pending {}",
                slot.router,
                core.state(),
                core.position().offset,
                core.pending()
            )
        });
        let parts = self.parts.iter().map(|part| {
            let pieces: Vec<_> = part.pieces.iter().map(|piece| piece.view.position().offset).collect();
            format!(
                "{} ends at {}, pieces at {pieces:?}, wires {}",
                part.id,
                part.log.len(),
                part.log.wires.len()
            )
        });
        let todo = self.sessions.iter().map(|session| format!("{:?}", session.todo));
        let admins = self.admins.iter().map(|admin| format!("{:?} {:?}", admin.todo, admin.flight));
        let changes =
            self.parts.iter().map(|part| format!("changes at {:?} of {}", part.changes, self.clock));
        slots.chain(parts).chain(todo).chain(admins).chain(changes).collect::<Vec<_>>().join("\n")
    }

    fn persist_all(&mut self) {
        for part in 0..self.parts.len() {
            for _ in 0..200 {
                self.persist(part, 50);
            }
        }
    }

    fn compare(&mut self) -> Vec<String> {
        let mut truths: Vec<Truth> = self.parts.iter().map(|part| Truth::of(&part.log)).collect();
        let mut wrong = std::mem::take(&mut self.wrong);
        for (truth, part) in truths.iter_mut().zip(&self.parts) {
            truth.compare(part);
            // Readers of a broken rule would have to break it in the same way.
            if part.log.rule == lapwing_model::Rule::WHOLE {
                truth.compare_tables(part);
            }
            wrong.append(&mut truth.wrong);
        }
        for truth in &truths {
            self.compare_told(truth, &mut wrong);
        }
        for (conversation, user, seq) in &self.shown {
            if !truths[self.part_of(conversation)].sees(conversation, user, *seq) {
                wrong.push(format!("{conversation} seq {seq} was shown to {user}"));
            }
        }
        for (part, conversation, user, from, to) in &self.refusals {
            if truths[*part].was_member(conversation, user, *from, *to) {
                wrong.push(format!(
                    "{user} was refused in {conversation}, and was a member from offset {from} to {to}"
                ));
            }
        }
        self.compare_sessions(&mut wrong);
        wrong
    }

    fn compare_told(&self, truth: &Truth, wrong: &mut Vec<String>) {
        for ((user, mid), stands) in &truth.by_mid {
            if stands.len() > 1 {
                wrong.push(format!("{mid} of {user} stands {} times: {stands:?}", stands.len()));
            }
        }
        for (user, mid, said) in &self.refused {
            let stands = truth.by_mid.get(&(user.clone(), mid.clone()));
            if stands.is_some_and(|stands| stands.iter().any(|(_, _, content)| content == said)) {
                wrong.push(format!("{mid} of {user} was refused for good and stands: {stands:?}"));
            }
        }
    }

    fn compare_sessions(&self, wrong: &mut Vec<String>) {
        debug_assert!(self.sessions.iter().all(|session| USERS.contains(&session.user.as_str())));
        for (number, session) in self.sessions.iter().enumerate() {
            let mut accepted = session.accepted.clone();
            accepted.sort_unstable();
            let turned_away = |mid: &String| self.turned_away.contains(&(session.user.clone(), mid.clone()));
            accepted.retain(|(mid, _)| !turned_away(&format!("{number}-{mid}")));
            if !accepted.is_sorted_by_key(|(_, seq)| *seq) {
                wrong
                    .push(format!("{} in {} out of order: {accepted:?}", session.user, session.conversation));
            }
            wrong.extend(session.todo.iter().map(|item| format!("{} is never answered", item.mid)));
        }
        for admin in &self.admins {
            wrong.extend(admin.todo.iter().map(|todo| format!("{todo:?} is never answered")));
        }
    }
}
