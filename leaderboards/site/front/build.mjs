// Bundles src/ into ../static/site.js, one classic script. Equal sources and lock file give equal bytes.
import { readFile, writeFile } from "node:fs/promises";
import { build } from "esbuild";

const out = process.argv[2] ?? "../static";
const { metafile } = await build({
  entryPoints: ["src/main.tsx"],
  outfile: `${out}/site.js`,
  bundle: true,
  format: "iife",
  target: ["chrome109", "firefox115", "safari16.4"],
  minify: true,
  charset: "utf8",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  metafile: true,
});

// The licences of what is in the bundle go with it.
const names = Object.keys(metafile.inputs)
  .map((path) => path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1])
  .filter(Boolean);
const texts = [];
for (const name of [...new Set(names)].sort()) {
  const folder = `node_modules/${name}`;
  const { version, license } = JSON.parse(await readFile(`${folder}/package.json`, "utf8"));
  let text = "";
  for (const file of ["LICENSE", "LICENSE.md", "LICENSE.txt", "license"]) {
    text ||= await readFile(`${folder}/${file}`, "utf8").catch(() => "");
  }
  texts.push(`${name} ${version} (${license})\n\n${text.trim()}\n`);
}
await writeFile(`${out}/licences.txt`, texts.join(`\n${"-".repeat(72)}\n\n`));
