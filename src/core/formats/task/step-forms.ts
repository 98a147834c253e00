import type * as z from "zod";
import { withoutUndefined } from "../json.ts";
import type { Json, JsonObject } from "../model.ts";
import type { McpRequest, Step, TextExpectation } from "../step.ts";
import { validate } from "../problem.ts";
import {
  commandSchema,
  extensionSchema,
  fileSchema,
  httpSchema,
  llmSchema,
  mcpSchema,
  operationSchema,
  scriptSchema,
  toolCallSchema,
} from "./action-schemas.ts";
import { allOfSchema, anyOfSchema, foreachSchema, groupSchema, notSchema } from "./control-schemas.ts";

/** What an `mcp` step, or a solution's, asks for; exactly one of the three is given. */
export function mcpRequest(asked: {
  readonly tool?: string | undefined;
  readonly resource?: string | undefined;
  readonly prompt?: string | undefined;
  readonly args?: JsonObject | undefined;
}): McpRequest {
  const { tool, resource, prompt = "", args = {} } = asked;
  if (tool !== undefined) return { kind: "tool", tool, args };
  return resource === undefined ? { kind: "prompt", prompt, args } : { kind: "resource", uri: resource };
}

/** What a step's body does not say. */
export interface StepSurroundings {
  readonly id: string;
  /** Of `SERVER.TOOL` and `ALIAS.OPERATION`: the two names. */
  readonly first: string;
  readonly rest: string;
  /** The steps inside it, by the key that they stand under. */
  readonly inner: Readonly<Record<InnerList, readonly Step[]>>;
  /** How long operations of an extension may take when the step says nothing, in milliseconds. */
  readonly operationMs: (extension: string) => number;
}

/** The keys under which a step has steps. */
export const innerLists = ["setup", "steps", "cleanup"] as const;
export type InnerList = (typeof innerLists)[number];

export type StepResult =
  | { readonly ok: true; readonly step: Step }
  | { readonly ok: false; readonly issues: readonly z.core.$ZodIssue[] };

/** One way to write a step: the schema of its body, and how that becomes a step. */
export interface StepForm {
  readonly schema: z.ZodType;
  readonly read: (body: Json, surroundings: StepSurroundings) => StepResult;
}

function form<S extends z.ZodType>(
  schema: S,
  build: (body: z.output<S>, surroundings: StepSurroundings) => Step,
): StepForm {
  return {
    schema,
    read: (body, surroundings) => {
      const { data, issues } = validate(schema, body);
      return data === undefined ? { ok: false, issues } : { ok: true, step: build(data, surroundings) };
    },
  };
}

/** Every way to write a step, once; `call` is `SERVER.TOOL`, `operation` is `ALIAS.OPERATION`. */
export const stepForms = {
  command: form(commandSchema, (body, at) => {
    const { run, shell, workdir, env, stdin } = body;
    const expect = withoutUndefined(body.expect);
    return withoutUndefined({
      type: "command" as const,
      ...common(body, at),
      run,
      shell,
      workdir,
      env,
      stdin,
      expect,
    });
  }),
  http: form(httpSchema, (body, at) => {
    const { url, headers, expect } = body;
    const status = Array.isArray(expect.status) ? expect.status : [expect.status];
    return withoutUndefined({
      type: "http" as const,
      ...common(body, at),
      url,
      method: body.method.includes("{") ? body.method : body.method.toUpperCase(),
      headers,
      body: typeof body.body === "string" ? { text: body.body } : body.body,
      expect: withoutUndefined({ ...expect, status }),
    });
  }),
  file: form(fileSchema, (body, at) => ({
    type: "file" as const,
    ...common(body, at),
    path: body.path,
    action: fileAction(body),
  })),
  llm: form(llmSchema, (body, at) => {
    const { contains, exact, rubric, input } = body;
    return withoutUndefined({ type: "llm" as const, ...common(body, at), contains, exact, rubric, input });
  }),
  script: form(scriptSchema, (body, at) => {
    const { args, env, protocol, file, inline = "" } = body;
    const source = file === undefined ? { inline } : { file };
    return {
      type: "script" as const,
      ...common(body, at),
      source,
      args,
      env,
      protocol,
      workdir: "task" as const,
    };
  }),
  mcp: form(mcpSchema, (body, at) =>
    withoutUndefined({
      type: "mcp" as const,
      ...common(body, at),
      server: body.server,
      request: mcpRequest(body),
      expect: withoutUndefined(body.expect),
    }),
  ),
  call: form(toolCallSchema, (body, at) => ({
    type: "mcp" as const,
    ...common(body, at),
    server: at.first,
    request: { kind: "tool" as const, tool: at.rest, args: body.args },
    expect: withoutUndefined(body.expect),
  })),
  extension: form(extensionSchema, (body, at) => {
    const { package: extension, action: operation, args, timeout = at.operationMs(extension) } = body;
    return { type: "extension" as const, ...common({ ...body, timeout }, at), extension, operation, args };
  }),
  operation: form(operationSchema, (body, at) => {
    // Here `name` is an argument like any other.
    const { name: _, ...own } = { name: undefined, ...body };
    const { timeout = at.operationMs(at.first) } = own;
    return {
      type: "extension" as const,
      ...common({ ...own, timeout }, at),
      extension: at.first,
      operation: at.rest,
      args: operationArgs(body),
    };
  }),
  foreach: form(foreachSchema, (body, at) => ({
    type: "foreach" as const,
    ...common(body, at),
    variable: body.var,
    in: body.in,
    steps: at.inner.steps,
  })),
  anyOf: form(anyOfSchema, (body, at) => ({
    type: "anyOf" as const,
    ...common(body, at),
    steps: at.inner.steps,
  })),
  allOf: form(allOfSchema, (body, at) => ({
    type: "allOf" as const,
    ...common(body, at),
    steps: at.inner.steps,
  })),
  not: form(notSchema, (body, at) => ({ type: "not" as const, ...common(body, at), steps: at.inner.steps })),
  group: form(groupSchema, (body, at) => ({ type: "group" as const, ...common(body, at), ...at.inner })),
} as const satisfies Record<string, StepForm>;

export type StepKind = keyof typeof stepForms;

/** The kinds that are written as a plain key. */
export const plainKinds = (Object.keys(stepForms) as StepKind[]).filter(
  (kind) => kind !== "call" && kind !== "operation",
);

interface CommonBody {
  readonly name?: string | undefined;
  readonly if?: string | undefined;
  readonly timeout: number;
  readonly continueOnError?: boolean | undefined;
  readonly outputs?: Readonly<Record<string, string>> | undefined;
  readonly retry?: { readonly forMs: number; readonly everyMs: number } | undefined;
  readonly stableFor?: number | undefined;
}

function common(body: CommonBody, { id }: StepSurroundings) {
  return withoutUndefined({
    id,
    name: body.name,
    timeoutMs: body.timeout,
    continueOnError: body.continueOnError,
    outputs: body.outputs,
    retry: body.retry,
    stableForMs: body.stableFor,
    if: body.if,
  });
}

const defaultMode = 0o644;

function fileAction(body: z.output<typeof fileSchema>): Extract<Step, { type: "file" }>["action"] {
  const { content, mode = defaultMode, expect } = body;
  if (content !== undefined) return { kind: "create", content, mode };
  if (expect === undefined) return { kind: "remove" };
  const { exists, mode: bits, ...text } = expect;
  const parts: TextExpectation = withoutUndefined(text);
  const isEmpty = Object.keys(parts).length === 0;
  return withoutUndefined({
    kind: "check" as const,
    exists,
    mode: bits,
    content: isEmpty ? undefined : parts,
  });
}

/** The arguments in the body of `ALIAS.OPERATION`: every member that is not the step's own. */
export function operationArgs(body: Readonly<Record<string, unknown>>): JsonObject {
  const members = Object.entries(body).filter(([key]) => !Object.hasOwn(operationSchema.shape, key));
  return Object.fromEntries(members) as JsonObject;
}
