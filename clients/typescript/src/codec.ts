import { create, fromBinary, fromJsonString, toBinary, toJsonString, type MessageInitShape } from "@bufbuild/protobuf";

import { ClientFrameSchema, ServerFrameSchema, type ClientFrame, type ServerFrame } from "./gen/lapwing/client_pb.js";
import type { Subprotocol } from "./types.js";

export type ClientFrameInit = MessageInitShape<typeof ClientFrameSchema>;
export type ServerFrameInit = MessageInitShape<typeof ServerFrameSchema>;
export type Wire = string | Uint8Array;

type FrameSchema = typeof ClientFrameSchema | typeof ServerFrameSchema;

function encode<S extends FrameSchema>(schema: S, init: MessageInitShape<S>, subprotocol: Subprotocol): Wire {
  const frame = create(schema, init);
  return subprotocol === "lapwing.v1.json" ? toJsonString(schema, frame) : toBinary(schema, frame);
}

function text(wire: Wire): string {
  return typeof wire === "string" ? wire : new TextDecoder("utf-8", { fatal: true }).decode(wire);
}

export function encodeClientFrame(init: ClientFrameInit, subprotocol: Subprotocol): Wire {
  return encode(ClientFrameSchema, init, subprotocol);
}

export function encodeServerFrame(init: ServerFrameInit, subprotocol: Subprotocol): Wire {
  return encode(ServerFrameSchema, init, subprotocol);
}

/** Fields and names of a later version are skipped in both encodings. */
export function decodeClientFrame(wire: Wire, subprotocol: Subprotocol): ClientFrame {
  if (subprotocol === "lapwing.v1.json") return fromJsonString(ClientFrameSchema, text(wire), { ignoreUnknownFields: true });
  if (typeof wire === "string") throw new Error("a text frame where the subprotocol is binary");
  return fromBinary(ClientFrameSchema, wire);
}

export function decodeServerFrame(wire: Wire, subprotocol: Subprotocol): ServerFrame {
  if (subprotocol === "lapwing.v1.json") return fromJsonString(ServerFrameSchema, text(wire), { ignoreUnknownFields: true });
  if (typeof wire === "string") throw new Error("a text frame where the subprotocol is binary");
  return fromBinary(ServerFrameSchema, wire);
}
