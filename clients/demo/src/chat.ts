import type { HistoryPage, LapwingEvent, Persisted, PublishOutcome } from "../../typescript/src/index.js";
import { el, icon, type IconName } from "./dom.js";

type Status = "sending" | "accepted" | "persisted" | "dead_lettered" | "rejected" | "unknown";

interface Item {
  seq: number | undefined;
  clientMid: string;
  mine: boolean;
  sender: string;
  text: string;
  atMs: number;
  note: boolean;
  status: Status | undefined;
  detail: string;
  sentAt: number | undefined;
  row: HTMLElement;
}

const SIGNS: Record<Status, [IconName, string]> = {
  sending: ["clock", "sending"],
  accepted: ["tick", "accepted"],
  persisted: ["ticks", "stored"],
  dead_lettered: ["alert", "set aside by the archive, still readable here"],
  rejected: ["alert", "rejected"],
  unknown: ["question", "outcome unknown"],
};

export const PAGE = 40;
const NEAR_BOTTOM_PX = 80;

export interface ChatIo {
  older(before: number | undefined): Promise<HistoryPage | undefined>;
  timing(text: string): void;
}

/** One conversation on the screen: what stands in the log by seq, below it what is on its way. */
export class Chat {
  readonly element: HTMLElement;
  private readonly rows = el("ol", { class: "rows" });
  private readonly top = el("div", { class: "top", textContent: "" });
  private readonly jump: HTMLButtonElement;
  private readonly items: Item[] = [];
  private readonly bySeq = new Map<number, Item>();
  private readonly byMid = new Map<string, Item>();
  private persistedSeq = 0;
  private oldest: number | undefined;
  private more = true;
  private loading = false;
  private followed = true;
  private lastTop = 0;

  constructor(
    readonly conversation: string,
    private readonly user: string,
    private readonly showNames: boolean,
    private readonly io: ChatIo,
  ) {
    this.jump = el("button", { class: "jump", type: "button", hidden: true, onclick: () => this.toBottom() }, icon("down"), "New messages");
    this.element = el("div", { class: "log", tabIndex: 0, aria: { role: "log", label: "Messages" } }, this.top, this.rows, this.jump);
    this.element.addEventListener("scroll", () => this.scrolled(), { passive: true });
    // A smaller window, or a line that grew, keeps the newest message in view.
    const resized = new ResizeObserver(() => this.followed && this.toBottom());
    resized.observe(this.element);
    resized.observe(this.rows);
  }

  get newestSeq(): number {
    return Math.max(0, ...this.bySeq.keys());
  }

  get atBottom(): boolean {
    const { scrollHeight, scrollTop, clientHeight } = this.element;
    return scrollHeight - scrollTop - clientHeight < NEAR_BOTTOM_PX;
  }

  toBottom(): void {
    this.followed = true;
    this.element.scrollTop = this.element.scrollHeight;
    this.jump.hidden = true;
  }

  /** Shown for the first time, or again: fill the screen with what there is. */
  async opened(): Promise<void> {
    if (this.oldest === undefined) await this.loadOlder();
    this.toBottom();
  }

  sending(clientMid: string, text: string): void {
    if (this.byMid.has(clientMid)) return;
    const item = this.newItem({ clientMid, text, sender: this.user, mine: true, status: "sending", atMs: Date.now(), sentAt: performance.now() });
    this.byMid.set(clientMid, item);
    this.items.push(item);
    this.place(item);
    this.toBottom();
  }

  outcome(outcome: PublishOutcome): void {
    const item = this.byMid.get(outcome.clientMid);
    if (!item) return;
    if ("seq" in outcome) {
      this.stands(item, outcome.seq, outcome.sentAtMs);
      const again = outcome.attempts > 1 ? `, attempt ${outcome.attempts}` : "";
      if (item.sentAt !== undefined) this.io.timing(`accepted after ${Math.round(performance.now() - item.sentAt)} ms${again}`);
    } else {
      item.status = outcome.outcome;
      item.detail = outcome.error.message;
      this.draw(item);
    }
  }

  events(events: LapwingEvent[]): void {
    for (const event of events) this.add(event);
    if (this.followed) this.toBottom();
    else this.jump.hidden = false;
  }

  persisted({ persistedSeq, seqs, deadLettered }: Persisted): void {
    this.persistedSeq = Math.max(this.persistedSeq, persistedSeq);
    for (const seq of deadLettered) this.mark(seq, "dead_lettered");
    for (const item of this.items) if (item.seq !== undefined && (item.seq <= this.persistedSeq || seqs.includes(item.seq))) this.mark(item.seq, "persisted");
  }

  /** Too much was missed to be pushed: begin again with the newest page. */
  async restart(): Promise<void> {
    for (const item of this.bySeq.values()) item.row.remove();
    this.items.splice(0, this.items.length, ...this.byMid.values());
    this.bySeq.clear();
    this.oldest = undefined;
    this.more = true;
    await this.opened();
  }

  /** A range that does not exist for this user. */
  gap(from: number, to: number): void {
    const text = from === to ? `Message ${from} is not available here` : `Messages ${from}–${to} are not available here`;
    if (!this.bySeq.has(to)) this.insert(this.newItem({ seq: to, text, note: true }));
  }

  private async loadOlder(): Promise<void> {
    if (this.loading || !this.more) return;
    this.loading = true;
    this.top.textContent = "Loading…";
    const page = await this.io.older(this.oldest);
    this.top.textContent = "";
    this.loading = false;
    if (!page) return;
    const { scrollHeight, scrollTop } = this.element;
    for (const gap of page.gaps) this.gap(gap.from, gap.to);
    for (const event of page.events) this.add(event);
    this.oldest = Math.min(...page.events.map(({ seq }) => seq), this.oldest ?? page.head + 1);
    this.more = page.more;
    this.persisted({ conversation: this.conversation, persistedSeq: page.persistedSeq, seqs: [], deadLettered: [] });
    if (!this.more) this.top.textContent = "This is where it begins.";
    this.element.scrollTop = scrollTop + this.element.scrollHeight - scrollHeight;
  }

  private scrolled(): void {
    // Content that grew below is no wish of the reader to stay behind: only scrolling up is.
    if (this.atBottom) this.followed = true;
    else if (this.element.scrollTop < this.lastTop) this.followed = false;
    this.lastTop = this.element.scrollTop;
    if (this.followed) this.jump.hidden = true;
    if (this.element.scrollTop < 120 && this.oldest !== undefined) void this.loadOlder();
  }

  private add(event: LapwingEvent): void {
    if (this.bySeq.has(event.seq)) return;
    const own = event.sender === this.user ? this.byMid.get(event.clientMid) : undefined;
    if (own) return this.stands(own, event.seq, event.sentAtMs);
    const { seq, sender, clientMid, sentAtMs: atMs } = event;
    if (event.body.case !== "message") return this.insert(this.newItem({ seq, text: describe(event), atMs, note: true }));
    const { content } = event.body;
    const text = "text" in content ? content.text : `${content.data.length} bytes ${content.type ?? ""}`;
    const mine = sender === this.user;
    const status = mine ? (seq <= this.persistedSeq ? "persisted" : "accepted") : undefined;
    this.insert(this.newItem({ seq, sender: sender || "service", clientMid, text, mine, atMs, status }));
  }

  /** A message on its way has got its place in the log. */
  private stands(item: Item, seq: number, atMs: number): void {
    if (item.seq !== undefined) return;
    this.byMid.delete(item.clientMid);
    this.items.splice(this.items.indexOf(item), 1);
    Object.assign(item, { seq, atMs, status: seq <= this.persistedSeq ? "persisted" : "accepted", detail: `seq ${seq}` });
    this.draw(item);
    this.insert(item);
  }

  private mark(seq: number, status: "persisted" | "dead_lettered"): void {
    const item = this.bySeq.get(seq);
    if (!item?.mine || item.status === status || item.status === "dead_lettered") return;
    item.status = status;
    if (status === "persisted" && item.sentAt !== undefined) this.io.timing(`stored after ${Math.round(performance.now() - item.sentAt)} ms`);
    this.draw(item);
  }

  private newItem(init: Partial<Item>): Item {
    const row = el("li", { class: "row" });
    const item: Item = { seq: undefined, clientMid: "", mine: false, sender: "", text: "", atMs: 0, note: false, status: undefined, detail: "", sentAt: undefined, ...init, row };
    this.draw(item);
    return item;
  }

  private insert(item: Item): void {
    const seq = item.seq ?? Infinity;
    const known = this.bySeq.get(seq);
    if (known && known !== item) {
      item.row.remove();
      return;
    }
    this.bySeq.set(seq, item);
    let at = this.items.length;
    while (at > 0 && ((this.items[at - 1] as Item).seq ?? Infinity) > seq) at -= 1;
    this.items.splice(at, 0, item);
    this.place(item);
  }

  private place(item: Item): void {
    const at = this.items.indexOf(item);
    const next = this.items[at + 1];
    if (item.row.nextSibling !== (next?.row ?? null) || !item.row.isConnected) this.rows.insertBefore(item.row, next?.row ?? null);
    for (const near of [item, next]) if (near) this.group(near);
  }

  /** The name stands above the first of several messages of one sender. */
  private group(item: Item): void {
    const before = this.items[this.items.indexOf(item) - 1];
    item.row.classList.toggle("follows", !!before && !before.note && !item.note && before.sender === item.sender);
  }

  private draw(item: Item): void {
    const { row } = item;
    row.className = `row ${item.note ? "note" : item.mine ? "mine" : "theirs"}${row.classList.contains("follows") ? " follows" : ""}`;
    row.dataset["seq"] = item.seq === undefined ? "" : String(item.seq);
    row.dataset["status"] = item.status ?? "";
    if (item.note) {
      row.replaceChildren(el("span", { class: "notice", textContent: item.text }));
      return;
    }
    const time = el("time", { textContent: new Date(item.atMs).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) });
    time.dateTime = new Date(item.atMs).toISOString();
    const meta = el("span", { class: "meta" }, time);
    if (item.status) {
      const [sign, word] = SIGNS[item.status];
      meta.append(el("span", { class: "sign", title: item.detail ? `${word} – ${item.detail}` : word }, icon(sign), el("span", { class: "hidden", textContent: word })));
    }
    const bubble = el("div", { class: "bubble" }, el("span", { class: "text", textContent: item.text }), meta);
    const name = this.showNames && !item.mine ? [el("span", { class: "name", textContent: item.sender })] : [];
    const failed = item.status === "rejected" || item.status === "unknown";
    row.replaceChildren(...name, bubble, ...(failed ? [el("span", { class: "why", textContent: item.detail })] : []));
  }
}

function describe(event: LapwingEvent): string {
  const { body } = event;
  switch (body.case) {
    case "created":
      return "The conversation was created";
    case "membersAdded":
      return `${body.users.join(", ")} joined`;
    case "membersRemoved":
      return `${body.users.join(", ")} left`;
    case "settings":
      return "The settings were changed";
    default:
      return body.case;
  }
}
