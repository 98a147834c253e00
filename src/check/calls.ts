import { jsonDifference } from "../expect/json-difference.ts";
import { contentProblem, outputProblem, resultText, structuredContent } from "../expect/tool-result.ts";
import {
  asList,
  asObject,
  estimateTokens,
  isJsonObject,
  type Json,
  type JsonObject,
  mapValues,
} from "../base/json.ts";
import type { PlannedCall } from "../model/check.ts";
import { shortened } from "../base/visible-text.ts";
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
import { type Prober, requestOrPing, type Session } from "./prober.ts";
import { objectIn } from "./schema-walk.ts";

/** Calls that are made before the first of them is answered. */
const concurrentCalls = 5;

/**
 * Makes the planned calls, one after the other, in one session; then one of them again, cancelled at once, and several times at the
 * same time. After a loss the server is started again. A tool that did not answer in time is not called again; a server that then
 * does not answer a ping is started again too.
 */
export async function probeCalls(prober: Prober): Promise<void> {
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
    const { client, server } = session;
    const params = { name: call.tool, arguments: call.args };
    const outcome = await prober.probe("call", () => requestOrPing(client, "tools/call", params), {
      call: index,
    });
    if (outcome?.answer.kind === "none") hung.add(call.tool);
    if (outcome?.answer.kind === "result" && call.expects === "result") answered ??= call;
    if (!client.isLost && outcome?.answersPing !== false) continue;
    await server.stop();
    session = await open();
  }
  if (session === undefined || answered === undefined) return;
  const { client, server } = session;
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
  if (hung.size > 0) await server.stop({ stdinMs: 0 });
}

const rulesOfCalls = {
  "call/crash": {
    severity: "error",
    title: "A call ends the server",
    why: "Every other request of the session is lost, and the client has to start the server again.",
    fix: "Catch errors in the tool, and answer with isError: true.",
    bad: `→ tools/call parse { "text": "" }   (the process exits with code 1)`,
    good: `→ tools/call parse { "text": "" }   ← { "isError": true, "content": [{ "type": "text", "text": "text is empty" }] }`,
    source: "MCP 2025-11-25, tools: error handling",
    *find(view) {
      for (const { call, exchange, probe } of callsOf(view)) {
        // The part security waits for a late end.
        const end = view.spec.kind === "security" ? endIn(probe) : endBefore(exchange, probe);
        if (end === undefined) continue;
        const evidence = [exchange.request.seq, end.seq];
        yield { place: { tool: call.tool }, message: `after ${argumentsText(call)} ${end.how}`, evidence };
      }
    },
  },
  "call/hang": {
    severity: "error",
    title: "A call blocks the server",
    why: "An agent waits until its own time limit, and the server answers nothing else meanwhile.",
    fix: "Do long work asynchronously, and answer every call.",
    bad: `→ tools/call wait { }   (no answer, and a ping is not answered either)`,
    good: `→ tools/call wait { }   ← { "isError": true, "content": [{ "type": "text", "text": "timed out" }] }`,
    source: "MCP 2025-11-25, ping: the receiver must respond promptly",
    *find(view) {
      for (const each of unansweredCalls(view))
        if (!answersPing(each.probe)) yield noAnswer(each, "the server answers no ping meanwhile");
    },
  },
  "call/slow": {
    severity: "warning",
    title: "A call is not answered in time",
    why: "Clients end calls after a time limit of their own, and agents wait. It is not an error, since the server goes on: the tool may take longer than the check waits, or never answer, which no check can tell.",
    fix: "Answer every call, and soon, or make the time an argument with a small default. If the work takes that long, check with a larger --call-timeout.",
    bad: `→ tools/call index { }   (no answer for a minute; a ping is answered meanwhile)`,
    good: `→ tools/call index { "wait": false }   ← "started; call index_status for the state"`,
    source: "MCP 2025-11-25, lifecycle: timeouts",
    *find(view) {
      for (const each of unansweredCalls(view))
        if (answersPing(each.probe))
          yield noAnswer(each, "the server answers a ping meanwhile; the tool was not called again");
    },
  },
  "call/valid-refused": {
    severity: "warning",
    title: "A call with valid arguments is answered with a protocol error",
    why: "Many clients do not show protocol errors to the model, so that it cannot correct itself.",
    fix: "Catch errors in the tool, and say what went wrong in a result with isError: true. Accept what the schema allows, or let it allow less.",
    bad: `→ { "city": "text" }   ← { "error": { "code": -32602, "message": "unknown city" } }`,
    good: `→ { "city": "text" }   ← { "result": { "isError": true, "content": [{ "type": "text", "text": "unknown city: text" }] } }`,
    source:
      "MCP 2025-11-25, schema: CallToolResult.isError: errors of a tool should be in the result, not protocol errors",
    *find(view) {
      for (const { call, exchange, probe } of callsOf(view)) {
        const status = statusOf(exchange, probe.events);
        const refusal =
          errorOf(exchange) !== undefined
            ? `the error ${errorText(exchange)}`
            : // Over HTTP a failure may come without an answer.
              exchange.answer === undefined && status !== undefined && `HTTP ${status}`;
        if (call.expects === "result" && refusal !== false)
          yield aboutCall(call, exchange, `${argumentsText(call)} got ${refusal}`);
      }
    },
  },
  "call/invalid-accepted": {
    severity: "warning",
    title: "Arguments that violate the input schema are accepted",
    why: "A mistake of an agent goes unnoticed, and the tool works with something else than was meant.",
    fix: "Validate arguments against inputSchema before the tool runs.",
    bad: `→ { "count": { "a": 1 } }   ← { "content": [{ "type": "text", "text": "done" }] }`,
    good: `→ { "count": { "a": 1 } }   ← { "isError": true, "content": [{ "type": "text", "text": "count must be a number" }] }`,
    source: "MCP 2025-11-25, tools: servers must validate all tool inputs",
    *find(view) {
      yield* acceptedCalls(view, (call) => !hasUnknownArgument(view, call));
    },
  },
  "call/unknown-argument": {
    severity: "warning",
    title: "An argument that the input schema forbids is ignored",
    why: "A misspelt argument is lost, and the tool works with a default in its place.",
    fix: "Refuse unknown arguments, for example with z.strictObject(…), or take additionalProperties: false out of the schema.",
    bad: `additionalProperties: false   → { "limti": 5 }   ← { "content": [{ "type": "text", "text": "100 results" }] }`,
    good: `→ { "limti": 5 }   ← { "isError": true, "content": [{ "type": "text", "text": "unknown argument: limti" }] }`,
    source: "mongodb-js/mongodb-mcp-server#1369, modelcontextprotocol/typescript-sdk#846",
    *find(view) {
      for (const found of acceptedCalls(view, (call) => hasUnknownArgument(view, call)))
        yield {
          ...found,
          message: "additionalProperties is false, and a call with an unknown argument succeeded",
        };
    },
  },
  "call/invalid-result": {
    severity: "error",
    title: "A result is not a valid CallToolResult",
    why: "Clients drop the answer, or show an error in its place.",
    fix: "Give content as a list of blocks, each with its type and the members of that type.",
    bad: `{ "result": { "content": "42" } }`,
    good: `{ "result": { "content": [{ "type": "text", "text": "42" }] } }`,
    source: "MCP 2025-11-25, schema: CallToolResult",
    *find(view) {
      for (const { call, exchange } of callsOf(view)) {
        const { answer } = exchange;
        if (answer === undefined) continue;
        const result = resultOf(exchange);
        const problem =
          answer.malformed ??
          (result === undefined
            ? errorOf(exchange) === undefined
              ? "it has neither a result nor an error"
              : undefined
            : (contentProblem(result) ??
              (result["content"] === undefined && result["structuredContent"] === undefined
                ? "it has no content"
                : undefined)));
        if (problem !== undefined) yield aboutCall(call, exchange, problem);
      }
    },
  },
  "call/output-schema": {
    severity: "error",
    title: "A result violates the tool's output schema",
    why: "Clients that validate results refuse the answer.",
    fix: "Give structuredContent that fits outputSchema, or correct the schema.",
    bad: `outputSchema: { required: ["sum"] }   ← { "structuredContent": { "total": 3 } }`,
    good: `outputSchema: { required: ["sum"] }   ← { "structuredContent": { "sum": 3 } }`,
    source: "MCP 2025-11-25, tools: servers must provide structured results that conform to outputSchema",
    async *find(view, { validateSchema }) {
      for (const { call, exchange } of callsOf(view)) {
        const result = resultOf(exchange);
        const tool = view.surface.tools.find(({ name }) => name === call.tool);
        const schema = tool?.definition["outputSchema"];
        if (result === undefined || !isJsonObject(schema)) continue;
        if (call.expects === "result" && refusesOwnResult(result)) {
          const said = JSON.stringify(shortened(resultText(result).trim(), 300));
          yield aboutCall(call, exchange, `the server says of its own result ${said}`);
        }
        if (result["isError"] === true) continue;
        const problem = await outputProblem(schema, result, validateSchema);
        // A schema that cannot be used is reported by the rules about schemas.
        if (problem === undefined || problem.startsWith("has an outputSchema that cannot be used")) continue;
        yield aboutCall(call, exchange, `the result ${problem}`);
      }
    },
  },
  "call/text-differs": {
    severity: "warning",
    title: "Text and structured content say different things",
    why: "Clients that know only one of the two give the model something else.",
    fix: "Give the structured content as JSON in a text block too.",
    bad: `{ "structuredContent": { "sum": 3 }, "content": [{ "type": "text", "text": "{\\"sum\\": 4}" }] }`,
    good: `{ "structuredContent": { "sum": 3 }, "content": [{ "type": "text", "text": "{\\"sum\\": 3}" }] }`,
    source: "MCP 2025-11-25, tools: structured content should also be serialized in a text block",
    *find(view) {
      for (const { call, exchange } of callsOf(view)) {
        const result = resultOf(exchange);
        const structured = result === undefined ? undefined : structuredContent(result);
        if (result === undefined || structured === undefined) continue;
        const texts = asList(result["content"]).map((block) => asObject(block)["text"]);
        const parsed = texts.flatMap((text) => (typeof text === "string" ? parseObject(text) : []));
        const [expected = {}] = parseObject(JSON.stringify(structured));
        const differences = parsed.map((value) => jsonDifference(value, expected, "equal"));
        const [first] = differences;
        if (first === undefined || differences.includes(undefined)) continue;
        const message = `the JSON in the text is not the structured content: ${first.messageFor("it")}`;
        yield aboutCall(call, exchange, message);
      }
    },
  },
  "call/error-without-flag": {
    severity: "warning",
    title: "A result reads like a failure, without isError",
    why: "If the call failed, agents and clients take it for a success. This is a guess from the text: it may be what the tool was asked for.",
    fix: "If the call failed, set isError: true.",
    bad: `{ "content": [{ "type": "text", "text": "Error: file not found" }] }`,
    good: `{ "isError": true, "content": [{ "type": "text", "text": "file not found" }] }`,
    source: "MCP 2025-11-25, tools: tool execution errors are reported with isError: true",
    *find(view) {
      for (const { call, exchange } of callsOf(view)) {
        const result = resultOf(exchange);
        if (result === undefined || result["isError"] === true) continue;
        const text = resultText(result).trim();
        const refusal = refusalIn(view, call, text);
        const message = readsLikeFailure(text)
          ? `the text begins with ${JSON.stringify(shortened(text, 60))}`
          : refusal && `${argumentsText(call)} got the text ${JSON.stringify(shortened(refusal, 60))}`;
        if (message !== undefined) yield aboutCall(call, exchange, message);
      }
    },
  },
  "call/error-without-words": {
    severity: "warning",
    title: "A failed call does not say why",
    why: "A model cannot correct its arguments.",
    fix: "Say in a text block what was wrong and what to do.",
    bad: `{ "isError": true, "content": [] }`,
    good: `{ "isError": true, "content": [{ "type": "text", "text": "path does not exist: notes.txt" }] }`,
    source: "MCP 2025-11-25, tools: tool execution errors contain actionable feedback",
    *find(view) {
      for (const { call, exchange } of callsOf(view)) {
        const result = resultOf(exchange);
        if (result?.["isError"] !== true || resultText(result).trim().length > 3) continue;
        const message = `isError is true and the text is ${JSON.stringify(resultText(result).trim())}`;
        yield aboutCall(call, exchange, message);
      }
    },
  },
  "call/never-succeeded": {
    severity: "warning",
    title: "No call with valid arguments succeeded",
    why: "The check saw no result of the tool. Generated arguments may name what does not exist; or the tool needs a network, a key or a file that was not there.",
    fix: "Give the properties of the input schema examples that work, and check where the tool can do its work.",
    bad: `→ tools/call read_file { "path": "text" }   ← { "isError": true, … "no such file" }`,
    good: `"path": { "type": "string", "examples": ["README.md"] }`,
    source: "MCP 2025-11-25, schema: CallToolResult.isError",
    *find(view) {
      const valid = callsOf(view).filter(({ call }) => call.expects === "result");
      for (const [tool, calls] of Map.groupBy(valid, ({ call }) => call.tool)) {
        const results = calls.map(({ exchange }) => resultOf(exchange)).filter(isJsonObject);
        const [first] = results;
        if (first === undefined || results.some((result) => result["isError"] !== true)) continue;
        if (results.every(refusesOwnResult)) continue;
        const message = `the first says ${JSON.stringify(shortened(resultText(first).trim(), 100))}`;
        yield { place: { tool }, message, evidence: calls.flatMap(({ exchange }) => evidenceOf(exchange)) };
      }
    },
  },
  "call/large-result": {
    severity: "warning",
    title: "A result is too large for agents",
    why: "Claude Code gives the model no result of more than 25,000 tokens: the call fails, or in newer versions the model gets the first 2 KB and the name of a file.",
    fix: "Give a part at a time: a limit with a default, a cursor, or a resource link.",
    bad: `→ tools/call list_logs { }   ← 4 MB of text`,
    good: `→ tools/call list_logs { "limit": 50 }   ← 50 lines, and "next": "…"`,
    source: "anthropics/claude-code#45766, Pimzino/spec-workflow-mcp#107, mui/material-ui#46778",
    *find(view) {
      for (const { call, exchange } of callsOf(view)) {
        const result = resultOf(exchange);
        const tokens = result === undefined ? 0 : estimateTokens(resultText(result));
        if (tokens <= maxResultTokens) continue;
        const message = `about ${tokens.toLocaleString("en")} tokens (estimate) for ${argumentsText(call)}`;
        yield aboutCall(call, exchange, message);
      }
    },
  },
  "call/parameters-not-tried": {
    severity: "info",
    title: "Not all parameters of a tool were tried with invalid values",
    why: "Nothing is known about how the tool takes invalid values of the others.",
    fix: "Give the tool fewer parameters: no model fills in so many.",
    bad: `properties: { value_1: { … }, …, value_3900: { … } }`,
    good: `properties: { values: { type: "array", items: { … } } }`,
    source: "the limit of mcpvals for one tool",
    *find({ spec, surface }) {
      const notCalled = new Set(spec.notCalled?.map(({ tool }) => tool));
      for (const { name, definition, evidence } of surface.tools) {
        const count = Object.keys(objectIn(definition["inputSchema"] ?? {}, "properties")).length;
        if (spec.kind !== "definitions" || notCalled.has(name) || count <= maxParametersTried) continue;
        const message = `${maxParametersTried} of ${count} parameters were candidates for invalid values`;
        yield { place: { tool: name }, message, evidence: [evidence] };
      }
    },
  },
} as const satisfies RuleTable;

/** Rules about calls of tools with generated arguments. What several calls of a tool show is one finding. */
export const callRules: RuleTable = mapValues(rulesOfCalls, (rule: Rule): Rule => ({
  ...rule,
  find: (view, context) => oncePerTool(rule.find(view, context)),
}));

/** Those of them that look at ordinary calls of the part security, too. */
export const endRules: RuleTable = Object.fromEntries(
  Object.entries(callRules).filter(([code]) => ["call/crash", "call/hang"].includes(code)),
);

async function* oncePerTool(all: Iterable<Found> | AsyncIterable<Found>): AsyncIterable<Found> {
  const byTool = new Map<string, { readonly first: Found; count: number }>();
  for await (const found of all) {
    const tool = found.place?.tool ?? "";
    const known = byTool.get(tool);
    if (known === undefined) byTool.set(tool, { first: found, count: 1 });
    else known.count += 1;
  }
  for (const { first, count } of byTool.values())
    yield count === 1 ? first : { ...first, message: `${first.message} (the first of ${count} such calls)` };
}

/** Parameters of a tool for which a check tries invalid values; required ones come first. */
export const maxParametersTried = 50;

/** Claude Code's limit of a result, in tokens. */
const maxResultTokens = 25_000;

function readsLikeFailure(text: string): boolean {
  return failure.test(text) || parseObject(text).some(tellsFailure);
}

/** How texts of failures begin, also after a symbol or a mark of formatting. */
const failure =
  /^[^\p{L}\p{N}{[]{0,8}(?:(?:error|exception|traceback|fatal|failed)\b|\w+(?:error|exception)\b\s*[:(])/iu;

/** Whether an answer in JSON has a member that tells of a failure; what a validator found is not a failure of it. */
function tellsFailure({ status, success, ok, error, valid }: JsonObject): boolean {
  const isText = typeof error === "string" && error !== "" && valid === undefined;
  return isText || success === false || ok === false || status === "error" || status === "failed";
}

/** Where a text says that arguments are refused, of a call with invalid ones; undefined: nowhere. */
function refusalIn(view: CheckView, call: PlannedCall, text: string): string | undefined {
  if (call.expects !== "refusal") return undefined;
  const properties = objectIn(inputSchemaOf(view, call), "properties");
  const names = [...Object.keys(properties).slice(0, maxNames), ...Object.keys(call.args)].map(comparable);
  const searched = comparable(text.slice(0, maxSearched));
  const isAt = (name: string, start: number): boolean =>
    name !== "" &&
    searched.startsWith(name, start) &&
    !/\w/.test(searched.charAt(start - 1) + searched.charAt(start + name.length));
  for (const { 0: words, index, groups = {} } of searched.matchAll(refusals)) {
    const { before, after } = groups;
    const end = index + words.length;
    const isRefusal =
      (before === undefined && after === undefined) ||
      names.some((name) => isAt(name, before === undefined ? index - name.length : end));
    if (isRefusal) return text.slice(index);
  }
  return undefined;
}

/** Characters of a text, and names of parameters, that are searched for a refusal. */
const maxSearched = 20_000;
const maxNames = 100;

/** Words of refusals: those that are enough, those before the name of a parameter, and those after one. */
const refusals =
  /\b(?:must be (?:one of|an? (?:string|number|integer|boolean|array|object))|expected (?:an? )?\w+,? (?:but )?(?:received|got)|(?:accepted|allowed|valid) (?:values|options)\b|(?:invalid|unknown|unexpected|unrecognized|missing required) (?:input|type|arguments?|parameters?|propert(?:y|ies)|keys?)\b)|\b(?<before>(?:invalid|unknown|unsupported|unrecognized|unexpected|missing)(?: (?:required|value|argument|parameter|for|the)){0,3}[\s:"'`*(]{1,5})|(?<after>["'`*)]{0,3}:? {0,2}\b(?:must (?:be|have|match|not)|should be|cannot be|is (?:required|missing|invalid|not (?:an?|one|valid|allowed|supported)))\b)/g;

/** In lower case, with spaces between words; of the same length, unlike what toLowerCase gives of some letters. */
function comparable(text: string): string {
  return text.replaceAll(/[A-Z]+/g, (letters) => letters.toLowerCase()).replaceAll("_", " ");
}

interface CallView {
  readonly call: PlannedCall;
  readonly exchange: Exchange;
  readonly probe: ProbeView;
}

/**
 * The planned calls that were made; in the part security ordinary ones, without tools of which the first call, which the part calls makes too,
 * got no answer: that is reported there.
 */
function callsOf({ spec, probes }: CheckView): readonly CallView[] {
  const made = probes.flatMap((probe) => {
    const { call } = probe;
    const [exchange] = exchangesOf(probe.exchanges, "tools/call");
    return call === undefined || exchange === undefined ? [] : [{ call, exchange, probe }];
  });
  if (spec.kind !== "security") return made;
  const leftOut = new Set(spec.notCalled?.map(({ tool }) => tool));
  const ordinary = made.filter(({ call }) => call.attack === undefined);
  return [...Map.groupBy(ordinary, ({ call }) => call.tool)].flatMap(([tool, calls]) =>
    leftOut.has(tool) || calls[0]?.exchange.answer !== undefined ? calls : [],
  );
}

/** Whether a result is none of a failure, as far as its flag and its text show. */
export function hasSucceeded(result: JsonObject | undefined): boolean {
  return result !== undefined && result["isError"] !== true && !readsLikeFailure(resultText(result).trim());
}

/** How many calls with valid arguments were made, and how many succeeded. */
export function validCalls(view: CheckView): { readonly made: number; readonly succeeded: number } {
  const valid = callsOf(view).filter(({ call }) => call.expects === "result");
  return {
    made: valid.length,
    succeeded: valid.filter(({ exchange }) => hasSucceeded(resultOf(exchange))).length,
  };
}

/** Whether an error is that of the official SDKs for a result of the tool that does not fit its output schema. */
function refusesOwnResult(result: JsonObject): boolean {
  return result["isError"] === true && resultText(result).includes("Output validation error: ");
}

/** Calls of one sort that should have been refused, and were not: one finding for each tool. */
function* acceptedCalls(view: CheckView, isOfSort: (call: PlannedCall) => boolean): Iterable<Found> {
  const invalid = callsOf(view).filter(({ call }) => call.expects === "refusal" && isOfSort(call));
  for (const calls of Map.groupBy(invalid, ({ call }) => call.tool).values()) {
    const accepted = calls.filter(({ call, exchange }) => {
      const result = resultOf(exchange);
      if (result === undefined || result["isError"] === true) return false;
      const text = resultText(result).trim();
      // A result that reads like a failure is reported by call/error-without-flag.
      return !readsLikeFailure(text) && refusalIn(view, call, text) === undefined;
    });
    const [first] = accepted;
    if (first === undefined) continue;
    const why = accepted.map(({ call }) => call.why).join(", ");
    const message = `${accepted.length} of ${calls.length} invalid calls succeeded: ${why}`;
    yield aboutCall(first.call, first.exchange, message);
  }
}

function hasUnknownArgument(view: CheckView, call: PlannedCall): boolean {
  const properties = objectIn(inputSchemaOf(view, call), "properties");
  return Object.keys(call.args).some((name) => !Object.hasOwn(properties, name));
}

function inputSchemaOf({ surface }: CheckView, { tool }: PlannedCall): Json {
  return surface.tools.find(({ name }) => name === tool)?.definition["inputSchema"] ?? {};
}

/** Calls that were given up, since the server did not answer in time, also those that it answered later. */
function unansweredCalls(view: CheckView): readonly CallView[] {
  return callsOf(view).filter(({ exchange, probe }) => isUnanswered(exchange, probe));
}

function noAnswer({ call, exchange, probe }: CallView, also: string): Found {
  const [ping] = exchangesOf(probe.exchanges, "ping");
  const waited = ping === undefined ? 0 : (ping.request.at - exchange.request.at) / 1000;
  return {
    place: { tool: call.tool },
    message: `no answer to ${argumentsText(call)} within ${Math.round(waited)} s; ${also}`,
    evidence: [exchange.request.seq, ...(ping === undefined ? [] : [ping.request.seq])],
  };
}

function aboutCall({ tool }: PlannedCall, exchange: Exchange, message: string): Found {
  return { place: { tool }, message, evidence: evidenceOf(exchange) };
}

function evidenceOf({ request, answer }: Exchange): readonly number[] {
  return answer === undefined ? [request.seq] : [request.seq, answer.seq];
}

function argumentsText({ args, why }: PlannedCall): string {
  return `${shortened(JSON.stringify(args), 100)} (${why})`;
}

/** The object that a text has as JSON, without members that are null, which many libraries leave out. */
function parseObject(text: string): readonly JsonObject[] {
  if (!text.trimStart().startsWith("{")) return [];
  try {
    const value = JSON.parse(text, function (this: unknown, _key, member: Json) {
      return member === null && !Array.isArray(this) ? undefined : member;
    }) as Json;
    return isJsonObject(value) ? [value] : [];
  } catch {
    return [];
  }
}
