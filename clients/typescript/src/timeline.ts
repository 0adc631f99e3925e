import type { LapwingEvent } from "./types.js";

export interface Step {
  /** Ready for the application: ascending, contiguous but for ranges that were skipped. */
  deliver: LapwingEvent[];
  /** Seqs that are missing before what already came. */
  hole?: { from: number; to: number };
}

const MAX_AHEAD = 2_000;

/** One conversation as this client has seen it: each event once, in seq order, a hole never passed in silence. */
export class Timeline {
  private readonly ahead = new Map<number, LapwingEvent>();
  private skips: { from: number; to: number }[] = [];
  private expectedTo = 0;

  /** @param cursor the newest seq that the application holds */
  constructor(public cursor: number) {}

  receive(events: LapwingEvent[]): Step {
    for (const event of events) {
      // Beyond the bound the hole stays open, and what was dropped is fetched with it.
      if (event.seq > this.cursor && (this.ahead.size < MAX_AHEAD || event.seq === this.cursor + 1)) this.ahead.set(event.seq, event);
      this.expectedTo = Math.max(this.expectedTo, event.seq);
    }
    return this.advance();
  }

  /** The server says that these will not come. */
  skip(from: number, to: number): Step {
    if (to > this.cursor) this.skips.push({ from, to });
    this.expectedTo = Math.max(this.expectedTo, to);
    return this.advance();
  }

  /** The server pushes only what is newer than `seq`: all up to there must be fetched, unless it is already here. */
  expectUpTo(seq: number): Step {
    this.expectedTo = Math.max(this.expectedTo, seq);
    return this.advance();
  }

  /** The application lost its state after `seq`, and wants all events from there once more. */
  rewind(seq: number): void {
    this.cursor = seq;
    this.ahead.clear();
    this.skips = [];
  }

  private advance(): Step {
    const deliver: LapwingEvent[] = [];
    for (;;) {
      const next = this.cursor + 1;
      const skip = this.skips.find((range) => range.from <= next && next <= range.to);
      const event = this.ahead.get(next);
      if (event) {
        this.ahead.delete(next);
        deliver.push(event);
        this.cursor = next;
      } else if (skip) {
        this.cursor = skip.to;
      } else break;
    }
    this.skips = this.skips.filter((range) => range.to > this.cursor);
    for (const seq of this.ahead.keys()) if (seq <= this.cursor) this.ahead.delete(seq);
    return this.expectedTo > this.cursor ? { deliver, hole: this.hole() } : { deliver };
  }

  private hole(): { from: number; to: number } {
    const from = this.cursor + 1;
    const starts = [...this.ahead.keys(), ...this.skips.map((range) => range.from)];
    const next = starts.length > 0 ? Math.min(...starts) : this.expectedTo + 1;
    return { from, to: next - 1 };
  }
}
