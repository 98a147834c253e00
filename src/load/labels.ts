import { existsSync, writeFileSync } from "node:fs";
import { McpvalsError, messageOf } from "../core/errors/error.ts";
import {
  type Calibration,
  calibrationFileSchema,
  type LabelledCase,
  labelsSchema,
} from "../core/grade/judge/calibration.ts";
import type { JsonObject } from "../core/formats/json.ts";
import { validate } from "../core/formats/problem.ts";
import { problemsOfIssues } from "../core/formats/zod-problems.ts";
import { FileProblems } from "./problems.ts";
import { parseJson, valueDocument } from "./read/document.ts";
import { endingOf, readData, readDataText } from "./read/read-files.ts";

export interface Labels {
  readonly config: JsonObject;
  readonly cases: readonly LabelledCase[];
}

/**
 * Reads labels: YAML or JSON with `cases`, or a list of cases; or JSON Lines with a case a line. Throws McpvalsError of kind
 * `usage`.
 */
export async function readLabels(file: string, shown: string): Promise<Labels> {
  if (!existsSync(file)) throw new McpvalsError("config/not-found", `there is no file ${shown}`);
  const read =
    endingOf(file) === "jsonl" ? valueDocument(linesOf(file, shown), shown) : await readData(file, shown);
  const document = Array.isArray(read.value) ? { ...read, value: { cases: read.value as unknown } } : read;
  const { data, issues } = validate(labelsSchema, document.value);
  const problems = new FileProblems();
  problems.addPlaced(problemsOfIssues(issues, document.value), document);
  problems.throwIfAny([]);
  if (data === undefined) throw new Error("labels were refused without a problem");
  return { config: data.config ?? {}, cases: data.cases };
}

function linesOf(file: string, shown: string): readonly unknown[] {
  const lines = readDataText(file, shown).text.split("\n");
  return lines.flatMap((line, index) => {
    if (line.trim() === "") return [];
    try {
      return [parseJson(line)];
    } catch (error) {
      throw new McpvalsError("config/syntax", `${shown}:${index + 1} is not JSON: ${messageOf(error)}`);
    }
  });
}

/** Reads the calibrations of judges in a file; none when there is no such file. Throws McpvalsError of kind `usage`. */
export async function readCalibrations(file: string): Promise<readonly Calibration[]> {
  if (!existsSync(file)) return [];
  const { data } = validate(calibrationFileSchema, (await readData(file, file)).value);
  if (data !== undefined) return data.judges;
  throw new McpvalsError("config/invalid-value", `${file} has no calibrations of judges`, {
    hint: "Remove it, and write it again with mcpvals judge calibrate.",
  });
}

/** Writes a calibration into a file, in the place of an earlier one of the same judge. */
export async function writeCalibration(file: string, calibration: Calibration): Promise<void> {
  const all = new Map((await readCalibrations(file)).map((one) => [keyOf(one), one]));
  all.set(keyOf(calibration), calibration);
  const text = JSON.stringify({ schema: "mcpvals.calibration/1", judges: [...all.values()] }, undefined, 2);
  try {
    writeFileSync(file, `${text}\n`);
  } catch (error) {
    throw new McpvalsError("store/unwritable", `${file} could not be written: ${messageOf(error)}`);
  }
}

function keyOf({ model, prompt, threshold, votes }: Calibration): string {
  return JSON.stringify([model, prompt, threshold, votes]);
}
