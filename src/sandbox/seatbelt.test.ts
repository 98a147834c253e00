import { expect, it } from "vitest";
import { seatbeltProfile } from "./seatbelt.ts";

const lines = (profile: string): readonly string[] => profile.split("\n");

it("denies everything first, and every other line allows something", () => {
  const [version, deny, ...rest] = lines(seatbeltProfile({ read: ["/a"], write: ["/b"], network: "none" }));
  expect([version, deny]).toEqual(["(version 1)", "(deny default)"]);
  expect(rest.every((line) => line.startsWith("(allow ") && line.endsWith(")"))).toBe(true);
});

it("lets what is listed be read, and only what may be written be written", () => {
  const profile = seatbeltProfile({ read: ["/Users/me/task"], write: ["/Users/me/run/ws"], network: "none" });
  const writes = lines(profile).filter((line) => line.startsWith("(allow file-write* "));
  expect(writes).toEqual(['(allow file-write* (subpath "/Users/me/run/ws"))']);
  const reads = lines(profile).filter((line) => line.startsWith("(allow file-read* "));
  expect(reads).toHaveLength(1);
  expect(reads[0]).toContain('(subpath "/Users/me/task") (subpath "/Users/me/run/ws"))');
  expect(reads[0]).not.toContain('"/Users"');
  expect(profile).not.toContain('(subpath "/Users/me")');
  expect(profile).toContain('(literal "/Users/me") (literal "/Users") (literal "/Users/me/run"))');
});

it("has a network only when asked", () => {
  const network = (how: "none" | "host"): boolean =>
    /network|system-socket/.test(seatbeltProfile({ read: [], write: [], network: how }));
  expect([network("none"), network("host")]).toEqual([false, true]);
});

it("leaves a line out rather than allow everything when nothing is listed", () => {
  expect(seatbeltProfile({ read: [], write: [], network: "none" })).not.toContain("file-write*");
});

it("keeps a path from ending its text", () => {
  const profile = seatbeltProfile({ read: ['/a") (allow default) ("\\'], write: [], network: "none" });
  expect(profile).toContain(String.raw`(subpath "/a\") (allow default) (\"\\")`);
});
