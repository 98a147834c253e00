import * as z from "zod";
import { anyJson, anyObject, closedObject, goDuration, patternText, texts } from "../config/config-fields.ts";
import type { KeyPath } from "../json.ts";
import type { LenientReader } from "../lenient-reader.ts";
import type { PortableTask, Requirement } from "../model.ts";

const text = z.string().optional();

const head = {
  apiVersion: text,
  kind: text,
  metadata: closedObject({
    name: text,
    description: text,
    difficulty: text,
    labels: texts.optional(),
    parallel: z.boolean().optional(),
    runs: z.int().min(1).optional(),
  }).optional(),
};

const source = closedObject({ file: text, inline: text });

/** A task without apiVersion, or with `…/v1alpha1`. */
const scriptFormSchema = closedObject({
  ...head,
  steps: closedObject({
    setup: source.optional(),
    prompt: source.optional(),
    verify: closedObject({ file: text, inline: text, contains: text, exact: text }).optional(),
    cleanup: source.optional(),
  }),
});

const stepList = z.array(z.record(z.string(), z.unknown())).optional();

/** A task with `…/v1alpha2`; the bodies of its steps have schemas of their own. */
const stepFormSchema = closedObject({
  ...head,
  spec: closedObject({
    requires: z.array(z.unknown()).optional(),
    limits: closedObject({
      timeout: goDuration.optional(),
      cleanupTimeout: goDuration.optional(),
    }).optional(),
    setup: stepList,
    prompt: source.optional(),
    verify: stepList,
    cleanup: stepList,
  }),
});

/** One entry of `requires`; which of the keys are there decides. */
const requirementSchema = closedObject({ extension: text, mcpServer: text, command: text, as: text });

/** Body of a `script` step. */
export const scriptSchema = closedObject({
  file: text,
  inline: text,
  env: texts.optional(),
  timeout: goDuration.optional(),
  continueOnError: z.boolean().optional(),
});

const fieldSchema = closedObject({
  path: z.string().optional(),
  equals: anyJson.optional(),
  type: z.enum(["string", "number", "bool", "array", "object", "null"]).optional(),
  match: patternText.optional(),
  exists: z.boolean().optional(),
});

const contentSchema = closedObject({
  match: patternText.optional(),
  fields: z.array(fieldSchema).optional(),
});

/** What a JSON text is to be: the same for HTTP bodies and for the content of MCP results. */
export type LegacyContent = z.output<typeof contentSchema>;
/** One expectation of a place in it. */
export type LegacyField = z.output<typeof fieldSchema>;

/** Body of an `http` step. */
export const httpSchema = closedObject({
  url: z.string(),
  method: text,
  headers: texts.optional(),
  body: closedObject({ raw: text, json: anyObject.optional() }).optional(),
  timeout: goDuration.optional(),
  expect: closedObject({ status: z.int().optional(), body: contentSchema.optional() }).optional(),
});

/** Body of an `llmJudge` step. */
export const judgeSchema = closedObject({ contains: text, exact: text });

/** Body of a `SERVER.TOOL` step. */
export const toolSchema = closedObject({
  args: anyObject.optional(),
  expect: closedObject({ isError: z.boolean().optional(), content: contentSchema.optional() }).optional(),
});

type RawList = readonly Readonly<Record<string, unknown>>[];

/** Reads a task of the step form. Undefined for one that is wrong; why is among the reader's problems. */
export function readStepForm(document: unknown, reader: LenientReader): LegacyForm | undefined {
  const task = reader.read(stepFormSchema, document);
  if (task === undefined) return undefined;
  const { metadata = {}, spec } = task;
  const { requires = [], limits = {}, prompt = {} } = spec;
  const ids = new Set<string>();
  const read = (list: RawList | undefined, phase: LegacyPhase) =>
    (list ?? []).flatMap((item, index) =>
      readStep(item, { phase, index, ids, path: ["spec", phase, index] }, reader),
    );
  return {
    format: "step-form",
    metadata,
    limits,
    ...readRequires(requires, reader),
    prompt: { ...prompt, path: ["spec", "prompt"] },
    steps: [...read(spec.setup, "setup"), ...read(spec.verify, "verify"), ...read(spec.cleanup, "cleanup")],
  };
}

interface StepPlace {
  readonly phase: LegacyPhase;
  readonly index: number;
  /** Ids of earlier steps. */
  readonly ids: Set<string>;
  readonly path: KeyPath;
}

/** A step has one key, its type, and may have an `id`. */
function readStep(
  item: Readonly<Record<string, unknown>>,
  { phase, index, ids, path }: StepPlace,
  reader: LenientReader,
): RawStep[] {
  const types = Object.keys(item).filter((key) => key !== "id");
  const [type, ...others] = types;
  if (type === undefined || others.length > 0) {
    const found = type === undefined ? "it has none" : `it has ${types.join(", ")}`;
    reader.refuse(`a step has one key that says its type, and may have an id; ${found}`, path);
    return [];
  }
  const { id: given } = item;
  const id = idOf(given, `${phase}_${index}`, ids);
  const step = { phase, id, type, body: item[type], path: [...path, type] };
  return [typeof given === "string" ? { ...step, given } : step];
}

/** The author's id where templates can name it, else the one that the older tool gives. */
function idOf(given: unknown, usual: string, ids: Set<string>): string {
  const id = typeof given === "string" && /^[\w-]+$/.test(given) && !ids.has(given) ? given : usual;
  let unique = id;
  while (ids.has(unique)) unique += "_";
  ids.add(unique);
  return unique;
}

function readRequires(
  list: readonly unknown[],
  reader: LenientReader,
): { readonly requires: readonly Requirement[]; readonly aliases: ReadonlyMap<string, Alias> } {
  const requires: Requirement[] = [];
  const aliases = new Map<string, Alias>();
  for (const [index, item] of list.entries()) {
    const path = ["spec", "requires", index];
    const read = typeof item === "object" ? reader.read(requirementSchema, item ?? {}, path) : {};
    if (read === undefined) continue;
    const { extension, mcpServer, command, as } = read;
    if (extension && mcpServer) reader.refuse("a requirement has extension or mcpServer, not both", path);
    else if (extension) {
      requires.push({ kind: "extension", name: extension });
      addAlias(as ?? extension, { kind: "extension", name: extension }, { aliases, path, reader });
    } else if (mcpServer) {
      requires.push({ kind: "server", name: mcpServer });
      addAlias(as ?? mcpServer, { kind: "server", name: mcpServer }, { aliases, path, reader });
    } else if (command) requires.push({ kind: "command", name: command });
    else reader.note("this requirement says nothing that is known, and is ignored", path);
  }
  return { requires, aliases };
}

function addAlias(
  alias: string,
  meaning: Alias,
  {
    aliases,
    path,
    reader,
  }: {
    readonly aliases: Map<string, Alias>;
    readonly path: KeyPath;
    readonly reader: LenientReader;
  },
): void {
  if (alias.includes(".")) reader.refuse(`the alias ${JSON.stringify(alias)} must have no dots`, path);
  else if (aliases.has(alias)) {
    const message = `two requirements go by the name ${JSON.stringify(alias)}`;
    reader.problem({
      code: "config/duplicate-name",
      message,
      path,
      at: "value",
      hint: "Give one of them another name with as.",
    });
  } else aliases.set(alias, meaning);
}

/**
 * Reads a task of the script form: each part is one script, or one question to the judge. Undefined for one that is wrong;
 * why is among the reader's problems.
 */
export function readScriptForm(document: unknown, reader: LenientReader): LegacyForm | undefined {
  const task = reader.read(scriptFormSchema, document);
  if (task === undefined) return undefined;
  const { metadata = {}, steps } = task;
  const { setup, verify, cleanup, prompt } = steps;
  return {
    format: "script-form",
    metadata,
    limits: {},
    requires: [],
    aliases: new Map(),
    prompt: { ...prompt, path: ["steps", "prompt"] },
    steps: [
      ...scripts(setup, "setup"),
      ...(verify === undefined ? [] : verifySteps(verify, reader)),
      ...scripts(cleanup, "cleanup"),
    ],
  };
}

type Source = { readonly file?: string | undefined; readonly inline?: string | undefined };

function scripts(source: Source | undefined, phase: LegacyPhase): RawStep[] {
  if (source === undefined || !(source.file || source.inline)) return [];
  return [step("script", phase, source)];
}

function verifySteps(
  verify: Source & { readonly contains?: string | undefined; readonly exact?: string | undefined },
  reader: LenientReader,
): RawStep[] {
  const { contains, exact, ...source } = verify;
  const script = scripts(source, "verify");
  if (!(contains || exact)) return script;
  if (script.length === 0) return [step("llmJudge", "verify", { contains, exact })];
  const path: KeyPath = ["steps", "verify"];
  reader.note("the judge is not asked, since verify has a script: remove contains and exact", path);
  return script;
}

function step(type: string, phase: LegacyPhase, body: unknown): RawStep {
  return { phase, id: `${phase}_0`, type, body, path: ["steps", phase] };
}

/** The parts of a task whose steps are lists. */
export type LegacyPhase = "setup" | "verify" | "cleanup";

/** A step as its file has it, before its body is read. */
export interface RawStep {
  readonly phase: LegacyPhase;
  /** What templates call it when they mean its outputs. */
  readonly id: string;
  /** The id as written. */
  readonly given?: string;
  readonly type: string;
  readonly body: unknown;
  /** Where the body stands. */
  readonly path: KeyPath;
}

/** What an alias in a step's type stands for. */
export interface Alias {
  readonly kind: "extension" | "server";
  /** Its name in the eval. */
  readonly name: string;
}

type Optional<T> = { readonly [K in keyof T]?: T[K] | undefined };

/** A task of either form, read as far as both are alike. */
export interface LegacyForm {
  readonly format: Exclude<PortableTask["format"], "mcp-eval/v1">;
  readonly metadata: Optional<{
    name: string;
    description: string;
    difficulty: string;
    labels: Readonly<Record<string, string>>;
    parallel: boolean;
    runs: number;
  }>;
  /** In milliseconds. */
  readonly limits: Optional<{ timeout: number; cleanupTimeout: number }>;
  readonly requires: readonly Requirement[];
  readonly aliases: ReadonlyMap<string, Alias>;
  readonly prompt: Optional<{ inline: string; file: string }> & { readonly path: KeyPath };
  /** Of all phases, in the order of the file. */
  readonly steps: readonly RawStep[];
}
