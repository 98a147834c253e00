import * as z from "zod";
import { escapeTemplate } from "../../templates/template.ts";
import { anyJson, anyObject, closedObject, goDuration, patternText, texts } from "../config/config-fields.ts";
import { suggestion } from "../did-you-mean.ts";
import { exact, type Json, type JsonObject, type KeyPath } from "../json.ts";
import type { LenientReader } from "../lenient-reader.ts";
import type { JsonExpectation, Step, TextExpectation } from "../step.ts";
import type { Alias, LegacyPhase, RawStep } from "./legacy-form.ts";

const text = z.string().optional();

const scriptSchema = closedObject({
  file: text,
  inline: text,
  env: texts.prefault({}),
  timeout: goDuration.optional(),
  continueOnError: z.boolean().default(false),
});

const fieldSchema = closedObject({
  path: z.string().default(""),
  equals: anyJson.optional(),
  type: z.enum(["string", "number", "bool", "array", "object", "null"]).optional(),
  match: patternText.optional(),
  exists: z.boolean().optional(),
});

/** What a JSON text is to be: the same for HTTP bodies and for the content of MCP results. */
const contentSchema = closedObject({
  match: patternText.optional(),
  fields: z.array(fieldSchema).prefault([]),
});

const httpSchema = closedObject({
  url: z.string(),
  method: z.string().default("GET"),
  headers: texts.prefault({}),
  body: closedObject({ raw: text, json: anyObject.optional() }).prefault({}),
  timeout: goDuration.optional(),
  expect: closedObject({ status: z.int().optional(), body: contentSchema.optional() }).prefault({}),
});

const judgeSchema = closedObject({ contains: text, exact: text });

/** Body of a `SERVER.TOOL` step. */
const toolSchema = closedObject({
  args: anyObject.prefault({}),
  expect: closedObject({ isError: z.boolean().optional(), content: contentSchema.optional() }).prefault({}),
});

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
const usualTimeoutMs = 300_000;

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
 * - A field without any expectation has to exist; there it is ignored.
 */
export function buildStep(raw: RawStep, building: StepBuilding): Step | undefined {
  const { reader, expressions } = building;
  const { id, phase, path } = raw;
  const read = <S extends z.ZodType>(schema: S) => reader.read(schema, raw.body ?? {}, path);
  const replaced = (written: string, key: string, steps = false): string =>
    expressions.text(written, { step: raw, path: [...path, key], steps });
  const replacedAll = (written: Readonly<Record<string, string>>, key: string, steps = false) =>
    Object.fromEntries(
      Object.entries(written).map(([name, value]) => [
        name,
        expressions.text(value, { step: raw, path: [...path, key, name], steps }),
      ]),
    );
  switch (raw.type) {
    case "script": {
      const body = read(scriptSchema);
      if (body === undefined) return undefined;
      const { file, inline, env, timeout: timeoutMs = usualTimeoutMs, continueOnError } = body;
      if (!file && !inline) {
        const message = "a script needs either file or inline";
        reader.refuse(message, path, { code: "config/missing-key" });
        return undefined;
      }
      if (file && inline) reader.refuse("a script has file or inline, not both", path);
      if (file) building.checkFile(file, [...path, "file"]);
      return {
        id,
        timeoutMs,
        type: "script",
        failure: continueOnError ? "soft" : "hard",
        source: file ? { file: escapeTemplate(file) } : { inline: escapeTemplate(inline ?? "") },
        args: [],
        env: replacedAll(env, "env", true),
        protocol: "exit-code",
        workdir: file ? "script" : "task",
      };
    }
    case "http": {
      const request = read(httpSchema);
      if (request === undefined) return undefined;
      const { url, method, headers, body, timeout: timeoutMs = usualTimeoutMs, expect } = request;
      if (body.raw !== undefined && body.json !== undefined)
        reader.refuse("a body has raw or json, not both", [...path, "body"]);
      const content = body.raw === undefined ? undefined : { text: escapeTemplate(body.raw) };
      return {
        id,
        timeoutMs,
        type: "http",
        failure: "soft",
        url: replaced(url, "url"),
        method: replaced(method, "method"),
        headers: replacedAll(headers, "headers"),
        ...exact({ body: body.json === undefined ? content : { json: escapeObject(body.json) } }),
        expect: {
          status: expect.status === undefined ? [] : [expect.status],
          ...exact({ body: readContent(expect.body, [...path, "expect", "body"], reader) }),
        },
      };
    }
    case "llmJudge": {
      const body = read(judgeSchema);
      if (body === undefined) return undefined;
      const { contains, exact: wanted } = body;
      if (Boolean(contains) === Boolean(wanted)) {
        reader.refuse("llmJudge has either contains or exact", path);
        return undefined;
      }
      if (phase === "setup") reader.refuse("llmJudge is used in setup, before the agent has run", path);
      const step = { id, timeoutMs: usualTimeoutMs, type: "llm", failure: "soft" } as const;
      return contains
        ? { ...step, contains: replaced(contains, "contains", true) }
        : { ...step, exact: replaced(wanted ?? "", "exact", true) };
    }
    default:
      return namedStep(raw, building);
  }
}

/** `ALIAS.OPERATION` or `ALIAS.TOOL`; what stands after the first dot may have dots of its own. */
function namedStep(
  { id, type, path, body }: RawStep,
  { reader, aliases, operationMs }: StepBuilding,
): Step | undefined {
  const [alias = "", ...rest] = type.split(".");
  const name = rest.join(".");
  const meant = aliases.get(alias);
  if (meant === undefined || name === "") {
    const hasDot = type.includes(".");
    const known = hasDot ? [...aliases.keys()] : ["http", "script", "llmJudge"];
    const what = hasDot ? "extensions and servers of this task's requires" : "types of steps";
    const isNewer = /^(command|file|llm|mcp|foreach|anyOf|allOf|not|group|extension)$/.test(type);
    const newer = isNewer ? "It belongs to tasks with apiVersion: mcp-eval/v1. " : "";
    const hint = newer + suggestion(hasDot ? alias : type, known, what);
    const message = `${JSON.stringify(type)} is not a type of step here`;
    reader.refuse(message, path, { code: "config/unknown-key", at: "key", hint });
    return undefined;
  }
  if (meant.kind === "extension") {
    const args = reader.read(anyObject, body ?? {}, path);
    return (
      args && {
        id,
        timeoutMs: operationMs(meant.name),
        type: "extension",
        failure: "soft",
        extension: meant.name,
        operation: name,
        args: escapeObject(args),
      }
    );
  }
  const call = reader.read(toolSchema, body ?? {}, path);
  if (call === undefined) return undefined;
  const content = readContent(call.expect.content, [...path, "expect", "content"], reader);
  return {
    id,
    timeoutMs: usualTimeoutMs,
    type: "mcp",
    failure: "soft",
    server: meant.name,
    request: { kind: "tool", tool: name, args: escapeObject(call.args) },
    expect: { ...(call.expect.isError === true ? { isError: true } : {}), ...exact({ content }) },
  };
}

function readContent(
  content: z.output<typeof contentSchema> | undefined,
  at: KeyPath,
  reader: LenientReader,
): TextExpectation | undefined {
  const { match, fields = [] } = content ?? {};
  if (match === undefined && fields.length === 0) return undefined;
  const json = fields.map((field, index): JsonExpectation => {
    const path = translateFieldPath(field.path);
    if (path === undefined)
      reader.refuse(`${JSON.stringify(field.path)} is not a valid path`, [...at, "fields", index, "path"], {
        hint: "Write keys with dots and positions in brackets, such as items[0].name.",
      });
    const { equals, type, match: pattern, exists } = field;
    return {
      path: escapeTemplate(path ?? "$"),
      ...exact({
        exists,
        type: type === "bool" ? ("boolean" as const) : type,
        matches: pattern === undefined ? undefined : escapeTemplate(pattern),
      }),
      ...(equals === undefined || equals === null ? {} : { equals: escapeJson(equals), loose: true }),
    };
  });
  return {
    ...(match === undefined ? {} : { matches: [escapeTemplate(match)] }),
    ...(json.length === 0 ? {} : { json }),
  };
}

/** A text that may be a template: its step, its place, and whether outputs of earlier steps can be used in it. */
interface TextPlace {
  readonly step: RawStep;
  readonly path: KeyPath;
  readonly steps: boolean;
}

interface ExpressionOptions {
  readonly reader: LenientReader;
  readonly steps: readonly RawStep[];
  readonly aliases: ReadonlyMap<string, Alias>;
}

/** Rewrites the templates of one task, and remembers what they use. Lives while the task is read. */
export class Expressions {
  /** Ids of steps whose outputs some template uses. */
  readonly used = new Set<string>();
  /** Whether a random port is used. */
  usesPort = false;
  readonly #options: ExpressionOptions;

  constructor(options: ExpressionOptions) {
    this.#options = options;
  }

  /** Rewrites a text that the older tool reads as a template. */
  text(written: string, place: TextPlace): string {
    const { template, hasText } = translateTemplate(written, (expression) =>
      this.#expression(expression, place),
    );
    const message = "braces that are not an expression are taken as text; mcpchecker refuses such a text";
    if (hasText) this.#options.reader.note(message, place.path);
    return template;
  }

  /** Rewrites a prompt: it may use outputs of setup steps, and nothing else. */
  prompt(written: string, path: KeyPath): string {
    const { reader } = this.#options;
    return translateTemplate(written, (expression) => {
      const ours = this.#output(expression, this.#steps("setup"));
      if (ours === undefined && expression.startsWith("steps."))
        reader.note(`{${expression}} means no output of a setup step and is taken as text`, path);
      return ours;
    }).template;
  }

  #steps(phase: LegacyPhase): readonly RawStep[] {
    return this.#options.steps.filter((step) => step.phase === phase);
  }

  #expression(expression: string, { step, path, steps }: TextPlace): string | undefined {
    if (/^env\.\w+$/.test(expression) || expression === "random.id") return expression;
    if (expression === "random.port") {
      this.usesPort = true;
      return expression;
    }
    if (expression === "agent.output" || expression === "agent.prompt") {
      const message = `{${expression}} is used in setup, before the agent has run`;
      if (step.phase === "setup")
        this.#options.reader.refuse(message, path, { hint: "Use it in verify or cleanup." });
      return expression;
    }
    if (!steps) return undefined;
    // Outputs of earlier steps of its phase can be used, in cleanup also those of setup.
    const own = this.#steps(step.phase);
    const earlier = own.slice(0, own.indexOf(step));
    return this.#output(
      expression,
      step.phase === "cleanup" ? [...this.#steps("setup"), ...earlier] : earlier,
    );
  }

  #output(expression: string, steps: readonly RawStep[]): string | undefined {
    const [, named = "", output = ""] = /^steps\.(.+)\.([\w-]+)$/.exec(expression) ?? [];
    const step = steps.findLast(({ id, type }) => {
      const [alias = "", ...rest] = type.split(".");
      const name = this.#options.aliases.get(alias)?.name;
      // Its type is named as the eval does, or as the task.
      const types = name === undefined ? [] : [[name, ...rest].join("."), type];
      return named === id || types.includes(named);
    });
    if (step === undefined || output === "") return undefined;
    this.used.add(step.id);
    return `steps.${step.id}.outputs.${output}`;
  }
}

/**
 * Rewrites a template of the older forms: `{…}` as `translate` says, `${NAME}` as `env.NAME`; all other braces become text.
 * `hasText` says whether there are such braces: the older tool refuses such a text.
 */
export function translateTemplate(
  written: string,
  translate: (expression: string) => string | undefined,
): { readonly template: string; readonly hasText: boolean } {
  let template = "";
  let hasText = false;
  let open = 0;
  const addText = (part: string): void => {
    for (const character of part) {
      const doubled = character === "{" || (character === "}" && open > 0);
      if (doubled) open += character === "{" ? 1 : -1;
      hasText ||= character === "{" || character === "}";
      template += doubled ? character + character : character;
    }
  };
  let end = 0;
  for (const { 0: whole, 1: variable, 2: inner = "", index } of written.matchAll(
    /\$\{(\w+)\}|\{([^{}]*)\}/g,
  )) {
    addText(written.slice(end, index));
    const ours = translate(variable === undefined ? inner.trim() : `env.${variable}`);
    // After a `$` braces are always text.
    if (ours === undefined || template.endsWith("$")) addText(whole);
    else template += `{${ours}}`;
    end = index + whole.length;
  }
  addText(written.slice(end));
  return { template, hasText };
}

/** Escapes every text of a JSON value, so that as a template it gives the value again. */
export function escapeJson(value: Json): Json {
  if (typeof value === "string") return escapeTemplate(value);
  if (Array.isArray(value)) return value.map((item: Json) => escapeJson(item));
  return typeof value === "object" && value !== null ? escapeObject(value as JsonObject) : value;
}

function escapeObject(value: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, escapeJson(member)]));
}

/**
 * Turns a path of the older forms into RFC 9535. Dots separate object keys, `[n]` indexes lists, a number after a dot is a
 * key, an empty path is the whole document: `items[0].name`. Undefined for an invalid path.
 */
export function translateFieldPath(path: string): string | undefined {
  const trimmed = path.trim();
  const segments = trimmed.replace(/^(?:\$(?=[.[]|$))?\.?/, "");
  if (segments === "") return "$";
  if (!/^(?:[^.[\]]+|\[\d+\])(?:\.[^.[\]]+|\[\d+\])*$/.test(segments)) return undefined;
  const parts = [...segments.matchAll(/\[(\d+)\]|[^.[\]]+/g)].map(([key, index]) => {
    if (index !== undefined) return `[${Number(index)}]`;
    return /^[A-Za-z_]\w*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
  });
  return `$${parts.join("")}`;
}
