import { isJsonObject } from "./json.ts";

/** The first `limit` characters of a value's JSON; costs no more than that, however large or deep the value is. */
export function previewJson(value: unknown, limit = 80): string {
  const text = write(value, limit);
  return text.length > limit ? `${text.slice(0, limit)}…` : text;
}

/** The whole JSON when it has at most `room` characters, else more than `room` of them. */
function write(value: unknown, room: number): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, room + 1));
  if (Array.isArray(value)) return `${writeItems(value, room)}]`;
  if (isJsonObject(value)) return `${writeMembers(value, room)}}`;
  return String(JSON.stringify(value));
}

function writeItems(items: readonly unknown[], room: number): string {
  let text = "[";
  for (const item of items) {
    if (text.length > 1) text += ",";
    if (text.length > room) break;
    text += write(item, room - text.length);
  }
  return text;
}

function writeMembers(members: Readonly<Record<string, unknown>>, room: number): string {
  let text = "{";
  for (const key of Object.keys(members)) {
    text += `${text.length > 1 ? "," : ""}${JSON.stringify(key.slice(0, room + 1))}:`;
    if (text.length > room) break;
    text += write(members[key], room - text.length);
  }
  return text;
}
