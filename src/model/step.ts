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
import { isShell, scriptProgram, displayShellText } from "../templates/shell.ts";
import {
  anyJson,
  anyObject,
  closedObject,
  duration,
  filledText,
  json,
  jsonObject,
  milliseconds,
  type Model,
  optional,
  argumentText,
  text,
  texts,
} from "./fields.ts";
import { maxDurationMs } from "../base/duration.ts";
import {
  asObject,
  type Json,
  type JsonObject,
  withoutUndefined,
  isJsonObject,
  asList,
} from "../base/json.ts";
import { validate, type Validated } from "../base/problem.ts";
import { previewJson } from "../base/read-json.ts";

/** The keys under which a step has steps. */
export const innerLists = ["setup", "steps", "cleanup"] as const;
export type InnerList = (typeof innerLists)[number];

type Shape = Readonly<Record<string, z.ZodType>>;

/** The fields of a step of some kind, in the model. */
type Fields<S extends Shape> = Model<z.ZodObject<S>>;

/**
 * Everything about a kind of step except how it runs, which is in `src/steps`. Parsing, the checks of templates, the JSON
 * Schemas, the reference page and the export of tasks use it.
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
  /** What it is in verify, where it means something else there. */
  inVerify?(step: Fields<S>): Fields<S>;
  /** What its values with templates are, by their paths in the model; see {@link TextPath}. */
  readonly texts: Readonly<Record<string, TextRole<S>>>;
  /** What its `outputs` may use. */
  values(step: Fields<S>): Readonly<Record<string, HasNames>>;
  /** What it works with, in one line for people, from the input that a trace has of it; absent or undefined: all members. */
  describe?(input: JsonObject): string | undefined;
  /** Names and texts of it that may hold secrets. Absent: none. */
  secrets?(step: Fields<S>): readonly (readonly [name: string, text: string])[];
  /** The text of a program that it runs, with what the program is given besides. Absent: it runs none. */
  programText?(step: Fields<S>): { readonly text: string; readonly given: readonly string[] } | undefined;
  /** Whether it checks something, by its form; `inner` is the number of its steps that do. What it only does is no evidence. */
  checks(step: Fields<S>, inner: number): boolean;
}

/** Whether names such as `["headers", "etag"]` after `response` refer to something. */
export type HasNames = (names: readonly string[]) => boolean;

/**
 * How the templates in a value of a step are replaced, and what is checked of it at load. Both follow the same rule about
 * where a value from outside may stand.
 */
export type TextRole<S extends Shape = Shape> = TextPlace<S> | ValueRole;

interface WrittenAs {
  /** Its keys in the body, where they are not its path in the model. */
  readonly key?: string;
}

interface TextPlace<S extends Shape> extends WrittenAs {
  readonly role: "text";
  /** A path that must not leave the task's folder; `file`: of a file that exists. */
  readonly path?: "inside" | "file";
  /** `key` is the last key of the text's path; `resolve` replaces the templates of a text, or gives undefined at load. */
  place(
    step: Fields<S>,
    at: { readonly key: string; readonly resolve: (text: string) => string | undefined },
  ): FindPlace | "shell";
}

interface ValueRole extends WrittenAs {
  /**
   * `fixed`: no templates. `wanted`: must not become empty. `items`: those of a loop.
   */
  readonly role:
    | "fixed"
    | "wanted"
    | "text expectation"
    | "JSON expectations"
    | "result expectation"
    | "JSON"
    | "JSON Schema"
    | "items";
}

/** The paths of all values in fields of the model that may have templates; `*` is every member of a table. */
type TextPath<T> = T extends unknown
  ? { [K in keyof T & string]-?: ValuePath<T[K], K> }[keyof T & string]
  : never;

type ValuePath<T, P extends string> = [Json] extends [T]
  ? P
  : T extends string
    ? string extends T
      ? P
      : never
    : T extends readonly (infer U)[]
      ? ValuePath<U, P>
      : T extends object
        ? MemberPath<T, P>
        : never;

/** Of expectations, which are expanded as a whole, and of tables and other objects, which are not. */
type MemberPath<T extends object, P extends string> = string extends keyof T
  ? [Json] extends [T[keyof T]]
    ? P
    : ValuePath<T[keyof T], `${P}.*`>
  : "matches" extends keyof T
    ? P
    : `${P}.${TextPath<T>}`;

/** How the body of a step is written. */
export interface StepForm {
  readonly schema: z.ZodType;
  /** The fields of the step in the model, except its steps. */
  read(body: Json, place: StepPlace): Validated<Readonly<Record<string, unknown>>>;
}

interface StepPlace {
  readonly id: string;
  /** Before and after the dot of `SERVER.TOOL` and `ALIAS.OPERATION`. */
  readonly names: readonly [string, string];
  /** Default time limit of an extension's operations, in milliseconds. */
  readonly operationMs: (extension: string) => number;
}

interface FormOf<S extends Shape, B extends z.ZodType<CommonBody>> {
  readonly schema: B;
  /** Gives the kind's own fields, and the time limit where the body's is not it. */
  readonly build: (body: z.output<B>, place: StepPlace) => WithUndefined<Fields<S>> & { timeoutMs?: number };
}

/** Lets optional members be undefined: these are left out. */
type WithUndefined<T> = { readonly [K in keyof T]: {} extends Pick<T, K> ? T[K] | undefined : T[K] };

/** Makes a kind of step with some fields in the model. */
function stepKind<S extends Shape>(model: S) {
  return <B extends z.ZodType<CommonBody>, D extends z.ZodType<CommonBody> = B, I extends InnerList = never>({
    schema,
    build,
    dotted,
    inner = [],
    ...rest
  }: Omit<StepKind<S, I>, "model" | "form" | "dotted" | "inner" | "texts"> &
    FormOf<S, B> & {
      readonly dotted?: FormOf<S, D>;
      readonly inner?: readonly I[];
      /** A value with templates that has no role is an error of the compiler. */
      readonly texts: { readonly [P in TextPath<Fields<S>>]: TextRole<S> };
    }): StepKind<S, I> => {
    const form = formOf({ schema, build });
    return { ...rest, model, inner, form, ...(dotted === undefined ? {} : { dotted: formOf(dotted) }) };
  };
}

function formOf<S extends Shape, B extends z.ZodType<CommonBody>>({ schema, build }: FormOf<S, B>): StepForm {
  return {
    schema,
    read: (written, place) => {
      const { data, issues } = validate(schema, written);
      if (data === undefined) return { issues };
      const { name, timeout: timeoutMs = maxDurationMs, continueOnError, outputs: templates, retry } = data;
      const common = { id: place.id, name, timeoutMs, continueOnError, outputs: templates, retry };
      const waiting = { stableForMs: data.stableFor, if: data.if };
      return { data: withoutUndefined({ ...common, ...waiting, ...build(data, place) }), issues };
    },
  };
}

/** What every step has in the model, besides its type. */
const stepModel = {
  id: text.describe("Id for `{steps.ID.outputs.NAME}`, unique in the task."),
  name: text.describe("Name of the step.").exactOptional(),
  timeoutMs: milliseconds.describe("Time limit of one attempt."),
  continueOnError: z.boolean().describe("Its failure is recorded but not counted.").exactOptional(),
  outputs: texts.describe("Templates by output name.").exactOptional(),
  retry: z
    .strictObject({ forMs: milliseconds, everyMs: milliseconds })
    .describe("Repeat until it passes; no attempt starts later than `forMs` after the first.")
    .exactOptional(),
  retries: z
    .int()
    .min(0)
    .describe("Number of attempts after a failed one, without a pause; only in tool tests.")
    .exactOptional(),
  stableForMs: milliseconds.describe("After it passes, it must keep passing for this long.").exactOptional(),
  if: text.describe("The step is skipped unless this holds.").exactOptional(),
  failure: z
    .enum(["hard", "soft"])
    .describe(
      "Only in older formats. `hard`: a failure ends the phase, also in verify. `soft`: a failure, but not an error, does not end setup. Absent: a failure ends only setup.",
    )
    .exactOptional(),
};

const jsonTypes = z.enum(["string", "number", "boolean", "array", "object", "null"]);

const jsonExpectationModel = z
  .strictObject({
    path: text.describe("RFC 9535; a leading `.` or none is taken as `$.`."),
    exists: z.boolean().describe("Whether the path selects anything.").exactOptional(),
    equals: json
      .describe("The expected JSON value; for a path that selects several values, their list.")
      .exactOptional(),
    contains: json.describe("A part of a text, members of a list or an object.").exactOptional(),
    matches: text.describe("A regular expression (RE2) found anywhere in a text.").exactOptional(),
    type: jsonTypes.exactOptional(),
    count: z.int().min(0).describe("Number of values that the path selects.").exactOptional(),
    ignorePaths: z.array(text).describe("What `equals` and `contains` ignore.").exactOptional(),
    loose: z.literal(true).describe('Values with equal texts are equal, such as 5 and "5".').exactOptional(),
  })
  .meta({ id: "JsonExpectation", description: "Expectations of a value in a JSON document." });

const textExpectationModel = z
  .strictObject({
    equals: text.describe("The whole text; line ends after the last line are ignored.").exactOptional(),
    contains: z.array(text).exactOptional(),
    matches: z.array(text).describe("Regular expressions (RE2), found anywhere.").exactOptional(),
    json: z
      .array(jsonExpectationModel)
      .describe("The text must be JSON that meets these conditions.")
      .exactOptional(),
  })
  .meta({ id: "TextExpectation", description: "Expectations of a text; all that are given must hold." });

/**
 * What a place in a JSON document must be; all parts must hold, and without any the place must exist. Of a path that can lead to
 * several places, `equals` and `contains` look at the list of the values, `matches` and `type` at each value.
 */
export type JsonExpectation = Model<typeof jsonExpectationModel>;
/** What a text must be; every part that is given must hold. */
export type TextExpectation = Model<typeof textExpectationModel>;

// The same, as a task's file writes it.

/**
 * The parameters of a rule about a whole object, which is checked only when every part is valid and all keys are known. The
 * error may depend on the object.
 */
export function asWhole(error: string | ((value: unknown) => string)): z.core.$ZodCustomParams {
  const message =
    typeof error === "string" ? error : ({ input }: { readonly input?: unknown }) => error(input);
  return { error: message, when: ({ issues }) => issues.length === 0 };
}

/** Text with at least one character. */
const someText = z.string().regex(/[^]/, { error: "must not be empty" });

/** A name that templates can refer to. */
export const templateName = z.string().regex(/^[A-Za-z_][\w-]*$/, {
  error: "must begin with a letter or _, and go on with letters, digits, _ and -",
});

const outputs = z.record(
  z.string().regex(/^[\w-]+$/, { error: "must be a name of letters, digits, _ and -" }),
  z.string(),
);

/** Environment variables by name. */
export const variables = z.record(
  z.string().regex(/^[A-Za-z_]\w*$/, { error: "must be the name of a variable" }),
  z.string(),
);

const retryField = closedObject({
  for: duration.describe("How long to repeat after a failed attempt, including attempts that could not run."),
  every: duration.prefault("1s").describe("Pause between two attempts."),
})
  .transform((value) => ({ forMs: value.for, everyMs: value.every }))
  .meta({
    id: "Retry",
    title: "Retry",
    description: "Repeats a step until it passes or the time is up.",
  });

/** What every step may have in a file, except `timeout`, whose default differs. */
export const commonFields = {
  id: optional(
    templateName,
    "Name for `{steps.ID.outputs.NAME}`; unique in the task.",
    "its place, such as `verify[2]`",
  ),
  name: optional(filledText, "Name in reports.", "its `id`"),
  if: optional(
    filledText,
    "The step is skipped unless this holds: a text that is not empty, `false` or `0`, or `A == B`, or `A != B`, with spaces around the sign and texts without quotes. There are no other operators.",
    "always run",
  ),
  continueOnError: optional(
    z.boolean(),
    "`true`: its failure or error is recorded but not counted.",
    "`false`; `true` in cleanup",
  ),
  outputs: optional(outputs, "Values for later steps: templates by name.", "none"),
  retry: optional(retryField, "Try again until it passes.", "one attempt"),
  stableFor: optional(
    duration,
    "After it passes, it must keep passing for this time, polled every second or every `retry.every`. If it stops passing, it has failed, or starts again while `retry.for` lasts.",
    "passing once is enough",
  ),
};

type CommonBody = Partial<
  z.output<z.ZodObject<typeof commonFields & { timeout: z.ZodOptional<typeof duration> }>>
>;

/** The common fields of a step with a time limit of its own. */
function stepFields(limit: string) {
  return { timeout: duration.prefault(limit).describe("Time limit of one attempt."), ...commonFields };
}

/** One, or a list with at least one; parses to a list. */
function oneOrMore<S extends z.ZodType>(one: S): z.ZodType<z.output<S>[], z.input<S> | z.input<S>[]> {
  return z.union([one, z.array(one).min(1)]).transform((value) => (Array.isArray(value) ? value : [value]));
}

/** One JSON expectation, or several. */
const jsonExpectations = oneOrMore(
  closedObject({
    path: filledText
      .default("$")
      .describe("JSON path (RFC 9535), such as `$.items[0].name`; `.name` and `name` mean `$.name`."),
    exists: optional(z.boolean(), "Whether the path selects anything.", "`true`"),
    equals: optional(
      anyJson,
      "The expected JSON value. The order of keys does not matter, and numbers are compared by value.",
    ),
    contains: optional(anyJson, "A part of a text, a member of a list, or members of an object."),
    matches: optional(someText, "A regular expression (RE2) found anywhere in the text."),
    type: optional(jsonTypes, "The type of the value."),
    count: optional(z.int().min(0), "Number of values that the path selects."),
    ignorePaths: optional(
      z.array(filledText).min(1),
      "Paths inside the value that `equals` and `contains` ignore on both sides.",
    ),
  })
    .refine(
      (value) => value.exists !== false || Object.keys(value).length === 2,
      asWhole("must not have anything beside path when exists is false"),
    )
    .refine(
      (value) => value.ignorePaths === undefined || "equals" in value || "contains" in value,
      asWhole("has ignorePaths, which needs equals or contains"),
    )
    .transform((value): JsonExpectation => withoutUndefined(value))
    .meta({
      id: "JsonExpectation",
      title: "JSON expectation",
      description:
        "Expectations of a value in a JSON document; all that are given must hold. With only the path, the value must exist.",
    }),
);

/** The keys of a text expectation. */
const textParts = {
  equals: optional(z.string(), "The whole text, without trailing line ends."),
  contains: optional(oneOrMore(someText), "A text that it contains, or several."),
  matches: optional(oneOrMore(someText), "A regular expression (RE2) found anywhere in it, or several."),
  json: optional(jsonExpectations, "It must be JSON that meets these conditions."),
};

const textObject = closedObject(textParts)
  .refine((value) => Object.keys(value).length > 0, asWhole("must have equals, contains, matches or json"))
  .transform((value): TextExpectation => withoutUndefined(value))
  .meta({
    minProperties: 1,
    id: "TextExpectation",
    title: "Text expectation",
    description: "Expectations of a text; all that are given must hold.",
  });

/** What a text must be; a text alone is what it must equal. */
const textExpectation = z
  .union([z.string(), textObject])
  .transform((value): TextExpectation => (typeof value === "string" ? { equals: value } : value));

const env = variables
  .default({})
  .describe("Environment variables of the process, in addition to `spec.env`.");

// What texts are, and what outputs may use.

function placed(find: FindPlace, more: Pick<TextPlace<Shape>, "path" | "key"> = {}): TextRole {
  return { role: "text", place: () => find, ...more };
}

const plainText = placed(inText);
const variable: TextRole = { role: "text", place: (_, { key }) => inVariable(key) };
const textRole = { role: "text expectation" } as const;

const plain: HasNames = (names) => names.length === 0;
const any: HasNames = () => true;
const printed = { stdout: plain, stderr: plain, exitCode: plain };
// How a step is described in one line.

/** Longest that a value is written, in characters. */
const maxShownValue = 200;

function displayValue(value: Json | undefined): string {
  return value === undefined ? "" : previewJson(value, maxShownValue);
}

function shown(value: Json | undefined): string {
  return typeof value === "string" ? value : displayValue(value);
}

/** A text for a shell, with the values from outside that it has as variables. */
function shellLine(text: Json | undefined, env: Json | undefined): string {
  return displayShellText(shown(text), isJsonObject(env) ? env : {});
}

/** A request to a server. */
function describeRequest({ server, tool, uri, resource, prompt, args }: JsonObject): string | undefined {
  const where = server === undefined ? "" : `${shown(server)}: `;
  if (tool !== undefined) return `${where}${shown(tool)} ${displayValue(args ?? {})}`;
  const read = uri ?? resource;
  if (read !== undefined) return `${where}read ${shown(read)}`;
  return prompt === undefined ? undefined : `${where}prompt ${shown(prompt)} ${displayValue(args ?? {})}`;
}

/** What a step works with, in one line: `GET http://…`, `$ command`; empty when there is nothing to say. `type` may be unknown here. */
export function describeInput(type: string, input: JsonObject): string {
  const members = Object.entries(input).map(([key, value]) => `${key} ${displayValue(value)}`);
  const isCondition = "if" in input && members.length === 1;
  const kind = stepTypes.find((each) => each === type);
  const described = kind === undefined ? undefined : kindOf(kind).describe?.(input);
  const line = isCondition ? `if ${shown(input["if"])}` : (described ?? members.join(", "));
  return line.replaceAll(/\s*\n\s*/g, " ⏎ ").trim();
}

/** What the outputs of a request to a server may use. */
export const answerValues = { result: any, text: plain };

// The kinds.

const command = stepKind({
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
})({
  summary: "Runs a shell command line.",
  schema: closedObject({
    run: filledText.describe("The shell command line, or several lines."),
    shell: optional(filledText, "The shell.", "the variable `SHELL`, else `/bin/sh`"),
    workdir: optional(filledText, "The working folder, relative to the task's folder.", "the task's folder"),
    env,
    stdin: optional(z.string(), "Input on stdin.", "nothing"),
    expect: closedObject({
      exitCode: z.int().default(0).describe("The expected exit code of the shell."),
      stdout: optional(textExpectation, "Expected stdout; a plain text means equality."),
      stderr: optional(textExpectation, "Expected stderr; a plain text means equality."),
    })
      .meta({
        id: "CommandExpectation",
        title: "Command expectation",
        description: "Expectations of a command.",
      })
      .prefault({})
      .describe("Expectations."),
    ...stepFields("60s"),
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
      place: ({ shell }, { resolve }) => {
        const program = shell === undefined ? undefined : resolve(shell);
        return program === undefined || isShell(program) ? "shell" : inProgramText(program);
      },
    },
    shell: placed(inProgramName),
    workdir: placed(inFilePath, { path: "inside" }),
    "env.*": variable,
    stdin: plainText,
    "expect.stdout": textRole,
    "expect.stderr": textRole,
  },
  values: () => printed,
  describe: ({ run, env }) => (run === undefined ? undefined : `$ ${shellLine(run, env)}`),
  secrets: ({ env: own }) => Object.entries(own),
  programText: ({ run, env: own }) => ({ text: run, given: Object.values(own) }),
  checks: ({ run, expect: { stdout, stderr } }) =>
    stdout !== undefined || stderr !== undefined || !isIdle(run),
});

const status = z.union([
  z.int().min(100).max(599),
  z.string().regex(/^[1-5]xx$/, { error: 'must be a status such as 200, or a class such as "2xx"' }),
]);
const presentJson = z.custom<Json>((value) => value !== undefined, { error: "any JSON value" });

/** Whether a program does nothing, by its form: every line of it is empty, a comment, `true`, `:` or `exit 0`. */
export function isIdle(program: string): boolean {
  return program.split(/[\n;]/).every((line) => /^\s*(?:#.*|true|:|exit 0)?\s*$/.test(line));
}

const http = stepKind({
  url: text,
  method: text,
  headers: texts,
  body: z.union([z.strictObject({ text }), z.strictObject({ json })]).exactOptional(),
  expect: z.strictObject({
    status: z.array(z.union([z.int(), text])).describe("Alternatives; empty: any."),
    headers: z.record(text, textExpectationModel).exactOptional(),
    body: textExpectationModel.exactOptional(),
  }),
})({
  summary: "Sends one HTTP request.",
  schema: closedObject({
    url: filledText.describe("URL, starting with `http://` or `https://`."),
    method: filledText.default("GET").describe("HTTP method."),
    headers: z.record(filledText, z.string()).default({}).describe("Headers of the request."),
    body: optional(
      z.union([z.string(), closedObject({ json: presentJson.describe("Any JSON value.") })]),
      "A text, or `{json: …}` for any JSON value, which also sets `content-type`.",
      "none",
    ),
    expect: closedObject({
      status: z
        .union([status, z.array(status).min(1)])
        .default("2xx")
        .describe("A status, a class such as `2xx`, or a list of alternatives."),
      headers: optional(
        z.record(filledText, textExpectation),
        "Expected headers by name; a plain text means equality.",
      ),
      body: optional(textExpectation, "Expected body; a plain text means equality."),
    })
      .meta({ id: "HttpExpectation", title: "HTTP expectation", description: "Expectations of a response." })
      .prefault({})
      .describe("Expected response."),
    ...stepFields("30s"),
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
    expect: withoutUndefined({ ...expect, status: [expect.status].flat() }),
  }),
  texts: {
    url: placed(inUrl),
    method: placed(nowhere("where the method of a request is named")),
    "headers.*": plainText,
    "body.json": { role: "JSON" },
    "body.text": {
      role: "text",
      key: "body",
      place: ({ body, headers }) =>
        body !== undefined && "text" in body ? inBody(body.text, headers) : inText,
    },
    "expect.status": { role: "fixed" },
    "expect.headers.*": textRole,
    "expect.body": textRole,
  },
  describe: ({ url, method = "GET" }) => (url === undefined ? undefined : `${shown(method)} ${shown(url)}`),
  secrets: ({ url, headers }) => [["url", url], ...Object.entries(headers)],
  checks: () => true,
  values: () => ({
    response: ([part, header, ...rest]) => {
      if (part === undefined) return true;
      if (part === "headers") return rest.length === 0;
      return (part === "body" || part === "status") && header === undefined;
    },
  }),
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
})({
  summary: "Creates, removes or checks a file.",
  schema: closedObject({
    path: filledText.describe("Relative to the task's folder, or inside `{workspace}`."),
    content: optional(z.string(), "Creates the file with this content, and missing parent folders."),
    mode: optional(fileMode, "Permission bits of the created file.", "`0644`"),
    absent: optional(
      z.literal(true),
      "In `verify`: checks that nothing is at the path. In `setup` and `cleanup`: removes the file, in the workspace also a whole folder; a missing file is not an error.",
    ),
    expect: optional(
      closedObject({
        exists: z.boolean().default(true).describe("Whether it exists."),
        ...textParts,
        mode: optional(fileMode, "Its permission bits."),
      })
        .refine(
          (value) => value.exists || Object.keys(value).length === 1,
          asWhole("must not have anything else when exists is false"),
        )
        .meta({ id: "FileExpectation", title: "File expectation", description: "Expectations of a file." }),
      "Checks the file.",
    ),
    ...stepFields("30s"),
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
  build: ({ path, content, mode = 0o644, expect }) => {
    if (content !== undefined) return { path, action: { kind: "create" as const, content, mode } };
    if (expect === undefined) return { path, action: { kind: "remove" as const } };
    const { exists, mode: bits, ...parts } = expect;
    const wanted = withoutUndefined(parts);
    const isEmpty = Object.keys(wanted).length === 0;
    const check = { exists, mode: bits, content: isEmpty ? undefined : wanted };
    return { path, action: { kind: "check" as const, ...withoutUndefined(check) } };
  },
  texts: { path: placed(inFilePath, { path: "inside" }), "action.content": { ...textRole, key: "expect" } },
  values: ({ action }): Readonly<Record<string, HasNames>> =>
    action.kind === "remove" ? {} : { content: plain },
  describe: ({ path, action }) => {
    const kind = isJsonObject(action) ? action["kind"] : action;
    if (path === undefined) return undefined;
    return typeof kind === "string" ? `${kind} ${shown(path)}` : shown(path);
  },
  checks: ({ action }) => action.kind === "check",
  inVerify: (step) =>
    step.action.kind === "remove" ? { ...step, action: { kind: "check", exists: false } } : step,
});

const llm = stepKind({
  contains: text.exactOptional(),
  exact: text.exactOptional(),
  rubric: text.exactOptional(),
  input: text.describe("The text to judge; absent: the agent's output.").exactOptional(),
})({
  summary: "Asks the judge about a text; only in verify.",
  phases: ["verify"],
  schema: closedObject({
    contains: optional(filledText, "What the text must say, in any wording."),
    exact: optional(filledText, "What the text must say, and nothing else."),
    rubric: optional(
      filledText,
      "Criteria for the judge; the text passes with a score of at least the judge's `passThreshold` (default 0.8).",
    ),
    input: optional(z.string(), "The text to judge.", "the agent's output"),
    ...stepFields("60s"),
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
  texts: {
    contains: { role: "wanted" },
    exact: { role: "wanted" },
    rubric: placed(inRubric),
    input: plainText,
  },
  checks: () => true,
  values: () => ({ score: plain, reason: plain }),
});

const protocols = z.enum(["exit-code", "json"]);

const script = stepKind({
  source: z.union([z.strictObject({ file: text }), z.strictObject({ inline: text })]),
  args: z.array(text),
  env: texts,
  protocol: protocols,
  workdir: z
    .enum(["task", "script"])
    .describe("The working folder: the task's folder, or that of the script."),
})({
  summary: "Runs a program of the task.",
  schema: closedObject({
    file: optional(
      filledText,
      "The program, relative to the task's folder. An executable file is started directly, any other by the program in its `#!` line, else by the shell.",
    ),
    inline: optional(
      filledText,
      "Its text. A first line such as `#!/usr/bin/env python3` selects the interpreter.",
    ),
    args: z.array(argumentText).default([]).describe("Its arguments."),
    env,
    protocol: protocols
      .default("exit-code")
      .describe(
        "`exit-code`: it passes if it exits with 0. `json`: it reads the trial as JSON on stdin and writes its answer as JSON to stdout.",
      ),
    ...stepFields("300s"),
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
    "source.file": placed(inProgramName, { path: "file", key: "file" }),
    "source.inline": {
      role: "text",
      key: "inline",
      place: ({ source }) => {
        const program = "inline" in source ? scriptProgram(source.inline) : undefined;
        return program === undefined || isShell(program) ? "shell" : inProgramText(program);
      },
    },
    args: plainText,
    "env.*": variable,
  },
  values: ({ protocol }) => (protocol === "json" ? { ...printed, outputs: any } : printed),
  describe: (input) => {
    const { file: path, inline } = isJsonObject(input["source"]) ? input["source"] : input;
    if (path !== undefined)
      return [path, ...asList(input["args"])].map((part) => shown(part as Json)).join(" ");
    return inline === undefined ? undefined : shellLine(inline, input["env"]);
  },
  secrets: ({ env: own }) => Object.entries(own),
  programText: ({ source, args, env: own }) =>
    "inline" in source ? { text: source.inline, given: [...args, ...Object.values(own)] } : undefined,
  checks: ({ source }) => !("inline" in source && isIdle(source.inline)),
});

/** The keys that say what an `mcp` step or a solution's `mcp` asks of a server. */
export const mcpRequestFields = {
  server: optional(filledText, "Name of the server.", "the one that offers the tool, or the only one"),
  tool: optional(filledText, "The tool to call."),
  resource: optional(filledText, "URI of the resource to read."),
  prompt: optional(filledText, "The prompt to get."),
  args: optional(anyObject, "Arguments of the tool or prompt.", "`{}`"),
};

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
export function mcpRequest({
  tool,
  resource,
  prompt = "",
  args = {},
}: Omit<z.output<z.ZodObject<typeof mcpRequestFields>>, "server">): McpRequest {
  if (tool !== undefined) return { kind: "tool", tool, args };
  return resource === undefined ? { kind: "prompt", prompt, args } : { kind: "resource", uri: resource };
}

export const mcpRequestModel = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("tool"), tool: text, args: jsonObject }),
  z.strictObject({ kind: z.literal("resource"), uri: text }),
  z.strictObject({ kind: z.literal("prompt"), prompt: text, args: jsonObject }),
]);

/** One thing that is asked of a server. */
export type McpRequest = Model<typeof mcpRequestModel>;

const mcpExpectationModel = z.strictObject({
  result: json.describe("What the result must be or contain; absent: any result passes.").exactOptional(),
  error: text
    .describe("The call must fail with an error that contains this text, ignoring case.")
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
});

/** What is expected of the answer to a request; every part that is given must hold. */
export type McpExpectation = Model<typeof mcpExpectationModel>;

/** The same, as a step of a task and a tool test write it. */
export const mcpExpectation = closedObject({
  isError: optional(z.boolean(), "Whether the call must fail.", "`false`; with `error`, `true`"),
  error: optional(filledText, "The call must fail with an error that contains this text."),
  result: optional(
    anyJson,
    "What the result must be or contain: any JSON value, or `$equals` or `$contains` with one.",
    "any result that is not an error",
  ),
  text: optional(textExpectation, "Expected text of the result; a plain text means equality."),
  json: optional(
    jsonExpectations,
    "Conditions for the structured content, else for the text parsed as JSON; for a resource or prompt, for the whole result.",
  ),
  schema: optional(anyObject, "JSON Schema for the same value."),
  maxLatency: optional(duration, "Longest time for the answer. The call is ended then."),
})
  .refine(
    ({ isError, result }) => isError !== true || result === undefined,
    asWhole("has isError: true, which contradicts result"),
  )
  .refine(
    ({ isError, error }) => isError !== false || error === undefined,
    asWhole("has isError: false, which contradicts error"),
  )
  .transform(({ maxLatency: maxLatencyMs, ...rest }): McpExpectation =>
    withoutUndefined({ ...rest, maxLatencyMs }),
  )
  .meta({ id: "McpExpectation", title: "MCP expectation", description: "Expectations of the result." });

const mcpFields = {
  expect: mcpExpectation.prefault({}).describe("Expectations of a response."),
  ...stepFields("30s"),
};
const mcpOutputs = "Its `outputs` may use `{result}` and `{text}`.";

const mcp = stepKind({
  server: text.describe("Absent: the server that has the tool, or the only server.").exactOptional(),
  request: mcpRequestModel,
  expect: mcpExpectationModel,
})({
  summary: "Sends a request to a server.",
  schema: requestSchema({ ...mcpRequestFields, ...mcpFields }).meta({
    id: "McpStep",
    title: "Step mcp",
    description: `Sends a request to a server, without the agent: exactly one of \`tool\`, \`resource\` and \`prompt\`. ${mcpOutputs}`,
  }),
  build: ({ server, expect, ...asked }) => ({
    server,
    request: mcpRequest(asked),
    expect,
  }),
  dotted: {
    schema: closedObject({
      args: anyObject.default({}).describe("Arguments of the tool."),
      ...mcpFields,
    }).meta({
      id: "ToolCallStep",
      title: "Step SERVER.TOOL",
      description: `Short for \`mcp\` with a server and a tool. ${mcpOutputs}`,
    }),
    build: ({ args, expect }, { names: [server, tool] }) => ({
      server,
      request: { kind: "tool" as const, tool, args },
      expect,
    }),
  },
  texts: {
    server: placed(nowhere("where a server is named")),
    "request.tool": placed(nowhere("where a tool is named"), { key: "tool" }),
    "request.uri": plainText,
    "request.prompt": plainText,
    "request.args": { role: "JSON" },
    "expect.result": { role: "result expectation" },
    "expect.error": { role: "wanted" },
    "expect.text": textRole,
    "expect.json": { role: "JSON expectations" },
    "expect.schema": { role: "JSON Schema" },
    "expect.content": textRole,
  },
  describe: describeRequest,
  checks: () => true,
  values: () => answerValues,
});

const extensionTimeout = optional(
  duration,
  "Time limit of one attempt.",
  "`extensions.timeout` of the eval, else `5m`",
);
const { name: _, ...operationFields } = commonFields;
const operationSchema = closedObject({ timeout: extensionTimeout, ...operationFields });

const extension = stepKind({
  extension: text.describe("The extension: an alias, its name in an eval, or its package."),
  operation: text.describe("Name of the operation."),
  args: jsonObject.describe("Arguments, as templates."),
})({
  summary: "An operation of an extension.",
  schema: closedObject({
    package: filledText.describe("The extension: its alias in `imports`, or its package."),
    action: filledText.describe("The operation."),
    args: anyObject.default({}).describe("Its arguments."),
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
      args: Object.fromEntries(
        Object.entries(body).filter(([key]) => !Object.hasOwn(operationSchema.shape, key)),
      ) as JsonObject,
      timeoutMs: body.timeout ?? operationMs(alias),
    }),
  },
  texts: {
    extension: { role: "fixed", key: "package" },
    operation: { role: "fixed", key: "action" },
    args: { role: "JSON" },
  },
  describe: ({ extension: name, operation, args }) =>
    `${shown(name)}.${shown(operation)} ${displayValue(args)}`,
  checks: () => true,
  values: () => ({ outputs: any }),
});

/** A step inside a schema; what is in it is read by itself. */
export const stepItem = z.custom<unknown>().meta({ $ref: "#/$defs/Step" });

/** At least one step. */
export const stepList = z.array(stepItem).min(1);

const controlFields = {
  timeout: optional(
    duration,
    "Time limit of one attempt, including its steps.",
    "only the limits of its steps",
  ),
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

/** The items of a `foreach`, and its variable. */
export const foreachFields = {
  var: templateName.describe("Name of the variable: `{NAME}`, or `{NAME.KEY}` for a member of an item."),
  in: z
    .union([itemsText, z.array(anyJson).min(1)])
    .describe("The items: a list, or a template that gives a JSON list."),
};

const foreach = stepKind({
  variable: text,
  in: z.union([text, z.array(json)]).describe("The items, or a template that gives a JSON list."),
})({
  summary: "Runs steps for every item of a list.",
  inner: ["steps"],
  schema: closedObject({
    ...foreachFields,
    steps: stepList.describe("Steps for each item."),
    ...controlFields,
  }).meta({
    id: "ForeachStep",
    title: "Step foreach",
    description:
      "Runs its steps for every item; all must pass. After it, outputs of its steps are those of the last item. An empty list fails.",
  }),
  build: ({ var: name, in: items }) => ({ variable: name, in: items }),
  texts: { variable: { role: "fixed", key: "var" }, in: { role: "items" } },
  values: () => ({}),
  describe: (input) =>
    "in" in input ? `${shown(input["var"] ?? "item")} in ${displayValue(input["in"])}` : undefined,
  checks: someCheck,
});

function someCheck(_step: object, inner: number): boolean {
  return inner > 0;
}

/** A kind of step that only has steps, and no fields of its own. */
function holderKind<I extends InnerList>(
  kind: Pick<StepKind, "summary" | "shortBody"> & {
    readonly inner: readonly I[];
    readonly schema: z.ZodType<CommonBody>;
  },
): StepKind<{}, I> {
  return stepKind({})({
    ...kind,
    build: () => ({}),
    texts: {},
    values: () => ({}),
    describe: () => "",
    checks: someCheck,
  });
}

const anyOf = holderKind({
  summary: "Passes with the first of its steps that passes.",
  inner: ["steps"],
  shortBody: "list",
  schema: closedObject({ steps: stepList.describe("The alternatives."), ...controlFields }).meta({
    id: "AnyOfStep",
    title: "Step anyOf",
    description:
      "Passes with the first of its steps that passes; the others do not run. If none passes and one could not run, it is an error.",
  }),
});

const allOf = holderKind({
  summary: "Passes when all of its steps pass.",
  inner: ["steps"],
  shortBody: "list",
  schema: closedObject({ steps: stepList.describe("The steps that must pass."), ...controlFields }).meta({
    id: "AllOfStep",
    title: "Step allOf",
    description:
      "Passes if all of its steps pass. All are run, up to one that could not run, which is an error.",
  }),
});

const not = holderKind({
  summary: "Passes when not all of its steps pass.",
  inner: ["steps"],
  shortBody: "list or step",
  schema: closedObject({ steps: stepList.describe("Steps that must not all pass."), ...controlFields }).meta({
    id: "NotStep",
    title: "Step not",
    description: "Passes if not all of its steps pass. If one of them cannot run, it is an error.",
  }),
});

const group = holderKind({
  summary: "Steps with their own setup and cleanup.",
  inner: ["setup", "steps", "cleanup"],
  schema: closedObject({
    setup: z.array(stepItem).default([]).describe("Setup steps. A failure makes the group an error."),
    steps: stepList.describe("The steps of the group."),
    cleanup: z
      .array(stepItem)
      .default([])
      .describe("Cleanup steps, in reverse order. They always run, and their failures are not counted."),
    ...controlFields,
  }).meta({ id: "GroupStep", title: "Step group", description: "Steps with their own setup and cleanup." }),
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

/** A step, with the steps that it contains. */
export const stepSchema: z.ZodType<Step> = z
  .lazy(
    () => z.discriminatedUnion("type", stepTypes.map(modelOf) as [z.ZodObject]) as unknown as z.ZodType<Step>,
  )
  .meta({ id: "Step", description: "A step, which may contain steps." });

function modelOf(type: StepType): z.ZodObject {
  const { model, inner } = kindOf(type);
  const lists = Object.fromEntries(inner.map((list) => [list, z.array(stepSchema)]));
  return z.strictObject({ ...stepModel, type: z.literal(type), ...model, ...lists });
}

/** The kind of a type of step, for code that treats all kinds alike. */
export function kindOf(type: StepType): StepKind {
  return stepKinds[type];
}

/** One typed action of a task. Strings may have templates in tasks from files of their own, nowhere else. */
export type Step = { [T in StepType]: StepOf<T> }[StepType];

/** What every step has. The id is the author's, else made from the place, such as `verify[2]`. */
export type StepBase = Model<z.ZodObject<typeof stepModel>>;

/** A step of one type: what all have, what its kind has, and the steps inside it. */
type StepOf<T extends StepType> =
  StepKinds[T] extends StepKind<infer S, infer I>
    ? Model<z.ZodObject<typeof stepModel & S>> & { readonly type: T } & {
        readonly [L in I]: readonly Step[];
      }
    : never;

export type CommandStep = StepOf<"command">;
export type HttpStep = StepOf<"http">;
export type FileStep = StepOf<"file">;
export type LlmStep = StepOf<"llm">;
export type ScriptStep = StepOf<"script">;
export type McpStep = StepOf<"mcp">;
export type ExtensionStep = StepOf<"extension">;
export type ForeachStep = StepOf<"foreach"> & {
  /** Only while it runs: no item is from outside. */
  readonly trusted?: boolean;
};
export type AnyOfStep = StepOf<"anyOf">;
export type AllOfStep = StepOf<"allOf">;
export type NotStep = StepOf<"not">;
export type GroupStep = StepOf<"group">;

/** A step that has steps of its own. */
export type ControlStep = Extract<Step, { readonly steps: readonly Step[] }>;

/** A step that acts itself. */
export type ActionStep = Exclude<Step, ControlStep>;
export type HttpExpectation = HttpStep["expect"];

/** Gives every step, those inside others included, in the order of the file. */
export function* walkSteps(steps: readonly Step[]): Generator<Step> {
  for (const step of steps) {
    yield step;
    if (step.type === "group") yield* walkSteps([...step.setup, ...step.steps, ...step.cleanup]);
    else if ("steps" in step) yield* walkSteps(step.steps);
  }
}

/** Whether one of the steps, or of those inside them, asks a judge. */
export function usesJudge(steps: readonly Step[]): boolean {
  return [...walkSteps(steps)].some((step) => step.type === "llm");
}
