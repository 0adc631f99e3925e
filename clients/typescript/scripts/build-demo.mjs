// Bundles the demo page into clients/demo/site, which the gateway embeds. The result is committed, since the Rust build
// must work without Node; a test rebuilds it and compares. `--out DIR` writes elsewhere.
import { cp, mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { build } from "esbuild";

const clients = fileURLToPath(new URL("../../", import.meta.url));
const { values } = parseArgs({ options: { out: { type: "string", default: `${clients}demo/site` } } });

await mkdir(values.out, { recursive: true });
await build({
  absWorkingDir: clients,
  entryPoints: ["demo/src/main.ts"],
  outfile: `${values.out}/app.js`,
  bundle: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  minifySyntax: true,
  legalComments: "inline",
  logLevel: "warning",
});
for (const file of ["index.html", "app.css", "icon.svg"]) await cp(`${clients}demo/src/${file}`, `${values.out}/${file}`);
