import type { Command } from "commander";
import { messageOf } from "../../base/error.ts";
import { asList, asObject, asText, isJsonObject, type Json } from "../../base/json.ts";
import { emptyListing, type Listed, listingOf } from "../../check/check-view.ts";
import { atReference, objectIn, typesOf } from "../../check/schema-walk.ts";
import { countOf, shortened, visibleText } from "../../base/visible-text.ts";
import { loadTarget, type Target } from "../../formats/target.ts";
import { followTokens } from "../../run/provisioning.ts";
import { listServer, type ServerListing } from "../../run/use-server.ts";
import { addTarget, type SetExitCode, type TargetFlags, targetOf } from "../flags.ts";
import {
  abortOnInterrupt,
  askAtTerminal,
  stdoutOutput,
  workingFolder,
  writeError,
  writeJson,
  writeNotes,
  writeOut,
  hideSecrets,
} from "../terminal.ts";
import { showWaiting } from "../waiting.ts";
import { createStyle, type Page, paintText } from "../../base/columns.ts";

interface ToolsFlags extends TargetFlags {
  readonly json?: boolean;
}

/** `mcpvals tools`: lists what servers offer. */
export function define(command: Command, setExitCode: SetExitCode): void {
  addTarget(command)
    .option("--json", "print the output as JSON, with the definitions as the server sent them")
    .action(async (_: unknown, flags: ToolsFlags) => setExitCode(await execute(targetOf(command), flags)));
}

async function execute(target: Target, { json = false }: ToolsFlags): Promise<number> {
  using interrupt = abortOnInterrupt();
  const { signal } = interrupt;
  const loaded = await loadTarget(target, { cwd: workingFolder(), signal, ask: askAtTerminal() });
  const { add: hide } = hideSecrets(loaded.secrets);
  writeNotes(loaded);
  const { servers, limits } = loaded.eval;
  using _ = await followTokens(Object.values(servers), hide);
  using waiting = showWaiting(`asking ${Object.keys(servers).join(", ")}`);
  const settled = await Promise.allSettled(
    Object.entries(servers).map(([name, spec]) =>
      listServer(name, spec, { signal, timeoutMs: limits.callMs }),
    ),
  );
  waiting[Symbol.dispose]();
  signal.throwIfAborted();
  const listings = settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  const broken = settled.flatMap((each) => (each.status === "rejected" ? [each.reason as unknown] : []));
  // Those that work are listed first.
  if (listings.length === 0) throw broken[0];
  for (const { server, failures } of listings)
    for (const failure of failures) writeError(`server "${server}" gives no ${failure}`);
  if (json) writeJson({ servers: listings.map(listingJson) }, 2);
  else {
    const { colors, columns } = stdoutOutput();
    const page = { style: createStyle(colors), width: Math.max(columns(), narrowest) };
    writeOut(listings.map((listing) => listingLines(listing, page).join("\n")).join("\n\n"));
  }
  const [error, ...others] = broken;
  for (const other of others) writeError(messageOf(other));
  if (error !== undefined) throw error;
  return listings.some(({ failures }) => failures.length > 0) ? 1 : 0;
}

/** Columns of the narrowest page. */
const narrowest = 40;

/** A listing with the definitions as they came. */
function listingJson({ server, surface, failures }: ServerListing): Json {
  const { name, version, protocolVersion } = surface;
  return { server, name, version, protocolVersion, ...emptyListing, ...listingOf(surface), failures };
}

function listingLines(listing: ServerListing, page: Page): string[] {
  const { style } = page;
  const { server, surface } = listing;
  const { name, version, protocolVersion, tools, resources, resourceTemplates, prompts } = surface;
  const facts = [
    [name, version].filter((text) => text !== "").join(" "),
    `MCP ${protocolVersion}`,
    countOf(tools.length, "tool"),
    countOf(resources.length + resourceTemplates.length, "resource"),
    countOf(prompts.length, "prompt"),
  ];
  const sections: readonly (readonly [title: string, items: readonly Item[]])[] = [
    ["Tools", tools.map(toolItem)],
    ["Resources", resources.map(resourceItem)],
    ["Resource templates", resourceTemplates.map(resourceItem)],
    ["Prompts", prompts.map(promptItem)],
  ];
  return [
    `${style.strong(visibleText(server))}  ${style.dim(visibleText(facts.filter(Boolean).join(" · ")))}`,
    ...sections
      .filter(([, items]) => items.length > 0)
      .flatMap(([title, items]) => [
        "",
        style.strong(title),
        ...items.flatMap((item) => itemLines(item, page)),
      ]),
  ];
}

/** Something that a server offers, in texts as they came. */
interface Item {
  readonly name: string;
  readonly remark: string;
  readonly description: string;
  readonly parameters: readonly Parameter[];
}

interface Parameter {
  readonly name: string;
  readonly type: string;
  readonly description: string;
}

function itemLines({ name, remark, description, parameters }: Item, page: Page): string[] {
  const { style } = page;
  return [
    `  ${visibleText(name)}${remark === "" ? "" : `  ${style.dim(visibleText(remark))}`}`,
    ...paragraphs(description).flatMap((text) => paintText({ text, tone: "dim" }, 4, page)),
    ...parameterLines(parameters, page),
  ];
}

/** Parameters as a table where it fits on the page, else each with its description below it. */
function parameterLines(parameters: readonly Parameter[], page: Page): string[] {
  const { width } = page;
  const rows = parameters.map(({ name, type, description }) => ({
    name: visibleText(name),
    type: visibleText(type),
    about: paragraphs(description),
  }));
  const names = widthOf(rows.map(({ name }) => name));
  const types = widthOf(rows.map(({ type }) => type));
  const isTable = 8 + names + types + widthOf(rows.map(({ about }) => about.join(" "))) <= width;
  return rows.flatMap(({ name, type, about }) => {
    if (isTable) {
      const line = `    ${name.padEnd(names)}  ${type.padEnd(types)}  ${about.join(" ")}`.trimEnd();
      return [line];
    }
    const head = `${name.padEnd(Math.min(names, widestName))}  ${type}`.trimEnd();
    return [
      ...paintText({ text: head }, 4, page, 4),
      ...about.flatMap((text) => paintText({ text, tone: "dim" }, 8, page)),
    ];
  });
}

function widthOf(texts: readonly string[]): number {
  return texts.reduce((widest, { length }) => Math.max(widest, length), 0);
}

/** Longer names push what follows them to the right alone. */
const widestName = 24;

/** Lines of a description that are not blank, safe to print. */
function paragraphs(text: string): string[] {
  return text.split("\n").flatMap((line) => (line.trim() === "" ? [] : [visibleText(line.trim())]));
}

function toolItem({ name, definition }: Listed): Item {
  const { title, description, inputSchema = {}, annotations } = definition;
  const schema = inputSchema ?? {};
  const required = isJsonObject(schema) ? asList(schema["required"]) : [];
  const hints = asObject(annotations);
  const remarks = [
    asText(title) ?? asText(hints["title"]),
    hints["readOnlyHint"] === true ? "read-only" : undefined,
    hints["destructiveHint"] === true && hints["readOnlyHint"] !== true ? "destructive" : undefined,
  ];
  return {
    name,
    remark: remarks.filter((text) => text !== undefined && text !== name).join(" · "),
    description: asText(description) ?? "",
    parameters: Object.entries(objectIn(schema, "properties")).map(([parameter, property]) => {
      const { default: preset, description: about } = asObject(property) as { [key: string]: Json };
      const facts = [
        typeText(property, schema),
        ...(required.includes(parameter) ? ["required"] : []),
        ...(preset === undefined ? [] : [`default ${shortened(JSON.stringify(preset), 60)}`]),
      ];
      return { name: parameter, type: facts.join(", "), description: asText(about) ?? "" };
    }),
  };
}

const maxTypeDepth = 4;
const maxTypeLength = 200;

/** The type of a schema in a few words: `string`, `"a" | "b"`, `number[]`. */
function typeText(schema: Json, root: Json, depth = 0): string {
  if (!isJsonObject(schema) || depth > maxTypeDepth) return "any";
  const { $ref, enum: values, const: only, anyOf, oneOf, items, format } = schema;
  const inner = (each: Json): string => typeText(each, root, depth + 1);
  const ref = typeof $ref === "string" ? atReference(root, $ref) : undefined;
  if (ref !== undefined) return inner(ref);
  if (only !== undefined) return JSON.stringify(only);
  if (Array.isArray(values))
    return shortened(values.map((value) => JSON.stringify(value)).join(" | "), maxTypeLength);
  const options = [anyOf, oneOf].find(Array.isArray) as readonly Json[] | undefined;
  if (options !== undefined) return [...new Set(options.map(inner))].join(" | ");
  const types = typesOf(schema).map((type) => {
    if (type === "array") return items === undefined ? "array" : listText(inner(items));
    return type === "string" && typeof format === "string" ? `string (${format})` : type;
  });
  return types.length === 0 ? "any" : types.join(" | ");
}

function listText(type: string): string {
  return type.includes(" ") ? `(${type})[]` : `${type}[]`;
}

function resourceItem({ name: address, definition }: Listed): Item {
  const { name, title, mimeType, description } = definition;
  const remarks = [asText(title) ?? asText(name), asText(mimeType)];
  return {
    name: address,
    remark: remarks.filter((text) => text !== undefined && text !== address).join(" · "),
    description: asText(description) ?? "",
    parameters: [],
  };
}

function promptItem({ name, definition }: Listed): Item {
  const { title, description, arguments: given } = definition;
  return {
    name,
    remark: asText(title) ?? "",
    description: asText(description) ?? "",
    parameters: asList(given).map((argument) => {
      const { name: parameter, description: about, required } = asObject(argument);
      const type = required === true ? "required" : "";
      return { name: asText(parameter) ?? "", type, description: asText(about) ?? "" };
    }),
  };
}
