import type * as z from "zod";
import { compilePattern } from "../../templates/pattern.ts";
import { assertionKinds } from "../assertion-kinds.ts";
import { suggestion } from "../did-you-mean.ts";
import { formatKeyPath, type KeyPath, withoutUndefined } from "../json.ts";
import type { LenientReader } from "../lenient-reader.ts";
import type { AssertionSet, CallPattern } from "../model.ts";
import {
  behaviorSchema,
  type expectedBehaviorSchema,
  type ParsedGrader,
  type ParsedWazaTask,
  toolCallsSchema,
  toolConstraintSchema,
} from "./waza-schema.ts";

/** What a grader or an expectation asserts, and where it stands. */
export interface PlacedAssertions {
  readonly set: AssertionSet;
  readonly path: KeyPath;
}

/** Types of graders that are read; the others are refused by name. */
const knownTypes = ["behavior", "tool_constraint", "tool_calls"] as const;
const laterTypes = [
  "text",
  "file",
  "diff",
  "program",
  "code",
  "json_schema",
  "action_sequence",
  "skill_invocation",
  "prompt",
  "mcp_compliance",
  "trigger",
  "script",
  "llm",
  "llm_comparison",
  "human",
  "human_calibration",
] as const;

export interface GradersContext {
  /** Names of the grades that the graders give, in their order. */
  readonly names: readonly string[];
  readonly reader: LenientReader;
}

/** Reads graders as assertions on the agent's calls. What this version cannot look at is refused by name. */
export function readGraders(
  graders: readonly ParsedGrader[],
  path: KeyPath,
  { names, reader }: GradersContext,
): readonly PlacedAssertions[] {
  return graders.flatMap((grader, index) => {
    const at = [...path, index];
    const set = readGrader(grader, at, reader);
    if (set === undefined) return [];
    if (assertionKinds(set).length === 0)
      reader.problem({
        code: "config/checks-nothing",
        message: `the grader ${formatKeyPath(at)} checks nothing, so it could not fail`,
        path: at,
        at: "value",
        hint: "Give it the tools or limits to look at in config.",
      });
    return [{ set: named(set, names[index]), path: at }];
  });
}

function named(set: AssertionSet, grader: string | undefined): AssertionSet {
  return grader === undefined ? set : { ...set, grader };
}

function readGrader(grader: ParsedGrader, path: KeyPath, reader: LenientReader): AssertionSet | undefined {
  const type = knownTypes.find((each) => each === grader.type);
  if (type === undefined) return refuseType(grader.type, path, reader);
  const { script, rubric, model, assertions } = grader;
  refuseParts({ script, rubric, model, assertions }, path, reader);
  if (grader.weight !== undefined)
    reader.note("weight has no effect: every grader has to pass", [...path, "weight"]);
  const place: Place = { path: [...path, "config"], reader };
  const config = grader.config ?? {};
  switch (type) {
    case "behavior":
      return readConfig(behaviorSchema, config, place, readBehavior);
    case "tool_calls":
      return readConfig(toolCallsSchema, config, place, readToolCalls);
    case "tool_constraint":
      return readConfig(toolConstraintSchema, config, place, readConstraint);
  }
}

interface Place {
  readonly path: KeyPath;
  readonly reader: LenientReader;
}

function readConfig<S extends z.ZodType>(
  schema: S,
  config: unknown,
  place: Place,
  build: (read: z.output<S>, place: Place) => AssertionSet,
): AssertionSet | undefined {
  const read = place.reader.read(schema, config, place.path);
  return read === undefined ? undefined : build(read, place);
}

function refuseType(type: string, path: KeyPath, reader: LenientReader): undefined {
  const at = [...path, "type"];
  if (laterTypes.some((each) => each === type)) {
    const hint = `This version grades by ${knownTypes.join(", ")}.`;
    reader.refuse(`graders of type ${type} are not known yet`, at, { hint });
  } else {
    const hint = suggestion(type, [...knownTypes, ...laterTypes], "types");
    reader.refuse(`${JSON.stringify(type.slice(0, 80))} is no type of grader`, at, { hint });
  }
  return undefined;
}

/** Reads `expected` of a task. What this version cannot look at is refused by name. */
export function readExpected(
  expected: ParsedWazaTask["expected"],
  reader: LenientReader,
): readonly PlacedAssertions[] {
  const path = ["expected"];
  const { tool_calls: calls, behavior, ...others } = expected;
  refuseParts(others, path, reader);
  const found: PlacedAssertions[] = [];
  if (calls !== undefined) {
    const at = [...path, "tool_calls"];
    found.push({ path: at, set: named(readToolCalls(calls, { path: at, reader }), formatKeyPath(at)) });
  }
  if (behavior !== undefined) {
    const at = [...path, "behavior"];
    const { max_iterations, max_tokens, max_response_time_ms, ...rest } = behavior;
    refuseParts({ max_iterations, max_tokens, max_response_time_ms }, at, reader);
    found.push({ path: at, set: named(readLimits(rest), formatKeyPath(at)) });
  }
  return found;
}

function readBehavior(config: z.output<typeof behaviorSchema>, place: Place): AssertionSet {
  const { max_tokens, max_duration_ms, max_tool_errors, max_duplicate_calls, ...rest } = config;
  refuseParts(
    { max_tokens, max_duration_ms, max_tool_errors, max_duplicate_calls },
    place.path,
    place.reader,
  );
  const set = readLimits(rest);
  const limits = [set.maxToolCalls, rest.max_mcp_calls].filter((each) => each !== undefined);
  return withoutUndefined({
    toolsUsed: patterns([
      ...(set.toolsUsed ?? []),
      ...rest.required_mcp_servers.map((server) => ({ server })),
    ]),
    toolsNotUsed: patterns([
      ...(set.toolsNotUsed ?? []),
      ...rest.forbidden_mcp_servers.map((server) => ({ server })),
    ]),
    maxToolCalls: limits.length === 0 ? undefined : Math.min(...limits),
  });
}

type Limits = Pick<
  z.output<typeof expectedBehaviorSchema>,
  "max_tool_calls" | "required_tools" | "forbidden_tools"
>;

function readLimits({ max_tool_calls, required_tools, forbidden_tools }: Limits): AssertionSet {
  return withoutUndefined({
    toolsUsed: patterns(required_tools.map((name) => ({ name }))),
    toolsNotUsed: patterns(forbidden_tools.map((name) => ({ name }))),
    maxToolCalls: max_tool_calls,
  });
}

function readToolCalls(
  { required_tools, forbidden_tools, min_calls, max_calls, expect }: z.output<typeof toolCallsSchema>,
  place: Place,
): AssertionSet {
  refuseParts({ expect }, place.path, place.reader);
  return withoutUndefined({
    toolsUsed: patterns(required_tools.map((name) => ({ name }))),
    toolsNotUsed: patterns(forbidden_tools.map((name) => ({ name }))),
    minToolCalls: min_calls,
    maxToolCalls: max_calls,
  });
}

type Constraint = z.output<typeof toolConstraintSchema>;

function readConstraint({ expect_tools, reject_tools }: Constraint, place: Place): AssertionSet {
  if (reject_tools.some(({ tool }) => tool !== undefined && isName(tool)))
    place.reader.note(
      "tools are rejected by their whole names; write .*NAME.* for a part of one",
      place.path,
    );
  return withoutUndefined({
    toolsUsed: patterns(readSpecs(expect_tools, "expect_tools", place)),
    toolsNotUsed: patterns(readSpecs(reject_tools, "reject_tools", place)),
  });
}

function readSpecs(specs: Constraint["expect_tools"], key: string, { path, reader }: Place): CallPattern[] {
  return specs.flatMap((spec, index) => {
    const at = [...path, key, index];
    const { tool, source, ...others } = spec;
    refuseParts(others, at, reader);
    const from = source === undefined ? {} : readSource(source, [...at, "source"], reader);
    if (tool === undefined && source === undefined) {
      reader.problem({
        code: "config/missing-key",
        message: `missing key "tool" in ${formatKeyPath(at)}: a string`,
        path: at,
        at: "value",
      });
      return [];
    }
    if (from === undefined) return [];
    const wanted = tool === undefined ? {} : readTool(tool, [...at, "tool"], reader);
    return wanted === undefined ? [] : [{ ...from, ...wanted }];
  });
}

/** Of letters, digits and `_ - . /` it is a name; anything else is a pattern for whole names. */
function readTool(
  tool: string,
  path: KeyPath,
  reader: LenientReader,
): Pick<CallPattern, "name" | "pattern"> | undefined {
  if (isName(tool)) return { name: tool };
  const pattern = `(?i)^(?:${tool})$`;
  try {
    compilePattern(pattern);
    return { pattern };
  } catch (error) {
    reader.refuse(`${formatKeyPath(path)} is no regular expression (RE2)`, path, {
      hint: error instanceof Error ? error.message : String(error),
    });
    return undefined;
  }
}

function isName(tool: string): boolean {
  return /^[\w./-]+$/.test(tool);
}

function readSource(
  source: string,
  path: KeyPath,
  reader: LenientReader,
): Pick<CallPattern, "server" | "source"> | undefined {
  if (source === "builtin" || source === "skill") return { source };
  const server = /^mcp:(.+)$/.exec(source)?.[1];
  if (server !== undefined) return { server };
  reader.refuse(`${formatKeyPath(path)} must be mcp:SERVER, builtin or skill`, path, {
    hint: "Without source the tools of all servers, and the agent's own, are meant.",
  });
  return undefined;
}

function patterns(list: readonly CallPattern[]): readonly CallPattern[] | undefined {
  return list.length === 0 ? undefined : list;
}

/** Refuses by name the parts that are there and say something: this version cannot honour them, and does not ignore them. */
export function refuseParts(
  parts: Readonly<Record<string, unknown>>,
  path: KeyPath,
  reader: LenientReader,
): void {
  for (const [key, value] of Object.entries(parts)) {
    if (!saysSomething(value)) continue;
    const hint = `Leave ${key} out; nothing that this version cannot look at is ignored.`;
    reader.refuse(`${key} is not known yet`, [...path, key], { at: "key", hint });
  }
}

/** Whether a part is more than empty. */
export function saysSomething(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}

interface NameContext {
  /** Names that are given already. */
  readonly taken: ReadonlySet<string>;
  readonly reader: LenientReader;
}

/**
 * The names of graders, which their grades are told under; one without a name has its type's. A name that comes twice is
 * refused: there, the later grader would replace the earlier.
 */
export function graderNames(
  graders: readonly ParsedGrader[],
  path: KeyPath,
  { taken, reader }: NameContext,
): readonly string[] {
  const names = new Set([...taken, ...graders.flatMap(({ name }) => name ?? [])]);
  const seen = new Set(taken);
  return graders.map(({ name, type }, index) => {
    if (name === undefined) return unusedName(type, names);
    const at = [...path, index, "name"];
    if (seen.has(name))
      reader.problem({
        code: "config/duplicate-name",
        message: `${formatKeyPath(at)}: another grader has this name`,
        path: at,
        at: "value",
        hint: "Rename one of them; those of the eval grade every task.",
      });
    seen.add(name);
    return name;
  });
}

function unusedName(type: string, names: Set<string>): string {
  let name = type;
  for (let number = 2; names.has(name); number++) name = `${type} ${number}`;
  names.add(name);
  return name;
}
