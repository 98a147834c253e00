import { fileURLToPath } from "node:url";
import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { StdioServerSpec } from "../../src/model/server.ts";
import type { ServerHost } from "../../src/servers/connections/host.ts";
import { openStdioHost } from "../../src/servers/stdio/stdio-host.ts";
import { openSession } from "../../src/servers/client/session.ts";
import { wireMessage } from "../../src/servers/messages/json-rpc.ts";
import { livingProcesses } from "../process/support.ts";
import { callOptions, createRecord, fixtureSpec, stdioSpec } from "./support.ts";

const bothEras = fileURLToPath(new URL("../fixtures/servers/both-eras-server.mjs", import.meta.url));
const signal = new AbortController().signal;

async function openHost(spec: StdioServerSpec): Promise<ServerHost> {
  const host = await openStdioHost("s", spec);
  onTestFinished(() => host.stop());
  return host;
}

interface Outsider {
  /** Everything that came, as text. */
  readonly heard: string[];
  readonly closed: () => boolean;
  send(text: string): Promise<void>;
  /** Sends a request and gives its answer. */
  ask(id: string | number, method: string, params?: object): Promise<Answer>;
  close(): Promise<void>;
}

interface Answer {
  readonly id?: unknown;
  readonly result?: {
    readonly content?: readonly { readonly text: string }[];
    readonly [key: string]: unknown;
  };
  readonly error?: { readonly code: number; readonly message: string };
}

/** A client that is not ours. */
function join(host: ServerHost): Outsider {
  const heard: string[] = [];
  let closed = false;
  const channel = host.open({ onMessage: ({ text }) => heard.push(text), onClosed: () => (closed = true) });
  const send = (text: string): Promise<void> =>
    channel.send({ message: JSON.parse(text) as JSONRPCMessage, text });
  return {
    heard,
    closed: () => closed,
    send,
    async ask(id, method, params = {}) {
      await channel.send(wireMessage({ jsonrpc: "2.0", id, method, params: { ...params } }));
      return vi.waitFor(
        () => {
          const answers = heard.map((text) => JSON.parse(text) as Answer & { method?: string });
          const answer = answers.find((each) => each.id === id && each.method === undefined);
          if (answer === undefined) throw new Error(`no answer to ${id}: ${heard.join("\n")}`);
          return answer;
        },
        { timeout: 100_000, interval: 5 },
      );
    },
    close: () => channel.close(),
  };
}

const hello = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } };
const envelope = {
  _meta: {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "c", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  },
};

async function eraOf(client: Outsider, id: number, params: object = {}): Promise<string[]> {
  const { result, error } = await client.ask(id, "tools/call", { name: "era", arguments: {}, ...params });
  if (error !== undefined) throw new Error(error.message);
  return result?.content?.[0]?.text.split(" ") ?? [];
}

async function expectLiving(count: number): Promise<void> {
  if (process.platform === "linux") expect(await livingProcesses()).toHaveLength(count);
}

/** A program whose code gets each message, as `id` and `method`, and answers with `say`. */
function program(code: string): StdioServerSpec {
  const script = `require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, method } = JSON.parse(line);
    const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
    ${code}
  })`;
  return stdioSpec(process.execPath, ["-e", script]);
}

const discover = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "server/discover", params: envelope });
const options = { emit: createRecord().emit, signal, version: "1" };

describe("a host of a program", () => {
  it("serves clients of ours and others at once, each with its own handshake and ids", async () => {
    const host = await openHost(fixtureSpec());
    const record = createRecord();
    const session = await openSession(host, fixtureSpec(), { ...options, emit: record.emit });
    const outsiders = [join(host), join(host)];
    const welcomes = await Promise.all(outsiders.map((each) => each.ask(0, "initialize", hello)));
    expect(welcomes.map(({ result }) => result?.["protocolVersion"])).toEqual(["2025-11-25", "2025-11-25"]);
    const count = record.of("mcp.message").length;
    const call = (message: string): object => ({ name: "echo", arguments: { message } });
    const [ours, ...theirs] = await Promise.all([
      session.callTool("echo", { message: "ours" }, callOptions()),
      ...outsiders.map((each, index) => each.ask(2, "tools/call", call(`theirs ${index}`))),
    ]);
    expect(JSON.stringify(ours)).toContain('"ours"');
    expect(theirs.map(({ result }) => result?.content?.[0]?.text)).toEqual(["theirs 0", "theirs 1"]);
    expect(record.of("mcp.message")).toHaveLength(count + 2);
    await expectLiving(1);
  });

  it("tells our session nothing that is meant for all while an agent hears it", async () => {
    const spec = program(`if (id === undefined) return;
      if (method === "ping") say({ method: "notifications/x" });
      const serverInfo = { name: "n", version: "1" };
      const hello = { protocolVersion: "2025-11-25", capabilities: {}, serverInfo };
      say({ id, result: method === "initialize" ? hello : {} });`);
    const host = await openHost(spec);
    const record = createRecord();
    await openSession(host, spec, { ...options, emit: record.emit });
    const agent = join(host);
    await agent.ask(0, "initialize", hello);
    await agent.ask(1, "ping");
    expect(agent.heard).toContain('{"jsonrpc":"2.0","method":"notifications/x"}');
    expect(JSON.stringify(record.events)).not.toContain("notifications/x");
  });

  it("tells every client, watcher and later comer that the program has gone", async () => {
    const host = await openHost(fixtureSpec());
    const records = [createRecord(), createRecord()];
    for (const { emit } of records) host.watch(emit);
    const [one, two] = [join(host), join(host)];
    await one.ask(0, "initialize", hello);
    const params = { name: "crash", arguments: { code: 7 } };
    const crash = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
    await two.send(crash);
    await vi.waitFor(() => expect([one.closed(), two.closed()]).toEqual([true, true]), { timeout: 100_000 });
    expect(host.lost.reason).toMatchObject({ code: "server/exited" });
    await expect(one.send(crash)).rejects.toBe(host.lost.reason);
    const late = join(host);
    await vi.waitFor(() => expect(late.closed()).toBe(true));
    await host.stop();
    for (const { events } of records)
      expect(events.map(({ type }) => type)).toEqual(["server.started", "server.exited", "server.stopped"]);
  });
});

describe("a program that speaks both eras, one a process", () => {
  const spec = stdioSpec(process.execPath, [bothEras]);

  it("is started again for a client of the other era, once, and for the first one only when it has to be", async () => {
    const host = await openHost(spec);
    const record = createRecord();
    host.watch(record.emit);
    const [legacy, modern, pinned] = [join(host), join(host), join(host)];
    expect((await legacy.ask(0, "initialize", hello)).result).toBeDefined();
    await legacy.send('{"jsonrpc":"2.0","method":"notifications/initialized"}');
    expect(record.of("server.started")).toHaveLength(1);
    const [discovered, inPinned] = await Promise.all([
      modern.ask(0, "server/discover", envelope),
      eraOf(pinned, 5, envelope),
    ]);
    expect(discovered.result?.["supportedVersions"]).toContain("2026-07-28");
    const [inLegacy, inModern] = [await eraOf(legacy, 1), await eraOf(modern, 1, envelope)];
    expect([inLegacy[0], inModern[0], inPinned]).toEqual(["legacy", "modern", inModern]);
    expect(inLegacy[1]).not.toBe(inModern[1]);
    expect(record.of("server.started").map(({ pid }) => String(pid))).toEqual([inLegacy[1], inModern[1]]);
    await host.stop();
    expect(record.of("server.stopped")).toHaveLength(2);
    expect([legacy, modern, pinned].map((each) => each.closed())).toEqual([true, true, true]);
    await expectLiving(0);
  });

  it("is on record twice for who comes when it was started again", async () => {
    const host = await openHost(spec);
    const [first, later] = [createRecord(), createRecord()];
    const stop = host.watch(first.emit);
    const [legacy, modern] = [join(host), join(host)];
    await legacy.ask(0, "initialize", hello);
    await modern.ask(0, "server/discover", envelope);
    stop();
    host.watch(later.emit);
    expect(later.of("server.started").map(({ pid, reused }) => [pid, reused])).toEqual(
      first.of("server.started").map(({ pid }) => [pid, true]),
    );
    await host.stop();
    expect(later.of("server.stopped")).toHaveLength(2);
    expect(first.of("server.stopped")).toEqual([]);
  });

  it("stays in the era that a client has asked for last, also when the other process is ready later", async () => {
    const host = await openHost(spec);
    const [client, other] = [join(host), join(host)];
    await client.ask(0, "initialize", hello);
    const before = await eraOf(client, 1);
    await client.send(discover.replace('"id":1', '"id":2'));
    expect((await client.ask(3, "initialize", hello)).result).toBeDefined();
    expect((await other.ask(0, "server/discover", envelope)).result).toBeDefined();
    expect(await eraOf(client, 4)).toEqual(before);
    expect(client.heard.join()).not.toContain("supportedVersions");
  });
});

describe("a program that speaks one era only", () => {
  it("refuses the other in its own words; the client goes on with the first process, and nobody asks again", async () => {
    const host = await openHost(fixtureSpec());
    const record = createRecord();
    host.watch(record.emit);
    const [legacy, either, another] = [join(host), join(host), join(host)];
    await legacy.ask(0, "initialize", hello);
    const refused = { code: -32601, message: "no method server/discover" };
    expect((await either.ask("d", "server/discover", envelope)).error).toEqual(refused);
    expect((await either.ask(1, "initialize", hello)).result?.["protocolVersion"]).toBe("2025-11-25");
    expect((await another.ask("e", "server/discover", envelope)).error).toEqual(refused);
    expect(
      (await another.ask("f", "tools/call", { name: "echo", arguments: { message: "hi" }, ...envelope }))
        .result,
    ).toBeDefined();
    expect(record.of("server.started")).toHaveLength(2);
    expect(record.of("server.exited").map(({ expected }) => expected)).toEqual([true]);
    expect(host.lost.aborted).toBe(false);
    await expectLiving(1);
  });

  it("may say nothing when it is asked for the other: that is a refusal, once its time to start is over", async () => {
    const host = await openHost(fixtureSpec(["--silent"], { startupTimeoutMs: 300 }));
    const client = join(host);
    await client.send(JSON.stringify({ jsonrpc: "2.0", id: 0, method: "initialize", params: hello }));
    expect((await client.ask(1, "server/discover", envelope)).error?.code).toBe(-32601);
    expect(host.lost.aborted).toBe(false);
    await expectLiving(1);
  });

  it("may end when it is asked for the other: that is a refusal, too", async () => {
    const host = await openHost(
      program('if (method === "server/discover") process.exit(9); say({ id, result: {} });'),
    );
    const client = join(host);
    await client.ask(0, "initialize", hello);
    expect((await client.ask(1, "server/discover", envelope)).error?.code).toBe(-32601);
    expect((await client.ask(2, "ping")).result).toEqual({});
    expect(host.lost.aborted).toBe(false);
  });

  it("has not stopped before the one has that was asked for the other", async () => {
    const host = await openHost(
      program(`say({ id, ...(method === "initialize" ? { result: {} } : { error: { code: -32601, message: "no" } }) });
      if (method === "initialize") return;
      process.on("SIGTERM", () => {});
      process.stderr.write("refused\\n");
      setInterval(() => {}, 1e6);`),
    );
    const record = createRecord();
    host.watch(record.emit);
    const client = join(host);
    await client.ask(0, "initialize", hello);
    await client.send(discover);
    const stderr = (): unknown[] => record.of("server.stderr");
    await vi.waitFor(() => expect(stderr()).toHaveLength(1), { timeout: 100_000, interval: 5 });
    await host.stop();
    await expectLiving(0);
  });

  it("does not hold up a client that gives up waiting for the other", async () => {
    const host = await openHost(fixtureSpec(["--mute=server/discover"]));
    const client = join(host);
    await client.ask(0, "initialize", hello);
    await client.send(discover);
    expect((await client.ask(2, "initialize", hello)).result).toBeDefined();
  });
});
