import type { KeyPath } from "../key-path.ts";
import type { LenientReader } from "../lenient-reader.ts";
import { scriptFormSchema } from "./legacy-schema.ts";
import type { LegacyForm, LegacyPhase, RawStep } from "./raw-step.ts";

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
