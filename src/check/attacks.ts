import { asList, asObject, asText, isJsonObject, type Json, type JsonObject } from "../base/json.ts";
import type { Attack, CalledKind, PlannedCall } from "../model/check.ts";
import {
  besideSuffix,
  canaryPort,
  elsewhereFile,
  markerPrefix,
  metadataAddress,
  metadataNames,
  metadataUrl,
  pages,
  plantedFolderLink,
  plantedHome,
  plantedLink,
  plantedName,
  plantedNote,
  rebindingPrefix,
  secretName,
} from "./canaries.ts";
import type { Listed, Surface } from "./check-view.ts";
import { describedValues, exampleUris } from "./described-values.ts";
import { alternativesOf } from "./generate-calls.ts";
import { longText, longTextLength } from "./planned-requests.ts";
import { atReference, objectIn, typesOf } from "./schema-walk.ts";
import { templateVariables, valuesIn } from "./uri-template.ts";

/** The hosts of hostile requests, by what a tool may be made to reach: one that gets pages of a private network may refuse this machine. */
const canaryHosts = {
  "this machine": ["127.0.0.1", "127.0.0.2", "0.0.0.0", "[::1]", "[::]"],
  "a private network": ["10.20.30.40", "172.20.30.40", "192.168.30.40"],
  "the metadata of a cloud": [metadataAddress, "[fd00:ec2::254]"],
} as const;

/** What an address with a port shows that a hostile request has reached; undefined: nothing, since other programs may connect there. */
export function reachedAt(address: string): keyof typeof canaryHosts | undefined {
  const [, host = "", port] = /^(.*):(\d+)$/.exec(address) ?? [];
  if (![80, 443, canaryPort].includes(Number(port))) return undefined;
  const places = Object.keys(canaryHosts) as (keyof typeof canaryHosts)[];
  return places.find((place) => (canaryHosts[place] as readonly string[]).includes(host));
}

/** In arguments, stands for the address that mcpvals listens at; nothing knows its port before. */
export const ownEndpoint = "http://mcpvals-endpoint.invalid/";

/** Two factors and their product, which nobody writes by accident. */
const factors = "31337*31393";
export const product = "983762441";

/** Where hostile arguments point, and what makes them distinct. */
export interface AttackPlace {
  /** The first folder of the server. */
  readonly folder: string;
  /** A name that no other call has. */
  readonly id: string;
}

type Payload = Omit<Attack, "parameter"> & { readonly text: Json };

/** How a condition in SQL is told from its opposite; a tool that puts it into SQL gives one result for all of one of them. */
export const conditionForms = {
  text: {
    holds: "the end of a text and a condition that holds",
    fails: "the end of a text and a condition that does not hold",
  },
  number: {
    holds: "the end of a number and a condition that holds",
    fails: "the end of a number and a condition that does not hold",
  },
  name: {
    holds: "a condition that holds in the place of a name",
    fails: "a condition that does not hold in the place of a name",
  },
} as const;

/**
 * A condition that only SQL can work out. Both have the same numbers in another order, and no sign for comparing them: neither a tool that
 * counts or adds what it is given nor a small language for filters tells one from the other.
 */
function condition(holds: boolean, number: number): string {
  const [low, middle, high] = [number - 1, number, number + 1];
  const [tested, upper] = holds ? [middle, high] : [high, middle];
  return `CASE WHEN ${tested} BETWEEN ${low} AND ${upper} THEN 1 ELSE 0 END = 1`;
}

/** An error in every database, and only where the condition does not hold: PostgreSQL refuses the division, SQLite the overflow. */
const impossible = "1/0 + abs(-9223372036854775807 - 1)";

const conditions: readonly Payload[] = [
  { ...conditionForms.text, textWith: (test: string) => `mcpvals' OR ${test} -- ` },
  { ...conditionForms.number, textWith: (test: string) => `0 OR ${test} -- ` },
  // After ORDER BY, where each value gives the same order.
  { ...conditionForms.name, textWith: (test: string) => `(CASE WHEN ${test} THEN 1 ELSE ${impossible} END)` },
].flatMap(({ holds, fails, textWith }) =>
  [7341, 8652].flatMap((number): readonly Payload[] => [
    { aim: "sql", form: holds, isWhole: false, text: textWith(condition(true, number)) },
    { aim: "sql", form: fails, isWhole: false, text: textWith(condition(false, number)) },
  ]),
);

/** Levels of lists; a message of mcpvals may have a hundred more. */
const deepLevels = 300;

/** What a server has to withstand; tried with one text of each tool. */
const sizes: readonly Payload[] = [
  { aim: "size", form: `a text of ${longTextLength} characters`, isWhole: false, text: longText },
  {
    aim: "size",
    form: `lists in one another, ${deepLevels} levels deep`,
    isWhole: false,
    text: Array.from({ length: deepLevels }).reduce<Json>((inner) => [inner], "text"),
  },
];

/** What a hostile argument is, as reports name it; its text; {@link Attack.isWhole}, absent: no. */
type Form = readonly [form: string, text: string, isWhole?: boolean];

/** Requests that are tried where a text is said to be an address: they take long, and others are seldom one. */
const furtherRequests: readonly Form[] = [
  ["an address of this machine with https:", `https://127.0.0.1:${canaryPort}/`, true],
  ["an address of this machine without http: and port", "127.0.0.1", true],
  ["the address of a cloud's metadata without http:", metadataAddress, true],
  ["an address of a private network without http:", "10.20.30.40", true],
  ["an address of 172.16.0.0/12 without http:", "172.20.30.40", true],
  ["another address of a private network", "http://192.168.30.40/", true],
  ["a name of this machine with https:", `https://${plantedName}:${canaryPort}/`],
  ["a name of this machine without http:", `${plantedName}:${canaryPort}`],
  ["a name of this machine without http: and port", plantedName],
  ["an address as one number", `http://2130706433:${canaryPort}/`],
  ["a short form of an address", `http://127.1:${canaryPort}/`],
  ["another address of this machine", `http://127.0.0.2:${canaryPort}/`],
  ["an address of IPv6 that stands for one of IPv4", `http://[::ffff:127.0.0.1]:${canaryPort}/`],
  ["the address 0.0.0.0", `http://0.0.0.0:${canaryPort}/`],
  ["the address 0.0.0.0 without http: and port", "0.0.0.0"],
  ["the address [::]", `http://[::]:${canaryPort}/`],
  ["an address of 172.16.0.0/12", "http://172.20.30.40/"],
  ["the address of a cloud's metadata in IPv6", "http://[fd00:ec2::254]/"],
  ["a name that stands for the address of a cloud's metadata", `http://${metadataNames[0]}/`],
  ["a page that redirects to this machine", pages.toThisMachine],
  ["a page that redirects to a cloud's metadata", pages.toMetadata],
  ["a page that redirects to a page that redirects to this machine", pages.toPage],
  ["a page that redirects to a name that stands for an address of this machine", pages.toName],
  ["a page with https: that redirects to this machine with https:", pages.toThisMachineWithTls],
];

/**
 * Absolute paths that are tried where a text is said to be a path: what takes a name and resolves it against a folder gets to the same files
 * by relative ones.
 */
function furtherPaths(folder: string): readonly Form[] {
  const secret = `${secretName}.txt`;
  return [
    ["~ before a path", "~/.ssh/id_rsa", true],
    ["the absolute path of a folder", `${plantedHome}/.ssh`, true],
    [
      "an absolute path in FOLDER-private beside the server's folder FOLDER",
      `${folder}${besideSuffix}/${secret}`,
    ],
    [
      "an absolute path without .txt in FOLDER-private beside the server's folder FOLDER",
      `${folder}${besideSuffix}/${secretName}`,
    ],
    ["the absolute path of FOLDER-private beside the server's folder FOLDER", `${folder}${besideSuffix}`],
    ["the absolute path of a link in the server's folder", `${folder}/${plantedLink}`],
    ["the absolute path of a file behind a link to a folder", `${folder}/${plantedFolderLink}/${secret}`],
    [
      "the absolute path of a new file behind a link to a folder",
      `${folder}/${plantedFolderLink}/${secretName}.new`,
    ],
    ["the absolute path of a link to a folder", `${folder}/${plantedFolderLink}`],
  ];
}

/** The hostile arguments that are tried in the place of each text. */
function payloadsFor(
  { folder, id }: AttackPlace,
  { value, isPath, isAddress }: Pick<TextArgument, "isPath" | "isAddress"> & { readonly value: string },
): readonly Payload[] {
  const key = `${plantedHome}/.ssh/id_rsa`;
  const up = "../".repeat(12);
  const beside = `${folder.split("/").at(-1)}${besideSuffix}`;
  const secret = `${secretName}.txt`;
  const marker = `${plantedHome}/${markerPrefix}${id}`;
  // Either needs no PATH. One works without a shell or with `>` refused, the other where a shell is all that is there.
  const touch = (form: number): string => `/bin/touch ${marker}-${form}`;
  const redirect = (form: number): string => `:>${marker}-${form}`;
  const of = (aim: Attack["aim"], texts: readonly Form[]) =>
    texts.map(([form, text, isWhole = false]): Payload => ({ aim, form, text, isWhole }));
  return [
    ...of("read", [
      ["an absolute path", key, true],
      ["an absolute path outside the server's folders", elsewhereFile, true],
      [
        "an absolute path without .txt outside the server's folders",
        elsewhereFile.replace(/\.txt$/, ""),
        true,
      ],
      ["an absolute path as a URL", `file://${key}`, true],
      ["../ before the path", `${up}${key.slice(1)}`],
      ["../ before a path that ends in .txt", `${up}${elsewhereFile.slice(1)}`],
      ["./ and ../ before the path", `./${up}${key.slice(1)}`],
      ["a name and ../ before a path that ends in .txt", `text/../${up}${elsewhereFile.slice(1)}`],
      ["../ behind the server's folder", `${folder}/../${beside}/${secret}`],
      [
        "../ before a path without .txt in FOLDER-private beside the server's folder FOLDER",
        `../${beside}/${secretName}`,
      ],
      ["../ before FOLDER-private beside the server's folder FOLDER", `../${beside}`],
      ["the name of a link in the server's folder", plantedLink],
      ["the relative path of a file behind a link to a folder", `${plantedFolderLink}/${secret}`],
      ["the relative path of a new file behind a link to a folder", `${plantedFolderLink}/${secretName}.new`],
      ["the name of a link to a folder", plantedFolderLink],
      ["../ in percent-encoding", encodeURIComponent(`${up}${key.slice(1)}`).replaceAll(".", "%2e")],
      ["../ written twice into itself", `${"....//".repeat(12)}${key.slice(1)}`],
      ["../ in wide letters of Unicode", `${"．．／".repeat(12)}${key.slice(1)}`],
      ...(isPath ? furtherPaths(folder) : []),
    ]),
    ...of("command", [
      ["a command", touch(0), true],
      ["; and a command", `1; ${redirect(1)}`],
      ["&& and a command", `${value} && ${touch(2)}`],
      ["| and a command", `${value} | ${touch(3)}`],
      ["a command in $( )", `${value}$(${touch(4)})`],
      ["a command in $( ) before a text", `$(${touch(14)})${value}`],
      ["a command in backquotes", `${value}\`${touch(5)}\``],
      ["a line break and a command", `${value}\n${touch(6)}\n`],
      ["an end of a double quotation and a command", `text"; ${redirect(7)}; "`],
      ["an end of a single quotation and a command", `text'; ${redirect(8)}; '`],
      ["an option --output= for a program", `--output=${marker}-15`],
      ["an option -o for a program", `-o${marker}-16`],
    ]),
    ...of("code", [
      ["JavaScript", `process.getBuiltinModule("fs").writeFileSync("${marker}-9", "")`, true],
      ["Python", `__import__("os").system("${touch(10)}")`, true],
    ]),
    ...of("request", [
      ["an address of this machine", `http://127.0.0.1:${canaryPort}/`, true],
      ["the address of a cloud's metadata", metadataUrl, true],
      ["an address of a private network", "http://10.20.30.40/", true],
      ["an address of this machine without http:", `127.0.0.1:${canaryPort}`, true],
      ["an address of this machine that ends the host of a URL", `127.0.0.1:${canaryPort}/?`],
      ["the name of this machine", `http://localhost:${canaryPort}/`],
      ["a name that stands for an address of this machine", `http://${plantedName}:${canaryPort}/`],
      ["the address of this machine in IPv6", `http://[::1]:${canaryPort}/`],
      [
        "a name that stands for an address of the internet first, then for one of this machine",
        `http://${rebindingPrefix}${id}.${plantedName}:${canaryPort}/`,
      ],
    ]),
    ...of("request", isAddress ? furtherRequests : []),
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
    ...conditions,
    ...of("template", [
      // What a tool that calculates is for: it gives the product with braces, too.
      ["a product without a template", factors, true],
      ["{{ }}", `{{${factors}}}`],
      ["${ }", `\${${factors}}`],
      ["<%= %>", `<%= ${factors} %>`],
    ]),
  ];
}

/**
 * The required arguments of a tool with hostile ones in the place of each text, one at a time; also of texts that only a call with all
 * arguments has. Other paths in it are there, so that the tool gets as far as it can. What may end the server comes last. `filled`: arguments from which
 * an object or a list around a text is taken that the others do not have.
 */
export function attacksOn(
  required: JsonObject,
  whole: PlannedCall,
  inputSchema: Json,
  place: AttackPlace,
  filled: JsonObject = {},
): readonly PlannedCall[] {
  const texts = textsOf(whole.args, inputSchema);
  const args = texts
    .filter(({ place: [top] }) => Object.hasOwn(required, top ?? ""))
    .reduce((made, each) => {
      const value = each.isPath ? pathFor(each, place.folder) : each.described[0];
      return value === undefined ? made : withText(made, each.place, value);
    }, required);
  const attack = (text: TextArgument, { text: value, ...rest }: Payload): PlannedCall => {
    const [top = ""] = text.place;
    const base = typeof top === "string" && !Object.hasOwn(args, top) ? pick(whole.args, top) : {};
    return {
      tool: whole.tool,
      args: withText({ ...args, ...base }, text.place, value, filled),
      expects: "refusal",
      why: `${text.name} is ${rest.form}`,
      attack: { parameter: text.name, ...rest },
    };
  };
  const [first] = texts;
  return [
    ...texts.flatMap((text, index) =>
      payloadsFor(
        { folder: place.folder, id: `${place.id}-${index}` },
        { ...text, value: usualText(whole.args, text) },
      ).map((each) => attack(text, each)),
    ),
    ...(first === undefined ? [] : sizes.map((each) => attack(first, each))),
  ];
}

/** What a text is in an ordinary call, so that a tool which looks at how a text begins or ends takes one with something added. */
function usualText(args: JsonObject, { place, isAddress, described }: TextArgument): string {
  const made = place.reduce<Json | undefined>(
    (inner, key) =>
      key === null ? (asList(inner)[0] as Json | undefined) : (asObject(inner)[key] as Json | undefined),
    args,
  );
  const value = described[0] ?? made;
  if (isAddress && !(typeof value === "string" && /^(?:https?:|\d+$)/.test(value))) return pages.page;
  return typeof value === "string" ? value : "text";
}

function pick(args: JsonObject, name: string): JsonObject {
  const value = args[name];
  return value === undefined ? {} : { [name]: value };
}

function pathFor({ name }: TextArgument, folder: string): string {
  return /dir|folder|repo|cwd/i.test(name) ? folder : `${folder}/${plantedNote}`;
}

/** What a client calls with texts: a tool, a prompt, or a template of resources. */
export interface Callable {
  readonly kind: CalledKind;
  readonly name: string;
  readonly definition: JsonObject;
  /** What its arguments, or the variables of the template, may be. */
  readonly inputSchema: JsonObject;
}

/** Items of a list as they are called with texts. */
function callablesAs(
  kind: CalledKind,
  items: readonly Listed[],
  schemaOf: (item: Listed) => Json,
): readonly Callable[] {
  return items.flatMap((item) => {
    const inputSchema = schemaOf(item);
    const { name, definition } = item;
    return item.isNamed && isJsonObject(inputSchema) ? { kind, name, definition, inputSchema } : [];
  });
}

/** What a server lists that is called with texts, without what has no name, no arguments or no schema. */
export function callablesOf({ tools, prompts, resourceTemplates }: Surface): readonly Callable[] {
  return [
    ...callablesAs("tool", tools, ({ definition }) => definition["inputSchema"] ?? {}),
    ...callablesAs("prompt", prompts, ({ definition }) =>
      textSchema(
        asList(definition["arguments"]).flatMap((each) => {
          const { name, description, required } = asObject(each);
          return typeof name === "string"
            ? { name, description: asText(description) ?? "", isRequired: required === true }
            : [];
        }),
      ),
    ),
    ...callablesAs("resource", resourceTemplates, ({ name: template, definition }) => {
      const description = asText(definition["description"]) ?? "";
      const examples = exampleUris(description).map((uri) => valuesIn(template, uri) ?? {});
      return textSchema(
        templateVariables(template).map((each) => ({
          ...each,
          // The template says whether it is a path.
          description: `${description} ${template}`,
          examples: examples.flatMap((values) => values[each.name] ?? []).slice(0, 1),
        })),
      );
    }),
  ];
}

/** The schema of arguments that are all texts; `null`: there are none. */
function textSchema(
  args: readonly {
    readonly name: string;
    readonly description: string;
    readonly isRequired: boolean;
    readonly examples?: readonly string[];
  }[],
): Json {
  if (args.length === 0) return null;
  const properties = args.map(
    ({ name, description, examples = [] }) =>
      [name, { type: "string", description, ...(examples.length > 0 && { examples }) }] as const,
  );
  return {
    type: "object",
    properties: Object.fromEntries(properties),
    required: args.flatMap(({ name, isRequired }) => (isRequired ? name : [])),
  };
}

/** Whether one of the arguments may be an address. */
export function takesAddress(inputSchema: Json): boolean {
  return textsOf(objectIn(inputSchema, "properties"), inputSchema).some(({ isAddress }) => isAddress);
}

/** Calls in which one text that may be an address is that of mcpvals, which sees what is sent there. */
export function endpointCalls(
  { tool, args }: Pick<PlannedCall, "tool" | "args">,
  inputSchema: Json,
): readonly PlannedCall[] {
  const addresses = textsOf(args, inputSchema).filter(({ isAddress }) => isAddress);
  return addresses.map(({ name, place }) => ({
    tool,
    args: withText(args, place, ownEndpoint),
    expects: "result",
    why: `${name} is an address of mcpvals`,
    attack: { parameter: name, aim: "request", form: "an address of mcpvals", isWhole: true },
  }));
}

/**
 * Arguments that let a tool do its work, in the place of those that were made up: values that their descriptions speak of, paths and
 * addresses of pages that are there.
 */
export function realisticCalls(
  { tool, args }: Pick<PlannedCall, "tool" | "args">,
  inputSchema: Json,
  folder: string,
): readonly PlannedCall[] {
  const texts = textsOf(args, inputSchema);
  const paths = texts.filter(({ isPath }) => isPath);
  const addresses = texts.filter(({ isAddress }) => isAddress);
  const names = texts.filter(
    ({ isPath, isAddress, described }) => !isPath && !isAddress && described.length === 0,
  );
  const fresh = `${folder}/mcpvals-new`;
  const note = `${folder}/${plantedNote}`;
  const most = Math.max(0, ...texts.map(({ described }) => described.length));
  const withDescribed = Array.from({ length: most }, (_, index) => ({
    why: "values that the descriptions speak of",
    args: texts.reduce((made, { place, described }) => {
      const value = described[index] ?? described[0];
      return value === undefined ? made : withText(made, place, value);
    }, args),
  }));
  const likely = withDescribed[0]?.args ?? args;
  const variants: readonly (readonly [why: string, values: readonly string[]])[] = [
    ["paths of a file", paths.map(() => note)],
    ["paths of a folder", paths.map(() => folder)],
    ["names of a file", paths.map(() => plantedNote)],
    ["a path that is not there", paths.map((_, index) => (index === 0 && paths.length > 1 ? note : fresh))],
  ];
  const withPaths = variants.map(([why, values]) => ({
    why,
    args: paths.reduce((made, { place }, index) => withText(made, place, values[index] ?? ""), likely),
  }));
  const withAddresses = [
    ["the address of a page", pages.page],
    ["the address of data", pages.data],
  ].map(([why = "", url = ""]) => ({
    why,
    args: addresses.reduce((made, { place }) => withText(made, place, url), likely),
  }));
  const withNames = {
    why: "names of a file that is there",
    args: names.reduce((changed, { place }) => withText(changed, place, plantedNote), likely),
  };
  const made = [
    ...withDescribed,
    ...(names.length > 0 ? [withNames] : []),
    ...(paths.length > 0 ? withPaths : []),
    ...(addresses.length > 0 ? withAddresses : []),
  ];
  return made.map((each): PlannedCall => ({ tool, expects: "result", ...each }));
}

/** Whether an argument says by its name that it chooses what a tool does. */
export function isAction(name: string): boolean {
  return /^(?:sub_?)?(?:actions?|command|operation|method|mode|op|verb)$/i.test(name);
}

/** One of the things that a tool does, and the schema of its arguments for it. */
export interface ToolAction {
  /** Such as `action: read`. Absent: the tool does one thing. */
  readonly action?: string;
  readonly schema: JsonObject;
}

/**
 * What a tool does: the values of an argument whose name says that it chooses that, a mode after the others; or the alternatives of an argument
 * that is an object, or a list of objects; or those of all arguments. Of a tool that does one thing, that.
 */
export function actionsOf(inputSchema: JsonObject): readonly ToolAction[] {
  const properties = Object.entries(objectIn(inputSchema, "properties")).map(
    ([name, given]) => [name, referred(inputSchema, given)] as const,
  );
  const named = properties
    .filter(([name]) => isAction(name))
    .toSorted(([a], [b]) => Number(a === "mode") - Number(b === "mode"));
  const chosen = [
    ...named.map(([name, schema]) => [name, valuesOf(schema)] as const),
    ...properties.map(([name, schema]) => [name, objectsOf(schema, inputSchema)] as const),
  ].find(([, choices]) => choices.length > 1);
  if (chosen !== undefined) {
    const [name, choices] = chosen;
    return choices.map((choice, index) => ({
      action: `${name}: ${nameOf(choice) ?? `alternative ${index + 1}`}`,
      schema: {
        ...inputSchema,
        properties: { ...objectIn(inputSchema, "properties"), [name]: choice },
        required: [...new Set([...asList(inputSchema["required"]), name])] as readonly Json[],
      },
    }));
  }
  const alternatives = alternativesOf(inputSchema);
  return alternatives.length > 1
    ? alternatives.map((schema, index) => ({ action: nameOf(schema) ?? `alternative ${index + 1}`, schema }))
    : [{ schema: inputSchema }];
}

/** The fixed value by which a choice is told from others; undefined: there is none. */
function nameOf({ const: value, items, properties }: JsonObject): string | undefined {
  if (value !== undefined) return asText(value) ?? JSON.stringify(value);
  if (isJsonObject(items)) return nameOf(items);
  const members = Object.values(asObject(properties)).map(asObject) as JsonObject[];
  const fixed = members.find((each) => typeof each["const"] === "string");
  return fixed && nameOf(fixed);
}

/** The values that an argument may have, each as a schema; none where it is no list of values. */
function valuesOf(schema: JsonObject): readonly JsonObject[] {
  const values = asList(schema["enum"]).map((value) => ({ const: value as Json }));
  const constants = ["oneOf", "anyOf"].flatMap((key) => asList(schema[key]).map(asObject) as JsonObject[]);
  return [...values, ...constants.filter((each) => each["const"] !== undefined)];
}

/** The objects of which an argument may be one, or have in its list, each as its schema. */
function objectsOf(schema: JsonObject, root: Json): readonly JsonObject[] {
  const { items } = schema;
  const choosing = items === undefined ? schema : referred(root, items);
  const objects = ["oneOf", "anyOf"]
    .flatMap((key) => asList(choosing[key]))
    .map((each) => referred(root, each as Json))
    .filter((each) => typesOf(each).includes("object"));
  return items === undefined ? objects : objects.map((each) => ({ ...schema, items: each }));
}

/** A call with the last value of each argument that is one of a list, since a tool may do nothing with the first; none without such arguments. */
export function callsWithLastValues(call: PlannedCall, inputSchema: Json): readonly PlannedCall[] {
  const lasts = Object.entries(objectIn(inputSchema, "properties")).flatMap(([name, property]) => {
    const values = asList(asObject(property)["enum"]) as readonly Json[];
    const last = values.at(-1);
    return last === undefined || values.length < 2 ? [] : [[name, last] as const];
  });
  return lasts.length === 0
    ? []
    : [{ ...call, args: { ...call.args, ...Object.fromEntries(lasts) }, why: "last values of the lists" }];
}

/**
 * Calls with the required arguments, each with a folder in the place of an optional path: some tools have to be told where they work, and refuse
 * other arguments that are made up.
 */
export function callsInFolder(
  calls: readonly PlannedCall[],
  inputSchema: Json,
  folder: string,
): readonly PlannedCall[] {
  const texts = textsOf(objectIn(inputSchema, "properties"), inputSchema);
  const paths = texts.filter(({ isPath, place }) => isPath && place.length === 1);
  return calls.flatMap((call) =>
    paths
      .filter(({ name }) => !Object.hasOwn(call.args, name))
      .slice(0, maxFolders)
      .flatMap(({ name }) =>
        [folder, "."].map((value) => ({
          ...call,
          args: { ...call.args, [name]: value },
          why: `${name} is a folder`,
        })),
      ),
  );
}

/** Where a value stands in arguments: names of members, and `null` for the items of a list. */
type Place = readonly (string | null)[];

interface TextArgument {
  /** Such as `filter.name` or `notes[].text`. */
  readonly name: string;
  readonly place: Place;
  /** Whether its name or description says that it is a path. It only decides which calls are tried. */
  readonly isPath: boolean;
  /** The same of an address. */
  readonly isAddress: boolean;
  /** Values that its name or description speaks of; none where its schema says what it may be. */
  readonly described: readonly string[];
}

/** Optional paths of a tool in the place of which a folder is tried: most have one or two. */
const maxFolders = 3;

/** Texts of a tool that are attacked, and how deep they are looked for: a schema may contain itself. */
const maxTexts = 100;
const maxTextDepth = 6;
/** Parts of a schema among which they are looked for: one that contains itself several times has millions. */
const maxSearched = 10_000;

/** What in the schema of a text says what it may be. */
const saying: readonly string[] = ["default", "examples", "format", "pattern"];

/** The texts of any content in the arguments of a tool, also in objects and lists. */
function textsOf(args: JsonObject, inputSchema: Json): readonly TextArgument[] {
  const found = new Map<string, TextArgument>();
  const seen = new Map<JsonObject, Set<string>>();
  let left = maxSearched;
  const visit = (given: Json, place: Place): void => {
    const schema = referred(inputSchema, given);
    if (place.length > maxTextDepth || found.size === maxTexts || left === 0) return;
    left -= 1;
    // An alternative may be the schema that it stands in.
    const places = seen.get(schema) ?? new Set();
    if (places.has(JSON.stringify(place))) return;
    seen.set(schema, places.add(JSON.stringify(place)));
    for (const key of ["anyOf", "oneOf", "allOf"])
      for (const each of asList(schema[key])) visit(each as Json, place);
    const types = typesOf(schema);
    if (types.includes("object"))
      for (const [key, member] of Object.entries(objectIn(schema, "properties")))
        visit(member, [...place, key]);
    if (types.includes("array") && schema["items"] !== undefined) visit(schema["items"], [...place, null]);
    if (!types.includes("string") || schema["enum"] !== undefined || schema["const"] !== undefined) return;
    const name = place.reduce<string>(
      (whole, key) => (key === null ? `${whole}[]` : whole === "" ? key : `${whole}.${key}`),
      "",
    );
    const description = asText(schema["description"]) ?? "";
    const said = `${name} ${description}`;
    const isPath = /path|file|folder|director|\b(?:source|destination|src|dest)\b/i.test(said);
    const isAddress =
      /\bur[il]s?\b|url|address|link|endpoint|host|webhook|callback/i.test(said) ||
      schema["format"] === "uri";
    const isSaid = saying.some((key) => schema[key] !== undefined);
    const described = isSaid ? [] : describedValues(name, description);
    if (!found.has(name)) found.set(name, { name, place, isPath, isAddress, described });
  };
  for (const [name, property] of Object.entries(objectIn(inputSchema, "properties")))
    if (Object.hasOwn(args, name)) visit(property, [name]);
  return [...found.values()];
}

/** What a schema refers to; an empty one where that is nothing. */
function referred(root: Json, schema: Json): JsonObject {
  const { $ref: ref } = asObject(schema);
  const target = typeof ref === "string" ? atReference(root, ref) : schema;
  return asObject(target) as JsonObject;
}

/** Arguments with a text at a place. Objects and lists that are not there are those of `filled`, or are made. */
function withText(args: JsonObject, place: Place, text: Json, filled: JsonObject = {}): JsonObject {
  return putAt(args, filled, place, text) as JsonObject;
}

function putAt(value: Json | undefined, filled: Json | undefined, [key, ...rest]: Place, text: Json): Json {
  if (key === undefined) return text;
  if (key === null) {
    const [item] = asList(filled) as readonly Json[];
    return [putAt((asList(value)[0] as Json | undefined) ?? item, item, rest, text)];
  }
  const inner = isJsonObject(filled) ? filled : {};
  const members = isJsonObject(value) ? value : inner;
  return { ...members, [key]: putAt(members[key], inner[key], rest, text) };
}
