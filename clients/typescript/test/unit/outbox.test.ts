import assert from "node:assert/strict";
import { test } from "node:test";

import { classOfCode } from "../../src/convert.js";
import { SdkError } from "../../src/errors.js";
import { Outbox, type Now, type Pending } from "../../src/outbox.js";
import { fromRecord, toRecord } from "../../src/outbox-record.js";

const HOUR = 3_600_000;
const at = (mono: number, server = 1_000_000 + mono): Now => ({ mono, wall: 5_000_000 + mono, server });
const refusal = (code: number, retryAfterMs = 0): SdkError =>
  new SdkError({ step: "publish", code, name: `code_${code}`, message: "no", outcomeClass: classOfCode(code), retryAfterMs });
const silence = new SdkError({ step: "publish", name: "no_answer", message: "no answer" });

/** Remembers what was taken, as the publisher does. */
class Box extends Outbox {
  private readonly taken = new Map<string, Pending>();

  override take(now: Now): Pending | undefined {
    const entry = super.take(now);
    if (entry) this.taken.set(entry.clientMid, entry);
    return entry;
  }

  of(clientMid: string): Pending {
    const entry = this.taken.get(clientMid);
    assert.ok(entry, `${clientMid} was never sent`);
    return entry;
  }
}

function outbox(...mids: string[]): Box {
  const box = new Box(() => 0.5);
  for (const clientMid of mids) box.add({ clientMid, target: { conversation: "grp.x" }, content: { text: clientMid }, receipt: false });
  return box;
}

const stand = { conversation: "grp.x", seq: 7, n: 6, sentAtMs: 9, duplicate: false };

// R-ACK-6: the table, first attempt
for (const code of [400, 403, 404, 409, 413]) {
  test(`${code} to the only attempt: rejected`, () => {
    const box = outbox("a");
    box.take(at(0));
    box.refused(box.of("a"), refusal(code), at(5));
    const [settled] = box.drain();
    assert.equal(settled?.outcome.outcome, "rejected");
    assert.ok(settled && "error" in settled.outcome && settled.outcome.error.code === code);
    assert.equal(box.take(at(1_000)), undefined);
  });

  test(`${code} after an attempt without an answer: unknown, with the code as its reason`, () => {
    const box = outbox("a");
    box.take(at(0));
    box.disconnected();
    assert.equal(box.take(at(10))?.attempts, 2);
    box.refused(box.of("a"), refusal(code), at(20));
    const [settled] = box.drain();
    assert.equal(settled?.outcome.outcome, "unknown");
    assert.ok(settled && "error" in settled.outcome && settled.outcome.error.code === code);
  });
}

for (const code of [401, 429, 502, 503]) {
  test(`${code} leaves it open: the same message goes again, and a later 403 still is a rejection`, () => {
    const box = outbox("a");
    box.take(at(0));
    box.refused(box.of("a"), refusal(code, 400), at(10));
    assert.deepEqual(box.drain(), []);
    assert.equal(box.take(at(409)), undefined);
    const again = box.take(at(500));
    assert.equal(again?.clientMid, "a");
    assert.equal(again?.attempts, 2);
    box.refused(box.of("a"), refusal(403), at(510));
    assert.equal(box.drain()[0]?.outcome.outcome, "rejected");
  });
}

test("504 is retried, and a refusal after it is unknown", () => {
  const box = outbox("a");
  box.take(at(0));
  box.refused(box.of("a"), refusal(504), at(10));
  assert.equal(box.take(at(200))?.attempts, 2);
  box.refused(box.of("a"), refusal(404), at(210));
  assert.equal(box.drain()[0]?.outcome.outcome, "unknown");
});

test("a retry that finds its first attempt is a duplicate, which is as good as accepted", () => {
  const box = outbox("a");
  box.take(at(0));
  box.unanswered(box.of("a"), silence, at(15_000));
  box.take(at(16_000));
  box.accepted(box.of("a"), { ...stand, duplicate: true });
  assert.deepEqual(box.drain()[0]?.outcome, { outcome: "duplicate", clientMid: "a", attempts: 2, conversation: "grp.x", seq: 7, n: 6, sentAtMs: 9 });
});

// R-SEQ-11
test("a refusal holds back what was sent behind it, and the lane goes again in order", () => {
  const box = outbox("a", "b", "c");
  assert.deepEqual([box.take(at(0)), box.take(at(0)), box.take(at(0))].map((entry) => entry?.clientMid), ["a", "b", "c"]);
  box.refused(box.of("a"), refusal(503, 100), at(1));
  assert.equal(box.take(at(500)), undefined, "b and c have no answer yet");
  box.refused(box.of("b"), refusal(503, 100), at(2));
  box.refused(box.of("c"), refusal(503, 100), at(3));
  assert.equal(box.take(at(2_000))?.clientMid, "a");
  assert.equal(box.take(at(2_000)), undefined, "one at a time until one is accepted");
  box.accepted(box.of("a"), stand);
  assert.deepEqual([box.take(at(2_010)), box.take(at(2_010))].map((entry) => entry?.clientMid), ["b", "c"], "then two, and so on");
});

test("lanes do not wait for each other", () => {
  const box = outbox("a");
  box.add({ clientMid: "z", target: { toUser: "bob" }, content: { text: "z" }, receipt: false });
  box.take(at(0));
  box.refused(box.of("a"), refusal(503, 3_000), at(1));
  assert.equal(box.take(at(2))?.clientMid, "z");
});

// R-ACK-4
test("older than the window less 10 min: never sent again, unknown", () => {
  const box = outbox("a");
  box.take(at(0));
  box.disconnected();
  assert.equal(box.take(at(2 * HOUR - 601_000))?.attempts, 2);
  box.disconnected();
  assert.equal(box.take(at(2 * HOUR - 599_000)), undefined);
  const [settled] = box.drain();
  assert.equal(settled?.outcome.outcome, "unknown");
  assert.ok(settled && "error" in settled.outcome && settled.outcome.error.codeName === "too_old");
});

test("a message that was never sent does not grow old", () => {
  const box = outbox("a");
  assert.equal(box.take(at(50 * HOUR))?.attempts, 1);
});

const restart = (entry: Pending): Box => {
  const restored = fromRecord(toRecord(entry));
  assert.ok(restored);
  const box = new Box(() => 0.5);
  box.restore([restored]);
  return box;
};

test("over a restart: same client_mid, next attempt, age by the server's time; an unanswered attempt is remembered", () => {
  const entry = outbox("a").take(at(0));
  assert.ok(entry);
  const box = restart(entry);
  const later: Now = { mono: 3, wall: 5_000_000 + 60_000, server: 1_000_000 + 61_000 };
  const again = box.take(later);
  assert.equal(again?.clientMid, "a");
  assert.equal(again?.attempts, 2);
  assert.equal(box.ageMs(again as Pending, later), 61_000);
  box.refused(box.of("a"), refusal(404), later);
  assert.equal(box.drain()[0]?.outcome.outcome, "unknown");
});

test("over a restart with a wall clock set back: the server's time still tells that it is too old", () => {
  const entry = outbox("a").take(at(0));
  assert.ok(entry);
  const box = restart(entry);
  assert.equal(box.take({ mono: 3, wall: 4_999_000, server: 1_000_000 + 2 * HOUR }), undefined);
  assert.equal(box.drain()[0]?.outcome.outcome, "unknown");
});

test("over a restart with clocks that tell nothing: unknown rather than a second copy", () => {
  const entry = outbox("a").take(at(0));
  assert.ok(entry);
  const box = restart(entry);
  assert.equal(box.take({ mono: 3, wall: 5_000_000 - 2 * HOUR }), undefined);
  assert.equal(box.drain()[0]?.outcome.outcome, "unknown");
});

test("bytes and order survive the record", () => {
  const box = new Box(() => 0.5, 1);
  box.add({ clientMid: "b", target: { toUser: "bob" }, content: { data: new Uint8Array([0, 255, 7]), type: "x/y" }, receipt: true });
  const record = fromRecord(toRecord(box.entries()[0] as Pending));
  assert.deepEqual(record?.content, { data: new Uint8Array([0, 255, 7]), type: "x/y" });
  const next = new Box(() => 0.5, 100);
  next.add({ clientMid: "new", target: { toUser: "bob" }, content: { text: "" }, receipt: false });
  next.restore([record as Pending]);
  assert.equal(next.take(at(0))?.clientMid, "b");
  assert.equal(fromRecord("{"), undefined);
});

// R-ACK-6: open; rejected when the client gives up
test("giving up: rejected if every attempt was refused, unknown if one is without an answer", () => {
  for (const [answered, expected] of [[true, "rejected"], [false, "unknown"]] as const) {
    const box = new Box(() => 0.5);
    box.add({ clientMid: "a", target: { toUser: "bob" }, content: { text: "" }, receipt: false, giveUpAtMs: 1_000 });
    box.take(at(0));
    if (answered) box.refused(box.of("a"), refusal(503), at(1));
    else box.disconnected();
    box.expire(at(1_000));
    assert.equal(box.drain()[0]?.outcome.outcome, expected);
  }
});

test("the sender's own event settles a message whose answer was lost", () => {
  const box = outbox("a");
  box.take(at(0));
  const event = { conversation: "grp.x", seq: 4, n: 3, sender: "alice", device: "d", clientMid: "a", sentAtMs: 1, traceparent: "" };
  box.ownEvent({ ...event, body: { case: "message", content: { text: "a" } } });
  assert.equal(box.drain()[0]?.outcome.outcome, "accepted");
  assert.equal(box.size, 0);
  box.refused(box.of("a"), refusal(503, 100), at(5));
  assert.equal(box.take(at(500))?.clientMid, "a", "the server that refused it waits for it to come again");
  box.accepted(box.of("a"), { ...stand, duplicate: true });
  assert.deepEqual(box.drain(), [], "its outcome is told once");
  assert.equal(box.take(at(9_000)), undefined);
});

test("the same client_mid may be published again while the first one's answer is awaited", () => {
  const box = outbox("a");
  const first = box.take(at(0)) as Pending;
  const event = { conversation: "grp.x", seq: 4, n: 3, sender: "alice", device: "d", clientMid: "a", sentAtMs: 1, traceparent: "" };
  box.ownEvent({ ...event, body: { case: "message", content: { text: "a" } } });
  box.drain();
  const second = box.add({ clientMid: "a", target: { conversation: "grp.x" }, content: { text: "a" }, receipt: false });
  assert.equal(box.take(at(1)), second);
  box.accepted(first, stand);
  assert.deepEqual(box.drain(), []);
  box.accepted(second, { ...stand, duplicate: true });
  assert.equal(box.drain()[0]?.outcome.outcome, "duplicate");
});

// R-ACK-4
test("the event of a message that was told settles no later message with its client_mid", () => {
  const box = outbox("a");
  box.take(at(0));
  box.accepted(box.of("a"), stand);
  box.drain();
  box.add({ clientMid: "a", target: { conversation: "grp.x" }, content: { text: "other" }, receipt: false });
  const second = box.take(at(1)) as Pending;
  const event = { conversation: "grp.x", seq: 4, n: 3, sender: "alice", device: "d", clientMid: "a", sentAtMs: 1, traceparent: "" };
  box.ownEvent({ ...event, body: { case: "message", content: { text: "a" } } });
  assert.deepEqual(box.drain(), []);
  box.refused(second, refusal(409), at(2));
  assert.equal(box.drain()[0]?.outcome.outcome, "rejected");
});

test("a message that stands is not sent on another connection", () => {
  const box = outbox("a");
  box.take(at(0));
  const event = { conversation: "grp.x", seq: 4, n: 3, sender: "alice", device: "d", clientMid: "a", sentAtMs: 1, traceparent: "" };
  box.ownEvent({ ...event, body: { case: "message", content: { text: "a" } } });
  box.disconnected();
  assert.equal(box.take(at(1)), undefined);
});

test("an attempt that never left the process leaves no doubt behind", () => {
  const box = outbox("a");
  box.take(at(0));
  box.notSent(box.of("a"));
  box.take(at(1));
  box.refused(box.of("a"), refusal(404), at(2));
  assert.equal(box.drain()[0]?.outcome.outcome, "rejected");
});

test("the time of a held-back message is never passed unseen, and nothing is due without a connection", () => {
  const box = outbox("a");
  assert.equal(box.nextWake(at(0), false), undefined);
  box.take(at(0));
  box.refused(box.of("a"), refusal(503, 200), at(0));
  const wake = box.nextWake(at(0), true);
  assert.equal(wake, 220);
  assert.equal(box.nextWake(at(230), true), 220, "due since a moment that no take has seen");
  assert.ok((box.nextWake(at(230), false) ?? 0) > 6_000_000, "offline only its age counts");
  assert.equal(box.take(at(230))?.attempts, 2);
});
