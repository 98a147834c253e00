import type { Command } from "commander";
import { McpvalsError } from "../../base/error.ts";
import { listNames, suggestion } from "../../base/did-you-mean.ts";
import { exampleText, inputJsonSchema, type Setting, settingsOf } from "../../graders/settings.ts";
import type { DeclaredKind } from "../../graders/grader.ts";
import { graderKinds } from "../../graders/kinds.ts";
import type { SetExitCode } from "../flags.ts";
import { stdoutOutput, writeJson, writeOut } from "../terminal.ts";
import { createStyle, type Page, paintText } from "../../base/columns.ts";

/** `mcpvals graders`: the types of graders that files can declare. */
export function define(command: Command, setExitCode: SetExitCode): void {
  command
    .argument("[type]", "only this type, with an example (default: all)")
    .option("--json", "print the output as JSON, with the JSON Schema of the settings")
    .action((type: string | undefined, { json = false }: { readonly json?: boolean }) => {
      const kinds = type === undefined ? Object.values(graderKinds) : [kindOf(type)];
      if (json) writeJson({ graders: kinds.map(document) }, 2);
      else {
        const { colors, columns } = stdoutOutput();
        const page = { style: createStyle(colors), width: Math.max(columns(), narrowest) };
        const listed = kinds.map((kind) => [
          ...kindLines(kind, page),
          ...(type === undefined ? [] : exampleLines(kind, page)),
        ]);
        writeOut(listed.map((lines) => lines.join("\n")).join("\n\n"));
      }
      setExitCode(0);
    });
}

/** Columns of the narrowest page. */
const narrowest = 40;

function kindOf(type: string): DeclaredKind {
  const kind = Object.hasOwn(graderKinds, type) ? graderKinds[type] : undefined;
  if (kind !== undefined) return kind;
  const types = Object.keys(graderKinds);
  throw new McpvalsError("usage/invalid-option", `no grader has the type ${JSON.stringify(type)}`, {
    hint: suggestion(type, types, "types of graders") ?? `The types are ${listNames(types)}.`,
  });
}

function document({ type, description, config, example }: DeclaredKind) {
  return { type, description, settings: inputJsonSchema(config), example };
}

function kindLines({ type, description, config }: DeclaredKind, page: Page): readonly string[] {
  return [
    page.style.strong(type),
    ...paintText({ text: plain(description) }, 2, page),
    "",
    ...settingsOf(config).flatMap((setting) => settingLines(setting, page)),
  ];
}

function settingLines(setting: Setting, page: Page): readonly string[] {
  const { key, type, required, default: absent, description } = setting;
  // A list that is absent is empty, as everyone expects.
  const rest = required ? ", required" : absent === "" || absent === "`[]`" ? "" : `, default: ${absent}`;
  const text = plain(`${key}  ${type}${rest}`);
  return [
    ...paintText({ text, lead: key.length, leadTone: "strong", tone: "dim" }, 2, page, 4),
    ...paintText({ text: plain(description) }, 4, page),
  ];
}

function exampleLines(kind: DeclaredKind, { style }: Page): readonly string[] {
  return [
    "",
    style.strong("Example"),
    ...exampleText(kind)
      .trimEnd()
      .split("\n")
      .map((line) => `  ${line}`),
  ];
}

/** Text for a terminal, where code is not marked. */
function plain(text: string): string {
  return text.replaceAll("`", "");
}
