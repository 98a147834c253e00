import { closeSync, constants, fstatSync, openSync, readSync, type Stats, statSync } from "node:fs";

/** Thrown for a file that is larger than the limit. */
export class FileTooLargeError extends Error {
  constructor(limit: number) {
    super(`it is larger than ${limit / 1024} KiB, the most that such a file may have`);
  }
}

/**
 * Reads a regular file of at most `limit` bytes; links are followed. A pipe or a device, which could be endless or block, is not
 * read, even when it replaces the file meanwhile. Throws {@link FileTooLargeError}, an Error for other problems, and what the file
 * system throws.
 */
export function readRegularFile(path: string, limit: number): Buffer<ArrayBuffer> {
  // Opening a device can have side effects.
  requireFile(statSync(path));
  // Windows does not have the flag.
  const file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    const stats = fstatSync(file);
    requireFile(stats);
    if (stats.size > limit) throw new FileTooLargeError(limit);
    // Files of the kernel report a size of 0, and others may grow.
    return readUpTo(file, limit, stats.size);
  } finally {
    closeSync(file);
  }
}

function requireFile(stats: Stats): void {
  if (!stats.isFile()) throw new Error("it is not a regular file");
}

function readUpTo(file: number, limit: number, size: number): Buffer<ArrayBuffer> {
  const pieces: Buffer<ArrayBuffer>[] = [];
  let total = 0;
  for (let want = size + 1; ; want = pieceBytes) {
    const piece = Buffer.allocUnsafe(want);
    const length = readSync(file, piece, 0, want, null);
    if (length === 0) return Buffer.concat(pieces, total);
    total += length;
    if (total > limit) throw new FileTooLargeError(limit);
    pieces.push(piece.subarray(0, length));
  }
}

const pieceBytes = 64 * 1024;
