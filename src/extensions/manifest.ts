import * as z from "zod";
import { anyJson, closedObject, filledText, nameKey, type Parsed } from "../model/fields.ts";
import { didYouMean } from "../base/did-you-mean.ts";
import { goDurationPattern, parseGoDuration } from "../base/duration.ts";
import {
  canonicalJson,
  exact,
  formatKeyPath,
  isJsonObject,
  type Json,
  type JsonObject,
  type KeyPath,
} from "../base/json.ts";
import { maxProblems, type ParseResult, type Problem, validate } from "../base/problem.ts";
import { readJson } from "../base/read-json.ts";
import { problemsOfIssues } from "../model/zod-problems.ts";
import { type ExtensionPhase, extensionPhases } from "../model/extension.ts";

/** The version of the JSON-RPC protocol that host and extensions speak. */
export const extensionProtocolVersion = "0.0.1";

/** `json-rpc`: one process for many operations, one message a line; `one-shot`: one process an operation. */
export type ExtensionProtocol = "json-rpc" | "one-shot";

/** What an extension says of itself, in `extension.yaml` or when it is asked. */
export interface ExtensionManifest {
  readonly name: string;
  readonly version: string;
  readonly description?: string;
  readonly protocol: ExtensionProtocol;
  /** Path of the program in its folder; absent: named as the extension, or as the release's file. */
  readonly program?: string;
  /** Programs that it needs, by name or path; absent: none. */
  readonly requires?: readonly { readonly command: string }[];
  readonly operations: Readonly<Record<string, OperationDeclaration>>;
}

/** One thing that an extension can do. */
export interface OperationDeclaration {
  readonly description?: string;
  /** JSON Schema of its arguments, an object. */
  readonly params: JsonObject;
  /** At least one; all, if the extension names none. */
  readonly phases: readonly ExtensionPhase[];
}

/** Names of types of arguments, with those of other languages, and what JSON Schema calls them. */
const types = {
  string: "string",
  number: "number",
  integer: "integer",
  boolean: "boolean",
  array: "array",
  object: "object",
  /** A text, such as `90s`. */
  duration: "string",
  any: undefined,
  int: "integer",
  float: "number",
  bool: "boolean",
  list: "array",
  map: "object",
} as const;

const typedArg = closedObject({
  type: z.enum(Object.keys(types) as (keyof typeof types)[]).optional(),
  required: z.boolean().optional(),
  default: anyJson.optional(),
  description: z.string().optional(),
});

/** Arguments by name. */
const typedArgs = z.record(nameKey, typedArg);

/** The part after `ALIAS.` in a task. */
const operationName = z.string().regex(/^\S+$/, { error: "must be a name without spaces" });

const operation = closedObject({
  description: z.string().optional(),
  params: anyJson.optional(),
  args: typedArgs.optional(),
  phases: z.array(z.enum(extensionPhases)).min(1).optional(),
});

const listed = closedObject({
  name: operationName,
  description: z.string().optional(),
  args: typedArgs.nullable().optional(),
});

/** An `extension.yaml`. Other keys at its root are ignored. */
const manifestSchema = z.object({
  name: filledText,
  version: filledText,
  description: z.string().optional(),
  protocol: z.enum(["json-rpc", "one-shot"]).optional(),
  program: filledText.optional(),
  requires: z
    .array(closedObject({ command: filledText }))
    .nullable()
    .optional(),
  operations: z.record(operationName, operation).optional(),
  actions: z.array(listed).optional(),
  checks: z.array(listed).optional(),
});

type Manifest = z.output<typeof manifestSchema>;

export type ParsedManifest = ParseResult<
  { readonly manifest: ExtensionManifest },
  { readonly problems: readonly Problem[] }
>;

/** Adds a problem of the value at a path. */
type Refuse = (path: KeyPath, message: string, rest?: Partial<Problem>) => undefined;

/**
 * Reads an `extension.yaml`. Gives every problem at once, all of the code `extension/invalid-manifest`. Unknown keys are ignored
 * at the root, where others keep a licence and the like, unless they look like a known one; elsewhere they are refused.
 */
export function parseManifest(document: unknown): ParsedManifest {
  const problems: Problem[] = [];
  const refuse: Refuse = (path, message, rest = {}) =>
    void problems.push({ code: "extension/invalid-manifest", message, path, at: "value", ...rest });
  const refusal = (): ParsedManifest => ({
    ok: false,
    problems: problems.map((problem) => ({
      ...problem,
      code: "extension/invalid-manifest",
      message: problem.message.replace(/^the config /, "the manifest "),
    })),
  });
  const json = readJson(document, { subject: "the manifest", problems, text: (text) => text });
  if (problems.length > 0) return refusal();
  if (!isJsonObject(json)) {
    refuse([], "the manifest must be an object with name, version and operations");
    return refusal();
  }
  const { data, issues } = validate(manifestSchema, json);
  const known = Object.keys(manifestSchema.shape);
  for (const key of Object.keys(json)) {
    const absent = known.filter((each) => !Object.hasOwn(json, each));
    const near = known.includes(key) ? undefined : didYouMean(key, absent);
    if (near !== undefined)
      refuse([key], `unknown key ${JSON.stringify(key.slice(0, 80))}`, {
        at: "key",
        hint: `Did you mean "${near}"?`,
      });
  }
  problems.push(...problemsOfIssues(issues.slice(0, maxProblems), json));
  if (data === undefined) return refusal();
  const { name, version, description, program, requires } = data;
  const operations = readOperations(data, refuse);
  // A program outside of the extension's folder would not be among the files that were verified.
  if (
    program !== undefined &&
    (/^(?:[/\\]|[A-Za-z]:|~)/.test(program) || program.split(/[/\\]/).includes(".."))
  )
    refuse(["program"], "program must be a path inside the extension's folder");
  if (problems.length > 0) return refusal();
  const protocol = data.protocol ?? (data.operations === undefined ? "one-shot" : "json-rpc");
  const optional = exact({ description, program, requires: requires ?? undefined });
  return {
    ok: true,
    manifest: { name, version, protocol, operations: Object.fromEntries(operations), ...optional },
  };
}

type Operations = ReadonlyMap<string, OperationDeclaration>;

function readOperations(data: Manifest, refuse: Refuse): Operations {
  const { operations, actions, checks } = data;
  if (operations === undefined) return readLists(data, refuse);
  const read = new Map<string, OperationDeclaration>();
  if (Object.keys(operations).length === 0) refuse(["operations"], "operations has no operation");
  for (const [name, { description, params, args, phases }] of Object.entries(operations)) {
    const path = ["operations", name];
    if (params !== undefined && args !== undefined) {
      refuse([...path, "args"], `${formatKeyPath(path)} has both params and args`, { hint: "Keep params." });
      continue;
    }
    const schema =
      args === undefined
        ? readParams(params, [...path, "params"], refuse)
        : readArgs(args, [...path, "args"], refuse);
    if (schema === undefined) continue;
    const ordered = extensionPhases.filter((phase) => phases?.includes(phase) ?? true);
    read.set(name, { params: schema, phases: ordered, ...exact({ description }) });
  }
  const other = actions === undefined ? "checks" : "actions";
  if ((actions ?? checks) !== undefined)
    refuse([other], `${other} cannot stand beside operations`, {
      hint: "Give each operation its phases instead.",
    });
  return read;
}

function readParams(params: Json | undefined, path: KeyPath, refuse: Refuse): JsonObject | undefined {
  const read = readOperationSchema(params);
  return read.ok ? read.schema : refuse(path, `${formatKeyPath(path)} ${read.message}`);
}

/** The lists of the proposal: actions are for setup and cleanup, checks for verify; one name in both is one operation. */
function readLists({ actions, checks }: Manifest, refuse: Refuse): Operations {
  const read = new Map<string, OperationDeclaration>();
  const paths = new Map<string, KeyPath>();
  let isEmpty = true;
  for (const [key, list = []] of Object.entries({ actions, checks }))
    for (const [index, { name, description, args }] of list.entries()) {
      isEmpty = false;
      const path = [key, index];
      const params = readArgs(args ?? {}, [...path, "args"], refuse);
      if (params === undefined) continue;
      const [first, earlier] = [paths.get(name), read.get(name)];
      if (first === undefined || earlier === undefined) {
        const phases: readonly ExtensionPhase[] = key === "actions" ? ["setup", "cleanup"] : ["verify"];
        read.set(name, { params, phases, ...exact({ description }) });
        paths.set(name, path);
        continue;
      }
      const names = `${formatKeyPath(first)} and ${formatKeyPath(path)}`;
      const clash = (message: string, hint: string): undefined =>
        refuse([...path, "name"], message, { hint, alsoAt: [...first, "name"] });
      if (first[0] === key)
        clash(`two ${key} are named ${JSON.stringify(name)}: ${names}`, "Rename one of them.");
      else if (canonicalJson(earlier.params) !== canonicalJson(params))
        clash(
          `${names} are one operation, ${JSON.stringify(name)}, but take other arguments`,
          "Give both the same args, or rename one of them.",
        );
      read.set(name, { ...exact({ description }), ...earlier, phases: extensionPhases });
    }
  if (isEmpty) {
    const hint = "List them under operations, each with its params.";
    refuse([], "the manifest has no operations", { hint });
  }
  return read;
}

/** The JSON Schema of arguments that are declared by name; others are refused. */
function readArgs(args: Parsed<typeof typedArgs>, path: KeyPath, refuse: Refuse): JsonObject | undefined {
  const properties: [string, JsonObject][] = [];
  const needed: string[] = [];
  for (const [name, { type, required, default: value, description }] of Object.entries(args)) {
    if (!fits(value, type))
      return refuse(
        path,
        `${formatKeyPath(path)} gives ${JSON.stringify(name)} a default that is not of type ${String(type)}`,
      );
    const pattern = type === "duration" ? goDurationPattern : undefined;
    const jsonType = type === undefined ? undefined : types[type];
    properties.push([name, exact({ type: jsonType, pattern, description, default: value })]);
    if (required === true && value === undefined) needed.push(name);
  }
  return {
    type: "object",
    properties: Object.fromEntries(properties),
    ...(needed.length === 0 ? {} : { required: needed }),
    additionalProperties: false,
  };
}

function fits(value: Json | undefined, type: keyof typeof types | undefined): boolean {
  const name = type === undefined ? undefined : types[type];
  if (value === undefined || name === undefined) return true;
  if (type === "duration") return typeof value === "string" && parseGoDuration(value) !== undefined;
  if (name === "array") return Array.isArray(value);
  if (name === "object") return isJsonObject(value);
  return name === "integer" ? Number.isInteger(value) : typeof value === name;
}

/** `message` is a predicate: `must be …`. */
type OperationSchema = ParseResult<{ readonly schema: JsonObject }, { readonly message: string }>;

/** Reads the JSON Schema of an operation's arguments, which are an object. Without one there may be any arguments. */
export function readOperationSchema(value: Json | undefined): OperationSchema {
  const schema = value ?? {};
  if (!isJsonObject(schema)) return { ok: false, message: "must be a JSON Schema, an object" };
  const { type = "object" } = schema;
  return type === "object"
    ? { ok: true, schema: { type, ...schema } }
    : { ok: false, message: 'must be a JSON Schema of type "object": arguments are an object' };
}
