import { escapeTemplate } from "../../templates/parse-template.ts";
import { anyObject } from "../config/config-fields.ts";
import { suggestion } from "../did-you-mean.ts";
import { type KeyPath, withoutUndefined } from "../json.ts";
import type { LenientReader } from "../lenient-reader.ts";
import type { JsonObject } from "../model.ts";
import type {
  HttpStep,
  JsonExpectation,
  LlmStep,
  McpStep,
  ScriptStep,
  Step,
  StepBase,
  TextExpectation,
} from "../step.ts";
import {
  escapeJson,
  escapeObject,
  type Expressions,
  type TextPlace,
  translateFieldPath,
} from "./expressions.ts";
import {
  type Alias,
  httpSchema,
  judgeSchema,
  type LegacyContent,
  type LegacyField,
  type RawStep,
  scriptSchema,
  toolSchema,
} from "./legacy-form.ts";

/** What steps are built with. */
export interface StepBuilding {
  readonly reader: LenientReader;
  readonly expressions: Expressions;
  readonly aliases: ReadonlyMap<string, Alias>;
  /** Refuses a file that the task does not have. */
  readonly checkFile: (file: string, path: KeyPath) => void;
  /** How long operations of an extension may take, in milliseconds. */
  readonly operationMs: (extension: string) => number;
}

/** The older tool's limit for scripts and HTTP; what has none there gets it too. */
const timeoutMs = 300_000;

/**
 * Builds one step of the older forms. Undefined for one that is wrong; why is among the reader's problems.
 *
 * On purpose not as in the older tool:
 * - `expect: {isError: true}` fails when the tool succeeds; there it does not.
 * - A step that could not act (a script past its time, a refused connection, a judge without verdict) makes the trial an
 *   error, also under `continueOnError`; there it is a failure of the agent, or none at all.
 * - A script that is not there is refused when the task is loaded.
 * - Without a judge, a task that asks one is an error; there every such step passes.
 * - A template that names a step means the last one of that type before it, not the last one that succeeded.
 */
export function buildStep(raw: RawStep, building: StepBuilding): Step | undefined {
  switch (raw.type) {
    case "script":
      return scriptStep(raw, building);
    case "http":
      return httpStep(raw, building);
    case "llmJudge":
      return judgeStep(raw, building);
    default:
      return namedStep(raw, building);
  }
}

function scriptStep(raw: RawStep, { reader, expressions, checkFile }: StepBuilding): ScriptStep | undefined {
  const body = reader.read(scriptSchema, raw.body ?? {}, raw.path);
  if (body === undefined) return undefined;
  const { file, inline } = body;
  const source = scriptSource(body);
  if (source === undefined) {
    const message = "a script needs either file or inline";
    reader.problem({ code: "config/missing-key", message, path: raw.path, at: "value" });
    return undefined;
  }
  if (isGiven(file) && isGiven(inline)) reader.refuse("a script has file or inline, not both", raw.path);
  if (isGiven(file)) checkFile(file, [...raw.path, "file"]);
  return {
    ...base(raw, body.timeout),
    type: "script",
    failure: body.continueOnError === true ? "soft" : "hard",
    source,
    args: [],
    env: expressions.record(body.env, place(raw, ["env"], true)),
    protocol: "exit-code",
    workdir: "file" in source ? "script" : "task",
  };
}

function scriptSource(body: {
  readonly file?: string | undefined;
  readonly inline?: string | undefined;
}): ScriptStep["source"] | undefined {
  if (isGiven(body.file)) return { file: escapeTemplate(body.file) };
  return isGiven(body.inline) ? { inline: escapeTemplate(body.inline) } : undefined;
}

function isGiven(text: string | undefined): text is string {
  return text !== undefined && text !== "";
}

function httpStep(raw: RawStep, { reader, expressions }: StepBuilding): HttpStep | undefined {
  const body = reader.read(httpSchema, raw.body ?? {}, raw.path);
  if (body === undefined) return undefined;
  const { expect } = body;
  if (body.body?.raw !== undefined && body.body.json !== undefined)
    reader.refuse("a body has raw or json, not both", [...raw.path, "body"]);
  return withoutUndefined({
    ...base(raw, body.timeout),
    type: "http" as const,
    failure: "soft" as const,
    url: expressions.text(body.url, place(raw, ["url"])),
    method: expressions.text(body.method ?? "GET", place(raw, ["method"])),
    headers: expressions.record(body.headers, place(raw, ["headers"])),
    body: httpBody(body.body),
    expect: withoutUndefined({
      status: expect?.status === undefined ? [] : [expect.status],
      body: contentExpectation(expect?.body, [...raw.path, "expect", "body"], reader),
    }),
  });
}

function httpBody(
  body: { readonly raw?: string | undefined; readonly json?: JsonObject | undefined } | undefined,
): HttpStep["body"] {
  if (body?.json !== undefined) return { json: escapeObject(body.json) };
  return body?.raw === undefined ? undefined : { text: escapeTemplate(body.raw) };
}

function judgeStep(raw: RawStep, { reader, expressions }: StepBuilding): LlmStep | undefined {
  const body = reader.read(judgeSchema, raw.body ?? {}, raw.path);
  if (body === undefined) return undefined;
  const { contains, exact } = body;
  if (isGiven(contains) === isGiven(exact)) {
    reader.refuse("llmJudge has either contains or exact", raw.path);
    return undefined;
  }
  if (raw.phase === "setup") reader.refuse("llmJudge is used in setup, before the agent has run", raw.path);
  const common = { ...base(raw), type: "llm" as const, failure: "soft" as const };
  return isGiven(contains)
    ? { ...common, contains: expressions.text(contains, place(raw, ["contains"], true)) }
    : { ...common, exact: expressions.text(exact ?? "", place(raw, ["exact"], true)) };
}

/** `ALIAS.OPERATION` or `ALIAS.TOOL`; what stands after the first dot may have dots of its own. */
function namedStep(raw: RawStep, building: StepBuilding): Step | undefined {
  const dot = raw.type.indexOf(".");
  const alias = building.aliases.get(raw.type.slice(0, Math.max(0, dot)));
  const operation = raw.type.slice(dot + 1);
  if (dot === -1 || alias === undefined || operation === "") {
    unknownType(raw, building);
    return undefined;
  }
  if (alias.kind === "server") return toolStep(raw, { server: alias.name, tool: operation }, building);
  const args = building.reader.read(anyObject, raw.body ?? {}, raw.path);
  if (args === undefined) return undefined;
  return {
    ...base(raw, building.operationMs(alias.name)),
    type: "extension",
    failure: "soft",
    extension: alias.name,
    operation,
    args: escapeObject(args),
  };
}

function unknownType({ type, path }: RawStep, { reader, aliases }: StepBuilding): void {
  const [alias = ""] = type.split(".");
  const known = type.includes(".") ? [...aliases.keys()] : ["http", "script", "llmJudge"];
  const what = type.includes(".") ? "extensions and servers of this task's requires" : "types of steps";
  const ours = /^(command|file|llm|mcp|foreach|anyOf|allOf|not|group|extension)$/.test(type)
    ? "It belongs to tasks with apiVersion: mcp-eval/v1. "
    : "";
  reader.problem({
    code: "config/unknown-key",
    message: `${JSON.stringify(type)} is not a type of step here`,
    path,
    at: "key",
    hint: ours + suggestion(type.includes(".") ? alias : type, known, what),
  });
}

function toolStep(
  raw: RawStep,
  { server, tool }: { readonly server: string; readonly tool: string },
  { reader }: StepBuilding,
): McpStep | undefined {
  const body = reader.read(toolSchema, raw.body ?? {}, raw.path);
  if (body === undefined) return undefined;
  const { isError, content } = body.expect ?? {};
  return {
    ...base(raw),
    type: "mcp",
    failure: "soft",
    server,
    request: { kind: "tool", tool, args: escapeObject(body.args ?? {}) },
    expect: withoutUndefined({
      isError: isError === true ? true : undefined,
      content: contentExpectation(content, [...raw.path, "expect", "content"], reader),
    }),
  };
}

function base({ id }: RawStep, limitMs = timeoutMs): Pick<StepBase, "id" | "timeoutMs"> {
  return { id, timeoutMs: limitMs };
}

function place(step: RawStep, keys: KeyPath, steps = false): TextPlace {
  return { step, path: [...step.path, ...keys], steps };
}

/**
 * Reads `{match, fields}`. One thing is stricter than in the older tool: a field without any expectation has to exist, where
 * there it says nothing.
 */
function contentExpectation(
  content: LegacyContent | undefined,
  path: KeyPath,
  reader: LenientReader,
): TextExpectation | undefined {
  const { match, fields = [] } = content ?? {};
  if (match === undefined && fields.length === 0) return undefined;
  const json = fields.map((field, index) => fieldExpectation(field, [...path, "fields", index], reader));
  return withoutUndefined({
    matches: match === undefined ? undefined : [escapeTemplate(match)],
    json: json.length === 0 ? undefined : json,
  });
}

function fieldExpectation(field: LegacyField, at: KeyPath, reader: LenientReader): JsonExpectation {
  const path = translateFieldPath(field.path ?? "");
  if (path === undefined) {
    reader.refuse(`${JSON.stringify(field.path)} is not a valid path`, [...at, "path"], {
      hint: "Write keys with dots and positions in brackets, such as items[0].name.",
    });
  }
  const { equals, type, match, exists } = field;
  return withoutUndefined({
    path: escapeTemplate(path ?? "$"),
    exists,
    type: type === "bool" ? ("boolean" as const) : type,
    matches: match === undefined ? undefined : escapeTemplate(match),
    ...(equals === undefined || equals === null ? {} : { equals: escapeJson(equals), loose: true as const }),
  });
}
