import { isJsonObject, type JsonObject } from "../../src/base/json.ts";
import { defaultOf, type NameOfPart, objectAt, textAt, typeText } from "../../src/graders/settings.ts";

export interface ReferencePage {
  /** Everything before the first table, in Markdown. */
  readonly introduction: string;
  /** JSON Schema of the file, with its parts in `$defs`, each with a title and a description. */
  readonly schema: JsonObject;
  /** Parts that are explained in the introduction: what they are called where they are used, by their id. */
  readonly words: Readonly<Record<string, string>>;
}

/** The reference page of a format, in Markdown: a table for the file, and one for each of its parts. */
export function referencePage({ introduction, schema, words }: ReferencePage): string {
  const definitions = Object.entries(objectAt(schema, "$defs"));
  const names = partNames(schema, words);
  const sections = definitions.flatMap(([id, definition]) =>
    isJsonObject(definition) && !Object.hasOwn(words, id) ? [section(definition, names)] : [],
  );
  return [introduction, "## The file", "", table(schema, names), ...sections].join("\n");
}

function section(definition: JsonObject, names: NameOfPart): string {
  const isObject = definition["properties"] !== undefined;
  const body = isObject ? table(definition, names) : `One of: ${typeText(definition, names)}.\n`;
  return [`## ${textAt(definition, "title")}`, "", textAt(definition, "description"), "", body].join("\n");
}

function table(definition: JsonObject, names: NameOfPart): string {
  const required = definition["required"];
  const rows = Object.entries(objectAt(definition, "properties")).map(([key, property]) => {
    const isRequired = Array.isArray(required) && required.includes(key);
    return [
      `\`${key}\``,
      typeText(property, names),
      isRequired ? "**required**" : defaultOf(property),
      textAt(property, "description"),
    ];
  });
  const head = ["key", "type", "default", "meaning"];
  const lines = [head, head.map(() => "---"), ...rows].map(
    (cells) => `| ${cells.map(escapeCell).join(" | ")} |`,
  );
  return `${lines.join("\n")}\n`;
}

export function escapeCell(text: string): string {
  return text.replaceAll("|", String.raw`\|`).replaceAll("\n", " ");
}

/** The name of a part of the schema, with a link to its section unless it is explained in the introduction. */
function partNames(schema: JsonObject, words: ReferencePage["words"]): NameOfPart {
  const definitions = objectAt(schema, "$defs");
  return (id) => {
    if (Object.hasOwn(words, id)) return words[id] ?? id;
    const title = textAt(definitions[id], "title") || id;
    return `[${title}](#${anchor(title)})`;
  };
}

/** The anchor that Git hosts give to a heading. */
export function anchor(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(/[^\w\s-]/g, "")
    .replaceAll(/\s/g, "-");
}
