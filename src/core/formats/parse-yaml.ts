import type { Document, DocumentOptions, LineCounter, ParseOptions, SchemaOptions, YAMLMap } from "yaml";

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

/**
 * Reads YAML that a program may have written, in time linear to the text. Throws an Error for invalid YAML and for a
 * duplicate key, which a bad merge may leave.
 */
export async function parseStrictYaml(text: string): Promise<unknown> {
  const yaml = await import("yaml");
  const lineCounter = new yaml.LineCounter();
  // The library's own check for duplicate keys compares every key with every other.
  const document = parseYaml(text, yaml, { lineCounter });
  const [error] = document.errors;
  if (error !== undefined) {
    const { line, col } = lineCounter.linePos(error.pos[0]);
    throw new Error(`${error.message} at line ${line}, column ${col}`, { cause: error });
  }
  let aliases = 0;
  yaml.visit(document, {
    Map: (_, map) => refuseDuplicates(map, lineCounter),
    Alias: () => {
      aliases += 1;
      if (aliases > mostAliases) throw new Error(`it has more than ${mostAliases} aliases`);
    },
  });
  return document.toJS();
}

/** Each of them makes the library look through all anchors. */
const mostAliases = 100;

interface ScalarKey {
  readonly value: unknown;
  readonly range?: readonly [number, ...number[]];
}

function refuseDuplicates(map: YAMLMap, lineCounter: LineCounter): void {
  const seen = new Set<string>();
  for (const { key } of map.items) {
    if (!isScalarKey(key)) continue;
    const name = String(key.value);
    if (seen.has(name)) {
      const { line, col } = lineCounter.linePos(key.range?.[0] ?? 0);
      throw new Error(`duplicate key ${JSON.stringify(name)}, again at line ${line}, column ${col}`);
    }
    seen.add(name);
  }
}

function isScalarKey(key: unknown): key is ScalarKey {
  return typeof key === "object" && key !== null && "value" in key && !("items" in key);
}
