import { SdkError } from "./errors.js";
import type { Gap, HistoryPage, HistoryQuery } from "./types.js";

export interface RecoveryIo {
  hole(conversation: string): { from: number; to: number } | undefined;
  sync(conversation: string, seq: number): Promise<void>;
  history(conversation: string, query: HistoryQuery): Promise<HistoryPage>;
  feed(page: HistoryPage): void;
  skip(gap: Gap): void;
  report(error: unknown): void;
  sleep(ms: number): Promise<void>;
  maxPage(): number;
}

const SYNC_WAIT_MS = 3_000;
const SYNC_STEP_MS = 100;
const RETRY_MS = [1_000, 2_000, 4_000, 8_000, 16_000, 30_000];

/** Fills holes: first the server is asked to push again, then history is read; one fill a conversation at a time. */
export class Recovery {
  private readonly running = new Set<string>();

  constructor(
    private readonly io: RecoveryIo,
    private readonly maxAutoFill: number,
  ) {}

  async fill(conversation: string, way: "sync" | "history"): Promise<void> {
    if (this.running.has(conversation)) return;
    this.running.add(conversation);
    try {
      if (way === "sync") await this.bySync(conversation);
      await this.byHistory(conversation);
    } catch (error) {
      // Only a lost connection ends a fill early: the cursors of the next `connect` bring what is missing.
      this.io.report(error);
    } finally {
      this.running.delete(conversation);
    }
  }

  private async bySync(conversation: string): Promise<void> {
    const hole = this.io.hole(conversation);
    if (!hole) return;
    try {
      await this.io.sync(conversation, hole.from - 1);
    } catch (error) {
      this.io.report(error);
      return;
    }
    for (let waited = 0; waited < SYNC_WAIT_MS && this.io.hole(conversation); waited += SYNC_STEP_MS) {
      await this.io.sleep(SYNC_STEP_MS);
    }
  }

  private async byHistory(conversation: string): Promise<void> {
    for (let failures = 0; ; ) {
      const hole = this.io.hole(conversation);
      if (!hole) return;
      const size = hole.to - hole.from + 1;
      if (size > this.maxAutoFill) {
        this.io.skip({ conversation, ...hole, reason: "missing" });
        continue;
      }
      const ask = { after: hole.from - 1, limit: Math.min(size, this.io.maxPage()) };
      try {
        this.io.feed(await this.io.history(conversation, ask));
      } catch (error) {
        if (!(error instanceof SdkError) || !error.answered || error.outcomeClass === "rejected") throw error;
        this.io.report(error);
      }
      if (this.io.hole(conversation)?.from === hole.from) {
        await this.io.sleep(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)] ?? 30_000);
        failures += 1;
      } else {
        failures = 0;
      }
    }
  }
}
