import { Recovery } from "./recovery.js";
import { Timeline, type Step } from "./timeline.js";
import type { ConversationState, Gap, HistoryPage, HistoryQuery, LapwingEvent } from "./types.js";

export interface InboxIo {
  events(conversation: string, events: LapwingEvent[]): void;
  gap(gap: Gap): void;
  sync(conversation: string, seq: number): Promise<void>;
  history(conversation: string, query: HistoryQuery): Promise<HistoryPage>;
  report(error: unknown): void;
  sleep(ms: number): Promise<void>;
  maxPage(): number;
}

/** All conversations as this client has seen them. */
export class Inbox {
  private readonly timelines = new Map<string, Timeline>();
  private readonly holes = new Map<string, { from: number; to: number }>();
  private readonly newest = new Map<string, number>();
  private readonly recovery: Recovery;

  constructor(
    private readonly io: InboxIo,
    private readonly maxAutoFill: number,
  ) {
    const { sync, history, report, sleep, maxPage } = io;
    const hole = (conversation: string): { from: number; to: number } | undefined => this.holes.get(conversation);
    const feed = (page: HistoryPage): void => this.feed(page);
    const skip = (gap: Gap): void => this.skip(gap);
    this.recovery = new Recovery({ hole, feed, skip, sync, history, report, sleep, maxPage }, maxAutoFill);
  }

  start(cursors: { conversation: string; seq: number }[]): void {
    for (const { conversation, seq } of cursors) this.timelines.set(conversation, new Timeline(seq));
  }

  cursors(): { conversation: string; seq: number }[] {
    return [...this.timelines].map(([conversation, timeline]) => ({ conversation, seq: timeline.cursor }));
  }

  /** The newest seq that this client knows to exist. */
  seen(conversation: string): number {
    return Math.max(this.newest.get(conversation) ?? 0, this.timelines.get(conversation)?.cursor ?? 0);
  }

  saw(conversation: string, seq: number): void {
    if (seq > (this.newest.get(conversation) ?? 0)) this.newest.set(conversation, seq);
  }

  /** The server pushes what is newer than `liveAfter`; what we hold less than that is fetched. */
  attached(state: ConversationState): void {
    const { conversation, liveAfter } = state;
    const timeline = this.timelines.get(conversation);
    if (!timeline) {
      this.timelines.set(conversation, new Timeline(liveAfter));
      return;
    }
    this.apply(conversation, timeline.expectUpTo(liveAfter), "history");
  }

  joined(state: ConversationState): void {
    const { conversation, liveAfter } = state;
    const timeline = this.timelines.get(conversation);
    if (!timeline) this.timelines.set(conversation, new Timeline(liveAfter));
    else if (liveAfter > timeline.cursor) this.skip({ conversation, from: timeline.cursor + 1, to: liveAfter, reason: "notMember" });
  }

  receive(events: LapwingEvent[]): void {
    const byConversation = new Map<string, LapwingEvent[]>();
    for (const event of events) {
      const list = byConversation.get(event.conversation);
      if (list) list.push(event);
      else byConversation.set(event.conversation, [event]);
    }
    for (const [conversation, list] of byConversation) this.receiveFor(conversation, list);
  }

  gap(gap: Gap): void {
    if (gap.reason !== "tooMany" || gap.to - gap.from + 1 > this.maxAutoFill) return this.skip(gap);
    const timeline = this.timeline(gap.conversation, gap.from - 1);
    this.apply(gap.conversation, timeline.expectUpTo(gap.to), "history");
  }

  rewind(conversation: string, seq: number): void {
    this.holes.delete(conversation);
    this.timeline(conversation, seq).rewind(seq);
  }

  private receiveFor(conversation: string, events: LapwingEvent[]): void {
    const first = events[0];
    if (!first) return;
    this.apply(conversation, this.timeline(conversation, first.seq - 1).receive(events), "sync");
  }

  private timeline(conversation: string, cursor: number): Timeline {
    const timeline = this.timelines.get(conversation) ?? new Timeline(cursor);
    this.timelines.set(conversation, timeline);
    return timeline;
  }

  private feed(page: HistoryPage): void {
    const { conversation } = page;
    this.apply(conversation, this.timeline(conversation, 0).receive(page.events), "history");
    page.gaps.forEach((gap) => this.skip({ ...gap, conversation }));
  }

  private skip(gap: Gap): void {
    const timeline = this.timeline(gap.conversation, gap.from - 1);
    const isNew = gap.to > timeline.cursor;
    const step = timeline.skip(gap.from, gap.to);
    if (isNew) this.io.gap(gap);
    this.apply(gap.conversation, step, "sync");
  }

  private apply(conversation: string, step: Step, way: "sync" | "history"): void {
    if (step.hole) this.holes.set(conversation, step.hole);
    else this.holes.delete(conversation);
    if (step.deliver.length > 0) this.io.events(conversation, step.deliver);
    if (step.hole) void this.recovery.fill(conversation, way);
  }
}
