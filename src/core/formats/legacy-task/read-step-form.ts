import type { KeyPath } from "../key-path.ts";
import type { LenientReader } from "../lenient-reader.ts";
import type { Requirement } from "../model.ts";
import { requirementSchema, stepFormSchema } from "./legacy-schema.ts";
import type { Alias, LegacyForm, LegacyPhase, RawStep } from "./raw-step.ts";

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
  return [
    { phase, id: idOf(item["id"], `${phase}_${index}`, ids), type, body: item[type], path: [...path, type] },
  ];
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
