import type { Persisted } from "./types.js";

const FIRST_POLL_MS = 2_000;
const MAX_POLL_MS = 30_000;

/**
 * Own messages that are accepted and not yet known to be in MySQL. The server pushes `persisted`; what a lost connection
 * kept from us is asked for, ever more slowly while MySQL is away (R-ACK-3).
 */
export class Receipts {
  private readonly watched = new Map<string, Set<number>>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private periodMs = FIRST_POLL_MS;
  private stopped = false;

  constructor(
    private readonly persistedSeq: (conversation: string) => Promise<number>,
    private readonly emit: (persisted: Persisted) => void,
  ) {}

  watch(conversation: string, seq: number): void {
    const seqs = this.watched.get(conversation) ?? new Set();
    seqs.add(seq);
    this.watched.set(conversation, seqs);
    this.schedule();
  }

  heard(persisted: Persisted): void {
    const done = [...persisted.seqs, ...persisted.deadLettered];
    const settled = this.settle(persisted.conversation, (seq) => seq <= persisted.persistedSeq || done.includes(seq));
    const missed = settled.filter((seq) => !done.includes(seq));
    this.emit({ ...persisted, seqs: [...persisted.seqs, ...missed] });
  }

  /** A new connection: ask soon. */
  resume(): void {
    this.stopped = false;
    this.periodMs = FIRST_POLL_MS;
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.watched.size > 0) void this.poll();
  }

  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private settle(conversation: string, done: (seq: number) => boolean): number[] {
    const seqs = this.watched.get(conversation);
    if (!seqs) return [];
    const settled = [...seqs].filter(done).sort((a, b) => a - b);
    settled.forEach((seq) => seqs.delete(seq));
    if (seqs.size === 0) this.watched.delete(conversation);
    return settled;
  }

  private schedule(): void {
    if (this.stopped || this.watched.size === 0) return;
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      void this.poll();
    }, this.periodMs);
  }

  private async poll(): Promise<void> {
    const due = [...this.watched.keys()];
    for (const conversation of due) {
      // Without a connection this fails; `resume` comes with the next one.
      const persistedSeq = await this.persistedSeq(conversation).catch(() => 0);
      const seqs = this.settle(conversation, (seq) => seq <= persistedSeq);
      if (seqs.length > 0) this.emit({ conversation, persistedSeq, seqs, deadLettered: [] });
    }
    this.periodMs = Math.min(this.periodMs * 2, MAX_POLL_MS);
    this.schedule();
  }
}
