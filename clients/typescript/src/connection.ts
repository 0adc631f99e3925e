import { decodeServerFrame, encodeClientFrame, type ClientFrameInit, type Wire } from "./codec.js";
import { errorOf } from "./convert.js";
import { SdkError, closeName, type Step } from "./errors.js";
import type { ServerFrame } from "./gen/lapwing/client_pb.js";
import type { Subprotocol } from "./types.js";

/** What the SDK needs of a WebSocket: the browser's, or that of the `ws` package. */
export interface SocketLike {
  binaryType: string;
  readonly protocol: string;
  readonly readyState: number;
  send(data: string | Uint8Array): void;
  close(code?: number, reason?: string): void;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
}

export type SocketConstructor = new (url: string, protocols?: string | string[]) => SocketLike;

export type ServerBody = ServerFrame["body"];
type ClientBody = NonNullable<ClientFrameInit["body"]>;

export interface ConnectionOptions {
  address: string;
  subprotocol: Subprotocol;
  socket: SocketConstructor;
  dialTimeoutMs: number;
  /** Gives the dial up. */
  signal: AbortSignal;
  /** Fills `traceparent` of each request, if the application traces. */
  traceparent?: () => string;
}

interface Waiting {
  step: Step;
  resolve: (body: ServerBody) => void;
  reject: (error: SdkError) => void;
  timer: ReturnType<typeof setTimeout>;
}

const OPEN = 1;

/** One WebSocket with its requests in flight. It ends once, by `closed`; after that nothing is heard from it. */
export class Connection {
  /** Resolves with the reason: `code` is the close code. */
  readonly closed: Promise<SdkError>;
  private end!: (error: SdkError) => void;
  private ended = false;
  private nextId = 1n;
  private readonly waiting = new Map<bigint, Waiting>();
  private pushes: ServerBody[] = [];
  private push: ((body: ServerBody) => void) | undefined;
  private lastError: SdkError | undefined;
  private heartbeat: ReturnType<typeof setInterval> | undefined;
  private silentPeriods = 0;

  private constructor(
    private readonly socket: SocketLike,
    private readonly options: ConnectionOptions,
  ) {
    this.closed = new Promise((resolve) => {
      this.end = resolve;
    });
    socket.onmessage = (event: { data: unknown }) => this.receive(event.data);
    socket.onclose = (event: { code: number; reason: string }) => this.finish(event.code, event.reason);
    socket.onerror = () => {};
  }

  static open(options: ConnectionOptions): Promise<Connection> {
    const { address, subprotocol } = options;
    return new Promise((resolve, reject) => {
      const socket = new options.socket(address, [subprotocol]);
      socket.binaryType = "arraybuffer";
      let message = "";
      const timer = setTimeout(() => settle("dial", `no answer within ${options.dialTimeoutMs} ms`), options.dialTimeoutMs);
      const detach = (): void => {
        clearTimeout(timer);
        options.signal.removeEventListener("abort", aborted);
        socket.onopen = socket.onclose = null;
        socket.onerror = () => {};
      };
      const settle = (step: Step, text: string, code = 0): void => {
        detach();
        reject(new SdkError({ step, address, code, message: text, temporary: true }));
        socket.close();
      };
      const aborted = (): void => settle("dial", "given up by the application");
      options.signal.addEventListener("abort", aborted);
      socket.onopen = () => {
        if (socket.protocol !== subprotocol) return settle("upgrade", `the server chose subprotocol "${socket.protocol}"`);
        detach();
        resolve(new Connection(socket, options));
      };
      // Node's `ws` tells the reason; a browser does not, so the address is asked once more over HTTP.
      socket.onerror = (event: { message?: string }) => {
        message = event.message ?? "";
      };
      socket.onclose = () => {
        const status = /Unexpected server response: (\d+)/.exec(message);
        if (status) settle("upgrade", message, Number(status[1]));
        else if (/subprotocol/i.test(message)) settle("upgrade", message);
        else if (message) settle("dial", message);
        else void reachable(address).then((yes) => settle(yes ? "upgrade" : "dial", yes ? "the server refused the WebSocket" : "not reachable, or the WebSocket was refused"));
      };
    });
  }

  get address(): string {
    return this.options.address;
  }

  get alive(): boolean {
    return !this.ended;
  }

  /** Hands over the pushes, those that came already first. */
  start(push: (body: ServerBody) => void, heartbeatMs: number): void {
    this.push = push;
    const early = this.pushes;
    this.pushes = [];
    early.forEach(push);
    if (this.ended) return;
    this.heartbeat = setInterval(() => this.beat(), heartbeatMs);
  }

  /** Sends and waits for the answer. Fails with the server's error, or with one that is not `answered`. */
  request(body: ClientBody, step: Step, timeoutMs: number): Promise<ServerBody> {
    return new Promise((resolve, reject) => {
      const id = this.nextId;
      const timer = setTimeout(() => {
        this.waiting.delete(id);
        reject(this.failure(step, 0, "no_answer", `no answer within ${timeoutMs} ms`));
      }, timeoutMs);
      this.waiting.set(id, { step, resolve, reject, timer });
      if (this.post(body)) return;
      clearTimeout(timer);
      this.waiting.delete(id);
      reject(this.failure(step, 0, "not_sent", "the connection is closed"));
    });
  }

  /** Sends without waiting; false if the connection is gone. */
  post(body: ClientBody): boolean {
    if (this.ended || this.socket.readyState !== OPEN) return false;
    const id = this.nextId;
    this.nextId += 1n;
    const traceparent = this.options.traceparent?.() ?? "";
    this.socket.send(encodeClientFrame({ id, traceparent, body }, this.options.subprotocol));
    return true;
  }

  /** Ends it from this side, at once: a dead network would hold the closing handshake for minutes. */
  close(code: number, reason: string): void {
    if (this.ended) return;
    this.socket.close(code, reason);
    this.finish(code, reason);
  }

  private receive(data: unknown): void {
    if (this.ended) return;
    this.silentPeriods = 0;
    let frame: ServerFrame;
    try {
      const wire: Wire = typeof data === "string" ? data : new Uint8Array(data as ArrayBuffer);
      frame = decodeServerFrame(wire, this.options.subprotocol);
    } catch (cause) {
      this.lastError = new SdkError({ step: "connection", address: this.address, message: "a frame that cannot be read", cause });
      this.close(4002, "unreadable frame");
      return;
    }
    const waiting = frame.id === 0n ? undefined : this.waiting.get(frame.id);
    if (waiting) {
      this.waiting.delete(frame.id);
      clearTimeout(waiting.timer);
      if (frame.body.case === "error") waiting.reject(errorOf(frame.body.value, waiting.step, this.address));
      else waiting.resolve(frame.body);
    } else if (frame.body.case === "error") {
      this.lastError = errorOf(frame.body.value, "connection", this.address);
      this.deliver(frame.body);
    } else if (frame.id === 0n) {
      this.deliver(frame.body);
    }
  }

  private deliver(body: ServerBody): void {
    if (this.push) this.push(body);
    else this.pushes.push(body);
  }

  private beat(): void {
    // Two pings without a single frame in return: the peer is gone, whatever TCP believes (R-GW-1).
    if (this.silentPeriods >= 2) return this.close(4002, "heartbeat lost");
    this.silentPeriods += 1;
    this.post({ case: "ping", value: {} });
  }

  private finish(code: number, reason: string): void {
    if (this.ended) return;
    this.ended = true;
    clearInterval(this.heartbeat);
    this.socket.onmessage = this.socket.onclose = null;
    for (const { step, reject, timer } of this.waiting.values()) {
      clearTimeout(timer);
      reject(this.failure(step, code, "no_answer", `the connection closed (${code} ${closeName(code)}) before the answer`));
    }
    this.waiting.clear();
    const detail = this.lastError ? `: ${this.lastError.message}` : "";
    const error = this.failure("connection", code, closeName(code), `closed ${code} ${reason || closeName(code)}${detail}`);
    this.end(error);
  }

  private failure(step: Step, code: number, name: string, message: string): SdkError {
    const traceId = this.lastError?.traceId ?? "";
    return new SdkError({ step, address: this.address, code, name, message, temporary: true, traceId });
  }
}

/** Asks over HTTP. A page may ask only where it came from; elsewhere the two cases cannot be told apart. */
async function reachable(address: string): Promise<boolean> {
  const url = new URL("/", address);
  url.protocol = url.protocol.replace(/^ws/, "http");
  if (typeof location !== "undefined" && location.origin !== url.origin) return false;
  try {
    await fetch(url, { method: "HEAD", signal: AbortSignal.timeout(2_000) });
    return true;
  } catch {
    return false;
  }
}
