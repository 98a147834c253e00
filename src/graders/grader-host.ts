/**
 * The program that runs graders written in JavaScript. It reads its work from stdin; the last line that it writes on stdout is the
 * answer.
 */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { text } from "node:stream/consumers";
import { inspect } from "node:util";
import { createContext, Script } from "node:vm";
import type {
  CodeAnswer,
  CodeResult,
  GraderDefinition,
  JavaScriptWork,
} from "../core/grade/programs/answer.ts";
import { importModule } from "../files/import-module.ts";

const write = process.stdout.write.bind(process.stdout);
// What a grader prints is for people; stdout has the answer only.
process.stdout.write = process.stderr.write.bind(process.stderr);

const work = JSON.parse(await text(process.stdin)) as JavaScriptWork;
const answer = work.kind === "script" ? await runScript(work) : runAssertions(work);
// A timer or a connection that a grader leaves open does not keep it waiting.
write(`\n${JSON.stringify(answer, nameNonFinite)}\n`, () => process.exit());

/** NaN and infinity as texts, which are no score: JSON has null for them, and that means that there was nothing to judge. */
function nameNonFinite(_key: string, value: unknown): unknown {
  return typeof value === "number" && !Number.isFinite(value) ? String(value) : value;
}

async function runScript({
  file,
  settings,
  trajectory,
}: Extract<JavaScriptWork, { kind: "script" }>): Promise<CodeAnswer> {
  const path = resolve(file);
  try {
    const grader = graderOf(await importModule(path, await readFile(path, "utf8"), new Set([path])));
    if (grader === undefined)
      return { problem: "has no grader as its default export: export default defineGrader({ … })" };
    const checked = (await grader.settings?.["~standard"].validate(settings)) ?? { value: settings };
    if (checked.issues !== undefined) {
      const told = checked.issues.map(({ path: at = [], message }) =>
        [at.map(nameOf).join("."), message].join(": "),
      );
      return { problem: `refuses its settings: ${told.join("; ")}` };
    }
    return {
      answer: trajectory === undefined ? null : await grader.grade(trajectory, { settings: checked.value }),
    };
  } catch (error) {
    process.stderr.write(`${inspect(error)}\n`);
    return { problem: `threw ${String(error)}` };
  }
}

/** Its settings are of a type that only it knows. */
type AnyGrader = GraderDefinition<unknown>;

/** The default export of a module; one that was compiled to CommonJS has it one level deeper. */
function graderOf(module: unknown): AnyGrader | undefined {
  const { default: exported } = module as { readonly default?: unknown };
  const inner = isObject(exported) && "__esModule" in exported ? exported["default"] : exported;
  return isObject(inner) && typeof inner["grade"] === "function"
    ? (inner as unknown as AnyGrader)
    : undefined;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

/** A part of the path of an issue: a key, or an object with the key. */
function nameOf(part: unknown): string {
  return String(isObject(part) ? part["key"] : part);
}

function runAssertions({ assertions, variables }: Extract<JavaScriptWork, { kind: "code" }>): CodeAnswer {
  const context = createContext({ ...variables });
  const results: CodeResult[] = [];
  for (const assertion of assertions) {
    try {
      const value: unknown = new Script(`(${assertion}\n)`).runInContext(context);
      if (isObject(value) && typeof value["then"] === "function")
        return { problem: `gives a promise: ${assertion}` };
      results.push({ holds: Boolean(value) });
    } catch (error) {
      const told = String(error);
      if (/^(?:Syntax|Reference)Error\b/.test(told)) return { problem: `is wrong: ${assertion}: ${told}` };
      results.push({ holds: false, error: told });
    }
  }
  return { answer: results };
}
