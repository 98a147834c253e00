import { mapValues } from "../base/json.ts";
import { resultProblem } from "../expect/tool-result.ts";
import type { PlannedRead } from "../model/check.ts";
import type { Exchange } from "../trace/trajectory.ts";
import {
  answersPing,
  type CheckView,
  endBefore,
  endIn,
  errorOf,
  errorText,
  exchangesOf,
  type Found,
  isUnanswered,
  type ProbeView,
  resultOf,
  type Rule,
  type RuleTable,
  statusOf,
} from "./check-view.ts";
import { requestOf } from "./planned-requests.ts";
import { type Prober, requestOrPing, type Session } from "./prober.ts";

/** Requests that get no answer before a part of a check ends. */
const maxUnanswered = 3;

/** Reads the planned resources and gets the planned prompts, one after the other, in one session; after a loss in another one. */
export async function probeReads(prober: Prober): Promise<void> {
  const open = (): Promise<Session | undefined> => prober.probe("handshake", () => prober.connect());
  let session = await open();
  let unanswered = 0;
  for (const [index, planned] of (prober.check.reads ?? []).entries()) {
    if (session === undefined || unanswered === maxUnanswered) return;
    const { client, server } = session;
    const { method, params } = requestOf(planned);
    const outcome = await prober.probe("read", () => requestOrPing(client, method, params), { read: index });
    if (outcome?.answer.kind === "none") unanswered += 1;
    if (!client.isLost && outcome?.answersPing !== false) continue;
    await server.stop();
    session = await open();
  }
}

/** Rules about reading the listed resources and getting the listed prompts. */
export const readRules = {
  "read/crash": {
    severity: "error",
    title: "Reading a resource or getting a prompt ends the server",
    why: "Every other request of the session is lost, and the client has to start the server again.",
    fix: "Catch errors, and answer with a JSON-RPC error.",
    bad: `→ resources/read { "uri": "notes://a" }   (the process exits with code 1)`,
    good: `→ resources/read { "uri": "notes://a" }   ← { "error": { "code": -32002, "message": "Resource not found" } }`,
    source: "MCP 2025-11-25, resources: error handling; prompts: error handling",
    *find(view) {
      for (const each of readsOf(view)) {
        // The part security waits for a late end.
        const end = view.spec.kind === "security" ? endIn(each.probe) : endBefore(each.exchange, each.probe);
        if (end !== undefined) yield about(each, end.how);
      }
    },
  },
  "read/hang": {
    severity: "error",
    title: "Reading a resource or getting a prompt blocks the server",
    why: "The client waits until its own time limit, and the server answers nothing else meanwhile.",
    fix: "Do long work asynchronously, and answer every request.",
    bad: `→ resources/read { "uri": "notes://a" }   (no answer, and a ping is not answered either)`,
    good: `→ resources/read { "uri": "notes://a" }   ← { "contents": [ … ] }`,
    source: "MCP 2025-11-25, ping: the receiver must respond promptly",
    *find(view) {
      for (const each of unanswered(view))
        if (!answersPing(each.probe)) yield about(each, "no answer in time, and none to a ping meanwhile");
    },
  },
  "read/slow": {
    severity: "warning",
    title: "A resource or prompt is not given in time",
    why: "Clients end requests after a time limit of their own. It is not an error, since the server goes on.",
    fix: "Answer every request, and soon. If the work takes that long, check with a larger --call-timeout.",
    bad: `→ prompts/get { "name": "summary" }   (no answer for a minute; a ping is answered meanwhile)`,
    good: `→ prompts/get { "name": "summary" }   ← { "messages": [ … ] }`,
    source: "MCP 2025-11-25, lifecycle: timeouts",
    *find(view) {
      for (const each of unanswered(view))
        if (answersPing(each.probe)) yield about(each, "no answer in time; a ping is answered meanwhile");
    },
  },
  "read/failed": {
    severity: "warning",
    title: "A listed resource or prompt is refused",
    why: "Clients show what is listed to people and models, who get an error.",
    fix: "List what can be read, and serve what is listed. A prompt that needs an argument marks it as required.",
    bad: `resources/list ← [{ "uri": "notes://a", … }]   → resources/read { "uri": "notes://a" }   ← { "error": … }`,
    good: `→ resources/read { "uri": "notes://a" }   ← { "contents": [{ "uri": "notes://a", "text": "…" }] }`,
    source: "MCP 2025-11-25, resources: reading resources; prompts: getting a prompt",
    *find(view) {
      for (const each of readsOf(view)) {
        const { read, exchange, probe } = each;
        // Arguments that were made up may be wrong.
        if (read.args !== undefined) continue;
        const status = exchange.answer === undefined ? statusOf(exchange, probe.events) : undefined;
        if (errorOf(exchange) !== undefined) yield about(each, `it got the error ${errorText(exchange)}`);
        else if (status !== undefined) yield about(each, `it got HTTP ${status}`);
      }
    },
  },
  "read/invalid-result": {
    severity: "error",
    title: "What a resource or prompt gives is not valid",
    why: "Clients drop the answer, or show an error in its place.",
    fix: "Give contents with uri and text or blob for a resource, and messages with role and content for a prompt.",
    bad: `→ resources/read   ← { "contents": "Buy milk." }`,
    good: `→ resources/read   ← { "contents": [{ "uri": "notes://a", "text": "Buy milk." }] }`,
    source: "MCP 2025-11-25, schema: ReadResourceResult, GetPromptResult",
    *find(view) {
      for (const each of readsOf(view)) {
        const { read, exchange } = each;
        const { answer } = exchange;
        if (answer === undefined) continue;
        const result = resultOf(exchange);
        const problem =
          answer.malformed ??
          (result === undefined
            ? errorOf(exchange) === undefined
              ? "it has neither a result nor an error"
              : undefined
            : resultProblem(read.kind, result));
        if (problem !== undefined) yield about(each, problem);
      }
    },
  },
  "read/not-tried": {
    severity: "info",
    title: "Resources or prompts were not read",
    why: "Nothing is known about what they give.",
    fix: "Read them in a test of your own, with a step of the type mcp.",
    bad: `resources/templates/list ← [{ "uriTemplate": "notes://{id}", … }]`,
    good: `resources/list ← [{ "uri": "notes://a", … }]`,
    source: "the limits of mcpvals for one check",
    *find({ spec, probes }) {
      for (const message of spec.notRead ?? []) yield { message, evidence: [] };
      if (spec.reads === undefined) return;
      const left = spec.reads.length - probes.filter(({ read }) => read !== undefined).length;
      const message = `${left} of ${spec.reads.length} that were planned: too many requests before got no answer, or the server was lost`;
      if (left > 0) yield { message, evidence: [] };
    },
  },
} as const satisfies RuleTable;

/** Those of them that look at ordinary reads of templates in the part security, too. What several reads of one show is one finding. */
export const readEndRules: RuleTable = mapValues(
  { "read/crash": readRules["read/crash"], "read/hang": readRules["read/hang"] },
  (rule): Rule => ({
    ...rule,
    *find(view) {
      const all = Array.from(rule.find(view));
      for (const [first] of Map.groupBy(all, ({ place }) => JSON.stringify(place)).values())
        if (first !== undefined) yield first;
    },
  }),
);

interface ReadView {
  readonly read: PlannedRead;
  readonly exchange: Exchange;
  readonly probe: ProbeView;
}

/**
 * The planned reads that were made; in the part security ordinary ones of templates, which the part reads leaves out, and of prompts of which
 * the first, which it makes too, got an answer.
 */
function readsOf({ spec, probes }: CheckView): readonly ReadView[] {
  const made = probes.flatMap((probe) => {
    const { read } = probe;
    const [exchange] = exchangesOf(probe.exchanges, "resources/read", "prompts/get");
    return read === undefined || exchange === undefined ? [] : [{ read, exchange, probe }];
  });
  if (spec.kind !== "security") return made;
  const ordinary = made.filter(({ read }) => read.args !== undefined && read.attack === undefined);
  const byName = Map.groupBy(ordinary, ({ read }) => JSON.stringify([read.kind, read.name]));
  return [...byName.values()].flatMap((reads) =>
    reads[0]?.read.kind === "resource" || reads[0]?.exchange.answer !== undefined ? reads : [],
  );
}

/** Numbers of the answers that show what a resource or prompt gives, or that the server refuses made-up arguments. */
export function answeredReads(view: CheckView): readonly number[] {
  return readsOf(view).flatMap(({ read, exchange }) =>
    resultOf(exchange) === undefined && read.args === undefined ? [] : (exchange.answer?.seq ?? []),
  );
}

function unanswered(view: CheckView): readonly ReadView[] {
  return readsOf(view).filter(({ exchange, probe }) => isUnanswered(exchange, probe));
}

function about({ read, exchange: { request, answer }, probe }: ReadView, message: string): Found {
  const { kind, name, args } = read;
  const given = args === undefined ? "" : ` (with ${JSON.stringify(args)})`;
  return {
    place: { [kind]: name },
    message: `${message}${given}`,
    evidence: [request.seq, answer?.seq ?? probe.finished],
  };
}
