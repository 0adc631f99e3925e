import { classOfCode, num } from "./convert.js";
import type { Connection } from "./connection.js";
import { SdkError } from "./errors.js";
import { Outbox, type Now, type Pending } from "./outbox.js";
import { fromRecord, toRecord } from "./outbox-record.js";
import type { Store } from "./store.js";
import { Outcome } from "./gen/lapwing/client_pb.js";
import type { Content, LapwingEvent, PublishOptions, PublishOutcome, Target } from "./types.js";

export interface PublisherIo {
  now(): Now;
  live(): Connection | undefined;
  refreshToken(): Promise<void>;
  settled(entry: Pending, outcome: PublishOutcome): void;
  report(error: SdkError): void;
}

/** Drives the outbox: writes each attempt down, sends it, and maps the answer to an outcome. */
export class Publisher {
  private readonly outbox: Outbox;
  private readonly promises = new Map<string, (outcome: PublishOutcome) => void>();
  private writes: Promise<unknown> = Promise.resolve();
  private pumping = false;
  private again = false;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly io: PublisherIo,
    private readonly store: Store,
    private readonly prefix: string,
    private readonly answerTimeoutMs: number,
    random: () => number,
  ) {
    this.outbox = new Outbox(random);
  }

  async restore(): Promise<void> {
    const keys = await this.store.keys(this.prefix);
    const texts = await Promise.all(keys.map((key) => this.store.get(key)));
    this.outbox.restore(texts.flatMap((text) => (text ? (fromRecord(text) ?? []) : [])));
  }

  pending(): Pending[] {
    return this.outbox.entries().map((entry) => ({ ...entry }));
  }

  setDedupeWindow(windowMs: number): void {
    this.outbox.setDedupeWindow(windowMs);
  }

  publish(target: Target, content: Content, options: PublishOptions & { clientMid: string }): Promise<PublishOutcome> {
    const { clientMid, receipt = true, giveUpAfterMs } = options;
    const giveUp = giveUpAfterMs === undefined ? {} : { giveUpAtMs: this.io.now().mono + giveUpAfterMs };
    const entry = this.outbox.add({ clientMid, target, content, receipt, ...giveUp });
    const outcome = new Promise<PublishOutcome>((resolve) => this.promises.set(clientMid, resolve));
    // A message that waits for a connection must outlive the process, too.
    this.write(() => (this.outbox.has(clientMid) ? this.store.set(this.prefix + clientMid, toRecord(entry)) : undefined)).catch(
      (cause: unknown) => this.io.report(storeError(cause)),
    );
    void this.pump();
    return outcome;
  }

  ownEvent(event: LapwingEvent): void {
    if (!this.outbox.has(event.clientMid)) return;
    this.outbox.ownEvent(event);
    this.settle();
    void this.pump();
  }

  disconnected(): void {
    this.outbox.disconnected();
  }

  stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  /** Sends what may go out now, then sleeps until the next time that something may. */
  async pump(): Promise<void> {
    this.again = true;
    if (this.pumping) return;
    this.pumping = true;
    while (this.again) {
      this.again = false;
      await this.sendDue();
    }
    this.pumping = false;
    this.sleep();
  }

  private async sendDue(): Promise<void> {
    for (;;) {
      const connection = this.io.live();
      if (!connection) this.outbox.expire(this.io.now());
      const entry = connection ? this.outbox.take(this.io.now()) : undefined;
      this.settle();
      if (!connection || !entry) return;
      try {
        await this.write(() => (entry.told ? undefined : this.store.set(this.prefix + entry.clientMid, toRecord(entry))));
      } catch (cause) {
        this.outbox.refused(entry, storeError(cause), this.io.now());
        continue;
      }
      if (this.io.live() === connection) void this.attempt(connection, entry);
      else this.outbox.notSent(entry);
    }
  }

  private async attempt(connection: Connection, entry: Pending): Promise<void> {
    try {
      const answer = await this.ask(connection, entry);
      if (answer.case !== "published") throw unexpected(connection.address, answer.case);
      const { conversation, seq, n, sentAtMs, outcome } = answer.value;
      const stand = { conversation, seq: num(seq), n: num(n), sentAtMs: num(sentAtMs) };
      this.outbox.accepted(entry, { ...stand, duplicate: outcome === Outcome.DUPLICATE });
    } catch (error) {
      await this.failed(connection, entry, asSdkError(error, connection.address));
    }
    this.settle();
    void this.pump();
  }

  private ask(connection: Connection, entry: Pending): ReturnType<Connection["request"]> {
    const { clientMid, target, content, attempts: attempt, receipt } = entry;
    const age = attempt === 1 ? 0 : this.outbox.ageMs(entry, this.io.now());
    const body = "text" in content ? { case: "text" as const, value: content.text } : { case: "data" as const, value: content.data };
    const value = {
      target: "conversation" in target ? { case: "conversation" as const, value: target.conversation } : { case: "toUser" as const, value: target.toUser },
      clientMid,
      content: { body, type: content.type ?? "" },
      attempt,
      firstAttemptAgeMs: BigInt(Math.round(age)),
      receipt,
    };
    return connection.request({ case: "publish", value }, "publish", this.answerTimeoutMs);
  }

  private async failed(connection: Connection, entry: Pending, error: SdkError): Promise<void> {
    if (error.codeName === "not_sent") return this.outbox.notSent(entry);
    if (error.answered) {
      this.outbox.refused(entry, error, this.io.now());
      if (error.code === 401) await this.io.refreshToken();
    } else if (this.io.live() === connection) {
      this.outbox.unanswered(entry, error, this.io.now());
    }
  }

  private settle(): void {
    for (const { entry, outcome } of this.outbox.drain()) {
      this.write(() => this.store.delete(this.prefix + entry.clientMid)).catch((cause: unknown) => this.io.report(storeError(cause)));
      this.io.settled(entry, outcome);
      this.promises.get(entry.clientMid)?.(outcome);
      this.promises.delete(entry.clientMid);
    }
  }

  /** Writes are made one after the other: an old state never lands on a newer one. */
  private write(make: () => Promise<void> | undefined): Promise<void> {
    const done = this.writes.then(() => make());
    this.writes = done.catch(() => {});
    return done;
  }

  private sleep(): void {
    clearTimeout(this.timer);
    const now = this.io.now();
    const wake = this.outbox.nextWake(now, this.io.live() !== undefined);
    if (wake === undefined) return;
    this.timer = setTimeout(() => void this.pump(), Math.min(Math.max(wake - now.mono, 1), 3_600_000));
  }
}

function asSdkError(error: unknown, address: string): SdkError {
  if (error instanceof SdkError) return error;
  return new SdkError({ step: "publish", address, message: String(error), cause: error });
}

function unexpected(address: string, got: string | undefined): SdkError {
  return new SdkError({ step: "publish", address, name: "unexpected", message: `an answer of kind ${got ?? "none"}`, outcomeClass: classOfCode(0) });
}

function storeError(cause: unknown): SdkError {
  const message = "the message cannot be written to the store, so it is not sent yet";
  return new SdkError({ step: "publish", name: "store_failed", message, outcomeClass: "open", temporary: true, cause });
}
