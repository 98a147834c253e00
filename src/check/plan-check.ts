import { basename } from "node:path";
import type {
  CalledKind,
  CapabilityProfile,
  CheckKind,
  CheckSpec,
  ConformanceSuite,
  NotCalled,
  PlannedCall,
  PlannedRead,
  ServerSummary,
} from "../model/check.ts";
import type { CheckSettings } from "../model/check-settings.ts";
import type { ServerSpec } from "../model/server.ts";
import type { Task } from "../model/task.ts";
import { McpvalsError } from "../base/error.ts";
import { type Listed, listingOf, methodOf, OutOfTime, readCheck, type Surface } from "./check-view.ts";
import {
  actionsOf,
  type AttackPlace,
  attacksOn,
  callsInFolder,
  callsWithLastValues,
  type Callable,
  callablesOf,
  endpointCalls,
  realisticCalls,
} from "./attacks.ts";
import { countOf } from "../base/visible-text.ts";
import { failedSecondStart } from "./lists.ts";
import { requestOf } from "./planned-requests.ts";
import { loopback } from "./requests.ts";
import {
  asList,
  asObject,
  exact,
  isJsonObject,
  type Json,
  type JsonObject,
  mapValues,
} from "../base/json.ts";
import { type EventBody, eventsOf, type TraceEvent } from "../model/event.ts";
import { buildTrajectory } from "../trace/trajectory.ts";
import type { ValidateSchema } from "../expect/tool-result.ts";
import { lostAtStart } from "../servers/connections/host.ts";
import { planConformance } from "./conformance-suite.ts";
import { generateCalls } from "./generate-calls.ts";
import { probeServer } from "./server-prober.ts";

export interface CheckOptions extends Pick<CheckSettings, "calls" | "disable" | "accepted" | "callMs"> {
  /** The servers run in a sandbox with planted secrets, where that is possible, and what they touch is watched. */
  readonly security: boolean;
  /** The committed profile of a server; `reported` is the name that it gives itself. */
  readonly profileOf?: ((server: string, reported: string) => CapabilityProfile | undefined) | undefined;
  /** The committed listing that a server's must equal; `reported` is the name that it gives itself. Absent: none is compared. */
  readonly snapshotOf?: ((server: string, reported: string) => JsonObject) | undefined;
  readonly suite?: ConformanceSuite | undefined;
  readonly signal: AbortSignal;
  /** Makes what validates the schemas of one server; that throws OutOfTime, and the signal's reason. */
  readonly validationOf: () => ValidateSchema;
}

/** What was recorded of a server when the check was planned; `error`: why there was no session, where that is not its fault. */
export interface PlanRecord {
  readonly events: readonly EventBody[];
  readonly error: McpvalsError | undefined;
  readonly durationMs: number;
}

export interface CheckPlan {
  readonly tasks: readonly Task[];
  /** By the name of the task that reports it: that of the definitions, or of the handshake of a server without a session. */
  readonly records: ReadonlyMap<string, PlanRecord>;
}

/**
 * Asks each server what it offers, and makes the tasks that check it. A server that gives no list is checked as far as that goes.
 * Throws McpvalsError `server/spawn-failed` and others for what is not a server's fault, unless others can be checked.
 */
export async function planCheck(
  servers: Readonly<Record<string, ServerSpec>>,
  options: CheckOptions,
): Promise<CheckPlan> {
  const discoveries = new Map(
    await Promise.all(
      Object.entries(servers).map(async ([name, spec]) => {
        const watching = options.security ? await planWatching(spec, options.signal) : undefined;
        return [name, await discover(name, spec, { ...options, watching })] as const;
      }),
    ),
  );
  const errors = [...discoveries.values()].map(({ record }) => record.error);
  if (errors.every((error) => error !== undefined) && errors[0] !== undefined) throw errors[0];
  const tasks = await Promise.all(
    Object.entries(servers).map(([name, spec]) => tasksOf(name, spec, discoveries, options)),
  );
  const records = [...discoveries].map(
    ([name, { record, hasSession }]) =>
      [nameOf(name, hasSession ? "definitions" : "handshake"), record] as const,
  );
  return { tasks: tasks.flat(), records: new Map(records) };
}

/** What a server lists in a session of its own, and whether it can run only once at a time. */
interface Discovery {
  readonly surface: Surface;
  readonly runsOnce: boolean;
  readonly hasSession: boolean;
  readonly record: PlanRecord;
  /** Absent: the check is not about security. */
  readonly watching: Watching | undefined;
}

/** Whether a server is confined, what is seen of it, and why not all. */
type Watching = Pick<CheckSpec, "confined" | "watched" | "answers" | "notWatched">;

async function planWatching(spec: ServerSpec, signal: AbortSignal): Promise<Watching> {
  const { findTracer, whyNoAnswers, whyNotConfined } = await import("./confinement.ts");
  const notWatched = await whyNotConfined(spec, signal);
  if (notWatched !== undefined) return { notWatched };
  if ((await findTracer(signal)) !== undefined) {
    const lack = await whyNoAnswers(signal);
    if (lack === undefined) return { confined: true, watched: "all", answers: true };
    const untried = "pages that redirect, and names that only a name server knows, were not tried";
    return { confined: true, watched: "all", notWatched: `${untried}: ${lack}` };
  }
  return {
    confined: true,
    watched: "files",
    notWatched: "strace is not there, or does not work here, so that only changes of files are seen",
  };
}

/** What a server offers. Throws the signal's reason. */
async function discover(
  server: string,
  spec: ServerSpec,
  { callMs, signal, watching }: Pick<CheckOptions, "callMs" | "signal"> & Pick<Discovery, "watching">,
): Promise<Discovery> {
  const events: TraceEvent[] = [];
  const bodies: EventBody[] = [];
  const confined = exact({ confined: watching?.confined });
  const check: CheckSpec = { kind: "definitions", disable: [], ...confined };
  const emit = (body: EventBody): number => {
    bodies.push(body);
    return events.push({ ...body, seq: bodies.length, at: performance.now(), trial: "" });
  };
  let error: McpvalsError | undefined;
  const started = performance.now();
  try {
    await probeServer({ server, spec, check, signal, callMs, emit });
  } catch (cause) {
    signal.throwIfAborted();
    if (!(cause instanceof McpvalsError)) throw cause;
    error = cause;
  }
  const durationMs = performance.now() - started;
  const task = checkTask(server, check);
  const trial = { id: "", task: task.name, agent: null, attempt: 1 };
  const { surface, probes } = readCheck(buildTrajectory(trial, task, events), check);
  const runsOnce = failedSecondStart(probes) !== undefined;
  if (surface.evidence === undefined)
    error ??= watching?.confined === true ? noConfinedSession(server, spec, events) : exitAtStart(events);
  const hasSession = error === undefined && surface.evidence !== undefined;
  return { surface, runsOnce, hasSession, record: { events: bodies, error, durationMs }, watching };
}

/** The error for a program that ended before it had answered anything, since it may lack an argument, a variable or a service. */
function exitAtStart(events: readonly TraceEvent[]): McpvalsError | undefined {
  const { code, message = "", hint, detail } = eventsOf(events, "probe.finished")[0]?.error ?? {};
  if (code !== "server/exited") return undefined;
  return lostAtStart(new McpvalsError(code, message, exact({ hint, detail })), "initialize");
}

/** The error for a program that opens no session in the sandbox: most need something that is not in it, so that it says nothing of them. */
function noConfinedSession(server: string, spec: ServerSpec, events: readonly TraceEvent[]): McpvalsError {
  const said = eventsOf(events, "server.stderr")
    .map(({ text }) => text)
    .join("")
    .trim();
  const command = spec.transport === "stdio" ? basename(spec.command) : "";
  const hasEnded = eventsOf(events, "server.exited").some(({ expected }) => !expected);
  const what = hasEnded ? "ends before it opens a session" : "does not answer initialize";
  const message = `server "${server}" ${what} in the sandbox of --security, which has no network and another home folder`;
  const cause = downloaders.includes(command)
    ? `Install it first, and name its own program: ${command} downloads it.`
    : hasEnded
      ? "What it wrote to stderr says why; it may lack a file, a variable or the network."
      : "It may wait for the network, or for a file that is not there.";
  return new McpvalsError("sandbox/no-session", message, {
    hint: `${cause} Without --security it is checked as it is.`,
    ...exact({ detail: said === "" ? undefined : said }),
  });
}

/** Programs that get a server from a registry, and then start it. */
const downloaders: readonly string[] = [
  "npx",
  "npm",
  "pnpm",
  "pnpx",
  "yarn",
  "bunx",
  "bun",
  "uvx",
  "uv",
  "pipx",
  "docker",
  "podman",
];

/** Maximum number of calls planned for a server; the calls of one tool stay together. */
const maxCalls = 500;

/** Why a tool is not called. */
const obstacles = {
  name: "it has no name",
  schema: "its inputSchema is not an object",
  none: "calls are off (--calls none)",
  safe: "not annotated readOnlyHint: true, so called only with --calls all",
  arguments: "no valid arguments could be made from its input schema",
  time: "making arguments from the input schemas takes too long",
  limit: `a check makes ${maxCalls} calls at most`,
} as const;

async function tasksOf(
  server: string,
  spec: ServerSpec,
  discoveries: ReadonlyMap<string, Discovery>,
  options: CheckOptions,
): Promise<readonly Task[]> {
  const discovery = discoveries.get(server);
  if (discovery === undefined) return [];
  const { surface, runsOnce, hasSession, watching } = discovery;
  const confined = exact({ confined: watching?.confined });
  const { calls: policy, disable, accepted: all, snapshotOf, validationOf } = options;
  const accepted = all.length === 0 ? {} : { accepted: all };
  const validateSchema = validationOf();
  if (!hasSession) return [checkTask(server, { kind: "handshake", disable, ...accepted, ...confined })];
  const folder = watching?.confined === true ? await firstFolder(spec) : undefined;
  const planned: PlannedCall[] = [];
  const notCalled: NotCalled[] = [];
  const leaveOut = (tool: string, obstacle: keyof typeof obstacles): void =>
    void notCalled.push({ tool, reason: obstacles[obstacle] });
  for (const { name, isNamed, definition } of surface.tools) {
    const { inputSchema = {} } = definition;
    if (!isNamed) leaveOut(name, "name");
    else if (policy === "none") leaveOut(name, "none");
    else if (!isJsonObject(inputSchema)) leaveOut(name, "schema");
    else if (policy === "safe" && !isReadOnly(definition)) leaveOut(name, "safe");
    else if (planned.length >= maxCalls) leaveOut(name, "limit");
    else {
      try {
        const calls = await generateCalls(name, inputSchema, validateSchema);
        planned.push(...calls, ...(await callsWithFiles(calls, inputSchema, folder, validateSchema)));
        if (calls.length === 0) leaveOut(name, "arguments");
      } catch (error) {
        if (!(error instanceof OutOfTime)) throw error;
        leaveOut(name, "time");
      }
    }
  }
  const { reads, notRead } = planReads(surface, policy);
  const snapshot = snapshotOf?.(server, surface.name);
  const profile = options.profileOf?.(server, surface.name);
  // A server that the snapshot does not know has nothing to compare.
  const lacking =
    watching?.confined === true && Object.keys(snapshot ?? {}).length > 0
      ? lackOf(profile, watching, surface)
      : undefined;
  const notWatched = [watching?.notWatched, lacking].filter((each) => each !== undefined);
  const conformance =
    options.suite === undefined
      ? undefined
      : await planConformance(options.suite, { surface, transport: spec.transport, signal: options.signal });
  const ofKind: Readonly<Record<CheckKind, Omit<CheckSpec, "kind" | "disable" | "accepted"> | undefined>> = {
    // Those that may have to wait first, so that the others run beside them.
    calls: planned.length === 0 ? { skipped: whyNothingIsCalled(surface, notCalled) } : { calls: planned },
    reads: reads.length === 0 ? undefined : { reads },
    shutdown: spec.transport === "stdio" ? {} : undefined,
    handshake: {},
    definitions: {
      about: summaryOf(surface),
      notCalled,
      notRead,
      sharedNames: sharedNames(server, discoveries),
    },
    requests: {},
    security: watching && {
      ...watching,
      ...(watching.confined === true ? await securityRequests(spec, surface, validateSchema) : {}),
      ...(hasLocalToken(spec) ? { calls: await callsWithAddress(surface, policy, validateSchema) } : {}),
      ...exact({ profile }),
      ...(watching.confined === true ? { notCalled } : {}),
      ...(notWatched.length === 0 ? {} : { notWatched: notWatched.join("; ") }),
    },
    stability: {
      listing: listingOf(surface, { exact: true }),
      ...(snapshot === undefined ? exact({ skipped: whyNothingIsCompared(surface) }) : { snapshot }),
    },
    conformance:
      conformance?.scenarios.length === 0
        ? { skipped: "no scenario of the conformance suite concerns the server" }
        : conformance && { conformance },
  };
  return Object.entries(ofKind).flatMap(([kind, rest]) =>
    rest === undefined
      ? []
      : [
          checkTask(server, {
            kind: kind as CheckKind,
            disable,
            ...accepted,
            runsOnce,
            ...confined,
            ...rest,
          }),
        ],
  );
}

/** Whether a server is reached on this machine, with a token that it could pass on. */
function hasLocalToken(spec: ServerSpec): boolean {
  if (spec.transport !== "shttp" || !loopback.test(spec.url)) return false;
  return spec.auth !== undefined || Object.keys(spec.headers).length > 0;
}

/** Calls of tools that take an address, as far as the policy allows: the server is not confined. */
async function callsWithAddress(
  surface: Surface,
  policy: CheckOptions["calls"],
  validateSchema: ValidateSchema,
): Promise<readonly PlannedCall[]> {
  const planned: PlannedCall[] = [];
  const tools = callablesOf(surface).filter(({ kind }) => kind === "tool");
  for (const { name, definition, inputSchema } of tools.slice(0, maxAttacked.tool)) {
    const isCalled = policy === "all" || (policy === "safe" && isReadOnly(definition));
    if (!isCalled) continue;
    try {
      const [first] = await generateCalls(name, inputSchema, validateSchema);
      if (first !== undefined) planned.push(...endpointCalls(first, inputSchema));
    } catch (error) {
      if (!(error instanceof OutOfTime)) throw error;
    }
  }
  return planned;
}

/** Where a confined server sees its first folder; undefined: it is no program. */
async function firstFolder(spec: ServerSpec): Promise<string | undefined> {
  if (spec.transport !== "stdio") return undefined;
  const { givenFolders } = await import("./given-folders.ts");
  return (await givenFolders(spec))[0]?.path;
}

/** Valid calls with paths of the planted files; none where there is no folder. */
async function callsWithFiles(
  calls: readonly PlannedCall[],
  inputSchema: JsonObject,
  folder: string | undefined,
  validateSchema: ValidateSchema,
): Promise<readonly PlannedCall[]> {
  const [first] = calls;
  if (folder === undefined || first === undefined) return [];
  const made: PlannedCall[] = [];
  for (const call of realisticCalls(first, inputSchema, folder))
    if ((await validateSchema(inputSchema, call.args)).status === "valid") made.push(call);
  return made;
}

/** Why what the server touches is compared with nothing, as a whole or in part; undefined: all is compared. */
function lackOf(
  profile: CapabilityProfile | undefined,
  { watched }: Watching,
  { prompts, resources, resourceTemplates }: Surface,
): string | undefined {
  if (profile === undefined)
    return "the snapshot has no profile, so that what the server touches was compared with nothing; --update adds it";
  if (profile.watched === "files" && watched === "all")
    return "the profile in the snapshot was made without strace, so that only changes of files were compared; --update adds the rest";
  const isOlder = profile.prompts === undefined || profile.resources === undefined;
  return isOlder && [...prompts, ...resources, ...resourceTemplates].length > 0
    ? "the profile in the snapshot is of an older version, so that what prompts and resources touch was compared with nothing; --update adds it"
    : undefined;
}

/** How many of a kind are attacked, so that a server with hundreds does not take an hour. */
const maxAttacked: Readonly<Record<CalledKind, number>> = { tool: 40, prompt: 20, resource: 20 };

/** The requests of a check of security: of each tool, prompt and template ordinary ones, then those with hostile arguments; other reads first. */
async function securityRequests(
  spec: ServerSpec,
  surface: Surface,
  validateSchema: ValidateSchema,
): Promise<Required<Pick<CheckSpec, "calls" | "reads">>> {
  const folder = await firstFolder(spec);
  const calls: PlannedCall[] = [];
  const callables = callablesOf(surface);
  const isAttacked = new Set(callables.map(({ kind, name }) => JSON.stringify([kind, name])));
  const reads: PlannedRead[] = planReads(surface, "all").reads.filter(
    ({ kind, name }) => !isAttacked.has(JSON.stringify([kind, name])),
  );
  const byKind = Map.groupBy(folder === undefined ? [] : callables, ({ kind }) => kind);
  const attacked = [...byKind].flatMap(([kind, all]) => all.slice(0, maxAttacked[kind]));
  for (const [index, callable] of attacked.entries()) {
    const { kind, name } = callable;
    try {
      const made = await attackedCalls(callable, { folder: folder ?? "", id: String(index) }, validateSchema);
      if (kind === "tool") calls.push(...made);
      else
        reads.push(
          ...made.flatMap(({ args, attack }) => readsFor({ kind, name, args, ...exact({ attack }) })),
        );
    } catch (error) {
      if (!(error instanceof OutOfTime)) throw error;
    }
  }
  return { calls, reads };
}

/** Most actions of one tool that are tried, each with all hostile arguments. */
const maxActions = 6;

/** Ordinary calls, then those with hostile arguments, of each action; none where no valid arguments could be made. */
async function attackedCalls(
  { name, definition, inputSchema }: Callable,
  place: AttackPlace,
  validateSchema: ValidateSchema,
): Promise<readonly PlannedCall[]> {
  // The second call shows whether it does more.
  const isRepeated = asObject(definition["annotations"])["idempotentHint"] === true;
  const made: PlannedCall[] = [];
  for (const [index, { action, schema }] of actionsOf(inputSchema).slice(0, maxActions).entries()) {
    const valid = (await generateCalls(name, schema, validateSchema)).filter(
      ({ expects }) => expects === "result",
    );
    const [required] = valid;
    const whole = valid.find(({ why }) => why === "all arguments") ?? required;
    if (required === undefined || whole === undefined) continue;
    const realistic = (call: PlannedCall) => [call, ...realisticCalls(call, schema, place.folder)];
    // Some tools refuse optional arguments together.
    const ordinary = [
      ...realistic(required),
      ...callsInFolder(realistic(required), schema, place.folder),
      ...(whole === required ? [] : realistic(whole)),
      ...callsWithLastValues(required, schema),
    ];
    // What is sent for one action must not be taken for what is sent for another.
    const own = index === 0 ? place : { ...place, id: `${place.id}-${index}` };
    const filled = valid.find(({ why }) => why === "the greatest values")?.args;
    made.push(
      ...[
        ...ordinary.flatMap((call) => (isRepeated ? [call, call] : [call])),
        ...attacksOn(required.args, whole, schema, own, filled),
      ].map((call) => ({ ...call, ...exact({ action }) })),
    );
  }
  return made;
}

/**
 * A read, and the same in other forms that give another URI: for a template with a slash before a variable, without the slash of an absolute
 * path; with a hostile variable, also without percent-encoding.
 */
function readsFor(read: PlannedRead): readonly PlannedRead[] {
  if (read.kind === "prompt") return [read];
  const bare = { ...read, args: mapValues(read.args ?? {}, withoutSlash) };
  const paths = /\/\{/.test(read.name) ? [read, bare] : [read];
  const isRaw = read.attack !== undefined && read.attack.aim !== "size";
  const all = paths.flatMap((each) => (isRaw ? [each, { ...each, isRaw }] : [each]));
  const uris = all.map((each) => requestOf(each).params["uri"]);
  return all.filter((_, index) => uris.indexOf(uris[index]) === index);
}

function withoutSlash(value: Json): Json {
  return typeof value === "string" ? value.replace(/^\/(?!\/)/, "") : value;
}

/** Maximum number of resources that a check reads, and of prompts that it gets. */
const maxReads = 20;

/** What is read of a server, and what is not, in sentences. A resource template is not read: nothing says what its variables stand for. */
function planReads(
  { resources, resourceTemplates, prompts }: Surface,
  policy: CheckOptions["calls"],
): Required<Pick<CheckSpec, "reads" | "notRead">> {
  const isOff = policy === "none";
  const chosen = (items: readonly Listed[]): readonly Listed[] =>
    isOff ? [] : items.filter(({ isNamed }) => isNamed).slice(0, maxReads);
  const [ofResources, ofPrompts] = [chosen(resources), chosen(prompts)];
  const lacking = (what: string, all: number, read: number): readonly string[] => {
    if (read === all) return [];
    const why = isOff ? obstacles.none : `a check takes ${maxReads} at most, and none without a name`;
    return [`${all - read} of ${all} ${what}: ${why}`];
  };
  return {
    reads: [
      ...ofResources.map(({ name }) => ({ kind: "resource", name }) as const),
      ...ofPrompts.map(({ name, definition }) => {
        const required = asList(definition["arguments"])
          .map(asObject)
          .flatMap((each) =>
            each["required"] === true && typeof each["name"] === "string" ? each["name"] : [],
          );
        const args =
          required.length === 0 ? undefined : Object.fromEntries(required.map((each) => [each, "text"]));
        return { kind: "prompt", name, ...exact({ args }) } as const;
      }),
    ],
    notRead: [
      ...lacking("resources", resources.length, ofResources.length),
      ...lacking("prompts", prompts.length, ofPrompts.length),
      ...(resourceTemplates.length === 0
        ? []
        : [
            `${countOf(resourceTemplates.length, "resource template")}: values of the variables are not known`,
          ]),
    ],
  };
}

function whyNothingIsCalled({ tools, incomplete }: Surface, notCalled: readonly NotCalled[]): string {
  if (tools.length === 0)
    return incomplete.some((page) => methodOf(page) === "tools/list")
      ? "the server did not give its list of tools"
      : "the server lists no tools";
  const [reason, other] = new Set(notCalled.map((each) => each.reason));
  if (other !== undefined) return "no tool can be called";
  if (reason === obstacles.none) return reason;
  return reason === obstacles.safe
    ? "no tool is annotated readOnlyHint: true"
    : "no tool got valid arguments";
}

/** Why there is nothing that could differ in another listing; undefined: there is something. */
function whyNothingIsCompared(surface: Surface): string | undefined {
  if (Object.values(listingOf(surface)).some((items) => asList(items).length > 0)) return undefined;
  return surface.incomplete.length === 0
    ? "the server lists nothing"
    : "the server gave no list that could be compared";
}

/** Tools of a server of which others have one with the same name. */
function sharedNames(
  server: string,
  discoveries: ReadonlyMap<string, Discovery>,
): NonNullable<CheckSpec["sharedNames"]> {
  const namesOf = ({ surface }: Discovery): ReadonlySet<string> =>
    new Set(surface.tools.flatMap(({ name, isNamed }) => (isNamed ? name : [])));
  const own = discoveries.get(server);
  const others = [...discoveries].flatMap(([name, discovery]) =>
    name === server ? [] : [{ name, tools: namesOf(discovery) }],
  );
  return [...(own === undefined ? [] : namesOf(own))].flatMap((tool) => {
    const servers = others.filter(({ tools }) => tools.has(tool)).map(({ name }) => name);
    return servers.length === 0 ? [] : [{ tool, servers }];
  });
}

function summaryOf(surface: Surface): ServerSummary {
  const { name, version, protocolVersion, tools, resources, prompts } = surface;
  const counts = { tools: tools.length, resources: resources.length, prompts: prompts.length };
  return { name, version, protocolVersion, ...counts };
}

function isReadOnly(definition: JsonObject): boolean {
  return asObject(definition["annotations"])["readOnlyHint"] === true;
}

function nameOf(server: string, kind: CheckKind): string {
  return `${server}: ${kind}`;
}

function checkTask(server: string, check: CheckSpec): Task {
  return {
    name: nameOf(server, check.kind),
    form: "check",
    suite: server,
    servers: [server],
    turns: [],
    expectTools: [],
    verify: [],
    parallel: check.runsOnce !== true,
    check,
  };
}
