import { asObject, type Json, type JsonObject } from "../base/json.ts";
import type { Attack, PlannedCall } from "../model/check.ts";
import { besideSuffix, markerPrefix, plantedHome, plantedLink, plantedNote } from "./canaries.ts";
import { objectIn, typesOf } from "./schema-walk.ts";

/** Texts of a tool that are attacked, so that one with many is not called a thousand times. */
const maxAttacked = 8;

/** Where a hostile request would go; nobody listens there. */
const canaryPort = 8642;
/** Where a machine in a cloud can ask for its own credentials. */
const metadata = "169.254.169.254";
/** What hostile requests connect to. */
export const canaryAddresses: readonly string[] = [
  `127.0.0.1:${canaryPort}`,
  `[::1]:${canaryPort}`,
  `${metadata}:80`,
];

/** In arguments, stands for the address that mcpvals listens at; nothing knows its port before. */
export const ownEndpoint = "http://mcpvals-endpoint.invalid/";

/** Two factors and their product, which nobody writes by accident. */
const factors = "31337*31393";
export const product = "983762441";

/** Where hostile arguments point, and what makes them distinct. */
interface AttackPlace {
  /** The first folder of the server. */
  readonly folder: string;
  /** A name that no other call has. */
  readonly id: string;
}

type Payload = Omit<Attack, "parameter"> & { readonly text: string };

/** The hostile arguments that are tried in the place of each text. */
function payloadsFor({ folder, id }: AttackPlace): readonly Payload[] {
  const key = `${plantedHome}/.ssh/id_rsa`;
  const up = "../".repeat(12);
  const marker = `${plantedHome}/${markerPrefix}${id}`;
  const touch = (form: number): string => `touch ${marker}-${form}`;
  const of = (
    aim: Attack["aim"],
    texts: readonly (readonly [form: string, text: string, isWhole?: boolean])[],
  ) => texts.map(([form, text, isWhole = false]): Payload => ({ aim, form, text, isWhole }));
  return [
    ...of("read", [
      ["an absolute path", key, true],
      ["an absolute path as a URL", `file://${key}`, true],
      ["../ before the path", `${up}${key.slice(1)}`],
      ["its folder, then ../", `${folder}/../${folder.split("/").at(-1)}${besideSuffix}`],
      ["a folder whose name begins with that of its own", `${folder}${besideSuffix}`],
      ["a link in its folder", `${folder}/${plantedLink}`],
      ["the name of a link", plantedLink],
      ["../ in percent-encoding", encodeURIComponent(`${up}${key.slice(1)}`).replaceAll(".", "%2e")],
      ["../ written twice into itself", `${"....//".repeat(12)}${key.slice(1)}`],
      ["../ in wide letters of Unicode", `${"．．／".repeat(12)}${key.slice(1)}`],
    ]),
    ...of("command", [
      ["a command", touch(0), true],
      ["; and a command", `text; ${touch(1)}`],
      ["&& and a command", `text && ${touch(2)}`],
      ["| and a command", `text | ${touch(3)}`],
      ["a command in $( )", `text$(${touch(4)})`],
      ["a command in backquotes", `text\`${touch(5)}\``],
      ["a line break and a command", `text\n${touch(6)}\n`],
      ["an end of a double quotation and a command", `text"; ${touch(7)}; "`],
      ["an end of a single quotation and a command", `text'; ${touch(8)}; '`],
    ]),
    ...of("code", [
      ["JavaScript", `process.getBuiltinModule("fs").writeFileSync("${marker}-9", "")`, true],
      ["Python", `__import__("os").system("${touch(10)}")`, true],
    ]),
    ...of("request", [
      ["an address of this machine", `http://127.0.0.1:${canaryPort}/`, true],
      ["the name of this machine", `http://localhost:${canaryPort}/`],
      ["the address of a cloud's metadata", `http://${metadata}/latest/meta-data/`, true],
      ["an address as one number", `http://2130706433:${canaryPort}/`],
      ["an address of IPv6 that stands for one of IPv4", `http://[::ffff:127.0.0.1]:${canaryPort}/`],
    ]),
    ...of("sql", [
      ["SQL", `ATTACH DATABASE '${marker}-11' AS mcpvals; CREATE TABLE mcpvals.t (x)`, true],
      [
        "the end of a text and SQL",
        `text'; ATTACH DATABASE '${marker}-12' AS mcpvals; CREATE TABLE mcpvals.t (x); --`,
      ],
      [
        "the end of a number and SQL",
        `1; ATTACH DATABASE '${marker}-13' AS mcpvals; CREATE TABLE mcpvals.t (x); --`,
      ],
    ]),
    ...of("template", [
      ["{{ }}", `{{${factors}}}`],
      ["${ }", `\${${factors}}`],
      ["<%= %>", `<%= ${factors} %>`],
    ]),
  ];
}

/**
 * The required arguments of a tool with hostile ones in the place of each text, one at a time; also of texts that only a call with all
 * arguments has. Other paths in it are there, so that the tool gets as far as it can.
 */
export function attacksOn(
  required: JsonObject,
  whole: PlannedCall,
  inputSchema: Json,
  place: AttackPlace,
): readonly PlannedCall[] {
  const texts = textsOf(whole.args, inputSchema);
  const paths = texts.filter(({ name, isPath }) => isPath && Object.hasOwn(required, name));
  const there = paths.map(({ name, set }) => [
    name,
    set(/dir|folder|repo|cwd/i.test(name) ? place.folder : `${place.folder}/${plantedNote}`),
  ]);
  const args: JsonObject = { ...required, ...(Object.fromEntries(there) as JsonObject) };
  return texts.slice(0, maxAttacked).flatMap(({ name, set }, index) =>
    payloadsFor({ folder: place.folder, id: `${place.id}-${index}` }).map(
      ({ text, ...rest }): PlannedCall => ({
        tool: whole.tool,
        args: { ...args, [name]: set(text) },
        expects: "refusal",
        why: `${name} is ${rest.form}`,
        attack: { parameter: name, ...rest },
      }),
    ),
  );
}

/** Calls in which one text that may be an address is that of mcpvals, which sees what is sent there. */
export function endpointCalls(
  { tool, args }: Pick<PlannedCall, "tool" | "args">,
  inputSchema: Json,
): readonly PlannedCall[] {
  const addresses = textsOf(args, inputSchema).filter(({ isAddress }) => isAddress);
  return addresses.map(({ name, set }) => ({
    tool,
    args: { ...args, [name]: set(ownEndpoint) },
    expects: "result",
    why: `${name} is an address of mcpvals`,
    attack: { parameter: name, aim: "request", form: "an address of mcpvals", isWhole: true },
  }));
}

/** Arguments that let a tool do its work in its folder: paths that are there, in the place of those that were made up. */
export function realisticCalls(
  { tool, args }: Pick<PlannedCall, "tool" | "args">,
  inputSchema: Json,
  folder: string,
): readonly PlannedCall[] {
  const paths = textsOf(args, inputSchema).filter(({ isPath }) => isPath);
  if (paths.length === 0) return [];
  const fresh = `${folder}/mcpvals-new`;
  const note = `${folder}/${plantedNote}`;
  const variants: readonly (readonly [why: string, values: readonly string[]])[] = [
    ["paths of a file", paths.map(() => note)],
    ["paths of a folder", paths.map(() => folder)],
    ["a path that is not there", paths.map((_, index) => (index === 0 && paths.length > 1 ? note : fresh))],
  ];
  return variants.map(([why, values]) => ({
    tool,
    args: {
      ...args,
      ...Object.fromEntries(paths.map(({ name, set }, index) => [name, set(values[index] ?? "")])),
    },
    expects: "result",
    why,
  }));
}

interface TextArgument {
  readonly name: string;
  /** Whether its name or description says that it is a path. It only decides which calls are tried. */
  readonly isPath: boolean;
  /** The same of an address. */
  readonly isAddress: boolean;
  /** The argument with a text in it. */
  readonly set: (text: string) => Json;
}

/** The arguments that are texts of any content, or lists of such. */
function textsOf(args: JsonObject, inputSchema: Json): readonly TextArgument[] {
  const properties = objectIn(inputSchema, "properties");
  return Object.keys(args).flatMap((name): readonly TextArgument[] => {
    const property = asObject(properties[name]) as JsonObject;
    const isList = typesOf(property).includes("array");
    const of = isList ? (asObject(property["items"]) as JsonObject) : property;
    if (!typesOf(of).includes("string") || of["enum"] !== undefined || of["const"] !== undefined) return [];
    const said = `${name} ${typeof of["description"] === "string" ? of["description"] : ""}`;
    const isPath = /path|file|folder|director|\b(?:source|destination|src|dest)\b/i.test(said);
    const isAddress = /\bur[il]s?\b|url|address|link|endpoint|host|webhook|callback/i.test(
      `${said} ${String(of["format"])}`,
    );
    return [{ name, isPath, isAddress, set: (text) => (isList ? [text] : text) }];
  });
}
