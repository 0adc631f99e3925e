import type { SdkError } from "./errors.js";

export type Subprotocol = "lapwing.v1.proto" | "lapwing.v1.json";

export type Content = { text: string; type?: string } | { data: Uint8Array; type?: string };

/** Where a message goes: a conversation by its id, or the p2p conversation with a user. */
export type Target = { conversation: string } | { toUser: string };

export type Kind = "p2p" | "group" | "system" | "unspecified";

export interface Settings {
  historyForNewMembers: boolean;
  title: string;
  custom: Record<string, string>;
}

export type EventBody =
  | { case: "message"; content: Content }
  | { case: "created"; kind: Kind; name: string; members: string[]; memberCount: number; settings?: Settings }
  | { case: "membersAdded"; users: string[]; role: string }
  | { case: "membersRemoved"; users: string[] }
  | { case: "edited"; seq: number; content?: Content }
  | { case: "recalled"; seq: number }
  | { case: "reaction"; seq: number; reaction: string; removed: boolean }
  | { case: "roleChanged"; user: string; role: string }
  | { case: "muted"; user: string; untilMs: number }
  | { case: "blocked"; by: string; blocked: boolean }
  | { case: "settings"; settings: Settings }
  /** An event of a later protocol version: it has its place in the order, its content is not known here. */
  | { case: "unsupported" };

export interface LapwingEvent {
  conversation: string;
  seq: number;
  /** Countable messages up to and including this event. */
  n: number;
  /** Empty: the system or the server API. */
  sender: string;
  device: string;
  clientMid: string;
  sentAtMs: number;
  traceparent: string;
  body: EventBody;
}

export interface ConversationState {
  conversation: string;
  kind: Kind;
  head: number;
  n: number;
  fromSeq: number;
  readSeq: number;
  readN: number;
  deliveredSeq: number;
  liveAfter: number;
  last?: LapwingEvent;
  peer: string;
}

export interface Limits {
  maxBodyBytes: number;
  maxFrameBytes: number;
  maxHistoryPage: number;
  dedupeWindowMs: number;
}

export interface Welcome {
  session: string;
  node: string;
  user: string;
  tenant: string;
  serverTimeMs: number;
  heartbeatMs: number;
  limits: Limits;
}

/** `missing` is the SDK's own word: more than it pulls by itself; read them by `history`. */
export type GapReason = "retention" | "notMember" | "tooMany" | "missing" | "unspecified";

export interface Gap {
  conversation: string;
  from: number;
  to: number;
  reason: GapReason;
}

export interface HistoryPage {
  conversation: string;
  events: LapwingEvent[];
  head: number;
  n: number;
  persistedSeq: number;
  more: boolean;
  gaps: Gap[];
  fromSeq: number;
}

export interface HistoryQuery {
  after?: number;
  before?: number;
  /** Default 100; 0 asks for the position only. */
  limit?: number;
  reverse?: boolean;
}

export interface CursorMoved {
  conversation: string;
  user: string;
  readSeq: number;
  readN: number;
  deliveredSeq: number;
}

export interface Persisted {
  conversation: string;
  persistedSeq: number;
  seqs: number[];
  deadLettered: number[];
}

interface Stands {
  clientMid: string;
  conversation: string;
  seq: number;
  n: number;
  sentAtMs: number;
  attempts: number;
}

/** The four outcomes of R-ACK-1. `unknown`: 0 or 1 copy exists, and this client will not try again by itself. */
export type PublishOutcome =
  | ({ outcome: "accepted" } & Stands)
  | ({ outcome: "duplicate" } & Stands)
  | { outcome: "rejected"; clientMid: string; attempts: number; error: SdkError }
  | { outcome: "unknown"; clientMid: string; attempts: number; error: SdkError };

export interface PublishOptions {
  /** Chosen by the SDK when absent. The same id with the same content is the same message. */
  clientMid?: string;
  /** Ask for a persistence receipt (`persisted` event). */
  receipt?: boolean;
  /** Stop trying after this time; the outcome is then `rejected`, or `unknown` if an attempt is without an answer. */
  giveUpAfterMs?: number;
}

export type ConnectionState =
  | { state: "idle" }
  | { state: "connecting"; attempt: number; address: string }
  | { state: "online"; address: string; welcome: Welcome }
  | { state: "waiting"; attempt: number; retryInMs: number; error: SdkError }
  | { state: "closed"; error?: SdkError };
