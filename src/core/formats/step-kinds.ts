import * as z from "zod";
import {
  type FindPlace,
  inBody,
  inFilePath,
  inProgramName,
  inProgramText,
  inRubric,
  inText,
  inUrl,
  inVariable,
  nowhere,
} from "../templates/places.ts";
import { isShell, scriptProgram } from "../templates/shell-line.ts";
import { anyJson, anyObject, closedObject, duration, filledText } from "./config/config-fields.ts";
import { maxDurationMs } from "./duration.ts";
import type { ProgramText } from "./idle-program.ts";
import { asObject, type Json, type JsonObject, withoutUndefined } from "./json.ts";
import {
  asWhole,
  commonFields,
  json,
  jsonExpectationModel,
  jsonExpectations,
  jsonObject,
  milliseconds,
  type Model,
  templateName,
  text,
  textExpectation,
  textExpectationModel,
  textParts,
  texts,
  timeoutField,
  variables,
} from "./step-fields.ts";
import { validate } from "./problem.ts";

/** The keys under which a step has steps. */
export const innerLists = ["setup", "steps", "cleanup"] as const;
export type InnerList = (typeof innerLists)[number];

type Shape = Readonly<Record<string, z.ZodType>>;
/** The fields of a step of some kind, in the model. */
type Fields<S extends Shape> = Model<z.ZodObject<S>>;

/**
 * All that is known of a kind of step without running it. Parsing, the checks of templates, the JSON Schemas, the reference
 * page and the export of tasks come from here; how it is run is for `src/steps`.
 */
export interface StepKind<S extends Shape = Shape, I extends InnerList = InnerList> {
  /** For the list of all steps. */
  readonly summary: string;
  /** Its own fields in the model, which is also what is exported. */
  readonly model: S;
  /** The lists of steps that it has. */
  readonly inner: readonly I[];
  /** Whether a list of steps may stand for the body, or also a single step. */
  readonly shortBody?: "list" | "list or step";
  /** How it is written under its own name. */
  readonly form: StepForm;
  /** How it is written as `SERVER.TOOL` or `ALIAS.OPERATION`. */
  readonly dotted?: StepForm;
  /** The only phases that it may stand in; absent: all. */
  readonly phases?: readonly string[];
  /**
   * What its texts are, by their keys in the body, `*` for every member. All others are texts in which values may stand as
   * they are.
   */
  readonly texts: Readonly<Record<string, TextRole<S>>>;
  /** Keys of the body in which templates are not replaced. */
  readonly plainKeys?: readonly string[];
  /** Keys of what it sends, which a program or server might only repeat. */
  readonly given?: readonly string[];
  /** What its `outputs` may use. */
  values(step: Fields<S>): Readonly<Record<string, HasNames>>;
  /** The program that decides by exiting with 0, where there is one; `read` gives the text of a file of the task. */
  program?(step: Fields<S>, read: (file: string) => string | undefined): StepProgram | undefined;
  /** Whether it could fail, apart from its program. Absent: yes. */
  canFail?(step: Fields<S>, inner: readonly InnerOutcome[]): boolean;
}

/** Whether there is something behind some names, such as `["headers", "etag"]` behind `response`. */
export type HasNames = (names: readonly string[]) => boolean;

export interface StepProgram {
  /** Absent when it is not known. */
  readonly text?: ProgramText;
  /** Whether what it writes is checked, besides its exit code. */
  readonly isRead: boolean;
}

export interface InnerOutcome {
  /** Whether the step could fail, and that would count. */
  readonly canFail: boolean;
  /** Whether its failure would count. */
  readonly counts: boolean;
}

/** What a text of a step is. */
export type TextRole<S extends Shape = Shape> =
  | {
      readonly role: "text";
      /** A path that must not leave the task's folder; `file`: of a file that exists. */
      readonly path?: "inside" | "file";
      place(step: Fields<S>, at: TextPlace): FindPlace | "shell";
    }
  /** A text that is the same in every trial proves nothing. */
  | { readonly role: "judged text" }
  | { readonly role: "text expectation" }
  | { readonly role: "JSON expectations" }
  | { readonly role: "JSON Schema" };

export interface TextPlace {
  /** The last key of the text's path. */
  readonly key: string;
  /** Whether a text has no template. */
  readonly isStatic: (text: string) => boolean;
}

/** How the body of a step is written. */
export interface StepForm {
  readonly schema: z.ZodType;
  /** The fields of the step in the model, but for its steps. */
  read(
    body: Json,
    place: StepPlace,
  ):
    | { readonly fields: Readonly<Record<string, unknown>>; readonly issues?: never }
    | { readonly fields?: never; readonly issues: readonly z.core.$ZodIssue[] };
}

/** What the body of a step does not say. */
export interface StepPlace {
  readonly id: string;
  /** Before and after the dot of `SERVER.TOOL` and `ALIAS.OPERATION`. */
  readonly names: readonly [string, string];
  /** How long operations of an extension may take when the step says nothing, in milliseconds. */
  readonly operationMs: (extension: string) => number;
}

/** What all steps may have in a file, as parsed. */
interface CommonBody {
  readonly name?: string | undefined;
  readonly if?: string | undefined;
  readonly timeout?: number | undefined;
  readonly continueOnError?: boolean | undefined;
  readonly outputs?: Readonly<Record<string, string>> | undefined;
  readonly retry?: { readonly forMs: number; readonly everyMs: number } | undefined;
  readonly stableFor?: number | undefined;
}

interface FormOf<S extends Shape, B extends z.ZodType<CommonBody>> {
  readonly schema: B;
  /** Gives the kind's own fields, and the time limit where the body's is not it. */
  readonly build: (
    body: z.output<B>,
    place: StepPlace,
  ) => WithUndefined<Fields<S>> & { readonly timeoutMs?: number };
}

/** Lets optional members be undefined: these are left out. */
type WithUndefined<T> = { readonly [K in keyof T]: {} extends Pick<T, K> ? T[K] | undefined : T[K] };

type KindOf<
  S extends Shape,
  I extends InnerList,
  B extends z.ZodType<CommonBody>,
  D extends z.ZodType<CommonBody>,
> = Omit<StepKind<S, I>, "form" | "dotted" | "inner"> &
  FormOf<S, B> & { readonly dotted?: FormOf<S, D>; readonly inner?: readonly I[] };

function stepKind<
  S extends Shape,
  B extends z.ZodType<CommonBody>,
  D extends z.ZodType<CommonBody> = B,
  I extends InnerList = never,
>({ schema, build, dotted, inner = [], ...rest }: KindOf<S, I, B, D>): StepKind<S, I> {
  return {
    ...rest,
    inner,
    form: formOf({ schema, build }),
    ...(dotted === undefined ? {} : { dotted: formOf(dotted) }),
  };
}

function formOf<S extends Shape, B extends z.ZodType<CommonBody>>({ schema, build }: FormOf<S, B>): StepForm {
  return {
    schema,
    read: (written, place) => {
      const { data, issues } = validate(schema, written);
      if (data === undefined) return { issues };
      const { name, timeout = maxDurationMs, continueOnError, outputs, retry, stableFor } = data;
      const common = { id: place.id, name, timeoutMs: timeout, continueOnError, outputs, retry };
      const waiting = { stableForMs: stableFor, if: data.if };
      return { fields: withoutUndefined({ ...common, ...waiting, ...build(data, place) }) };
    },
  };
}

function placed<S extends Shape>(find: FindPlace, path?: "inside" | "file"): TextRole<S> {
  return { role: "text", place: () => find, ...(path === undefined ? {} : { path }) };
}

const variable: TextRole = { role: "text", place: (_, { key }) => inVariable(key) };
const textRole = { role: "text expectation" } as const;
const jsonRole = { role: "JSON expectations" } as const;

const plain: HasNames = (names) => names.length === 0;
const any: HasNames = () => true;
const printed = { stdout: plain, stderr: plain, exitCode: plain };
/** What the outputs of a request to a server may use. */
export const answerValues = { result: any, text: plain };

const env = variables.default({}).meta({
  description: "Environment variables of the process, in addition to `spec.env`.",
});

const command = stepKind({
  summary: "Runs a shell command line.",
  model: {
    run: text.describe("The shell command line."),
    shell: text.describe("Absent: the variable SHELL, else `/bin/sh`.").exactOptional(),
    workdir: text.describe("Relative to the task's folder.").exactOptional(),
    env: texts,
    stdin: text.exactOptional(),
    expect: z.strictObject({
      exitCode: z.int(),
      stdout: textExpectationModel.exactOptional(),
      stderr: textExpectationModel.exactOptional(),
    }),
  },
  schema: closedObject({
    run: filledText.meta({ description: "The shell command line, or several lines." }),
    shell: filledText.optional().meta({
      description: "The shell.",
      defaultText: "the variable `SHELL`, else `/bin/sh`",
    }),
    workdir: filledText.optional().meta({
      description: "The working folder, relative to the task's folder.",
      defaultText: "the task's folder",
    }),
    env,
    stdin: z.string().optional().meta({ description: "Input on stdin.", defaultText: "nothing" }),
    expect: closedObject({
      exitCode: z.int().default(0).meta({ description: "The expected exit code of the shell." }),
      stdout: textExpectation
        .optional()
        .meta({ description: "Expected stdout; a plain text means equality." }),
      stderr: textExpectation
        .optional()
        .meta({ description: "Expected stderr; a plain text means equality." }),
    })
      .meta({
        id: "CommandExpectation",
        title: "Command expectation",
        description: "Expectations of a command.",
      })
      .prefault({})
      .meta({ description: "Expectations." }),
    timeout: timeoutField("60s"),
    ...commonFields,
  }).meta({
    id: "CommandStep",
    title: "Step command",
    description:
      "Runs a shell command line. Its `outputs` may use `{stdout}`, `{stderr}` (without trailing line ends) and `{exitCode}`. Background processes end with the trial.",
  }),
  build: ({ run, shell, workdir, env: own, stdin, expect }) => ({
    run,
    shell,
    workdir,
    env: own,
    stdin,
    expect: withoutUndefined(expect),
  }),
  texts: {
    run: {
      role: "text",
      place: ({ shell }, { isStatic }) =>
        shell !== undefined && isStatic(shell) && !isShell(shell) ? inProgramText(shell) : "shell",
    },
    shell: placed(inProgramName),
    workdir: placed(inFilePath, "inside"),
    "env.*": variable,
    "expect.stdout": textRole,
    "expect.stderr": textRole,
  },
  given: ["run", "stdin"],
  values: () => printed,
  program: ({ run, shell, expect }) =>
    expect.exitCode === 0
      ? {
          text: { text: run, ...(shell === undefined ? {} : { shell }) },
          isRead: expect.stdout !== undefined || expect.stderr !== undefined,
        }
      : undefined,
});

const status = z.union([
  z.int().min(100).max(599),
  z.string().regex(/^[1-5]xx$/, { error: 'must be a status such as 200, or a class such as "2xx"' }),
]);
const presentJson = z.custom<Json>((value) => value !== undefined, { error: "any JSON value" });

const http = stepKind({
  summary: "Sends one HTTP request.",
  model: {
    url: text,
    method: text,
    headers: texts,
    body: z.union([z.strictObject({ text }), z.strictObject({ json })]).exactOptional(),
    expect: z.strictObject({
      status: z.array(z.union([z.int(), text])).describe("Alternatives; empty: any."),
      headers: z.record(text, textExpectationModel).exactOptional(),
      body: textExpectationModel.exactOptional(),
    }),
  },
  schema: closedObject({
    url: filledText.meta({ description: "URL, starting with `http://` or `https://`." }),
    method: filledText.default("GET").meta({ description: "HTTP method." }),
    headers: z.record(filledText, z.string()).default({}).meta({ description: "Headers of the request." }),
    body: z
      .union([z.string(), closedObject({ json: presentJson.meta({ description: "Any JSON value." }) })])
      .optional()
      .meta({
        description: "A text, or `{json: …}` for any JSON value, which also sets `content-type`.",
        defaultText: "none",
      }),
    expect: closedObject({
      status: z
        .union([status, z.array(status).min(1)])
        .default("2xx")
        .meta({ description: "A status, a class such as `2xx`, or a list of alternatives." }),
      headers: z.record(filledText, textExpectation).optional().meta({
        description: "Expected headers by name; a plain text means equality.",
      }),
      body: textExpectation.optional().meta({ description: "Expected body; a plain text means equality." }),
    })
      .meta({ id: "HttpExpectation", title: "HTTP expectation", description: "Expectations of a response." })
      .prefault({})
      .meta({ description: "Expected response." }),
    timeout: timeoutField("30s"),
    ...commonFields,
  }).meta({
    id: "HttpStep",
    title: "Step http",
    description:
      "Sends one HTTP request; redirects are followed. Its `outputs` may use `{response.body}`, `{response.status}` and `{response.headers.NAME}`.",
  }),
  build: ({ url, method, headers, body, expect }) => ({
    url,
    method: method.includes("{") ? method : method.toUpperCase(),
    headers,
    body: typeof body === "string" ? { text: body } : body,
    expect: withoutUndefined({
      ...expect,
      status: Array.isArray(expect.status) ? expect.status : [expect.status],
    }),
  }),
  texts: {
    url: placed(inUrl),
    method: placed(nowhere("where the method of a request is named")),
    body: {
      role: "text",
      place: ({ body, headers }) =>
        body !== undefined && "text" in body ? inBody(body.text, headers) : inText,
    },
    "expect.headers.*": textRole,
    "expect.body": textRole,
  },
  given: ["url", "body"],
  values: () => ({
    response: ([part, header, ...rest]) => {
      if (part === undefined) return true;
      if (part === "headers") return rest.length === 0;
      return (part === "body" || part === "status") && header === undefined;
    },
  }),
  canFail: ({ expect: { status: accepted, headers, body } }) =>
    headers !== undefined ||
    body !== undefined ||
    !["2xx", "3xx", "4xx", "5xx"].every((each) => accepted.includes(each)),
});

/**
 * Reads permission bits: a text of octal digits such as `0644`, or a number whose decimal digits are octal ones, since
 * YAML reads `0644` as the number 644. Undefined for anything else, and for a number that looks like bits written as
 * `0o644`: one whose digits would give others what the owner lacks.
 */
export function parseFileMode(value: unknown): number | undefined {
  if (typeof value === "string")
    return /^0?o?[0-7]{3}$/.test(value) ? Number.parseInt(value.slice(-3), 8) : undefined;
  if (typeof value !== "number" || !/^[0-7]{3}$/.test(String(value))) return undefined;
  const bits = Number.parseInt(String(value), 8);
  const owner = bits >> 6;
  const others = ((bits >> 3) | bits) & 7;
  // 0o777 is the number 511: its digits look like other bits.
  const isSensible = (owner & 4) !== 0 && (others & ~owner) === 0;
  return isSensible && value !== 0o777 ? bits : undefined;
}

const defaultMode = 0o644;

const fileMode = z
  .custom<number | string>(
    (value) => parseFileMode(value) !== undefined,
    asWhole('must be permission bits as octal digits, best as a text: "0644"'),
  )
  .transform((value) => parseFileMode(value) ?? 0)
  .meta({
    id: "FileMode",
    title: "File mode",
    description:
      'Permission bits as octal digits: `"0644"`, or the number `644`. Do not write `0o644`: YAML reads it as the number 420.',
    type: ["number", "string"],
    examples: ["0644", "0755"],
  });

const fileUses = ["content", "absent", "expect"] as const;

/** Names the keys of which only one may be there. */
function fileUseError(value: unknown): string {
  const uses = "content (create the file), absent (remove it) and expect (check it)";
  const given = fileUses.filter((key) => asObject(value)[key] !== undefined);
  const all = given.length === 2 ? `both ${given.join(" and ")}` : given.join(", ");
  return given.length === 0 ? `must have one of ${uses}` : `has ${all}: only one of ${uses} may be there`;
}

const file = stepKind({
  summary: "Creates, removes or checks a file.",
  model: {
    path: text.describe("Relative to the task's folder."),
    action: z.discriminatedUnion("kind", [
      z.strictObject({ kind: z.literal("create"), content: text, mode: z.int() }),
      z.strictObject({ kind: z.literal("remove") }),
      z.strictObject({
        kind: z.literal("check"),
        exists: z.boolean(),
        mode: z.int().describe("Permission bits.").exactOptional(),
        content: textExpectationModel.exactOptional(),
      }),
    ]),
  },
  schema: closedObject({
    path: filledText.meta({ description: "Relative to the task's folder, or inside `{workspace}`." }),
    content: z
      .string()
      .optional()
      .meta({ description: "Creates the file with this content, and missing parent folders." }),
    mode: fileMode.optional().meta({
      description: "Permission bits of the created file.",
      defaultText: "`0644`",
    }),
    absent: z.literal(true).optional().meta({
      description: "Removes the file, in the workspace also a whole folder. A missing file is not an error.",
    }),
    expect: closedObject({
      exists: z.boolean().default(true).meta({ description: "Whether it exists." }),
      ...textParts,
      mode: fileMode.optional().meta({ description: "Its permission bits." }),
    })
      .refine(
        (value) => value.exists || Object.keys(value).length === 1,
        asWhole("must not have anything else when exists is false"),
      )
      .meta({ id: "FileExpectation", title: "File expectation", description: "Expectations of a file." })
      .optional()
      .meta({ description: "Checks the file." }),
    timeout: timeoutField("30s"),
    ...commonFields,
  })
    .refine((value) => fileUses.filter((key) => value[key] !== undefined).length === 1, asWhole(fileUseError))
    .refine(
      (value) => value.mode === undefined || value.content !== undefined,
      asWhole("has mode, which needs content"),
    )
    .meta({
      oneOf: [{ required: ["content"] }, { required: ["absent"] }, { required: ["expect"] }],
      id: "FileStep",
      title: "Step file",
      description:
        "Creates, removes or checks a file: exactly one of `content`, `absent` and `expect`. Its `outputs` may use `{content}`.",
    }),
  build: ({ path, content, mode = defaultMode, expect }) => {
    if (content !== undefined) return { path, action: { kind: "create" as const, content, mode } };
    if (expect === undefined) return { path, action: { kind: "remove" as const } };
    const { exists, mode: bits, ...parts } = expect;
    const wanted = withoutUndefined(parts);
    const isEmpty = Object.keys(wanted).length === 0;
    const check = { exists, mode: bits, content: isEmpty ? undefined : wanted };
    return { path, action: { kind: "check" as const, ...withoutUndefined(check) } };
  },
  texts: { path: placed(inFilePath, "inside"), expect: textRole },
  plainKeys: ["mode"],
  values: ({ action }): Readonly<Record<string, HasNames>> =>
    action.kind === "remove" ? {} : { content: plain },
  canFail: ({ action }) => action.kind === "check",
});

const llm = stepKind({
  summary: "Asks the judge about a text; only in verify.",
  phases: ["verify"],
  model: {
    contains: text.exactOptional(),
    exact: text.exactOptional(),
    rubric: text.exactOptional(),
    input: text.describe("The text to judge; absent: the agent's output.").exactOptional(),
  },
  schema: closedObject({
    contains: filledText.optional().meta({ description: "What the text must say, in any wording." }),
    exact: filledText.optional().meta({ description: "What the text must say, and nothing else." }),
    rubric: filledText.optional().meta({
      description:
        "Criteria for the judge; the text passes with a score of at least the judge's `passThreshold` (default 0.8).",
    }),
    input: z
      .string()
      .optional()
      .meta({ description: "The text to judge.", defaultText: "the agent's output" }),
    timeout: timeoutField("60s"),
    ...commonFields,
  })
    .refine(
      (value) => [value.contains, value.exact, value.rubric].some((each) => each !== undefined),
      asWhole("must have contains, exact or rubric"),
    )
    .meta({
      anyOf: [{ required: ["contains"] }, { required: ["exact"] }, { required: ["rubric"] }],
      id: "LlmStep",
      title: "Step llm",
      description:
        "Asks the eval's judge about a text; only in verify. At least one of `contains`, `exact` and `rubric`. Its `outputs` may use `{score}` and `{reason}`.",
    }),
  build: ({ contains, exact, rubric, input }) => ({ contains, exact, rubric, input }),
  texts: { rubric: placed(inRubric), input: { role: "judged text" } },
  values: () => ({ score: plain, reason: plain }),
});

const script = stepKind({
  summary: "Runs a program of the task.",
  model: {
    source: z.union([z.strictObject({ file: text }), z.strictObject({ inline: text })]),
    args: z.array(text),
    env: texts,
    protocol: z.enum(["exit-code", "json"]),
    workdir: z
      .enum(["task", "script"])
      .describe("The working folder: the task's folder, or that of the script."),
  },
  schema: closedObject({
    file: filledText.optional().meta({
      description:
        "The program, relative to the task's folder. An executable file is started directly, any other by the program in its `#!` line, else by the shell.",
    }),
    inline: filledText.optional().meta({
      description: "Its text. A first line such as `#!/usr/bin/env python3` selects the interpreter.",
    }),
    args: z.array(z.string()).default([]).meta({ description: "Its arguments." }),
    env,
    protocol: z.enum(["exit-code", "json"]).default("exit-code").meta({
      description:
        "`exit-code`: it passes if it exits with 0. `json`: it reads the trial as JSON on stdin and writes its answer as JSON to stdout.",
    }),
    timeout: timeoutField("300s"),
    ...commonFields,
  })
    .refine(
      (value) => (value.file === undefined) !== (value.inline === undefined),
      asWhole("must have either file or inline"),
    )
    .meta({
      oneOf: [{ required: ["file"] }, { required: ["inline"] }],
      id: "ScriptStep",
      title: "Step script",
      description:
        "Runs a program of the task: exactly one of `file` and `inline`. With `protocol: json` its `outputs` come from its answer; otherwise they may use `{stdout}`, `{stderr}` and `{exitCode}`.",
    }),
  build: ({ file: path, inline = "", args, env: own, protocol }) => ({
    source: path === undefined ? { inline } : { file: path },
    args,
    env: own,
    protocol,
    workdir: "task" as const,
  }),
  texts: {
    file: placed(inProgramName, "file"),
    inline: {
      role: "text",
      place: ({ source }) => {
        const program = "inline" in source ? scriptProgram(source.inline) : undefined;
        return program === undefined || isShell(program) ? "shell" : inProgramText(program);
      },
    },
    "env.*": variable,
  },
  plainKeys: ["protocol"],
  values: ({ protocol }) => (protocol === "json" ? { ...printed, outputs: any } : printed),
  program: ({ source, protocol }, read) => {
    const content = "inline" in source ? source.inline : read(source.file);
    return content === undefined ? undefined : { text: { text: content }, isRead: protocol === "json" };
  },
});

/** The keys that say what an `mcp` step or a solution's `mcp` asks of a server. */
export const mcpRequestFields = {
  server: filledText.optional().meta({
    description: "Name of the server.",
    defaultText: "the one that offers the tool, or the only one",
  }),
  tool: filledText.optional().meta({ description: "The tool to call." }),
  resource: filledText.optional().meta({ description: "URI of the resource to read." }),
  prompt: filledText.optional().meta({ description: "The prompt to get." }),
  args: anyObject.optional().meta({ description: "Arguments of the tool or prompt.", defaultText: "`{}`" }),
};

interface RequestBody {
  readonly tool?: string | undefined;
  readonly resource?: string | undefined;
  readonly prompt?: string | undefined;
  readonly args?: JsonObject | undefined;
}

/** An object with `mcpRequestFields` that asks for exactly one thing. */
export function requestSchema<S extends typeof mcpRequestFields>(shape: S): z.ZodObject<S, z.core.$strict> {
  return closedObject(shape)
    .refine(
      (body: object) => ["tool", "resource", "prompt"].filter((key) => key in body).length === 1,
      asWhole("must have one of tool, resource and prompt"),
    )
    .refine(
      (body: object) => !("resource" in body && "args" in body),
      asWhole("must not have args: a resource takes none"),
    )
    .meta({ oneOf: [{ required: ["tool"] }, { required: ["resource"] }, { required: ["prompt"] }] });
}

/** What a valid `mcp` asks for. */
export function mcpRequest({ tool, resource, prompt = "", args = {} }: RequestBody): McpRequest {
  if (tool !== undefined) return { kind: "tool", tool, args };
  return resource === undefined ? { kind: "prompt", prompt, args } : { kind: "resource", uri: resource };
}

const mcpRequestModel = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("tool"), tool: text, args: jsonObject }),
  z.strictObject({ kind: z.literal("resource"), uri: text }),
  z.strictObject({ kind: z.literal("prompt"), prompt: text, args: jsonObject }),
]);

/** One thing that is asked of a server. */
export type McpRequest = Model<typeof mcpRequestModel>;

const mcpFields = {
  expect: closedObject({
    isError: z
      .boolean()
      .optional()
      .meta({ description: "Whether the call must fail.", defaultText: "`false`" }),
    text: textExpectation.optional().meta({
      description: "Expected text of the result; a plain text means equality.",
    }),
    json: jsonExpectations.optional().meta({
      description:
        "Conditions for the structured content, else for the text parsed as JSON; for a resource or prompt, for the whole result.",
    }),
    schema: anyObject.optional().meta({ description: "JSON Schema for the same value." }),
  })
    .meta({ id: "McpExpectation", title: "MCP expectation", description: "Expectations of the result." })
    .prefault({})
    .meta({ description: "Expectations of a response." }),
  timeout: timeoutField("30s"),
  ...commonFields,
};
const mcpOutputs = "Its `outputs` may use `{result}` and `{text}`.";

const mcp = stepKind({
  summary: "Sends a request to a server.",
  model: {
    server: text.describe("Absent: the server that has the tool, or the only server.").exactOptional(),
    request: mcpRequestModel,
    expect: z.strictObject({
      result: json.describe("In a tool test; absent: any result passes.").exactOptional(),
      error: text
        .describe("In a tool test: the call must fail with an error that contains this text, ignoring case.")
        .exactOptional(),
      maxLatencyMs: milliseconds.exactOptional(),
      isError: z
        .boolean()
        .describe("Whether the call must fail. Absent: it must not, unless `error` is given.")
        .exactOptional(),
      text: textExpectationModel
        .describe("Expectations of the result's texts, joined by line ends.")
        .exactOptional(),
      json: z
        .array(jsonExpectationModel)
        .describe(
          "Expectations of the structured content, else of the text parsed as JSON; for a resource or prompt, of the whole result.",
        )
        .exactOptional(),
      schema: jsonObject.describe("JSON Schema for the same value.").exactOptional(),
      content: textExpectationModel
        .describe("Only in older formats: expectations of the result's content list as JSON text.")
        .exactOptional(),
    }),
  },
  schema: requestSchema({ ...mcpRequestFields, ...mcpFields }).meta({
    id: "McpStep",
    title: "Step mcp",
    description: `Sends a request to a server, without the agent: exactly one of \`tool\`, \`resource\` and \`prompt\`. ${mcpOutputs}`,
  }),
  build: ({ server, expect, ...asked }) => ({
    server,
    request: mcpRequest(asked),
    expect: withoutUndefined(expect),
  }),
  dotted: {
    schema: closedObject({
      args: anyObject.default({}).meta({ description: "Arguments of the tool." }),
      ...mcpFields,
    }).meta({
      id: "ToolCallStep",
      title: "Step SERVER.TOOL",
      description: `Short for \`mcp\` with a server and a tool. ${mcpOutputs}`,
    }),
    build: ({ args, expect }, { names: [server, tool] }) => ({
      server,
      request: { kind: "tool" as const, tool, args },
      expect: withoutUndefined(expect),
    }),
  },
  texts: {
    server: placed(nowhere("where a server is named")),
    tool: placed(nowhere("where a tool is named")),
    "expect.text": textRole,
    "expect.json": jsonRole,
    "expect.schema": { role: "JSON Schema" },
  },
  given: ["args", "resource"],
  values: () => answerValues,
});

const extensionTimeout = duration.optional().meta({
  description: "Time limit of one attempt.",
  defaultText: "`extensions.timeout` of the eval, else `5m`",
});
const { name: _, ...operationFields } = commonFields;

const operationSchema = closedObject({ timeout: extensionTimeout, ...operationFields });

/** The arguments in the body of `ALIAS.OPERATION`: every member that is not the step's own. */
function operationArgs(body: Readonly<Record<string, unknown>>): JsonObject {
  const members = Object.entries(body).filter(([key]) => !Object.hasOwn(operationSchema.shape, key));
  return Object.fromEntries(members) as JsonObject;
}

const extension = stepKind({
  summary: "An operation of an extension.",
  model: {
    extension: text.describe("The extension: an alias, its name in an eval, or its package."),
    operation: text.describe("Name of the operation."),
    args: jsonObject.describe("Arguments, as templates."),
  },
  schema: closedObject({
    package: filledText.meta({ description: "The extension: its alias in `imports`, or its package." }),
    action: filledText.meta({ description: "The operation." }),
    args: anyObject.default({}).meta({ description: "Its arguments." }),
    timeout: extensionTimeout,
    ...commonFields,
  }).meta({
    id: "ExtensionStep",
    title: "Step extension",
    description: "An operation of an extension. Its outputs are those of the operation.",
  }),
  build: ({ package: name, action, args, timeout }, { operationMs }) => ({
    extension: name,
    operation: action,
    args,
    timeoutMs: timeout ?? operationMs(name),
  }),
  dotted: {
    schema: operationSchema.catchall(anyJson).meta({
      id: "OperationStep",
      title: "Step ALIAS.OPERATION",
      description:
        "Short form of `extension`. Every key that is not listed here, including `name`, is an argument of the operation. For an argument with a listed name, use the long form.",
    }),
    build: (body, { names: [alias, operation], operationMs }) => ({
      // `name` is an argument like any other here.
      name: undefined,
      extension: alias,
      operation,
      args: operationArgs(body),
      timeoutMs: body.timeout ?? operationMs(alias),
    }),
  },
  texts: {},
  plainKeys: ["package", "action"],
  values: () => ({ outputs: any }),
});

/** A step inside a schema; what is in it is read by itself. */
export const stepItem = z.custom<unknown>().meta({ $ref: "#/$defs/Step" });

/** At least one step. */
export const stepList = z.array(stepItem).min(1);

const controlFields = {
  timeout: duration.optional().meta({
    description: "Time limit of one attempt, including its steps.",
    defaultText: "only the limits of its steps",
  }),
  ...commonFields,
};

const itemsText = z.string().refine((value) => value.includes("{") || isJsonList(value), {
  error: "must be a list, or a template that gives a JSON list",
});

function isJsonList(value: string): boolean {
  try {
    return Array.isArray(JSON.parse(value));
  } catch {
    return false; // not JSON
  }
}

/** What a `foreach` goes through, and its variable. */
export const foreachFields = {
  var: templateName.meta({
    description: "Name of the variable: `{NAME}`, or `{NAME.KEY}` for a member of an item.",
  }),
  in: z
    .union([itemsText, z.array(anyJson).min(1)])
    .meta({ description: "The items: a list, or a template that gives a JSON list." }),
};

const foreach = stepKind({
  summary: "Runs steps for every item of a list.",
  inner: ["steps"],
  model: {
    variable: text,
    in: z.union([text, z.array(json)]).describe("The items, or a template that gives a JSON list."),
  },
  schema: closedObject({
    ...foreachFields,
    steps: stepList.meta({ description: "Steps for each item." }),
    ...controlFields,
  }).meta({
    id: "ForeachStep",
    title: "Step foreach",
    description:
      "Runs its steps for every item; all must pass. After it, outputs of its steps are those of the last item. An empty list fails.",
  }),
  build: ({ var: name, in: items }) => ({ variable: name, in: items }),
  texts: {},
  plainKeys: ["var"],
  values: () => ({}),
  canFail: (__, inner) => inner.some(({ canFail }) => canFail),
});

/** A kind of step that only has steps, and no fields of its own. */
function holderKind<I extends InnerList>(
  kind: Pick<StepKind, "summary" | "shortBody" | "canFail"> & {
    readonly inner: readonly I[];
    readonly schema: z.ZodType<CommonBody>;
  },
): StepKind<{}, I> {
  return stepKind({ ...kind, model: {}, build: () => ({}), texts: {}, values: () => ({}) });
}

const someCanFail: StepKind["canFail"] = (__, inner) => inner.some(({ canFail }) => canFail);

const anyOf = holderKind({
  summary: "Passes with the first of its steps that passes.",
  inner: ["steps"],
  shortBody: "list",
  schema: closedObject({
    steps: stepList.meta({ description: "The alternatives." }),
    ...controlFields,
  }).meta({
    id: "AnyOfStep",
    title: "Step anyOf",
    description:
      "Passes with the first of its steps that passes; the others do not run. If none passes and one could not run, it is an error.",
  }),
  canFail: (__, inner) => inner.every(({ canFail }) => canFail),
});

const allOf = holderKind({
  summary: "Passes when all of its steps pass.",
  inner: ["steps"],
  shortBody: "list",
  schema: closedObject({
    steps: stepList.meta({ description: "The steps that must pass." }),
    ...controlFields,
  }).meta({
    id: "AllOfStep",
    title: "Step allOf",
    description:
      "Passes if all of its steps pass. All are run, up to one that could not run, which is an error.",
  }),
  canFail: someCanFail,
});

const not = holderKind({
  summary: "Passes when not all of its steps pass.",
  inner: ["steps"],
  shortBody: "list or step",
  schema: closedObject({
    steps: stepList.meta({ description: "Steps that must not all pass." }),
    ...controlFields,
  }).meta({
    id: "NotStep",
    title: "Step not",
    description: "Passes if not all of its steps pass. If one of them cannot run, it is an error.",
  }),
  canFail: (__, inner) => inner.some(({ counts }) => counts),
});

const group = holderKind({
  summary: "Steps with their own setup and cleanup.",
  inner: ["setup", "steps", "cleanup"],
  schema: closedObject({
    setup: z
      .array(stepItem)
      .default([])
      .meta({ description: "Setup steps. A failure makes the group an error." }),
    steps: stepList.meta({ description: "The steps of the group." }),
    cleanup: z.array(stepItem).default([]).meta({
      description: "Cleanup steps, in reverse order. They always run, and their failures are not counted.",
    }),
    ...controlFields,
  }).meta({ id: "GroupStep", title: "Step group", description: "Steps with their own setup and cleanup." }),
  canFail: someCanFail,
});

/** Every kind of step, by its type in the model, which is also its key in a file. */
export const stepKinds = {
  command,
  http,
  file,
  llm,
  script,
  mcp,
  extension,
  foreach,
  anyOf,
  allOf,
  not,
  group,
};

export type StepKinds = typeof stepKinds;
export type StepType = keyof StepKinds;

/** The types of steps, in the order of the reference page. */
export const stepTypes = Object.keys(stepKinds) as readonly StepType[];

/** The kind of a type of step, for code that treats all kinds alike. */
export function kindOf(type: StepType): StepKind {
  return stepKinds[type];
}
