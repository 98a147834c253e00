import { parse, TomlError } from "smol-toml";
import { type ConfigDocument, type SourceText, SyntaxProblems, valueDocument } from "./document.ts";

/** Reads a TOML file's text. Throws SyntaxProblems. */
export function tomlDocument(source: SourceText): ConfigDocument {
  try {
    return valueDocument(parse(source.text), source.file);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const { line, column, message } = error;
    const before = source.text.split("\n").slice(0, line - 1);
    const offset = before.reduce((sum, each) => sum + each.length + 1, 0) + column - 1;
    // The first line says what is wrong; the others show the place.
    const [what = ""] = message.split("\n");
    throw new SyntaxProblems([{ offset, message: what.replace("Invalid TOML document: ", "") }]);
  }
}
