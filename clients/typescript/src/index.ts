export { LapwingClient, type ClientEvents, type ClientOptions } from "./client.js";
export type { SocketConstructor, SocketLike } from "./connection.js";
export { SdkError, closeName, reconnects, type OutcomeClass, type Step } from "./errors.js";
export { MemoryStore, WebStore, type Store } from "./store.js";
export { randomId as newClientMid } from "./util.js";
export type * from "./types.js";
