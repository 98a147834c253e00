import * as z from "zod";
import { closedObject, duration, filledText } from "../config/config-fields.ts";
import { graderReader, graderSchema, type GraderTypes, type ParsedGrader } from "../graders.ts";
import {
  asObject,
  asText,
  isJsonObject,
  type Json,
  type JsonObject,
  type KeyPath,
  withoutUndefined,
} from "../json.ts";
import type { LenientReader } from "../lenient-reader.ts";
import type { GraderSpec } from "../model.ts";

/** Settings that may stand beside `config`; `file` is called `script` there. */
export const settingsBeside: readonly string[] = ["file", "rubric", "model", "assertions"];

/** A grader, whatever its type. */
export const wazaGraderSchema = closedObject({
  ...graderSchema.shape,
  script: filledText.optional().describe("The `file` of a `script`."),
  rubric: filledText.optional().describe("The `rubric` of a `prompt`."),
  model: filledText.optional().describe("The `model` of a `prompt`."),
  assertions: z.array(filledText).optional().describe("The `assertions` of `code`."),
}).meta({ id: "WazaGrader", title: "Grader", description: "A look at every trial of a task." });

/** How the settings of a type of grader are written in another way than its schema says. */
interface Difference {
  /** The settings as they may be written here. */
  readonly settings: z.ZodRawShape;
  readonly convert: (config: JsonObject, note: (message: string) => void) => JsonObject;
}

const timeout = z
  .union([z.number().positive().describe("Seconds."), duration])
  .optional()
  .describe("How long it may take: seconds, or a text with a unit.");

/** The types whose settings differ. */
export const differences: Readonly<Record<string, Difference>> = {
  program: {
    settings: {
      timeout,
      input: z.enum(["output", "trajectory"]).default("output"),
      workspace: z.array(filledText).default(["**"]),
    },
    // That tool gives the program what the agent said, and its workspace.
    convert: (config) => ({ input: "output", workspace: ["**"], ...config, ...inSeconds(config) }),
  },
  behavior: {
    settings: {
      max_response_time_ms: z.number().positive().optional().describe("The same as `max_duration_ms`."),
    },
    convert: ({ max_response_time_ms: longest, ...config }) =>
      longest === undefined ? config : { max_duration_ms: longest, ...config },
  },
  code: { settings: { timeout }, convert: (config) => ({ ...config, ...inSeconds(config) }) },
  prompt: {
    settings: {
      mode: z.enum(["independent", "pointwise", "pairwise"]).default("independent"),
      continue_session: z
        .literal(false)
        .optional()
        .describe("A judge never goes on with the agent's session."),
    },
    convert({ continue_session, ...config }) {
      const mode = config["mode"] === "independent" ? { mode: "pointwise" } : {};
      return { ...config, ...mode, ...(continue_session === true ? { continue_session } : {}) };
    },
  },
  trigger: {
    settings: {
      skill_path: filledText.optional().describe("Folder of the skill, or its SKILL.md: names the skill."),
      threshold: z.number().optional().describe("Has no effect."),
    },
    convert({ skill_path: path, threshold, ...config }, note) {
      if (threshold !== undefined)
        note("threshold has no effect: what a prompt triggers is recorded, not estimated");
      if (typeof path !== "string") return config;
      return { skill: path.replace(/\/?(?:SKILL\.md)?$/, "").replace(/^.*\//, ""), ...config };
    },
  },
};

/** Reads graders; one without a name has its type's, or its type's with a number. */
export function readGraders(
  declared: readonly z.output<typeof wazaGraderSchema>[],
  taken: readonly GraderSpec[],
  types: GraderTypes,
  reader: LenientReader,
): readonly GraderSpec[] {
  const names = new Set([...taken, ...declared].map(({ name }) => name));
  const graders = declared.map(({ script, rubric, model, assertions, ...grader }, index): ParsedGrader => {
    const { type, name = unusedName(type, names) } = grader;
    const beside = withoutUndefined({ file: script, rubric, model, assertions });
    const path = ["graders", index, "config"];
    return { ...grader, name, config: readConfig(type, { ...grader.config, ...beside }, path, reader) };
  });
  const read = graderReader(types, (found) => {
    const [, index, key] = found.path;
    const { type = "" } = key === "type" ? (declared[Number(index)] ?? {}) : {};
    const hint = Object.hasOwn(otherTypes, type) ? otherTypes[type] : found.hint;
    reader.problem(withoutUndefined({ ...found, hint }));
  });
  return read(graders, ["graders"], taken);
}

/** Settings of a type as its schema has them. */
export function readConfig(
  type: string,
  config: JsonObject,
  path: KeyPath,
  reader: LenientReader,
): JsonObject {
  const read = readCalls(config, path, reader);
  const difference = Object.hasOwn(differences, type) ? differences[type] : undefined;
  return difference?.convert(read, (message) => reader.note(message, path)) ?? read;
}

function inSeconds({ timeout }: JsonObject): JsonObject {
  return typeof timeout === "number" ? { timeout: `${timeout}s` } : {};
}

/** Types of that tool, or of its documentation, that no grader has, and what to use instead. */
const otherTypes: Readonly<Record<string, string>> = {
  human: "No one is asked during a run; use a grader of type prompt.",
  human_calibration: "No one is asked during a run; use mcpvals judge calibrate.",
  llm: "Use a grader of type prompt.",
  llm_comparison: "Use a grader of type prompt.",
};

function unusedName(type: string, names: Set<string | undefined>): string {
  let name = type;
  for (let number = 2; names.has(name); number++) name = `${type} ${number}`;
  names.add(name);
  return name;
}

/** Settings with the tools of calls as our graders write them: what is no name is a pattern for whole names, ignoring case. */
function readCalls(config: JsonObject, path: KeyPath, reader: LenientReader): JsonObject {
  const read = Object.entries(config).map(([key, value]): [string, Json] => {
    const calls =
      ["expect", "expect_tools", "reject_tools"].includes(key) && Array.isArray(value) ? value : [];
    const tools = calls.flatMap((call) => asText(asObject(call)["tool"]) ?? []);
    if (key === "reject_tools" && tools.some(isName))
      reader.note("tools are rejected by their whole names; write .*NAME.* for a part of one", path);
    return [key, calls.length === 0 ? value : calls.map(readCall)];
  });
  return Object.fromEntries(read);
}

function readCall(call: Json): Json {
  const tool = asText(asObject(call)["tool"]);
  if (!isJsonObject(call) || tool === undefined || isName(tool) || /^\/.+\/$/s.test(tool)) return call;
  return { ...call, tool: `/(?i)${tool}/` };
}

function isName(tool: string): boolean {
  return /^[\w./-]+$/.test(tool);
}
