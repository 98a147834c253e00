import { isJsonObject } from "../formats/json.ts";
import type { Json, JsonObject } from "../formats/model.ts";
import { previewJson } from "../formats/read-json.ts";
import { shownShellText } from "../templates/shell.ts";
import { visibleText } from "../text/visible-text.ts";
import type { EventOf, TraceEvent } from "../trace/events.ts";
import { stepPaths } from "../trace/step-runs.ts";

const shownText = 400;

/**
 * One line an event: its number, the milliseconds since the trial began, and what happened. Long texts are cut, and what
 * servers and models wrote cannot drive the reader's terminal.
 */
export function renderTrace(events: readonly TraceEvent[]): string[] {
  const start = events[0]?.at ?? 0;
  const width = String(events.at(-1)?.seq ?? 0).length;
  const pathOf = stepPaths(events);
  return events.map((event) => {
    const offset = (event.at - start).toFixed(1).padStart(9);
    return `${String(event.seq).padStart(width)} ${offset} ms  ${visibleText(describe(event, pathOf)).trimEnd()}`;
  });
}

type PathOf = ReturnType<typeof stepPaths>;

function describe(event: TraceEvent, pathOf: PathOf): string {
  switch (event.type) {
    case "mcp.message":
      return describeMessage(event);
    case "server.stderr":
    case "server.invalid_output":
      return `${event.server} ${event.type === "server.stderr" ? "stderr" : "stdout, not MCP"}: ${shorten(event.text)}`;
    case "extension.started":
      return describeExtension(event);
    case "extension.log":
      return `${event.extension} ${event.level}: ${shorten([event.message, preview(event.data)].join(" ").trim())}`;
    case "extension.stderr":
    case "extension.invalid_output":
      return `${event.extension} ${event.type === "extension.stderr" ? "stderr" : "stdout, no message"}: ${shorten(event.text)}`;
    case "agent.output":
      return `agent ${event.stream}: ${shorten(event.text)}`;
    case "agent.tool":
      return describeTool(event);
    case "agent.message":
      return `assistant: ${shorten(event.text)}`;
    case "turn.started":
      return `user: ${shorten(event.user)}`;
    case "trial.graded":
      return describeGrades(event);
    case "step.started":
      return describeStart(event, pathOf);
    case "step.finished":
      return describeEnd(event, pathOf);
    default:
      return describeRest(event);
  }
}

function describeMessage(event: EventOf<"mcp.message">): string {
  const who = event.client === undefined ? event.server : `${event.server} (agent ${event.client})`;
  const arrow = event.direction === "client-to-server" ? `→ ${who}` : `← ${who}`;
  const { message } = event;
  if (!isJsonObject(message)) return `${arrow} ${preview(message)}`;
  const id = message["id"] === undefined ? "" : ` #${preview(message["id"])}`;
  if (typeof message["method"] === "string")
    return `${arrow}${id} ${message["method"]} ${preview(message["params"])}`;
  return message["error"] === undefined
    ? `${arrow}${id} result ${preview(message["result"])}`
    : `${arrow}${id} error ${preview(message["error"])}`;
}

function describeExtension(event: EventOf<"extension.started">): string {
  const { extension, package: from, version, protocol, sandbox, pid } = event;
  const named = version === undefined ? from : `${from} (${version})`;
  return `${extension} started: ${named}, ${protocol}, sandbox ${sandbox}, pid ${pid}`;
}

function describeTool({ name, source, status, args, result, callId }: EventOf<"agent.tool">): string {
  const told = [args, result].flatMap((value) => (value === undefined ? [] : [preview(value)]));
  return `agent's tool ${name} (${source}, ${callId}) ${status}${told.length === 0 ? "" : `: ${told.join(" → ")}`}`;
}

function describeStart(
  { phase, step, stepType, attempt, input }: EventOf<"step.started">,
  pathOf: PathOf,
): string {
  const again = attempt > 1 ? `, attempt ${attempt}` : "";
  const line = describeInput(stepType, input);
  return `${phase}: ${pathOf(step)} begins (${stepType}${again})${line === "" ? "" : `: ${shorten(line)}`}`;
}

function describeEnd(event: EventOf<"step.finished">, pathOf: PathOf): string {
  const { phase, step, attempt, outcome, checks, outputs, durationMs, error, ignored } = event;
  const notes = [
    `${roundOff(durationMs)} ms`,
    ...(attempt > 1 ? [`attempt ${attempt}`] : []),
    ...(ignored === true ? ["changes no verdict"] : []),
  ];
  const said = [
    ...checks.map((check) => `${check.passed ? "✓" : "✗"} ${check.name}: ${check.message}`),
    ...(error === undefined ? [] : [`${error.code}: ${error.message}`]),
    ...Object.entries(outputs ?? {}).map(([name, value]) => `${name} = ${preview(value)}`),
  ];
  const told = said.length === 0 ? "" : `: ${shorten(said.join("; "))}`;
  return `${phase}: ${pathOf(step)} ${outcome} (${notes.join(", ")})${told}`;
}

function describeGrades({ verdict, grades }: EventOf<"trial.graded">): string {
  const told = grades.map((grade) => `${grade.grader} ${grade.verdict}: ${grade.reason}`);
  return `graded ${verdict}${told.length === 0 ? "" : `: ${shorten(told.join("; "))}`}`;
}

function describeRest({ seq: _seq, at: _at, trial: _trial, type, ...rest }: TraceEvent): string {
  const fields = Object.entries(rest).map(([key, value]) => `${key}=${preview(value as Json)}`);
  return [type, ...fields].join(" ");
}

function preview(value: Json | undefined): string {
  return value === undefined
    ? ""
    : shorten(typeof value === "number" ? roundOff(value) : JSON.stringify(value));
}

function roundOff(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(1);
}

function shorten(text: string): string {
  if (text.length <= shownText) return text;
  const shown = text.slice(0, shownText);
  return `${shown.isWellFormed() ? shown : shown.slice(0, -1)}…`;
}

const shownInput = 200;

/** What a step works with, in one line: `GET http://…`, `$ command`; empty when there is nothing to say. */
export function describeInput(stepType: string, input: JsonObject): string {
  const line = describeValue(stepType, input) ?? restOf(input);
  return line.replaceAll(/\s*\n\s*/g, " ⏎ ").trim();
}

function describeValue(stepType: string, input: JsonObject): string | undefined {
  if ("if" in input && Object.keys(input).length === 1) return `if ${textOf(input["if"])}`;
  switch (stepType) {
    case "command":
      return "run" in input ? `$ ${shellTextOf(input["run"], input)}` : undefined;
    case "http":
      return "url" in input ? `${textOf(input["method"] ?? "GET")} ${textOf(input["url"])}` : undefined;
    case "file":
      return describeFile(input);
    case "script":
      return describeScript(input);
    case "mcp":
      return describeCall(input);
    case "extension":
      return `${textOf(input["extension"])}.${textOf(input["operation"])} ${valueOf(input["args"])}`;
    case "foreach":
      return "in" in input ? `${textOf(input["var"] ?? "item")} in ${valueOf(input["in"])}` : undefined;
    case "anyOf":
    case "allOf":
    case "not":
    case "group":
      return ""; // how many steps they have says nothing
    default:
      return undefined;
  }
}

function describeFile(input: JsonObject): string | undefined {
  const { path, action } = input;
  if (path === undefined) return undefined;
  const kind = isJsonObject(action) ? action["kind"] : action;
  return typeof kind === "string" ? `${kind} ${textOf(path)}` : textOf(path);
}

function describeScript(input: JsonObject): string | undefined {
  const source = isJsonObject(input["source"]) ? input["source"] : input;
  const { file, inline } = source;
  if (file !== undefined) return [file, ...listOf(input["args"])].map(textOf).join(" ");
  return inline === undefined ? undefined : shellTextOf(inline, input);
}

function shellTextOf(text: Json | undefined, { env }: JsonObject): string {
  return shownShellText(textOf(text), isJsonObject(env) ? env : {});
}

function describeCall(input: JsonObject): string | undefined {
  const { server, tool, uri, resource, prompt, args } = input;
  const where = server === undefined ? "" : `${textOf(server)}: `;
  if (tool !== undefined) return `${where}${textOf(tool)} ${valueOf(args ?? {})}`;
  const read = uri ?? resource;
  if (read !== undefined) return `${where}read ${textOf(read)}`;
  return prompt === undefined ? undefined : `${where}prompt ${textOf(prompt)} ${valueOf(args ?? {})}`;
}

/** The members in a row: `contains "ready"`. */
function restOf(input: JsonObject): string {
  return Object.entries(input)
    .map(([key, value]) => `${key} ${valueOf(value)}`)
    .join(", ");
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : valueOf(value);
}

function valueOf(value: Json | undefined): string {
  return value === undefined ? "" : previewJson(value, shownInput);
}
