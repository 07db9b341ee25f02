// Bundles src/ into the two assets that the Python package embeds. `--check` compares instead of writing.
//
// The script begins with a fingerprint of everything that it was made from, so that a test without node can tell
// whether the committed assets belong to the committed sources.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const assets = join(here, "..", "src", "hardwood", "draw", "_explorer");

/** The SHA-256 of names and contents of the sources, in the order of their names. */
function fingerprint() {
  const names = readdirSync(join(here, "src")).map((name) => `src/${name}`);
  const digest = createHash("sha256");
  for (const name of [...names, "build.mjs", "package-lock.json", "tsconfig.json"].sort()) {
    digest.update(`${name}\0`);
    digest.update(readFileSync(join(here, name)));
    digest.update("\0");
  }
  return digest.digest("hex");
}

async function bundle(entry, banner) {
  const result = await build({
    entryPoints: [join(here, "src", entry)],
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2022",
    charset: "ascii",
    legalComments: "none",
    write: false,
  });
  return banner + result.outputFiles[0].text;
}

const made = {
  "app.js": await bundle("main.ts", `/* hardwood explorer, made from web/: sources ${fingerprint()} */\n`),
  "app.css": await bundle("style.css", "/* hardwood explorer, made from web/ */\n"),
};
for (const [name, text] of Object.entries(made)) {
  // The page embeds both inside HTML elements, where these would end the element.
  if (/<\/(script|style)|<!--/i.test(text)) throw new Error(`${name} cannot be embedded: it holds an HTML tag`);
  const path = join(assets, name);
  if (!process.argv.includes("--check")) {
    writeFileSync(path, text);
    console.log(`${name}: ${text.length.toLocaleString("en")} bytes`);
  } else if (readFileSync(path, "utf8") !== text) {
    console.error(`${name} is not what its sources make; run: npm ci && npm run build`);
    process.exitCode = 1;
  }
}
