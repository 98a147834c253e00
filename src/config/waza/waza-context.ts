import type { WazaEval } from "../../core/formats/waza/waza-eval.ts";
import type { FileProblems } from "../file-problems.ts";
import type { OpenedFile } from "../sources/open-sources.ts";
import type { Surroundings } from "../surroundings.ts";

/** What the parts of the loading of a waza eval need of one another. */
export interface WazaContext extends OpenedFile {
  readonly file: WazaEval;
  /** Whether nothing is wrong with it. */
  readonly isValid: boolean;
  /** Absolute path of the eval's folder, which its paths start from. */
  readonly dir: string;
  readonly surroundings: Surroundings;
  readonly problems: FileProblems;
  readonly notes: readonly string[];
  /** Variables that were put into the file. */
  readonly variables: ReadonlyMap<string, string>;
}
