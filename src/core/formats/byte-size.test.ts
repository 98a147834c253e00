import { expect, it } from "vitest";
import { parseByteSize } from "./duration.ts";

it.each<[unknown, number]>([
  [1, 1],
  [1.9, 1],
  ["512MB", 512 * 1024 ** 2],
  ["512 MiB", 512 * 1024 ** 2],
  ["1.5g", 1.5 * 1024 ** 3],
  ["64k", 65_536],
  [" 10 ", 10],
  ["10B", 10],
])("%j is %d bytes", (value, bytes) => {
  expect(parseByteSize(value)).toBe(bytes);
});

it.each([
  0,
  -1,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  "",
  "MB",
  "1TB",
  "-1MB",
  "0",
  "1e3",
  "1,5MB",
  null,
  {},
])("%j is none", (value) => {
  expect(parseByteSize(value)).toBeUndefined();
});
