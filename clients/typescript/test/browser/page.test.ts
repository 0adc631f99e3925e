import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { chromium, type Browser, type Page } from "playwright-core";

import { LapwingClient, newClientMid } from "../../src/index.js";
import { NodeSocket } from "../fixture/helpers.js";
import { findCluster, type Cluster } from "./cluster.js";
import { Proxy } from "./proxy.js";

const FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync";
const PATIENCE = 30_000;

let cluster: Cluster;
let browser: Browser;

before(async () => {
  cluster = await findCluster();
  const executablePath = process.env["CHROMIUM"] ?? process.env["CHROMIUM_PATH"] ?? "/usr/bin/chromium";
  browser = await chromium.launch({ executablePath, args: FLAGS.split(" ") });
});

after(async () => {
  await browser?.close();
  await cluster?.stop();
});

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

/** Two users of this test alone. */
function pair(): { alice: string; bob: string; group: string } {
  const run = newClientMid().slice(0, 8);
  return { alice: `alice-${run}`, bob: `bob-${run}`, group: `lounge-${run}` };
}

class Side {
  constructor(
    readonly page: Page,
    readonly user: string,
  ) {}

  private in(selector: string): string {
    return `.pane[data-user="${this.user}"] ${selector}`;
  }

  async online(): Promise<void> {
    await this.page.waitForSelector(this.in('.state[data-state="online"]'), { timeout: PATIENCE });
  }

  async offline(): Promise<void> {
    await this.page.waitForSelector(this.in('.state[data-state="waiting"]'), { timeout: PATIENCE });
  }

  async say(text: string): Promise<void> {
    await this.page.fill(this.in("textarea"), text);
    await this.page.press(this.in("textarea"), "Enter");
  }

  async sees(text: string, status = ""): Promise<void> {
    const row = this.page.locator(this.in(`.row${status ? `[data-status="${status}"]` : ""}`), { hasText: text });
    await row.first().waitFor({ timeout: PATIENCE });
    assert.equal(await row.count(), 1, `"${text}" is shown once to ${this.user}`);
  }

  async status(text: string): Promise<string | null> {
    return this.page.locator(this.in(".row"), { hasText: text }).first().getAttribute("data-status");
  }

  async open(conversation: "direct" | "group"): Promise<void> {
    await this.page.click(this.in(`.tab[data-conversation^="${conversation === "direct" ? "p2p." : "grp.lounge"}"]`));
  }

  async seqs(): Promise<number[]> {
    const values = await this.page.locator(this.in(".row")).evaluateAll((rows) => rows.map((row) => Number((row as HTMLElement).dataset["seq"])));
    return values;
  }

  async press(label: string): Promise<void> {
    await this.page.click(this.in(`.pane-head button:has-text("${label}")`));
  }

  async scrollToTop(): Promise<void> {
    await this.page.locator(this.in(".log")).evaluate((log) => log.scrollTo(0, 0));
  }

  async stateText(): Promise<string> {
    return (await this.page.textContent(this.in(".state-text"))) ?? "";
  }
}

async function newProxy(): Promise<Proxy> {
  const proxy = new Proxy(cluster.url);
  cleanUps.push(() => proxy.cut());
  await proxy.mend();
  return proxy;
}

interface Opened {
  page: Page;
  errors: string[];
  side: (user: string) => Side;
}

async function open(url: string, query: string): Promise<Opened> {
  const page = await browser.newPage({ viewport: { width: 1200, height: 760 } });
  cleanUps.push(() => page.close());
  const errors: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") errors.push(message.text());
  });
  page.on("pageerror", (error) => errors.push(String(error)));
  await page.goto(`${url}/?${query}`);
  return { page, errors, side: (user) => new Side(page, user) };
}

async function both(url: string, extra = ""): Promise<Opened & { a: Side; b: Side }> {
  const { alice, bob, group } = pair();
  const opened = await open(url, `left=${alice}&right=${bob}&group=${group}${extra}`);
  const [a, b] = [opened.side(alice), opened.side(bob)];
  await a.online();
  await b.online();
  return { ...opened, a, b };
}

async function chat(a: Side, b: Side, words: string): Promise<void> {
  for (const conversation of ["direct", "group"] as const) {
    for (const side of [a, b]) await side.open(conversation);
    const [there, back] = [`${words} ${conversation} there ${a.user}`, `${words} ${conversation} back ${b.user}`];
    await a.say(there);
    await b.sees(there);
    await b.say(back);
    await a.sees(back);
    await a.sees(there, "persisted");
    await b.sees(back, "persisted");
  }
}

/** A lost network is told by the browser itself, in words that no page can suppress. */
const ownErrors = (errors: string[]): string[] => errors.filter((text) => !/net::ERR_|WebSocket connection to .* failed/.test(text));

for (const [protocol, word] of [["proto", "binary"], ["json", "JSON"]] as const) {
  test(`two panes chat, P2P and group, up to the second tick: ${word}`, async () => {
    const { errors, a, b } = await both(cluster.url, `&protocol=${protocol}`);
    assert.match(await a.stateText(), new RegExp(`^Online · .+ · ${word}$`));
    await chat(a, b, "hello");
    assert.deepEqual(errors, []);
    });
}

test("the encoding is switched while they chat: nothing is missed, nothing twice", async () => {
  const { page, errors, a, b } = await both(cluster.url);
  await a.say("in binary");
  await b.sees("in binary");
  await page.check('input[value="lapwing.v1.json"]', { force: true });
  await b.say("while switching");
  for (const side of [a, b]) await side.page.waitForSelector(`.pane[data-user="${side.user}"] .state-text:has-text("JSON")`, { timeout: PATIENCE });
  await a.say("in JSON");
  for (const text of ["in binary", "while switching", "in JSON"]) for (const side of [a, b]) await side.sees(text);
  assert.deepEqual(errors, []);
});

test("two tabs, one user each", async () => {
  const { alice, bob, group } = pair();
  const [left, right] = [await open(cluster.url, `user=${alice}&peer=${bob}&group=${group}`), await open(cluster.url, `user=${bob}&peer=${alice}&group=${group}`)];
  const [a, b] = [left.side(alice), right.side(bob)];
  await a.online();
  await b.online();
  await chat(a, b, "tabs");
  assert.deepEqual([...left.errors, ...right.errors], []);
});

test("history comes by scrolling up, page after page, in order and without a hole", async () => {
  const { alice, bob, group } = pair();
  const response = await fetch(`${cluster.url}/demo/token?user=${alice}`);
  const { token } = (await response.json()) as { token: string };
  const writer = new LapwingClient({ url: cluster.url, token: () => token, device: "writer", WebSocket: NodeSocket });
  const ensured = await fetch(`${cluster.url}/demo/p2p`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ users: [alice, bob] }) });
  const { conversation } = (await ensured.json()) as { conversation: string };
  cleanUps.push(() => writer.close());
  await writer.connect();
  const outcomes = await Promise.all(Array.from({ length: 150 }, (_, i) => writer.publish({ conversation }, { text: `line ${i + 1}.` })));
  assert.ok(outcomes.every(({ outcome }) => outcome === "accepted" || outcome === "duplicate"));

  const { page, errors, side } = await open(cluster.url, `left=${alice}&right=${bob}&group=${group}`);
  const b = side(bob);
  await b.online();
  await b.sees("line 150.");
  const first = (await b.seqs()).length;
  assert.ok(first < 100, `the first page is a page: ${first} rows`);
  const deadline = Date.now() + PATIENCE;
  while (!(await page.locator(`.pane[data-user="${bob}"] .row`, { hasText: "line 1." }).count())) {
    assert.ok(Date.now() < deadline, "the first line comes by scrolling");
    await b.scrollToTop();
    await page.waitForTimeout(50);
  }
  const seqs = await b.seqs();
  assert.deepEqual(seqs, Array.from({ length: seqs.length }, (_, i) => (seqs[0] ?? 0) + i));
  assert.ok(seqs.length >= 150);
  await side(alice).sees("line 150.", "persisted");
  assert.deepEqual(errors, []);
});

test("the connection is cut: it comes back by itself, and what was written meanwhile arrives once", async () => {
  const proxy = await newProxy();
  const { page, errors, a, b } = await both(proxy.url);
  await a.say("before");
  await b.sees("before");
  await a.press("Cut");
  await a.say("right after");
  await b.sees("right after");
  await a.sees("right after", "persisted");

  await proxy.cut();
  await a.offline();
  await a.say("written offline");
  await b.say("so was this");
  assert.equal(await a.status("written offline"), "sending");
  await page.waitForTimeout(1_500);
  assert.equal(await a.status("written offline"), "sending");
  await proxy.mend();
  for (const [from, to, text] of [[a, b, "written offline"], [b, a, "so was this"]] as const) {
    await to.sees(text);
    await from.sees(text, "persisted");
  }
  assert.deepEqual(ownErrors(errors), []);
});

test("a reload in the middle finishes what was on its way", async () => {
  const proxy = await newProxy();
  const { page, errors, a, b } = await both(proxy.url);
  await proxy.cut();
  await a.offline();
  await a.say("not lost by a reload");
  assert.equal(await a.status("not lost by a reload"), "sending");
  await proxy.mend();
  await page.reload();
  await b.online();
  await b.sees("not lost by a reload");
  await a.sees("not lost by a reload", "persisted");
  assert.deepEqual(ownErrors(errors), []);
});

test("the server restarts under the page: what was sent meanwhile arrives once, in order", async () => {
  const proxy = await newProxy();
  // A cluster that is only an address cannot be restarted: then the way to it goes away for a while.
  const restart = cluster.restartGateway ?? (async () => {
    await proxy.cut();
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    await proxy.mend();
  });
  const { page, errors, a, b } = await both(proxy.url);
  await a.say("before the restart");
  await b.sees("before the restart");
  const restarted = restart();
  const texts = Array.from({ length: 20 }, (_, i) => `during ${i}.`);
  for (const text of texts) {
    await a.say(text);
    await page.waitForTimeout(50);
  }
  await restarted;
  for (const text of texts) {
    await b.sees(text);
    await a.sees(text, "persisted");
  }
  const shown = await page.locator(`.pane[data-user="${b.user}"] .row .text`).allTextContents();
  assert.deepEqual(shown.filter((text) => text.startsWith("during")), texts);
  assert.deepEqual(ownErrors(errors), []);
});
