import type { Document, DocumentOptions, ParseOptions, SchemaOptions } from "yaml";

type Yaml = Pick<typeof import("yaml"), "parseDocument">;
type Options = ParseOptions & DocumentOptions & SchemaOptions;

/**
 * Parses YAML in time linear to the text, whatever is wrong with it: keys that are there twice are the caller's to find, since
 * the library compares every key with every other. Never throws; problems are among the document's errors, their messages
 * without places.
 */
export function parseYaml(text: string, yaml: Yaml, options: Options = {}): Document.Parsed {
  // The library makes an Error of every mistake, of which there can be one for each character; their stacks take most of the time.
  const errors: ErrorConstructor & { stackTraceLimit?: number } = Error;
  const { stackTraceLimit } = errors;
  errors.stackTraceLimit = 0;
  try {
    return yaml.parseDocument(text, { ...options, prettyErrors: false, uniqueKeys: false });
  } finally {
    if (stackTraceLimit !== undefined) errors.stackTraceLimit = stackTraceLimit;
  }
}
