import { reconnectDelayMs, type Random } from "./backoff.js";
import { Connection, type ServerBody, type SocketConstructor } from "./connection.js";
import { cursorMovedOf, errorOf, eventOf, gapOf, pageOf, persistedOf, stateOf, welcomeOf } from "./convert.js";
import { CursorBatch } from "./cursors.js";
import { Emitter } from "./emitter.js";
import { Endpoints, webSocketUrl, type EndpointOptions } from "./endpoints.js";
import { SdkError, reconnects, type Step } from "./errors.js";
import { Inbox } from "./inbox.js";
import type { Now } from "./outbox.js";
import { Publisher } from "./publisher.js";
import { Receipts } from "./receipts.js";
import { MemoryStore, type Store } from "./store.js";
import { randomId, Sleeper, tokenExpiryMs } from "./util.js";
import type * as t from "./types.js";

export interface ClientOptions extends EndpointOptions {
  /** Called before each connect, before the token expires and after a 401. */
  token: () => string | Promise<string>;
  /** Stable per installation. Chosen once and kept in the store when absent. */
  device?: string;
  /** Default: binary. */
  subprotocol?: t.Subprotocol;
  /** Keeps unsettled messages over restarts. Default: memory only. */
  store?: Store;
  /** Separates users who share a store. */
  namespace?: string;
  /** The newest seq the application holds per conversation: what is newer is pushed. */
  cursors?: { conversation: string; seq: number }[];
  /** Needed where there is no global WebSocket (Node 20: that of the `ws` package). */
  WebSocket?: SocketConstructor;
  /** Tell the server what was delivered. Default: true. */
  acks?: boolean;
  /** Holes up to this size are filled by the SDK, larger ones are told as a `gap`. */
  maxAutoFill?: number;
  dialTimeoutMs?: number;
  answerTimeoutMs?: number;
  traceparent?: () => string;
  random?: Random;
}

export interface ClientEvents {
  state: t.ConnectionState;
  /** The conversations of this user, after each connect; in parts when they are many. */
  conversations: { conversations: t.ConversationState[]; complete: boolean };
  joined: t.ConversationState;
  /** Ascending, contiguous, each once. */
  events: { conversation: string; events: t.LapwingEvent[] };
  gap: t.Gap;
  persisted: t.Persisted;
  cursor: t.CursorMoved;
  /** Also for messages of an earlier run, whose promise is gone. */
  outcome: t.PublishOutcome;
  error: SdkError;
}

const CONNECT_TIMEOUT_MS = 10_000;
const STABLE_MS = 5_000;

export class LapwingClient extends Emitter<ClientEvents> {
  private readonly store: Store;
  private readonly prefix: string;
  private readonly random: Random;
  private readonly endpoints: Endpoints;
  private readonly publisher: Publisher;
  private readonly inbox: Inbox;
  private readonly receipts: Receipts;
  private readonly acks: CursorBatch;
  private readonly reads: CursorBatch;
  private readonly sleeper = new Sleeper();
  private connection: Connection | undefined;
  private welcome: t.Welcome | undefined;
  private welcomeAt = 0;
  private current: t.ConnectionState = { state: "idle" };
  private running: Promise<void> | undefined;
  private stopped = true;
  private restored = false;
  private abort = new AbortController();
  /** Open to another node, and next in turn: nothing more is sent on the old connection. */
  private successor: Connection | undefined;
  private tokenTimer: ReturnType<typeof setTimeout> | undefined;
  private readonly networkIsBack = (): void => this.reconnectNow();

  constructor(private readonly options: ClientOptions) {
    super();
    this.store = options.store ?? new MemoryStore();
    this.prefix = `lapwing/${options.namespace ?? "default"}/`;
    this.random = options.random ?? Math.random;
    this.endpoints = new Endpoints(options, this.store, this.prefix, (ms) => this.sleeper.sleep(ms));
    this.receipts = new Receipts(
      async (conversation) => (await this.history(conversation, { limit: 0 })).persistedSeq,
      (persisted) => this.emit("persisted", persisted),
    );
    this.acks = new CursorBatch((conversation, seq) => this.post("ack", conversation, seq));
    this.reads = new CursorBatch((conversation, seq) => this.post("read", conversation, seq));
    this.inbox = new Inbox(
      {
        events: (conversation, events) => this.deliver(conversation, events),
        gap: (gap) => this.emit("gap", gap),
        sync: async (conversation, seq) => void (await this.request({ case: "sync", value: { conversation, seq: BigInt(seq) } }, "sync")),
        history: (conversation, query) => this.history(conversation, query),
        report: (error) => this.report(error, "sync"),
        sleep: (ms) => this.sleeper.sleep(ms),
        maxPage: () => this.welcome?.limits.maxHistoryPage ?? 500,
      },
      options.maxAutoFill ?? 2_000,
    );
    this.inbox.start(options.cursors ?? []);
    this.publisher = new Publisher(
      {
        now: () => this.now(),
        live: () => (this.successor === undefined && this.connection?.alive ? this.connection : undefined),
        refreshToken: () => this.refreshToken(),
        settled: (entry, outcome) => {
          if ("seq" in outcome) {
            this.inbox.saw(outcome.conversation, outcome.seq);
            if (entry.receipt) this.receipts.watch(outcome.conversation, outcome.seq);
          }
          this.emit("outcome", outcome);
        },
        report: (error) => this.emit("error", error),
      },
      this.store,
      `${this.prefix}outbox/`,
      options.answerTimeoutMs ?? 15_000,
      this.random,
    );
  }

  get state(): t.ConnectionState {
    return this.current;
  }

  /** Resolves with the first welcome; fails only for what will not mend by itself. Reconnects from then on until `close`. */
  async connect(): Promise<t.Welcome> {
    if (!this.stopped) throw new Error("already connecting or connected");
    this.stopped = false;
    this.abort = new AbortController();
    this.sleeper.open();
    if (!this.restored) {
      await this.publisher.restore();
      this.restored = true;
    }
    globalThis.addEventListener?.("online", this.networkIsBack);
    return new Promise((resolve, reject) => {
      const off = this.on("state", (state) => {
        if (state.state !== "online" && state.state !== "closed") return;
        off();
        if (state.state === "online") resolve(state.welcome);
        else reject(state.error ?? new SdkError({ step: "connect", message: "closed by the application" }));
      });
      this.running = this.run();
    });
  }

  /** Ends the connection. Unsettled messages stay in the store for the next run. */
  async close(): Promise<void> {
    this.stopped = true;
    this.acks.flush();
    this.reads.flush();
    this.sleeper.close();
    this.abort.abort();
    this.connection?.close(1000, "closed by the application");
    await this.running;
  }

  /** Skips the wait before the next reconnect. */
  reconnectNow(): void {
    if (this.current.state === "waiting") this.sleeper.wake();
  }

  /** Cuts the connection as a lost network would; the client comes back by itself. */
  dropConnection(): void {
    this.connection?.close(4002, "cut");
  }

  /** Publishes; settles with one of the four outcomes and never throws for one of them. */
  publish(target: t.Target, content: t.Content, options: t.PublishOptions = {}): Promise<t.PublishOutcome> {
    return this.publisher.publish(target, content, { ...options, clientMid: options.clientMid ?? randomId() });
  }

  /** Messages without an outcome, those of earlier runs included (after `connect`). */
  pending(): { clientMid: string; target: t.Target; content: t.Content; attempts: number }[] {
    return this.publisher.pending().map(({ clientMid, target, content, attempts }) => ({ clientMid, target, content, attempts }));
  }

  async history(conversation: string, query: t.HistoryQuery = {}): Promise<t.HistoryPage> {
    const { after, before, limit = 100, reverse = false } = query;
    const value = {
      conversation,
      limit,
      reverse,
      seen: BigInt(this.inbox.seen(conversation)),
      ...(after === undefined ? {} : { after: BigInt(after) }),
      ...(before === undefined ? {} : { before: BigInt(before) }),
    };
    const answer = await this.request({ case: "history", value }, "history");
    if (answer.case !== "history") throw this.failure("history", "unexpected", `an answer of kind ${answer.case ?? "none"}`);
    return pageOf(answer.value);
  }

  /** Read up to `seq`; sent at most each second. */
  read(conversation: string, seq: number): void {
    this.reads.move(conversation, seq);
  }

  /** The application lost its state after `seq`: all events from there come once more. */
  async sync(conversation: string, seq: number): Promise<void> {
    this.inbox.rewind(conversation, seq);
    await this.request({ case: "sync", value: { conversation, seq: BigInt(seq) } }, "sync");
  }

  /** Reports `persisted` for a message of an earlier run, once it is in MySQL. */
  watchPersisted(conversation: string, seq: number): void {
    this.receipts.watch(conversation, seq);
  }

  /** The newest delivered seq per conversation: what an application with a store of its own gives to the next run. */
  cursors(): { conversation: string; seq: number }[] {
    return this.inbox.cursors();
  }

  private async run(): Promise<void> {
    let attempt = 0;
    while (!this.stopped) {
      const error = await this.session(attempt).catch((cause: unknown) => asSdkError(cause));
      const stable = this.welcome !== undefined && performance.now() - this.welcomeAt >= STABLE_MS;
      const known = this.welcome !== undefined;
      this.offline();
      if (this.stopped || !this.mayReconnect(error)) {
        this.finish(this.stopped ? undefined : error);
        return;
      }
      if (this.successor?.alive && known) continue;
      if (!known) this.endpoints.failed();
      if (stable) attempt = 0;
      const retryInMs = Math.max(reconnectDelayMs(attempt, this.random), error.retryAfterMs);
      attempt += 1;
      this.setState({ state: "waiting", attempt, retryInMs, error });
      if (retryInMs > 0) await this.sleeper.sleep(retryInMs);
    }
    this.finish(undefined);
  }

  /** One connection from dial to close; returns, or throws, why it ended. */
  private async session(attempt: number): Promise<SdkError> {
    const moved = this.successor?.alive ? this.successor : undefined;
    this.successor = undefined;
    const address = moved?.address ?? (await this.endpoints.pick(() => this.token()));
    this.setState({ state: "connecting", attempt, address });
    const token = await this.token();
    const connection = moved ?? (await this.dial(address));
    if (this.stopped) connection.close(1000, "closed by the application");
    await this.signIn(connection, token);
    return connection.closed;
  }

  private async dial(address: string): Promise<Connection> {
    const { signal } = this.abort;
    const connection = await Connection.open({
      address,
      subprotocol: this.options.subprotocol ?? "lapwing.v1.proto",
      socket: this.options.WebSocket ?? (globalThis.WebSocket as unknown as SocketConstructor),
      dialTimeoutMs: this.options.dialTimeoutMs ?? 10_000,
      signal,
      ...(this.options.traceparent ? { traceparent: this.options.traceparent } : {}),
    });
    const stop = (): void => connection.close(1000, "closed by the application");
    signal.addEventListener("abort", stop);
    void connection.closed.then(() => signal.removeEventListener("abort", stop));
    return connection;
  }

  private async signIn(connection: Connection, token: string): Promise<void> {
    const value = {
      token,
      device: await this.device(),
      cursors: this.inbox.cursors().map(({ conversation, seq }) => ({ conversation, seq: BigInt(seq) })),
      receipts: true,
    };
    let answer: ServerBody;
    try {
      answer = await connection.request({ case: "connect", value }, "connect", CONNECT_TIMEOUT_MS);
    } catch (error) {
      // The close code behind a refusal says whether to come again; a server that forgets it is given a second.
      const closed = await Promise.race([connection.closed, this.sleeper.sleep(1_000)]);
      connection.close(1000, "refused");
      throw closed instanceof SdkError && error instanceof SdkError && !reconnects(closed.code) ? final(error, closed.code) : error;
    }
    if (answer.case !== "welcome") {
      connection.close(1000, "no welcome");
      throw this.failure("connect", "unexpected", `an answer of kind ${answer.case ?? "none"}`, connection.address);
    }
    this.online(connection, welcomeOf(answer.value), token);
    this.conversations(answer.value.conversations.map(stateOf), answer.value.complete);
    connection.start((body) => this.push(body), this.welcome?.heartbeatMs ?? 25_000);
    this.acks.flush();
    this.reads.flush();
    this.receipts.resume();
    void this.publisher.pump();
  }

  private online(connection: Connection, welcome: t.Welcome, token: string): void {
    this.connection = connection;
    this.welcome = welcome;
    this.welcomeAt = performance.now();
    this.publisher.setDedupeWindow(welcome.limits.dedupeWindowMs);
    this.refreshBefore(token);
    this.setState({ state: "online", address: connection.address, welcome });
  }

  private offline(): void {
    this.connection = undefined;
    this.welcome = undefined;
    clearTimeout(this.tokenTimer);
    this.publisher.disconnected();
  }

  private finish(error: SdkError | undefined): void {
    this.stopped = true;
    globalThis.removeEventListener?.("online", this.networkIsBack);
    for (const part of [this.publisher, this.receipts, this.acks, this.reads]) part.stop();
    this.setState(error ? { state: "closed", error } : { state: "closed" });
  }

  private mayReconnect(error: SdkError): boolean {
    return reconnects(error.code);
  }

  private push(body: ServerBody): void {
    switch (body.case) {
      case "events":
        return this.inbox.receive(body.value.events.map(eventOf));
      case "gap":
        return this.inbox.gap(gapOf(body.value));
      case "joined": {
        const state = stateOf(body.value);
        this.inbox.joined(state);
        return this.emit("joined", state);
      }
      case "conversations":
        return this.conversations(body.value.conversations.map(stateOf), body.value.complete);
      case "persisted":
        return this.receipts.heard(persistedOf(body.value));
      case "cursor":
        return this.emit("cursor", cursorMovedOf(body.value));
      case "moved":
        return void this.move(body.value.url, body.value.withinMs);
      case "error":
        return this.emit("error", errorOf(body.value, "connection", this.connection?.address ?? ""));
      default:
        // A push of a later protocol version.
        return;
    }
  }

  private conversations(states: t.ConversationState[], complete: boolean): void {
    states.forEach((state) => this.inbox.attached(state));
    this.emit("conversations", { conversations: states, complete });
  }

  private deliver(conversation: string, events: t.LapwingEvent[]): void {
    const { user } = this.welcome ?? {};
    for (const event of events) if (event.clientMid && event.sender === user) this.publisher.ownEvent(event);
    this.emit("events", { conversation, events });
    const last = events.at(-1);
    if (last && (this.options.acks ?? true)) this.acks.move(conversation, last.seq, events.length);
  }

  /**
   * Another node takes over. It is dialled first, at a time spread over what is given: if it cannot be reached, this
   * connection is used until the server closes it. Then sending stops, answers come in, and the other one signs in.
   */
  private async move(url: string, withinMs: number): Promise<void> {
    const connection = this.connection;
    if (!connection || this.successor) return;
    await this.sleeper.sleep(this.random() * withinMs * 0.6);
    if (this.connection !== connection || !connection.alive) return;
    let next: Connection;
    try {
      next = await this.dial(url ? webSocketUrl(url) : connection.address);
    } catch (error) {
      return this.report(error, "dial");
    }
    if (this.connection !== connection || !connection.alive) return next.close(1000, "not needed");
    this.successor = next;
    for (let waited = 0; waited < withinMs * 0.3 && this.publisher.pending().some((entry) => entry.inFlight); waited += 20) {
      await this.sleeper.sleep(20);
    }
    if (this.connection === connection) connection.close(1000, "moved");
  }

  private async request(body: Parameters<Connection["request"]>[0], step: Step): Promise<ServerBody> {
    if (!this.connection) throw this.failure(step, "offline", "there is no connection");
    return this.connection.request(body, step, this.options.answerTimeoutMs ?? 15_000);
  }

  private post(kind: "ack" | "read", conversation: string, seq: number): boolean {
    return this.connection?.post({ case: kind, value: { conversation, seq: BigInt(seq) } }) ?? false;
  }

  private refreshBefore(token: string): void {
    clearTimeout(this.tokenTimer);
    const expiry = tokenExpiryMs(token);
    if (expiry === undefined || !this.welcome) return;
    const left = expiry - this.welcome.serverTimeMs;
    this.tokenTimer = setTimeout(() => void this.refreshToken(), Math.min(Math.max(left * 0.9, left - 60_000, 1_000), 86_400_000));
  }

  private async refreshToken(): Promise<void> {
    try {
      const token = await this.token();
      await this.request({ case: "refresh", value: { token } }, "refresh");
      this.refreshBefore(token);
    } catch (error) {
      this.report(error, "refresh");
    }
  }

  private async token(): Promise<string> {
    try {
      return await this.options.token();
    } catch (cause) {
      throw new SdkError({ step: "token", message: `the application gave no token: ${String(cause)}`, temporary: true, cause });
    }
  }

  private async device(): Promise<string> {
    if (this.options.device) return this.options.device;
    const key = `${this.prefix}device`;
    const known = await this.store.get(key);
    const device = known ?? randomId();
    if (!known) await this.store.set(key, device);
    return device;
  }

  private now(): Now {
    const mono = performance.now();
    const server = this.welcome?.serverTimeMs ? { server: this.welcome.serverTimeMs + mono - this.welcomeAt } : {};
    return { mono, wall: Date.now(), ...server };
  }

  private setState(state: t.ConnectionState): void {
    this.current = state;
    this.emit("state", state);
  }

  private report(error: unknown, step: Step): void {
    this.emit("error", error instanceof SdkError ? error : this.failure(step, "failed", String(error)));
  }

  private failure(step: Step, name: string, message: string, address = this.connection?.address ?? ""): SdkError {
    return new SdkError({ step, address, name, message });
  }
}

function asSdkError(cause: unknown): SdkError {
  return cause instanceof SdkError ? cause : new SdkError({ step: "connection", message: String(cause), cause });
}

/** A refusal whose close code says "do not come again" carries that code, so that the reader of the state sees it. */
function final(error: SdkError, closeCode: number): SdkError {
  const { step, address, codeName, reason, traceId } = error;
  return new SdkError({ step, address, code: closeCode, name: codeName, message: `${error.code}: ${error.message}`, reason, traceId, cause: error });
}
