import * as z from "zod";
import { anyJson, closedObject, filledText } from "../config/config-fields.ts";
import { didYouMean } from "../did-you-mean.ts";
import {
  formatKeyPath,
  isJsonObject,
  type Json,
  type JsonObject,
  type KeyPath,
  withoutUndefined,
} from "../json.ts";
import { mostProblems, type Problem, validate } from "../problem.ts";
import { readJson } from "../read-json.ts";
import { problemsOfIssues } from "../zod-problems.ts";
import { readOperationSchema, typedArgs, typedArgsSchema } from "./typed-args.ts";

/** The version of the JSON-RPC protocol that host and extensions speak. */
export const extensionProtocolVersion = "0.0.1";

/** Phases of a task in which an operation can be used. */
export const extensionPhases = ["setup", "verify", "cleanup"] as const;
export type ExtensionPhase = (typeof extensionPhases)[number];

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
  /** At least one. An extension that says nothing of them means all. */
  readonly phases: readonly ExtensionPhase[];
}

/** What stands after `ALIAS.` in a task. */
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
export const manifestSchema = z.object({
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

/** A manifest as its schema gives it. */
export type ParsedManifestDocument = z.output<typeof manifestSchema>;

/** Keys of a document's root that are not known but look like one that is. */
function nearMisses(document: JsonObject, known: readonly string[]): Problem[] {
  return Object.keys(document).flatMap((key): Problem[] => {
    if (known.includes(key)) return [];
    const near = didYouMean(
      key,
      known.filter((each) => !Object.hasOwn(document, each)),
    );
    if (near === undefined) return [];
    const message = `unknown key ${JSON.stringify(key.slice(0, 80))}`;
    return [{ code: "config/unknown-key", message, path: [key], at: "key", hint: `Did you mean "${near}"?` }];
  });
}

export type ParsedManifest =
  | { readonly ok: true; readonly manifest: ExtensionManifest }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/**
 * Reads an `extension.yaml`. Gives every problem at once, all of the code `extension/invalid-manifest`. Keys that are not
 * known are passed over at the root, where others keep a licence and the like, unless they look like one that is; elsewhere
 * they are refused.
 */
export function parseManifest(document: unknown): ParsedManifest {
  const problems: Problem[] = [];
  const json = readJson(document, { subject: "the manifest", problems, text: (text) => text });
  if (problems.length > 0) return refusal(problems);
  if (!isJsonObject(json)) {
    return refusal([wrong([], "the manifest must be an object with name, version and operations")]);
  }
  const { data, issues } = validate(manifestSchema, json);
  const found = [
    ...nearMisses(json, Object.keys(manifestSchema.shape)),
    ...problemsOfIssues(issues.slice(0, mostProblems), json),
  ];
  if (data === undefined) return refusal(found);
  const read = readOperations(data);
  const all = [...found, ...read.problems, ...programProblems(data)];
  if (all.length > 0) return refusal(all);
  const { name, version, description, program } = data;
  const requires = data.requires ?? undefined;
  const protocol = data.protocol ?? (data.operations === undefined ? "one-shot" : "json-rpc");
  const operations = Object.fromEntries(read.operations);
  return {
    ok: true,
    manifest: withoutUndefined({ name, version, description, protocol, program, requires, operations }),
  };
}

function refusal(problems: readonly Problem[]): ParsedManifest {
  const ours = problems.map((problem): Problem => {
    const message = problem.message.replace(/^the config /, "the manifest ");
    return { ...problem, code: "extension/invalid-manifest", message };
  });
  return { ok: false, problems: ours };
}

function wrong(path: KeyPath, message: string, hint?: string): Problem {
  const problem = { code: "extension/invalid-manifest", message, path, at: "value" } as const;
  return hint === undefined ? problem : { ...problem, hint };
}

/** A program outside of the extension's folder would not be among the files that were verified. */
function programProblems({ program }: ParsedManifestDocument): Problem[] {
  if (program === undefined) return [];
  const leaves = /^(?:[/\\]|[A-Za-z]:|~)/.test(program) || program.split(/[/\\]/).includes("..");
  return leaves ? [wrong(["program"], "program must be a path inside the extension's folder")] : [];
}

interface ReadOperations {
  readonly operations: readonly (readonly [string, OperationDeclaration])[];
  readonly problems: readonly Problem[];
}

function readOperations(data: ParsedManifestDocument): ReadOperations {
  const { operations, actions, checks } = data;
  if (operations === undefined) {
    if (actions === undefined && checks === undefined) {
      const hint = "List them under operations, each with its params.";
      return { operations: [], problems: [wrong([], "the manifest has no operations", hint)] };
    }
    return readLists(data);
  }
  const both = actions === undefined ? "checks" : "actions";
  const mixed =
    actions === undefined && checks === undefined
      ? []
      : [wrong([both], `${both} cannot stand beside operations`, "Give each operation its phases instead.")];
  if (Object.keys(operations).length === 0) {
    return { operations: [], problems: [wrong(["operations"], "operations has no operation"), ...mixed] };
  }
  const read = Object.entries(operations).map(([name, operation]) => readOperation(name, operation));
  return {
    operations: read.flatMap((each) => each.operations),
    problems: [...read.flatMap((each) => each.problems), ...mixed],
  };
}

type Operation = NonNullable<ParsedManifestDocument["operations"]>[string];

function readOperation(name: string, { description, params, args, phases }: Operation): ReadOperations {
  const path = ["operations", name];
  if (params !== undefined && args !== undefined) {
    return failed(
      wrong([...path, "args"], `${formatKeyPath(path)} has both params and args`, "Keep params."),
    );
  }
  const schema = args === undefined ? readOperationSchema(params) : typedArgsSchema(args);
  if (!schema.ok) {
    const at = [...path, args === undefined ? "params" : "args"];
    return failed(wrong(at, `${formatKeyPath(at)} ${schema.message}`));
  }
  const sorted = extensionPhases.filter((phase) => phases?.includes(phase) ?? true);
  return {
    operations: [[name, withoutUndefined({ description, params: schema.schema, phases: sorted })]],
    problems: [],
  };
}

function failed(problem: Problem): ReadOperations {
  return { operations: [], problems: [problem] };
}

interface Listed {
  readonly path: KeyPath;
  readonly name: string;
  readonly description: string | undefined;
  readonly schema: JsonObject;
  readonly phases: readonly ExtensionPhase[];
}

/** The lists of the proposal: actions are for setup and cleanup, checks for verify; one name in both is one operation. */
function readLists({ actions = [], checks = [] }: ParsedManifestDocument): ReadOperations {
  const problems: Problem[] = [];
  const read = (list: typeof actions, key: string, phases: readonly ExtensionPhase[]): Listed[] =>
    list.flatMap(({ name, description, args }, index) => {
      const path = [key, index];
      const schema = typedArgsSchema(args ?? {});
      if (!schema.ok) {
        problems.push(wrong([...path, "args"], `${formatKeyPath([...path, "args"])} ${schema.message}`));
        return [];
      }
      return [{ path, name, description, schema: schema.schema, phases }];
    });
  const all = [...read(actions, "actions", ["setup", "cleanup"]), ...read(checks, "checks", ["verify"])];
  if (all.length === 0 && problems.length === 0) {
    problems.push(wrong([], "the manifest has no operations"));
  }
  const byName = new Map<string, Listed>();
  for (const each of all) {
    const earlier = byName.get(each.name);
    if (earlier !== undefined) for (const clash of clashes(earlier, each)) problems.push(clash);
    byName.set(each.name, earlier === undefined ? each : joined(earlier, each));
  }
  const operations = [...byName.values()].map(
    ({ name, description, schema, phases }) =>
      [name, withoutUndefined({ description, params: schema, phases })] as const,
  );
  return { operations, problems };
}

function joined(earlier: Listed, later: Listed): Listed {
  return { ...earlier, description: earlier.description ?? later.description, phases: extensionPhases };
}

function clashes(earlier: Listed, later: Listed): Problem[] {
  const path = [...later.path, "name"];
  const names = `${formatKeyPath(earlier.path)} and ${formatKeyPath(later.path)}`;
  const also = { alsoAt: [...earlier.path, "name"] };
  if (earlier.path[0] === later.path[0]) {
    const message = `two ${String(later.path[0])} are named ${JSON.stringify(later.name)}: ${names}`;
    return [{ ...wrong(path, message, "Rename one of them."), ...also }];
  }
  if (sameJson(earlier.schema, later.schema)) return [];
  const message = `${names} are one operation, ${JSON.stringify(later.name)}, but take other arguments`;
  return [{ ...wrong(path, message, "Give both the same args, or rename one of them."), ...also }];
}

function sameJson(a: Json, b: Json): boolean {
  return JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
}

function sorted(value: Json): Json {
  if (Array.isArray(value)) return value.map((each: Json) => sorted(each));
  if (!isJsonObject(value)) return value;
  const members = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members.map(([key, member]): [string, Json] => [key, sorted(member)]));
}
