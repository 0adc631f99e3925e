import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { equals } from "@bufbuild/protobuf";

import { decodeClientFrame, decodeServerFrame, encodeClientFrame, encodeServerFrame } from "../../src/codec.js";
import { ClientFrameSchema, ServerFrameSchema } from "../../src/gen/lapwing/client_pb.js";

const folder = fileURLToPath(new URL("../../../../../proto/vectors/", import.meta.url));
const names = existsSync(folder) ? readdirSync(folder) : [];
const stems = [...new Set(names.flatMap((name) => /^((?:client|server)_frame-.*)\.(?:bin|json)$/.exec(name)?.[1] ?? []))].sort();

test("there are vectors of both directions", () => {
  assert.ok(stems.some((stem) => stem.startsWith("client_frame-")) && stems.some((stem) => stem.startsWith("server_frame-")), `none in ${folder}`);
});

for (const stem of stems) {
  test(`vector ${stem}: both encodings are the same message, and come out again`, () => {
    const binary = new Uint8Array(readFileSync(`${folder}${stem}.bin`));
    const json = readFileSync(`${folder}${stem}.json`, "utf8");
    if (stem.startsWith("client_frame-")) {
      const frame = decodeClientFrame(binary, "lapwing.v1.proto");
      assert.ok(equals(ClientFrameSchema, frame, decodeClientFrame(json, "lapwing.v1.json")));
      assert.ok(equals(ClientFrameSchema, frame, decodeClientFrame(encodeClientFrame(frame, "lapwing.v1.proto"), "lapwing.v1.proto")));
      assert.deepEqual(JSON.parse(encodeClientFrame(frame, "lapwing.v1.json") as string), JSON.parse(json));
    } else {
      const frame = decodeServerFrame(binary, "lapwing.v1.proto");
      assert.ok(equals(ServerFrameSchema, frame, decodeServerFrame(json, "lapwing.v1.json")));
      assert.ok(equals(ServerFrameSchema, frame, decodeServerFrame(encodeServerFrame(frame, "lapwing.v1.proto"), "lapwing.v1.proto")));
      assert.deepEqual(JSON.parse(encodeServerFrame(frame, "lapwing.v1.json") as string), JSON.parse(json));
    }
  });
}

test("fields of a later version are skipped in both encodings", () => {
  const later = new Uint8Array([8, 5, 0xca, 0x3e, 1, 65]);
  assert.equal(decodeServerFrame(later, "lapwing.v1.proto").id, 5n);
  assert.equal(decodeServerFrame('{"id":"5","laterField":{"a":1}}', "lapwing.v1.json").id, 5n);
});
