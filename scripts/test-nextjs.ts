import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import assert from "node:assert/strict";
import type { RunsDocument } from "../src/report/documents/documents.ts";

/**
 * `npm run test:nextjs`: installs the package and Next.js, about 300 MB, into a folder for temporary files, builds the app of
 * `examples/nextjs` there, starts it, evaluates its server, and asks its dashboard.
 */
const root = resolve(import.meta.dirname, "..");
// Not in the checkout, whose lockfile would make Next.js take that for the app.
const folder = mkdtempSync(join(tmpdir(), "mcpvals-nextjs-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
const key = "a key of the test";

install();
const port = await freePort();
const address = `http://127.0.0.1:${port}`;
const env = { ...process.env, DASHBOARD_KEY: key, APP_URL: address, NEXT_TELEMETRY_DISABLED: "1" };
await runProgram("next", "build");
const app = spawn("node_modules/.bin/next", ["start", "--hostname", "127.0.0.1", "--port", String(port)], {
  cwd: folder,
  stdio: ["ignore", "inherit", "inherit"],
  env,
});
try {
  await answers(app);
  await runProgram("mcpvals", "run");
  await askDashboard();
  process.stdout.write("The example works in production.\n");
} finally {
  app.kill();
}

async function runProgram(name: string, ...args: readonly string[]): Promise<void> {
  const program = spawn(`node_modules/.bin/${name}`, args, { cwd: folder, stdio: "inherit", env });
  const [code] = (await once(program, "exit")) as [number | null];
  if (code !== 0) throw new Error(`${name} ${args.join(" ")} ended with ${code}`);
}

function install(): void {
  cpSync(join(root, "examples/nextjs"), folder, { recursive: true });
  const npm = (args: readonly string[], cwd: string): string =>
    execFileSync("npm", args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  const packed = npm(["pack", "--ignore-scripts", "--silent", "--pack-destination", folder], root).trim();
  npm(["install", "--no-audit", "--no-fund", "--ignore-scripts", `./${packed}`], folder);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

/** Waits until the app answers; rejects when its process ends first. */
async function answers(app: ChildProcess): Promise<void> {
  const isUp = async (): Promise<void> => {
    while (app.exitCode === null)
      try {
        await fetch(address);
        return;
      } catch {
        await new Promise((done) => setTimeout(done, 100));
      }
    throw new Error(`next start ended with ${app.exitCode}`);
  };
  await isUp();
}

async function askDashboard(): Promise<void> {
  const ask = (path: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
    fetch(`${address}/mcpvals${path}`, { headers });
  const authorization = `Bearer ${key}`;
  for (const path of ["", "/app.js", "/api/runs"]) assert.equal((await ask(path)).status, 403, path);
  assert.match(await (await ask("", { authorization })).text(), /src="\/mcpvals\/app\.js"/);
  const script = await (await ask("/app.js", { authorization })).text();
  assert.equal(script, readFileSync(join(root, "dist/dashboard/app.js"), "utf8"));
  const { runs } = (await (await ask("/api/runs", { authorization })).json()) as RunsDocument;
  assert.deepEqual(
    runs.map(({ name, verdict }) => ({ name, verdict })),
    [{ name: "units", verdict: "pass" }],
  );
  const live = await (await ask(`/api/runs/${runs[0]?.id}/live`, { authorization })).text();
  assert.match(live, /event: end/);
  const foreign = { authorization, "sec-fetch-site": "cross-site" };
  assert.equal((await ask("/api/runs", foreign)).status, 403);
}
