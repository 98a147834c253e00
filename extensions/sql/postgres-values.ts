import { types } from "pg";
import type { Json } from "../../src/extension-sdk/index.ts";
import { exactNumber } from "./numbers.ts";

type FromText = (text: string) => Json;

const { builtins } = types;

/** How values that PostgreSQL sends as text become JSON, by the type's number; all other types stay the text that they are. */
const readers: ReadonlyMap<number, FromText> = new Map<number, FromText>([
  [builtins.BOOL, (text) => text === "t"],
  ...[builtins.INT2, builtins.INT4, builtins.INT8, builtins.OID].map((type) => [type, exactNumber] as const),
  ...[builtins.FLOAT4, builtins.FLOAT8, builtins.NUMERIC].map((type) => [type, exactNumber] as const),
  ...[builtins.JSON, builtins.JSONB].map((type) => [type, exactJson] as const),
  [builtins.BYTEA, (text) => Buffer.from(text.replace(/^\\x/, ""), "hex").toString("base64")],
  [builtins.TIMESTAMP, (text) => text.replace(" ", "T")],
  [builtins.TIMESTAMPTZ, (text) => text.replace(" ", "T").replace(/\+00$/, "Z")],
]);

/** JSON with the numbers in it as those in columns. */
function exactJson(text: string): Json {
  return JSON.parse(text, exactMember) as Json;
}

function exactMember(_key: string, value: Json, context?: { readonly source?: string }): Json {
  return typeof value === "number" && context?.source !== undefined ? exactNumber(context.source) : value;
}

/** Types of lists, with the types of what is in them. */
const lists: ReadonlyMap<number, number> = new Map<number, number>([
  [1000, builtins.BOOL],
  [1001, builtins.BYTEA],
  [1005, builtins.INT2],
  [1007, builtins.INT4],
  [1016, builtins.INT8],
  [1028, builtins.OID],
  [1021, builtins.FLOAT4],
  [1022, builtins.FLOAT8],
  [1231, builtins.NUMERIC],
  [199, builtins.JSON],
  [3807, builtins.JSONB],
  [1115, builtins.TIMESTAMP],
  [1185, builtins.TIMESTAMPTZ],
  [1182, builtins.DATE],
  [1009, builtins.TEXT],
  [1014, builtins.BPCHAR],
  [1015, builtins.VARCHAR],
  [2951, builtins.UUID],
]);

/** Type of lists of texts, whose reader serves for any list. */
const textList: number = 1009;

/** Gives the reader of a type's values. The session must be one in UTC, with dates in ISO 8601. */
export function readerOf(type: number): FromText {
  const member = lists.get(type);
  if (member === undefined) return readers.get(type) ?? ((text) => text);
  const parse: (text: string) => TextList = types.getTypeParser(textList);
  const read = readerOf(member);
  return (text) => listOf(parse(text), read);
}

type TextList = readonly (string | null | TextList)[];

function listOf(list: TextList, read: FromText): Json {
  return list.map((item) => {
    if (item === null) return null;
    return typeof item === "string" ? read(item) : listOf(item, read);
  });
}
