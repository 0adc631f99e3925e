// The SDK against the real services: what the in-memory gateway of the unit tests only believes.
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";

import { LapwingClient, newClientMid, type ClientOptions, type PublishOutcome, type SdkError } from "../../src/index.js";
import { collect, NodeSocket, sleep, text, until } from "../fixture/helpers.js";
import { findCluster, type Cluster } from "./cluster.js";
import { Proxy } from "./proxy.js";

let cluster: Cluster;
const cleanUps: (() => Promise<unknown>)[] = [];

before(async () => {
  cluster = await findCluster();
});
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});
after(async () => cluster?.stop());

async function ask<T>(path: string, body?: object): Promise<T> {
  const init = body ? { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) } : {};
  const response = await fetch(`${cluster.url}${path}`, init);
  assert.equal(response.status, 200, `${path}: ${response.status}`);
  return (await response.json()) as T;
}

function client(user: string, options: Partial<ClientOptions> = {}): LapwingClient {
  const token = async (): Promise<string> => (await ask<{ token: string }>(`/demo/token?user=${user}`)).token;
  const made = new LapwingClient({ url: cluster.url, token, device: "test", WebSocket: NodeSocket, ...options });
  cleanUps.push(() => made.close());
  return made;
}

async function users(): Promise<{ alice: string; bob: string; p2p: string; group: string }> {
  const run = newClientMid().slice(0, 8);
  const [alice, bob] = [`alice-${run}`, `bob-${run}`];
  const { conversation: p2p } = await ask<{ conversation: string }>("/demo/p2p", { users: [alice, bob] });
  const { conversation: group } = await ask<{ conversation: string }>("/demo/group", { name: `g-${run}`, members: [alice, bob] });
  return { alice, bob, p2p, group };
}

const seqOf = (outcome: PublishOutcome): number => ("seq" in outcome ? outcome.seq : 0);

test("history pages: newest, before, after, reverse, position only", async () => {
  const { alice, p2p } = await users();
  const a = client(alice);
  await a.connect();
  for (let i = 1; i <= 12; i += 1) assert.equal((await a.publish({ conversation: p2p }, { text: `m${i}` })).outcome, "accepted");
  const head = (await a.history(p2p, { limit: 0 })).head;
  const seqs = async (query: Parameters<LapwingClient["history"]>[1]): Promise<number[]> => (await a.history(p2p, query)).events.map(({ seq }) => seq);
  assert.deepEqual(await seqs({ limit: 3 }), [head - 2, head - 1, head]);
  assert.deepEqual(await seqs({ before: head - 2, limit: 2 }), [head - 4, head - 3]);
  assert.deepEqual(await seqs({ before: head - 2, limit: 2, reverse: true }), [head - 3, head - 4]);
  assert.deepEqual(await seqs({ after: head - 2, limit: 10 }), [head - 1, head]);
  assert.deepEqual(await seqs({ after: 0, limit: 500 }), Array.from({ length: head }, (_, i) => i + 1));
  assert.equal((await a.history(p2p, { after: 0, limit: 5 })).more, true);
  assert.equal((await a.history(p2p, { after: 0, limit: 500 })).more, false);
  await assert.rejects(a.history(p2p, { limit: 501 }), (error: SdkError) => error.step === "history" && error.code === 400);
});

// R-GW-9
test("refusals name step, code and trace, and the connection goes on", async () => {
  const { alice, p2p } = await users();
  const a = client(alice);
  await a.connect();
  const errorOf = async (outcome: Promise<PublishOutcome>): Promise<SdkError> => {
    const settled = await outcome;
    assert.equal(settled.outcome, "rejected");
    assert.ok("error" in settled);
    assert.match(settled.error.traceId, /^[0-9a-f]{32}$/);
    return settled.error;
  };
  assert.equal((await errorOf(a.publish({ conversation: "grp.nobody-made-this" }, { text: "x" }))).code, 404);
  assert.equal((await errorOf(a.publish({ conversation: p2p }, { text: "x" }, { clientMid: "not an id!" }))).code, 400);
  const mid = newClientMid();
  assert.equal((await a.publish({ conversation: p2p }, { text: "first" }, { clientMid: mid })).outcome, "accepted");
  assert.equal((await a.publish({ conversation: p2p }, { text: "first" }, { clientMid: mid })).outcome, "duplicate");
  assert.equal((await errorOf(a.publish({ conversation: p2p }, { text: "other" }, { clientMid: mid }))).code, 409);
  const large = await errorOf(a.publish({ conversation: p2p }, { data: new Uint8Array(524_289) }));
  assert.equal(large.code, 413);
  assert.equal((await a.publish({ conversation: p2p }, { text: "still here" })).outcome, "accepted");
});

test("a bad token is refused for good, with step, code and trace", async () => {
  const eve = client("eve", { token: () => "not.a.token" });
  await assert.rejects(eve.connect(), (error: SdkError) => {
    assert.deepEqual([error.step, error.code], ["connect", 4501]);
    assert.match(error.traceId, /^[0-9a-f]{32}$/);
    return true;
  });
});

test("a device that connects again takes its session over", async () => {
  const { alice, p2p } = await users();
  const first = client(alice);
  await first.connect();
  const second = client(alice);
  const events = collect(second);
  await second.connect();
  await until("the first one is closed", () => first.state.state === "closed");
  assert.ok(first.state.state === "closed" && first.state.error?.code === 4500);
  const outcome = await second.publish({ conversation: p2p }, { text: "here now" });
  await until("its own event", () => events.some((event) => event.seq === seqOf(outcome)));
});

// R-ACK-2, R-SEQ-11
test("cut connections and a killed router: each message once, in order, on both sides, and stored", async () => {
  const { alice, bob, p2p, group } = await users();
  const proxy = new Proxy(cluster.url);
  cleanUps.push(() => proxy.cut());
  await proxy.mend();
  const a = client(alice, { url: proxy.url });
  const b = client(bob, { url: proxy.url, subprotocol: "lapwing.v1.json" });
  const receipts = new Set<string>();
  for (const side of [a, b]) {
    side.on("persisted", ({ conversation, seqs }) => seqs.forEach((seq) => receipts.add(`${conversation} ${seq}`)));
    side.on("state", ({ state }) => state === "waiting" && setTimeout(() => side.reconnectNow(), 200));
  }
  const [seenByA, seenByB] = [collect(a), collect(b)];
  await a.connect();
  await b.connect();

  let writing = true;
  const sent: { conversation: string; user: string; text: string; outcome: Promise<PublishOutcome> }[] = [];
  const write = async (side: LapwingClient, user: string): Promise<void> => {
    for (let i = 0; writing; i += 1) {
      for (const conversation of [p2p, group]) {
        const words = `${user} ${i}`;
        sent.push({ conversation, user, text: words, outcome: side.publish({ conversation }, { text: words }) });
      }
      await sleep(100);
    }
  };
  const writers = [write(a, alice), write(b, bob)];
  for (let i = 0; i < 3; i += 1) {
    await sleep(800);
    await proxy.cut();
    await sleep(150 * i);
    await proxy.mend();
  }
  await cluster.killRouter?.();
  await sleep(2_000);
  writing = false;
  await Promise.all(writers);

  const settled = await Promise.all(sent.map(async (message) => ({ ...message, outcome: await message.outcome })));
  const bad = settled.filter(({ outcome }) => !("seq" in outcome));
  assert.deepEqual(bad.map(({ outcome }) => outcome), []);
  for (const [side, seen] of [["alice", seenByA], ["bob", seenByB]] as const) {
    for (const conversation of [p2p, group]) {
      const stands = settled.filter((message) => message.conversation === conversation);
      const texts = (): string[] => seen.filter((event) => event.conversation === conversation && event.body.case === "message").map(text);
      await until(`${side} has all of ${conversation}`, () => texts().length >= stands.length, 20_000);
      for (const user of [alice, bob]) {
        const inOrder = stands.filter((message) => message.user === user).map((message) => message.text);
        assert.deepEqual(texts().filter((words) => words.startsWith(`${user} `)), inOrder, `${user}'s messages as ${side} saw them`);
      }
      const seqs = seen.filter((event) => event.conversation === conversation).map(({ seq }) => seq);
      assert.deepEqual(seqs, Array.from({ length: seqs.length }, (_, i) => (seqs[0] ?? 0) + i), "contiguous");
    }
  }
  const keys = settled.map(({ conversation, outcome }) => `${conversation} ${seqOf(outcome)}`);
  await until("all are stored", () => keys.every((key) => receipts.has(key)), 40_000);
});
