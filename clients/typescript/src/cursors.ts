/** Sends cumulative positions at most each second, or at once after 100 events (R-FAN-14). */
export class CursorBatch {
  private readonly dirty = new Map<string, number>();
  private readonly sent = new Map<string, number>();
  private count = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly send: (conversation: string, seq: number) => boolean,
    private readonly periodMs = 1_000,
    private readonly maxEvents = 100,
  ) {}

  move(conversation: string, seq: number, events = 1): void {
    if (seq <= (this.dirty.get(conversation) ?? this.sent.get(conversation) ?? 0)) return;
    this.dirty.set(conversation, seq);
    this.count += events;
    if (this.count >= this.maxEvents) this.flush();
    else this.timer ??= setTimeout(() => this.flush(), this.periodMs);
  }

  /** What cannot be sent now stays, and goes out at the next flush. */
  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.count = 0;
    for (const [conversation, seq] of [...this.dirty]) {
      if (!this.send(conversation, seq)) return;
      this.sent.set(conversation, seq);
      this.dirty.delete(conversation);
    }
  }

  stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}
