import { expect, it } from "vitest";
import { parseFileMode } from "../step-kinds.ts";

it.each<[unknown, number]>([
  ["0644", 0o644],
  ["644", 0o644],
  ["0o755", 0o755],
  ["0777", 0o777],
  ["0000", 0],
  // What YAML makes of 0644, and of 600.
  [644, 0o644],
  [600, 0o600],
  [755, 0o755],
  [777, 0o777],
])("%j is a mode", (value, mode) => {
  expect(parseFileMode(value)).toBe(mode);
});

// Written as 0o644, 0o600, 0o755, 0o777, 0o700, 0o640, 0o664, 0o444.
it.each([0o644, 0o600, 0o755, 0o777, 0o700, 0o640, 0o664, 0o444])(
  "%j looks like bits rather than digits, and is refused",
  (value) => {
    expect(parseFileMode(value)).toBeUndefined();
  },
);

it.each(["", "rw", "0888", "07777", "64", 64, 6440, -644, 644.5, null, true, ["0644"]])(
  "%j is no mode",
  (value) => {
    expect(parseFileMode(value)).toBeUndefined();
  },
);
