import { asObject, isJsonObject, type Json, type JsonObject, withoutUndefined } from "../base/json.ts";
import type { CheckSpec, PlannedCall, PlannedRead, ProbeName, ServerIdentity } from "../model/check.ts";
import { shortened } from "../base/visible-text.ts";
import { errorCodes } from "../model/error-codes.ts";
import { type EventOf, eventsOf, type TraceEvent } from "../model/event.ts";
import type { Exchange, Trajectory } from "../trace/trajectory.ts";
import { listNames } from "../base/did-you-mean.ts";
import type { ValidateSchema } from "../expect/tool-result.ts";
import type { ClientEffects, FindingPlace, Severity } from "../model/finding.ts";

/** An item of a list of the server, as it came, with the event of its page. */
export interface Listed {
  /** What identifies it: the name of a tool or prompt, the URI of a resource; its place in the list, such as `tools[2]`, when it has none. */
  readonly name: string;
  readonly isNamed: boolean;
  readonly definition: JsonObject;
  /** The same, with integers that a number cannot hold as texts; absent: there are none. */
  readonly exact?: JsonObject;
  readonly evidence: number;
}

/** What a server says about itself. */
export interface Surface extends ServerIdentity {
  readonly instructions: string;
  readonly capabilities: JsonObject;
  readonly tools: readonly Listed[];
  readonly resources: readonly Listed[];
  readonly resourceTemplates: readonly Listed[];
  readonly prompts: readonly Listed[];
  /** Of each list that was not given as a whole, the request that was refused, not answered, or not the last page. */
  readonly incomplete: readonly Exchange[];
  /** Number of the event with the result of the handshake; absent: there was none. */
  readonly evidence?: number;
}

/** One probe of a check: what was tried, and everything that happened meanwhile. */
export interface ProbeView {
  readonly probe: ProbeName;
  /** The call that it made, for a probe of the kind `calls`. */
  readonly call?: PlannedCall;
  /** The resource that it read, or the prompt that it got, for a probe of the kind `reads`. */
  readonly read?: PlannedRead;
  readonly events: readonly TraceEvent[];
  /** Requests that were sent meanwhile, with their answers. */
  readonly exchanges: readonly Exchange[];
  readonly started: number;
  /** Number of its last event. */
  readonly finished: number;
}

/** What rules look at: one trial of a check. */
export interface CheckView {
  readonly spec: CheckSpec;
  readonly server: string;
  readonly events: readonly TraceEvent[];
  readonly exchanges: readonly Exchange[];
  readonly probes: readonly ProbeView[];
  /** The first listing of the trial. */
  readonly surface: Surface;
}

export function readCheck({ task, events, exchanges }: Trajectory, spec: CheckSpec): CheckView {
  const probes = readProbes(events, exchanges, spec);
  return {
    spec,
    server: task.servers[0] ?? "",
    events,
    exchanges,
    probes,
    surface: readSurface(probes[0]?.exchanges ?? exchanges),
  };
}

/** The probes in the order in which they began; those that ran at the same time as others last, in the order of their series. */
function readProbes(
  events: readonly TraceEvent[],
  exchanges: readonly Exchange[],
  spec: CheckSpec,
): readonly ProbeView[] {
  const exchangesBySeries = Map.groupBy(exchanges, ({ request }) => seriesOf(request));
  return [...Map.groupBy(events, seriesOf)]
    .toSorted(([a], [b]) => a - b)
    .flatMap(([series, own]) => readSeries(own, exchangesBySeries.get(series) ?? [], spec));
}

/** 0: no other probe runs. */
function seriesOf({ series = 0 }: Pick<TraceEvent, "series">): number {
  return series;
}

/** The probes of events and exchanges in the order of their numbers, of which there may be thousands. */
function readSeries(
  events: readonly TraceEvent[],
  exchanges: readonly Exchange[],
  { calls = [], reads = [] }: CheckSpec,
): readonly ProbeView[] {
  let next = 0;
  return events.flatMap((event, index): readonly ProbeView[] => {
    if (event.type !== "probe.started") return [];
    let end = index + 1;
    while (end < events.length && events[end - 1]?.type !== "probe.finished") end += 1;
    const finished = events[end - 1]?.seq ?? event.seq;
    const sent = (): number => exchanges[next]?.request.seq ?? Infinity;
    while (sent() < event.seq) next += 1;
    const first = next;
    while (sent() <= finished) next += 1;
    const call = event.call === undefined ? undefined : calls[event.call];
    const read = event.read === undefined ? undefined : reads[event.read];
    return [
      {
        probe: event.probe,
        // The planned ones themselves, by which probes of the same call are found.
        ...(call === undefined ? {} : { call }),
        ...(read === undefined ? {} : { read }),
        events: events.slice(index, end),
        exchanges: exchanges.slice(first, next),
        started: event.seq,
        finished,
      },
    ];
  });
}

/** The result in an exchange's answer; undefined: an error, or no answer. */
export function resultOf({ answer }: Exchange): JsonObject | undefined {
  const result = answer?.message["result"];
  return isJsonObject(result) ? result : undefined;
}

/** The JSON-RPC error in an exchange's answer; undefined: a result, or no answer. */
export function errorOf({ answer }: Exchange): JsonObject | undefined {
  const error = answer?.message["error"];
  return isJsonObject(error) ? error : undefined;
}

export function methodOf({ request }: Exchange): string {
  return text(request.message["method"]);
}

/** An error in an exchange's answer as words: its code and message. */
export function errorText(exchange: Exchange): string {
  const { code, message } = errorOf(exchange) ?? {};
  return shortened(`${JSON.stringify(code ?? null)} ${JSON.stringify(message ?? null)}`, 120);
}

/** The HTTP error status of the response to an exchange's request; undefined: there is none. */
export function statusOf({ request }: Exchange, events: readonly TraceEvent[]): number | undefined {
  const { id } = request.message;
  return eventsOf(events, "http.response").find(
    ({ requestIds, status }) => status >= 400 && requestIds.includes(id as number),
  )?.status;
}

/** How a server ended, in the same words each time: how far it was over a limit of its sandbox depends on the moment. */
export function endText({ exitCode, signal, limit }: EventOf<"server.exited">): string {
  if (limit !== undefined)
    return `a limit of its sandbox: ${limit.replace(/\d+ processes/, "too many processes").replace(/[\d.]+ MB of memory/, "too much memory")}`;
  return exitCode === null ? String(signal) : `exit code ${exitCode}`;
}

/** How a server ended, with what it said on stderr: the line with the error, else the last one. */
function exitText(exited: EventOf<"server.exited">, { events }: ProbeView): string {
  const lines = eventsOf(events, "server.stderr")
    .map((event) => event.text)
    .join("")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const said = lines.findLast((line) => /\b\w*(?:error|exception)\b/i.test(line)) ?? lines.at(-1);
  const how = `the server ended (${endText(exited)})`;
  return said === undefined ? how : `${how}: ${shortened(said, 160)}`;
}

/**
 * How the server or the connection ended before it answered a request, and the number of the event; undefined: it answered,
 * neither ended, or `protocol/broken-connection` reports it.
 */
export function endBefore(
  exchange: Exchange,
  probe: ProbeView,
): { readonly how: string; readonly seq: number } | undefined {
  return exchange.answer === undefined ? endIn(probe) : undefined;
}

/** The same of a probe, whether the server had answered or not. */
export function endIn(probe: ProbeView): { readonly how: string; readonly seq: number } | undefined {
  if (breakIn(probe) !== undefined) return undefined;
  const [exited] = eventsOf(probe.events, "server.exited");
  if (exited !== undefined) return { how: exitText(exited, probe), seq: exited.seq };
  const [finished] = eventsOf(probe.events, "probe.finished");
  return finished?.outcome === "lost" ? { how: "the connection ended", seq: probe.finished } : undefined;
}

/** Whether a request was not answered in time, and the server was pinged because of that. */
export function isUnanswered(exchange: Exchange, probe: ProbeView): boolean {
  return (
    (exchange.answer === undefined || exchange.answer.seq > probe.finished) &&
    exchangesOf(probe.exchanges, "ping").length > 0 &&
    breakIn(probe) === undefined &&
    !isAnsweredAsText(exchange, probe)
  );
}

/** Whether an answer in time has the request's id as a text, which `protocol/malformed-message` reports. */
function isAnsweredAsText({ request }: Exchange, { events }: ProbeView): boolean {
  const { id } = request.message;
  return eventsOf(events, "mcp.message").some(
    ({ direction, message }) =>
      direction === "server-to-client" &&
      typeof id === "number" &&
      asObject(message)["id"] === String(id) &&
      asObject(message)["method"] === undefined,
  );
}

/** Whether the server answered a ping. */
export function answersPing({ exchanges }: ProbeView): boolean {
  return exchangesOf(exchanges, "ping").some(({ answer }) => answer !== undefined);
}

/** Why the connection could not go on, although the server did; undefined: it could. */
export function breakIn({ events }: ProbeView): string | undefined {
  const [finished] = eventsOf(events, "probe.finished");
  const { code = "", message } = finished?.error ?? {};
  if (finished?.outcome !== "lost") return undefined;
  if (code === "server/message-too-large") return `${message}, which is all that mcpvals reads`;
  return code === "server/protocol-error" ? message : undefined;
}

export function answerText(exchange: Exchange, probe: ProbeView): string {
  if (errorOf(exchange) !== undefined) return `the error ${errorText(exchange)}`;
  if (exchange.answer !== undefined)
    return resultOf(exchange) === undefined ? "an answer without a result" : "a result";
  const status = statusOf(exchange, probe.events);
  const [{ error: failure } = {}] = eventsOf(probe.events, "probe.finished");
  const said = failure?.code === "server/http-status" ? (failure.detail ?? "").trim() : "";
  if (status !== undefined)
    return `no answer: HTTP ${status}${said === "" ? "" : `: ${JSON.stringify(shortened(said, 80))}`}`;
  const [exited] = eventsOf(probe.events, "server.exited");
  if (exited !== undefined && !exited.expected) return `no answer: ${exitText(exited, probe)}`;
  const [finished] = eventsOf(probe.events, "probe.finished");
  if (finished?.error !== undefined) return `no answer: ${finished.error.message}`;
  if (finished?.outcome === "lost") return "no answer: the connection ended";
  // A probe that got no session did nothing but wait for one.
  return finished !== undefined && handshakesOf(probe).at(-1) === exchange
    ? `no answer within ${Number((finished.durationMs / 1000).toFixed(1))} s`
    : "no answer in time";
}

/** What came in place of a page of a list: `tools/list got no answer in time`. */
export function refusedListText(exchange: Exchange, probe: ProbeView): string {
  const method = methodOf(exchange);
  if (resultOf(exchange) === undefined) return `${method} got ${answerText(exchange, probe)}`;
  const key = listKeys[method];
  const odd = itemsOf(exchange)?.flatMap((item, index) => (isJsonObject(item) ? [] : [`${key}[${index}]`]));
  const what =
    odd === undefined
      ? `${key} is not a list`
      : `${listNames(odd)} ${odd.length === 1 ? "is not an object" : "are not objects"}`;
  return `${method} got a result in which ${what}`;
}

/** What to do where a server ended by itself: what it was asked has little to do with it. */
export function fixOfLoss(probe: ProbeView): { readonly fix?: string } {
  return eventsOf(probe.events, "server.exited").some(({ expected }) => !expected)
    ? {
        fix: "Find out why the server ended: the trace has what it wrote to stderr. It may lack an argument, an environment variable or a service.",
      }
    : {};
}

export function exchangesOf(exchanges: readonly Exchange[], ...methods: readonly string[]): Exchange[] {
  return exchanges.filter(({ request }) => methods.includes(text(request.message["method"])));
}

/** The requests of a probe that begin a session. */
export function handshakesOf({ exchanges }: ProbeView): readonly Exchange[] {
  return exchangesOf(exchanges, "initialize", "server/discover");
}

export function declaredCapabilities(probes: CheckView["probes"]): JsonObject | undefined {
  const hello = probes
    .flatMap(handshakesOf)
    .map(resultOf)
    .find((result) => result !== undefined);
  const capabilities = hello?.["capabilities"];
  return isJsonObject(capabilities) ? capabilities : undefined;
}

export function isModern(probes: CheckView["probes"]): boolean {
  return probes.some(({ exchanges }) =>
    exchangesOf(exchanges, "server/discover").some((each) => resultOf(each)?.["supportedVersions"]),
  );
}

/** What exchanges say about the server; of each method those before a second first page. */
export function readSurface(exchanges: readonly Exchange[]): Surface {
  const handshakes = exchangesOf(exchanges, "initialize", "server/discover");
  // A server of the modern era refuses the first one.
  const handshake = handshakes.find((each) => resultOf(each) !== undefined);
  const hello = handshake === undefined ? {} : (resultOf(handshake) ?? {});
  const info = asObject(serverInfoIn(hello)) as JsonObject;
  // The modern era has no handshake: each request says its version.
  const meta = asObject(handshake?.params["_meta"]) as JsonObject;
  const evidence = handshake?.answer?.seq;
  return {
    name: text(info["name"]),
    version: text(info["version"]),
    protocolVersion: text(hello["protocolVersion"] ?? meta["io.modelcontextprotocol/protocolVersion"]),
    instructions: text(hello["instructions"]),
    capabilities: isJsonObject(hello["capabilities"]) ? hello["capabilities"] : {},
    tools: listed(exchanges, "tools/list", "name"),
    resources: listed(exchanges, "resources/list", "uri"),
    resourceTemplates: listed(exchanges, "resources/templates/list", "uriTemplate"),
    prompts: listed(exchanges, "prompts/list", "name"),
    incomplete: listMethods.flatMap((method) => incompletePage(pagesOf(exchanges, method)) ?? []),
    ...(evidence === undefined ? {} : { evidence }),
  };
}

/** What the result of a handshake says of the program; since 2026-07-28 it is in `_meta`. */
export function serverInfoIn(hello: JsonObject): unknown {
  return hello["serverInfo"] ?? asObject(hello["_meta"])["io.modelcontextprotocol/serverInfo"];
}

/**
 * What a server lists and its instructions, without what changes from session to session, without lists that were not given as a whole,
 * and without instructions where the record has no handshake. `exact`: integers that a number cannot hold are texts.
 */
export function listingOf(surface: Surface, { exact: isExact = false } = {}): JsonObject {
  const { tools, resources, resourceTemplates, prompts, instructions, incomplete, evidence } = surface;
  const missing = new Set(incomplete.map((page) => listKeys[methodOf(page)]));
  const lists = { tools, resources, resourceTemplates, prompts };
  const given = Object.entries(lists)
    .filter(([key]) => !missing.has(key))
    .map(([key, items]) => [
      key,
      items.map(({ definition, exact: whole = definition }) => (isExact ? whole : definition)),
    ]);
  return { ...(evidence === undefined ? {} : { instructions }), ...Object.fromEntries(given) };
}

/** The listing of a server that lists nothing. */
export const emptyListing: JsonObject = { tools: [], resources: [], resourceTemplates: [], prompts: [] };

/** Where the result of each list has its items. */
export const listKeys: Readonly<Record<string, string>> = {
  "tools/list": "tools",
  "resources/list": "resources",
  "resources/templates/list": "resourceTemplates",
  "prompts/list": "prompts",
};
export const listMethods: readonly string[] = Object.keys(listKeys);

/** The items of a page of a list, objects or not; undefined: the answer has none. */
export function itemsOf(page: Exchange): readonly Json[] | undefined {
  const items = resultOf(page)?.[listKeys[methodOf(page)] ?? ""];
  return Array.isArray(items) ? (items as readonly Json[]) : undefined;
}

/** Whether an exchange gave a page of a list, of objects only; a server without templates need not know that request. */
export function givesList(page: Exchange): boolean {
  const method = methodOf(page);
  if (itemsOf(page)?.every(isJsonObject) === true) return true;
  return method === "resources/templates/list" && errorOf(page)?.["code"] === errorCodes.methodNotFound;
}

function incompletePage(pages: readonly Exchange[]): Exchange | undefined {
  const last = pages.at(-1);
  const isEndless = last !== undefined && typeof resultOf(last)?.["nextCursor"] === "string";
  return pages.find((page) => !givesList(page)) ?? (isEndless ? last : undefined);
}

/** The pages of a list, those before a second first page. */
function pagesOf(exchanges: readonly Exchange[], method: string): readonly Exchange[] {
  const pages = exchangesOf(exchanges, method);
  const second = pages.findIndex(({ params }, index) => index > 0 && params["cursor"] === undefined);
  return pages.slice(0, second === -1 ? undefined : second);
}

function listed(exchanges: readonly Exchange[], method: string, id: string): Listed[] {
  const items = pagesOf(exchanges, method).flatMap((page) => {
    const whole = exactItemsOf(page);
    const evidence = page.answer?.seq ?? page.request.seq;
    return (itemsOf(page) ?? []).map((item, index) => ({ item, whole: whole?.[index], evidence }));
  });
  return items.flatMap(({ item, whole, evidence }, index): Listed[] => {
    if (!isJsonObject(item)) return [];
    const own = text(item[id]);
    const name = own === "" ? `${listKeys[method]}[${index}]` : own;
    const asTexts = isJsonObject(whole) ? { exact: whole } : {};
    return [{ name, isNamed: own !== "", definition: item, ...asTexts, evidence }];
  });
}

/** The items of a page, with integers that a number cannot hold as texts; undefined: the page has none of these. */
function exactItemsOf(page: Exchange): readonly Json[] | undefined {
  const { raw = "" } = page.answer ?? {};
  if (!/\d{16}/.test(raw)) return undefined;
  const { result } = asObject(exactJson(raw));
  const items = asObject(result)[listKeys[methodOf(page)] ?? ""];
  return Array.isArray(items) ? (items as readonly Json[]) : undefined;
}

function exactJson(text: string): unknown {
  try {
    return JSON.parse(text, withExactIntegers);
  } catch {
    return undefined;
  }
}

/** For `JSON.parse`, which gives the text of a number where the engine has it. */
function withExactIntegers(_: string, value: Json, { source = "" }: { readonly source?: string } = {}): Json {
  const isRounded = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
  return isRounded && longInteger.test(source) ? source : value;
}

/** An integer that may be too large for a number. */
export const longInteger: RegExp = /^-?\d{16,}$/;

function text(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

/** One thing that a rule found; its severity, and what to do unless it says, are those of the rule. */
export interface Found {
  /** Absent: it is about the whole server. */
  readonly place?: FindingPlace;
  /** What is wrong, in one sentence, with the value that is wrong. */
  readonly message: string;
  /** Numbers of the events that show it. */
  readonly evidence: readonly number[];
  /** What known clients do with it; absent: it concerns every client. */
  readonly clients?: ClientEffects;
  /** What to do, where the rule's general advice can be made more exact. */
  readonly fix?: string;
}

/** What an exchange of a probe shows. */
export function about({ request, answer }: Exchange, { finished }: ProbeView, message: string): Found {
  return { message, evidence: [request.seq, answer?.seq ?? finished] };
}

/** One finding for each problem of some events, since a server often repeats itself. */
export function* oncePerProblem<T extends { readonly seq: number }>(
  events: readonly T[],
  problemOf: (event: T) => string | undefined,
): Iterable<Found> {
  for (const [message, same] of Map.groupBy(events, problemOf))
    if (message !== undefined) yield { message, evidence: same.slice(0, maxEvidence).map(({ seq }) => seq) };
}

/** Events that one finding names at most. */
const maxEvidence = 10;

/** What is found about a tool, and what clients do with it. */
export function aboutTool({ name, evidence }: Listed, message: string, clients?: ClientEffects): Found {
  return withoutUndefined({ place: { tool: name }, message, evidence: [evidence], clients });
}

/** The outside world as rules see it. */
export interface RuleContext {
  /** Throws {@link OutOfTime} where the schemas of a server take too long, which ends the rule. */
  readonly validateSchema: ValidateSchema;
  /** Codes of the rules that were ended before. */
  readonly outOfTime?: readonly string[];
  /** Schemas that earlier rules could not validate within a limit of mcpvals, with the reason. */
  readonly notValidated?: ReadonlyMap<Json, string>;
}

/** The time for validating what a server declares is spent. */
export class OutOfTime extends Error {}

export interface Weakness {
  /** Absent: it is none of these. */
  readonly owasp?: keyof typeof owaspTop10;
  readonly cwe: number;
}

/** The OWASP MCP Top 10 (2025). */
export const owaspTop10 = {
  MCP01: "Token mismanagement and secret exposure",
  MCP02: "Privilege escalation via scope creep",
  MCP03: "Tool poisoning",
  MCP04: "Software supply chain attacks and dependency tampering",
  MCP05: "Command injection and execution",
  MCP06: "Prompt injection via contextual payloads",
  MCP07: "Insufficient authentication and authorization",
  MCP08: "Lack of audit and telemetry",
  MCP09: "Shadow MCP servers",
  MCP10: "Context injection and over-sharing",
} as const;

/** A kind of defect of a server: its check and its documentation (docs/reference/findings.md) in one record. */
export interface Rule {
  readonly severity: Severity;
  /** Whether it looks only when its code is enabled. */
  readonly onRequest?: true;
  /** What is wrong, without the particulars: the heading of its documentation. */
  readonly title: string;
  /** Why it matters to clients and agents. */
  readonly why: string;
  /** What to do. */
  readonly fix: string;
  /** A short example with the defect, and the same without it. */
  readonly bad: string;
  readonly good: string;
  /** What the rule rests on: a section of a specification, or a public issue as OWNER/REPOSITORY#NUMBER. */
  readonly source: string;
  /** Which weakness it shows: of the OWASP MCP Top 10 (2025), and of the CWE list. Absent: it is not about security. */
  readonly weakness?: Weakness;
  find(view: CheckView, context: RuleContext): Iterable<Found> | AsyncIterable<Found>;
}

/** Rules by their codes, `GROUP/NAME`. */
export type RuleTable = Readonly<Record<string, Rule>>;
