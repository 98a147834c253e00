import type { Diagnostic } from "../errors/error.ts";
import { type Locate, placeProblem, type Problem } from "./problem.ts";

/** Gives problems their places, and puts them in the order of the file when `locate` knows lines. */
export function placeProblems(problems: readonly Problem[], locate: Locate): Diagnostic[] {
  return problems
    .map((problem) => placeProblem(problem, locate))
    .toSorted(
      (a, b) =>
        (a.location?.line ?? 0) - (b.location?.line ?? 0) ||
        (a.location?.column ?? 0) - (b.location?.column ?? 0),
    );
}
