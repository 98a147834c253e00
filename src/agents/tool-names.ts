/** A tool of a server. */
export interface ToolRef {
  readonly server: string;
  readonly tool: string;
}

/** What every provider accepts as the name of a function; Gemini also wants a letter or an underscore first. */
const legalName = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/;
const longestName = 64;

/**
 * Gives every tool a name that is unique and that every provider accepts: its own when it is legal and only one server
 * has it; otherwise `SERVER__TOOL`, with illegal characters replaced and, where that is too long or taken, a hash of
 * both names at its end. The order of the tools does not matter. A tool that is listed twice gets one name.
 */
export function nameTools(tools: readonly ToolRef[]): ReadonlyMap<string, ToolRef> {
  const distinct = new Map(tools.map((ref) => [keyOf(ref), ref]));
  const refs = [...distinct.values()].toSorted(byKey);
  const owners = countBy(refs.map((ref) => ref.tool));
  const keepsName = (ref: ToolRef): boolean => owners.get(ref.tool) === 1 && legalName.test(ref.tool);
  const names = new Map(refs.filter(keepsName).map((ref) => [ref.tool, ref]));
  const others = refs.filter((ref) => !keepsName(ref));
  const wanted = countBy(others.map(qualifiedName));
  for (const ref of others) {
    const name = qualifiedName(ref);
    const free = name.length <= longestName && wanted.get(name) === 1 && !names.has(name);
    names.set(free ? name : hashedName(name, ref, names), ref);
  }
  return names;
}

function keyOf({ server, tool }: ToolRef): string {
  return JSON.stringify([server, tool]);
}

function byKey(a: ToolRef, b: ToolRef): number {
  return keyOf(a) < keyOf(b) ? -1 : 1;
}

function countBy(values: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}

function qualifiedName({ server, tool }: ToolRef): string {
  const name = `${server}__${tool}`.replaceAll(/[^a-zA-Z0-9_-]/g, "_");
  return /^[a-zA-Z_]/.test(name) ? name : `_${name}`;
}

function hashedName(name: string, ref: ToolRef, taken: ReadonlyMap<string, ToolRef>): string {
  for (let round = 0; ; round += 1) {
    const suffix = `_${hash(`${round}${keyOf(ref)}`)}`;
    const candidate = `${name.slice(0, longestName - suffix.length)}${suffix}`;
    if (!taken.has(candidate)) return candidate;
  }
}

/** FNV-1a with 32 bits, over UTF-16 code units; seven characters of base 36. */
function hash(text: string): string {
  let value = 0x81_1c_9d_c5;
  for (let index = 0; index < text.length; index += 1) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01_00_01_93);
  }
  return (value >>> 0).toString(36).padStart(7, "0");
}
