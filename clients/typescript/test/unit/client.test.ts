import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { MemoryStore, SdkError, type ConnectionState, type LapwingClient, type PublishOutcome, type Subprotocol } from "../../src/index.js";
import { FakeGateway, fakeToken } from "../fixture/fake-gateway.js";
import { collect, newClient, NodeSocket, sleep, text, until } from "../fixture/helpers.js";

let gateway: FakeGateway;
let clients: LapwingClient[];

beforeEach(async () => {
  gateway = await new FakeGateway().start();
  clients = [];
});

afterEach(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await gateway.stop();
});

function client(user: string, options: Parameters<typeof newClient>[2] = {}): LapwingClient {
  const made = newClient(gateway, user, options);
  clients.push(made);
  return made;
}

const SUBPROTOCOLS: Subprotocol[] = ["lapwing.v1.proto", "lapwing.v1.json"];

for (const subprotocol of SUBPROTOCOLS) {
  test(`${subprotocol}: publish, events on both sides, receipt, history, cursors`, async () => {
    const group = gateway.group("team", ["alice", "bob"]);
    const alice = client("alice", { subprotocol });
    const bob = client("bob", { subprotocol });
    const [seenByAlice, seenByBob] = [collect(alice), collect(bob)];
    const persisted: number[] = [];
    alice.on("persisted", (receipt) => persisted.push(...receipt.seqs));
    const welcome = await alice.connect();
    await bob.connect();
    assert.equal(welcome.user, "alice");

    const outcomes = await Promise.all(["one", "two", "drei ✓"].map((body) => alice.publish({ conversation: group }, { text: body })));
    assert.deepEqual(outcomes.map(({ outcome }) => outcome), ["accepted", "accepted", "accepted"]);
    const bytes = await bob.publish({ toUser: "alice" }, { data: new Uint8Array([1, 2, 255]), type: "app/bytes" });
    assert.equal(bytes.outcome, "accepted");

    await until("all events", () => seenByBob.length >= 5 && seenByAlice.length >= 5);
    assert.deepEqual(seenByBob.filter((event) => event.conversation === group).map(text), ["one", "two", "drei ✓"]);
    const data = seenByAlice.find((event) => event.body.case === "message" && "data" in event.body.content);
    assert.deepEqual(data?.body, { case: "message", content: { data: new Uint8Array([1, 2, 255]), type: "app/bytes" } });

    await until("receipts", () => persisted.includes(4));
    const page = await bob.history(group, { limit: 2 });
    assert.deepEqual(page.events.map(text), ["two", "drei ✓"]);
    assert.equal(page.more, true);
    assert.deepEqual((await bob.history(group, { before: 3, limit: 10 })).events.map(({ seq }) => seq), [1, 2]);

    bob.read(group, 4);
    const cursorOf = (kind: "ack" | "read"): (number | undefined)[] =>
      gateway.received.flatMap(({ user, frame }) => (user === "bob" && frame.body.case === kind && frame.body.value.conversation === group ? [Number(frame.body.value.seq)] : []));
    await until("ack and read", () => cursorOf("ack").includes(4) && cursorOf("read").includes(4));
    assert.deepEqual(cursorOf("ack"), [4], "cumulative, one frame for three events");
  });
}

// R-FAN-14
test("delivered is told at once after 100 events", async () => {
  const group = gateway.group("busy", ["alice", "bob"]);
  const alice = client("alice");
  await alice.connect();
  const start = performance.now();
  for (let i = 0; i < 100; i += 1) gateway.post(group, "bob", `m${i}`);
  await until("an ack", () => gateway.received.some(({ frame }) => frame.body.case === "ack"), 900);
  assert.ok(performance.now() - start < 900);
});

test("a conversation joined while connected is delivered from its first event", async () => {
  const alice = client("alice");
  const events = collect(alice);
  await alice.connect();
  const group = gateway.group("new", ["alice", "bob"]);
  gateway.post(group, "bob", "hello");
  await until("both events", () => events.length === 2);
  assert.deepEqual(events.map(text), ["(created)", "hello"]);
});

// R-ACK-1, R-ACK-4: unknown is settled by a retry with the same client_mid
for (const stored of [true, false]) {
  test(`connection cut before the answer (${stored ? "" : "not "}stored): same client_mid, one copy in the log`, () => cutBeforeAnswer(stored));
}

async function cutBeforeAnswer(stored: boolean): Promise<void> {
  const group = gateway.group("team", ["alice", "bob"]);
  const alice = client("alice");
  await alice.connect();
  let first = true;
  gateway.publishFault = () => {
    if (!first) return undefined;
    first = false;
    return { answer: "cut", stored };
  };
  const outcomes = await Promise.all([alice.publish({ conversation: group }, { text: "a" }), alice.publish({ conversation: group }, { text: "b" })]);
  assert.ok(outcomes.every(({ outcome }) => outcome === "accepted" || outcome === "duplicate"));
  assert.deepEqual(gateway.texts(group), ["a", "b"]);
  const attempts = gateway.publishes().filter(({ content }) => content?.body.value === "a");
  assert.equal(new Set(attempts.map(({ clientMid }) => clientMid)).size, 1);
  // What stands in the log comes back as the sender's own event, and needs no second attempt.
  assert.deepEqual(attempts.map(({ attempt }) => attempt), stored ? [1] : [1, 2]);
  assert.equal(attempts[0]?.firstAttemptAgeMs, 0n);
  assert.equal(gateway.connects, 2);
}

test("a swallowed publish is tried again on the same connection; a refusal then is unknown", async () => {
  const group = gateway.group("team", ["alice"]);
  const alice = client("alice", { answerTimeoutMs: 80 });
  await alice.connect();
  gateway.publishFault = ({ attempt }) => (attempt === 1 ? { answer: "none", stored: false } : { answer: "error", code: 403 });
  const outcome = await alice.publish({ conversation: group }, { text: "a" });
  assert.equal(outcome.outcome, "unknown");
  assert.ok("error" in outcome && outcome.error.code === 403);
  assert.ok((gateway.publishes()[1]?.firstAttemptAgeMs ?? 0n) >= 80n);
});

test("a stored publish whose answer is lost is accepted by the sender's own event", async () => {
  const group = gateway.group("team", ["alice"]);
  const alice = client("alice");
  await alice.connect();
  gateway.publishFault = () => ({ answer: "none", stored: true });
  const outcome = await alice.publish({ conversation: group }, { text: "a" });
  assert.equal(outcome.outcome, "accepted");
  assert.equal(gateway.publishes().length, 1);
});

// R-ACK-6, R-GW-4, R-GW-9
test("503 is retried after the server's time; 404 is rejected and names step, address, code and trace", async () => {
  const group = gateway.group("team", ["alice"]);
  const alice = client("alice");
  await alice.connect();
  gateway.publishFault = ({ attempt }) => (attempt < 3 ? { answer: "error", code: 503, retryAfterMs: 120 } : undefined);
  const start = performance.now();
  const outcome = await alice.publish({ conversation: group }, { text: "a" });
  assert.equal(outcome.outcome, "accepted");
  assert.equal(outcome.attempts, 3);
  assert.ok(performance.now() - start >= 240);

  const refused = await alice.publish({ conversation: "grp.nowhere" }, { text: "a" });
  assert.equal(refused.outcome, "rejected");
  assert.ok("error" in refused);
  const { error } = refused;
  assert.ok(error instanceof SdkError);
  assert.deepEqual([error.step, error.code, error.codeName, error.traceId.length], ["publish", 404, "not_found", 32]);
  assert.ok(error.address.startsWith("ws://127.0.0.1:"));
});

test("401 to a publish: the token is refreshed, the message goes again", async () => {
  const group = gateway.group("team", ["alice"]);
  let tokens = 0;
  const alice = client("alice", {
    token: () => {
      tokens += 1;
      return fakeToken("alice");
    },
  });
  await alice.connect();
  gateway.publishFault = ({ attempt }) => (attempt === 1 ? { answer: "error", code: 401 } : undefined);
  assert.equal((await alice.publish({ conversation: group }, { text: "a" })).outcome, "accepted");
  assert.equal(tokens, 2);
  assert.ok(gateway.received.some(({ frame }) => frame.body.case === "refresh"));
});

// R-CHAT-2: stable client_mid over restarts
test("a new process finishes what the old one left, with the same client_mid", async () => {
  const group = gateway.group("team", ["alice", "bob"]);
  const store = new MemoryStore();
  const old = newClient(gateway, "alice", { store });
  await old.connect();
  gateway.publishFault = () => ({ answer: "none", stored: true, mute: true });
  void old.publish({ conversation: group }, { text: "in doubt" }, { clientMid: "mid-1" });
  await until("the attempt", () => gateway.publishes().length === 1);
  const written = (await store.keys("lapwing/default/outbox/")).length;
  assert.equal(written, 1);
  await old.close();

  gateway.publishFault = () => undefined;
  const alice = client("alice", { store });
  const settled: PublishOutcome[] = [];
  alice.on("outcome", (outcome) => settled.push(outcome));
  await alice.connect();
  await until("the outcome", () => settled.length === 1);
  assert.equal(settled[0]?.clientMid, "mid-1");
  assert.equal(settled[0]?.outcome, "duplicate");
  assert.deepEqual(gateway.texts(group), ["in doubt"]);
  await until("an empty store", () => alice.pending().length === 0);
  assert.deepEqual(await store.keys("lapwing/default/outbox/"), []);
});

test("each attempt is written down before it is sent", async () => {
  const group = gateway.group("team", ["alice"]);
  const log: string[] = [];
  class Watched extends MemoryStore {
    override async set(key: string, value: string): Promise<void> {
      await sleep(20);
      log.push(`written ${String((JSON.parse(value) as { attempts: number }).attempts)}`);
      return super.set(key, value);
    }
  }
  const alice = client("alice", { store: new Watched(), device: "d" });
  await alice.connect();
  gateway.publishFault = ({ attempt }) => {
    log.push(`received ${attempt}`);
    return attempt === 1 ? { answer: "error", code: 503 } : undefined;
  };
  await alice.publish({ conversation: group }, { text: "a" });
  assert.ok(log.indexOf("written 1") !== -1 && log.indexOf("written 1") < log.indexOf("received 1"));
  assert.ok(log.indexOf("written 2") !== -1 && log.indexOf("written 2") < log.indexOf("received 2"));
});

test("published while offline: waits, and goes out in order after the server's restart", async () => {
  const group = gateway.group("team", ["alice", "bob"]);
  const alice = client("alice");
  const states: ConnectionState[] = [];
  alice.on("state", (state) => states.push(state));
  await alice.connect();
  await gateway.stop();
  const outcomes = ["a", "b", "c"].map((body) => alice.publish({ conversation: group }, { text: body }));
  await until("two waits", () => states.filter(({ state }) => state === "waiting").length >= 2);
  await gateway.start();
  assert.ok((await Promise.all(outcomes)).every(({ outcome }) => outcome === "accepted"));
  assert.deepEqual(gateway.texts(group), ["a", "b", "c"]);
  const waits = states.flatMap((state) => (state.state === "waiting" ? [state.retryInMs] : []));
  assert.deepEqual(waits.slice(0, 2), [0, 1_000], "at once, then one second");
  const failed = states.find((state) => state.state === "waiting" && state.error.step === "dial");
  assert.ok(failed, "the error names the step that failed");
});

// R-ACK-2
test("reconnect resumes from the cursor: nothing missed, nothing twice", async () => {
  const group = gateway.group("team", ["alice", "bob"]);
  const alice = client("alice");
  const events = collect(alice);
  alice.on("state", ({ state }) => state === "waiting" && setTimeout(() => alice.reconnectNow(), 20));
  await alice.connect();
  for (let round = 0; round < 4; round += 1) {
    for (let i = 0; i < 10; i += 1) gateway.post(group, "bob", `${round}.${i}`);
    gateway.cut(round % 2 ? 4000 : undefined);
    for (let i = 10; i < 20; i += 1) gateway.post(group, "bob", `${round}.${i}`);
    const connects = gateway.connects;
    await until("back online", () => gateway.connects > connects && alice.state.state === "online");
  }
  await until("all events", () => events.length >= 80);
  assert.deepEqual(events.map(({ seq }) => seq), Array.from({ length: 80 }, (_, i) => i + 2));
});

test("an event that was not pushed is asked for by sync", async () => {
  const group = gateway.group("team", ["alice", "bob"]);
  const alice = client("alice");
  const events = collect(alice);
  await alice.connect();
  gateway.hideEvent = (_, seq) => seq === 3;
  for (const body of ["a", "b", "c"]) gateway.post(group, "bob", body);
  await until("all three", () => events.length === 3);
  assert.deepEqual(events.map(text), ["a", "b", "c"]);
  assert.ok(gateway.received.some(({ frame }) => frame.body.case === "sync"));
});

test("a sync without effect: the hole is read from history", async () => {
  const group = gateway.group("team", ["alice", "bob"]);
  const alice = client("alice");
  const events = collect(alice);
  await alice.connect();
  gateway.ignoreSync = true;
  gateway.hideEvent = (_, seq) => seq === 2 || seq === 3;
  for (const body of ["a", "b", "c"]) gateway.post(group, "bob", body);
  await until("all three", () => events.length === 3);
  assert.deepEqual(events.map(text), ["a", "b", "c"]);
});

test("a gap of too many is read from history; beyond the bound it is told", async () => {
  const group = gateway.group("team", ["alice", "bob"]);
  const alice = client("alice", { maxAutoFill: 700 });
  const events = collect(alice);
  const gaps: [number, number, string][] = [];
  alice.on("gap", ({ from, to, reason }) => gaps.push([from, to, reason]));
  await alice.connect();
  gateway.maxResume = 10;
  const away = async (count: number): Promise<void> => {
    gateway.cut();
    for (let i = 0; i < count; i += 1) gateway.post(group, "bob", "x");
    const head = gateway.conversations.get(group)?.log.length;
    await until("the head", () => events.at(-1)?.seq === head);
  };
  await away(600);
  assert.equal(events.length, 600);
  assert.deepEqual(gaps, []);
  await away(900);
  assert.deepEqual(gaps, [[602, 1_491, "tooMany"]]);
  assert.deepEqual(events.slice(600).map(({ seq }) => seq), Array.from({ length: 10 }, (_, i) => 1_492 + i));
});

test("a receipt that the lost connection kept from us is asked for", async () => {
  const group = gateway.group("team", ["alice"]);
  gateway.persistDelayMs = 300;
  const alice = client("alice");
  const persisted: number[] = [];
  alice.on("persisted", ({ seqs }) => persisted.push(...seqs));
  await alice.connect();
  await alice.publish({ conversation: group }, { text: "a" });
  gateway.connectFault = () => ({ code: 503, close: 4003 });
  gateway.cut();
  await sleep(400);
  gateway.connectFault = () => undefined;
  await until("the receipt", () => persisted.includes(2));
});

test("close codes of 4500 and up end it, with the server's word; publishing waits for the next connect", async () => {
  const alice = client("alice");
  await alice.connect();
  gateway.cut(4500);
  await until("closed", () => alice.state.state === "closed");
  assert.ok(alice.state.state === "closed" && alice.state.error?.codeName === "session_replaced");
  await sleep(50);
  assert.equal(gateway.connects, 1);
});

test("a refused token fails connect with step, code and trace", async () => {
  const eve = client("eve", { token: () => "x.e30.x" });
  await assert.rejects(eve.connect(), (error: SdkError) => {
    assert.deepEqual([error.step, error.code, error.codeName, error.traceId.length], ["connect", 4501, "code_401", 32]);
    return true;
  });
});

test("not ready at connect: comes again, not before the server's time", async () => {
  let refusals = 0;
  gateway.connectFault = () => {
    refusals += 1;
    return refusals <= 2 ? { code: 503, close: 4003, retryAfterMs: 150 } : undefined;
  };
  const alice = client("alice");
  const waits: number[] = [];
  alice.on("state", (state) => {
    if (state.state === "waiting") waits.push(state.retryInMs);
  });
  await alice.connect();
  assert.deepEqual(waits, [150, 1_000]);
});

// R-GW-1
test("two pings without a word in return: the connection is given up and made anew", async () => {
  gateway.heartbeatMs = 40;
  gateway.ignorePings = true;
  const alice = client("alice");
  await alice.connect();
  await until("a second connect", () => gateway.connects >= 2, 2_000);
});

// R-GW-6
test("moved: the other node is dialled first, answers come in, then it takes over without a wait", async () => {
  const group = gateway.group("team", ["alice"]);
  const alice = client("alice");
  const states: string[] = [];
  await alice.connect();
  alice.on("state", ({ state }) => states.push(state));
  const outcomes = [alice.publish({ conversation: group }, { text: "a" })];
  gateway.push("alice", { case: "moved", value: { url: gateway.url, withinMs: 200 } });
  await until("the move", () => gateway.connects === 2 && alice.state.state === "online");
  outcomes.push(alice.publish({ conversation: group }, { text: "b" }));
  assert.ok((await Promise.all(outcomes)).every(({ outcome, attempts }) => outcome === "accepted" && attempts === 1));
  assert.deepEqual(states, ["connecting", "online"]);
});

test("moved to a node that cannot be reached: the old connection is kept", async () => {
  const group = gateway.group("team", ["alice"]);
  const alice = client("alice");
  await alice.connect();
  const errors: SdkError[] = [];
  alice.on("error", (error) => errors.push(error));
  gateway.push("alice", { case: "moved", value: { url: "ws://127.0.0.1:9/v1/ws", withinMs: 50 } });
  await until("the failed dial", () => errors.length > 0);
  assert.equal(errors[0]?.step, "dial");
  assert.equal((await alice.publish({ conversation: group }, { text: "a" })).outcome, "accepted");
  assert.equal(gateway.connects, 1);
});

test("an upgrade that is refused is told apart from a dial that fails", async () => {
  const wrong = client("alice", { url: `${gateway.url}/v1/ws`, subprotocol: "lapwing.v9.proto" as Subprotocol });
  const steps: string[] = [];
  wrong.on("state", (state) => {
    if (state.state === "waiting") steps.push(state.error.step);
  });
  void wrong.connect().catch(() => {});
  await until("a failure", () => steps.length > 0);
  assert.equal(steps[0], "upgrade");
});

test("addresses from /v1/nodes, and from the last snapshot while that does not answer", async () => {
  const store = new MemoryStore();
  const options = { nodesUrl: `${gateway.url}/v1/nodes`, store, namespace: "n", token: () => fakeToken("alice"), device: "d", WebSocket: NodeSocket };
  const first = client("alice", { ...options, url: [] });
  await first.connect();
  await first.close();
  const second = client("alice", { ...options, url: [], nodesUrl: "http://127.0.0.1:9/v1/nodes" });
  await second.connect();
  assert.equal(second.state.state, "online");
});
