import type * as z from "zod";
import type { ValidateSchema } from "../expect/tool-result.ts";
import { didYouMean } from "../base/did-you-mean.ts";
import type { GraderSettings, NamedFile } from "./declared.ts";
import type { JsonObject } from "../base/json.ts";
import { compilePattern } from "../templates/pattern.ts";
import type { JudgeSpec } from "../model/eval.ts";
import type { Task } from "../model/task.ts";
import type { FileContent } from "../model/event.ts";
import type { AskJudge } from "./judge/verdict-forms.ts";
import { agentActs } from "../trace/agent-acts.ts";
import { perObject, type ToolDeclaration, type Trajectory } from "../trace/trajectory.ts";
import type { Grade } from "../model/grade.ts";

/** The outside world as graders see it. */
export interface GradeContext {
  readonly validateSchema: ValidateSchema;
  /** Reads a file that settings name, relative to a folder. Rejects when it cannot be read. */
  readonly readFile: (dir: string, file: string) => Promise<FileContent>;
  readonly runProgram: RunProgram;
  readonly askJudge: AskJudge;
}

/** A program that a grader runs. */
export interface GraderProgram {
  /** Absent: mcpvals' own program for graders in JavaScript, which gets `JavaScriptWork` on stdin. */
  readonly command?: string;
  readonly args: readonly string[];
  readonly stdin: string;
  /** Absolute path of the folder that it runs in. */
  readonly cwd: string;
  /** Names of the variables that it gets besides those that every program needs. */
  readonly inheritEnv: readonly string[];
  /** Texts of files by their relative paths: they are in a folder that the variable `WAZA_WORKSPACE_DIR` names. */
  readonly workspace?: ReadonlyMap<string, string> | undefined;
  readonly timeoutMs: number;
}

/** How a program ended, and what it wrote. */
export interface ProgramEnd {
  readonly exitCode: number;
  readonly stdout: string;
  /** Bytes of stdout that were dropped, since it was too long. */
  readonly omitted: number;
  /** The end of what it wrote on stderr. */
  readonly stderr: string;
}

/**
 * Runs a program to its end, and ends what it leaves running. Throws McpvalsError `grader/cannot-run` also for one that a signal
 * ended, and `grader/timeout`.
 */
export type RunProgram = (program: GraderProgram) => Promise<ProgramEnd>;

/** A grader of a task, with its settings. It reads a finished trial and gives a verdict; it never calls a server. */
export interface Grader {
  readonly name: string;
  /** Weight of its score in the trial's score. Absent: 1. */
  readonly weight?: number;
  /** False: the trial passes without it. */
  readonly required?: boolean;
  /** Whether it grades a trial. */
  applies(trajectory: Trajectory): boolean;
  grade(trajectory: Trajectory, context: GradeContext): GraderResult | Promise<GraderResult>;
}

/** A grade without the name of its grader. */
export type GraderResult = Omit<Grade, "grader">;

/** A type of grader: which tasks have it, and what it does with its settings. */
export interface GraderKind<C = unknown> {
  /** Also the name of its grades, where a file gives no other. */
  readonly type: string;
  /** The forms of tasks that have it without a declaration. Absent: a task has it where a file declares it. */
  readonly forms?: readonly Task["form"][];
  /** Its settings in a task of these forms; undefined: that task does not have it. Absent: it has no settings. */
  settingsOf?(task: Task, judge: JudgeSpec | undefined): C | undefined;
  /** Whether it grades a trial; absent: every trial. */
  applies?(trajectory: Trajectory): boolean;
  grade(settings: C, trajectory: Trajectory, context: KindContext): GraderResult | Promise<GraderResult>;
}

/** A type of grader that files can declare: also its settings and its documentation. */
export interface DeclaredKind<S extends z.ZodType = z.ZodType, C = z.output<S>>
  extends GraderKind<C>, GraderSettings {
  /** What it checks and when it passes, for reference pages: one or two sentences. */
  readonly description: string;
  /** The settings, each with its description. Its output is JSON. */
  readonly config: S;
  /** Valid settings as an example for reference pages. */
  readonly example: JsonObject;
  files?(config: z.output<S>): readonly NamedFile[];
  /** Paths and globs in the workspace whose files have to be recorded. */
  workspaceFiles?(config: z.output<S>): readonly string[];
  servers?(config: z.output<S>): readonly string[];
  /**
   * Tries settings before anything runs: code has to load, a schema has to be usable. Gives a promise for each key that is tried, which
   * rejects with `grader/broken`.
   */
  prepare?(
    config: z.output<S>,
    context: PrepareContext,
  ): Partial<Record<keyof z.output<S> & string, Promise<unknown>>>;
}

/** The outside world as types of graders see it. */
export interface KindContext extends GradeContext {
  /** Absolute path of the folder that files in the settings are relative to; "" for a grader that no file declares. */
  readonly dir: string;
}

/** The outside world as graders see it before anything runs. */
export interface PrepareContext extends Omit<KindContext, "askJudge"> {
  /** The path of a program that `runProgram` would start; undefined where there is none. */
  readonly findProgram: (
    program: Pick<GraderProgram, "cwd" | "inheritEnv"> & { readonly command: string },
  ) => Promise<string | undefined>;
}

/** A type of grader, with the type of its settings inferred. */
export function graderKind<C>(kind: GraderKind<C>): GraderKind<C> {
  return kind;
}

/** A type of grader that files can declare, with the type of its settings inferred from their schema. */
export function declaredKind<S extends z.ZodType, C = z.output<S>>(
  kind: DeclaredKind<S, C>,
): DeclaredKind<S, C> {
  return kind;
}

/** One thing that a grader checks. */
export interface GraderCheck {
  readonly passed: boolean;
  /** A statement of what was found. */
  readonly reason: string;
  /** Numbers of the events that show it; empty if it is about something that is missing. */
  readonly evidence: readonly number[];
}

/** The grade of checks that must all pass: score = passed / all. It cites those that failed; if none did, all of them. */
export function checksGrade(
  checks: readonly GraderCheck[],
  { agentStarted, events }: Trajectory,
): GraderResult {
  if (checks.length === 0) return skip("nothing to check");
  const failed = checks.filter(({ passed }) => !passed);
  const cited = failed.length === 0 ? checks : failed;
  // The evidence of something missing is the whole record of the agent; its start is cited.
  const absence = [agentStarted ?? events[0]?.seq ?? 1];
  const evidence = cited.flatMap((check) => (check.evidence.length === 0 ? absence : check.evidence));
  return passOrFail(checks.length - failed.length, checks.length, {
    reason: cited.map(({ reason }) => reason).join("; "),
    evidence: [...new Set(evidence)].toSorted((a, b) => a - b),
  });
}

/**
 * The grade of checks of what the agent did. For an agent that did nothing of it, as `nothing` says, only the failed checks count, which
 * give the score 0; without any, the grade is a skip.
 */
export function agentGrade(
  checks: readonly GraderCheck[],
  trajectory: Trajectory,
  nothing = nothingDone(trajectory),
): GraderResult {
  if (nothing === undefined) return checksGrade(checks, trajectory);
  const failed = checks.filter(({ passed }) => !passed);
  if (trajectory.agentStarted === undefined || failed.length === 0) return skip(nothing);
  const grade = checksGrade(failed, trajectory);
  return { ...grade, reason: `${nothing}: ${grade.reason}` };
}

/**
 * Why a trial has no act of an agent: none took part, or it neither said nor called anything. Undefined if it has one. That such a
 * trial keeps to a limit is no evidence.
 */
export const nothingDone = perObject((trajectory: Trajectory): string | undefined => {
  if (trajectory.agentStarted === undefined) return "no agent took part";
  const spoke = trajectory.messages.some(({ text }) => text.trim() !== "");
  return spoke || agentActs(trajectory).length > 0 ? undefined : "the agent said nothing and called nothing";
});

/** The grade of a trial in which there is nothing to judge. */
export function skip(reason: string, evidence: readonly number[] = []): GraderResult {
  return { verdict: "skip", score: null, reason, evidence };
}

/** A grade that passes if all of its parts do. */
export function passOrFail(
  passed: number,
  total: number,
  rest: Pick<GraderResult, "reason" | "evidence">,
): GraderResult {
  return { verdict: passed === total ? "pass" : "fail", score: passed / total, ...rest };
}

/** A question that names the tool whose name is near NAME or SERVER.NAME; undefined: none is. */
export function nearestTool(name: string, tools: readonly ToolDeclaration[]): string | undefined {
  const [ofAnother, ...more] = tools.filter((tool) => name.endsWith(`.${tool.name}`));
  const near =
    didYouMean(name, [...tools.map((tool) => tool.name), ...tools.map(qualified)]) ??
    (ofAnother !== undefined && more.length === 0 ? qualified(ofAnother) : undefined);
  return near === undefined ? undefined : `did you mean "${near}"?`;
}

/**
 * A hint for the name of a tool, NAME or SERVER.NAME, that the servers, or `server`, do not have but nearly; undefined for any other.
 * Tools that an allow-list hides from the agent exist.
 */
export function misspelling(
  name: string,
  { tools, hiddenTools: hidden }: Pick<Trajectory, "tools" | "hiddenTools">,
  server?: string,
): string | undefined {
  const offered = tools.filter((tool) => server === undefined || tool.server === server);
  const pattern = patternIn(name);
  if (pattern !== undefined) return patternOfQualified(pattern, [...offered, ...hidden]);
  const isThere = [...offered, ...hidden].some((tool) => tool.name === name || qualified(tool) === name);
  return isThere ? undefined : nearestTool(name, offered);
}

/** The pattern in a name such as `/PATTERN/`; undefined for an exact name. */
export function patternIn(name: string): string | undefined {
  return /^\/(.+)\/$/s.exec(name)?.[1];
}

/** The hint for a pattern that matches SERVER.NAME of a tool, but not its name alone. */
function patternOfQualified(
  pattern: string,
  tools: readonly Pick<ToolDeclaration, "server" | "name">[],
): string | undefined {
  const whole = compilePattern(`^(?:${pattern})$`);
  if (tools.some(({ name }) => whole.test(name)) || !tools.some((tool) => whole.test(qualified(tool))))
    return undefined;
  return "since a pattern is compared with the name without its server";
}

/** The names of the tools, with their servers when there are several. */
export function offeredTools(tools: readonly ToolDeclaration[]): string {
  const several = new Set(tools.map((tool) => tool.server)).size > 1;
  const names = [...new Set(tools.map((tool) => (several ? qualified(tool) : tool.name)))];
  return `offered: ${listed(names, 10)}`;
}

/** Names for a sentence, up to a maximum, and the number of others. */
export function listed(names: readonly string[], max: number): string {
  const more = names.length > max ? ` and ${names.length - max} more` : "";
  return `${names.slice(0, max).join(", ")}${more}`;
}

/** A tool's name with that of its server. */
export function qualified({ server, name }: { readonly server: string; readonly name: string }): string {
  return `${server}.${name}`;
}
