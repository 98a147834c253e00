/**
 * The program that runs graders written in JavaScript. It reads its work from stdin; the last line that it writes on stdout is the
 * answer.
 */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { text } from "node:stream/consumers";
import { inspect, types } from "node:util";
import { createContext, Script } from "node:vm";
import type { CodeAnswer, CodeResult, GraderDefinition, JavaScriptWork } from "./programs/answer.ts";
import { importModule } from "../base/files.ts";

const write = process.stdout.write.bind(process.stdout);
// What a grader prints is for people; stdout has the answer only.
process.stdout.write = process.stderr.write.bind(process.stderr);

const work = JSON.parse(await text(process.stdin)) as JavaScriptWork;
const answer = work.kind === "script" ? await runScript(work) : runAssertions(work);
// A timer or a connection that a grader leaves open does not keep it waiting.
write(`\n${jsonOf(answer)}\n`, () => process.exit());

/** The answer as JSON; for one that JSON cannot have, the problem. */
function jsonOf(given: CodeAnswer): string {
  try {
    return JSON.stringify(given, refuseNonFinite);
  } catch (error) {
    return JSON.stringify({
      problem: `gave an answer that is not JSON: ${describeError(error)}`,
    } satisfies CodeAnswer);
  }
}

/** JSON has null for NaN and infinity, and a score of null means that there was nothing to judge. */
function refuseNonFinite(key: string, value: unknown): unknown {
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`${key} is ${value}`);
  return value;
}

/** Describes a thrown value, which may be anything. */
function describeError(error: unknown, show: (error: unknown) => string = briefly): string {
  try {
    return show(error);
  } catch {
    return "a value that cannot be shown";
  }
}

function briefly(error: unknown): string {
  return types.isNativeError(error) || typeof error === "string" ? String(error) : inspect(error);
}

/** The line of a file that an error comes from, as a part of a message; "" where that is unknown. */
function lineOf(error: unknown, path: string): string {
  const stack = describeError(error, inspect);
  const [, line] = /^:(\d+)/.exec(stack.split(path).at(1) ?? "") ?? [];
  return line === undefined ? "" : ` (line ${line})`;
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
      const issues = checked.issues.map(({ path: at = [], message }) =>
        [at.map(keyName).join("."), message].join(": "),
      );
      return { problem: `refuses its settings: ${issues.join("; ")}` };
    }
    return {
      answer: trajectory === undefined ? null : await grader.grade(trajectory, { settings: checked.value }),
    };
  } catch (error) {
    const message = `threw ${describeError(error)}`;
    process.stderr.write(`${describeError(error, inspect)}\n`);
    return { problem: `${message}${lineOf(error, path)}` };
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
function keyName(part: unknown): string {
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
      const isOther = Boolean(value) && value !== true;
      const error = `it is of type ${typeof value}; only true holds, so compare it`;
      results.push({ holds: value === true, ...(isOther ? { error } : {}) });
    } catch (error) {
      const message = describeError(error);
      if (/^(?:Syntax|Reference)Error\b/.test(message))
        return { problem: `is wrong: ${assertion}: ${message}` };
      results.push({ holds: false, error: message });
    }
  }
  return { answer: results };
}
