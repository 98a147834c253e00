import { McpvalsError } from "../core/errors/error.ts";
import { isJsonObject } from "../core/formats/json.ts";
import type { Json, JsonObject } from "../core/formats/model.ts";
import { readJsonText } from "../core/formats/read-json.ts";
import type { Check } from "../core/trace/events.ts";
import { type ProgramRun, shownOutput } from "./program.ts";

/** What a script says with `protocol: json`. */
export interface ScriptAnswer {
  /** The overall one first, then the script's own. */
  readonly checks: readonly Check[];
  readonly outputs?: JsonObject;
}

/**
 * Reads the answer of a script that ran with `protocol: json`. Throws McpvalsError `step/broken-script` when it did not exit
 * with 0, or did not write exactly one JSON object as the protocol has it: then nothing is known of what it looked at.
 * `remark` tells the likeliest reason for that, where one is known.
 */
export function readScriptAnswer(run: ProgramRun, remark?: string): ScriptAnswer {
  const broken = (problem: string): McpvalsError => brokenScript(run, problem, remark);
  if (run.signal !== null) throw broken(`it was ended by ${run.signal}`);
  if (run.exitCode !== 0) throw broken(`it exited with ${run.exitCode}`);
  if (run.stdout.omitted > 0) throw broken("its answer is too long and was cut");
  const answer = parse(run.stdout.text, broken);
  const { passed, reason, checks, outputs } = answer;
  if (typeof passed !== "boolean") throw broken(`"passed" is ${described(passed)}, not true or false`);
  if (!isAbsent(reason) && typeof reason !== "string")
    throw broken(`"reason" is ${described(reason)}, not a text`);
  if (!isAbsent(outputs) && !isJsonObject(outputs)) {
    throw broken(`"outputs" is ${described(outputs)}, not an object`);
  }
  const told = typeof reason === "string" && reason.trim() !== "" ? reason : undefined;
  const message = told ?? `the script says that it ${passed ? "passed" : "failed"}`;
  const overall = { name: "passed", passed, expected: true, actual: passed, message };
  return {
    checks: [overall, ...readChecks(checks, broken)],
    ...(isAbsent(outputs) ? {} : { outputs }),
  };
}

export interface UnreadOptions {
  /** What errors call it, such as `the script`. */
  readonly role: string;
  /** What its author can do. */
  readonly hint: string;
}

/**
 * Throws McpvalsError `step/broken-script` for a program of which only the exit code counts, but that answers on stdout, as a
 * whole or in a line, that something does not hold, and yet exits with 0. A last line that says that all holds outweighs others.
 */
export function refuseUnreadVerdict(run: ProgramRun, { role, hint }: UnreadOptions): void {
  if (run.exitCode !== 0) return;
  const text = run.stdout.text.trim();
  const lines = text.split("\n");
  const last = readJsonText(lines.at(-1) ?? "").value ?? null;
  const isOutweighed = isJsonObject(last) && last["passed"] === true && !isDenial(lines.at(-1) ?? "");
  if (isOutweighed || ![text, ...lines.toReversed()].some(isDenial)) return;
  const message = `${role} answers on stdout that it has not passed, and exits with 0: without protocol: json only that counts`;
  throw new McpvalsError("step/broken-script", message, { hint });
}

/** Whether a text is the answer of a script that says that something does not hold. */
function isDenial(text: string): boolean {
  if (!text.startsWith("{")) return false;
  const { value } = readJsonText(text);
  if (!isJsonObject(value) || !Object.hasOwn(value, "passed")) return false;
  const { passed, checks } = value;
  return !passed || typeof passed === "string" || (Array.isArray(checks) && checks.some(hasFailed));
}

function hasFailed(check: Json): boolean {
  return isJsonObject(check) && check["passed"] === false;
}

type Broken = (problem: string) => McpvalsError;

function parse(text: string, broken: Broken): JsonObject {
  if (text.trim() === "") throw broken("it wrote nothing on stdout");
  const { value: answer, reason } = readJsonText(text);
  if (answer === undefined) throw broken(`what it wrote on stdout is not one JSON object: ${reason}`);
  if (!isJsonObject(answer)) throw broken(`what it wrote on stdout is ${described(answer)}, not an object`);
  return answer;
}

function readChecks(checks: Json | undefined, broken: Broken): Check[] {
  if (isAbsent(checks)) return [];
  if (!isList(checks)) throw broken(`"checks" is ${described(checks)}, not a list`);
  return checks.map((check, index) => readCheck(check, (problem) => broken(`checks[${index}] ${problem}`)));
}

function readCheck(check: Json, broken: Broken): Check {
  if (!isJsonObject(check)) throw broken(`is ${described(check)}, not an object`);
  const { name, passed, message } = check;
  if (typeof name !== "string" || name.trim() === "") throw broken("has no name");
  if (typeof passed !== "boolean") throw broken(`has "passed" as ${described(passed)}, not true or false`);
  if (!isAbsent(message) && typeof message !== "string") {
    throw broken(`has "message" as ${described(message)}, not a text`);
  }
  const told = typeof message === "string" && message.trim() !== "" ? message : undefined;
  return {
    name,
    passed,
    expected: true,
    actual: passed,
    message: told ?? (passed ? "it holds" : "it does not hold"),
  };
}

/** Some languages write null for what is not there. */
function isAbsent(value: Json | undefined): value is null | undefined {
  return value === undefined || value === null;
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

function described(value: Json | undefined): string {
  if (value === undefined) return "not there";
  if (value === null) return "null";
  if (isList(value)) return "a list";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

const protocolHint =
  "With protocol: json it exits with 0 and writes one JSON object with `passed` on stdout; logs belong on stderr.";

function brokenScript(run: ProgramRun, problem: string, remark: string | undefined): McpvalsError {
  const detail = shownOutput(run);
  return new McpvalsError("step/broken-script", `the script is broken: ${problem}`, {
    hint: remark ?? protocolHint,
    ...(detail === "" ? {} : { detail }),
  });
}
