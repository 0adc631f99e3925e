import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const home = fileURLToPath(new URL("../../../", import.meta.url));
const site = join(home, "../demo/site");
const node = (...args: string[]): void => void execFileSync(process.execPath, args, { cwd: home, stdio: "pipe" });

test("the demo page's code passes the type check", () => {
  node("node_modules/typescript/bin/tsc", "-p", "../demo/tsconfig.json");
});

test("the committed page is what its sources make", () => {
  const out = mkdtempSync(join(tmpdir(), "lapwing-site-"));
  try {
    node("scripts/build-demo.mjs", "--out", out);
    assert.deepEqual(readdirSync(site).sort(), readdirSync(out).sort());
    for (const name of readdirSync(out)) {
      assert.ok(readFileSync(join(site, name)).equals(readFileSync(join(out, name))), `${name} is old: run \`npm run build:demo\``);
    }
  } finally {
    rmSync(out, { recursive: true });
  }
});

test("the page loads nothing from elsewhere and needs no inline script or style", () => {
  const html = readFileSync(join(site, "index.html"), "utf8");
  assert.deepEqual(html.match(/(?:src|href)="(?!\/demo\/)[^"]*"/g), null);
  assert.doesNotMatch(html, /<style|style="|<script>|\son\w+="/);
  assert.doesNotMatch(readFileSync(join(site, "app.css"), "utf8"), /url\(|@import/);
});
