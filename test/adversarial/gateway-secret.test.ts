import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { agentPresets, mcpClients } from "../../src/core/formats/model.ts";
import { presets } from "../../src/core/formats/presets/presets.ts";
import { writeClientFiles, writeMcpConfigFile } from "../../src/servers/client-files/write-client-files.ts";
import { load, problems } from "../load/support/load.ts";
import { openGateway, programHost } from "../gateway/support.ts";
import { fixtureServer } from "../process/support.ts";
import { openTestEndpoint } from "../support/agent-programs.ts";
import { folderOf } from "../support/cli.ts";

// Claim: no other user of the machine learns the address of the gateway, with which tools can be called. docs/agents.md, "The
// gateway"; docs/security.md.

const config = (agent: object): object => ({
  servers: { db: { transport: "stdio", command: "node" } },
  agents: { mine: { type: "command", command: "my-agent", stdin: true, ...agent } },
  agent: "mine",
  workflows: [{ name: "w", steps: [{ user: "hi", expectedState: "done" }] }],
});

describe("the address of a server", () => {
  it.each([
    ["command", { command: "run-{servers.db.url}" }],
    ["args[1]", { args: ["-u", "{servers.db.url}"] }],
    ["nextArgs[0]", { nextArgs: ["--url={servers.db.url}"] }],
  ])("is refused in %s, which everybody can read while the program runs", async (place, agent) => {
    using folder = folderOf({ "mcp-eval.config.json": config(agent) });
    expect(await problems(folder.path)).toEqual([
      expect.stringContaining(
        `config/public-secret {servers.db.url} in agents.mine.${place} would show a secret address to every user`,
      ),
    ]);
  });

  it("may stand in a variable", async () => {
    using folder = folderOf({
      "mcp-eval.config.json": config({ env: { URL: "{servers.db.url}" } }),
    });
    expect((await load(folder.path)).notes).toEqual([]);
  });

  it.each(agentPresets)("is in no argument of the preset %s", (preset) => {
    expect(JSON.stringify(presets[preset])).not.toContain("{servers.");
  });

  it("is in no argument of a bridge", async () => {
    const { endpoint } = await openGateway(await programHost([fixtureServer]));
    const { url, bridge } = endpoint;
    const [, secret = ""] = new URL(url).pathname.split("/");
    expect(secret).toHaveLength(32);
    expect([bridge.command, ...bridge.args].join(" ")).not.toContain(secret);
    expect(Object.values(bridge.env).join(" ")).toContain(secret);
  });
});

describe.runIf(process.platform !== "win32")("a file with the address", () => {
  it("for {mcpConfig} is for this user alone, in a folder for this user alone", async () => {
    const endpoint = await openTestEndpoint("db");
    const file = await writeMcpConfigFile([endpoint]);
    onTestFinished(() => file.remove());
    expect(readFileSync(file.path, "utf8")).toContain(endpoint.url);
    expect(modeOf(file.path)).toBe("600");
    expect(modeOf(dirname(file.path))).toBe("700");
  });

  it.each(mcpClients)("for %s is for this user alone", async (client) => {
    const folder = mkdtempSync(join(tmpdir(), "mcpvals-test-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const endpoint = await openTestEndpoint("db");
    const paths: string[] = [];
    const files = await writeClientFiles(folder, [client], [endpoint], {
      emit: (event) => (event.type === "client_config.written" ? paths.push(event.path) : 1),
      signal: new AbortController().signal,
    });
    expect(paths).toHaveLength(1);
    for (const path of paths) {
      expect(readFileSync(path, "utf8")).toContain(endpoint.url);
      expect(modeOf(path)).toBe("600");
    }
    await files.restore();
  });
});

function modeOf(path: string): string {
  return (statSync(path).mode & 0o777).toString(8);
}
