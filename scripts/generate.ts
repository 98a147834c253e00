import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { format, type FormatConfig } from "oxfmt";
import { extension as kubernetes } from "../extensions/kubernetes/extension.ts";
import { extension as sql } from "../extensions/sql/extension.ts";
import { cliReference } from "./cli-reference.ts";
import { errorReference } from "./error-reference.ts";
import { findingReference } from "./finding-reference.ts";
import { graderReference } from "./grader-reference.ts";
import { configJsonSchema, configReference } from "./schemas/config-reference.ts";
import { taskJsonSchema, taskReference } from "./schemas/task-reference.ts";
import { documentJsonSchema } from "./schemas/document-json-schemas.ts";
import { eventReference } from "./event-reference.ts";
import {
  attacksJsonSchema,
  evalJsonSchema,
  pricesJsonSchema,
  wazaEvalJsonSchema,
  wazaTaskJsonSchema,
  wazaTriggerTestsJsonSchema,
} from "./schemas/eval-json-schemas.ts";
import { manifestText } from "../src/extensions/sdk/serve.ts";

/**
 * Writes every generated file; with `--check` only compares them, and exits with 1 if one is not current. To add a
 * generated file, add one line here.
 */
const generated: Readonly<Record<string, () => string | Promise<string>>> = {
  "schemas/config.schema.json": () => json(configJsonSchema()),
  "schemas/task.schema.json": () => json(taskJsonSchema()),
  "schemas/eval.schema.json": () => json(evalJsonSchema()),
  "schemas/prices.schema.json": () => json(pricesJsonSchema()),
  "schemas/attacks.schema.json": () => json(attacksJsonSchema()),
  "schemas/task-export.schema.json": () => json(documentJsonSchema("task-export")),
  "schemas/waza-eval.schema.json": () => json(wazaEvalJsonSchema()),
  "schemas/waza-task.schema.json": () => json(wazaTaskJsonSchema()),
  "schemas/waza-trigger-tests.schema.json": () => json(wazaTriggerTestsJsonSchema()),
  "schemas/result.schema.json": () => json(documentJsonSchema("result")),
  "schemas/trajectory.schema.json": () => json(documentJsonSchema("trajectory")),
  "schemas/baseline.schema.json": () => json(documentJsonSchema("baseline")),
  "schemas/comparison.schema.json": () => json(documentJsonSchema("comparison")),
  "schemas/run.schema.json": () => json(documentJsonSchema("run")),
  "schemas/plan.schema.json": () => json(documentJsonSchema("plan")),
  "schemas/trace-event.schema.json": () => json(documentJsonSchema("trace-event")),
  "docs/cli.md": cliReference,
  "docs/reference/config.md": configReference,
  "docs/reference/task.md": taskReference,
  "docs/errors.md": errorReference,
  "docs/reference/findings.md": findingReference,
  "docs/reference/graders.md": graderReference,
  "docs/reference/events.md": eventReference,
  "extensions/kubernetes/extension.yaml": () => manifestText(kubernetes.manifest),
  "extensions/sql/extension.yaml": () => manifestText(sql.manifest),
};

const root = resolve(import.meta.dirname, "..");
const check = process.argv.includes("--check");
const options = JSON.parse(readFileSync(resolve(root, ".oxfmtrc.json"), "utf8")) as FormatConfig;

for (const [path, make] of Object.entries(generated)) {
  const file = resolve(root, path);
  const text = /\.(?:md|yaml)$/.test(path) ? await formatted(path, await make()) : await make();
  if (text === current(file)) console.log(`${path} is current`);
  else if (check) fail(`${path} is not current; run scripts/generate.ts`);
  else write(file, text);
}

function json(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}

/** Formats as the formatter of the repository does, so that formatting leaves the file unchanged. */
async function formatted(path: string, text: string): Promise<string> {
  const { code, errors } = await format(path, text, options);
  if (errors.length > 0) throw new Error(`${path}: ${errors.map((error) => error.message).join("; ")}`);
  return code;
}

function current(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  console.log(`${file} written`);
}

function fail(message: string): void {
  console.error(message);
  process.exitCode = 1;
}
