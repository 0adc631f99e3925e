import type { Pending } from "./outbox.js";
import type { Content } from "./types.js";

interface StoredContent {
  text?: string;
  base64?: string;
  type?: string;
}

interface Stored extends Omit<Pending, "content" | "inFlight" | "lastError" | "held" | "told" | "firstMonoMs" | "giveUpAtMs"> {
  v: 1;
  content: StoredContent;
}

function store(content: Content): StoredContent {
  const type = content.type ? { type: content.type } : {};
  if ("text" in content) return { text: content.text, ...type };
  return { base64: btoa(Array.from(content.data, (byte) => String.fromCharCode(byte)).join("")), ...type };
}

function load(stored: StoredContent): Content {
  const type = stored.type ? { type: stored.type } : {};
  if (stored.base64 === undefined) return { text: stored.text ?? "", ...type };
  return { data: Uint8Array.from(atob(stored.base64), (char) => char.charCodeAt(0)), ...type };
}

export function toRecord(entry: Pending): string {
  const { clientMid, target, receipt, order, attempts, refused, firstWallMs, firstServerMs } = entry;
  const record: Stored = { v: 1, clientMid, target, receipt, order, attempts, refused, firstWallMs, content: store(entry.content) };
  if (firstServerMs !== undefined) record.firstServerMs = firstServerMs;
  return JSON.stringify(record);
}

/** Undefined for a record that this version cannot read; it is then left alone. */
export function fromRecord(text: string): Pending | undefined {
  try {
    const { v, content, ...rest } = JSON.parse(text) as Stored;
    if (v !== 1 || typeof rest.clientMid !== "string" || typeof rest.attempts !== "number") return undefined;
    return { ...rest, content: load(content), inFlight: false };
  } catch {
    return undefined;
  }
}
