import type { Json } from "../../core/formats/model.ts";
import { placeProblem, type Problem } from "../../core/formats/problem.ts";
import { readJson } from "../../core/formats/read-json.ts";
import type { FileProblems } from "../file-problems.ts";
import type { ConfigDocument } from "./document.ts";

/**
 * A document's value as plain JSON of a size and depth that can be worked with; undefined, with the reason among the
 * problems, when it is not. `subject` is what the document is, for messages.
 */
export function plainDocument(
  { value, locate, source }: ConfigDocument,
  subject: string,
  problems: FileProblems,
): Json | undefined {
  const found: Problem[] = [];
  const json = readJson(value, { subject, problems: found, text: (text) => text });
  problems.add(
    found.map((problem) => placeProblem(problem, locate)),
    source,
  );
  return found.length === 0 ? json : undefined;
}
