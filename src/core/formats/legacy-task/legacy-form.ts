import * as z from "zod";
import { closedObject, goDuration, texts } from "../config/config-fields.ts";
import type { KeyPath } from "../json.ts";
import type { LenientReader } from "../lenient-reader.ts";
import type { PortableTask, Requirement } from "../model.ts";

const text = z.string().optional();

const metadata = closedObject({
  name: text,
  description: text,
  difficulty: text,
  labels: texts.optional(),
  parallel: z.boolean().optional(),
  runs: z.int().min(1).optional(),
}).prefault({});

const head = { apiVersion: text, kind: text, metadata };
const source = closedObject({ file: text, inline: text });

/** A task without apiVersion, or with `…/v1alpha1`. */
const scriptFormSchema = closedObject({
  ...head,
  steps: closedObject({
    setup: source.optional(),
    prompt: source.optional(),
    verify: closedObject({ file: text, inline: text, contains: text, exact: text }).prefault({}),
    cleanup: source.optional(),
  }),
});

const stepList = z.array(z.record(z.string(), z.unknown())).prefault([]);
const limits = closedObject({ timeout: goDuration.optional(), cleanupTimeout: goDuration.optional() });

/** A task with `…/v1alpha2`; the bodies of its steps have schemas of their own. */
const stepFormSchema = closedObject({
  ...head,
  spec: closedObject({
    requires: z.array(z.unknown()).prefault([]),
    limits: limits.prefault({}),
    setup: stepList,
    prompt: source.optional(),
    verify: stepList,
    cleanup: stepList,
  }),
});

/** One entry of `requires`; which of the keys are there decides. */
const requirementSchema = closedObject({ extension: text, mcpServer: text, command: text, as: text });

/** The parts of a task whose steps are lists. */
export type LegacyPhase = "setup" | "verify" | "cleanup";

/** A step as its file has it, before its body is read. */
export interface RawStep {
  readonly phase: LegacyPhase;
  /** Its name in templates that use its outputs. */
  readonly id: string;
  /** The id as written. */
  readonly given?: string;
  readonly type: string;
  readonly body: unknown;
  /** Path of the body. */
  readonly path: KeyPath;
}

/** What an alias in a step's type stands for. */
export interface Alias {
  readonly kind: "extension" | "server";
  /** Its name in the eval. */
  readonly name: string;
}

/** A task of either form, read as far as both are alike. */
export interface LegacyForm {
  readonly format: Exclude<PortableTask["format"], "mcp-eval/v1">;
  readonly metadata: z.output<typeof metadata>;
  /** In milliseconds. */
  readonly limits: z.output<typeof limits>;
  readonly requires: readonly Requirement[];
  readonly aliases: ReadonlyMap<string, Alias>;
  readonly prompt: z.output<typeof source> & { readonly path: KeyPath };
  /** Of all phases, in the order of the file. */
  readonly steps: readonly RawStep[];
}

/** Reads a task of the step form. Undefined for one that is wrong; why is among the reader's problems. */
export function readStepForm(document: unknown, reader: LenientReader): LegacyForm | undefined {
  const task = reader.read(stepFormSchema, document);
  if (task === undefined) return undefined;
  const { metadata, spec } = task;
  const ids = new Set<string>();
  const steps = (["setup", "verify", "cleanup"] as const).flatMap((phase) =>
    spec[phase].flatMap((item, index): RawStep[] => {
      const path = ["spec", phase, index];
      const { id: given, ...bodies } = item;
      const [type, ...others] = Object.keys(bodies);
      if (type === undefined || others.length > 0) {
        const found = type === undefined ? "it has none" : `it has ${Object.keys(bodies).join(", ")}`;
        reader.refuse(`a step has one key that says its type, and may have an id; ${found}`, path);
        return [];
      }
      // The author's id where templates can name it, else the one that the older tool gives.
      const isName = typeof given === "string" && /^[\w-]+$/.test(given) && !ids.has(given);
      let id = isName ? given : `${phase}_${index}`;
      while (ids.has(id)) id += "_";
      ids.add(id);
      const step = { phase, id, type, body: item[type], path: [...path, type] };
      return [typeof given === "string" ? { ...step, given } : step];
    }),
  );
  return {
    format: "step-form",
    metadata,
    limits: spec.limits,
    ...readRequires(spec.requires, reader),
    prompt: { ...spec.prompt, path: ["spec", "prompt"] },
    steps,
  };
}

function readRequires(
  list: readonly unknown[],
  reader: LenientReader,
): Pick<LegacyForm, "requires" | "aliases"> {
  const requires: Requirement[] = [];
  const aliases = new Map<string, Alias>();
  for (const [index, item] of list.entries()) {
    const path = ["spec", "requires", index];
    const entry = reader.read(requirementSchema, item, path);
    if (entry === undefined) continue;
    const { extension, mcpServer, command, as } = entry;
    const name = extension || mcpServer;
    if (extension && mcpServer) reader.refuse("a requirement has extension or mcpServer, not both", path);
    else if (name) {
      const kind = extension ? "extension" : "server";
      const alias = as ?? name;
      requires.push({ kind, name });
      if (alias.includes(".")) reader.refuse(`the alias ${JSON.stringify(alias)} must have no dots`, path);
      else if (aliases.has(alias)) {
        const message = `two requirements go by the name ${JSON.stringify(alias)}`;
        const hint = "Give one of them another name with as.";
        reader.refuse(message, path, { code: "config/duplicate-name", hint });
      } else aliases.set(alias, { kind, name });
    } else if (command) requires.push({ kind: "command", name: command });
    else reader.note("this requirement says nothing that is known, and is ignored", path);
  }
  return { requires, aliases };
}

function onlyStep(phase: LegacyPhase, type: string, body: unknown): RawStep[] {
  return [{ phase, id: `${phase}_0`, type, body, path: ["steps", phase] }];
}

/**
 * Reads a task of the script form: each part is one script, or one question to the judge. Undefined for one that is wrong;
 * why is among the reader's problems.
 */
export function readScriptForm(document: unknown, reader: LenientReader): LegacyForm | undefined {
  const task = reader.read(scriptFormSchema, document);
  if (task === undefined) return undefined;
  const { setup = {}, verify, cleanup = {}, prompt } = task.steps;
  const { contains, exact, ...script } = verify;
  const scripts = (phase: LegacyPhase, body: z.output<typeof source>): RawStep[] =>
    body.file || body.inline ? onlyStep(phase, "script", body) : [];
  const isJudged = Boolean(contains || exact);
  const verifying = scripts("verify", script);
  if (isJudged && verifying.length > 0) {
    const message = "the judge is not asked, since verify has a script: remove contains and exact";
    reader.note(message, ["steps", "verify"]);
  }
  return {
    format: "script-form",
    metadata: task.metadata,
    limits: {},
    requires: [],
    aliases: new Map(),
    prompt: { ...prompt, path: ["steps", "prompt"] },
    steps: [
      ...scripts("setup", setup),
      ...(isJudged && verifying.length === 0
        ? onlyStep("verify", "llmJudge", { contains, exact })
        : verifying),
      ...scripts("cleanup", cleanup),
    ],
  };
}
