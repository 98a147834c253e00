import { expect, it } from "vitest";
import { descendantsOf } from "./list-processes.ts";

const info = (
  pid: number,
  parent: number,
): { pid: number; parent: number; group: number; started: number } => ({
  pid,
  parent,
  group: pid,
  started: 1,
});

it("finds all descendants in any order, and no other process", () => {
  const all = [info(5, 4), info(4, 2), info(2, 1), info(3, 1), info(6, 2), info(7, 3)];
  expect(descendantsOf(2, all).map(({ pid }) => pid)).toEqual([4, 6, 5]);
});

it("gives nothing for a process without children", () => {
  expect(descendantsOf(9, [info(2, 1)])).toEqual([]);
});
