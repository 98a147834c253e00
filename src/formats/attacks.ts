import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { didYouMean } from "../base/did-you-mean.ts";
import { McpvalsError } from "../base/error.ts";
import { asObject, exact } from "../base/json.ts";
import { type Problem, problemAt, validate } from "../base/problem.ts";
import { attacksSchema } from "../model/attack.ts";
import type { Attack } from "../model/server.ts";
import { problemsOfIssues } from "../model/zod-problems.ts";
import { nameMatcher } from "../servers/filters/filters.ts";
import builtIn from "./attacks.json" with { type: "json" };
import { displayPath } from "./environment.ts";
import { type ConfigDocument, FileProblems, plainDocument, valueDocument } from "./read/document.ts";
import { endingOf, readData } from "./read/read-files.ts";

const endings = ["json", "toml", "yaml", "yml"];

/** Attacks from one place. */
interface AttackSet {
  /** The file as it was named; undefined: they are built in. */
  readonly file?: string;
  readonly document: ConfigDocument;
  readonly attacks: readonly Attack[];
}

/**
 * The attacks that `--attack` means: the built-in ones and those of the files in it; where it has other names, of these only those whose
 * id or class is like one of them, without those that are like a name after a `!`. True: all built-in ones. Throws McpvalsError of kind `usage`
 * for a file that cannot be used or has an id of another one, and `usage/no-match` for a name that means none, names that leave none, and a file of which none is meant.
 */
export async function readAttacks(given: true | readonly string[], cwd: string): Promise<readonly Attack[]> {
  const names = given === true ? [] : given;
  const files = Map.groupBy(names.filter(isAttackFile), (name) => resolve(cwd, name));
  const patterns = names.filter((name) => !isAttackFile(name));
  const problems = new FileProblems();
  const sets = [parsed({ document: valueDocument(builtIn, "attacks.json") }, problems)];
  for (const [path, [file = path]] of files) {
    const document = await readData(path, displayPath(cwd, path));
    // One that is misspelt has its own message.
    if (didYouMean("attacks", Object.keys(asObject(document.value))) === undefined)
      throw new McpvalsError("usage/no-match", `--attack ${file}: the file has no list of attacks`, {
        hint: beforeFlag(file),
      });
    const read = parsed({ file, document }, problems);
    problems.addPlaced(repeatedIds(read, sets), read.document);
    sets.push(read);
  }
  problems.throwIfAny();
  const attacks = sets.flatMap((set) => set.attacks);
  const matchers = patterns.map((pattern) => {
    const isLeftOut = pattern.startsWith("!");
    const name = isLeftOut ? pattern.slice(1) : pattern;
    const fits = nameMatcher(name);
    if (!attacks.some((attack) => isMeant(attack, fits)))
      throw new McpvalsError("usage/no-match", `--attack ${pattern}: no attack has this id or class`, {
        hint: hintFor(name, attacks, { cwd, isLeftOut }),
      });
    return { isLeftOut, fits };
  });
  const [leftOut, chosen] = [true, false].map((wanted) =>
    matchers.filter(({ isLeftOut }) => isLeftOut === wanted),
  );
  const isLike = (attack: Attack, some: typeof matchers = []): boolean =>
    some.some(({ fits }) => isMeant(attack, fits));
  const isNamed = (attack: Attack): boolean =>
    (chosen?.length === 0 || isLike(attack, chosen)) && !isLike(attack, leftOut);
  if (!attacks.some(isNamed))
    throw new McpvalsError("usage/no-match", `--attack ${patterns.join(" --attack ")}: no attack is left`, {
      hint: "A name with ! before it leaves out what the other names mean.",
    });
  const unused = sets.find((set) => set.file !== undefined && !set.attacks.some(isNamed));
  if (unused !== undefined) {
    const ofClass = unused.attacks.find((attack) => !isLike(attack, leftOut))?.class;
    const [problem, further] =
      ofClass === undefined
        ? ["the names with ! before them leave out all of its attacks", "remove one of these names"]
        : ["none of its attacks is among those that the other names mean", `add --attack ${ofClass}`];
    throw new McpvalsError("usage/no-match", `--attack ${unused.file}: ${problem}`, {
      hint: `Leave out --attack ${unused.file}, or ${further}.`,
    });
  }
  return attacks.filter(isNamed);
}

/** What to write in the place of a name, without its `!`, that no attack has. */
function hintFor(name: string, attacks: readonly Attack[], { cwd, isLeftOut }: NameContext): string {
  const marked = (part: string): string =>
    isLeftOut || part.startsWith("!") ? `'!${part.replace(/^!/, "")}'` : part;
  const parts = name.split(/[\s,]+/).filter((part) => part !== "");
  if (parts.length > 1) {
    const flags = parts.map((part) => `--attack ${marked(part)}`);
    return `Give each name a flag of its own: ${flags.join(" ")}.`;
  }
  const classes = [...new Set(attacks.map((attack) => attack.class))];
  const near = didYouMean(name, [...classes, ...attacks.map(({ id }) => id)]);
  const guess = near === undefined ? "" : `Did you mean ${isLeftOut ? marked(near) : `"${near}"`}? `;
  const known = `${guess}The classes are: ${classes.join(", ")}.`;
  if (isLeftOut)
    return isAttackFile(name)
      ? `After a ! stands a class or an id. The attacks of a file are only there where --attack names it. ${known}`
      : known;
  if (name !== "" && existsSync(resolve(cwd, name)))
    return `${beforeFlag(name)} A file of attacks ends in .yaml or .json.`;
  return `${known} A file of attacks ends in .yaml or .json.`;
}

interface NameContext {
  readonly cwd: string;
  readonly isLeftOut: boolean;
}

function beforeFlag(target: string): string {
  return `To run ${target} under all attacks, write it before the flag: mcpvals run ${target} --attack.`;
}

/** Whether a name of `--attack` is that of a file; what stands after a ! is an id or a class. */
export function isAttackFile(name: string): boolean {
  return !name.startsWith("!") && endings.includes(endingOf(name));
}

function isMeant(attack: Attack, fits: (name: string) => boolean): boolean {
  return fits(attack.id) || fits(attack.class);
}

function parsed(read: Omit<AttackSet, "attacks">, problems: FileProblems): AttackSet {
  const { document } = read;
  const value = plainDocument(document, "attacks", problems);
  if (value === undefined) return { ...read, attacks: [] };
  const { data, issues } = validate(attacksSchema, value);
  if (data === undefined) problems.addPlaced(problemsOfIssues(issues, value), document);
  return { ...read, attacks: data?.attacks.map((attack) => exact(attack)) ?? [] };
}

/** The ids of a file that attacks read before have. */
function repeatedIds({ attacks }: AttackSet, before: readonly AttackSet[]): readonly Problem[] {
  return attacks.flatMap(({ id }, index) => {
    const other = before.find((set) => set.attacks.some((attack) => attack.id === id));
    if (other === undefined) return [];
    const owner = other.file === undefined ? "a built-in attack" : `an attack of ${other.file}`;
    return [problemAt(["attacks", index, "id"], `: ${owner} has this id`, { hint: "Give it another one." })];
  });
}
