import { isMap, parseDocument } from "yaml";
import { parseYaml } from "../../core/formats/parse-yaml.ts";
import { McpvalsError } from "../../core/errors/error.ts";
import { Expressions } from "../../core/formats/legacy-task/expressions.ts";
import type { LegacyForm } from "../../core/formats/legacy-task/raw-step.ts";
import { readScriptForm } from "../../core/formats/legacy-task/read-script-form.ts";
import { readStepForm } from "../../core/formats/legacy-task/read-step-form.ts";
import { LenientReader } from "../../core/formats/lenient-reader.ts";
import { taskApiVersion } from "../../core/formats/task/task-schema.ts";
import { addOutputs } from "./add-outputs.ts";
import { migrateHead } from "./migrate-head.ts";
import { migrateSpec } from "./migrate-spec.ts";
import { Migration } from "./migration.ts";
import { type AnyMap, bindComments, dropTwins, plain, textIn, unfold } from "./yaml-edit.ts";

export interface TaskSource {
  readonly text: string;
  /** The file as messages name it. */
  readonly shown: string;
  /** What a task without a name goes by. */
  readonly name: string;
  /** Whether the text is JSON, and what comes of it is to be. */
  readonly json: boolean;
  /** The text of a file beside the task; undefined when there is none. */
  readonly read: (file: string) => string | undefined;
  /** Where extensions come from, by their names in an Eval. Default: that is not known. */
  readonly packages?: ReadonlyMap<string, string>;
}

export interface MigratedTask {
  readonly text: string;
  /** False for a task that has the new form already. */
  readonly changed: boolean;
  /** What could not be kept, or is to be looked at: one sentence each. */
  readonly notes: readonly string[];
}

/**
 * Writes a task of the older forms, one that loads, as `mcp-eval/v1`, with its comments and the order of its keys. Throws
 * McpvalsError: `config/syntax`, `config/invalid-value` for what is no task, `config/checks-nothing`.
 */
export function migrateTask(source: TaskSource): MigratedTask {
  const { text, shown } = source;
  const document = parseYaml(
    text,
    { parseDocument },
    {
      version: "1.1",
      stringKeys: true,
      customTags: (tags) => tags.filter((tag) => typeof tag === "string" || !isTime(tag)),
    },
  );
  const failure = document.errors.find((error) => error.code !== "MULTIPLE_DOCS");
  if (failure !== undefined) throw new McpvalsError("config/syntax", `${shown}: ${failure.message}`);
  const hasMore = document.errors.length > 0;
  // Of several documents the older forms read the first; with errors a document cannot be written.
  document.errors = [];
  if (textOfRoot(document.contents, "apiVersion") === taskApiVersion)
    return { text, changed: false, notes: [`${shown} has the form ${taskApiVersion} already`] };
  unfold(document);
  dropTwins(document);
  bindComments(document);
  const root: unknown = document.contents;
  if (!isMap(root) || textIn(root, "kind") !== "Task")
    throw new McpvalsError("config/invalid-value", `${shown} is no task: its kind is not Task`);
  const form = formOf(root, shown);
  const { read, packages = new Map() } = source;
  const migration = new Migration({ document, ...expressionsOf(form), read, packages });
  if (hasMore) migration.notes.push("only the first document of the file is a task; the others are left out");
  migrateHead(root, source.name, migration);
  migrateSpec(root, form, migration);
  addOutputs(migration);
  document.setSchema("1.2");
  return { text: written(document, source.json), changed: true, notes: migration.notes };
}

function isTime(tag: { readonly tag?: string | undefined; readonly format?: string | undefined }): boolean {
  return tag.format === "TIME" || tag.tag === "tag:yaml.org,2002:timestamp";
}

function textOfRoot(root: unknown, key: string): string | undefined {
  return isMap(root) ? textIn(root, key) : undefined;
}

function formOf(root: AnyMap, shown: string): LegacyForm {
  const reader = new LenientReader(() => undefined);
  const isStepForm = textIn(root, "apiVersion")?.endsWith("/v1alpha2") === true;
  const document = plain(root);
  const form = isStepForm ? readStepForm(document, reader) : readScriptForm(document, reader);
  if (form === undefined || reader.failed) {
    const [first] = reader.diagnostics();
    throw new McpvalsError("config/invalid-value", `${shown}: ${first?.message ?? "it is no task"}`);
  }
  if (form.steps.every((step) => step.phase !== "verify")) {
    throw new McpvalsError(
      "config/checks-nothing",
      `${shown} has no verify step, and ${taskApiVersion} wants one`,
      {
        hint: "Say in verify what must hold once the agent is done.",
      },
    );
  }
  return form;
}

function expressionsOf({ steps, aliases }: LegacyForm): Pick<Migration, "expressions" | "aliases"> {
  const reader = new LenientReader(() => undefined);
  return { expressions: new Expressions({ reader, steps, aliases }), aliases };
}

function written(document: ReturnType<typeof parseYaml>, json: boolean): string {
  return json ? `${JSON.stringify(document.toJS(), undefined, 2)}\n` : document.toString({ lineWidth: 0 });
}
