/** Whether a path is that of the index of a Git repository. */
export function isGitIndex(path: string): boolean {
  return path.endsWith("/.git/index");
}

/** Bytes of an entry before its hash, and before its name, in a repository with SHA-1. */
const hashAt = 40;
const nameAt = 62;
const modeAt = 24;
const modeEnd = 28;
/** In the flags of an entry: two more bytes of flags follow. */
const extended = 0x4000;

/**
 * What an index says of files: their modes, hashes, flags and names, without what Git keeps of their times and places, which `git status`
 * writes again. Undefined: it has another form. See gitformat-index.
 */
export function gitEntries(index: Buffer): Buffer | undefined {
  if (index.length < 12 || index.toString("latin1", 0, 4) !== "DIRC") return undefined;
  const [version, count] = [index.readUInt32BE(4), index.readUInt32BE(8)];
  if (version < 2 || version > 4) return undefined;
  const parts: Buffer[] = [];
  let at = 12;
  for (let entry = 0; entry < count; entry += 1) {
    if (at + nameAt > index.length) return undefined;
    const flags = index.readUInt16BE(at + nameAt - 2);
    const start = at + nameAt + ((flags & extended) === 0 ? 0 : 2);
    const end = index.indexOf(0, nameStart(index, start, version));
    if (end === -1) return undefined;
    parts.push(index.subarray(at + modeAt, at + modeEnd), index.subarray(at + hashAt, end + 1));
    // Before version 4 an entry is filled with one to eight zeros.
    at = version === 4 ? end + 1 : at + ((end - at + 8) & ~7);
  }
  return Buffer.concat(parts);
}

/** In version 4 a number stands before the name, with seven bits in each byte. */
function nameStart(index: Buffer, start: number, version: number): number {
  let at = start;
  if (version === 4) while (((index[at] ?? 0) & 0x80) !== 0) at += 1;
  return version === 4 ? at + 1 : at;
}
