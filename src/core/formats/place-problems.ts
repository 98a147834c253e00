import type { Diagnostic } from "../errors/error.ts";
import { listNames } from "./did-you-mean.ts";
import { type Locate, placeProblem, type Problem } from "./problem.ts";

/** Gives problems their places, and puts them in the order of the file when `locate` knows lines. */
export function placeProblems(problems: readonly Problem[], locate: Locate): Diagnostic[] {
  const placed = problems
    .map((problem): Placed => ({ diagnostic: placeProblem(problem, locate), sameAs: problem.sameAs }))
    .toSorted(
      ({ diagnostic: a }, { diagnostic: b }) =>
        (a.location?.line ?? 0) - (b.location?.line ?? 0) ||
        (a.location?.column ?? 0) - (b.location?.column ?? 0),
    );
  return toldOnce(placed);
}

interface Placed {
  readonly diagnostic: Diagnostic;
  readonly sameAs: string | undefined;
}

function toldOnce(placed: readonly Placed[]): Diagnostic[] {
  const groups = new Map<string | Placed, Diagnostic[]>();
  for (const each of placed) {
    const key = each.sameAs ?? each;
    groups.set(key, [...(groups.get(key) ?? []), each.diagnostic]);
  }
  return [...groups.values()].flatMap(([first, ...others]) =>
    first === undefined ? [] : [others.length === 0 ? first : withOthers(first, others)],
  );
}

function withOthers(first: Diagnostic, others: readonly Diagnostic[]): Diagnostic {
  const lines = new Set(others.flatMap(({ location }) => location?.line ?? []));
  const where =
    lines.size === 0 ? "" : `, on line${lines.size === 1 ? "" : "s"} ${listNames([...lines].map(String))}`;
  const also = `It is the same in ${others.length} other place${others.length === 1 ? "" : "s"}${where}.`;
  return { ...first, hint: first.hint === undefined ? also : `${first.hint} ${also}` };
}
