import { expect, it } from "vitest";
import { nameMatcher } from "./allow-list.ts";

const fits = (patterns: string[], names: string[]): string[] => names.filter(nameMatcher(patterns));

it("takes names and globs", () => {
  const names = ["read", "read_file", "write_file", "files/read", ".hidden", "Read"];
  expect(fits(["read"], names)).toEqual(["read"]);
  expect(fits(["read*"], names)).toEqual(["read", "read_file"]);
  expect(fits(["*"], names)).toEqual(names);
  expect(fits(["*_file", "read"], names)).toEqual(["read", "read_file", "write_file"]);
  expect(fits(["files/*"], names)).toEqual(["files/read"]);
  expect(fits(["{read,write}_file"], names)).toEqual(["read_file", "write_file"]);
  expect(fits(["?ead"], names)).toEqual(["read", "Read"]);
  expect(fits([], names)).toEqual([]);
});

it("takes a name for what it is, whatever its characters mean elsewhere", () => {
  expect(fits(["!read"], ["read", "!read", "write"])).toEqual(["!read"]);
  expect(fits(["a(b)[c]"], ["a(b)[c]"])).toEqual(["a(b)[c]"]);
  expect(fits(["#x"], ["#x", "x"])).toEqual(["#x"]);
  expect(fits([""], ["", "a"])).toEqual([""]);
});
