import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { conformingServer } from "../support/programs.ts";
import { root } from "../support/cli.ts";
import { addressHost, listenProgram, openGateway, programHost } from "./support.ts";

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

/** Without the scenarios in which the gateway differs: it refuses foreign hosts, and resumes no streams of programs. */
function comparable(report: Readonly<Record<string, readonly string[]>>, ...others: string[]): unknown {
  const left = ["dns-rebinding-protection", ...others];
  return Object.fromEntries(Object.entries(report).filter(([scenario]) => !left.includes(scenario)));
}

it("the official conformance suite sees no difference through the gateway, to an address and to a program", async () => {
  const url = await listenProgram(conformingServer);
  const address = await openGateway(await addressHost(url));
  const program = await openGateway(await programHost([conformingServer]));
  const [direct, proxied, ours] = await Promise.all(
    [url, address.endpoint.url, program.endpoint.url].map(conformance),
  );
  expect(Object.keys(direct ?? {}).length).toBeGreaterThanOrEqual(30);
  expect(comparable(proxied ?? {})).toEqual(comparable(direct ?? {}));
  const polling = "server-sse-polling";
  expect(comparable(ours ?? {}, polling)).toEqual(comparable(direct ?? {}, polling));
  for (const report of [proxied, ours])
    expect(report?.["dns-rebinding-protection"]?.join()).not.toContain("FAILURE");
});
