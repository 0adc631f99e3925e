/** Waits that can be cut short, all at once. */
export class Sleeper {
  private readonly waiting = new Set<() => void>();
  private closed = false;

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.closed) return resolve();
      const done = (): void => {
        clearTimeout(timer);
        this.waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.waiting.add(done);
    });
  }

  wake(): void {
    for (const done of [...this.waiting]) done();
  }

  /** From now on nothing waits, until `open`. */
  close(): void {
    this.closed = true;
    this.wake();
  }

  open(): void {
    this.closed = false;
  }
}

/** 128 random bits as 32 hex digits. `crypto.randomUUID` is missing on pages without TLS. */
export function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The `exp` of a JWT in ms, read without checking the signature; undefined if there is none. */
export function tokenExpiryMs(token: string): number | undefined {
  try {
    const payload = token.split(".")[1] ?? "";
    const claims = JSON.parse(atob(payload.replace(/-/g, "+").replace(/_/g, "/"))) as { exp?: unknown };
    return typeof claims.exp === "number" ? claims.exp * 1_000 : undefined;
  } catch {
    return undefined;
  }
}
