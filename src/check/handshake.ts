import type { JsonObject } from "../base/json.ts";
import { shortened } from "../base/visible-text.ts";
import { errorCodes } from "../model/error-codes.ts";
import { eventsOf } from "../model/event.ts";
import { legacyVersions, modernVersion } from "../model/mcp-versions.ts";
import type { Exchange } from "../trace/trajectory.ts";
import {
  about,
  answerText,
  breakIn,
  type CheckView,
  errorOf,
  errorText,
  exchangesOf,
  fixOfLoss,
  handshakesOf,
  isModern,
  methodOf,
  type ProbeView,
  resultOf,
  statusOf,
  type RuleTable,
} from "./check-view.ts";
import { notTheServer, type Prober } from "./prober.ts";
import { problemsIn } from "./schema-walk.ts";

/** Versions of MCP that clients ask for, and one that does not exist. */
const versions = [...legacyVersions.slice(0, 4), modernVersion, "1999-01-01"];

/** Begins a session in each version, each with a server that was just started. */
export async function probeHandshake(prober: Prober): Promise<void> {
  for (const [index, version] of versions.entries()) {
    let isSilent = false;
    const isAnswered = await prober.probe("initialize", async () => {
      const server = await prober.start();
      const answer = await server.open().connect(version, { exactly: true });
      isSilent = answer.kind === "none";
      if (answer.kind !== "error" && version !== modernVersion) prober.hello(answer);
      const stopped = server.stop();
      if (prober.check.runsOnce === true) await stopped;
      return true;
    });
    // A server that does not answer would have every other version wait as long, and one that never starts says the same to each.
    if (isSilent || (index === 0 && isAnswered !== true)) return;
  }
}

/** Rules about the handshake, whichever probe made it. */
export const handshakeRules = {
  "protocol/no-session": {
    severity: "error",
    title: "No session can be opened",
    why: "No client can use the server.",
    fix: "Answer initialize with protocolVersion, capabilities and serverInfo, and go on running.",
    bad: `→ initialize   (the process exits with code 1)`,
    good: `→ initialize   ← { "result": { "protocolVersion": "2025-11-25", "capabilities": { … }, "serverInfo": { … } } }`,
    source: "MCP 2025-11-25, lifecycle: initialization",
    *find({ probes }) {
      for (const probe of probes) {
        const exchange = handshakesOf(probe).at(-1);
        if (exchange === undefined || resultOf(exchange) !== undefined) continue;
        // These are reported by other rules.
        if (["foreign-origin", "preflight", "second-start", "anonymous", "wrong-token"].includes(probe.probe))
          continue;
        if (breakIn(probe) !== undefined) continue;
        // A refusal may be right: it depends on the version that was asked for. Other answers to a version have a rule of their own.
        if (probe.probe === "initialize" && (errorOf(exchange) !== undefined || hasSession(probes))) continue;
        // What ended a server that is not started again is reported by another rule.
        const [finished] = eventsOf(probe.events, "probe.finished");
        if (probe !== probes[0] && finished?.error?.code === "server/unreachable") continue;
        const found = about(exchange, probe, `${methodOf(exchange)} got ${answerText(exchange, probe)}`);
        yield { ...found, ...(isSilent(exchange, probe) ? { fix: fixOfSilence } : fixOfLoss(probe)) };
      }
    },
  },
  "protocol/version": {
    severity: "error",
    title: "The handshake ends with a version of MCP that does not exist",
    why: "Clients close the connection when they do not know the version.",
    fix: "Answer with the version that was asked for when the server supports it, else with the newest that it supports.",
    bad: `→ initialize { "protocolVersion": "1999-01-01" }   ← { "protocolVersion": "1999-01-01" }`,
    good: `→ initialize { "protocolVersion": "1999-01-01" }   ← { "protocolVersion": "2025-11-25" }`,
    source: "MCP 2025-11-25, lifecycle: version negotiation",
    *find({ probes }) {
      for (const probe of probes)
        for (const exchange of exchangesOf(probe.exchanges, "initialize")) {
          const result = resultOf(exchange);
          const asked = exchange.params["protocolVersion"];
          if (result === undefined || probe.probe !== "initialize") continue;
          const given = result["protocolVersion"];
          if (typeof given === "string" && knownVersions.includes(given)) continue;
          const message = `asked for ${JSON.stringify(asked)}, it chose ${shortened(JSON.stringify(given ?? null), 60)}, which does not exist`;
          yield about(exchange, probe, message);
        }
    },
  },
  "protocol/invalid-initialize": {
    severity: "error",
    title: "The answer to initialize is not valid",
    why: "Clients that check it, as those of the official SDKs do, end the connection: to their users the server does not work.",
    fix: "Give the member that the message names, of the type that it says.",
    bad: `← { "protocolVersion": "2025-11-25", "capabilities": [], "serverInfo": "notes" }`,
    good: `← { "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "notes", "version": "1.2.0" } }`,
    source: "MCP 2025-11-25, schema: InitializeResult",
    async *find({ probes, spec }, { validateSchema }) {
      if (spec.kind !== "handshake") return;
      const seen = new Set<string>();
      for (const probe of probes)
        for (const exchange of exchangesOf(probe.exchanges, "initialize")) {
          const result = resultOf(exchange);
          const check = result && (await validateSchema(initializeResult, result));
          for (const problem of check?.status === "invalid" ? problemsIn(check.errors) : []) {
            const { pointer, message } = problem;
            // It is asked for several versions.
            if (seen.has(`${pointer} ${message}`)) continue;
            seen.add(`${pointer} ${message}`);
            yield { ...about(exchange, probe, message), place: { pointer } };
          }
        }
    },
  },
  "protocol/refused-version": {
    severity: "warning",
    title: "A version is refused instead of negotiated",
    why: "Older and newer clients cannot connect, though both may know a common version.",
    fix: "Answer initialize with the newest version that the server supports, in place of an error.",
    bad: `→ initialize { "protocolVersion": "2024-11-05" }   ← { "error": { "code": -32602, … } }`,
    good: `→ initialize { "protocolVersion": "2024-11-05" }   ← { "protocolVersion": "2025-11-25", … }`,
    source: "MCP 2025-11-25, lifecycle: version negotiation",
    *find({ probes }) {
      for (const probe of probes)
        for (const exchange of exchangesOf(probe.exchanges, "initialize")) {
          const error = errorOf(exchange);
          if (error === undefined || probe.probe !== "initialize") continue;
          // Since 2026-07-28 a server may have no initialize at all.
          if (error["code"] === errorCodes.unsupportedVersion || isModern(probes)) continue;
          const asked = JSON.stringify(exchange.params["protocolVersion"]);
          yield about(exchange, probe, `${asked} got the error ${errorText(exchange)}`);
        }
    },
  },
  "protocol/version-unanswered": {
    severity: "error",
    title: "A version of MCP gets no answer",
    why: "Clients that ask for it cannot connect, though both may know a common version.",
    fix: "Answer initialize with the newest version that the server supports, whatever version is asked for, and go on running.",
    bad: `→ initialize { "protocolVersion": "2024-11-05" }   (the process exits with code 1)`,
    good: `→ initialize { "protocolVersion": "2024-11-05" }   ← { "protocolVersion": "2025-11-25", … }`,
    source: "MCP 2025-11-25, lifecycle: version negotiation",
    *find({ probes }) {
      if (!hasSession(probes)) return;
      for (const probe of probes.filter((each) => each.probe === "initialize")) {
        const exchange = exchangesOf(probe.exchanges, "initialize").at(-1);
        if (exchange === undefined || exchange.answer !== undefined || breakIn(probe) !== undefined) continue;
        const [finished] = eventsOf(probe.events, "probe.finished");
        if (finished?.error?.code === "server/unreachable") continue;
        const status = statusOf(exchange, probe.events);
        // Since 2026-07-28 a server may have no initialize at all.
        if (status !== undefined && (isModern(probes) || notTheServer.includes(status))) continue;
        const asked = JSON.stringify(exchange.params["protocolVersion"]);
        yield {
          ...about(exchange, probe, `${asked} got ${answerText(exchange, probe)}`),
          ...fixOfLoss(probe),
        };
      }
    },
  },
  "protocol/slow-start": {
    severity: "warning",
    title: "The server takes long until it is ready",
    why: "Clients start servers whenever a session begins, and give up after 10 to 30 seconds.",
    fix: "Answer initialize first, and do slow work afterwards.",
    bad: `initialize is answered after 12 s`,
    good: `initialize is answered after 200 ms`,
    source: "openai/codex#11851, benborla/mcp-server-mysql#108",
    *find({ probes }) {
      for (const probe of probes) {
        const [exchange] = handshakesOf(probe);
        const [started] = probe.events;
        if (exchange?.answer === undefined || started === undefined) continue;
        const seconds = (exchange.answer.at - started.at) / 1000;
        if (seconds > maxSecondsToStart) yield about(exchange, probe, `ready after ${seconds.toFixed(1)} s`);
        return;
      }
    },
  },
} as const satisfies RuleTable;

const text = { type: "string" };
const flag = { type: "boolean" };
/** A capability with flags. */
const withFlags = (...flags: readonly string[]): JsonObject => ({
  type: "object",
  properties: Object.fromEntries(flags.map((name) => [name, flag])),
});
/** What MCP 2025-11-25 says of the members of an InitializeResult, but for the version, which has a rule of its own. */
const initializeResult: JsonObject = {
  type: "object",
  properties: {
    capabilities: {
      type: "object",
      properties: {
        tools: withFlags("listChanged"),
        prompts: withFlags("listChanged"),
        resources: withFlags("listChanged", "subscribe"),
        logging: { type: "object" },
        completions: { type: "object" },
        experimental: { type: "object" },
      },
    },
    serverInfo: {
      type: "object",
      properties: { name: text, version: text, title: text },
      required: ["name", "version"],
    },
    instructions: text,
  },
  required: ["capabilities", "serverInfo"],
};

const fixOfSilence =
  "Answer initialize. A program that serves several transports may need an argument for stdio, such as --stdio; one that serves over HTTP is checked by its URL.";

/** Published versions of MCP. */
const knownVersions: readonly string[] = [...legacyVersions, modernVersion];

/** Codex' limit until March 2026, in seconds; most clients have 30. */
const maxSecondsToStart = 10;

/** Whether a program runs and gives no answer, as one does that listens elsewhere. */
function isSilent({ answer }: Exchange, { events }: ProbeView): boolean {
  const [started] = eventsOf(events, "server.started");
  return (
    answer === undefined &&
    started?.transport === "stdio" &&
    eventsOf(events, "server.exited").every(({ expected }) => expected)
  );
}

function hasSession(probes: CheckView["probes"]): boolean {
  return probes.some((probe) => handshakesOf(probe).some((each) => resultOf(each) !== undefined));
}
