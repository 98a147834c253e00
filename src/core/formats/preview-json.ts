/** The first `limit` characters of a value's JSON; costs no more than that, however large or deep the value is. */
export function previewJson(value: unknown, limit = 80): string {
  const text = write(value, limit);
  return text.length > limit ? `${text.slice(0, limit)}…` : text;
}

/** The whole JSON when it has at most `room` characters, else more than `room` of them. */
function write(value: unknown, room: number): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, room + 1));
  if (Array.isArray(value)) return `${writeItems(value, room)}]`;
  if (typeof value === "object" && value !== null) return `${writeMembers(value, room)}}`;
  return value === undefined ? "undefined" : JSON.stringify(value);
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

function writeMembers(value: object, room: number): string {
  let text = "{";
  for (const [key, member] of Object.entries(value) as [string, unknown][]) {
    text += `${text.length > 1 ? "," : ""}${JSON.stringify(key.slice(0, room + 1))}:`;
    if (text.length > room) break;
    text += write(member, room - text.length);
  }
  return text;
}
