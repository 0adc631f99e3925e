import { LapwingClient, newClientMid, WebStore, type ConnectionState, type ConversationState, type Subprotocol } from "../../typescript/src/index.js";
import * as api from "./api.js";
import { Chat, PAGE } from "./chat.js";
import { avatar, el, icon } from "./dom.js";

interface Tab {
  chat: Chat;
  button: HTMLButtonElement;
  badge: HTMLElement;
  unread: number;
}

interface Room {
  conversation: string;
  title: string;
  group: boolean;
}

/** One user's side of the demo: a client, its conversations, and what is shown of them. */
export class Pane {
  readonly element: HTMLElement;
  private readonly tabs = new Map<string, Tab>();
  private readonly tabBar = el("div", { class: "tabs", aria: { role: "tablist", label: "Conversations" } });
  private readonly stage = el("div", { class: "stage" });
  private readonly input: HTMLTextAreaElement;
  private readonly stateText = el("span", { class: "state-text" });
  private readonly stateBox: HTMLElement;
  private readonly action: HTMLButtonElement;
  private readonly timing = el("span", { class: "timing" });
  private client: LapwingClient;
  private current: Tab | undefined;
  private countdown: ReturnType<typeof setInterval> | undefined;

  constructor(
    readonly user: string,
    private readonly rooms: Room[],
    private subprotocol: Subprotocol,
  ) {
    this.stateBox = el("span", { class: "state", data: { state: "idle" }, aria: { role: "status" } }, el("i", { class: "dot" }), this.stateText);
    this.action = el("button", { class: "quiet", type: "button", onclick: () => this.act() });
    this.input = el("textarea", { rows: 1, placeholder: `Message as ${user}`, aria: { label: `Message as ${user}` } });
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    const composer = el("form", { class: "composer" }, this.input, el("button", { class: "send", type: "submit", title: "Send", aria: { label: "Send" } }, icon("send")));
    composer.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    const head = el("header", { class: "pane-head" }, avatar(user), el("div", { class: "who" }, el("h2", { textContent: user }), this.stateBox), this.action);
    this.element = el("section", { class: "pane", data: { user }, aria: { label: `${user}'s side` } }, head, this.tabBar, this.stage, composer, el("footer", {}, this.timing));
    for (const room of rooms) this.addTab(room);
    this.client = this.newClient([]);
  }

  start(): void {
    void this.connect();
    const first = this.rooms[0];
    if (first) this.show(first.conversation);
  }

  /** Another encoding: a new client takes over where the old one is. */
  async use(subprotocol: Subprotocol): Promise<void> {
    if (subprotocol === this.subprotocol) return;
    this.subprotocol = subprotocol;
    await this.client.close();
    this.client = this.newClient(this.client.cursors());
    await this.connect();
  }

  private newClient(cursors: { conversation: string; seq: number }[]): LapwingClient {
    const client = new LapwingClient({
      url: location.origin,
      token: () => api.token(this.user),
      store: new WebStore(sessionStorage),
      namespace: `demo/${this.user}`,
      subprotocol: this.subprotocol,
      cursors,
    });
    client.on("state", (state) => this.drawState(state));
    client.on("conversations", ({ conversations }) => conversations.forEach((state) => this.know(state)));
    client.on("joined", (state) => this.know(state));
    client.on("events", ({ conversation, events }) => this.arrived(conversation, () => this.tabs.get(conversation)?.chat.events(events), events.filter((event) => event.sender !== this.user).length));
    client.on("persisted", (persisted) => this.tabs.get(persisted.conversation)?.chat.persisted(persisted));
    client.on("outcome", (outcome) => this.tabs.forEach(({ chat }) => chat.outcome(outcome)));
    client.on("gap", ({ conversation, from, to, reason }) => {
      const chat = this.tabs.get(conversation)?.chat;
      if (reason === "tooMany" || reason === "missing") void chat?.restart();
      else chat?.gap(from, to);
    });
    client.on("error", (error) => console.info(`[lapwing ${this.user}] ${error.message}`));
    return client;
  }

  private async connect(): Promise<void> {
    const client = this.client;
    try {
      await client.connect();
    } catch {
      return; // The state shows why.
    }
    for (const { clientMid, target, content } of client.pending()) {
      if ("conversation" in target && "text" in content) this.tabs.get(target.conversation)?.chat.sending(clientMid, content.text);
    }
    if (this.current) void this.open(this.current);
  }

  private know(state: ConversationState): void {
    const { conversation, kind, peer } = state;
    if (kind === "system" || kind === "unspecified") return;
    const tab = this.tabs.get(conversation) ?? this.addTab({ conversation, title: kind === "p2p" ? peer : conversation.replace(/^grp\./, ""), group: kind === "group" });
    if (tab === this.current) return;
    tab.unread = Math.max(state.n - state.readN, 0);
    this.drawBadge(tab);
  }

  private addTab({ conversation, title, group }: Room): Tab {
    const badge = el("span", { class: "badge", hidden: true });
    const button = el("button", { class: "tab", type: "button", data: { conversation }, aria: { role: "tab", selected: "false" }, onclick: () => this.show(conversation) });
    button.append(group ? el("span", { class: "hash", textContent: "#" }) : avatar(title), title, badge);
    const chat = new Chat(conversation, this.user, group, {
      older: (before) => this.older(conversation, before),
      timing: (text) => {
        this.timing.textContent = text;
      },
    });
    const tab = { chat, button, badge, unread: 0 };
    this.tabs.set(conversation, tab);
    this.tabBar.append(button);
    return tab;
  }

  private async older(conversation: string, before: number | undefined): ReturnType<ConstructorParameters<typeof Chat>[3]["older"]> {
    try {
      return await this.client.history(conversation, { limit: PAGE, ...(before === undefined ? {} : { before }) });
    } catch (error) {
      console.info(`[lapwing ${this.user}] ${String(error)}`);
      return undefined;
    }
  }

  private show(conversation: string): void {
    const tab = this.tabs.get(conversation);
    if (!tab || tab === this.current) return;
    for (const { button } of this.tabs.values()) button.setAttribute("aria-selected", String(button === tab.button));
    this.current = tab;
    this.stage.replaceChildren(tab.chat.element);
    void this.open(tab);
  }

  private async open(tab: Tab): Promise<void> {
    if (this.client.state.state === "online") await tab.chat.opened();
    else tab.chat.toBottom();
    this.read(tab);
  }

  private arrived(conversation: string, draw: () => void, others: number): void {
    draw();
    const tab = this.tabs.get(conversation);
    if (!tab) return;
    if (tab === this.current && document.visibilityState === "visible") return this.read(tab);
    tab.unread += others;
    this.drawBadge(tab);
  }

  private read(tab: Tab): void {
    tab.unread = 0;
    this.drawBadge(tab);
    if (tab.chat.newestSeq > 0) this.client.read(tab.chat.conversation, tab.chat.newestSeq);
  }

  private drawBadge(tab: Tab): void {
    tab.badge.hidden = tab.unread === 0;
    tab.badge.textContent = tab.unread > 99 ? "99+" : String(tab.unread);
    tab.badge.setAttribute("aria-label", `${tab.unread} unread`);
  }

  private send(): void {
    const text = this.input.value.trim();
    const chat = this.current?.chat;
    if (!text || !chat) return;
    this.input.value = "";
    const clientMid = newClientMid();
    chat.sending(clientMid, text);
    void this.client.publish({ conversation: chat.conversation }, { text }, { clientMid });
  }

  private act(): void {
    const { state } = this.client.state;
    if (state === "online") this.client.dropConnection();
    else if (state === "waiting") this.client.reconnectNow();
    else if (state === "closed") void this.connect();
  }

  private drawState(state: ConnectionState): void {
    clearInterval(this.countdown);
    this.stateBox.dataset["state"] = state.state;
    this.stateBox.title = "";
    this.action.hidden = false;
    switch (state.state) {
      case "online":
        this.stateText.textContent = `Online · ${state.welcome.node} · ${this.subprotocol.endsWith("json") ? "JSON" : "binary"}`;
        this.action.title = "Cut the connection, as a lost network would";
        return this.action.replaceChildren("Cut");
      case "waiting": {
        const end = performance.now() + state.retryInMs;
        const draw = (): void => {
          this.stateText.textContent = `Offline · again in ${Math.max(0, Math.ceil((end - performance.now()) / 1000))} s`;
        };
        draw();
        this.countdown = setInterval(draw, 500);
        this.stateBox.title = state.error.message;
        this.action.title = "Try again now";
        return this.action.replaceChildren("Now");
      }
      case "closed":
        this.stateText.textContent = state.error ? `Closed · ${state.error.codeName}` : "Closed";
        this.stateBox.title = state.error?.message ?? "";
        this.action.title = "Connect again, here";
        return this.action.replaceChildren("Connect");
      default:
        this.stateText.textContent = "Connecting…";
        this.action.hidden = true;
    }
  }
}
