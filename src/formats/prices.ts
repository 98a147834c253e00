import { validate } from "../base/problem.ts";
import { problemsOfIssues } from "../model/zod-problems.ts";
import { type Prices, pricesSchema } from "../model/prices.ts";
import { displayPath } from "./environment.ts";
import { type FileProblems, plainDocument } from "./read/document.ts";
import { readData } from "./read/read-files.ts";

/** Reads a file of prices. What is wrong is added to the problems; then it is undefined. */
export async function readPrices(
  file: string,
  { cwd, problems }: { readonly cwd: string; readonly problems: FileProblems },
): Promise<Prices | undefined> {
  try {
    const document = await readData(file, displayPath(cwd, file));
    const value = plainDocument(document, "prices", problems);
    if (value === undefined) return undefined;
    const { data, issues } = validate(pricesSchema, value);
    if (data === undefined) problems.addPlaced(problemsOfIssues(issues, value), document);
    return data;
  } catch (error) {
    problems.addError(error);
    return undefined;
  }
}
