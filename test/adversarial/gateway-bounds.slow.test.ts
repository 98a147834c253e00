import { readFileSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { presets, agentPresets, mcpClients } from "../../src/agents/programs/presets.ts";
import { writeClientFiles, writeMcpConfigFile } from "../../src/agents/write-client-files.ts";
import type { ChannelListener } from "../../src/servers/connections/host.ts";
import type { GatewayEndpoint } from "../../src/servers/gateway/endpoint.ts";
import { wireMessage } from "../../src/servers/messages/json-rpc.ts";
import { type Opened, openGateway, programHost } from "../gateway/support.ts";
import { load, problems } from "../formats/support/load.ts";
import { fixtureServer } from "../process/support.ts";
import { openTestEndpoint } from "../support/agent-context.ts";
import { folderOf } from "../support/cli.ts";
import { silentHost } from "./gateway-host.ts";

// docs/agents.md, "The gateway".

const mebibyte = 1024 * 1024;
const text = (length: number): string => `"${"x".repeat(length)}"`;
const note = (a: string): string => `{"jsonrpc":"2.0","method":"notifications/x","params":{"a":${a}}}`;
const request = (id: number, a: string): string =>
  `{"jsonrpc":"2.0","id":${id},"method":"x","params":{"a":${a}}}`;

function post({ url }: GatewayEndpoint, body: string, signal?: AbortSignal): Promise<Response> {
  return fetch(url, { method: "POST", body, ...(signal === undefined ? {} : { signal }) });
}

/** Opens a server that never answers; `got` is what it was sent, `listeners` are its clients. */
async function open(): Promise<Opened & { readonly got: string[]; readonly listeners: ChannelListener[] }> {
  const got: string[] = [];
  const listeners: ChannelListener[] = [];
  const opened = await openGateway(silentHost((message) => got.push(message), listeners));
  return { ...opened, got, listeners };
}

describe("the gateway's memory is bounded: an agent", () => {
  it("may send 10 MiB in a message, and no more", async () => {
    const { endpoint, got } = await open();
    const statuses = [];
    for (const length of [10 * mebibyte - 100, 10 * mebibyte])
      statuses.push((await post(endpoint, note(text(length)))).status);
    expect([statuses, got.length]).toEqual([[202, 413], 1]);
  });

  it("may have 64 MiB in requests that are not answered", async () => {
    const { endpoint, got } = await open();
    const leaving = new AbortController();
    const large = text(9 * mebibyte);
    const asked = Array.from({ length: 7 }, (_none, id) =>
      post(endpoint, request(id, large), leaving.signal).catch(() => undefined),
    );
    await expect.poll(() => got.length, { timeout: 100_000 }).toBe(7);
    const refused = await post(endpoint, note(large));
    const why = expect.stringContaining("more than 67108864 bytes in all open requests");
    expect([refused.status, await refused.text()]).toEqual([413, why]);
    leaving.abort();
    await Promise.all(asked);
    const again = async (): Promise<number> => (await post(endpoint, note(large))).status;
    await expect.poll(again, { timeout: 100_000 }).toBe(202);
  });

  it.each([
    ["deep", "[".repeat(mebibyte) + "]".repeat(mebibyte)],
    ["heavy", `[${"{},".repeat(3 * mebibyte)}0]`],
  ])("is refused a message that is too %s to be parsed", async (excess, value) => {
    const { endpoint, got } = await open();
    const response = await post(endpoint, note(value));
    const why = expect.stringContaining(`the message is too ${excess} to be read`);
    expect([response.status, await response.text(), got]).toEqual([413, why, []]);
  });

  it("and a server is lost when it sends more than 32 MiB that no client receives", async () => {
    const { endpoint, losses, listeners } = await open();
    // A client without a stream, and without a request that waits.
    expect((await post(endpoint, note("1"))).status).toBe(202);
    const params = { level: "info", data: "x".repeat(mebibyte) };
    const said = wireMessage({ jsonrpc: "2.0", method: "notifications/message", params });
    const say = (count: number): void => {
      for (let index = 0; index < count; index += 1) for (const each of listeners) each.onMessage(said);
    };
    say(31);
    expect(losses).toEqual([]);
    say(40);
    const message = 'server "s" sent more than 32 MiB that no client received';
    expect(losses).toMatchObject([{ code: "server/protocol-error", message }]);
  });
});

const config = (agent: object): Record<string, unknown> => ({
  "mcp-eval.config.json": {
    servers: { db: { transport: "stdio", command: "node" } },
    agents: { mine: { type: "command", command: "my-agent", stdin: true, ...agent } },
    agent: "mine",
    workflows: [{ name: "w", steps: [{ user: "hi", expectedState: "done" }] }],
  },
});

const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8);

describe("no other user of the machine learns the secret address of a server", () => {
  it.each([
    ["command", { command: "run-{servers.db.url}" }],
    ["args[1]", { args: ["-u", "{servers.db.url}"] }],
    ["nextArgs[0]", { nextArgs: ["--url={servers.db.url}"] }],
  ])("which is refused in %s, which everybody can read while the program runs", async (place, agent) => {
    using folder = folderOf(config(agent));
    const message = `{servers.db.url} in agents.mine.${place} would show a secret address to every user`;
    expect(await problems(folder.path)).toEqual([expect.stringContaining(`config/public-secret ${message}`)]);
  });

  it("which may be in a variable, and is in no argument of a preset or a bridge", async () => {
    using folder = folderOf(config({ env: { URL: "{servers.db.url}" } }));
    expect((await load(folder.path)).notes).toEqual([]);
    for (const preset of agentPresets) expect(JSON.stringify(presets[preset])).not.toContain("{servers.");
    const { endpoint } = await openGateway(await programHost([fixtureServer]));
    const { url, bridge } = endpoint;
    const [, secret = ""] = new URL(url).pathname.split("/");
    expect(secret).toHaveLength(32);
    expect([bridge.command, ...bridge.args].join(" ")).not.toContain(secret);
    expect(Object.values(bridge.env).join(" ")).toContain(secret);
  });

  it.runIf(process.platform !== "win32")("so the file of {mcpConfig} is for this user alone", async () => {
    const endpoint = await openTestEndpoint("db");
    const file = await writeMcpConfigFile([endpoint]);
    onTestFinished(() => file.remove());
    expect(readFileSync(file.path, "utf8")).toContain(endpoint.url);
    expect([modeOf(file.path), modeOf(dirname(file.path))]).toEqual(["600", "700"]);
  });

  it.runIf(process.platform !== "win32").each(mcpClients)("and so is the file for %s", async (client) => {
    using folder = folderOf({});
    const endpoint = await openTestEndpoint("db");
    const paths: string[] = [];
    const files = await writeClientFiles(folder.path, [client], [endpoint], {
      emit: (event) => (event.type === "client_config.written" ? paths.push(event.path) : 1),
      signal: new AbortController().signal,
    });
    const written = paths.map((path) => [readFileSync(path, "utf8").includes(endpoint.url), modeOf(path)]);
    expect(written).toEqual([[true, "600"]]);
    await files.restore();
  });
});
