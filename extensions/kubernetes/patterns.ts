import { RE2JS } from "re2js";
import { EnvironmentError } from "../../src/extension-sdk/index.ts";

/** Whether a pattern of RE2's syntax is found in a text. Throws EnvironmentError for what is no pattern. */
export function isFound(pattern: string, text: string): boolean {
  try {
    return RE2JS.compile(pattern).matcher(text).find();
  } catch (cause) {
    throw new EnvironmentError(`${JSON.stringify(pattern)} is no regular expression of RE2's syntax`, {
      cause,
    });
  }
}
