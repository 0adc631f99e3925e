/** The step that failed (R-GW-9). */
export type Step = "nodes" | "token" | "dial" | "upgrade" | "connect" | "publish" | "history" | "sync" | "refresh" | "ack" | "connection";

/** What an answer says about one attempt to publish. */
export type OutcomeClass = "rejected" | "open" | "unknown";

export interface SdkErrorInit {
  step: Step;
  address?: string;
  code?: number;
  name?: string;
  message: string;
  outcomeClass?: OutcomeClass;
  temporary?: boolean;
  retryAfterMs?: number;
  reason?: string;
  traceId?: string;
  cause?: unknown;
}

export class SdkError extends Error {
  readonly step: Step;
  /** The server that was spoken to, without its token. */
  readonly address: string;
  /** HTTP-like code of an error answer, a WebSocket close code, or 0 when nothing answered. */
  readonly code: number;
  /** `overloaded`, `forbidden`, … or the SDK's own word. */
  readonly codeName: string;
  readonly outcomeClass: OutcomeClass | undefined;
  readonly temporary: boolean;
  readonly retryAfterMs: number;
  /** The server's `cause`. */
  readonly reason: string;
  /** 32 hex digits, to be given to whoever runs the service. */
  readonly traceId: string;

  constructor(init: SdkErrorInit) {
    const where = init.address ? ` at ${init.address}` : "";
    const code = init.code ? ` ${init.code}` : "";
    const name = init.name ? ` ${init.name}` : "";
    const trace = init.traceId ? ` (trace ${init.traceId})` : "";
    super(`${init.step}${where}:${code}${name}: ${init.message}${trace}`, init.cause === undefined ? undefined : { cause: init.cause });
    this.name = "SdkError";
    this.step = init.step;
    this.address = init.address ?? "";
    this.code = init.code ?? 0;
    this.codeName = init.name ?? "";
    this.outcomeClass = init.outcomeClass;
    this.temporary = init.temporary ?? false;
    this.retryAfterMs = init.retryAfterMs ?? 0;
    this.reason = init.reason ?? "";
    this.traceId = init.traceId ?? "";
  }

  /** True when a server answered; false when the answer is missing (socket closed, time-out). */
  get answered(): boolean {
    return this.outcomeClass !== undefined;
  }
}

/** The close codes of Lapwing: 4000–4499 reconnect, 4500–4999 do not. */
const CLOSE_NAMES: Record<number, string> = {
  1000: "normal",
  1001: "going_away",
  1002: "protocol_error",
  1005: "no_status",
  1006: "abnormal",
  1007: "invalid_payload",
  1009: "message_too_big",
  4000: "going_away",
  4001: "slow_consumer",
  4002: "heartbeat_lost",
  4003: "not_ready",
  4500: "session_replaced",
  4501: "unauthenticated",
  4502: "protocol_error",
  4503: "tenant_suspended",
};

export function closeName(code: number): string {
  return CLOSE_NAMES[code] ?? "closed";
}

export function reconnects(code: number): boolean {
  return code < 4500 || code > 4999;
}
