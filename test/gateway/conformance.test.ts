import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { conformingServer } from "../fixtures/servers/conforming-server.ts";
import { root } from "../support/cli.ts";
import { addressHost, openGateway, programHost } from "./support.ts";
import { listenEverything } from "./listen.ts";

const suite = join(root, "node_modules/@modelcontextprotocol/conformance/dist/index.js");

/** Each check of each scenario, and how it ended, as the official suite sees a server. */
async function conformance(url: string): Promise<Readonly<Record<string, readonly string[]>>> {
  const folder = mkdtempSync(join(tmpdir(), "mcpvals-conformance-"));
  try {
    const args = [suite, "server", "--url", url, "--suite", "all", "--output-dir", folder];
    const child = spawn(process.execPath, args, { cwd: folder, stdio: "ignore" });
    await once(child, "close");
    return Object.fromEntries(
      readdirSync(folder)
        .toSorted()
        .map((name) => {
          const checks = JSON.parse(readFileSync(join(folder, name, "checks.json"), "utf8")) as {
            id: string;
            status: string;
          }[];
          // The folder's name ends with the time.
          const scenario = name.replace(/^server-/, "").replace(/-\d{4}-\d\d-\d\dT.*$/, "");
          return [scenario, checks.map(({ id, status }) => `${id} ${status}`)] as const;
        }),
    );
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Without what we do better than the server: it may let strangers in, and we do not. */
function comparable(report: Readonly<Record<string, readonly string[]>>): unknown {
  const { "dns-rebinding-protection": _ours, ...rest } = report;
  return rest;
}

/** Without streams that are taken up again, which we do not have. */
function withoutResumption(report: Readonly<Record<string, readonly string[]>>): unknown {
  const { "server-sse-polling": _polling, ...rest } = report;
  return comparable(rest);
}

describe("the official conformance suite sees no difference through the gateway", () => {
  it("to a server with an address and to a program, of everything that it knows", async () => {
    const child = spawn(process.execPath, [conformingServer, "http"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    onTestFinished(() => void child.kill());
    const [port] = (await once(child.stdout, "data")) as [Buffer];
    const url = `http://127.0.0.1:${port.toString().trim()}/mcp`;
    const address = await openGateway(await addressHost(url));
    const program = await openGateway(await programHost([conformingServer]));
    const [direct, proxied, ours] = await Promise.all([
      conformance(url),
      conformance(address.endpoint.url),
      conformance(program.endpoint.url),
    ]);
    expect(Object.keys(direct).length).toBeGreaterThanOrEqual(30);
    expect(comparable(proxied)).toEqual(comparable(direct));
    expect(proxied["dns-rebinding-protection"]?.join()).not.toContain("FAILURE");
    expect(withoutResumption(ours)).toEqual(withoutResumption(direct));
    expect(ours["dns-rebinding-protection"]?.join()).not.toContain("FAILURE");
  }, 90_000);

  it("to the reference server", async () => {
    const url = `${await listenEverything("streamableHttp")}/mcp`;
    const { endpoint } = await openGateway(await addressHost(url));
    const [direct, through] = await Promise.all([conformance(url), conformance(endpoint.url)]);
    expect(Object.keys(direct).length).toBeGreaterThanOrEqual(30);
    expect(comparable(through)).toEqual(comparable(direct));
  }, 90_000);
});
