import { messageOf } from "../../errors/error.ts";
import * as z from "zod";
import { compilePattern } from "../../templates/pattern.ts";
import { assertionKinds, type AssertionSet, type CallPattern } from "../model.ts";
import { suggestion } from "../did-you-mean.ts";
import { asList, asObject, formatKeyPath, type KeyPath, withoutUndefined } from "../json.ts";
import type { LenientReader } from "../lenient-reader.ts";
import { behaviorSchema, type ParsedWazaTask, toolCallsSchema, toolConstraintSchema } from "./waza-schema.ts";

/** What a grader or an expectation asserts, and its place. */
export interface PlacedAssertions {
  readonly set: AssertionSet;
  readonly path: KeyPath;
}

/** Types of graders of that tool that this version does not have. */
const laterTypes =
  "text file diff program code json_schema action_sequence skill_invocation prompt mcp_compliance trigger script llm llm_comparison human human_calibration".split(
    " ",
  );

/** Reads the `config` of a grader by its type. Undefined for one that is wrong; why is among the reader's problems. */
type ReadConfig = (config: unknown, path: KeyPath, reader: LenientReader) => AssertionSet | undefined;

function readerOf<S extends z.ZodType>(
  schema: S,
  read: (config: z.output<S>, path: KeyPath, reader: LenientReader) => AssertionSet,
): ReadConfig {
  return (config, path, reader) => {
    const parsed = reader.read(schema, config, path);
    if (parsed === undefined) return undefined;
    refuseUnsupported(schema, config, path, reader);
    return read(parsed, path, reader);
  };
}

const graderTypes: ReadonlyMap<string, ReadConfig> = new Map([
  ["behavior", readerOf(behaviorSchema, readBehavior)],
  ["tool_constraint", readerOf(toolConstraintSchema, readConstraint)],
  ["tool_calls", readerOf(toolCallsSchema, readCalls)],
]);

/**
 * Reads graders as assertions on the agent's calls. What is not supported is refused by name. A grader without a name has its
 * type's; a duplicate name, also of those that are `taken`, is refused: in that tool the later grader would replace the earlier.
 */
export function readGraders(
  graders: ParsedWazaTask["graders"],
  taken: ReadonlySet<string>,
  reader: LenientReader,
): { readonly assertions: readonly PlacedAssertions[]; readonly names: readonly string[] } {
  const names = new Set([...taken, ...graders.flatMap(({ name }) => name ?? [])]);
  const seen = new Set(taken);
  const assertions: PlacedAssertions[] = [];
  const own = graders.map(({ type, name, weight, config = {} }, index) => {
    const path = ["graders", index];
    const grader = name ?? unusedName(type, names);
    if (name !== undefined && seen.has(name)) {
      const at = [...path, "name"];
      const hint = "Rename one of them; those of the eval grade every task.";
      const message = `${formatKeyPath(at)}: another grader has this name`;
      reader.refuse(message, at, { code: "config/duplicate-name", hint });
    }
    seen.add(grader);
    const readConfig = graderTypes.get(type);
    if (readConfig === undefined) refuseType(type, [...path, "type"], reader);
    else if (weight !== undefined)
      reader.note("weight has no effect: every grader has to pass", [...path, "weight"]);
    const set = readConfig?.(config, [...path, "config"], reader);
    if (set === undefined) return grader;
    if (assertionKinds(set).length === 0) {
      const message = `the grader ${formatKeyPath(path)} checks nothing, so it could not fail`;
      const hint = "Give it the tools or limits to look at in config.";
      reader.refuse(message, path, { code: "config/checks-nothing", hint });
    }
    assertions.push({ set: { ...set, grader }, path });
    return grader;
  });
  return { assertions, names: own };
}

function unusedName(type: string, names: Set<string>): string {
  let name = type;
  for (let number = 2; names.has(name); number++) name = `${type} ${number}`;
  names.add(name);
  return name;
}

function refuseType(type: string, path: KeyPath, reader: LenientReader): void {
  const known = [...graderTypes.keys()];
  if (laterTypes.includes(type)) {
    const hint = `This version grades by ${known.join(", ")}.`;
    reader.refuse(`graders of type ${type} are not known yet`, path, { hint });
  } else {
    const hint = suggestion(type, [...known, ...laterTypes], "types");
    reader.refuse(`${JSON.stringify(type.slice(0, 80))} is not a type of grader`, path, { hint });
  }
}

/** Reads `expected` of a task. */
export function readExpected({
  tool_calls: calls,
  behavior,
}: ParsedWazaTask["expected"]): readonly PlacedAssertions[] {
  const sets = {
    tool_calls: calls && readCalls(calls),
    behavior: behavior && readBehavior({ ...behavior, required_mcp_servers: [], forbidden_mcp_servers: [] }),
  };
  return Object.entries(sets).flatMap(([key, set]) => {
    const path = ["expected", key];
    return set === undefined ? [] : [{ path, set: { ...set, grader: formatKeyPath(path) } }];
  });
}

function readBehavior(config: z.output<typeof behaviorSchema>): AssertionSet {
  const limits = [config.max_tool_calls, config.max_mcp_calls].filter((each) => each !== undefined);
  return assertionsOf(
    [...named(config.required_tools), ...config.required_mcp_servers.map((server) => ({ server }))],
    [...named(config.forbidden_tools), ...config.forbidden_mcp_servers.map((server) => ({ server }))],
    { maxToolCalls: limits.length === 0 ? undefined : Math.min(...limits) },
  );
}

function readCalls(config: z.output<typeof toolCallsSchema>): AssertionSet {
  const limits = { minToolCalls: config.min_calls, maxToolCalls: config.max_calls };
  return assertionsOf(named(config.required_tools), named(config.forbidden_tools), limits);
}

function named(tools: readonly string[]): readonly CallPattern[] {
  return tools.map((name) => ({ name }));
}

function assertionsOf(
  used: readonly CallPattern[],
  unused: readonly CallPattern[],
  limits: { readonly minToolCalls?: number | undefined; readonly maxToolCalls?: number | undefined } = {},
): AssertionSet {
  return withoutUndefined({
    toolsUsed: used.length === 0 ? undefined : used,
    toolsNotUsed: unused.length === 0 ? undefined : unused,
    ...limits,
  });
}

type Constraint = z.output<typeof toolConstraintSchema>;

function readConstraint(
  { expect_tools, reject_tools }: Constraint,
  path: KeyPath,
  reader: LenientReader,
): AssertionSet {
  if (reject_tools.some(({ tool }) => tool !== undefined && isName(tool)))
    reader.note("tools are rejected by their whole names; write .*NAME.* for a part of one", path);
  const read = (specs: Constraint["expect_tools"], key: string): readonly CallPattern[] =>
    specs.flatMap((spec, index) => readSpec(spec, [...path, key, index], reader));
  return assertionsOf(read(expect_tools, "expect_tools"), read(reject_tools, "reject_tools"));
}

function readSpec(
  { tool, source }: Constraint["expect_tools"][number],
  path: KeyPath,
  reader: LenientReader,
): CallPattern[] {
  if (tool === undefined && source === undefined)
    reader.refuse(`missing key "tool" in ${formatKeyPath(path)}: a string`, path, {
      code: "config/missing-key",
    });
  const from = source === undefined ? {} : readSource(source, [...path, "source"], reader);
  const wanted = tool === undefined ? {} : readTool(tool, [...path, "tool"], reader);
  return from === undefined || wanted === undefined ? [] : [{ ...from, ...wanted }];
}

/** Of letters, digits and `_ - . /` it is a name; anything else is a pattern for whole names. */
function readTool(tool: string, path: KeyPath, reader: LenientReader): CallPattern | undefined {
  if (isName(tool)) return { name: tool };
  const pattern = `(?i)^(?:${tool})$`;
  try {
    compilePattern(pattern);
    return { pattern };
  } catch (error) {
    reader.refuse(`${formatKeyPath(path)} is not a valid RE2 pattern`, path, {
      hint: messageOf(error),
    });
    return undefined;
  }
}

function isName(tool: string): boolean {
  return /^[\w./-]+$/.test(tool);
}

function readSource(source: string, path: KeyPath, reader: LenientReader): CallPattern | undefined {
  if (source === "builtin" || source === "skill") return { source };
  const server = /^mcp:(.+)$/.exec(source)?.[1];
  if (server !== undefined) return { server };
  reader.refuse(`${formatKeyPath(path)} must be mcp:SERVER, builtin or skill`, path, {
    hint: "Without source the tools of all servers, and the agent's own, are meant.",
  });
  return undefined;
}

/** Refuses by name the parts of a value that its schema marks as `refused` and that are more than empty. */
export function refuseUnsupported(
  schema: z.core.$ZodType,
  value: unknown,
  path: KeyPath,
  reader: LenientReader,
): void {
  if (schema instanceof z.ZodObject) {
    const members = asObject(value);
    for (const [key, member] of Object.entries(schema.shape)) {
      const isRefused = member instanceof z.ZodType && member.meta()?.["refused"] === true;
      if (!isRefused) refuseUnsupported(member, members[key], [...path, key], reader);
      else if (saysSomething(members[key])) {
        const hint = `Leave ${key} out; nothing that this version cannot look at is ignored.`;
        reader.refuse(`${key} is not known yet`, [...path, key], { at: "key", hint });
      }
    }
  } else if (schema instanceof z.ZodArray) {
    for (const [index, item] of asList(value).entries())
      refuseUnsupported(schema.element, item, [...path, index], reader);
  } else if (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault
  )
    refuseUnsupported(schema.unwrap(), value, path, reader);
}

/** Whether a part is more than empty. */
export function saysSomething(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}
