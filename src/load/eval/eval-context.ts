import type { EvalFile } from "../../core/formats/eval-file/parse-eval-file.ts";
import type { EvalExtensions } from "../../core/formats/extension/eval-extensions.ts";
import type { FileProblems } from "../file-problems.ts";
import type { OpenedFile } from "../sources/open-sources.ts";
import type { Surroundings } from "../surroundings.ts";

/** What the parts of an eval's loading need of one another. */
export interface EvalContext extends OpenedFile {
  readonly file: EvalFile;
  /** Absolute path of the folder that the eval's paths start from. */
  readonly dir: string;
  /** What the eval gives to its tasks of extensions. */
  readonly extensions: EvalExtensions;
  readonly surroundings: Surroundings;
  readonly problems: FileProblems;
}
