/** Where the SDK writes down what must outlive the process: unsettled messages and the last list of nodes. */
export interface Store {
  get(key: string): Promise<string | undefined>;
  set(key: string, value: string): Promise<void>;
  delete(key: string): Promise<void>;
  keys(prefix: string): Promise<string[]>;
}

/** Forgets everything with the process. */
export class MemoryStore implements Store {
  private readonly values = new Map<string, string>();

  async get(key: string): Promise<string | undefined> {
    return this.values.get(key);
  }

  async set(key: string, value: string): Promise<void> {
    this.values.set(key, value);
  }

  async delete(key: string): Promise<void> {
    this.values.delete(key);
  }

  async keys(prefix: string): Promise<string[]> {
    return [...this.values.keys()].filter((key) => key.startsWith(prefix));
  }
}

/** `localStorage` or `sessionStorage` of a browser. */
export class WebStore implements Store {
  constructor(private readonly storage: Storage = globalThis.localStorage) {}

  async get(key: string): Promise<string | undefined> {
    return this.storage.getItem(key) ?? undefined;
  }

  async set(key: string, value: string): Promise<void> {
    this.storage.setItem(key, value);
  }

  async delete(key: string): Promise<void> {
    this.storage.removeItem(key);
  }

  async keys(prefix: string): Promise<string[]> {
    const found: string[] = [];
    for (let i = 0; i < this.storage.length; i += 1) {
      const key = this.storage.key(i);
      if (key?.startsWith(prefix)) found.push(key);
    }
    return found;
  }
}
