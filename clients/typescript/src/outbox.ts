import { publishDelayMs, type Random } from "./backoff.js";
import { SdkError } from "./errors.js";
import type { Content, LapwingEvent, PublishOutcome, Target } from "./types.js";

/** The clocks of one moment. `server` is the server's time as this connection knows it. */
export interface Now {
  mono: number;
  wall: number;
  server?: number;
}

/** A message that has no outcome yet. All but the last block is written to the store. */
export interface Pending {
  clientMid: string;
  target: Target;
  content: Content;
  receipt: boolean;
  order: number;
  attempts: number;
  /** Attempts that a server refused: these are surely not in the log. The others may be. */
  refused: number;
  firstWallMs: number;
  firstServerMs?: number;

  firstMonoMs?: number;
  giveUpAtMs?: number;
  inFlight: boolean;
  lastError?: SdkError;
  /** The last attempt on this connection was refused for now, or not answered. */
  held?: boolean;
  /** Its outcome is told: it stands in the log, but the server still waits for it to come again. */
  told?: boolean;
}

export interface Settled {
  entry: Pending;
  outcome: PublishOutcome;
}

interface Lane {
  entries: Pending[];
  notBefore: number;
  refusals: number;
  window: number;
}

export interface Stand {
  conversation: string;
  seq: number;
  n: number;
  sentAtMs: number;
  duplicate: boolean;
}

/** Unanswered publishes of one conversation on the wire at a time. */
const LANE_WINDOW = 16;
const RETRY_MARGIN_MS = 10 * 60_000;
/** Messages whose events may still be on their way after their outcomes were told. */
const TOLD_KEPT = 4_096;

function laneKey(target: Target): string {
  return "conversation" in target ? `c ${target.conversation}` : `u ${target.toUser}`;
}

/**
 * Messages on their way to an outcome: a core without IO. Each conversation is a lane, sent in order; a refusal holds
 * back what stands behind it (R-SEQ-11), and a message that may already be in the log is never reported as rejected.
 */
export class Outbox {
  private readonly lanes = new Map<string, Lane>();
  /** Those without an outcome. A lane may hold others, whose outcome is told. */
  private readonly byMid = new Map<string, Pending>();
  private settled: Settled[] = [];
  /** Those told last that they stand, oldest first. */
  private readonly told = new Set<string>();
  private retryLimitMs = 2 * 3_600_000 - RETRY_MARGIN_MS;

  /** @param nextOrder by default a figure that is greater in each later run, so that old messages go first */
  constructor(
    private readonly random: Random = Math.random,
    private nextOrder = Date.now() * 1_000,
  ) {}

  /** Older than the window less 10 min (never less than half of the window): not sent again. */
  setDedupeWindow(windowMs: number): void {
    this.retryLimitMs = Math.max(windowMs - RETRY_MARGIN_MS, windowMs / 2);
  }

  get size(): number {
    return this.byMid.size;
  }

  has(clientMid: string): boolean {
    return this.byMid.has(clientMid);
  }

  entries(): Pending[] {
    return [...this.byMid.values()].sort((a, b) => a.order - b.order);
  }

  add(init: Pick<Pending, "clientMid" | "target" | "content" | "receipt" | "giveUpAtMs">): Pending {
    if (this.byMid.has(init.clientMid)) throw new Error(`client_mid ${init.clientMid} is already on its way`);
    const entry: Pending = { ...init, order: this.nextOrder, attempts: 0, refused: 0, firstWallMs: 0, inFlight: false };
    this.insert(entry);
    return entry;
  }

  /** Messages of an earlier run: they go before those of this one. */
  restore(entries: Pending[]): void {
    for (const entry of entries) {
      if (!this.byMid.has(entry.clientMid)) this.insert({ ...entry, inFlight: false });
    }
  }

  private insert(entry: Pending): void {
    this.nextOrder = Math.max(this.nextOrder, entry.order + 1);
    this.byMid.set(entry.clientMid, entry);
    const key = laneKey(entry.target);
    const lane = this.lanes.get(key) ?? { entries: [], notBefore: 0, refusals: 0, window: LANE_WINDOW };
    lane.entries.push(entry);
    lane.entries.sort((a, b) => a.order - b.order);
    this.lanes.set(key, lane);
  }

  /** The next message to send. Its attempt is counted and dated here: write the entry down, then send it. */
  take(now: Now): Pending | undefined {
    this.expire(now);
    for (const lane of this.lanes.values()) {
      const inFlight = lane.entries.filter((entry) => entry.inFlight).length;
      if (now.mono < lane.notBefore || inFlight >= lane.window) continue;
      const entry = lane.entries.find((candidate) => !candidate.inFlight);
      if (!entry) continue;
      if (entry.attempts === 0) {
        entry.firstWallMs = now.wall;
        entry.firstMonoMs = now.mono;
        if (now.server !== undefined) entry.firstServerMs = now.server;
      }
      entry.attempts += 1;
      entry.inFlight = true;
      return entry;
    }
    return undefined;
  }

  /** Age of the first attempt. After a restart no monotonic clock reaches back: the server's time, then the wall clock. */
  ageMs(entry: Pending, now: Now): number {
    if (entry.attempts === 0) return 0;
    const byServer = entry.firstServerMs !== undefined && now.server !== undefined ? now.server - entry.firstServerMs : -Infinity;
    if (entry.firstMonoMs !== undefined) return Math.max(now.mono - entry.firstMonoMs, byServer, 0);
    const age = Math.max(byServer, now.wall - entry.firstWallMs);
    // A clock that went back by more than the margin tells no age: such a message is too old for certain safety.
    return age < -RETRY_MARGIN_MS ? Infinity : Math.max(age, 0);
  }

  accepted(entry: Pending, stand: Stand): void {
    const lane = this.laneOf(entry);
    if (!lane) return;
    // A lane that was refused finds its pace again step by step.
    Object.assign(lane, { refusals: 0, window: Math.min(lane.window + 1, LANE_WINDOW) });
    this.settle(entry, this.standing(entry, stand));
  }

  /**
   * The sender's own event may come before the answer, or instead of one that was lost: it stands in the log. On this
   * connection the message still has its turn: a server that refused it for now holds back what is behind it until then.
   * The event of a message that was told before says nothing of a later one with its client_mid: that one has its answer.
   */
  ownEvent(event: LapwingEvent): void {
    const entry = this.byMid.get(event.clientMid);
    if (!entry || this.told.has(event.clientMid)) return;
    const { conversation, seq, n, sentAtMs } = event;
    const outcome = this.standing(entry, { conversation, seq, n, sentAtMs, duplicate: false });
    if (entry.inFlight || entry.held) {
      entry.told = true;
      this.tell(entry, outcome);
    } else {
      this.settle(entry, outcome);
    }
  }

  private standing(entry: Pending, { duplicate, ...rest }: Stand): PublishOutcome {
    return { outcome: duplicate ? "duplicate" : "accepted", clientMid: entry.clientMid, attempts: entry.attempts, ...rest };
  }

  /** An error answer to one attempt. */
  refused(entry: Pending, error: SdkError, now: Now): void {
    if (!this.laneOf(entry)) return;
    entry.lastError = error;
    entry.inFlight = false;
    if (error.outcomeClass !== "unknown") entry.refused += 1;
    if (error.outcomeClass === "rejected") {
      this.fail(entry, error);
    } else {
      this.holdBack(entry, error.retryAfterMs, now);
    }
  }

  /** No answer to one attempt, on a connection that still stands. */
  unanswered(entry: Pending, error: SdkError, now: Now): void {
    if (!this.laneOf(entry)) return;
    entry.lastError = error;
    entry.inFlight = false;
    this.holdBack(entry, 0, now);
  }

  /** The attempt was counted but never left this process. */
  notSent(entry: Pending): void {
    if (!entry.inFlight) return;
    entry.inFlight = false;
    entry.refused += 1;
  }

  disconnected(): void {
    for (const entry of [...this.lanes.values()].flatMap((lane) => lane.entries)) {
      entry.inFlight = false;
      entry.held = false;
      if (entry.told) this.remove(entry);
    }
    for (const lane of this.lanes.values()) Object.assign(lane, { notBefore: 0, refusals: 0, window: LANE_WINDOW });
  }

  /** Settles what is too old or given up; called by `take`, and by the shell while there is no connection. */
  expire(now: Now): void {
    for (const entry of this.entries()) {
      if (entry.giveUpAtMs !== undefined && now.mono >= entry.giveUpAtMs) {
        this.fail(entry, this.wordFor(entry, "gave_up", "the time given by the application is over"));
      } else if (!entry.inFlight && this.ageMs(entry, now) >= this.retryLimitMs) {
        const error = this.wordFor(entry, "too_old", "its first attempt is too old to be told apart from a new message");
        this.settle(entry, { outcome: "unknown", clientMid: entry.clientMid, attempts: entry.attempts, error });
      }
    }
  }

  drain(): Settled[] {
    const settled = this.settled;
    this.settled = [];
    return settled;
  }

  /** When to call `take` next, if no answer comes before (monotonic ms). `live`: there is a connection to send on. */
  nextWake(now: Now, live: boolean): number | undefined {
    const times: number[] = [];
    for (const lane of live ? this.lanes.values() : []) {
      const inFlight = lane.entries.filter((entry) => entry.inFlight).length;
      // Also one that has become due since the last `take`: its time must not pass unseen.
      if (inFlight < lane.window && inFlight < lane.entries.length) times.push(lane.notBefore);
    }
    for (const entry of this.entries()) {
      if (entry.giveUpAtMs !== undefined) times.push(entry.giveUpAtMs);
      if (entry.attempts > 0 && !entry.inFlight) times.push(now.mono + this.retryLimitMs - this.ageMs(entry, now));
    }
    return times.length > 0 ? Math.min(...times) : undefined;
  }

  private holdBack(entry: Pending, retryAfterMs: number, now: Now): void {
    const lane = this.laneOf(entry);
    if (!lane) return;
    entry.held = true;
    // What was refused behind the first belongs to the same round.
    if (now.mono >= lane.notBefore) lane.refusals += 1;
    lane.window = 1;
    lane.notBefore = Math.max(lane.notBefore, now.mono + publishDelayMs(lane.refusals, retryAfterMs, this.random));
  }

  /** Rejected only if every attempt was refused; else a copy may stand, and the code is only the reason (R-ACK-6). */
  private fail(entry: Pending, error: SdkError): void {
    const outcome = entry.attempts > entry.refused ? "unknown" : "rejected";
    this.settle(entry, { outcome, clientMid: entry.clientMid, attempts: entry.attempts, error });
  }

  private settle(entry: Pending, outcome: PublishOutcome): void {
    this.remove(entry);
    if (!entry.told) this.tell(entry, outcome);
  }

  private tell(entry: Pending, outcome: PublishOutcome): void {
    this.byMid.delete(entry.clientMid);
    this.settled.push({ entry, outcome });
    if (!("seq" in outcome)) return;
    this.told.add(entry.clientMid);
    const [oldest] = this.told;
    if (oldest !== undefined && this.told.size > TOLD_KEPT) this.told.delete(oldest);
  }

  private remove(entry: Pending): void {
    const lane = this.laneOf(entry);
    if (!lane) return;
    lane.entries = lane.entries.filter((other) => other !== entry);
    if (lane.entries.length === 0) this.lanes.delete(laneKey(entry.target));
  }

  /** Undefined for a message that is settled and has left. */
  private laneOf(entry: Pending): Lane | undefined {
    const lane = this.lanes.get(laneKey(entry.target));
    return lane?.entries.includes(entry) ? lane : undefined;
  }

  private wordFor(entry: Pending, name: string, why: string): SdkError {
    const last = entry.lastError;
    return new SdkError({
      step: "publish",
      address: last?.address ?? "",
      code: last?.code ?? 0,
      name,
      message: last ? `${why}; last answer: ${last.message}` : why,
      traceId: last?.traceId ?? "",
    });
  }
}
