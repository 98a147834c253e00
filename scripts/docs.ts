import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

/**
 * `npm run docs`: makes the site of the documentation in `node_modules/.cache/docs/site`, with VitePress, which it installs beside it
 * when it is first run (about 100 MB). `npm run docs -- dev` shows it in the browser while pages change.
 */
const version = "1.6.4";
const root = resolve(import.meta.dirname, "..");
const folder = join(root, "node_modules/.cache/docs");
const vitepress = join(folder, "node_modules/vitepress/bin/vitepress.js");

if (!existsSync(vitepress)) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true }));
  const packages = [`vitepress@${version}`];
  const flags = ["--no-audit", "--no-fund", "--ignore-scripts"];
  execFileSync("npm", ["install", ...flags, ...packages], { cwd: folder, stdio: "inherit" });
}
const [command = "build"] = process.argv.slice(2);
const out = command === "build" ? ["--outDir", join(folder, "site")] : [];
execFileSync(process.execPath, [vitepress, command, "docs", ...out], { cwd: root, stdio: "inherit" });
