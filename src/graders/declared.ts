import * as z from "zod";
import { messageOf, type SourceLocation } from "../base/error.ts";
import { anyObject, closedObject, filledText, optional } from "../model/fields.ts";
import { suggestion } from "../base/did-you-mean.ts";
import { type JsonObject, type KeyPath, withoutUndefined } from "../base/json.ts";
import type { GraderSpec } from "../model/task.ts";
import { type Locate, type Problem, problem, problemAt, validate } from "../base/problem.ts";
import { problemsOfIssues } from "../model/zod-problems.ts";

/** A grader as files declare it, whatever its type. */
export const graderSchema = closedObject({
  type: filledText.describe("What it looks at: a type of `mcpvals graders`."),
  name: optional(
    filledText,
    "Name of its grades; unique among the graders of a task, the built-in ones included.",
    "the type",
  ),
  weight: z.number().positive().max(1e6).default(1).describe("Weight of its score in the trial's score."),
  required: z
    .boolean()
    .default(true)
    .describe("Whether the trial passes only if it passes; else only its score counts."),
  config: anyObject.default({}).describe("Settings, by type: `mcpvals graders TYPE` lists them."),
}).meta({ id: "Grader", title: "Grader", description: "A further look at every trial of a task." });

/** The graders of something. */
export function gradersField(what: string): z.ZodDefault<z.ZodArray<typeof graderSchema>> {
  return z.array(graderSchema).default([]).describe(`Graders of ${what}.`);
}

/** Values with which a run passes, as files declare them. */
export const thresholdsField = z
  .record(filledText, z.number().min(0))
  .optional()
  .describe(
    "Lowest values with which a run passes, from 0 to 1: `score` (mean score of the trials), `passRate` (share of the trials with a verdict that passed, as the mean of the tasks; it decides about failed trials, of which otherwise one fails the run), `lowerBound` (lower end of the 95 % interval of the pass rate on these tasks, below 1, which every variant has to reach; it also decides about failed trials, and is undecided while the interval contains it), `answerRate` (share of the trials with a verdict that passed, those left out in which only a tool's result has the `expectedState`), `toolCoverage`, `parameterCoverage`, `resourceCoverage` and `promptCoverage` (shares of what the servers list that trials used), or the name of a grader (its mean score). Or the name of a measurement of the grader `metric`, such as `invalidCallRate`: its mean over the trials, of which the highest value is given that passes; of `errorRecoveryRate` the lowest. Or, as the highest value that passes: `maxCost`, the mean cost of an agent in a trial in the currency of the prices, or `maxP95Latency`, the 95th percentile of the latency of calls of servers' tools in milliseconds.",
  );

/** Name of the grades of trigger tests. A threshold of that name decides about the trials that only these grades failed. */
export const triggerAccuracy = "trigger_accuracy";
/** Name of the grade of attacks. A threshold of that name decides about the trials that only this grade failed. */
export const attackResistance = "attack-resistance";

/** Types of graders that judge only what is in the workspace, so that they need a trial that has one. */
export const workspaceTypes: ReadonlySet<string> = new Set(["diff", "file"]);

export type ParsedGrader = z.output<typeof graderSchema>;

/** The settings of a type of grader. */
export interface GraderSettings {
  readonly config: z.ZodType;
  /** Files that its settings name, with their places there; they must exist beside the file that declares it. */
  files?(config: unknown): readonly NamedFile[];
  /** Servers that its settings name; each must be one of the eval's. */
  servers?(config: unknown): readonly string[];
  /** The judge that it asks. Absent, undefined: none. */
  judge?(config: unknown): AskedJudge | undefined;
}

/** The judge that a grader asks. */
export interface AskedJudge {
  /** Absent: that of the eval. */
  readonly model?: string | undefined;
  /** A model that is asked the same, for comparison. */
  readonly second?: string | undefined;
  /** Lowest score of the judge with which the grade passes; absent: the score does not decide alone. */
  readonly threshold?: number | undefined;
}

/** A file that settings name: the path of its key in them, and its path relative to the file that declares the grader. */
export interface NamedFile {
  readonly path: KeyPath;
  readonly file: string;
  /** What is wrong with its text, as a predicate; undefined: nothing. Absent: any content will do. */
  readonly problemIn?: (text: string) => string | undefined;
}

/** The files that settings may name, by paths relative to a folder. */
interface FileAccess {
  /** The kind of what is at a path; `outside`: a file that declares graders may not name it. */
  readonly look: (path: string) => "file" | "folder" | "nothing" | "outside";
  /** Throws an Error for a file that cannot be read, or is very large. */
  readonly readText: (path: string) => string;
}

/** The types of graders, and the file that declares graders. */
export interface GraderTypes extends FileAccess {
  readonly types: Readonly<Record<string, GraderSettings>>;
  /** Absolute path. */
  readonly dir: string;
  /** Where the parts of the file are; absent: unknown. */
  readonly locate?: Locate | undefined;
}

/** For a document without graders. */
const noTypes: GraderTypes = { types: {}, dir: "", look: () => "nothing", readText: () => "" };

/** Reads lists of graders of one file. `taken` are other graders of the same tasks. */
export type ReadGraders = (
  declared: readonly ParsedGrader[],
  path: KeyPath,
  taken?: readonly GraderSpec[],
) => readonly GraderSpec[];

/**
 * Reads the settings of graders by their types. A problem is added for a type that does not exist, settings that do not fit,
 * a file that is not there, and a name that another grader of the same tasks has.
 */
export function graderReader(
  { types, dir, locate, ...disk }: GraderTypes | undefined = noTypes,
  add: (problem: Problem) => void,
): ReadGraders {
  return (declared, path, taken = []) => {
    const names = new Map(taken.map(({ name }) => [name, undefined as KeyPath | undefined]));
    return declared.flatMap(({ type, name = type, config, ...rest }, index): GraderSpec[] => {
      const at = [...path, index];
      const settings = Object.hasOwn(types, type) ? types[type] : undefined;
      if (settings === undefined) {
        const hint = suggestion(type, Object.keys(types), "types of graders");
        add(
          problem([...at, "type"], `no grader has the type ${JSON.stringify(type.slice(0, 80))}`, { hint }),
        );
        return [];
      }
      if (names.has(name)) {
        const message = `two graders of the same tasks are named ${JSON.stringify(name)}`;
        const hint = "Give one of them another name.";
        add(problem(at, message, { code: "config/duplicate-name", alsoAt: names.get(name), hint }));
      }
      names.set(name, at);
      const read = readSettings(settings, config, [...at, "config"], disk, add);
      if (read === undefined) return [];
      const location = locate?.({ path: at, at: "value" });
      const places = locate && placesOf(config, [...at, "config"], locate);
      return [withoutUndefined({ type, name, ...rest, ...read, dir, location, places })];
    });
  };
}

/** The places of settings by their keys; undefined for those that have no lines. */
export function placesOf(config: JsonObject, path: KeyPath, locate: Locate): GraderSpec["places"] {
  const places = Object.keys(config).flatMap((key) => {
    const { line, column } = locate({ path: [...path, key], at: "value" }) ?? {};
    return line === undefined ? [] : [[key, withoutUndefined({ line, column })] as const];
  });
  return places.length === 0 ? undefined : Object.fromEntries(places);
}

/** The place of a setting, or else of its grader. */
export function settingLocation(
  { location, places }: Pick<GraderSpec, "location" | "places">,
  key: string,
): SourceLocation | undefined {
  return location && { ...location, ...places?.[key] };
}

/** Reads the settings of a grader at `place`. Adds problems; undefined for invalid settings. */
export function readSettings(
  settings: GraderSettings,
  config: unknown,
  place: KeyPath,
  disk: FileAccess,
  add: (problem: Problem) => void,
): Pick<GraderSpec, "config" | "servers"> | undefined {
  const { data, issues } = validate(settings.config, config);
  for (const each of problemsAt(place, issues.filter(isFirst), config)) add(each);
  if (data === undefined) return undefined;
  for (const named of settings.files?.(data) ?? []) {
    const path = [...place, ...named.path];
    const wrong = problemOfFile(named, disk);
    if (disk.look(named.file) === "outside") add(outsideProblem(path, named.file));
    else if (wrong !== undefined) add(problemAt(path, `: ${wrong}`));
  }
  const servers = [...new Set(settings.servers?.(data))];
  // Every type's settings are a JSON object.
  return { config: data as JsonObject, ...(servers.length === 0 ? {} : { servers }) };
}

/** Whether an issue is not a rule about an object with an invalid part: such a rule cannot be checked. */
function isFirst({ code, path }: z.core.$ZodIssue, _: number, all: readonly z.core.$ZodIssue[]): boolean {
  if (code !== "custom") return true;
  const isPart = (other: z.core.$ZodIssue): boolean =>
    (other.code !== "custom" || other.path.length > path.length) &&
    path.every((key, index) => other.path[index] === key);
  return !all.some(isPart);
}

/** The problem of a path that leaves the folder of a task. */
export function outsideProblem(path: KeyPath, file: string): Problem {
  const hint = "Keep a task's files beside it, or allow the path with --allow-outside.";
  const message = `: ${JSON.stringify(file)} lies outside the task's folder`;
  return problemAt(path, message, { code: "task/outside", hint });
}

function problemOfFile({ file, problemIn }: NamedFile, { look, readText }: FileAccess): string | undefined {
  const name = JSON.stringify(file);
  if (look(file) !== "file") return `there is no file ${name}`;
  if (problemIn === undefined) return undefined;
  try {
    const wrong = problemIn(readText(file));
    return wrong === undefined ? undefined : `the file ${name} ${wrong}`;
  } catch (cause) {
    return `the file ${name} cannot be read: ${messageOf(cause)}`;
  }
}

/** Issues of a part of a document; the whole path stands in messages. */
function problemsAt(path: KeyPath, issues: readonly z.core.$ZodIssue[], value: unknown): readonly Problem[] {
  const document = path.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value);
  return problemsOfIssues(
    issues.map((issue) => ({ ...issue, path: [...path, ...issue.path] })),
    document,
  );
}
