import { containsText, describeState, meetsState, stateParts, statesText } from "../expect/contains-text.ts";
import { searchableText } from "../expect/tool-result.ts";
import { isOneEditFrom } from "../base/did-you-mean.ts";
import { asList, asObject, asText, isJsonObject, withoutUndefined } from "../base/json.ts";
import { type Task, turnOf } from "../model/task.ts";
import { type Step, walkSteps } from "../model/step.ts";
import { compilePattern } from "../templates/pattern.ts";
import { countOf, shortened } from "../base/visible-text.ts";
import { type Check, type EventOf, eventsOf } from "../model/event.ts";
import { agentActs, isUnrecorded, serverIn } from "./agent-acts.ts";
import {
  hasFailed,
  lastAnswered,
  type StepRun,
  type ToolDeclaration,
  type Trajectory,
  type TurnView,
  textsIn,
  userWords,
  withInner,
} from "./trajectory.ts";
import type { ExpectedState } from "../model/fields.ts";
import { errorCodes } from "../model/error-codes.ts";

/** What deserves a look but changes no verdict. */
export function warningsOf(trajectory: Trajectory): string[] {
  const { events, turns, repeatedTools } = trajectory;
  // A large run has many trials without servers, tools or steps; looking for them would be most of their cost.
  const hasServers = events.some((event) => "server" in event);
  const hasTools = hasServers || events.some(({ type }) => type === "agent.tool");
  const hasSteps = events.some(({ type }) => type === "step.finished");
  const echoed = [...echoedStates(trajectory), ...(hasSteps ? echoedSteps(trajectory) : [])];
  return [
    ...importWarnings(trajectory),
    ...transcriptWarnings(trajectory),
    ...unlistedForbidden(trajectory),
    ...(hasServers ? [...messageWarnings(trajectory), ...serverEndWarnings(trajectory)] : []),
    // Turns that ended otherwise fail.
    ...turns.flatMap(({ end }) => (end?.reason === "done" ? (end.oddity ?? []) : [])),
    ...solutionWarnings(trajectory),
    ...(hasSteps ? stepWarnings(trajectory) : []),
    ...repeatedTools.map(
      ({ server, name }) =>
        `server "${server}" lists the tool "${name}" more than once, so it is not clear which of them is called`,
    ),
    ...(hasServers ? emptyAnswers(trajectory) : []),
    ...(hasTools ? agentLogWarnings(trajectory) : []),
    ...(hasServers
      ? [
          ...serverWarnings(trajectory),
          ...unmatchedForbidden(trajectory),
          ...missingAbilities(trajectory),
          ...misspeltServers(trajectory),
          ...unknownArguments(trajectory),
        ]
      : []),
    ...openConversations(trajectory),
    ...untoldStates(trajectory),
    ...doubtfulWords(trajectory),
    ...(echoed.length > 0 ? echoed : echoedPrompts(trajectory)),
  ];
}

/** A record that was made elsewhere. */
function importWarnings({ events: [first] }: Trajectory): readonly string[] {
  if (first?.type !== "trial.started" || first.imported === undefined) return [];
  const { file, run } = first.imported;
  return [`everything on record is what ${file} says that mcpvals recorded in the run ${run}`];
}

/** Where its evidence comes from, and what is missing there. */
function transcriptWarnings({ transcript }: Trajectory): readonly string[] {
  if (transcript === undefined) return [];
  const origin = `everything on record is what the transcript of ${transcript.program} says: mcpvals has seen no message to a server`;
  return [origin, ...firstOf(transcript.remarks, (rest) => `${rest} more remarks on the transcript`)];
}

/** Most warnings of one kind. */
const maxShownWarnings = 10;

function firstOf(warnings: readonly string[], tellRest: (count: number) => string): readonly string[] {
  const rest = warnings.length - maxShownWarnings;
  return rest > 0 ? [...warnings.slice(0, maxShownWarnings), tellRest(rest)] : warnings;
}

function unique(warnings: readonly string[]): string[] {
  return [...new Set(warnings)];
}

/** One warning for each server, from the number of findings and the text of the first. */
function perServer<T extends { readonly server: string }>(
  findings: readonly T[],
  say: (server: string, count: number, first: T) => string,
): string[] {
  return [...Map.groupBy(findings, ({ server }) => server)].flatMap(([server, all]) =>
    all.slice(0, 1).map((first) => say(server, all.length, first)),
  );
}

/** A sentence about names with how often each occurs; none for no names. */
function counted(names: readonly string[], say: (names: string) => string): string[] {
  if (names.length === 0) return [];
  const groups = [...Map.groupBy(names, (name) => name)];
  return [
    say(groups.map(([name, all]) => (all.length === 1 ? name : `${name} (${all.length} times)`)).join(", ")),
  ];
}

const maxShownText = 80;

/** Output on stdout that is not MCP, answers to requests that were not sent, malformed messages, HTTP statuses without an answer. */
function messageWarnings({ events, unasked }: Trajectory): string[] {
  const starts = eventsOf(events, "server.started");
  const transports = new Map(starts.map(({ server, transport }) => [server, transport]));
  // Over Streamable HTTP the answer to a request comes in its response.
  const denials = eventsOf(events, "http.response").filter(
    ({ server, method, status, requestIds }) =>
      transports.get(server) === "shttp" &&
      method === "POST" &&
      (status === 202 || status === 204) &&
      requestIds.length > 0,
  );
  const refused = eventsOf(events, "http.response").filter(({ status }) => status === 429);
  const malformed = eventsOf(events, "mcp.message").filter((event) => event.malformed !== undefined);
  return [
    ...perServer(eventsOf(events, "server.invalid_output"), (server, count, { text }) => {
      const what = count === 1 ? "a line on stdout that is" : `${count} lines on stdout that are`;
      return `server "${server}" wrote ${what} not MCP, first ${JSON.stringify(text.slice(0, maxShownText))}; logs belong on stderr, other clients may break on them`;
    }),
    ...perServer(unasked, (server, count, { message: { id, error } }) => {
      const said = isJsonObject(error) && typeof error["message"] === "string" ? `: ${error["message"]}` : "";
      const [what, first] = count === 1 ? ["an answer", ""] : [`${count} answers`, "first "];
      return `server "${server}" gave ${what} that no request was waiting for, ${first}with ${`id ${JSON.stringify(id)}${said}`.slice(0, maxShownText)}`;
    }),
    ...perServer(malformed, (server, count, first) => {
      const what = count === 1 ? "a malformed message" : `${count} malformed messages, first`;
      return `server "${server}" sent ${what}: ${first.malformed ?? ""}; other clients may read it in another way or not at all`;
    }),
    ...perServer(denials, (server, count, { status }) => {
      const what = count === 1 ? "a request" : `${count} requests`;
      return `server "${server}" responded to ${what} with HTTP ${status}, as if there were nothing to answer`;
    }),
    ...perServer(refused, (server, count) => {
      const what = count === 1 ? "a request" : `${count} requests`;
      return `server "${server}" refused ${what} as too many (HTTP 429); rateLimit, maxConcurrent or a lower concurrency avoids this`;
    }),
  ];
}

/**
 * Servers that ended by themselves, where no verdict rests on it; that ended with an exit code when their stdin was
 * closed, which can be a crash; or that did not answer the ping at the end of the trial. A server may lack the method.
 */
function serverEndWarnings({ events, exchanges }: Trajectory): string[] {
  const isCompleted = eventsOf(events, "trial.finished").some(({ outcome }) => outcome === "completed");
  const stops = eventsOf(events, "server.stopped").filter(({ by }) => by === "stdin");
  const byStdin = new Set(stops.map(({ server }) => server));
  const lost = new Set(eventsOf(events, "server.lost").map(({ server }) => server));
  const exits = eventsOf(events, "server.exited");
  const ended = exits.flatMap(({ server, expected, exitCode, signal }) => {
    const how = signal ?? `exit code ${exitCode}`;
    if (!expected)
      return isCompleted && !lost.has(server) ? [`server "${server}" ended by itself: ${how}`] : [];
    const isOdd = byStdin.has(server) && exitCode !== null && exitCode !== 0;
    return isOdd ? [`server "${server}" ended with ${how} when its stdin was closed`] : [];
  });
  const gone = new Set(exits.flatMap(({ server, expected }) => (expected ? [] : [server])));
  const pings = exchanges.filter(({ request }) => request.message["method"] === "ping" && !request.client);
  const failed = pings.flatMap(({ request: { server }, answer }) => {
    const error = answer?.message["error"];
    if (!isJsonObject(error) || error["code"] === errorCodes.methodNotFound) return [];
    const said = typeof error["message"] === "string" ? error["message"] : JSON.stringify(error);
    return [`server "${server}" answered the ping at the end of the trial with an error: ${said}`];
  });
  const silent = pings.flatMap(({ request: { server }, answer }) =>
    answer !== undefined || gone.has(server)
      ? []
      : [
          `server "${server}" did not answer the ping at the end of the trial: it may hang since its last answer`,
        ],
  );
  return unique([...ended, ...failed, ...silent]);
}

/** Failed calls of a task's own solution: the oracle goes on after them. Other agents may have failed calls. */
function solutionWarnings(trajectory: Trajectory): string[] {
  const { events } = trajectory;
  if (!eventsOf(events, "agent.started").some(({ kind }) => kind === "oracle")) return [];
  const reported = agentActs(trajectory).flatMap(({ type, server, target, failure }) => {
    if (failure === undefined) return [];
    const ofServer = type === "resource" ? `${target} of ${server}` : `${server}.${target}`;
    const line = failure.trim().replaceAll(/\s*\n\s*/g, " ");
    return [`solution: ${server === undefined ? target : ofServer} failed: ${shortened(line, 300)}`];
  });
  return unique(firstOf(reported, (rest) => `solution: ${rest} more calls failed`));
}

type Finished = EventOf<"step.finished">;

/**
 * Steps that failed without changing a verdict, in a cleanup or with `continueOnError`; verify steps that were skipped, or
 * passed in doubt; and tool tests that passed late: steps of tasks poll, a tool test should pass at once.
 */
function stepWarnings({ task, events, steps, pathOf }: Trajectory): string[] {
  const ignored = steps.flatMap(ignoredFailures).map(({ step, outcome, checks, error, phase }) => {
    const what = outcome === "failed" ? "failed" : outcome === "timeout" ? "took too long" : "could not act";
    const failed = checks.filter((check) => !check.passed);
    const why = error?.message ?? failed.map((check) => `${check.name}: ${check.message}`).join("; ");
    const note = phase === "cleanup" ? "" : ", which changes no verdict";
    return `${phase} step "${pathOf(step)}" ${what}${note}${why === "" ? "" : `: ${why}`}`;
  });
  const skipped = steps
    .flatMap(skippedIn)
    .map(({ step }) => `verify step "${pathOf(step)}" was skipped: its if does not hold`);
  const doubts = new Map(
    steps
      .flatMap(doubtsIn)
      .map(({ step, doubt }) => [doubt, `verify step "${pathOf(step)}" passed, but ${doubt}`]),
  );
  const late = eventsOf(events, "step.finished").filter(
    ({ outcome, attempt }) => task.form === "tool-test" && outcome === "passed" && attempt > 1,
  );
  return [
    ...firstOf(ignored, (rest) => `${rest} more steps failed whose failure changes no verdict`),
    ...firstOf(skipped, (rest) => `${rest} more verify steps were skipped`),
    ...firstOf([...doubts.values()], (rest) => `${rest} more verify steps passed in doubt`),
    ...late.map(({ attempt }) => `passed only at attempt ${attempt}; the attempts before are in the trace`),
  ];
}

/** The innermost steps whose failure is ignored; the steps around them failed because of them. */
function ignoredFailures({ last: { finished, children } }: StepRun): readonly Finished[] {
  const inner = children.flatMap(ignoredFailures);
  const isIgnored = finished?.ignored === true && finished.phase !== "probe";
  return inner.length === 0 && isIgnored ? [finished] : inner;
}

/** Items of a list and alternatives are selected by conditions, so only steps in sequences are of interest. */
function skippedIn({ last: { started, finished, children } }: StepRun): readonly Finished[] {
  if (finished?.phase !== "verify") return [];
  if (finished.outcome === "skipped") return [finished];
  const isSequence = started.stepType === "group" || started.stepType === "allOf";
  return isSequence ? children.flatMap(skippedIn) : [];
}

/** The doubts of the steps inside a step are more precise and come last. */
function doubtsIn({
  last: { finished, children },
}: StepRun): readonly { readonly step: string; readonly doubt: string }[] {
  if (finished?.phase !== "verify" || finished.outcome !== "passed") return [];
  const own = finished.checks.flatMap(({ passed, doubt }) =>
    passed && doubt !== undefined ? [{ step: finished.step, doubt }] : [],
  );
  return [...own, ...children.flatMap(doubtsIn)];
}

/** A call of a step that has no expectations may have an empty result, which shows little. */
function emptyAnswers({ calls, steps }: Trajectory): string[] {
  const verified = new Set(withInner(steps).flatMap(({ step, phase }) => (phase === "verify" ? [step] : [])));
  return calls.flatMap(({ step = "", superseded, result, tool }) => {
    if (!verified.has(step) || superseded || result === undefined) return [];
    const { content, structuredContent = null } = result;
    const isEmpty =
      structuredContent === null &&
      Array.isArray(content) &&
      content.every((block) => isJsonObject(block) && block["text"] === "");
    return isEmpty ? [`${tool} answered with nothing in its result`] : [];
  });
}

/** Differences between an agent's own log and the gateway's record, which counts, and calls of tools that are not listed. */
function agentLogWarnings(trajectory: Trajectory): string[] {
  const acts = agentActs(trajectory).filter(({ type }) => type === "tool");
  const done = acts.filter((act) => isUnrecorded(act) && act.report?.status === "completed");
  const keepsLog = acts.some(({ report }) => report !== undefined);
  const unreported = keepsLog ? acts.filter(({ report }) => report === undefined) : [];
  const unlisted = acts.filter(
    ({ server, declared, call }) =>
      server !== undefined && declared === undefined && call !== undefined && !hasFailed(call),
  );
  return [
    ...counted(
      done.map((act) => `${serverIn(act)}.${act.report?.tool ?? "?"}`),
      (names) => `the agent reports calls that never reached the gateway: ${names}; only the record counts`,
    ),
    ...counted(
      unreported.map(({ server, target }) => `${server ?? "?"}.${target}`),
      (names) => `the agent's own log lacks calls that the gateway recorded: ${names}`,
    ),
    ...counted(
      unlisted.map(({ server, target }) => `${server}.${target}`),
      (names) => `the agent called tools that their server does not list, and was answered: ${names}`,
    ),
  ];
}

/** Servers that did not start or were not connected, filters and faults without effect, tools hidden from the agent, injected faults. */
function serverWarnings({ events }: Trajectory): string[] {
  const reached = new Set(eventsOf(events, "gateway.connected").map(({ server }) => server));
  const ready = new Set(eventsOf(events, "server.ready").map(({ server }) => server));
  const rejected = new Set(eventsOf(events, "tool.rejected").map(({ tool }) => tool));
  const filters = events.flatMap((event) => {
    if (event.type === "fault.unmet")
      return [
        `the fault "${event.fault}" of ${event.server}.${event.tool ?? event.method} was never injected`,
      ];
    if (event.type !== "tools.hidden") return [];
    const { server, unmatched = [], tools } = event;
    return [
      ...unmatched.map((name) => `server "${server}": "${name}" under its \`tools\` matches no tool`),
      ...tools
        .filter((name) => rejected.has(name))
        .map((name) => `server "${server}" has the tool "${name}", which its \`tools\` hide from agents`),
    ];
  });
  return [
    ...eventsOf(events, "server.failed").map(
      ({ server, error }) =>
        `the trial went on without server "${server}", which did not start: ${error.message}`,
    ),
    ...eventsOf(events, "server.late").map(
      ({ error }) => `${error.message}; the server was started once more`,
    ),
    // An agent that connected to no server at all is an error.
    ...[...ready]
      .filter((server) => reached.size > 0 && !reached.has(server))
      .map((server) => `the agent never connected to server "${server}"`),
    ...unique(filters),
    ...counted(
      eventsOf(events, "fault.injected").map(
        ({ fault, server, tool, method }) => `${fault} of ${server}.${tool ?? method}`,
      ),
      (names) => `injected on purpose: ${names}`,
    ),
  ];
}

/** A tool that must not be called, as a file names it. */
interface ForbiddenTool {
  /** The key of the file. */
  readonly key: string;
  readonly server?: string | undefined;
  readonly name?: string | undefined;
  /** A regular expression for a part of the name. */
  readonly pattern?: string | undefined;
  /** What its arguments must not be, by their paths. */
  readonly args?: Readonly<Record<string, unknown>>;
}

/** A tool by its name, or by a pattern between slashes for the whole name. */
function forbiddenTool(key: string, name: string, server?: string): ForbiddenTool {
  const pattern = /^\/(.+)\/$/s.exec(name)?.[1];
  return pattern === undefined ? { key, server, name } : { key, server, pattern: `^(?:${pattern})$` };
}

/** The tool of a call that a grader describes, unless it is one of the agent's own. */
function forbiddenCall(key: string, entry: unknown): readonly ForbiddenTool[] {
  const { tool, tool_pattern: pattern, source, args } = asObject(entry);
  const server = /^mcp:(.+)$/s.exec(asText(source) ?? "")?.[1];
  if (source !== undefined && server === undefined) return [];
  const name = asText(tool) ?? (typeof pattern === "string" ? `/${pattern}/` : undefined);
  return name === undefined ? [] : [{ ...forbiddenTool(key, name, server), args: asObject(args) }];
}

/** What assertions and declared graders forbid. */
function forbiddenTools({ portable, graders = [] }: Task): readonly ForbiddenTool[] {
  const declared = graders.flatMap(({ config }) => [
    ...asList(config["forbidden_tools"]).flatMap((name) => forbiddenTool("forbidden_tools", String(name))),
    ...asList(config["reject_tools"]).flatMap((entry) => forbiddenCall("reject_tools", entry)),
    // Without a least number, an entry only limits the calls that it fits.
    ...asList(config["expect_tools"]).flatMap((entry) =>
      asObject(entry)["min"] === 0 ? forbiddenCall("expect_tools", entry) : [],
    ),
  ]);
  const asserted = [...(portable?.assertions ?? []), ...graders.map(({ config }) => config)].flatMap(
    ({ toolsNotUsed }) =>
      asList(toolsNotUsed)
        .map(asObject)
        .map(({ server, tool, toolPattern }) => ({
          key: "toolsNotUsed",
          server: asText(server),
          name: asText(tool) || undefined,
          pattern: asText(toolPattern) || undefined,
        })),
  );
  return [...asserted, ...declared];
}

/** Forbidden tools that fit no tool of their server, or of any: that none was called says nothing. */
function unmatchedForbidden({ task, events, tools, hiddenTools }: Trajectory): string[] {
  const forbidden = forbiddenTools(task);
  if (forbidden.length === 0) return [];
  // An agent program has tools of its own, which no server lists.
  const started = eventsOf(events, "agent.started");
  const hasOwnTools =
    started.length === 0 || started.some(({ kind }) => kind === "acp" || kind === "command");
  const reported = forbidden.flatMap(({ key, server, name, pattern, args = {} }) => {
    const offered: readonly OfferedTool[] = [...tools, ...hiddenTools].filter(
      (tool) => server === undefined || tool.server === server,
    );
    if (offered.length === 0 || (name ?? pattern) === undefined) return [];
    if (server === undefined && hasOwnTools) return [];
    const regex = pattern === undefined ? undefined : compilePattern(pattern);
    const fitting = offered.filter(
      (tool) =>
        tool.name === name || `${tool.server}.${tool.name}` === name || regex?.test(tool.name) === true,
    );
    const unknown = Object.keys(args).filter((path) => fitting.every((tool) => !mayTake(tool, path)));
    if (fitting.length > 0)
      return unknown.map(
        (path) =>
          `${key}: ${JSON.stringify(name ?? pattern)} has no argument ${JSON.stringify(path)}, so this assertion cannot fail`,
      );
    const whose = server === undefined ? "that a server offers" : `of server "${server}"`;
    return [
      `${key}: ${JSON.stringify(name ?? pattern)} fits no tool ${whose}, so this assertion cannot fail`,
    ];
  });
  return unique(reported);
}

/** Forbidden tools that no call in a transcript fits: a misspelt name is never called, and nobody says which names there are. */
function unlistedForbidden(trajectory: Trajectory): string[] {
  if (trajectory.transcript === undefined) return [];
  const used = unique(
    agentActs(trajectory).flatMap((act) => {
      const server = serverIn(act);
      return server === undefined ? act.target : [act.target, `${server}.${act.target}`];
    }),
  );
  const open = forbiddenTools(trajectory.task).flatMap(({ name, pattern }) => {
    if (name === undefined) return pattern === undefined ? [] : [JSON.stringify(pattern)];
    if (used.includes(name)) return [];
    const near = used.find((each) => isOneEditFrom(name, each));
    const hint = near === undefined ? "" : ` (did you mean ${JSON.stringify(near)}, which was called?)`;
    return [`${JSON.stringify(name)}${hint}`];
  });
  if (open.length === 0) return [];
  return [
    `a transcript does not say which tools servers offer, so that a misspelt one would pass as not called: ${unique(open).join(", ")}`,
  ];
}

/** Forbidden resources and prompts of servers that do not declare to have any. */
function missingAbilities({ task: { portable, graders = [] }, events }: Trajectory): string[] {
  const abilities = { resourcesNotRead: "resources", promptsNotUsed: "prompts" };
  const sets: readonly Readonly<Record<string, unknown>>[] = [
    ...(portable?.assertions ?? []),
    ...graders.map(({ config }) => config),
  ];
  const forbidden = sets.flatMap((set) =>
    Object.entries(abilities).flatMap(([key, ability]) =>
      asList(set[key]).map((entry) => ({ key, ability, server: asText(asObject(entry)["server"]) ?? "" })),
    ),
  );
  if (forbidden.length === 0) return [];
  const declared = new Map<string, unknown>();
  for (const { server, message } of eventsOf(events, "mcp.message")) {
    const { capabilities } = asObject(asObject(message)["result"]);
    if (capabilities !== undefined) declared.set(server, capabilities);
  }
  return unique(
    forbidden.flatMap(({ key, ability, server }) =>
      !declared.has(server) || ability in asObject(declared.get(server))
        ? []
        : [`${key}: server "${server}" has no ${ability}; that none was used says nothing`],
    ),
  );
}

/** Forbidden servers that the trial does not have and whose names are nearly those of its own. Agents may have others of their own. */
function misspeltServers({ task: { graders = [] }, events }: Trajectory): string[] {
  const servers = unique(eventsOf(events, "server.started").map(({ server }) => server));
  const forbidden = graders.flatMap(({ config }) => asList(config["forbidden_mcp_servers"]).map(String));
  return unique(forbidden).flatMap((name) => {
    const near = servers.includes(name) ? undefined : servers.find((server) => isOneEditFrom(name, server));
    return near === undefined
      ? []
      : [`forbidden_mcp_servers: no server is named ${JSON.stringify(name)}, did you mean "${near}"?`];
  });
}

/** A tool of a server; of one that is hidden from agents the definition is not read. */
type OfferedTool = Pick<ToolDeclaration, "server" | "name"> & Partial<Pick<ToolDeclaration, "definition">>;

/** Arguments of tool tests and steps that their tools do not have: a misspelt one changes nothing. */
function unknownArguments({ task, calls }: Trajectory): string[] {
  if (task.form === "check") return [];
  const unknown = calls.flatMap(({ step, tool, args, declared, error, result }) => {
    const [offered] = declared ?? [];
    if (step === undefined || offered === undefined || hasFailed({ error, result })) return [];
    return Object.keys(asObject(args))
      .filter((name) => !mayTake(offered, name))
      .map((name) => `the tool "${tool}" has no argument ${JSON.stringify(name)} and was called with it`);
  });
  return unique(unknown).slice(0, maxShownWarnings);
}

/** Whether a tool may have an argument with this path, as far as its schema says. */
function mayTake({ definition = {} }: OfferedTool, path: string): boolean {
  const {
    properties,
    patternProperties,
    additionalProperties = false,
    ...rest
  } = asObject(definition["inputSchema"]);
  const isOpen = additionalProperties !== false || patternProperties !== undefined;
  const isCombined = ["allOf", "anyOf", "oneOf", "if", "$ref"].some((key) => key in rest);
  if (properties === undefined || isOpen || isCombined) return true;
  return (
    Object.hasOwn(asObject(properties), path) ||
    Object.hasOwn(asObject(properties), path.split(".")[0] ?? path)
  );
}

function shown(text: string): string {
  return JSON.stringify(shortened(text, maxShownText));
}

function displayState(state: string | ExpectedState): string {
  return shown(typeof state === "string" ? state : describeState(state));
}

function answerIn({ messages }: TurnView): string {
  return messages.at(-1)?.text ?? "";
}

/** Expected states that only a tool's result meets, where the file does not say that this is enough; a sentence for each. */
export function untoldStates({ task, turns }: Pick<Trajectory, "task" | "turns">): string[] {
  return turns.flatMap((turn) => {
    const wanted = turnOf(task, turn.turn);
    const state = wanted?.expectedState;
    const { result, tool = "" } = lastAnswered(turn) ?? {};
    if (state === undefined || stateParts(state).in !== undefined || result === undefined) return [];
    const text = searchableText(result).trim();
    // A simulated user may have been told in another turn.
    const isTold = turns.some(
      (each) => turnOf(task, each.turn) === wanted && meetsState(answerIn(each), state),
    );
    if (isTold || !meetsState(text, state)) return [];
    const answer = answerIn(turn);
    return [
      `turn ${turn.turn + 1}: expectedState ${displayState(state)} is only in the result of ${tool}, ${shown(text)}, and not in the answer, ${shown(answer)}; say where it must be with in: answer, toolResult or any`,
    ];
  });
}

/** Conversations that the simulated user did not end because it had what it wanted. Graders decide nevertheless. */
function openConversations({ events, turns }: Trajectory): string[] {
  return eventsOf(events, "user.finished").flatMap(({ reason, text = "" }) => {
    const words = text === "" ? "" : `: ${shown(text)}`;
    if (reason === "gave-up")
      return [`the simulated user gave up after ${countOf(turns.length, "turn")}${words}`];
    return reason === "max-turns"
      ? [
          `the simulated user did not get what it wanted in ${countOf(turns.length, "turn")}, the most that it may have`,
        ]
      : [];
  });
}

function folded(text: string): string {
  return text.trim().replaceAll(/\s+/g, " ").toLowerCase();
}

/** Answers that are a user's message and nothing else, in which graders may find what they look for. */
function echoedPrompts({ turns }: Trajectory): string[] {
  return turns.flatMap(({ turn, messages }) => {
    const answer = folded(messages.at(-1)?.text ?? "");
    const isEcho =
      answer !== "" && turns.some((earlier) => earlier.turn <= turn && folded(earlier.user) === answer);
    return isEcho ? [`turn ${turn + 1}: the answer only repeats what the user said`] : [];
  });
}

/** Expected states that only the agent's own words contain, and a user's turn before them. */
function echoedStates({ task, turns }: Trajectory): string[] {
  return turns.flatMap((turn) => {
    const state = turnOf(task, turn.turn)?.expectedState;
    const message = turn.messages.at(-1);
    if (state === undefined || message === undefined || !meetsState(message.text, state)) return [];
    const result = lastAnswered(turn)?.result;
    if (result !== undefined && meetsState(searchableText(result), state)) return [];
    // What a simulated user had said is no evidence, which its grader says.
    return turns.some(
      (earlier) => earlier.by === undefined && earlier.turn <= turn.turn && meetsState(earlier.user, state),
    )
      ? [
          `turn ${turn.turn + 1}: expectedState ${displayState(state)} is in the user's message and in no tool result: an agent that repeats the user would pass`,
        ]
      : [];
  });
}

/** Verify steps that look for a text in the agent's answer which is in the prompt. */
function echoedSteps(trajectory: Trajectory): string[] {
  const { turns, pathOf } = trajectory;
  const found = answerChecks(trajectory)
    .flatMap(({ step, text }) => (text === undefined ? [] : [{ step, text }]))
    .filter(({ text }) => turns.some(({ user }) => statesText(user, text)))
    .map(
      ({ step, text }) =>
        `verify step "${pathOf(step)}" expects ${shown(text)} of the agent's answer, which is in the prompt: an agent that repeats the prompt may pass`,
    );
  return unique(found).slice(0, maxShownWarnings);
}

/** A check of a verify step that got the agent's answer, and passed. */
export interface AnswerCheck {
  readonly step: string;
  /** Number of the event that ended the step. */
  readonly seq: number;
  /** What was expected, as a text. */
  readonly expected: string;
  /** The text that the answer has to have, where that is one. */
  readonly text?: string;
  /** Whether a text has what was expected, as the answer has it. Absent: that is not known, as of an exit code, or it was found elsewhere. */
  readonly says?: (text: string) => boolean;
}

/** Checks of verify steps that got the agent's answer, and passed. */
export function answerChecks({
  task,
  steps,
  turns,
}: Pick<Trajectory, "task" | "steps" | "turns">): readonly AnswerCheck[] {
  const looking = lookingSteps(task);
  if (looking.length === 0) return [];
  const answer = turns.map(answerIn).at(-1) ?? "";
  return withInner(steps).flatMap(({ step, phase, last: { finished, children } }) => {
    const isLooking = looking.some(({ id }) => isStep(step, id));
    if (phase !== "verify" || !isLooking || children.length > 0 || finished?.outcome !== "passed") return [];
    return finished.checks
      .filter(({ passed }) => passed)
      .map((check) => ({ step, seq: finished.seq, ...expectedIn(check) }))
      .map((check) =>
        check.says?.(answer) === true ? check : withoutUndefined({ ...check, says: undefined }),
      );
  });
}

/** What a check expects of a text. */
function expectedIn({ name, expected, actual }: Check): Pick<AnswerCheck, "expected" | "text" | "says"> {
  const what = typeof expected === "string" ? expected : JSON.stringify(expected);
  const isPattern = name.endsWith(" matches");
  if (!isPattern && name !== "result" && !/(?:^|\s)(?:contains|equals|exact)$/.test(name))
    return { expected: what };
  const parts = textsIn(isPattern ? actual : expected).filter((part) => part.trim() !== "");
  const has = (text: string): boolean =>
    parts.length > 0 && parts.every((part) => statesText(text, part.trim()));
  if (!isPattern) {
    const isText = name !== "result" && typeof expected === "string" && parts.length > 0;
    return { expected: what, says: has, ...(isText ? { text: expected } : {}) };
  }
  return { expected: what, says: (text) => has(text) || compilePattern(what).test(text) };
}

function lookingSteps({ verify }: Task): readonly Step[] {
  return [...walkSteps(verify)].filter(looksAtAgent);
}

function isStep(name: string, id: string): boolean {
  return name === id || name.endsWith(`/${id}`);
}

function looksAtAgent(step: Step): boolean {
  if ("steps" in step) return false;
  if (step.type === "llm" && step.input === undefined) return true;
  return /\{\s*agent\.output\b/.test(JSON.stringify(step));
}

/** Something that was expected of the agent's words and found in them. */
interface FoundWords {
  readonly what: string;
  /** Number of the turn. */
  readonly turn: number;
  readonly says: (text: string) => boolean;
}

/** What the agent says and a simulated user may be the only source of, where a grader cannot tell. */
function doubtfulWords(trajectory: Trajectory): readonly string[] {
  if (trajectory.turns.every(({ by }) => by === undefined)) return [];
  const found = foundWords(trajectory).flatMap(({ what, turn, says }) => {
    const words = userWords(trajectory, turn, says);
    if (words === undefined || words.how === "repeated") return [];
    return words.how === "confirmed"
      ? [`${what}: the agent said it before any tool did, and the simulated user after it: it may be a guess`]
      : [
          `${what}: only calls that had it in their arguments returned it, after the simulated user had said it: a tool that only echoes would return the same`,
        ];
  });
  return firstOf(
    unique([...found, ...uncheckedWords(trajectory)]),
    (rest) => `${rest} more doubts about words of the simulated user`,
  );
}

/** What the grader `text` looks for, by the keys of its settings. */
const textChecks: Readonly<Record<string, (where: string, wanted: string) => boolean>> = {
  contains: containsText,
  contains_cs: containsText,
  contains_any: containsText,
  regex_match: (where, pattern) => compilePattern(pattern).test(where),
};

/** What expected states, verify steps and graders of texts have found in the agent's words. */
function foundWords(trajectory: Trajectory): readonly FoundWords[] {
  const { task, turns, pathOf } = trajectory;
  const states = turns.flatMap((view): readonly FoundWords[] => {
    const state = view.by === undefined ? undefined : turnOf(task, view.turn)?.expectedState;
    if (state === undefined || !meetsState(answerIn(view), state)) return [];
    const says = (text: string): boolean => meetsState(text, state);
    return [{ what: `expectedState ${displayState(state)}`, turn: view.turn, says }];
  });
  const checks = answerChecks(trajectory).flatMap(({ step, expected, says }): readonly FoundWords[] =>
    says === undefined
      ? []
      : [{ what: `verify step "${pathOf(step)}" with ${shown(expected)}`, turn: Infinity, says }],
  );
  const texts = (task.graders ?? []).flatMap(({ type, name, config }) =>
    Object.entries(type === "text" ? textChecks : {}).flatMap(([key, has]) =>
      asList(config[key]).map((wanted): FoundWords => ({
        what: `grader "${name}" with ${shown(String(wanted))}`,
        turn: Infinity,
        says: (where) => has(where, String(wanted)),
      })),
    ),
  );
  const isSaid = ({ says }: FoundWords): boolean =>
    turns.some(({ messages }) => messages.some(({ text }) => says(text)));
  return [...states, ...checks, ...texts.filter(isSaid)];
}

/**
 * Verify steps that got the agent's answer and do not say what they look for in it, as by an exit code: where the answer only repeats the
 * simulated user, or has words of it that the step names too.
 */
function uncheckedWords(trajectory: Trajectory): readonly string[] {
  const { task, turns, pathOf } = trajectory;
  const answer = turns.map(answerIn).at(-1) ?? "";
  const words = unique(answer.match(/[\p{L}\p{N}_-]{3,}|\p{N}+/gu) ?? []);
  const isOfUser = (says: (text: string) => boolean): boolean =>
    userWords(trajectory, Infinity, says)?.how === "repeated";
  const steps = lookingSteps(task).filter(({ type }) => type !== "llm");
  return answerChecks(trajectory).flatMap(({ step, says }) => {
    if (says !== undefined) return [];
    const text = JSON.stringify(steps.find(({ id }) => isStep(step, id)) ?? "");
    const named = isOfUser(() => false)
      ? [answer]
      : words.filter((word) => statesText(text, word) && isOfUser((said) => statesText(said, word)));
    return named.length === 0
      ? []
      : [
          `verify step "${pathOf(step)}" got the agent's answer, in which ${named.slice(0, 5).map(shown).join(", ")} only repeats the simulated user: it may have passed because of that`,
        ];
  });
}
