import { SdkError, type OutcomeClass, type Step } from "./errors.js";
import * as pb from "./gen/lapwing/client_pb.js";
import type * as t from "./types.js";

/** Seqs and times fit a double for longer than anyone will run this; a number that does not is a broken frame. */
export function num(value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new RangeError(`${value} is beyond the safe integers`);
  return Number(value);
}

const KINDS: Record<pb.Kind, t.Kind> = {
  [pb.Kind.UNSPECIFIED]: "unspecified",
  [pb.Kind.P2P]: "p2p",
  [pb.Kind.GROUP]: "group",
  [pb.Kind.SYSTEM]: "system",
};

const GAP_REASONS: Record<pb.GapReason, t.GapReason> = {
  [pb.GapReason.UNSPECIFIED]: "unspecified",
  [pb.GapReason.RETENTION]: "retention",
  [pb.GapReason.NOT_MEMBER]: "notMember",
  [pb.GapReason.TOO_MANY]: "tooMany",
};

export function contentOf(content: pb.Content | undefined): t.Content | undefined {
  if (!content) return undefined;
  const type = content.type ? { type: content.type } : {};
  if (content.body.case === "data") return { data: content.body.value, ...type };
  return { text: content.body.case === "text" ? content.body.value : "", ...type };
}

function settingsOf(settings: pb.Settings): t.Settings {
  return { historyForNewMembers: settings.historyForNewMembers, title: settings.title, custom: { ...settings.custom } };
}

function bodyOf(body: pb.Event["body"]): t.EventBody {
  switch (body.case) {
    case "message":
      return { case: "message", content: contentOf(body.value) ?? { text: "" } };
    case "created": {
      const { kind, name, members, memberCount, settings } = body.value;
      const created = { case: "created" as const, kind: KINDS[kind] ?? "unspecified", name, members, memberCount };
      return settings ? { ...created, settings: settingsOf(settings) } : created;
    }
    case "membersAdded":
      return { case: "membersAdded", users: body.value.users, role: body.value.role };
    case "membersRemoved":
      return { case: "membersRemoved", users: body.value.users };
    case "edited": {
      const content = contentOf(body.value.content);
      return content ? { case: "edited", seq: num(body.value.seq), content } : { case: "edited", seq: num(body.value.seq) };
    }
    case "recalled":
      return { case: "recalled", seq: num(body.value.seq) };
    case "reaction":
      return { case: "reaction", seq: num(body.value.seq), reaction: body.value.reaction, removed: body.value.removed };
    case "roleChanged":
      return { case: "roleChanged", user: body.value.user, role: body.value.role };
    case "muted":
      return { case: "muted", user: body.value.user, untilMs: num(body.value.untilMs) };
    case "blocked":
      return { case: "blocked", by: body.value.by, blocked: body.value.blocked };
    case "settings":
      return { case: "settings", settings: settingsOf(body.value) };
    case undefined:
      return { case: "unsupported" };
  }
}

export function eventOf(event: pb.Event): t.LapwingEvent {
  return {
    conversation: event.conversation,
    seq: num(event.seq),
    n: num(event.n),
    sender: event.sender,
    device: event.device,
    clientMid: event.clientMid,
    sentAtMs: num(event.sentAtMs),
    traceparent: event.traceparent,
    body: bodyOf(event.body),
  };
}

export function stateOf(state: pb.ConversationState): t.ConversationState {
  return {
    conversation: state.conversation,
    kind: KINDS[state.kind] ?? "unspecified",
    head: num(state.head),
    n: num(state.n),
    fromSeq: num(state.fromSeq),
    readSeq: num(state.readSeq),
    readN: num(state.readN),
    deliveredSeq: num(state.deliveredSeq),
    liveAfter: num(state.liveAfter),
    ...(state.last ? { last: eventOf(state.last) } : {}),
    peer: state.peer,
  };
}

export function welcomeOf(welcome: pb.Welcome): t.Welcome {
  return {
    session: welcome.session,
    node: welcome.node,
    user: welcome.user,
    tenant: welcome.tenant,
    serverTimeMs: num(welcome.serverTimeMs),
    heartbeatMs: welcome.heartbeatMs || 25_000,
    limits: {
      maxBodyBytes: welcome.limits?.maxBodyBytes ?? 0,
      maxFrameBytes: welcome.limits?.maxFrameBytes ?? 0,
      maxHistoryPage: welcome.limits?.maxHistoryPage || 500,
      dedupeWindowMs: num(welcome.limits?.dedupeWindowMs ?? 0n) || 2 * 3_600_000,
    },
  };
}

export function gapOf(gap: pb.Gap): t.Gap {
  return { conversation: gap.conversation, from: num(gap.from), to: num(gap.to), reason: GAP_REASONS[gap.reason] ?? "unspecified" };
}

export function pageOf(page: pb.HistoryPage): t.HistoryPage {
  return {
    conversation: page.conversation,
    events: page.events.map(eventOf),
    head: num(page.head),
    n: num(page.n),
    persistedSeq: num(page.persistedSeq),
    more: page.more,
    gaps: page.gaps.map(gapOf),
    fromSeq: num(page.fromSeq),
  };
}

export function cursorMovedOf(cursor: pb.CursorMoved): t.CursorMoved {
  return {
    conversation: cursor.conversation,
    user: cursor.user,
    readSeq: num(cursor.readSeq),
    readN: num(cursor.readN),
    deliveredSeq: num(cursor.deliveredSeq),
  };
}

export function persistedOf(persisted: pb.Persisted): t.Persisted {
  return {
    conversation: persisted.conversation,
    persistedSeq: num(persisted.persistedSeq),
    seqs: persisted.seqs.map(num),
    deadLettered: persisted.deadLettered.map(num),
  };
}

const CLASSES: Partial<Record<pb.Class, OutcomeClass>> = {
  [pb.Class.REJECTED]: "rejected",
  [pb.Class.OPEN]: "open",
  [pb.Class.UNKNOWN]: "unknown",
};

/** The table of R-ACK-6, for an answer that names no class. An unheard-of code proves nothing. */
export function classOfCode(code: number): OutcomeClass {
  if ([400, 403, 404, 409, 413].includes(code)) return "rejected";
  if ([401, 429, 502, 503].includes(code)) return "open";
  return "unknown";
}

export function errorOf(error: pb.Error, step: Step, address: string): SdkError {
  return new SdkError({
    step,
    address,
    code: error.code,
    name: error.name,
    message: error.message || "the server gave no message",
    outcomeClass: CLASSES[error.class] ?? classOfCode(error.code),
    temporary: error.temporary,
    retryAfterMs: error.retryAfterMs,
    reason: error.cause,
    traceId: error.traceId,
  });
}
