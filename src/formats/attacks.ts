import { resolve } from "node:path";
import { McpvalsError } from "../base/error.ts";
import { exact } from "../base/json.ts";
import { validate } from "../base/problem.ts";
import { attacksSchema } from "../model/attack.ts";
import type { Attack } from "../model/server.ts";
import { problemsOfIssues } from "../model/zod-problems.ts";
import { nameMatcher } from "../servers/filters/filters.ts";
import builtIn from "./attacks.json" with { type: "json" };
import { displayPath } from "./environment.ts";
import { FileProblems, plainDocument, valueDocument } from "./read/document.ts";
import { endingOf, readData } from "./read/read-files.ts";

const endings = ["json", "toml", "yaml", "yml"];

/**
 * The attacks that `--attack` names: those of files, or else the built-in ones, of which only those count whose id or class is like one
 * of the other names; true: all built-in ones. Throws McpvalsError of kind `usage` for a file that cannot be used, for an id that is there twice, and `usage/no-match`.
 */
export async function readAttacks(given: true | readonly string[], cwd: string): Promise<readonly Attack[]> {
  const names = given === true ? [] : given;
  const files = names.filter(isAttackFile);
  const patterns = names.filter((name) => !files.includes(name));
  const problems = new FileProblems();
  const read = files.length === 0 ? [parsed(valueDocument(builtIn, "attacks.json"), problems)] : [];
  for (const file of files) {
    const path = resolve(cwd, file);
    read.push(parsed(await readData(path, displayPath(cwd, path)), problems));
  }
  problems.throwIfAny();
  const attacks = read.flat();
  refuseTwice(attacks);
  const matchers = patterns.map(nameMatcher);
  for (const [index, fits] of matchers.entries()) {
    if (attacks.some((attack) => isMeant(attack, fits))) continue;
    const known = [...new Set(attacks.map((attack) => attack.class))].join(", ");
    throw new McpvalsError("usage/no-match", `--attack ${patterns[index]}: no attack has this id or class`, {
      hint: `The classes are: ${known}. A file of attacks ends in .yaml or .json.`,
    });
  }
  return matchers.length === 0
    ? attacks
    : attacks.filter((attack) => matchers.some((fits) => isMeant(attack, fits)));
}

/** Whether a name of `--attack` is that of a file. */
export function isAttackFile(name: string): boolean {
  return endings.includes(endingOf(name));
}

function isMeant(attack: Attack, fits: (name: string) => boolean): boolean {
  return fits(attack.id) || fits(attack.class);
}

function parsed(document: ReturnType<typeof valueDocument>, problems: FileProblems): readonly Attack[] {
  const value = plainDocument(document, "attacks", problems);
  if (value === undefined) return [];
  const { data, issues } = validate(attacksSchema, value);
  if (data === undefined) problems.addPlaced(problemsOfIssues(issues, value), document);
  return data?.attacks.map((attack) => exact(attack)) ?? [];
}

function refuseTwice(attacks: readonly Attack[]): void {
  const ids = attacks.map(({ id }) => id);
  const again = ids.find((id, index) => ids.indexOf(id) < index);
  if (again !== undefined)
    throw new McpvalsError("usage/invalid-option", `two files of --attack have the attack ${again}`);
}
