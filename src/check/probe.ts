import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import type { JsonObject } from "../base/json.ts";
import type { CheckKind, PlannedCall, Probes } from "../model/check.ts";
import { shortened } from "../base/visible-text.ts";
import { modernVersion } from "../servers/messages/json-rpc.ts";
import { type ConformanceCheck, runScenario } from "./conformance-suite.ts";
import { Prober, type ProberOptions, type Session } from "./prober.ts";
import { type Answer, isAnswer, legacyVersion, type RawClient } from "./raw-client.ts";

const probes: Readonly<Record<CheckKind, (prober: Prober) => Promise<void>>> = {
  handshake: probeHandshake,
  requests: probeRequests,
  shutdown: probeShutdown,
  definitions: probeDefinitions,
  calls: probeCalls,
  reads: probeReads,
  stability: probeStability,
  conformance: probeConformance,
};

/**
 * Runs one part of a check. What the server does wrong is on record and judged later. Throws the signal's reason, and McpvalsError
 * for what is not the server's fault, such as a command that cannot be started.
 */
export async function probeServer(options: ProberOptions): Promise<void> {
  await using prober = new Prober(options);
  await probes[options.check.kind](prober);
}

/** Versions of MCP that clients ask for, and one that does not exist. */
const versions = [legacyVersion, "2025-06-18", "2025-03-26", "2024-11-05", modernVersion, "1999-01-01"];

/** Begins a session in each version, each with a server that was just started. */
async function probeHandshake(prober: Prober): Promise<void> {
  for (const version of versions) {
    const isAnswered = await prober.probe("initialize", async () => {
      const host = await prober.start();
      const client = prober.open(host);
      const answer = await client.connect(version, { exactly: true });
      if (answer.kind !== "error" && version !== modernVersion) prober.hello(answer);
      const stopped = prober.stop(host);
      if (prober.check.runsOnce === true) await stopped;
      return answer.kind !== "none";
    });
    // A server that does not answer would have every other version wait as long.
    if (isAnswered !== true) return;
  }
}

/** How long a server, and then what it started, may take to end by itself, in milliseconds; longer than clients wait. */
const endMs = 5000;

/** Begins a session, and ends it by closing stdin, as a client does. */
async function probeShutdown(prober: Prober): Promise<void> {
  const session = await prober.probe("handshake", () => prober.connect());
  if (session !== undefined)
    await prober.probe("shutdown", () => prober.stop(session.host, { stdinMs: endMs, settleMs: endMs }));
}

/** Lists everything once. Then starts a program a second time while it runs, as several windows of a client do. */
async function probeDefinitions(prober: Prober): Promise<void> {
  const session = await prober.probe("list", async () => {
    const { host, client, capabilities } = await prober.connect();
    await prober.listAll(client, capabilities);
    return { host, client };
  });
  if (session?.host.transport === "stdio" && !session.client.isLost)
    await prober.probe("second-start", () => prober.connect());
}

async function probeStability(prober: Prober): Promise<void> {
  const session = await prober.probe("first-listing", async () => {
    const opened = await prober.connect();
    await prober.listAll(opened.client, opened.capabilities);
    return opened;
  });
  if (session !== undefined)
    await prober.probe("second-listing", () => prober.listAll(session.client, session.capabilities));
}

/** How long a server that has not answered a call may take for a ping, in milliseconds. */
const pingMs = 2000;
/** Calls that are made before the first of them is answered. */
const concurrentCalls = 5;

/**
 * Makes the planned calls, one after the other, in one session; then one of them again, cancelled at once, and several times at the
 * same time. After a loss the server is started again. A tool that did not answer in time is not called again; a server that then
 * does not answer a ping is started again too.
 */
async function probeCalls(prober: Prober): Promise<void> {
  const hung = new Set<string>();
  let answered: PlannedCall | undefined;
  const open = (): Promise<Session | undefined> =>
    prober.probe("list", async () => {
      const session = await prober.connect();
      await prober.list(session.client, "tools/list");
      return session;
    });
  let session = await open();
  for (const [index, call] of (prober.check.calls ?? []).entries()) {
    if (hung.has(call.tool)) continue;
    if (session === undefined) return;
    const { client, host } = session;
    const params = { name: call.tool, arguments: call.args };
    const outcome = await prober.probe("call", () => request(client, "tools/call", params), { call: index });
    if (outcome?.answer.kind === "none") hung.add(call.tool);
    if (outcome?.answer.kind === "result" && call.expects === "result") answered ??= call;
    if (!client.isLost && outcome?.answersPing !== false) continue;
    await prober.stop(host);
    session = await open();
  }
  if (session === undefined || answered === undefined) return;
  const { client, host } = session;
  const { tool: name, args } = answered;
  await prober.probe("cancelled-call", async () => {
    const { id } = await client.start("tools/call", { name, arguments: args });
    await client.notify("notifications/cancelled", { requestId: id, reason: "not needed any more" });
    await client.request("ping");
  });
  if (client.isLost) return;
  await prober.probe("concurrent-calls", async () => {
    const call = { name, arguments: args };
    const started = await Promise.all(
      Array.from({ length: concurrentCalls }, () => client.start("tools/call", call)),
    );
    await Promise.all(started.map(({ answer }) => answer));
  });
  // A server that still works at a call would not end by itself.
  if (hung.size > 0) await prober.stop(host, { stdinMs: 0 });
}

/** Requests that get no answer before a part of a check ends. */
const maxUnanswered = 3;

/** Reads the planned resources and gets the planned prompts, one after the other, in one session; after a loss in another one. */
async function probeReads(prober: Prober): Promise<void> {
  const open = (): Promise<Session | undefined> => prober.probe("handshake", () => prober.connect());
  let session = await open();
  let unanswered = 0;
  for (const [index, { kind, name, args }] of (prober.check.reads ?? []).entries()) {
    if (session === undefined || unanswered === maxUnanswered) return;
    const { client, host } = session;
    const outcome = await prober.probe(
      "read",
      () =>
        kind === "resource"
          ? request(client, "resources/read", { uri: name })
          : request(client, "prompts/get", { name, ...(args === undefined ? {} : { arguments: args }) }),
      { read: index },
    );
    if (outcome?.answer.kind === "none") unanswered += 1;
    if (!client.isLost && outcome?.answersPing !== false) continue;
    await prober.stop(host);
    session = await open();
  }
}

/** Makes a request that may take long; without an answer in time it is cancelled, and a ping shows whether the server goes on. */
async function request(
  client: RawClient,
  method: string,
  params: JsonObject,
): Promise<{ readonly answer: Answer; readonly answersPing: boolean }> {
  const { id, answer: coming } = await client.start(method, params, { progress: true });
  const answer = await coming;
  if (answer.kind !== "none") return { answer, answersPing: true };
  await client.notify("notifications/cancelled", { requestId: id, reason: "no answer in time" });
  const ping = await client.request("ping", undefined, { timeoutMs: pingMs });
  return { answer, answersPing: isAnswer(ping) };
}

/** Lists that a server may or may not declare. */
const lists = ["tools/list", "resources/list", "prompts/list"];
/** Requests that are sent before the first of them is answered. */
const concurrentRequests = 10;

type RequestName = Exclude<Probes["requests"], "handshake">;

interface RequestProbe {
  /** The capability that the server has to declare; absent: none. */
  readonly capability?: string;
  /** Whether it is tried only at an address, with a client of its own. */
  readonly isOfAddress?: true;
  readonly send: (client: RawClient) => Promise<unknown>;
}

/** What is tried, in this order; after each a ping shows whether the server goes on. */
const requestProbes: Readonly<Record<RequestName, RequestProbe>> = {
  ping: { send: (client) => client.request("ping") },
  lists: {
    async send(client) {
      for (const method of lists) await client.request(method);
    },
  },
  "unknown-method": { send: (client) => client.request("mcpvals/no-such-method") },
  "unknown-tool": {
    send: (client) => client.request("tools/call", { name: "mcpvals-no-such-tool", arguments: {} }),
  },
  "missing-params": { send: (client) => client.request("tools/call", {}) },
  "unknown-notification": {
    send: (client) => client.notify("notifications/mcpvals-no-such-notification"),
  },
  cancellation: {
    send: (client) =>
      client.notify("notifications/cancelled", { requestId: 987_654, reason: "no such request" }),
  },
  concurrent: {
    async send(client) {
      const started = await Promise.all(
        Array.from({ length: concurrentRequests }, () => client.start("ping")),
      );
      await Promise.all(started.map(({ answer }) => answer));
    },
  },
  "malformed-json": { send: (client) => client.send(malformed('{"jsonrpc":"2.0","id":1,"method":')) },
  "not-json-rpc": { send: (client) => client.send(malformed('{"hello":"world"}')) },
  logging: {
    capability: "logging",
    send: (client) => client.request("logging/setLevel", { level: "error" }),
  },
  completions: {
    capability: "completions",
    send: (client) =>
      client.request("completion/complete", {
        ref: { type: "ref/prompt", name: "mcpvals-no-such-prompt" },
        argument: { name: "any", value: "" },
      }),
  },
  "unknown-session": {
    isOfAddress: true,
    send(client) {
      const headers = { "mcp-session-id": "mcpvals-no-such-session", "mcp-protocol-version": legacyVersion };
      return client.request("tools/list", undefined, { headers });
    },
  },
  "foreign-origin": {
    isOfAddress: true,
    send: (client) => client.connect(legacyVersion, { headers: { origin: "http://mcpvals.invalid" } }),
  },
};

/** Sends requests that every server has to withstand; after a loss the server is started again. */
async function probeRequests(prober: Prober): Promise<void> {
  let session = await prober.probe("handshake", () => prober.connect());
  for (const [name, { capability, isOfAddress, send }] of Object.entries(requestProbes) as [
    RequestName,
    RequestProbe,
  ][]) {
    if (session === undefined) return;
    const { client, host, capabilities } = session;
    if (isOfAddress === true) {
      if (host.transport === "shttp") await prober.probe(name, () => send(prober.open(host)));
      continue;
    }
    if (capability !== undefined && capabilities[capability] === undefined) continue;
    const survived = await prober.probe(name, async () => {
      await send(client);
      return name === "ping" || isAnswer(await client.request("ping"));
    });
    if (survived === true && !client.isLost) continue;
    // A server that ends by itself would do so in all of them.
    if (name === "ping" && client.isLost) return;
    await prober.stop(host);
    session = await prober.probe("handshake", () => prober.connect());
  }
}

/** A text that is not a message; it is recorded as the notification of what it stands for. */
function malformed(text: string): { readonly message: JSONRPCMessage; readonly text: string } {
  return { message: { jsonrpc: "2.0", method: "mcpvals/malformed" }, text };
}

/** Longest text of the suite that is recorded. */
const maxText = 1000;

/** How many limits of a request a scenario may take; the suite's own limit of a request is a minute. */
const maxCalls = 6;

/** Runs scenarios of the official conformance suite, each with a server that was just started, through the recording gateway. */
async function probeConformance(prober: Prober): Promise<void> {
  const { suite, scenarios = [] } = prober.check.conformance ?? {};
  if (suite === undefined) return;
  const { signal, callMs } = prober;
  // Only this probe needs it, and loading it is slow.
  const gateway = (await import("../servers/gateway/gateway.ts")).createGateway();
  try {
    for (const scenario of scenarios) {
      const isEnded = await prober.probe(`conformance ${scenario}`, async () => {
        const host = await prober.start();
        const url = await prober.expose(host, gateway);
        const checks = await runScenario(suite, scenario, { url, ms: callMs * maxCalls, signal });
        const unfinished: ConformanceCheck = {
          id: scenario,
          description: "",
          status: "unfinished",
          sources: [],
        };
        for (const { id, description, status, message, sources } of checks ?? [unfinished])
          prober.record({
            type: "conformance.checked",
            server: host.name,
            scenario,
            check: shortened(id, maxText),
            description: shortened(description, maxText),
            status,
            ...(message === undefined ? {} : { message: shortened(message, maxText) }),
            sources,
          });
        await prober.stop(host);
        return checks !== undefined;
      });
      // The others would wait as long.
      if (isEnded !== true) return;
    }
  } finally {
    await gateway.close();
  }
}
