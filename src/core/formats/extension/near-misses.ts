import { didYouMean } from "../did-you-mean.ts";
import type { JsonObject } from "../json-value.ts";
import type { Problem } from "../problem.ts";

/** Keys of a document's root that are not known but look like one that is. */
export function nearMisses(document: JsonObject, known: readonly string[]): Problem[] {
  return Object.keys(document).flatMap((key): Problem[] => {
    if (known.includes(key)) return [];
    const near = didYouMean(
      key,
      known.filter((each) => !Object.hasOwn(document, each)),
    );
    if (near === undefined) return [];
    const message = `unknown key ${JSON.stringify(key.slice(0, 80))}`;
    return [{ code: "config/unknown-key", message, path: [key], at: "key", hint: `Did you mean "${near}"?` }];
  });
}
