import { SdkError } from "./errors.js";
import type { Store } from "./store.js";

export interface EndpointOptions {
  /** WebSocket addresses (`ws:`, `wss:`, or `http:`, `https:` whose `/v1/ws` is meant). */
  url?: string | string[];
  /** Address of `GET /v1/nodes`; its list goes before `url`. */
  nodesUrl?: string;
}

const TRIES = 3;
const TRY_TIMEOUT_MS = 5_000;
const RETRY_MS = 30_000;
const SNAPSHOT_KEY = "nodes";

export function webSocketUrl(address: string): string {
  const url = new URL(address);
  url.protocol = url.protocol.replace(/^http/, "ws");
  if (url.pathname === "/") url.pathname = "/v1/ws";
  return url.toString();
}

export type Sleep = (ms: number) => Promise<void>;

/** The addresses to dial, in turn: those of `/v1/nodes`, else its last snapshot, else the static ones (R-GW-7). */
export class Endpoints {
  private addresses: string[] | undefined;
  private turn = 0;

  constructor(
    private readonly options: EndpointOptions,
    private readonly store: Store,
    private readonly prefix: string,
    private readonly sleep: Sleep,
    private readonly fetcher: typeof fetch = (...args) => fetch(...args),
  ) {}

  /** The next address; after a failure, `failed` turns to the one behind it. */
  async pick(token: () => Promise<string>): Promise<string> {
    this.addresses ??= await this.load(token);
    const address = this.addresses[this.turn % this.addresses.length];
    if (!address) throw new SdkError({ step: "nodes", address: this.options.nodesUrl ?? "", message: "no address to connect to" });
    return webSocketUrl(address);
  }

  failed(): void {
    this.turn += 1;
    // One round through the list without success: ask for the list again.
    if (this.addresses && this.turn >= this.addresses.length && this.options.nodesUrl) {
      this.addresses = undefined;
      this.turn = 0;
    }
  }

  private fixed(): string[] {
    const { url } = this.options;
    return url === undefined ? [] : Array.isArray(url) ? url : [url];
  }

  private async load(token: () => Promise<string>): Promise<string[]> {
    const { nodesUrl } = this.options;
    if (!nodesUrl) return this.fixed();
    const tries = this.fixed().length > 0 ? 1 : TRIES;
    for (let i = 0; ; i += 1) {
      try {
        const nodes = await this.ask(nodesUrl, await token());
        await this.store.set(this.prefix + SNAPSHOT_KEY, JSON.stringify(nodes));
        return [...nodes, ...this.fixed()];
      } catch (error) {
        const known = await this.snapshot();
        if (known.length > 0) return known;
        if (i + 1 >= tries) throw error;
      }
      await this.sleep(RETRY_MS);
    }
  }

  private async snapshot(): Promise<string[]> {
    const text = await this.store.get(this.prefix + SNAPSHOT_KEY);
    return [...(text ? (JSON.parse(text) as string[]) : []), ...this.fixed()];
  }

  private async ask(nodesUrl: string, token: string): Promise<string[]> {
    const fail = (message: string, code = 0, traceId = "", cause?: unknown): SdkError =>
      new SdkError({ step: "nodes", address: nodesUrl, code, message, traceId, temporary: true, cause });
    let response: Response;
    try {
      response = await this.fetcher(nodesUrl, { headers: { authorization: `Bearer ${token}` }, signal: AbortSignal.timeout(TRY_TIMEOUT_MS) });
    } catch (cause) {
      throw fail("no answer", 0, "", cause);
    }
    const body = (await response.json().catch(() => undefined)) as unknown;
    if (!response.ok) {
      const error = (body as { error?: { message?: string; trace_id?: string } } | undefined)?.error;
      throw fail(error?.message ?? response.statusText, response.status, error?.trace_id);
    }
    const list = Array.isArray(body) ? body : (body as { nodes?: unknown[] } | undefined)?.nodes;
    const urls = (list ?? []).map((node) => (node as { url?: unknown }).url).filter((url) => typeof url === "string");
    if (urls.length === 0) throw fail("the list of nodes is empty or not readable", response.status);
    return urls;
  }
}
