import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const home = fileURLToPath(new URL("../../../", import.meta.url));

test("the committed code is what the generator makes of proto/", () => {
  const out = mkdtempSync(join(tmpdir(), "lapwing-gen-"));
  try {
    const args = ["generate", "../../proto", "--template", "buf.gen.yaml", "--path", "../../proto/lapwing/client.proto", "--output", out];
    execFileSync(process.execPath, ["node_modules/@bufbuild/buf/bin/buf", ...args], { cwd: home, stdio: "pipe" });
    const made = readFileSync(join(out, "src/gen/lapwing/client_pb.ts"), "utf8");
    assert.equal(readFileSync(join(home, "src/gen/lapwing/client_pb.ts"), "utf8"), made, "run `npm run generate`");
  } finally {
    rmSync(out, { recursive: true });
  }
});
