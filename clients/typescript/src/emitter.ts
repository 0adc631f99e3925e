/** A typed emitter. A listener that throws does not stop the others; its error is reported like an uncaught one. */
export class Emitter<Map extends object> {
  private readonly listeners = new globalThis.Map<keyof Map, Set<(value: never) => void>>();

  on<K extends keyof Map>(name: K, listener: (value: Map[K]) => void): () => void {
    const set = this.listeners.get(name) ?? new Set();
    set.add(listener as (value: never) => void);
    this.listeners.set(name, set);
    return () => set.delete(listener as (value: never) => void);
  }

  emit<K extends keyof Map>(name: K, value: Map[K]): void {
    for (const listener of [...(this.listeners.get(name) ?? [])]) {
      try {
        (listener as (value: Map[K]) => void)(value);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
