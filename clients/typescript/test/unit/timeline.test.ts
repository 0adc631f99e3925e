import assert from "node:assert/strict";
import { test } from "node:test";

import { Timeline } from "../../src/timeline.js";
import type { LapwingEvent } from "../../src/types.js";

const event = (seq: number): LapwingEvent => ({
  conversation: "grp.x",
  seq,
  n: seq,
  sender: "bob",
  device: "",
  clientMid: "",
  sentAtMs: 0,
  traceparent: "",
  body: { case: "message", content: { text: `m${seq}` } },
});
const seqs = (events: LapwingEvent[]): number[] => events.map(({ seq }) => seq);

// R-ACK-2: in seq order, once
test("each event once, whatever comes twice", () => {
  const timeline = new Timeline(3);
  assert.deepEqual(seqs(timeline.receive([event(3), event(4), event(4), event(5)]).deliver), [4, 5]);
  assert.deepEqual(seqs(timeline.receive([event(4), event(5), event(6)]).deliver), [6]);
});

test("a hole holds back what is behind it until it is filled", () => {
  const timeline = new Timeline(0);
  const step = timeline.receive([event(1), event(4), event(5)]);
  assert.deepEqual(seqs(step.deliver), [1]);
  assert.deepEqual(step.hole, { from: 2, to: 3 });
  assert.deepEqual(timeline.receive([event(3)]).hole, { from: 2, to: 2 });
  const filled = timeline.receive([event(2)]);
  assert.deepEqual(seqs(filled.deliver), [2, 3, 4, 5]);
  assert.equal(filled.hole, undefined);
});

test("a gap told by the server is passed, also when it comes before its turn", () => {
  const timeline = new Timeline(0);
  assert.deepEqual(timeline.skip(3, 6).hole, { from: 1, to: 2 });
  const step = timeline.receive([event(1), event(2), event(7)]);
  assert.deepEqual(seqs(step.deliver), [1, 2, 7]);
  assert.equal(timeline.cursor, 7);
});

test("what is known to exist but not to be pushed is a hole", () => {
  const timeline = new Timeline(2);
  assert.deepEqual(timeline.expectUpTo(5).hole, { from: 3, to: 5 });
  assert.equal(timeline.expectUpTo(5).deliver.length, 0);
  assert.equal(timeline.receive([event(3), event(4), event(5)]).hole, undefined);
});

test("memory is bounded: beyond 2000 events ahead the hole grows instead", () => {
  const timeline = new Timeline(0);
  timeline.receive(Array.from({ length: 3_000 }, (_, i) => event(i + 2)));
  const step = timeline.receive([event(1)]);
  assert.equal(step.deliver.length, 2_001);
  assert.deepEqual(step.hole, { from: 2_002, to: 3_001 });
});
